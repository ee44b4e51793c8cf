"""Chains of convolutions as ONNX models with seeded weights: the shapes that fused convolutions are
measured by. A name reads kernel, channels in>out, "s" stride, "dw" depthwise, @ input size, "+x"
where the input is added before the last relu.
"""
import generate
import numpy as np
import onnx
from onnx import TensorProto, helper

# (channels, size), then (kernel, outputs[, stride]) of each convolution; "+x" adds the input.
SEEDS = [
    (64, 56, (3, 64), (1, 64)), (64, 56, (3, 64), (1, 256)), (64, 56, (3, 64), (3, 64)),
    (256, 56, (1, 64), (3, 64), (1, 256), "+x"), (64, 56, (1, 64), (1, 256)),
    (128, 28, (3, 128), (1, 512)), (128, 28, (3, 128), (3, 128)), (256, 14, (3, 256), (3, 256)),
    (32, 128, (3, 32), (3, 32)), (16, 224, (1, 16), (1, 16)),
]
RESIDUAL = [  # ResNet's blocks
    (64, 56, (3, 64), (3, 64), "+x"), (128, 28, (3, 128), (3, 128), "+x"),
    (512, 28, (1, 128), (3, 128), (1, 512), "+x"),
]
# C. Xing et al., Bolt (MLSys 2022), table of 3x3 and 1x1 convolutions; batch 32.
BOLT = [
    (3, 224, (3, 48, 2), (1, 48)), (48, 112, (3, 48, 2), (1, 48)), (48, 56, (3, 48), (1, 48)),
    (3, 224, (3, 64, 2), (1, 64)), (64, 112, (3, 64, 2), (1, 64)), (64, 56, (3, 64), (1, 64)),
]
# S. Zheng et al., Chimera (HPCA 2023), table of convolution chains C1 to C8.
CHIMERA = [
    (64, 112, (3, 192, 2), (1, 128)), (32, 147, (3, 64, 2), (1, 80)), (64, 56, (3, 128), (1, 64)),
    (128, 28, (3, 256), (1, 128)), (16, 227, (3, 64, 4), (1, 16)), (64, 56, (1, 64), (3, 64)),
    (64, 56, (1, 64), (1, 64)), (256, 56, (1, 256), (1, 64)),
]
# Rows, inputs, outputs of each product.
PRODUCTS = [(81920, 576, 64, 128), (81920, 576, 64, 256)]
# MobileNetV2's blocks: channels, size, expanded, outputs, stride.
MOBILE = [(24, 56, 144, 24, 1), (32, 28, 192, 32, 1), (64, 14, 384, 64, 1), (96, 14, 576, 96, 1),
          (24, 56, 144, 32, 2)]


def convolutions(channels, size, *parts):
    net = generate.Network("chain", (channels, size, size))
    convs = [part for part in parts if part != "+x"]
    y = "x"
    for i, (kernel, outputs, *stride) in enumerate(convs):
        y = net.conv(y, outputs, kernel, *stride, bias=True)
        size = (size + 2 * (kernel // 2) - kernel) // (stride or [1])[0] + 1
        if "+x" in parts and i + 1 == len(convs):
            y = net.add(y, "x")
        y = net.relu(y)
    return net.model(y, [convs[-1][1], size, size])


def inverted_residual(channels, size, expanded, outputs, stride):
    net = generate.Network("block", (channels, size, size))
    y = net.relu6(net.conv("x", expanded, 1, bias=True))
    y = net.relu6(net.conv(y, expanded, 3, stride, groups=expanded, bias=True))
    y = net.conv(y, outputs, 1, bias=True)
    if stride == 1 and outputs == channels:
        y = net.add(y, "x")
    return net.model(y, [outputs, size // stride, size // stride])


def products(rows, inputs, *outputs):
    rng, nodes, weights, at = np.random.default_rng(0), [], [], "x"
    for i, columns in enumerate(outputs):
        w = rng.standard_normal((columns, inputs), dtype=np.float32) * (2 / inputs) ** 0.5
        b = rng.standard_normal(columns, dtype=np.float32) * np.float32(0.1)
        weights += [onnx.numpy_helper.from_array(w.astype(np.float32), f"w{i}"),
                    onnx.numpy_helper.from_array(b, f"b{i}")]
        last = i + 1 == len(outputs)
        nodes += [helper.make_node("Gemm", [at, f"w{i}", f"b{i}"], [f"g{i}"], f"gemm{i}", transB=1),
                  helper.make_node("Relu", [f"g{i}"], ["y" if last else f"r{i}"], f"relu{i}")]
        at, inputs = f"r{i}", columns
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, weights[0].dims[1]])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, outputs[-1]])
    graph = helper.make_graph(nodes, "products", [x], [y], weights)
    model = helper.make_model(graph, ir_version=generate.IR_VERSION,
                              opset_imports=[helper.make_opsetid("", generate.OPSET)])
    onnx.checker.check_model(model)
    return model


def name_of(channels, size, *parts):
    names = []
    for part in parts:
        if part == "+x":
            continue
        kernel, outputs, *stride = part
        names.append(f"{kernel}x{kernel} {'' if names else channels}>{outputs}"
                     + (f" s{stride[0]}" if stride else ""))
    return ", ".join(names) + f" @{size}" + (" +x" if "+x" in parts else "")


def block_name(channels, size, expanded, outputs, stride):
    depthwise = "dw3x3 s2" if stride == 2 else "dw3x3"
    residual = " +x" if stride == 1 and outputs == channels else ""
    return f"1x1 {channels}>{expanded}, {depthwise}, 1x1 >{outputs} @{size}{residual}"


def write(name, build, folder):
    """The file of a model in a folder; made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / ("".join(c if c.isalnum() else "_" for c in name) + ".onnx")
    if not file.exists():
        onnx.save(build(), file)
    return file
