"""Kinds of arrays: what outputs are made as, so that they come back as what went in."""
from __future__ import annotations

import functools
import importlib
import sys
from typing import Any, Mapping, Protocol, Sequence

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

    def lend(self, arrays: Sequence[Any], stream: int, current: bool,
             written: bool = False) -> Sequence[Any]:
        """The same arrays as the library takes them fastest, to be read, or written, in a CUDA
        stream; `current`: it is what stream() said."""

    def finish(self, native: _braze.Model, outputs: list[Any]) -> list[Any]:
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

    def lend(self, arrays: Sequence[Any], stream: int, current: bool,
             written: bool = False) -> Sequence[Any]:
        return arrays

    def finish(self, native: _braze.Model, outputs: list[Any]) -> list[Any]:
        return outputs


class TorchKind:
    """torch tensors, on the device of the inputs and in torch's current stream."""

    def __init__(self) -> None:
        self._torch = torch = sys.modules["torch"]
        self._dtypes = {name: getattr(torch, torch_name)
                        for name, torch_name in TORCH_NAMES.items() if hasattr(torch, torch_name)}
        self._plain = (torch.Tensor, torch.nn.Parameter)
        # Capsules without torch's own handling of streams, which takes it 20 us.
        self._to_dlpack = torch.utils.dlpack.to_dlpack
        # The address of the current stream; torch.cuda.current_stream takes ten times as long.
        self._stream_of = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
            lambda index: torch.cuda.current_stream(index).cuda_stream)

    def stream(self, example: Any) -> int:
        return self._stream_of(example.get_device()) if example.is_cuda else 0

    def empty(self, native: _braze.Model, outputs: Sequence[TensorType], example: Any) -> list[Any]:
        return [example.new_empty(output.shape, dtype=self._dtypes[output.dtype])
                for output in outputs]

    def lend(self, arrays: Sequence[Any], stream: int, current: bool,
             written: bool = False) -> Sequence[Any]:
        return [self._lend(array, stream, current, written) for array in arrays]

    def finish(self, native: _braze.Model, outputs: list[Any]) -> list[Any]:
        return outputs

    def _lend(self, array: Any, stream: int, current: bool, written: bool) -> Any:
        """As a capsule, if nothing is to be said against it and torch's work on it is in `stream`
        anyhow."""
        if type(array) not in self._plain or array.requires_grad or array.is_neg():
            return array
        try:
            if not array.is_contiguous():
                if written:
                    return array
                array = self._without_gaps(array, stream)
            if not current and array.is_cuda and self.stream(array) != stream:
                return array
            return self._to_dlpack(array)
        except (RuntimeError, BufferError):  # sparse, meta, ...: the library says why
            return array

    def _without_gaps(self, array: Any, stream: int) -> Any:
        """A copy that torch does not use again before what is in `stream` now is done."""
        cuda, copy = self._torch.cuda, array.contiguous()
        if copy.is_cuda and self.stream(copy) != stream:
            copy.record_stream(cuda.ExternalStream(stream, device=copy.device) if stream
                               else cuda.default_stream(copy.device))
        return copy


class CupyKind:
    """CuPy arrays, on the device of the inputs and in CuPy's current stream."""

    def __init__(self) -> None:
        self._cupy = sys.modules["cupy"]

    def stream(self, example: Any) -> int:
        with example.device:
            return self._cupy.cuda.get_current_stream().ptr

    def empty(self, native: _braze.Model, outputs: Sequence[TensorType], example: Any) -> list[Any]:
        with example.device:
            return [self._cupy.empty(output.shape, numpy_dtype(output.dtype))
                    for output in outputs]

    def lend(self, arrays: Sequence[Any], stream: int, current: bool,
             written: bool = False) -> Sequence[Any]:
        return arrays if written else [self._without_gaps(array, stream) for array in arrays]

    def finish(self, native: _braze.Model, outputs: list[Any]) -> list[Any]:
        return outputs

    def _without_gaps(self, array: Any, stream: int) -> Any:
        """Itself, or a copy: in memory that CuPy uses again in `stream`."""
        if not isinstance(array, self._cupy.ndarray) or array.flags.c_contiguous:
            return array
        with array.device:
            made = self._cupy.cuda.get_current_stream().record()
            with self._cupy.cuda.ExternalStream(stream) as reader:
                reader.wait_event(made)
                return self._cupy.ascontiguousarray(array)


class OtherKind:
    """Anything else with DLPack: outputs are made by its array namespace (JAX, ...); where it has
    none they are numpy arrays, on a GPU objects that have DLPack and nothing else. What frees and
    reuses memory in streams that nobody knows may not do so before a run is over: on a GPU calls
    wait for it."""

    def __init__(self) -> None:
        self._numpy = NumpyKind()
        self._from_dlpack: Any = None  # None: as they are
        self._on_gpu = False

    def stream(self, example: Any) -> int:
        return 0

    def empty(self, native: _braze.Model, outputs: Sequence[TensorType], example: Any) -> list[Any]:
        self._from_dlpack = getattr(_namespace(example), "from_dlpack", None)
        self._on_gpu = is_on_gpu(example)
        if self._on_gpu and native.gpu >= 0:
            return native.make_gpu_outputs()
        return self._numpy.empty(native, outputs, example)

    def lend(self, arrays: Sequence[Any], stream: int, current: bool,
             written: bool = False) -> Sequence[Any]:
        self._on_gpu = self._on_gpu or any(map(is_on_gpu, arrays))
        return arrays

    def finish(self, native: _braze.Model, outputs: list[Any]) -> list[Any]:
        if self._on_gpu:
            native.synchronize()
        return [self._from_dlpack(output) for output in outputs] if self._from_dlpack else outputs


def _is_of(cls: type, *packages: str) -> bool:
    """True for a class of a package that is imported, or one derived from it."""
    return any(base.__module__.partition(".")[0] in packages for base in cls.__mro__)


def _namespace(example: Any) -> Any:
    """The functions that make arrays like this one; None if it names none."""
    if hasattr(example, "__array_namespace__"):
        return example.__array_namespace__()
    return importlib.import_module("jax.numpy") if _is_of(type(example), "jax", "jaxlib") else None


def _is_torch(cls: type) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(cls, torch.Tensor)


@functools.lru_cache(maxsize=None)
def _torch_kind() -> Kind:
    return TorchKind()


@functools.lru_cache(maxsize=None)
def _shared_kind(cls: type) -> Kind | None:
    """The kind of a class of arrays; None: one that is made anew for each call."""
    if _is_torch(cls):
        return _torch_kind()
    if _is_of(cls, "cupy") and "cupy" in sys.modules and hasattr(cls, "device"):
        return CupyKind()
    if hasattr(cls, "__dlpack_device__") or hasattr(cls, "__cuda_array_interface__"):
        import numpy

        if not issubclass(cls, numpy.ndarray):
            return None
    return NumpyKind()


@functools.lru_cache(maxsize=None)
def is_mapping(cls: type) -> bool:
    """True for a class of mappings, as of inputs by name."""
    return issubclass(cls, Mapping)


def kind_of(inputs: Sequence[Any]) -> Kind:
    """The kind that outputs are to have: that of the first input, numpy where there is none."""
    return _shared_kind(type(inputs[0]) if inputs else type(None)) or OtherKind()


def to_numpy(array: Any) -> Any:
    """In host memory, as numpy has it: itself, or a view or copy of it."""
    if _is_torch(type(array)):
        array = array.detach().cpu()
        if str(array.dtype) == "torch.bfloat16":
            return array.view(sys.modules["torch"].uint16).numpy().view(numpy_dtype("bfloat16"))
        return array.numpy()
    import numpy

    if is_on_gpu(array):
        for method in ("get", "copy_to_host"):  # CuPy's, Numba's
            if hasattr(array, method):
                return getattr(array, method)()
        if not hasattr(array, "__array__"):  # JAX has it also on a GPU
            array = array.to_device("cpu")
    if hasattr(array, "__dlpack__") and not hasattr(array, "__array__"):
        return numpy.from_dlpack(array)
    return numpy.asarray(array)


def is_on_gpu(array: Any) -> bool:
    """True for an array that does not lie in host memory."""
    if hasattr(array, "__dlpack_device__"):
        return array.__dlpack_device__()[0] not in (1, 3)
    return hasattr(array, "__cuda_array_interface__")
