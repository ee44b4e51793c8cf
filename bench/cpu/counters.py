"""Hardware counters of this process and its children, through perf_event_open, where the machine
gives them: many virtual machines and containers do not."""
import ctypes
import os
import platform
import struct

SYSCALL = {"x86_64": 298, "aarch64": 241}
HARDWARE = {"instructions": 1, "cache_misses": 3}  # PERF_TYPE_HARDWARE's; of the last level
INHERIT, EXCLUDE_KERNEL, EXCLUDE_HV = 1 << 1, 1 << 5, 1 << 6
LINE = 64  # bytes of a cache line


def open_event(config, kind=0):
    """A file that counts from now on. OSError where that is not permitted or not there."""
    number = SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(f"perf_event_open is not known on {platform.machine()}")
    # perf_event_attr, its first version: type, size, config, period, sample type, read format,
    # flags, wakeup, breakpoint type, config1
    attributes = struct.pack("IIQQQQQIIQ", kind, 64, config, 0, 0, 0,
                             INHERIT | EXCLUDE_KERNEL | EXCLUDE_HV, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    file = libc.syscall(number, attributes, 0, -1, -1, 0)
    if file < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"perf_event_open: {os.strerror(error)}")
    return file


def refusal():
    """Why there are no counters here; None: there are."""
    try:
        for config in HARDWARE.values():
            os.close(open_event(config))
    except OSError as error:
        return error.strerror or str(error)
    return None


def counted(run, events=None):
    """{event: number} while run() ran, its children that ended included."""
    files = {name: open_event(*event) for name, event in
             (events or {name: (config,) for name, config in HARDWARE.items()}).items()}
    run()
    numbers = {}
    for name, file in files.items():
        numbers[name] = struct.unpack("Q", os.read(file, 8))[0]
        os.close(file)
    return numbers


def of_one_run(bench, fewer=50, more=150):
    """{event: number} of one run: what bench(n) counts grows by with n. The rest is start-up."""
    low, high = counted(lambda: bench(fewer)), counted(lambda: bench(more))
    return {name: (high[name] - low[name]) / (more - fewer) for name in low}
