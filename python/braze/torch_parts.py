"""Which parts of a torch graph can be compiled, found by trying each kind of node alone."""
from __future__ import annotations

import copy
from typing import Any, Callable, Sequence

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from .errors import UnsupportedError

# Asked whether a part alone can be compiled, with an example of each of its tensors.
PartRuns = Callable[[torch.nn.Module, Sequence[torch.Tensor]], bool]
# Makes the module that stands for a part; given which of its arguments are weights.
MakePart = Callable[[torch.fx.GraphModule, frozenset[int]], torch.nn.Module]

_CALLS = ("call_function", "call_method")


def try_out(graph: torch.fx.GraphModule, arguments: Sequence[Any]) -> list[torch.Tensor]:
    """The results of a graph on copies of its arguments. UnsupportedError if it writes to an
    argument, or if a result is no tensor: a network does neither."""
    with torch.inference_mode(False), torch.no_grad():
        copies = [argument.detach().clone() if isinstance(argument, torch.Tensor) else argument
                  for argument in arguments]
        versions = [c._version for c in copies if isinstance(c, torch.Tensor)]
        results = graph(*copies)
        written = versions != [c._version for c in copies if isinstance(c, torch.Tensor)]
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    if written:
        raise UnsupportedError("it writes to its arguments (a module in training mode does)")
    if not all(isinstance(result, torch.Tensor) for result in results):
        raise UnsupportedError("a result is no tensor")
    return results


def split(graph: torch.fx.GraphModule, arguments: Sequence[Any], weights: frozenset[int],
          runs: PartRuns, make: MakePart) -> torch.fx.GraphModule | None:
    """The graph with its largest parts that can be compiled made into modules; None if there is
    none of two nodes or more. Errors of the graph itself are torch's."""
    graph = copy.deepcopy(graph)
    finder = _Finder(graph, runs)
    with torch.inference_mode(False), torch.no_grad():
        finder.run(*(argument.detach().clone() if isinstance(argument, torch.Tensor) else argument
                     for argument in arguments))
    partitioner = CapabilityBasedPartitioner(graph, _Listed(finder.found),
                                             allows_single_node_partition=False)
    whole = partitioner.fuse_partitions(partitioner.propose_partitions())
    placeholders = [node for node in whole.graph.nodes if node.op == "placeholder"]
    outer = {node for i, node in enumerate(placeholders) if i in weights}
    parts = [node for node in whole.graph.nodes
             if node.op == "call_module" and str(node.target).startswith("fused_")]
    for node in parts:
        inner = frozenset(i for i, argument in enumerate(node.args) if argument in outer)
        setattr(whole, str(node.target), make(getattr(whole, str(node.target)), inner))
    return whole if parts else None


class _Finder(torch.fx.Interpreter):
    """Runs a graph, and at each call asks whether Braze runs it alone; of equal calls once."""

    def __init__(self, graph: torch.fx.GraphModule, runs: PartRuns) -> None:
        super().__init__(graph)
        self._runs = runs
        self._asked: dict[Any, bool] = {}
        self.found: set[torch.fx.Node] = set()

    def run_node(self, node: torch.fx.Node) -> Any:
        if node.op not in _CALLS:
            return super().run_node(node)
        arguments, more = self.fetch_args_kwargs_from_env(node)
        flat = torch.utils._pytree.tree_leaves((arguments, more))
        tensors = [leaf for leaf in flat if isinstance(leaf, torch.Tensor)]
        examples = [tensor.clone() for tensor in tensors]
        versions = [tensor._version for tensor in tensors]
        result = super().run_node(node)
        pure = versions == [tensor._version for tensor in tensors]
        if pure and tensors and isinstance(result, torch.Tensor):
            key = (node.op, node.target, repr([
                (tuple(leaf.shape), leaf.dtype, leaf.device) if isinstance(leaf, torch.Tensor)
                else leaf for leaf in flat]), repr(torch.fx.node.map_arg(
                    (node.args, node.kwargs), lambda _: "tensor")))
            if key not in self._asked:
                self._asked[key] = self._runs(_Alone(node, arguments, more), examples)
            if self._asked[key]:
                self.found.add(node)
        return result


class _Alone(torch.nn.Module):
    """A call as a module of its tensors."""

    def __init__(self, node: torch.fx.Node, arguments: Any, more: Any) -> None:
        super().__init__()
        self._leaves, self._structure = torch.utils._pytree.tree_flatten((arguments, more))
        self._leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves]
        self._tensors = [i for i, leaf in enumerate(torch.utils._pytree.tree_leaves(
            (arguments, more))) if isinstance(leaf, torch.Tensor)]
        self._op, self._target = node.op, node.target

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self._leaves)
        for i, tensor in zip(self._tensors, tensors):
            leaves[i] = tensor
        arguments, more = torch.utils._pytree.tree_unflatten(leaves, self._structure)
        if self._op == "call_function":
            return self._target(*arguments, **more)
        return getattr(arguments[0], self._target)(*arguments[1:], **more)


class _Listed(OperatorSupportBase):
    """The nodes of a set."""

    def __init__(self, nodes: set[torch.fx.Node]) -> None:
        self._nodes = nodes

    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        return node in self._nodes
