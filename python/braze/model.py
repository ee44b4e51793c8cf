"""A compiled network."""
from __future__ import annotations

import os
import statistics
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from . import _braze, arrays
from . import plan as plans
from .errors import InputError, UsageError


@dataclass(frozen=True)
class Tensor:
    """Name, ONNX element type ("float", "int64", ...) and shape of an input or output."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Deviation:
    """How far an output, or one kernel's result, is from the reference."""

    what: str  # the output's name, or the kernel's
    max_error: float  # largest |got - reference|
    allowed: float
    ok: bool


@dataclass(frozen=True)
class Verification:
    """What verify() found. True if every output is within its tolerance."""

    ok: bool
    reference: str  # interpreter, or cpu: what it was compared with
    outputs: tuple[Deviation, ...]
    kernels: tuple[Deviation, ...]  # bisect: each kernel on the reference's inputs, in order

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        lines = [f"{'right' if self.ok else 'WRONG'}, against the {self.reference}"]
        lines += [f"  {d.what}: largest error {d.max_error:.2e}, allowed {d.allowed:.2e}"
                  f"{'' if d.ok else ' <- too large'}" for d in (*self.outputs, *self.kernels)]
        return "\n".join(lines)


@dataclass(frozen=True)
class Timing:
    """What bench() measured, in microseconds."""

    min_us: float
    median_us: float
    p99_us: float
    iterations: int
    kernels: tuple[tuple[str, float], ...]  # per_kernel: name and median of each

    def __repr__(self) -> str:
        lines = [f"min {self.min_us:.1f} us, median {self.median_us:.1f} us, p99 "
                 f"{self.p99_us:.1f} us ({self.iterations} iterations)"]
        lines += [f"  {us:10.2f} us  {name}" for name, us in self.kernels]
        return "\n".join(lines)


class Model:
    """A compiled network: call it with arrays. `braze.compile` and `braze.load` make one.

    It may be called by several threads at once; Python's lock is released while it runs.
    """

    def __init__(self, native: _braze.Model) -> None:
        self._native = native
        self._inputs = _tensors(native.inputs)
        self._outputs = _tensors(native.outputs)
        self._single = len(self._outputs) == 1
        self._plan: plans.Plan | None = None

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs, in the order of the model."""
        return self._inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs, in the order of the model."""
        return self._outputs

    @property
    def plan(self) -> plans.Plan:
        """The kernels, the nodes in each, what was folded, and what was not fused and why."""
        if self._plan is None:
            self._plan = plans.from_summary(self._native.plan)
        return self._plan

    def __call__(self, *inputs: Any, out: Any = None, stream: int | None = None,
                 **named: Any) -> Any:
        """Runs the network.

        inputs: arrays in the order of `inputs`, or by name, or one mapping of names: numpy's,
            torch's, CuPy's, JAX's, or any with DLPack. Shapes and element types are exactly those of `inputs`.
            Arrays without gaps are read where they lie; others are copied first. On a model for a
            GPU all lie on that GPU, or all in host memory, from where they are copied.
        out: an array, or one for each output, to be written in place: without gaps, writable.
        stream: CUDA stream (an address, as torch's `cuda_stream`) that the work is put in; by
            default the current one of torch or CuPy for their arrays, else the default stream. The
            call returns before the GPU is done, as the framework's own do, except for JAX.

        Returns one array, or a tuple where the model has several outputs: of the kind and in the
        place of the first input; with `out`, those.

        InputError names the input and what was expected; DeviceError, OutOfMemoryError.
        """
        if named or (len(inputs) == 1 and arrays.is_mapping(type(inputs[0]))):
            inputs = self._by_name(inputs, named)
        kind = arrays.kind_of(inputs)
        current = stream is None
        if stream is None:
            stream = kind.stream(inputs[0]) if inputs else 0
        read = kind.lend(inputs, stream, current)
        if out is None:
            made = kind.empty(self._native, self._outputs, inputs[0] if inputs else None)
            self._native.run(read, kind.lend(made, stream, current, True), stream)
            made = kind.finish(self._native, made)
            return made[0] if self._single else tuple(made)
        given = (out,) if self._single and not isinstance(out, (list, tuple)) else out
        theirs = arrays.kind_of(given)
        self._native.run(read, theirs.lend(given, stream, current and theirs is kind, True), stream)
        kind.finish(self._native, [])
        return out

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Runs the network on arrays by name; the outputs by name. See __call__."""
        outputs = self(inputs)
        return dict(zip((info.name for info in self._outputs),
                        (outputs,) if self._single else outputs))

    def random_inputs(self, seed: int = 0) -> tuple[Any, ...]:
        """A numpy array for each input: uniform [-1, 1), small whole numbers for integers."""
        import numpy

        made = tuple(numpy.empty(info.shape, arrays.numpy_dtype(info.dtype))
                     for info in self._inputs)
        self._native.fill_random(made, seed)
        return made

    def explain(self) -> str:
        """The whole plan as text: what was fused, what was not, and why."""
        return self.plan.explain()

    def source(self, kernel: str) -> str:
        """The source a kernel of the plan was compiled from; "" if it is part of the library."""
        names = [k.name for k in self.plan.kernels]
        if kernel not in names:
            raise UsageError(f"no kernel is called '{kernel}'; there are {', '.join(names)}")
        return self._native.source(names.index(kernel))

    def verify(self, *inputs: Any, bisect: bool = False, reference: str = "auto") -> Verification:
        """Compares a run with the reference, on `inputs` (by default random ones).

        bisect: also each kernel on the reference's inputs, which names the first one that is off.
        reference: "interpreter" (naive and obviously right), "cpu" (Braze's fp32 CPU kernels) or
            "auto": the interpreter, unless that takes too long.
        UnsupportedError for a model that was loaded from an engine file.
        """
        report = self._native.verify(self._host_inputs(inputs), bisect,
                                     choice(_braze.Reference, "reference", reference))
        return Verification(report.ok, report.reference.name,
                            tuple(map(_deviation, report.outputs)),
                            tuple(map(_deviation, report.kernels)))

    def bench(self, *inputs: Any, iterations: int | None = None,
              per_kernel: bool = False) -> Timing:
        """Measures runs after a warm-up, on `inputs` (by default random ones), without copies from
        and to the host where the device has memory of its own.

        iterations: by default as many as fit in a second, 50 to 2000.
        per_kernel: also the median of each kernel, of 20 runs.
        """
        fed = self._host_inputs(inputs)
        times = self._native.time(fed, iterations or 50)
        if iterations is None:
            more = 1.0 / max(statistics.median(times), 1e-9) - len(times)
            times += self._native.time(fed, int(min(max(more, 0), 1950)))
        times = sorted(time * 1e6 for time in times)
        kernels: tuple[tuple[str, float], ...] = ()
        if per_kernel:
            runs = [self._native.profile(fed) for _ in range(20)]
            kernels = tuple((kernel.name, statistics.median(run[k] for run in runs) * 1e6)
                            for k, kernel in enumerate(self.plan.kernels))
        rank = max(-(-len(times) * 99 // 100), 1)
        return Timing(times[0], statistics.median(times), times[rank - 1], len(times), kernels)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes an engine file: plan and weights, for `braze.load`. FileError."""
        self._native.save(os.fspath(file))

    def __repr__(self) -> str:
        described = ", ".join(map(str, self._inputs))
        results = ", ".join(map(str, self._outputs))
        return (f"<braze.Model ({described}) -> ({results}): {len(self.plan.kernels)} kernel"
                f"{'' if len(self.plan.kernels) == 1 else 's'} on "
                f"{self.plan.device}>")

    def _by_name(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The inputs in order."""
        given = dict(named)
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            given.update(inputs[0])
            inputs = ()
        names = [info.name for info in self._inputs]
        unknown = [name for name in given if name not in names[len(inputs):]]
        missing = [name for name in names[len(inputs):] if name not in given]
        if unknown or missing:
            raise InputError(
                f"the model's inputs are {', '.join(names)}; "
                + (f"not given: {', '.join(missing)}" if missing
                   else f"unknown, or given twice: {', '.join(unknown)}"))
        return (*inputs, *(given[name] for name in names[len(inputs):]))

    def _host_inputs(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if not inputs:
            return self.random_inputs()
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            inputs = self._by_name(inputs, {})
        return tuple(map(arrays.to_numpy, inputs))


def choice(enum: Any, option: str, value: str) -> Any:
    """The member of an enumeration that an option names. UsageError naming all that there are."""
    names = [member.name for member in enum]
    if value not in names:
        raise UsageError(f"{option} is {value!r}; expected {', '.join(names)}")
    return getattr(enum, value)


def _tensors(infos: Sequence[_braze.TensorInfo]) -> tuple[Tensor, ...]:
    return tuple(Tensor(info.name, info.dtype, tuple(info.shape)) for info in infos)


def _deviation(found: _braze.Deviation) -> Deviation:
    return Deviation(found.what, found.max_error, found.allowed, found.ok)
