#!/usr/bin/env python3
"""Checks onnx_torch.py on the CPU, fp32, against ONNX Runtime without optimisation.

Arguments are ONNX files (batch 1). Fused calls are replaced by their parts: what is checked is the
mapping, the folding and the matching.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import peer  # noqa: E402
from onnx_torch import TorchModel  # noqa: E402

LARGEST_ERROR = 1e-3  # of an output's range


def main():
    wrong = 0
    for file in sys.argv[1:]:
        model = peer.bind(peer.load_model(file), {})
        feeds = peer.random_feeds(model)
        expected = peer.OnnxRuntime(model, 1, optimise=False).run(feeds)
        for fused in (False, True):
            mine = TorchModel(model, fused=fused)
            error = max(peer.worst_error(mine.run(feeds), expected) for _ in range(2))
            wrong += not error <= LARGEST_ERROR
            print(f"{pathlib.Path(file).stem}, {'fused' if fused else 'eager'}: {len(mine.steps)} "
                  f"steps, {mine.fused_calls()} fused, error {error:.1e}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
