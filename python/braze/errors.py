"""What can go wrong, as exceptions. The message names the node, input or file, what was found and
what was expected. `exit_code` is what the command line exits with for the same error.
"""
from __future__ import annotations


class Error(Exception):
    """Base of all errors of Braze."""

    exit_code = 4


class CheckFailedError(Error):
    """An output is outside its tolerance."""

    exit_code = 1


class UsageError(Error, ValueError):
    """An option or argument is wrong."""

    exit_code = 2


class InputError(Error, ValueError):
    """An input or output array has the wrong shape, dtype, device or layout, or is missing."""

    exit_code = 2


class ModelError(Error, ValueError):
    """The model or engine file is missing, truncated, corrupt or violates ONNX."""

    exit_code = 3


class UnsupportedError(Error, NotImplementedError):
    """The model is legal, but uses something that Braze does not do."""

    exit_code = 3


class DeviceError(Error, RuntimeError):
    """The device is missing, too old, or failed."""


class FileError(Error, OSError):
    """Reading or writing a file failed."""


class OutOfMemoryError(Error, MemoryError):
    """Memory on the host or on the device ran out."""


class InternalError(Error, RuntimeError):
    """A bug in Braze: an invariant does not hold."""
