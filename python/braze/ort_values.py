"""ONNX Runtime's small classes: what its users pass to a session and get from it."""
from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Sequence

from . import _braze, arrays
from .errors import InputError

# onnxruntime's names of element types.
ORT_NAMES = {name: f"tensor({name})" for name in (*arrays.NUMPY_NAMES, "bfloat16")}


class GraphOptimizationLevel(enum.IntEnum):
    """ORT_DISABLE_ALL compiles without fusion; all others mean full fusion."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Accepted; Braze's plan says what runs at once."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class SessionOptions:
    """Options of a session. `intra_op_num_threads`, `graph_optimization_level` and
    `add_free_dimension_override_by_name` mean what they say; others are kept and have no effect.
    """

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.enable_cpu_mem_arena = True
        self.enable_mem_pattern = True
        self.enable_profiling = False
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self.logid = ""
        self.dims: dict[str, int] = {}
        self._entries: dict[str, str] = {}

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Binds a symbolic dimension of the model to a number."""
        self.dims[name] = value

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Kept, without effect."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """What was kept."""
        return self._entries[key]


class RunOptions:
    """Options of a run: kept, without effect."""

    def __init__(self) -> None:
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False


@dataclass(frozen=True)
class NodeArg:
    """An input or output: its name, shape (a number, a symbol's name, or None by axis) and type
    ("tensor(float)")."""

    name: str
    shape: list[int | str | None]
    type: str


@dataclass(frozen=True)
class ModelMetadata:
    """What a model says of itself."""

    graph_name: str
    producer_name: str
    description: str
    version: int
    custom_metadata_map: dict[str, str]
    domain: str = ""
    graph_description: str = field(default="")


class OrtValue:
    """An array with a place: numpy's, or any with DLPack."""

    def __init__(self, array: Any) -> None:
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(array: Any, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        """Holds a numpy array. InputError for another device: hand over an array that lies there,
        by from_dlpack."""
        if device_type != "cpu":
            raise InputError(f"a numpy array is in host memory, not on {device_type}:{device_id}; "
                             "OrtValue.from_dlpack takes arrays of torch or CuPy that lie there")
        return OrtValue(array)

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any,
                                     device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        """A new numpy array of zeros."""
        import numpy

        return OrtValue.ortvalue_from_numpy(numpy.zeros(shape, element_type), device_type,
                                            device_id)

    @staticmethod
    def from_dlpack(array: Any) -> OrtValue:
        """Holds an array of any framework, on any device."""
        return OrtValue(array)

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def numpy(self) -> Any:
        """In host memory, as a numpy array."""
        return arrays.to_numpy(self._array)

    def device_name(self) -> str:
        """cpu or cuda."""
        return "cuda" if arrays.is_on_gpu(self._array) else "cpu"

    def shape(self) -> list[int]:
        """Extent of each axis."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """"tensor(float)" and so on."""
        return f"tensor({element_name(self._array.dtype)})"

    def data_ptr(self) -> int:
        """The address of the first element."""
        if isinstance(self._array, _braze.Array):
            return self._array.address
        if hasattr(self._array, "data_ptr"):
            return self._array.data_ptr()
        return self._array.__array_interface__["data"][0]

    def is_tensor(self) -> bool:
        """True: there is nothing else."""
        return True

    def has_value(self) -> bool:
        """True: there is nothing else."""
        return True

    @property
    def array(self) -> Any:
        """What it was made from."""
        return self._array


def element_name(dtype: Any) -> str:
    """ONNX's name of an element type that numpy, torch or ONNX Runtime names."""
    text = str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")
    text = text.removeprefix("tensor(").removesuffix(")")
    for onnx_name, numpy_name in arrays.NUMPY_NAMES.items():
        if text in (onnx_name, numpy_name, numpy_name.rstrip("_")):
            return onnx_name
    if text == "bfloat16":
        return text
    raise InputError(f"{dtype!r} is no element type that Braze has")
