"""A stand-in for onnxruntime.InferenceSession: `import braze as onnxruntime`."""
from __future__ import annotations

import collections
import os
import threading
import warnings
from typing import Any, Mapping, Sequence

from . import _braze, arrays
from .compiler import Progress, compile_native, make_options, path_of, progress_of
from .errors import DeviceError, InputError, UnsupportedError, UsageError
from .io_binding import IOBinding, run_on
from .model import Model
from .ort_values import (ORT_NAMES, ExecutionMode, GraphOptimizationLevel, ModelMetadata, NodeArg,
                         OrtValue, RunOptions, SessionOptions)

__all__ = ["ExecutionMode", "GraphOptimizationLevel", "IOBinding", "InferenceSession",
           "ModelMetadata", "NodeArg", "OrtValue", "RunOptions", "SessionOptions",
           "get_available_providers", "get_device"]

# What the library says of an input that decides a shape, before the input's name.
_DECIDES = "depends on the values of input '"

_PROVIDERS = {"CPUExecutionProvider": "cpu", "CUDAExecutionProvider": "cuda",
              "TensorrtExecutionProvider": "cuda"}


class InferenceSession:
    """A model, with ONNX Runtime's names.

    A model with symbolic dimensions is compiled for each set of numbers that its inputs' shapes
    give them, when they first come; so is one for each value of an input that decides a shape (the
    target of a Reshape). The last few compiled networks are kept.
    """

    def __init__(self, path_or_bytes: Any, sess_options: SessionOptions | None = None,
                 providers: Sequence[Any] | None = None,
                 provider_options: Sequence[Mapping[str, Any]] | None = None, *,
                 cached_networks: int = 8, progress: Progress | bool | None = None,
                 **options: Any) -> None:
        """path_or_bytes: an ONNX file, its bytes, or an onnx.ModelProto.
        providers: ONNX Runtime's ("CUDAExecutionProvider", or a pair with {"device_id": 1}), or
            devices as `braze.compile` names them; the first that is here is taken, and of those
            before it is warned.
        cached_networks: how many compiled networks are kept, one for each set of dimensions.
        options: those of `braze.compile` (precision, fusion, device, cache_dir, ...).

        Errors as `braze.compile`: here for a model whose dimensions are all known, else when it
        is first run.
        """
        session_options = sess_options or SessionOptions()
        self._model = path_or_bytes
        if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
            self._model = bytes(path_or_bytes)
            self._info = _braze.inspect_bytes(self._model)
        elif hasattr(path_or_bytes, "SerializeToString"):
            self._model = path_or_bytes.SerializeToString()
            self._info = _braze.inspect_bytes(self._model)
        else:
            self._info = _braze.inspect_file(path_of(path_or_bytes))
        self._session_options = session_options
        self._progress = progress_of(progress)
        self._cached_networks = max(cached_networks, 1)
        self._networks: collections.OrderedDict[Any, Model] = collections.OrderedDict()
        self._deciding: set[str] = set()  # inputs that decide a shape
        self._lock = threading.Lock()
        self._options = dict(options)
        self._fixed = {**session_options.dims, **self._options.pop("dims", {})}
        self._options.setdefault("threads", max(session_options.intra_op_num_threads, 0))
        if session_options.graph_optimization_level == GraphOptimizationLevel.ORT_DISABLE_ALL:
            self._options.setdefault("fusion", "off")
        if "device" not in self._options:
            self._options["device"] = _device_of(providers, provider_options)
        self._inputs = [_node_arg(info) for info in self._info.inputs]
        self._outputs = [_node_arg(info) for info in self._info.outputs]
        self._names = frozenset(argument.name for argument in self._inputs)
        # Where every extent is declared: what shapes are compared with first.
        self._declared = {info.name: tuple(info.shape) for info in self._info.inputs
                          if info.known_rank and min(info.shape, default=1) > 0}
        self._kind = arrays.NumpyKind()
        symbols = {symbol for info in self._info.inputs for symbol in info.symbols if symbol}
        if all(info.known_rank for info in self._info.inputs) and symbols <= self._fixed.keys():
            try:
                self.network({})
            except UnsupportedError as error:
                if _DECIDES not in str(error):
                    raise

    def get_inputs(self) -> list[NodeArg]:
        """Name, shape and type of each input."""
        return self._inputs

    def get_outputs(self) -> list[NodeArg]:
        """Name, shape and type of each output, as the model declares them."""
        return self._outputs

    def get_overridable_initializers(self) -> list[NodeArg]:
        """None: initializers are constants."""
        return []

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself."""
        info = self._info
        return ModelMetadata(info.name, info.producer, info.description, info.version,
                             info.metadata)

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._session_options

    def get_providers(self) -> list[str]:
        """ONNX Runtime's names of where the session runs."""
        cpu = ["CPUExecutionProvider"]
        return cpu if self._options["device"] == "cpu" else ["CUDAExecutionProvider", *cpu]

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
            run_options: RunOptions | None = None) -> list[Any]:
        """Runs the network on arrays by name; numpy arrays of the outputs that are asked for (None
        or empty: all), in that order. InputError names an input that is wrong."""
        feed = self.checked(input_feed)
        chosen = self._chosen(output_names)
        network = self.network(self.dims_of(feed), feed)
        outputs = self._kind.empty(network._native, network.outputs, None)
        self.run_native(network, feed, outputs)
        return outputs if chosen is None else [outputs[i] for i in chosen]

    def run_with_ort_values(self, output_names: Sequence[str] | None,
                            input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: RunOptions | None = None) -> list[OrtValue]:
        """The same with OrtValues."""
        return [OrtValue(array) for array in
                self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self) -> IOBinding:
        """Arrays bound to inputs and outputs, for run_with_iobinding."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding,
                           run_options: RunOptions | None = None) -> None:
        """Runs the network on what is bound, into what is bound."""
        iobinding.run()

    def network(self, dims: Mapping[str, int], feed: Mapping[str, Any] | None = None) -> Model:
        """The compiled network for numbers of the model's symbolic dimensions, and for the values
        of those inputs of a feed that decide shapes; they are none of the network's inputs."""
        dims = {**self._fixed, **dims}
        with self._lock:
            while True:
                values = {name: arrays.to_numpy((feed or {})[name])
                          for name in sorted(self._deciding)}
                key = (tuple(sorted(dims.items())),
                       tuple((value.shape, value.tobytes()) for value in values.values()))
                found = self._networks.get(key)
                if found is not None:
                    self._networks.move_to_end(key)
                    return found
                try:
                    options = make_options(dims=dims, constants=values, **self._options)
                    found = Model(compile_native(self._model, options, self._progress))
                except UnsupportedError as error:
                    more = self._named_as_deciding(str(error)) if feed else set()
                    if not more:
                        raise
                    self._deciding |= more
                    continue
                self._networks[key] = found
                if len(self._networks) > self._cached_networks:
                    self._networks.popitem(last=False)
                return found

    def _named_as_deciding(self, error: str) -> set[str]:
        """The input that an error says a shape depends on; or, if that is a value computed from
        inputs, all of whole numbers. Empty if fixing them cannot help."""
        _, found, rest = error.partition(_DECIDES)
        left = [a for a in self._inputs if a.name not in self._deciding]
        named = {a.name for a in left if rest.startswith(f"{a.name}'")}
        whole = {a.name for a in left if a.type in ("tensor(int64)", "tensor(int32)")}
        return (named or whole) if found else set()

    def checked(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays of a feed in the order of the inputs; what is no array becomes numpy's."""
        names = [argument.name for argument in self._inputs]
        if feed.keys() == self._names:
            return {name: _as_array(feed[name]) for name in names}
        missing = [name for name in names if name not in feed]
        unknown = [name for name in feed if name not in names]
        if missing or unknown:
            raise InputError(f"the model's inputs are {', '.join(names)}; " +
                             (f"not given: {', '.join(missing)}" if missing
                              else f"unknown: {', '.join(unknown)}"))
        return {name: _as_array(feed[name]) for name in names}

    def dims_of(self, feed: Mapping[str, Any]) -> dict[str, int]:
        """The numbers that arrays give the symbolic dimensions. InputError naming the input whose
        shape is not the model's."""
        if all(array.shape == self._declared.get(name) for name, array in feed.items()):
            return {}
        dims: dict[str, int] = {}
        for info in self._info.inputs:
            shape = tuple(feed[info.name].shape)
            fits = not info.known_rank or len(shape) == len(info.shape)
            for extent, declared, symbol in zip(shape, info.shape, info.symbols):
                known = self._fixed.get(symbol, declared) if symbol else declared
                known = dims.get(symbol, known) if known < 0 else known
                fits = fits and (known < 0 or known == extent) and extent > 0
                if symbol:
                    dims[symbol] = extent
            if not fits:
                wanted = ", ".join(str(dim) for dim in _shape(info))
                raise InputError(f"input '{info.name}' is [{', '.join(map(str, shape))}]; expected "
                                 f"[{wanted}], with one number for each symbol")
        return dims

    def run_native(self, network: Model, feed: Mapping[str, Any], outputs: Sequence[Any]) -> int:
        """Runs a network into arrays that lie where the feed does; the CUDA stream that it did
        so in."""
        return run_on(network, [feed[info.name] for info in network.inputs], outputs)

    def is_fixed(self) -> bool:
        """True if a network is chosen by the shapes of its inputs alone, not by their values."""
        return not self._deciding

    def _chosen(self, names: Sequence[str] | None) -> list[int] | None:
        if not names:
            return None
        known = [argument.name for argument in self._outputs]
        for name in names:
            if name not in known:
                raise UsageError(f"the model has no output '{name}'; it has {', '.join(known)}")
        return [known.index(name) for name in names]


def get_available_providers() -> list[str]:
    """ONNX Runtime's names of the devices that are here, the fastest first."""
    cuda = any(report.name == "cuda" and report.usable for report in _braze.devices())
    return ["CUDAExecutionProvider", "CPUExecutionProvider"] if cuda else ["CPUExecutionProvider"]


def get_device() -> str:
    """GPU, where one can be used, or CPU."""
    return "GPU" if len(get_available_providers()) > 1 else "CPU"


def _device_of(providers: Sequence[Any] | None,
               provider_options: Sequence[Mapping[str, Any]] | None) -> str:
    """The device of the first provider that is here."""
    if providers is None:
        return "cpu"
    wanted: list[tuple[str, str]] = []
    for i, provider in enumerate(providers):
        name, options = provider if isinstance(provider, (tuple, list)) else (provider, {})
        if provider_options is not None and i < len(provider_options):
            options = {**options, **provider_options[i]}
        device = _PROVIDERS.get(str(name), str(name))
        wanted.append((str(name), f"cuda:{options['device_id']}"
                       if device == "cuda" and "device_id" in options else device))
    here = {report.name: report for report in _braze.devices()}
    why: list[str] = []
    for name, device in wanted:
        report = here.get("cuda:0" if device == "cuda" else device)
        if device.startswith("cuda:sm_") or (report is not None and report.usable):
            for text in why:
                warnings.warn(f"{text}; {name} is used", stacklevel=3)
            return device
        driver = here.get("cuda")
        why.append(f"{name} cannot be used: " + (
            driver.detail if device.startswith("cuda") and driver is not None
            and not driver.usable else "Braze has no such device here"))
    raise DeviceError("; ".join(why) or "providers is empty; expected at least one")


def _shape(info: _braze.DeclaredTensor) -> list[int | str | None]:
    """As ONNX Runtime says it: an axis without a name is None."""
    return [extent if extent >= 0 else
            (None if symbol in ("", f"{info.name}.{axis}") else symbol)
            for axis, (extent, symbol) in enumerate(zip(info.shape, info.symbols))]


def _node_arg(info: _braze.DeclaredTensor) -> NodeArg:
    return NodeArg(info.name, _shape(info), ORT_NAMES[info.dtype])


def _as_array(value: Any) -> Any:
    if isinstance(value, OrtValue):
        value = value.array
    if hasattr(value, "shape"):
        return value
    import numpy

    return numpy.asarray(value)
