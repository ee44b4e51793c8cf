"""rapidocr's whole pipeline (detection, direction, recognition) with its ONNX Runtime session
replaced by ours reads the same text on a picture, at the same places."""
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

import braze
import rapidocr
import rapidocr.inference_engine.onnxruntime.main as engine

LINES = ["Convolutions run joined", "Braze reads 12,345 words", "Nothing leaves the chip"]


def draw_page(lines):
    """Dark text on a light ground; uint8 [320, 480, 3]."""
    image = Image.new("RGB", (480, 320), (240, 240, 236))
    for i, line in enumerate(lines):
        ImageDraw.Draw(image).text((24, 40 + 84 * i), line, (24, 26, 48),
                                   ImageFont.load_default(34))
    return np.asarray(image)


def read(picture):
    result = rapidocr.RapidOCR(params={"Global.log_level": "critical"})(picture)
    return result.txts, result.scores, result.boxes


def test_the_same_text_as_with_onnx_runtime(monkeypatch):
    picture = draw_page(LINES)
    theirs = read(picture)
    sessions = []

    class Session(braze.InferenceSession):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            sessions.append(self)

    monkeypatch.setattr(engine, "InferenceSession", Session)
    monkeypatch.setattr(engine, "SessionOptions", braze.SessionOptions)
    monkeypatch.setattr(engine, "GraphOptimizationLevel", braze.GraphOptimizationLevel)
    mine = read(picture)

    assert mine[0] == theirs[0] and list(mine[0]) == LINES
    np.testing.assert_allclose(mine[1], theirs[1], atol=1e-3)
    np.testing.assert_allclose(mine[2], theirs[2], atol=1.5)  # pixels
    assert len(sessions) == 3
    assert all(session._networks for session in sessions)
