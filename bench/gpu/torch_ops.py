"""ONNX operators in PyTorch: OPS[name](a, *inputs), `a` the node's attributes and "opset".

Inputs that decide shapes or bounds (HOST_INPUTS) are CPU tensors, all others lie on the device.
"""
import math

import torch
import torch.nn.functional as F

HOST_INPUTS = {"Reshape": {1}, "Expand": {1}, "Tile": {1}, "Slice": {1, 2, 3, 4}, "Split": {1},
               "Squeeze": {1}, "Unsqueeze": {1}, "ReduceMean": {1}, "ReduceSum": {1}, "Pad": {1, 2},
               "ReduceMax": {1}, "Clip": {1, 2}, "Resize": {1, 2, 3}, "ConstantOfShape": {0}}


def window(a, x, kernel):
    """(strides, dilations, pads before, pads after) of a convolution or pool over x."""
    rank = len(kernel)
    strides = a.get("strides", [1] * rank)
    dilations = a.get("dilations", [1] * rank)
    pads = a.get("pads", [0] * 2 * rank)
    mode = a.get("auto_pad", "NOTSET")
    if mode.startswith("SAME"):
        totals = [max(0, (math.ceil(size / s) - 1) * s + (k - 1) * d + 1 - size)
                  for size, s, k, d in zip(x.shape[2:], strides, kernel, dilations)]
        small = [t // 2 for t in totals]
        large = [t - s for t, s in zip(totals, small)]
        pads = small + large if mode == "SAME_UPPER" else large + small
    return strides, dilations, list(pads[:rank]), list(pads[rank:])


def padded(x, before, after, value=0.0):
    """(x, pads): pads that are equal on both sides are left to the operator, others are made."""
    if before == after:
        return x, before
    flat = [p for pair in zip(reversed(before), reversed(after)) for p in pair]
    return F.pad(x, flat, value=value), [0] * len(before)


def conv(a, x, w, b=None):
    strides, dilations, before, after = window(a, x, w.shape[2:])
    x, pads = padded(x, before, after)
    return torch.convolution(x, w, b, strides, pads, dilations, False, [0] * len(pads),
                             a.get("group", 1))


def conv_relu(a, x, w, b):
    """One cuDNN call where there is a GPU and cuDNN takes it, else its parts."""
    if x.is_cuda and not a.get("separate"):
        strides, dilations, before, _ = window(a, x, w.shape[2:])
        try:
            return torch.cudnn_convolution_relu(x, w, b, strides, before, dilations,
                                                a.get("group", 1))
        except RuntimeError:
            a["separate"] = True
    return torch.relu_(conv(a, x, w, b))


def conv_add_relu(a, x, w, b, z):
    if x.is_cuda and not a.get("separate"):
        strides, dilations, before, _ = window(a, x, w.shape[2:])
        try:
            return torch.cudnn_convolution_add_relu(x, w, z, 1.0, b, strides, before,
                                                    dilations, a.get("group", 1))
        except RuntimeError:
            a["separate"] = True
    return torch.relu_(conv(a, x, w, b) + z)


def conv_transpose(a, x, w, b=None):
    strides, dilations, before, after = window(a, x, w.shape[2:])
    assert before == after and a.get("auto_pad", "NOTSET") == "NOTSET" and "output_shape" not in a
    return torch.convolution(x, w, b, strides, before, dilations, True,
                             a.get("output_padding", [0] * len(before)), a.get("group", 1))


def max_pool(a, x):
    strides, dilations, before, after = window(a, x, a["kernel_shape"])
    x, pads = padded(x, before, after, -math.inf)
    return F.max_pool2d(x, a["kernel_shape"], strides, pads, dilations, bool(a.get("ceil_mode")))


def average_pool(a, x):
    strides, _, before, after = window(a, x, a["kernel_shape"])
    assert before == after
    return F.avg_pool2d(x, a["kernel_shape"], strides, before, bool(a.get("ceil_mode")),
                        bool(a.get("count_include_pad")))


def gemm(a, x, w, b=None):
    if a.get("transA"):
        x = x.t()
    if not a.get("transB"):
        w = w.t()
    if a.get("alpha", 1.0) == a.get("beta", 1.0) == 1.0 and (b is None or b.dim() == 1):
        return F.linear(x, w, b)
    y = a.get("alpha", 1.0) * (x @ w.t())
    return y if b is None else y + a.get("beta", 1.0) * b


def softmax(a, x):
    if a["opset"] >= 13:
        return x.softmax(a.get("axis", -1))
    axis = a.get("axis", 1) % x.dim()
    return x.flatten(axis).softmax(-1).reshape(x.shape)


def clip(a, x, low=None, high=None):
    low = a.get("min", -math.inf) if low is None else low.item()
    high = a.get("max", math.inf) if high is None else high.item()
    return x.clamp(low, high)


def prelu(a, x, slope):
    if slope.numel() in (1, x.shape[1]) and (slope.dim() == x.dim() - 1 or slope.numel() == 1):
        return F.prelu(x, slope.reshape(-1))
    return torch.where(x < 0, x * slope, x)


def hard_sigmoid(a, x):
    if abs(a.get("alpha", 0.2) - 1 / 6) < 1e-6 and a.get("beta", 0.5) == 0.5:
        return F.hardsigmoid(x)
    return (x * a.get("alpha", 0.2) + a.get("beta", 0.5)).clamp(0, 1)


def resize(a, x, roi=None, scales=None, sizes=None):
    size = sizes.tolist() if sizes is not None else [
        int(math.floor(d * s)) for d, s in zip(x.shape, scales.tolist())]
    mode, coordinates = a.get("mode", "nearest"), a.get("coordinate_transformation_mode",
                                                        "half_pixel")
    if mode == "nearest":
        assert coordinates == "asymmetric" and a.get("nearest_mode") == "floor"
        return F.interpolate(x, size[2:], mode="nearest")
    assert mode == "linear" and x.dim() == 4
    corners = coordinates == "align_corners"
    assert corners or coordinates in ("half_pixel", "pytorch_half_pixel")
    return F.interpolate(x, size[2:], mode="bilinear", align_corners=corners)


def pad(a, x, pads=None, value=None):
    pads = a["pads"] if pads is None else pads.tolist()
    value = a.get("value", 0.0) if value is None else value.item()
    rank = x.dim()
    flat = [p for axis in reversed(range(rank)) for p in (pads[axis], pads[axis + rank])]
    return F.pad(x, flat, a.get("mode", "constant"), value)


def slice_(a, x, starts=None, ends=None, axes=None, steps=None):
    starts = a["starts"] if starts is None else starts.tolist()
    ends = a["ends"] if ends is None else ends.tolist()
    axes = a.get("axes", range(len(starts))) if axes is None else axes.tolist()
    steps = [1] * len(starts) if steps is None else steps.tolist()
    index = [slice(None)] * x.dim()
    for start, end, axis, step in zip(starts, ends, axes, steps):
        index[axis] = slice(start, end, step)
    return x[tuple(index)]


def split(a, x, sizes=None):
    axis = a.get("axis", 0)
    sizes = a.get("split") if sizes is None else sizes.tolist()
    return x.split(sizes or x.shape[axis] // a["outputs"], axis)


def gather(a, x, indices):
    axis = a.get("axis", 0) % x.dim()
    indices = torch.where(indices < 0, indices + x.shape[axis], indices)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1:])
    return x.index_select(axis, indices.reshape(-1)).reshape(shape)


def reshape(a, x, shape):
    shape = [x.shape[i] if d == 0 and not a.get("allowzero") else d
             for i, d in enumerate(shape.tolist())]
    return x.reshape(shape)


def squeeze(a, x, axes=None):
    axes = a.get("axes") if axes is None else axes.tolist()
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


def unsqueeze(a, x, axes=None):
    axes = a["axes"] if axes is None else axes.tolist()
    rank = x.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


def reduction(function):
    def reduce(a, x, axes=None):
        axes = a.get("axes", list(range(x.dim()))) if axes is None else axes.tolist()
        return function(x, axes, bool(a.get("keepdims", 1)))
    return reduce


def divide(a, x, y):
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


def depth_to_space(a, x):
    n, c, h, w = x.shape
    r = a["blocksize"]
    if a.get("mode", "DCR") == "CRD":
        return F.pixel_shuffle(x, r)
    y = x.reshape(n, r, r, c // r**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return y.reshape(n, c // r**2, h * r, w * r)


def batch_norm(a, x, scale, shift, mean, variance):
    return F.batch_norm(x, mean, variance, scale, shift, False, 0.0, a.get("epsilon", 1e-5))


def plain(function):
    """An operator without attributes."""
    return lambda a, *inputs: function(*inputs)


DTYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool, 10: torch.float16}

OPS = {
    "Conv": conv, "ConvRelu": conv_relu, "ConvAddRelu": conv_add_relu, "Silu": plain(F.silu),
    "ConvTranspose": conv_transpose, "BatchNormalization": batch_norm, "MaxPool": max_pool,
    "AveragePool": average_pool, "GlobalAveragePool": plain(lambda x: x.mean((2, 3), True)),
    "GlobalMaxPool": plain(lambda x: x.amax((2, 3), True)), "Gemm": gemm,
    "MatMul": plain(torch.matmul), "Softmax": softmax, "Clip": clip, "PRelu": prelu,
    "Relu": plain(torch.relu), "LeakyRelu": lambda a, x: F.leaky_relu(x, a.get("alpha", 0.01)),
    "Elu": lambda a, x: F.elu(x, a.get("alpha", 1.0)), "HardSigmoid": hard_sigmoid,
    "HardSwish": plain(F.hardswish), "Sigmoid": plain(torch.sigmoid), "Tanh": plain(torch.tanh),
    "Softplus": plain(F.softplus), "Exp": plain(torch.exp), "Log": plain(torch.log),
    "Sqrt": plain(torch.sqrt), "Erf": plain(torch.erf), "Abs": plain(torch.abs),
    "Neg": plain(torch.neg), "Floor": plain(torch.floor), "Ceil": plain(torch.ceil),
    "Reciprocal": plain(torch.reciprocal), "Pow": plain(torch.pow), "Add": plain(torch.add),
    "Sub": plain(torch.sub), "Mul": plain(torch.mul), "Div": divide, "Min": plain(torch.minimum),
    "Max": plain(torch.maximum), "Resize": resize, "Pad": pad, "Slice": slice_, "Split": split,
    "Concat": lambda a, *x: torch.cat(x, a["axis"]), "Gather": gather, "Reshape": reshape,
    "Flatten": lambda a, x: x.reshape(math.prod(x.shape[:a.get("axis", 1)]), -1),
    "Transpose": lambda a, x: x.permute(a.get("perm", list(reversed(range(x.dim()))))),
    "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Identity": plain(lambda x: x),
    "Dropout": plain(lambda x, *rest: x), "Shape": plain(lambda x: torch.tensor(x.shape)),
    "Expand": lambda a, x, shape: x.expand(torch.broadcast_shapes(x.shape, shape.tolist())),
    "Tile": lambda a, x, repeats: x.repeat(repeats.tolist()),
    "Cast": lambda a, x: x.to(DTYPES[a["to"]]), "Constant": lambda a: a["value"],
    "ConstantOfShape": lambda a, shape: torch.full(shape.tolist(), a["value"].item()
                                                   if "value" in a else 0.0),
    "ReduceMean": reduction(lambda x, axes, keep: x.mean(axes, keep)),
    "ReduceSum": reduction(lambda x, axes, keep: x.sum(axes, keep)),
    "ReduceMax": reduction(lambda x, axes, keep: x.amax(axes, keep)),
    "DepthToSpace": depth_to_space,
}
