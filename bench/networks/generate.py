#!/usr/bin/env python3
"""Writes well-known networks as ONNX files with seeded random weights (He initialisation).

The batch is the symbolic dimension N unless --batch is given. BatchNorm's running statistics match
the activations that random inputs produce, so that these keep a size that float16 holds.
"""
import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8


class Network:
    """Nodes and weights in the order of the calls. Every call takes and returns a value's name.

    power[value] estimates the mean square of the value's elements, channels[value] is its axis 1.
    """

    def __init__(self, name, shape, batch="N", seed=0):
        self.name = name
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights = [], []
        self.input = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, *shape])
        self.batch = batch
        self.power = {"x": 1 / 3}  # uniform in [-1, 1)
        self.channels = {"x": shape[0]}

    def weight(self, suffix, array):
        name = f"w{len(self.weights)}_{suffix}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def normal(self, suffix, shape, deviation, mean=0.0):
        values = self.rng.standard_normal(shape, dtype=np.float32)
        return self.weight(suffix, values * np.float32(deviation) + np.float32(mean))

    def node(self, op, inputs, power, channels=None, **attributes):
        output = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], output, **attributes))
        self.power[output] = power
        self.channels[output] = channels or self.channels[inputs[0]]
        return output

    def conv(self, x, out, kernel, stride=1, pad=None, groups=1, bias=False):
        c = self.channels[x] // groups
        pad = kernel // 2 if pad is None else pad
        inputs = [x, self.normal("w", (out, c, kernel, kernel), (2 / (c * kernel**2)) ** 0.5)]
        if bias:
            inputs.append(self.normal("b", (out,), 0.1))
        return self.node("Conv", inputs, 2 * self.power[x], out, kernel_shape=[kernel] * 2,
                         strides=[stride] * 2, pads=[pad] * 4, group=groups)

    def conv_transpose(self, x, out):
        """2x2, stride 2: each output pixel sees one input pixel."""
        c = self.channels[x]
        inputs = [x, self.normal("w", (c, out, 2, 2), c ** -0.5), self.normal("b", (out,), 0.1)]
        return self.node("ConvTranspose", inputs, self.power[x], out, kernel_shape=[2, 2],
                         strides=[2, 2])

    def batch_norm(self, x):
        c = self.channels[x]
        variance = self.power[x] * self.rng.uniform(0.8, 1.2, c).astype(np.float32)
        inputs = [x, self.normal("scale", (c,), 0.1, 1.0), self.normal("shift", (c,), 0.1),
                  self.normal("mean", (c,), 0.1 * self.power[x] ** 0.5),
                  self.weight("variance", variance)]
        return self.node("BatchNormalization", inputs, 1.0, epsilon=1e-5)

    def linear(self, x, out):
        c = self.channels[x]
        inputs = [x, self.normal("w", (out, c), (2 / c) ** 0.5), self.normal("b", (out,), 0.1)]
        return self.node("Gemm", inputs, 2 * self.power[x], out, transB=1)

    def relu(self, x):
        return self.node("Relu", [x], self.power[x] / 2)

    def relu6(self, x):
        bounds = [self.weight(name, np.float32(value)) for name, value in (("min", 0), ("max", 6))]
        return self.node("Clip", [x, *bounds], self.power[x] / 2)

    def sigmoid(self, x):
        return self.node("Sigmoid", [x], 0.3)

    def silu(self, x):
        return self.mul(x, self.sigmoid(x), self.power[x] * 0.36)

    def mul(self, a, b, power=None):
        return self.node("Mul", [a, b], power or self.power[a] * self.power[b])

    def add(self, a, b):
        return self.node("Add", [a, b], self.power[a] + self.power[b])

    def concat(self, *values):
        return self.node("Concat", values, max(self.power[v] for v in values),
                         sum(self.channels[v] for v in values), axis=1)

    def max_pool(self, x, kernel, stride, pad=0):
        return self.node("MaxPool", [x], self.power[x] * 2, kernel_shape=[kernel] * 2,
                         strides=[stride] * 2, pads=[pad] * 4)

    def upsample(self, x):
        """Nearest, by two."""
        scales = self.weight("scales", np.array([1, 1, 2, 2], np.float32))
        return self.node("Resize", [x, "", scales], self.power[x], mode="nearest",
                         coordinate_transformation_mode="asymmetric", nearest_mode="floor")

    def global_pool(self, x):
        return self.node("GlobalAveragePool", [x], self.power[x] / 3)

    def flatten(self, x, pixels=1):
        return self.node("Flatten", [x], self.power[x], self.channels[x] * pixels, axis=1)

    def model(self, output, shape):
        self.nodes[-1].output[0] = "y"
        assert output == self.nodes[-1].name
        value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [self.batch, *shape])
        graph = helper.make_graph(self.nodes, self.name, [self.input], [value], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)],
                                 ir_version=IR_VERSION, producer_name="braze bench")


def classifier(net, x):
    return net.model(net.linear(net.flatten(net.global_pool(x)), 1000), [1000])


def resnet(name, batch, blocks, bottleneck):
    net = Network(name, (3, 224, 224), batch)

    def unit(x, out, kernel, stride=1):
        return net.batch_norm(net.conv(x, out, kernel, stride))

    x = net.max_pool(net.relu(unit("x", 64, 7, 2)), 3, 2, 1)
    for stage, count in enumerate(blocks):
        width = 64 << stage
        out = width * 4 if bottleneck else width
        for i in range(count):
            stride = 2 if stage and not i else 1
            shortcut = x
            if bottleneck:
                x = net.relu(unit(x, width, 1))
                x = net.relu(unit(x, width, 3, stride))
                x = unit(x, out, 1)
            else:
                x = unit(net.relu(unit(x, width, 3, stride)), width, 3)
            if net.channels[shortcut] != out or stride != 1:
                shortcut = unit(shortcut, out, 1, stride)
            x = net.relu(net.add(x, shortcut))
    return classifier(net, x)


def mobilenet_v2(batch):
    net = Network("mobilenet_v2", (3, 224, 224), batch)

    def unit(x, out, kernel, stride=1, groups=1):
        return net.relu6(net.batch_norm(net.conv(x, out, kernel, stride, groups=groups)))

    x = unit("x", 32, 3, 2)
    for expand, out, count, first_stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2),
                                             (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                             (6, 320, 1, 1)):
        for i in range(count):
            stride = 1 if i else first_stride
            width = net.channels[x] * expand
            h = unit(x, width, 1) if expand > 1 else x
            h = unit(h, width, 3, stride, width)
            h = net.batch_norm(net.conv(h, out, 1))
            x = net.add(h, x) if stride == 1 and net.channels[x] == out else h
    return classifier(net, unit(x, 1280, 1))


def efficientnet_b0(batch):
    net = Network("efficientnet_b0", (3, 224, 224), batch)

    def unit(x, out, kernel, stride=1, groups=1):
        return net.silu(net.batch_norm(net.conv(x, out, kernel, stride, groups=groups)))

    def squeeze_excite(x, squeezed):
        s = net.silu(net.conv(net.global_pool(x), squeezed, 1, bias=True))
        return net.mul(x, net.sigmoid(net.conv(s, net.channels[x], 1, bias=True)))

    x = unit("x", 32, 3, 2)
    for expand, kernel, first_stride, out, count in ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2),
                                                     (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
                                                     (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
                                                     (6, 3, 1, 320, 1)):
        for i in range(count):
            stride = 1 if i else first_stride
            width = net.channels[x] * expand
            h = unit(x, width, 1) if expand > 1 else x
            h = squeeze_excite(unit(h, width, kernel, stride, width), net.channels[x] // 4)
            h = net.batch_norm(net.conv(h, out, 1))
            x = net.add(h, x) if stride == 1 and net.channels[x] == out else h
    return classifier(net, unit(x, 1280, 1))


def unet(name, batch, transposed):
    """Four levels, 64 to 1024 channels, padded convolutions; grey picture in, two classes out."""
    net = Network(name, (1, 256, 256), batch)

    def unit(x, out):
        return net.relu(net.conv(x, out, 3, bias=True))

    x, skips = "x", []
    for level in range(4):
        x = unit(unit(x, 64 << level), 64 << level)
        skips.append(x)
        x = net.max_pool(x, 2, 2)
    x = unit(unit(x, 1024), 1024)
    for level in reversed(range(4)):
        out = 64 << level
        x = net.conv_transpose(x, out) if transposed else unit(net.upsample(x), out)
        x = unit(unit(net.concat(skips[level], x), out), out)
    return net.model(net.conv(x, 2, 1, bias=True), [2, 256, 256])


def vgg16(batch):
    net = Network("vgg16", (3, 224, 224), batch)
    x = "x"
    for out, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            x = net.relu(net.conv(x, out, 3, bias=True))
        x = net.max_pool(x, 2, 2)
    x = net.flatten(x, 7 * 7)
    for _ in range(2):
        x = net.relu(net.linear(x, 4096))
    return net.model(net.linear(x, 1000), [1000])


def convolution(channels, size, out, kernel, stride=1, pad=None, groups=1, act="relu",
                residual=False, batch="N", name="convolution"):
    """One convolution with bias, then a second input "z" added, then relu, relu6 or None."""
    net = Network(name, (channels, size, size), batch)
    y = net.conv("x", out, kernel, stride, pad, groups, bias=True)
    pad = kernel // 2 if pad is None else pad
    shape = [out, *[(size + 2 * pad - kernel) // stride + 1] * 2]
    if residual:
        net.power["z"], net.channels["z"] = 1 / 3, out
        y = net.add(y, "z")
    if act:
        y = getattr(net, act)(y)
    model = net.model(y, shape)
    if residual:
        model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT,
                                                               [batch, *shape]))
    return model


NETWORKS = {
    "conv_3x3_32_64_128": lambda batch="N": convolution(32, 128, 64, 3, batch=batch,
                                                        name="conv_3x3_32_64_128"),
    "resnet18": lambda batch="N": resnet("resnet18", batch, (2, 2, 2, 2), False),
    "resnet50": lambda batch="N": resnet("resnet50", batch, (3, 4, 6, 3), True),
    "mobilenet_v2": lambda batch="N": mobilenet_v2(batch),
    "efficientnet_b0": lambda batch="N": efficientnet_b0(batch),
    "unet": lambda batch="N": unet("unet", batch, True),
    "unet_nearest": lambda batch="N": unet("unet_nearest", batch, False),
    "vgg16": lambda batch="N": vgg16(batch),
}


def write(name, folder, batch="N"):
    """The file FOLDER/NAME.onnx, made if it is not there yet."""
    file = pathlib.Path(folder) / f"{name}.onnx"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        onnx.save(NETWORKS[name](batch), part)
        part.rename(file)
    return file


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(NETWORKS)}; default: all")
    parser.add_argument("--batch", type=int, help="a fixed batch instead of the dimension N")
    args = parser.parse_args()
    for name in args.names or NETWORKS:
        if name not in NETWORKS:
            parser.error(f"there is no network '{name}'; there are {', '.join(NETWORKS)}")
        print(write(name, args.folder, args.batch or "N"))


if __name__ == "__main__":
    main()
