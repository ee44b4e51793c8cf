"""Braze compiles convolutional networks so that convolutions run joined.

    model = braze.compile("net.onnx")
    y = model(x)                       # numpy, torch, or anything with DLPack
    print(model.plan)                  # the kernels, and the nodes in each
    print(model.explain())             # also what was not fused, and why

`InferenceSession` and its friends stand in for ONNX Runtime's; torch.compile(net, backend="braze")
works without importing this package.
"""
from __future__ import annotations

import os as _os
import sys as _sys

from . import _braze
from .compiler import compile, load
from .errors import (CheckFailedError, DeviceError, Error, FileError, InputError, InternalError,
                     ModelError, OutOfMemoryError, UnsupportedError, UsageError)
from .model import Deviation, Model, Tensor, Timing, Verification
from .plan import Folded, Kernel, NotFused, Plan
from .session import (ExecutionMode, GraphOptimizationLevel, InferenceSession, IOBinding,
                      ModelMetadata, NodeArg, OrtValue, RunOptions, SessionOptions,
                      get_available_providers, get_device)

__version__ = _braze.version()

__all__ = [
    "CheckFailedError", "Deviation", "DeviceError", "Error", "ExecutionMode", "FileError",
    "Folded", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "InputError",
    "InternalError", "Kernel", "Model", "ModelError", "ModelMetadata", "NodeArg", "NotFused",
    "OrtValue", "OutOfMemoryError", "Plan", "RunOptions", "SessionOptions", "Tensor", "Timing",
    "UnsupportedError", "UsageError", "Verification", "compile", "devices",
    "get_available_providers", "get_device", "load",
]


def devices() -> dict[str, str]:
    """What is here, and why not: a line for each device and each of NVIDIA's libraries."""
    return {report.name: report.detail if report.usable else f"not usable: {report.detail}"
            for report in _braze.devices()}


# Where pip put NVIDIA's libraries, whether or not this environment is activated.
for _folder in _sys.path:
    if _os.path.basename(_folder) in ("site-packages", "dist-packages"):
        _braze.add_package_folder(_folder)
