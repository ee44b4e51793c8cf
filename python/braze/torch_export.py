"""torch modules as ONNX."""
from __future__ import annotations

import importlib.util
import io
import logging
import warnings
from typing import Any

import torch

from .errors import UnsupportedError, UsageError

_OPSET = 18


def to_onnx(module: torch.nn.Module, inputs: Any) -> bytes:
    """The ONNX model of a module, as it is for inference (dropout and the like off), with the
    shapes of the example inputs.

    UsageError without examples; UnsupportedError, with torch's words, for what has no ONNX form.
    """
    if inputs is None:
        raise UsageError("a torch module needs an example of each input: "
                         "braze.compile(module, (x,))")
    examples = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    why = []
    for export in (_by_tracing, _by_torch_export):
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return export(module, examples)
        except Exception as error:  # torch's exporters raise anything
            lines = str(error).strip().splitlines() or [type(error).__name__]
            why.append(lines[0])
    raise UnsupportedError(f"torch cannot export {type(module).__name__} to ONNX: "
                           f"{'; '.join(why)}")


def _by_tracing(module: torch.nn.Module, examples: tuple[Any, ...]) -> bytes:
    """The TorchScript exporter: takes a second, and is there as long as torch has it."""
    model = io.BytesIO()
    torch.onnx.export(module, examples, model, dynamo=False, opset_version=_OPSET,
                      training=torch.onnx.TrainingMode.EVAL)
    return model.getvalue()


def _by_torch_export(module: torch.nn.Module, examples: tuple[Any, ...]) -> bytes:
    """The exporter over torch.export, which needs onnxscript."""
    if importlib.util.find_spec("onnxscript") is None:
        raise UnsupportedError("torch's newer exporter needs `pip install onnxscript`")
    training = module.training
    quiet = logging.getLogger("torch.onnx")
    level = quiet.level
    quiet.setLevel(logging.ERROR)
    try:
        program = torch.onnx.export(module.eval(), examples, dynamo=True, verbose=False,
                                    opset_version=_OPSET)
    finally:
        module.train(training)
        quiet.setLevel(level)
    assert program is not None
    return program.model_proto.SerializeToString()
