#!/usr/bin/env python3
"""Reads text on pictures, with the networks of PyPI's rapidocr compiled by Braze.

For the direction and the recognition network it shows what Braze made of them (which nodes became
one kernel, what stayed apart and why), what they say about pictures drawn here, and how long that
takes beside ONNX Runtime, in turns in the same run. The detection network runs on a whole page.
Exits 1 if a text is read wrongly or ONNX Runtime disagrees.
"""
import argparse
import collections
import pathlib
import sys

import numpy as np
import onnx
from PIL import Image, ImageDraw, ImageFont

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "bench"))
import peer  # noqa: E402

LINES = ["Convolutions run joined", "1x1 after 3x3, one kernel", "Braze reads 12,345 words",
         "Nothing leaves the chip"]
HEIGHT, WIDTH = 48, 320          # of a line for the recognition network
PAGE_HEIGHT, PAGE_WIDTH = 480, 640
LARGEST_ERROR = 1e-3             # of an output's range, against ONNX Runtime


def draw_line(text, width=None):
    """Dark text on a light, slightly shaded ground; uint8 [48, width, 3]."""
    font = ImageFont.load_default(30)
    left, top, right, bottom = font.getbbox(text)
    image = Image.new("RGB", (width or right - left + 20, HEIGHT), (236, 238, 232))
    ImageDraw.Draw(image).text((10 - left, (HEIGHT - top - bottom) / 2), text, (28, 30, 52), font)
    return np.asarray(image)


def network_input(picture, width):
    """Scaled to `width` at most, values -1 to 1, zeros to the right; float32 [1, 3, 48, width]."""
    scaled_width = min(width, round(picture.shape[1] * HEIGHT / picture.shape[0]))
    scaled = Image.fromarray(picture).resize((scaled_width, HEIGHT), Image.Resampling.BILINEAR)
    values = np.zeros((1, 3, HEIGHT, width), np.float32)
    values[0, :, :, :scaled_width] = np.asarray(scaled, np.float32).transpose(2, 0, 1) / 127.5 - 1
    return values


def decode(probabilities, characters):
    """CTC, greedily: the best class of each step, repeats merged, blanks (class 0) dropped."""
    best = probabilities[0].argmax(axis=1)
    kept = [k for i, k in enumerate(best) if k != 0 and (i == 0 or k != best[i - 1])]
    return "".join(characters[k] for k in kept)


def read_characters(model):
    listed = next(p.value for p in model.metadata_props if p.key == "character")
    return ["", *listed.split("\n"), " "]


def show_plan(name, model, plan):
    """Kernels by the operators that they join, then what was not joined and why."""
    operators = {}
    for node in model.graph.node:
        operators[node.name] = operators[node.output[0]] = node.op_type
    joined = collections.Counter()
    for kernel in plan["kernels"]:
        kinds = collections.Counter(operators.get(node, node) for node in kernel["nodes"])
        text = " + ".join(f"{n} {kind}" if n > 1 else kind for kind, n in kinds.items())
        joined[kernel["kind"], text or "layout change"] += 1
    print(f"\n{name}: of {len(model.graph.node)} nodes {len(plan['folded'])} are folded away, the "
          f"rest is {plan['launches']} kernels")
    for (kind, text), count in sorted(joined.items(), key=lambda item: (-item[1], item[0])):
        print(f"  {count:3} x {kind:9} {text}")
    reasons = collections.defaultdict(list)
    for join in plan["not_fused"]:
        reasons[join["rule"]].append(join)
    print(f"  not joined: {len(plan['not_fused'])}" + (", for example" if reasons else ""))
    for rule, joins in sorted(reasons.items()):
        print(f"  {len(joins):3} x {rule:17} {' and '.join(joins[0]['nodes'])}: "
              f"{joins[0]['reason']}")


class Network:
    """One model in both tools, at a fixed input size."""

    def __init__(self, args, file, dims):
        self.model = peer.bind(peer.load_model(file), dims)
        self.input = self.model.graph.input[0].name
        self.braze = peer.Braze(args.braze, file, args.threads, dims)
        self.runtime = peer.OnnxRuntime(self.model, args.threads)
        self.plain = peer.OnnxRuntime(self.model, args.threads, optimise=False)
        self.worst = 0.0

    def __call__(self, values):
        """The network's output by Braze; notes how far ONNX Runtime is from it."""
        feeds = {self.input: values}
        got = self.braze.run(feeds)
        self.worst = max(self.worst, peer.worst_error(got, self.plain.run(feeds)))
        return next(iter(got.values()))

    def show_times(self, values, rounds, iterations):
        feeds = {self.input: values}
        times = peer.in_turns({"onnxruntime": lambda: self.runtime.bench(feeds, iterations),
                               "braze": lambda: self.braze.bench(max(iterations, 50))}, rounds)
        mine, theirs = times["braze"], times["onnxruntime"]
        print(f"  Braze        min {mine['min_us'] / 1e3:8.3f} ms, median "
              f"{mine['median_us'] / 1e3:8.3f} ms\n"
              f"  ONNX Runtime min {theirs['min_us'] / 1e3:8.3f} ms, median "
              f"{theirs['median_us'] / 1e3:8.3f} ms   (Braze takes "
              f"{mine['min_us'] / theirs['min_us']:.2f} of the time)\n"
              f"  largest difference from ONNX Runtime without optimisation: {self.worst:.1e} of "
              "the output's range")


def show_direction(args, file):
    network = Network(args, file, {"x.2": HEIGHT, "x.3": 192})
    show_plan("direction", network.model, network.braze.explain())
    right = 0
    for text in LINES:
        line = draw_line(text)
        for turned, picture in ((0, line), (180, line[::-1, ::-1])):
            upright, upside_down = network(network_input(picture, 192))[0]
            found = 180 if upside_down > upright else 0
            right += found == turned
            print(f"  {text!r} turned by {turned:3}: found {found:3} "
                  f"({max(upright, upside_down):.3f})")
    network.show_times(network_input(draw_line(LINES[0]), 192), args.rounds, 100)
    return right == 2 * len(LINES) and network.worst < LARGEST_ERROR


def show_recognition(args, file):
    network = Network(args, file, {"x.3": WIDTH})
    show_plan("recognition", network.model, network.braze.explain())
    characters = read_characters(onnx.load(file))
    right = 0
    for text in LINES:
        found = decode(network(network_input(draw_line(text), WIDTH)), characters)
        right += found == text
        print(f"  drawn {text!r}, read {found!r}")
    network.show_times(network_input(draw_line(LINES[0]), WIDTH), args.rounds, 50)
    return right == len(LINES) and network.worst < LARGEST_ERROR


def show_detection(args, file):
    network = Network(args, file, {"x.2": PAGE_HEIGHT, "x.3": PAGE_WIDTH})
    show_plan("detection", network.model, network.braze.explain())
    page = np.full((PAGE_HEIGHT, PAGE_WIDTH, 3), (236, 238, 232), np.uint8)
    is_line = np.zeros((PAGE_HEIGHT, PAGE_WIDTH), bool)
    for i, text in enumerate(LINES):
        line = draw_line(text)
        top, left = 40 + 110 * i, 30 + 40 * i
        page[top:top + HEIGHT, left:left + line.shape[1]] = line
        is_line[top:top + HEIGHT, left:left + line.shape[1]] = True
    mean = np.array([0.485, 0.456, 0.406], np.float32)
    std = np.array([0.229, 0.224, 0.225], np.float32)
    values = ((page.astype(np.float32) / 255 - mean) / std).transpose(2, 0, 1)[None]
    is_text = network(np.ascontiguousarray(values))[0, 0] > 0.3
    inside = is_text[is_line].mean()
    outside = is_text[~is_line].mean()
    print(f"  {inside:.0%} of the pixels of the drawn lines are text, {outside:.1%} of the others")
    network.show_times(values, min(args.rounds, 2), 5)
    return inside > 0.15 and outside < 0.01 and network.worst < LARGEST_ERROR


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--braze", default=HERE.parent / "build/release/bin/braze")
    parser.add_argument("--threads", type=int, default=1, help="of either tool")
    parser.add_argument("--rounds", type=int, default=3, help="of measuring in turns")
    args = parser.parse_args()
    models = peer.ocr_models()
    print(f"{peer.hardware()}; {args.threads} thread{'s' * (args.threads != 1)}")
    fine = [show_direction(args, models["cls"]), show_recognition(args, models["rec"]),
            show_detection(args, models["det"])]
    print("\nall read rightly" if all(fine) else "\nsomething was read wrongly")
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
