#!/usr/bin/env python3
"""Single convolutions on a GPU, with bias, residual and relu: Braze beside one cuDNN fused call.

The distinct convolutions of ResNet-50 and MobileNetV2 (every one with relu here), and the 3x3 32>64
on 1x32x128x128. A name reads kernel, channels in>out, "s" stride, "g" groups, @ input size, +z the
residual.
"""
import sys

import suite
import generate
import onnx

BATCHES = (1, 32, 128)
QUICK = ("3x3 64>64 @56", "1x1 64>256 @56 +z", "3x3 256>256 @14", "1x1 512>2048 @7 +z",
         "3x3 144>144 g144 @56")


def convolutions(network):
    """The distinct convolutions of a generated network, as arguments of generate.convolution."""
    model = onnx.shape_inference.infer_shapes(generate.NETWORKS[network](1))
    values = [*model.graph.value_info, *model.graph.input]
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
    readers = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    weights = {t.name: t.dims for t in model.graph.initializer}
    found = []
    for node in model.graph.node:
        if node.op_type != "Conv":
            continue
        a = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        normalised = readers[node.output[0]][0].output[0]
        following = readers[normalised][0]
        residual = following.op_type == "Add" and following.input[0] == normalised
        shape = shapes[node.input[0]]
        if shape[2] == 1:
            continue
        arguments = {"channels": shape[1], "size": shape[2], "out": weights[node.input[1]][0],
                     "kernel": a["kernel_shape"][0], "stride": a["strides"][0],
                     "groups": a["group"], "residual": residual}
        if arguments not in found:
            found.append(arguments)
    return found


def name_of(c):
    return (f"{c['kernel']}x{c['kernel']} {c['channels']}>{c['out']}"
            + (f" s{c['stride']}" if c["stride"] > 1 else "")
            + (f" g{c['groups']}" if c["groups"] > 1 else "")
            + f" @{c['size']}" + (" +z" if c["residual"] else ""))


def case(arguments, batch, precision="fp16"):
    name = name_of(arguments)

    def make(folder):
        file = folder / (name.replace(" ", "_").replace(">", "_") + ".onnx")
        if not file.exists():
            onnx.save(generate.convolution(**arguments), file)
        return file

    return {"name": name, "batch": batch, "precision": precision, "dims": {"N": batch},
            "quick": name in QUICK and batch < 128, "make": make}


def all_cases():
    first = {"channels": 32, "size": 128, "out": 64, "kernel": 3, "stride": 1, "groups": 1,
             "residual": False}
    cases = [case(first, 1, precision) | {"quick": True}
             for precision in ("fp16", "tf32", "fp32")]
    for network in ("resnet50", "mobilenet_v2"):
        found = convolutions(network)
        cases += [case(c, batch) for batch in BATCHES for c in found]
    return cases


def main():
    args = suite.arguments(__doc__.splitlines()[0], "gpu_kernels").parse_args()
    return suite.run("Single convolutions on a GPU", "convolution", all_cases(), args,
                     model_io=False)


if __name__ == "__main__":
    sys.exit(main())
