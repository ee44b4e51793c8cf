"""From a model to a compiled network."""
from __future__ import annotations

import os
import sys
from typing import Any, Callable, Mapping

from . import _braze, arrays
from .errors import UsageError
from .model import Model, choice

Progress = Callable[[str], None]


def compile(model: Any, inputs: Any = None, *, device: str = "cpu", precision: str = "fp32",
            fusion: str = "full", backend: str = "auto", dims: Mapping[str, int] | None = None,
            constants: Mapping[str, Any] | None = None, io_layout: str = "model",
            io_dtype: str = "model", threads: int = 0, streams: int = 0, max_error: float = 1e-4,
            cache_dir: str | os.PathLike[str] | None = None,
            progress: Progress | bool | None = None) -> Model:
    """Compiles a network.

    model: an ONNX file, its bytes, an `onnx.ModelProto`, or a `torch.nn.Module` (in eval mode).
    inputs: for a torch module, an example of each input: a tensor, or a tuple of them.
    device: cpu, cuda, cuda:N; or cuda:sm_XX, which plans for a GPU that is not here.
    precision: fp32; on a GPU also tf32, fp16 and bf16, with fp32 accumulation.
    fusion: off, epilogue (a convolution with what follows it) or full (convolutions joined).
    backend: auto, braze or cudnn (convolutions by cuDNN), on a GPU.
    dims: numbers for symbolic dimensions, by their name in the model or "INPUT.AXIS". A batch that
        is not named is 1.
    constants: inputs that are bound to a value while compiling (the shape of a Reshape, say).
    io_layout: model, or nhwc: inputs and outputs of rank 3 and up are [N, spatial..., C].
    io_dtype: model, or compute: inputs and outputs have the type of `precision`.
    threads: on the CPU; 0: as many as the process may use.
    streams: most kernels at once on a GPU; 0: as many as pay.
    max_error: for verify(): largest error of an output, as a fraction of its range.
    cache_dir: where compiled kernels and measured times are kept; None: the user's cache folder.
    progress: told what long work is at; True: on standard error.

    ModelError and UnsupportedError name the node; UsageError an option; DeviceError, if the device
    is not here, says what was looked for.
    """
    options = make_options(
        device=device, precision=precision, fusion=fusion, backend=backend, dims=dims,
        constants=constants, io_layout=io_layout, io_dtype=io_dtype, threads=threads,
        streams=streams, max_error=max_error, cache_dir=cache_dir)
    told = progress_of(progress)
    if _is_torch_module(model):
        from .torch_export import to_onnx

        model = to_onnx(model, inputs)
    elif inputs is not None:
        raise UsageError("inputs are examples for a torch module; an ONNX model has its own")
    return Model(compile_native(model, options, told))


def load(file: str | os.PathLike[str], *, device: str | None = None, threads: int = 0,
         cache_dir: str | os.PathLike[str] | None = None,
         progress: Progress | bool | None = None) -> Model:
    """Loads an engine file that `Model.save` or `braze compile` wrote.

    device: for an engine made for a GPU, which one: cuda or cuda:N; None: the first.
    ModelError for a file that is no engine, damaged, or of another version; DeviceError.
    """
    options = make_options(device=device or "cpu", threads=threads, cache_dir=cache_dir)
    return Model(_braze.load_file(os.fspath(file), options, progress_of(progress)))


def make_options(*, device: str = "cpu", precision: str = "fp32", fusion: str = "full",
                 backend: str = "auto", dims: Mapping[str, int] | None = None,
                 constants: Mapping[str, Any] | None = None, io_layout: str = "model",
                 io_dtype: str = "model", threads: int = 0, streams: int = 0,
                 max_error: float = 1e-4,
                 cache_dir: str | os.PathLike[str] | None = None) -> _braze.Options:
    """The library's options. UsageError for a word that is none of an option's."""
    options = _braze.Options()
    options.device = device
    options.precision = choice(_braze.Precision, "precision", precision)
    options.fusion = choice(_braze.Fusion, "fusion", fusion)
    options.backend = choice(_braze.Backend, "backend", backend)
    options.nhwc_io = _either("io_layout", io_layout, "model", "nhwc")
    options.compute_dtype_io = _either("io_dtype", io_dtype, "model", "compute")
    options.dims = dict(dims or {})
    for name, array in (constants or {}).items():
        options.bind_constant(name, arrays.to_numpy(array))
    options.threads = threads
    options.streams = streams
    options.max_error = max_error
    if cache_dir is not None:
        options.cache_dir = os.fspath(cache_dir)
    # A GPU that is not here: the plan can be looked at and saved.
    options.plan_only = device.startswith("cuda:sm_")
    return options


def compile_native(model: Any, options: _braze.Options,
                   progress: Progress | None) -> _braze.Model:
    """Compiles a file, bytes or a ModelProto."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _braze.compile_bytes(bytes(model), "", options, progress)
    if hasattr(model, "SerializeToString"):
        return _braze.compile_bytes(model.SerializeToString(), "", options, progress)
    return _braze.compile_file(path_of(model), options, progress)


def path_of(model: Any) -> str:
    """The path of a model's file. UsageError for what is no path."""
    try:
        return os.fsdecode(os.fspath(model))
    except TypeError:
        raise UsageError(
            f"model is a {type(model).__qualname__}; expected a path, bytes, an onnx.ModelProto or "
            "a torch.nn.Module") from None


def progress_of(progress: Progress | bool | None) -> Progress | None:
    """A callback for the library."""
    if progress is True:
        return lambda what: print(f"braze: {what}", file=sys.stderr)
    return progress or None


def _either(option: str, value: str, no: str, yes: str) -> bool:
    if value not in (no, yes):
        raise UsageError(f"{option} is {value!r}; expected {no} or {yes}")
    return value == yes


def _is_torch_module(model: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)
