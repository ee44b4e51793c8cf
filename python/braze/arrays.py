"""Kinds of arrays: what outputs are made as, so that they come back as what went in."""
from __future__ import annotations

import functools
import sys
from typing import Any, Protocol, Sequence

from . import _braze
from .errors import InputError

# ONNX's names of element types to numpy's; bfloat16 is ml_dtypes'.
NUMPY_NAMES = {
    "float": "float32", "float16": "float16", "double": "float64", "bool": "bool_",
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
}
TORCH_NAMES = {**NUMPY_NAMES, "bool": "bool", "bfloat16": "bfloat16"}


@functools.lru_cache(maxsize=None)
def numpy_dtype(onnx_name: str) -> Any:
    """The numpy dtype of an ONNX element type. InputError for bfloat16 without ml_dtypes."""
    import numpy

    if onnx_name != "bfloat16":
        return numpy.dtype(getattr(numpy, NUMPY_NAMES[onnx_name]))
    try:
        import ml_dtypes
    except ImportError:
        raise InputError("numpy has no bfloat16; `pip install ml_dtypes` brings it, or hand over "
                         "torch tensors") from None
    return numpy.dtype(ml_dtypes.bfloat16)


class TensorType(Protocol):
    """What is known of an output: ONNX's name of its element type, and its shape."""

    @property
    def dtype(self) -> str: ...

    @property
    def shape(self) -> Sequence[int]: ...


class Kind(Protocol):
    """Makes and hands over arrays of one framework."""

    def stream(self, example: Any) -> int:
        """The caller's current CUDA stream, 0: the default one."""

    def empty(self, native: _braze.Model, outputs: Sequence[TensorType], example: Any) -> list[Any]:
        """New arrays for a model's outputs, on the device where `example` is."""

    def lend(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """The same arrays as the library reads them fastest."""

    def finish(self, outputs: list[Any]) -> list[Any]:
        """What empty() made as the framework's own arrays, after the run."""


class NumpyKind:
    """numpy, and everything that hands out buffers. Host memory only."""

    def __init__(self) -> None:
        import numpy

        self._empty = numpy.empty

    def stream(self, example: Any) -> int:
        return 0

    def empty(self, native: _braze.Model, outputs: Sequence[TensorType], example: Any) -> list[Any]:
        return [self._empty(output.shape, numpy_dtype(output.dtype)) for output in outputs]

    def lend(self, arrays: Sequence[Any]) -> Sequence[Any]:
        return arrays

    def finish(self, outputs: list[Any]) -> list[Any]:
        return outputs


class TorchKind:
    """torch tensors, on the device of the inputs."""

    def __init__(self) -> None:
        self._torch = torch = sys.modules["torch"]
        self._dtypes = {name: getattr(torch, torch_name)
                        for name, torch_name in TORCH_NAMES.items() if hasattr(torch, torch_name)}

    def stream(self, example: Any) -> int:
        if not example.is_cuda:
            return 0
        return self._torch.cuda.current_stream(example.device).cuda_stream

    def empty(self, native: _braze.Model, outputs: Sequence[TensorType], example: Any) -> list[Any]:
        device = example.device
        return [self._torch.empty(output.shape, dtype=self._dtypes[output.dtype], device=device)
                for output in outputs]

    def lend(self, arrays: Sequence[Any]) -> Sequence[Any]:
        return [self._lend(array) for array in arrays]

    def finish(self, outputs: list[Any]) -> list[Any]:
        return outputs

    def _lend(self, array: Any) -> Any:
        """As numpy has it, where it can: a buffer takes a microsecond, DLPack five."""
        torch = self._torch
        if (isinstance(array, torch.Tensor) and array.is_cpu and not array.requires_grad
                and array.dtype is not torch.bfloat16 and array.layout is torch.strided
                and not array.is_conj() and not array.is_neg()):
            return array.numpy()
        return array


class ArrayApiKind:
    """Anything with DLPack and an array namespace (CuPy, JAX, ...)."""

    def __init__(self) -> None:
        self._numpy = NumpyKind()
        self._from_dlpack: Any = None

    def stream(self, example: Any) -> int:
        return 0

    def empty(self, native: _braze.Model, outputs: Sequence[TensorType], example: Any) -> list[Any]:
        self._from_dlpack = example.__array_namespace__().from_dlpack
        if is_on_gpu(example):
            return native.make_gpu_outputs()
        return self._numpy.empty(native, outputs, example)

    def lend(self, arrays: Sequence[Any]) -> Sequence[Any]:
        return arrays

    def finish(self, outputs: list[Any]) -> list[Any]:
        return [self._from_dlpack(output) for output in outputs]


def _is_torch(cls: type) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(cls, torch.Tensor)


@functools.lru_cache(maxsize=None)
def _shared_kind(cls: type) -> Kind | None:
    """The kind of a class of arrays; None: one that is made anew for each call."""
    if _is_torch(cls):
        return TorchKind()
    if hasattr(cls, "__array_namespace__") and hasattr(cls, "__dlpack_device__"):
        import numpy

        if not issubclass(cls, numpy.ndarray):
            return None
    return NumpyKind()


def kind_of(inputs: Sequence[Any]) -> Kind:
    """The kind that outputs are to have: that of the first input, numpy where there is none."""
    return _shared_kind(type(inputs[0]) if inputs else type(None)) or ArrayApiKind()


def to_numpy(array: Any) -> Any:
    """In host memory, as numpy has it: itself, or a view or copy of it."""
    if _is_torch(type(array)):
        array = array.detach().cpu()
        if str(array.dtype) == "torch.bfloat16":
            return array.view(sys.modules["torch"].uint16).numpy().view(numpy_dtype("bfloat16"))
        return array.numpy()
    import numpy

    if is_on_gpu(array):
        array = array.get() if hasattr(array, "get") else array.to_device("cpu")
    if hasattr(array, "__dlpack__") and not hasattr(array, "__array__"):
        return numpy.from_dlpack(array)
    return numpy.asarray(array)


def is_on_gpu(array: Any) -> bool:
    """True for an array that does not lie in host memory."""
    return hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] not in (1, 3)
