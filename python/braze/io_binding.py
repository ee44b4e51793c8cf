"""onnxruntime's IOBinding: arrays bound to a session's inputs and outputs."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Sequence

from . import _braze, arrays
from .errors import InputError, UsageError
from .model import Model
from .ort_values import OrtValue, element_name

if TYPE_CHECKING:
    from .session import InferenceSession


@dataclass(frozen=True)
class _Run:
    """A run whose outputs lie on a GPU."""

    network: Model
    outputs: list[Any]
    stream: int


@dataclass(frozen=True)
class _Ready:
    """What a run did that bound all its arrays where they are: the next one can do the same."""

    network: Model
    inputs: list[Any]
    outputs: list[Any]


def run_on(network: Model, inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    """Runs a network into arrays that lie where the inputs do; the CUDA stream that it did so in."""
    kind = arrays.kind_of(inputs)
    stream = kind.stream(inputs[0]) if inputs else 0
    theirs = arrays.kind_of(outputs)
    network._native.run(kind.lend(inputs, stream, True),
                        theirs.lend(outputs, stream, theirs is kind, True), stream)
    return stream


class IOBinding:
    """What `InferenceSession.run_with_iobinding` reads and writes, without copies where an array
    lies on the session's device."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}  # an array, or where a new one is wanted: cpu, cuda
        self._results: dict[str, Any] = {}
        self._last: _Run | None = None
        self._ready: _Ready | None = None  # until something else is bound

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Binds a numpy array."""
        self._ready = None
        self._inputs[name] = arr_on_cpu

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an OrtValue."""
        self._ready = None
        self._inputs[name] = ortvalue.array

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any,
                   shape: Sequence[int], buffer_ptr: int) -> None:
        """Binds memory at an address, which the caller keeps: elements without gaps, row-major."""
        self._ready = None
        self._inputs[name] = _memory(device_type, device_id, element_type, shape, buffer_ptr)

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0,
                    element_type: Any = None, shape: Sequence[int] | None = None,
                    buffer_ptr: int | None = None) -> None:
        """Binds memory at an address, or asks for a new array on the device."""
        self._ready = None
        if buffer_ptr is None:
            self._outputs[name] = device_type
        else:
            self._outputs[name] = _memory(device_type, device_id, element_type, shape or (),
                                          buffer_ptr)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an OrtValue, which is written in place."""
        self._ready = None
        self._outputs[name] = ortvalue.array

    def clear_binding_inputs(self) -> None:
        """Forgets the inputs."""
        self._ready = None
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forgets the outputs."""
        self._ready = None
        self._outputs.clear()
        self._results.clear()

    def synchronize_inputs(self) -> None:
        """Nothing to do: a run waits for the inputs' stream."""

    def synchronize_outputs(self) -> None:
        """Nothing to do: results on a GPU are ordered in the stream, others are there."""

    def get_outputs(self) -> list[OrtValue]:
        """The results, in the order of binding."""
        return [OrtValue(self._results[name]) for name in self._outputs]

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The results as numpy arrays, in the order of binding."""
        return [self._host(name) if arrays.is_on_gpu(self._results[name])
                else arrays.to_numpy(self._results[name]) for name in self._outputs]

    def run(self) -> None:
        """What run_with_iobinding does."""
        ready = self._ready
        if ready is not None:
            try:
                stream = run_on(ready.network, ready.inputs, ready.outputs)
            except InputError:  # an array was given another shape
                self._ready = None
            else:
                self._last = _Run(ready.network, ready.outputs, stream)
                return
        self._resolve_and_run()

    def _resolve_and_run(self) -> None:
        session = self._session
        known = [argument.name for argument in session.get_outputs()]
        for name in self._outputs:
            if name not in known:
                raise UsageError(f"the model has no output '{name}'; it has {', '.join(known)}")
        feed = session.checked(self._inputs)
        network = session.network(session.dims_of(feed), feed)
        native = network._native
        on_gpu = any(arrays.is_on_gpu(feed[info.name]) for info in network.inputs)
        bound = [self._outputs.get(name) for name in known]
        fits = [array is not None and not isinstance(array, str)
                and arrays.is_on_gpu(array) == on_gpu for array in bound]
        made: Sequence[Any]
        if all(fits):
            made = bound
        elif on_gpu:
            made = native.make_gpu_outputs()
        else:
            made = arrays.NumpyKind().empty(native, network.outputs, None)
        outputs = [array if fit else new for new, array, fit in zip(made, bound, fits)]
        stream = session.run_native(network, feed, outputs)
        as_they_are = all(array is self._inputs[name] for name, array in feed.items())
        if all(fits) and as_they_are and session.is_fixed():
            self._ready = _Ready(network, [feed[info.name] for info in network.inputs], outputs)
        self._last = _Run(network, outputs, stream)
        self._results = {}
        for name, array, output in zip(known, bound, outputs):
            if array is None:
                continue
            self._results[name] = output
            if on_gpu and (array == "cpu" if isinstance(array, str) else not arrays.is_on_gpu(array)):
                self._results[name] = self._host(name, None if isinstance(array, str) else array)
            elif array is not output and not isinstance(array, str):
                raise UsageError(f"output '{name}' is bound to memory on a GPU, but the inputs are "
                                 "in host memory")

    def _host(self, name: str, into: Any = None) -> Any:
        """A result on the GPU as a numpy array, in `into` if that is one."""
        assert self._last is not None
        native = self._last.network._native
        host = arrays.NumpyKind().empty(native, self._last.network.outputs, None)
        index = [argument.name for argument in self._session.get_outputs()].index(name)
        if into is not None:
            host[index] = into
        native.copy_from_gpu(self._last.outputs, host, self._last.stream)
        return host[index]


def _memory(device_type: str, device_id: int, element_type: Any, shape: Sequence[int],
            address: int) -> _braze.Array:
    if device_type not in ("cpu", "cuda"):
        raise UsageError(f"device_type is {device_type!r}; expected cpu or cuda")
    return _braze.view_memory(address, element_name(element_type), list(shape),
                              device_id if device_type == "cuda" else -1)
