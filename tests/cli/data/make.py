#!/usr/bin/env python3
"""Writes the pictures and models of this folder."""
import pathlib

import numpy as np
import onnx
import onnx.parser
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent


def model(name, text):
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]>\n{text}'),
              HERE / f"{name}.onnx")


def main():
    # Pixel (row y, column x) is (10 y, 20 x, 100 + y + x).
    y, x = np.mgrid[0:5, 0:7]
    pixels = np.stack([10 * y, 20 * x, 100 + y + x], axis=-1).astype(np.uint8)
    Image.fromarray(pixels).save(HERE / "ramp.png")
    # One colour survives JPEG and scaling.
    Image.new("RGB", (16, 8), (200, 100, 50)).save(HERE / "plain.jpg", quality=95)

    model("picture", "picture (float[1,3,5,7] x) => (float[1,3,5,7] y) { y = Identity(x) }")
    model("pixels", "pixels (uint8[1,5,7,3] x) => (uint8[1,5,7,3] y) { y = Identity(x) }")
    model("half", "half (float16[1,3,5,7] x) => (float16[1,3,5,7] y) { y = Identity(x) }")
    # Outputs whose names are no file names, or become the same one.
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]>\n'
        "names (float[1,2] x) => (float[1,2] a, float[1,2] b, float[1,2] c, float[1,2] d)\n"
        "{ a = Relu(x)\nb = Neg(x)\nc = Abs(x)\nd = Exp(x) }")
    names = {"a": "dir/y:0", "b": "dir_y_0", "c": "../../etc/passwd", "d": "\x1b[31m\u00e9"}
    for node in proto.graph.node:
        node.output[0] = names[node.output[0]]
    for output in proto.graph.output:
        output.name = names[output.name]
    onnx.save(proto, HERE / "names.onnx")

    # Millionths of sums of 144 products, as integers: fp32 does not get all of them right.
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]>\n'
        "unstable (float[1,16,6,6] x) => (int32[1,8,4,4] y)\n"
        "{ c = Conv(x, w)\nm = Mul(c, million)\ny = Cast<to = 6>(m) }")
    weights = np.random.default_rng(0).uniform(-1, 1, (8, 16, 3, 3)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(1e6), "million"))
    onnx.save(proto, HERE / "unstable.onnx")


if __name__ == "__main__":
    main()
