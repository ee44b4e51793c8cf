"""torch.compile(model, backend="braze"): the graphs of a module in inference, compiled.

Weights are compiled in; changing them makes the next call compile again. Of a graph that cannot be
compiled as a whole the parts that can are; the rest runs as torch runs it, which is said once.
"""
from __future__ import annotations

import collections
import threading
import warnings
from typing import Any, Callable, Mapping, Sequence

import torch

from . import torch_parts
from .compiler import compile
from .errors import Error, UnsupportedError
from .model import Model
from .torch_export import to_onnx

_KEPT = 8  # compiled forms of one graph, one for each set of shapes

_said: set[str] = set()


def backend(graph: torch.fx.GraphModule, examples: Sequence[Any], *,
            options: Mapping[str, Any] | None = None, **more: Any) -> Callable[..., Any]:
    """What torch.compile calls. `options` are those of `braze.compile`; the device is that of the
    tensors."""
    weights = frozenset(i for i, example in enumerate(examples) if _is_weight(example))
    return _Graph(graph, weights, {**(options or {}), **more}, may_split=True)


class _Graph(torch.nn.Module):
    """A graph of torch's, called as torch calls it: with weights and tensors, and with numbers for
    symbolic sizes."""

    def __init__(self, graph: torch.fx.GraphModule, weights: frozenset[int],
                 options: dict[str, Any], may_split: bool) -> None:
        super().__init__()
        self._graph = graph
        self._weights = weights
        self._options = options
        self._may_split = may_split
        self._forms: collections.OrderedDict[Any, Callable[..., Any]] = collections.OrderedDict()
        self._lock = threading.RLock()

    def forward(self, *arguments: Any) -> Any:
        if torch.is_grad_enabled() and any(
                argument.requires_grad for argument in arguments
                if isinstance(argument, torch.Tensor)):
            _say("a graph is left to torch: it needs gradients (call it under torch.no_grad())")
            return self._graph(*arguments)
        return self._form(arguments)(*arguments)

    def _form(self, arguments: Sequence[Any]) -> Callable[..., Any]:
        """What runs for these shapes and weights."""
        key = tuple(_key(argument, i in self._weights) for i, argument in enumerate(arguments))
        with self._lock:
            form = self._forms.get(key)
            if form is not None:
                self._forms.move_to_end(key)
                return form
            self._forms[key] = form = self._make_form(arguments)
            if len(self._forms) > _KEPT:
                self._forms.popitem(last=False)
            return form

    def _make_form(self, arguments: Sequence[Any]) -> Callable[..., Any]:
        try:
            return _Whole(self._graph, self._weights, arguments, self._options)
        except Error as error:
            why = str(error).splitlines()[0]
        if not self._may_split:
            _say(f"a part of a graph is left to torch: {why}")
            return self._graph
        parts = torch_parts.split(self._graph, arguments, self._weights, self._part_runs,
                                  self._make_part)
        _say(f"{'a graph' if parts is None else 'parts of a graph'} left to torch: {why}")
        return parts or self._graph

    def _part_runs(self, part: torch.nn.Module, tensors: Sequence[Any]) -> bool:
        """True if Braze runs a part alone."""
        try:
            compile(to_onnx(part, tuple(tensors)), **{"device": str(tensors[0].device),
                                                      **self._options})
            return True
        except Error:
            return False

    def _make_part(self, graph: torch.fx.GraphModule, weights: frozenset[int]) -> _Graph:
        return _Graph(graph, weights, self._options, may_split=False)


class _Whole:
    """A graph as one network, for one set of shapes and weights. UnsupportedError, or what
    compiling says, if it cannot be one."""

    def __init__(self, graph: torch.fx.GraphModule, weights: frozenset[int],
                 arguments: Sequence[Any], options: Mapping[str, Any]) -> None:
        tensors = [i for i, argument in enumerate(arguments)
                   if isinstance(argument, torch.Tensor) and i not in weights]
        devices = {str(argument.device) for argument in arguments
                   if isinstance(argument, torch.Tensor)}
        if not tensors or len(devices) != 1:
            raise UnsupportedError("it has no inputs, or some on several devices")
        results = torch_parts.try_out(graph, arguments)
        bound = _Bound(graph, arguments, tensors)
        self._network: Model = compile(to_onnx(bound, tuple(arguments[i].detach()
                                                            for i in tensors)),
                                       **{"device": devices.pop(), **options})
        # Inputs that the graph does not read are none of the network's.
        names = [info.name for info in self._network.inputs]
        self._read = [i for k, i in enumerate(tensors) if f"input{k}" in names]
        if len(self._read) != len(names) or len(self._network.outputs) != len(results):
            raise UnsupportedError("torch exports it with other inputs or outputs")
        self._single = not isinstance(graph.graph.output_node().args[0], (tuple, list))

    def __call__(self, *arguments: Any) -> Any:
        outputs = self._network(*(arguments[i].detach() for i in self._read))
        return outputs if isinstance(outputs, tuple) or self._single else (outputs,)


class _Bound(torch.nn.Module):
    """A graph as a module of its tensors alone; all other arguments are kept."""

    def __init__(self, graph: torch.fx.GraphModule, arguments: Sequence[Any],
                 tensors: Sequence[int]) -> None:
        super().__init__()
        self._graph = graph
        self._tensors = tensors
        self._kept: list[Any] = list(arguments)
        for i, argument in enumerate(arguments):
            if isinstance(argument, torch.Tensor) and i not in tensors:
                self.register_buffer(f"weight{i}", argument.detach())
                self._kept[i] = None

    def forward(self, *tensors: torch.Tensor) -> Any:
        arguments = [getattr(self, f"weight{i}", kept) for i, kept in enumerate(self._kept)]
        for i, tensor in zip(self._tensors, tensors):
            arguments[i] = tensor
        return self._graph(*arguments)


def _is_weight(example: Any) -> bool:
    """A parameter, or a buffer of a module, which dynamo marks."""
    return isinstance(example, torch.nn.Parameter) or (
        isinstance(example, torch.Tensor)
        and getattr(example, "_dynamo_static_input_type", None) is not None)


def _key(argument: Any, weight: bool) -> Any:
    """What a network depends on: a weight's values, a tensor's type, a number."""
    if not isinstance(argument, torch.Tensor):
        return argument
    if weight:
        return (argument.data_ptr(), 0 if argument.is_inference() else argument._version)
    return (tuple(argument.shape), argument.dtype, argument.device)


def _say(what: str) -> None:
    """Once for each text."""
    if what not in _said:
        _said.add(what)
        warnings.warn(f"braze: {what}", stacklevel=2)
