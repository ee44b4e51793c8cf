"""An ONNX network in PyTorch: the peer on a GPU, and with fp32 on the CPU its own check.

TorchModel(model, fused=False) runs node by node, as eager PyTorch does. With fused=True BatchNorm
is folded into the convolution before it, and convolution (+ residual) + relu is one cuDNN call
(torch.cudnn_convolution_relu, torch.cudnn_convolution_add_relu) wherever cuDNN takes it.
x * sigmoid(x) is torch's silu in both.
"""
import dataclasses

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from torch_ops import HOST_INPUTS, OPS


@dataclasses.dataclass
class Step:
    op: str
    inputs: list
    outputs: list
    attributes: dict
    last_uses: list = dataclasses.field(default_factory=list)


def tensor_of(proto):
    return torch.from_numpy(np.array(numpy_helper.to_array(proto)))  # a copy that can be written


def steps_of(model):
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    steps = []
    for node in model.graph.node:
        attributes = {"opset": opset, "outputs": len(node.output)}
        for attribute in node.attribute:
            value = onnx.helper.get_attribute_value(attribute)
            if isinstance(value, onnx.TensorProto):
                value = tensor_of(value)
            attributes[attribute.name] = value.decode() if isinstance(value, bytes) else value
        steps.append(Step(node.op_type, list(node.input), list(node.output), attributes))
    return steps


class Fuser:
    """Rewrites steps. A step that goes away must have one reader and not make an output."""

    def __init__(self, steps, constants, outputs, grouped):
        self.steps, self.constants, self.outputs = steps, constants, set(outputs)
        self.grouped = grouped
        self.index()

    def index(self):
        self.maker = {name: step for step in self.steps for name in step.outputs}
        self.readers = {}
        for step in self.steps:
            for name in step.inputs:
                self.readers[name] = self.readers.get(name, 0) + 1

    def made_by(self, name, op):
        """The step that makes `name`, if it is an `op` that may go away."""
        step = self.maker.get(name)
        lone = self.readers.get(name) == 1 and name not in self.outputs
        return step if step and step.op == op and lone else None

    def drop(self, *steps):
        self.steps = [s for s in self.steps if not any(s is gone for gone in steps)]
        self.index()

    def silu(self, step):
        """x * sigmoid(x) = silu(x)"""
        for x, gate in (step.inputs, reversed(step.inputs)):
            sigmoid = self.made_by(gate, "Sigmoid")
            if sigmoid and sigmoid.inputs == [x]:
                step.op, step.inputs = "Silu", [x]
                return self.drop(sigmoid)

    def fold_batch_norm(self, step):
        """s (w * x + b - mean) + shift = (s w) * x + (s (b - mean) + shift)
        with s = scale / sqrt(variance + epsilon)"""
        conv = self.made_by(step.inputs[0], "Conv")
        if not conv or any(n not in self.constants for n in conv.inputs[1:] + step.inputs[1:]):
            return
        scale, shift, mean, variance = (self.constants[n].double() for n in step.inputs[1:])
        s = scale / torch.sqrt(variance + step.attributes.get("epsilon", 1e-5))
        w = self.constants[conv.inputs[1]].double()
        b = self.constants[conv.inputs[2]].double() if len(conv.inputs) > 2 else 0.0
        names = [f"{conv.outputs[0]}/folded_{suffix}" for suffix in "wb"]
        self.constants[names[0]] = (w * s.reshape(-1, *[1] * (w.dim() - 1))).float()
        self.constants[names[1]] = (s * (b - mean) + shift).float()
        step.op, step.attributes = "Conv", conv.attributes
        step.inputs = [conv.inputs[0], *names]
        self.drop(conv)

    def fits_cudnn(self, conv):
        """2-D, symmetric pads, constant weights; dense unless groups are asked for."""
        a = conv.attributes
        weight = self.constants.get(conv.inputs[1])
        pads = list(a.get("pads", [0] * 4))
        return (weight is not None and weight.dim() == 4 and pads[:2] == pads[2:] and
                a.get("auto_pad", "NOTSET") == "NOTSET" and
                (self.grouped or a.get("group", 1) == 1))

    def conv_relu(self, step):
        conv = self.made_by(step.inputs[0], "Conv")
        if conv and self.fits_cudnn(conv):
            self.fuse(step, "ConvRelu", conv)

    def conv_add_relu(self, step):
        """The residual's shape is looked at when it is known, in TorchModel.settle."""
        add = self.made_by(step.inputs[0], "Add")
        for name, other in (add.inputs, reversed(add.inputs)) if add else ():
            conv = self.made_by(name, "Conv")
            if conv and self.fits_cudnn(conv) and other not in self.constants:
                self.fuse(step, "ConvAddRelu", conv, other)
                return self.drop(add)

    def fuse(self, step, op, conv, *residual):
        if len(conv.inputs) < 3:
            zeros = f"{conv.outputs[0]}/no_bias"
            self.constants[zeros] = torch.zeros(self.constants[conv.inputs[1]].shape[0])
            conv.inputs.append(zeros)
        step.op, step.inputs = op, [*conv.inputs, *residual]
        step.attributes = dict(conv.attributes)
        self.drop(conv)

    def apply(self, op, rewrite):
        for step in list(self.steps):
            if step.op == op:
                rewrite(step)


class TorchModel:
    """device "cuda" or "cpu"; dtype of all floating-point tensors; inputs, weights and activations
    of rank 4 are channels-last if so wanted; fused calls for grouped convolutions too if `grouped`.
    What depends on shapes and weights only is computed once, on the CPU."""

    def __init__(self, model, device="cpu", dtype=torch.float32, fused=False, channels_last=True,
                 grouped=False):
        self.device, self.dtype, self.channels_last = torch.device(device), dtype, channels_last
        self.host = {t.name: tensor_of(t) for t in model.graph.initializer}
        self.input_names = [v.name for v in model.graph.input if v.name not in self.host]
        self.output_names = [v.name for v in model.graph.output]
        fuser = Fuser(steps_of(model), self.host, self.output_names, grouped)
        fuser.apply("Mul", fuser.silu)
        if fused:
            fuser.apply("BatchNormalization", fuser.fold_batch_norm)
            fuser.apply("Relu", fuser.conv_add_relu)
            fuser.apply("Relu", fuser.conv_relu)
        self.steps = fuser.steps
        self.find_last_uses()
        self.mirror = {}  # what of self.host is needed on the device

    def find_last_uses(self):
        """So that memory is free for reuse as early as it is in eager PyTorch."""
        kept = set(self.output_names)
        for step in reversed(self.steps):
            names = {*step.inputs, *step.outputs} - kept
            step.last_uses = list(names)
            kept |= names

    def fused_calls(self):
        return sum(s.op in ("ConvRelu", "ConvAddRelu") and not s.attributes.get("separate")
                   for s in self.steps)

    def place(self, tensor):
        """On the device, in the type and layout of this model."""
        if not tensor.is_floating_point():
            return tensor.to(self.device)
        tensor = tensor.to(self.device, self.dtype)
        if not self.channels_last or tensor.dim() != 4:
            return tensor.contiguous()
        # Not contiguous(): with one channel that leaves the strides, and so the layout, as it is.
        return torch.empty_like(tensor, memory_format=torch.channels_last).copy_(tensor)

    def argument(self, step, i, values):
        name = step.inputs[i]
        if not name:
            return None
        if name in values:
            return values[name]
        if i in HOST_INPUTS.get(step.op, ()):
            return self.host[name]
        if name not in self.mirror:
            self.mirror[name] = self.place(self.host[name])
        return self.mirror[name]

    def __call__(self, **inputs):
        values = dict(inputs)
        for step in self.steps:
            if all(name in self.host for name in step.outputs):
                continue
            static = all(not name or name in self.host for name in step.inputs)
            arguments = ([self.host.get(name) for name in step.inputs] if static else
                         [self.argument(step, i, values) for i in range(len(step.inputs))])
            if step.op == "ConvAddRelu":
                self.settle(step, arguments)
            if step.op not in OPS:
                raise NotImplementedError(f"no {step.op} in torch_ops.py")
            results = OPS[step.op](step.attributes, *arguments)
            results = results if isinstance(results, (tuple, list)) else [results]
            (self.host if static or step.op == "Shape" else values).update(
                zip(step.outputs, results))
            del arguments, results
            for name in step.last_uses:
                values.pop(name, None)
        return {name: values[name] for name in self.output_names}

    @staticmethod
    def settle(step, arguments):
        """cuDNN adds a residual of the result's own shape only; others are broadcast by torch."""
        x, w, _, z = arguments
        if z.dim() != 4 or z.shape[:2] != (x.shape[0], w.shape[0]) or 1 in z.shape[2:]:
            step.attributes["separate"] = True

    def run(self, feeds):
        """numpy in, numpy out."""
        inputs = {name: self.place(torch.from_numpy(feeds[name])) for name in self.input_names}
        with torch.inference_mode():
            outputs = self(**inputs)
        return {name: value.float().cpu().numpy() for name, value in outputs.items()}


class Captured:
    """Inferences as CUDA graphs on buffers that stay on the device."""

    def __init__(self, model, feeds):
        self.inputs = {name: model.place(torch.from_numpy(feeds[name]))
                       for name in model.input_names}
        self.model, self.graphs = model, {}
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.inference_mode():
            with torch.cuda.stream(stream):
                for _ in range(3):  # cuDNN's search happens here
                    model(**self.inputs)
            torch.cuda.synchronize()
        self.outputs = self.capture(1)

    def capture(self, runs):
        """Records `runs` inferences one after the other; the outputs of the last."""
        self.graphs[runs] = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(self.graphs[runs]):
            for _ in range(runs):
                outputs = self.model(**self.inputs)
        return outputs

    def run(self):
        self.graphs[1].replay()
        torch.cuda.synchronize()
        return {name: value.float().cpu().numpy() for name, value in self.outputs.items()}

    def times(self, iterations, runs=1, warm_ups=10):
        """Microseconds of an inference in each replay of a graph of `runs`: replays back to back,
        an event between any two."""
        if runs not in self.graphs:
            self.capture(runs)
        graph = self.graphs[runs]
        events = [torch.cuda.Event(enable_timing=True) for _ in range(iterations + 1)]
        for _ in range(warm_ups):
            graph.replay()
        events[0].record()
        for event in events[1:]:
            graph.replay()
            event.record()
        torch.cuda.synchronize()
        return [a.elapsed_time(b) * 1e3 / runs for a, b in zip(events, events[1:])]
