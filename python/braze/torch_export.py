"""torch modules as ONNX."""
from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import logging
import re
import warnings
from typing import Any, Iterator

import torch

from .errors import UnsupportedError, UsageError

_OPSET = 18
_COLOURS = re.compile(r"\x1b\[\d*m")


def to_onnx(module: torch.nn.Module, inputs: Any) -> bytes:
    """The ONNX model of a module, as it is for inference (dropout and the like off), with the
    shapes of the example inputs, named as the module's forward() names them.

    UsageError without examples; UnsupportedError, with torch's words, for what has no ONNX form.
    """
    if inputs is None:
        raise UsageError("a torch module needs an example of each input: "
                         "braze.compile(module, (x,))")
    examples = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    training = module.training
    why = []
    for export in (_by_tracing, _by_torch_export):
        try:
            with torch.no_grad(), warnings.catch_warnings(), _no_printing():
                warnings.simplefilter("ignore")
                return export(module.eval(), examples)
        except Exception as error:  # torch's exporters raise anything
            lines = str(error).strip().splitlines() or [type(error).__name__]
            why.append(_COLOURS.sub("", lines[0]))
        finally:
            module.train(training)
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        why.append(f"its exporters need `pip install {' '.join(missing)}`")
    raise UnsupportedError(f"torch cannot export {type(module).__name__} to ONNX: "
                           f"{'; '.join(why)}")


def _by_tracing(module: torch.nn.Module, examples: tuple[Any, ...]) -> bytes:
    """The TorchScript exporter: takes a second, and is there as long as torch has it."""
    model = io.BytesIO()
    torch.onnx.export(module, examples, model, dynamo=False, verbose=False, opset_version=_OPSET,
                      input_names=_names(module, len(examples)))
    return model.getvalue()


def _by_torch_export(module: torch.nn.Module, examples: tuple[Any, ...]) -> bytes:
    """The exporter over torch.export, which needs onnxscript."""
    if importlib.util.find_spec("onnxscript") is None:
        raise UnsupportedError("there is no onnxscript for torch's newer exporter")
    quiet = logging.getLogger("torch.onnx")
    level = quiet.level
    quiet.setLevel(logging.ERROR)
    try:
        program = torch.onnx.export(module, examples, dynamo=True, verbose=False,
                                    opset_version=_OPSET,
                                    input_names=_names(module, len(examples)))
    finally:
        quiet.setLevel(level)
    assert program is not None
    return program.model_proto.SerializeToString()


@contextlib.contextmanager
def _no_printing() -> Iterator[None]:
    """torch's tracing exporter prints the graph to standard output when it fails, asked or not."""
    log = getattr(torch._C, "_jit_onnx_log", None)
    if log is None:
        yield
        return
    setattr(torch._C, "_jit_onnx_log", lambda *_: None)
    try:
        yield
    finally:
        setattr(torch._C, "_jit_onnx_log", log)


def _names(module: torch.nn.Module, count: int) -> list[str]:
    """Those of forward()'s first parameters; input0, input1, ... where it takes any number."""
    parameters = list(inspect.signature(module.forward).parameters.values())[:count]
    plain = all(p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for p in parameters)
    if plain and len(parameters) == count:
        return [parameter.name for parameter in parameters]
    return [f"input{i}" for i in range(count)]
