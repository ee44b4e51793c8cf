"""torch.compile(model, backend="braze"): the graphs of a module in inference, compiled.

Weights are compiled in; changing them makes the next call compile again. A graph that has no ONNX
form, or that Braze does not run, or that needs gradients, runs as torch runs it, which is said
once.
"""
from __future__ import annotations

import collections
import threading
import warnings
from typing import Any, Callable, Mapping, Sequence

import torch

from .compiler import compile
from .errors import Error
from .model import Model
from .torch_export import to_onnx

_KEPT = 8  # networks of one graph, one for each set of shapes

_said: set[str] = set()


def backend(graph: torch.fx.GraphModule, examples: Sequence[Any], *,
            options: Mapping[str, Any] | None = None, **more: Any) -> Callable[..., Any]:
    """What torch.compile calls. `options` are those of `braze.compile`; the device is that of the
    tensors."""
    return _Graph(graph, examples, {**(options or {}), **more})


class _Graph:
    """One graph of torch's, as it is called: with tensors, and numbers for symbolic sizes."""

    def __init__(self, graph: torch.fx.GraphModule, examples: Sequence[Any],
                 options: dict[str, Any]) -> None:
        self._graph = graph
        self._options = options
        self._weights = [i for i, example in enumerate(examples) if _is_weight(example)]
        self._tensors = [i for i, example in enumerate(examples)
                         if isinstance(example, torch.Tensor) and i not in set(self._weights)]
        self._networks: collections.OrderedDict[Any, Model | None] = collections.OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        if torch.is_grad_enabled() and any(
                argument.requires_grad for argument in arguments
                if isinstance(argument, torch.Tensor)):
            _say("a graph needs gradients (call it under torch.no_grad())")
            return self._graph(*arguments)
        network = self._network(arguments)
        if network is None:
            return self._graph(*arguments)
        outputs = network(*(arguments[i].detach() for i in self._tensors))
        return outputs if isinstance(outputs, tuple) else (outputs,)

    def _network(self, arguments: Sequence[Any]) -> Model | None:
        """The network for these shapes and weights; None: it is torch's to run."""
        key = tuple(_key(argument, i in self._weights) for i, argument in enumerate(arguments))
        with self._lock:
            if key in self._networks:
                self._networks.move_to_end(key)
                return self._networks[key]
            self._networks[key] = network = self._compile(arguments)
            if len(self._networks) > _KEPT:
                self._networks.popitem(last=False)
            return network

    def _compile(self, arguments: Sequence[Any]) -> Model | None:
        tensors = [arguments[i] for i in self._tensors]
        devices = {str(argument.device) for argument in arguments
                   if isinstance(argument, torch.Tensor)}
        if not tensors or len(devices) != 1:
            _say("a graph has no inputs, or inputs on several devices")
            return None
        device = devices.pop()
        try:
            module = _Bound(self._graph, arguments, self._tensors)
            options = {"device": device, **self._options}
            return compile(to_onnx(module, tuple(t.detach() for t in tensors)), **options)
        except Error as error:
            _say(str(error))
            return None


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


def _say(why: str) -> None:
    """Once for each reason."""
    if why not in _said:
        _said.add(why)
        warnings.warn(f"braze: a graph is left to torch: {why}", stacklevel=2)
