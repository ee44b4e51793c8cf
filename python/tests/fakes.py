"""Arrays that say that they lie on a GPU, as CuPy's, JAX's and Numba's do: asked for host memory they
fail as those do. They note what is asked of them. Their memory is numpy's."""
import contextlib
import types

import numpy as np

from braze import _braze


def aligned(shape, dtype=np.float32):
    """Zeros at an address that is a multiple of 256, as memory of a GPU is."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    whole = np.zeros(count + 256, np.uint8)
    begin = -whole.ctypes.data % 256
    return whole[begin:begin + count].view(dtype).reshape(shape)


class OnGpu:
    """DLPack and nothing else."""

    __array_priority__ = 100
    refusal = "this is a GPU's"

    def __init__(self, shape, gpu=0):
        self.host = aligned(shape)
        self.gpu = gpu
        self.asked = []

    @property
    def shape(self):
        return self.host.shape

    @property
    def dtype(self):
        return self.host.dtype

    def __dlpack_device__(self):
        self.asked.append("device")
        return 2, self.gpu

    def __dlpack__(self, *, stream=None):
        self.asked.append(f"dlpack {stream}")
        return _braze.view_memory(self.host.ctypes.data, "float", self.shape, self.gpu).__dlpack__()

    def __array__(self, *arguments, **named):
        raise TypeError(self.refusal)

    def __buffer__(self, flags):  # Python 3.12 and later ask
        raise RuntimeError(self.refusal)


def module(name, **members):
    """A module with classes that say that they are of it."""
    made = types.ModuleType(name)
    for key, value in members.items():
        if isinstance(value, type):
            value.__module__ = name
        setattr(made, key, value)
    return made


class Stream(contextlib.AbstractContextManager):
    """One of CuPy's, which notes what it waits for; the current one in a `with`."""

    current = []

    def __init__(self, ptr):
        self.ptr = ptr
        self.waits = []

    def record(self):
        return self.ptr

    def wait_event(self, event):
        self.waits.append(event)

    def __enter__(self):
        self.current.append(self)
        return self

    def __exit__(self, *error):
        self.current.pop()


def cupy(stream=0):
    """A module `cupy` whose current stream is at this address."""
    class ndarray(OnGpu):
        refusal = ("Accessing a CuPy ndarry on CPU is not allowed except when using system memory "
                   "(on HMM or ATS enabled systems, need to set CUPY_ENABLE_UMP=1) or managed memory")
        device = contextlib.nullcontext()

        @property
        def flags(self):
            return types.SimpleNamespace(c_contiguous=self.host.flags.c_contiguous)

        def get(self):
            return self.host.copy()

    copies = []

    def current():
        return Stream.current[-1] if Stream.current else Stream(stream)

    def ascontiguousarray(array):
        made = ndarray(array.shape)
        copies.append((current().ptr, current().waits))
        return made

    def empty(shape, dtype):
        made = ndarray(shape)
        assert made.dtype == dtype
        return made

    return module("cupy", ndarray=ndarray, empty=empty, ascontiguousarray=ascontiguousarray,
                  copies=copies, cuda=types.SimpleNamespace(get_current_stream=current,
                                                            ExternalStream=Stream))


def jax():
    """Modules `jax.numpy` and `jaxlib`, whose arrays have a stream of their own."""
    class ArrayImpl(OnGpu):
        refusal = "INVALID_ARGUMENT: Python buffer protocol is only defined for CPU buffers."

        def __array_namespace__(self):
            return numpy

        def __array__(self, *arguments, **named):
            return self.host.copy()

    def from_dlpack(array):
        kind, index = array.__dlpack_device__()
        capsule = array.__dlpack__(stream=1234)
        made = ArrayImpl(array.shape, index)
        made.taken = kind, capsule
        return made

    numpy = module("jax.numpy", from_dlpack=from_dlpack)
    return numpy, module("jaxlib", ArrayImpl=ArrayImpl)


class Numbas:
    """The CUDA array interface and nothing else."""

    def __init__(self, shape, stream=None, strides=None, typestr="<f4", read_only=False):
        self.host = aligned(shape)
        self.shape = shape
        self.__cuda_array_interface__ = {
            "shape": tuple(shape), "typestr": typestr, "strides": strides, "version": 3,
            "data": (self.host.ctypes.data, read_only), "stream": stream}
