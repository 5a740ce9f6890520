"""CuPy on a GPU, and NumPy on a CPU: one set of builders for both, in `array_ops`."""

import os
import platform
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from . import host
from .array_ops import BUILDERS
from .backend import Place
from .case import Case
from .errors import DeviceMissingError, UnsupportedError
from .timing import LEAST_FLUSH_BYTES, EventTimer, HostTimer, Timer

_ROOM = 0.6
_LIMITS = "threadpoolctl"
"""The optional package that sets the threads of BLAS."""


def open_backend(name: str, device: str, threads: int | None) -> "ArrayBackend":
    """Open NumPy or CuPy; DeviceMissingError without a GPU for the latter.

    NumPy's threads are those of its BLAS, by default as its environment says; setting
    them requires threadpoolctl.
    """
    arrays = import_module(name)
    if device == "cpu":
        if threads is not None:
            _limit(threads)
        return ArrayBackend(arrays, HostTimer(), host.memory_bytes(), _numpy_place)
    try:
        total = arrays.cuda.Device().mem_info[1]
    except arrays.cuda.runtime.CUDARuntimeError as error:
        raise DeviceMissingError(f"no CUDA GPU that CuPy can use: {error}") from error
    return ArrayBackend(arrays, EventTimer(_Gpu(arrays)), total, _cupy_place)


class ArrayBackend:
    """Builds cases of arrays."""

    def __init__(
        self,
        arrays: Any,  # noqa: ANN401 (a module: numpy or cupy)
        timer: Timer,
        memory_bytes: int,
        place: Callable[[Any], Place],
    ) -> None:
        """Take the array module, and the timer and description of its device."""
        self.arrays, self.timer, self._place = arrays, timer, place
        self.cold_timer = timer
        self.memory_bytes = int(memory_bytes * _ROOM)

    def place(self) -> Place:
        """The device and the package that measure."""
        return self._place(self.arrays)

    def build(self, case: Case) -> Callable[[], object]:
        """Make the arrays of a case, and the work to time."""
        if case.family not in BUILDERS:
            raise UnsupportedError(
                f"{case.family}: not available in {self.arrays.__name__}"
            )
        return BUILDERS[case.family](case, self.arrays)

    def failure(self, error: Exception) -> str | None:
        """Why a case cannot be measured: memory, or no such op."""
        if isinstance(error, MemoryError):  # CuPy's own is one, too
            return "out of memory"
        if isinstance(error, UnsupportedError | TypeError | ValueError):
            return f"unsupported: {str(error).partition(chr(10))[0]}"
        return None

    def release(self) -> None:
        """Release GPU memory; raises if the GPU no longer responds."""
        if hasattr(self.arrays, "cuda"):
            self.arrays.cuda.Device().synchronize()
            self.arrays.get_default_memory_pool().free_all_blocks()


def _limit(threads: int) -> None:
    """Set the number of BLAS threads; DeviceMissingError without threadpoolctl."""
    if find_spec(_LIMITS) is None:
        raise DeviceMissingError(
            f"{_LIMITS}, which sets NumPy's threads, is not installed: remove "
            f"--threads, and set OMP_NUM_THREADS={threads} in the environment"
        )
    import_module(_LIMITS).threadpool_limits(threads)


def _threads() -> int:
    """The number of BLAS threads."""
    if find_spec(_LIMITS) is None:
        return int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
    pools = import_module(_LIMITS).threadpool_info()
    return max((int(pool["num_threads"]) for pool in pools), default=1)


def _numpy_place(numpy: Any) -> Place:  # noqa: ANN401
    threads = _threads()
    facts = {"threads": threads, "system": platform.system(), "cache": "warm"}
    software = f"numpy {numpy.__version__}, {threads} thread{'s'[threads == 1 :]}"
    return Place(host.processor(), software, "op", facts)


def _cupy_place(cupy: Any) -> Place:  # noqa: ANN401
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    version = cupy.cuda.runtime.runtimeGetVersion()
    cuda = f"{version // 1000}.{version % 1000 // 10}"
    facts = host.gpu_facts() | {
        "multiprocessors": properties["multiProcessorCount"],
        "cache": "flushed",
        "event_pair_ns": "in the times",
    }
    name = properties["name"].decode()
    return Place(name, f"cupy {cupy.__version__}, cuda {cuda}", "kernel", facts)


class _Gpu:
    """The GPU as CuPy drives it."""

    def __init__(self, cupy: Any) -> None:  # noqa: ANN401
        """Allocate the buffer that flushes the cache: several times its size."""
        self._cupy = cupy
        properties = cupy.cuda.runtime.getDeviceProperties(0)
        count = max(4 * properties["l2CacheSize"], LEAST_FLUSH_BYTES)
        self._over = cupy.empty(count, dtype="int8")

    def mark(self) -> Any:  # noqa: ANN401
        """Record an event."""
        event = self._cupy.cuda.Event()
        event.record()
        return event

    def between_ns(self, start: Any, end: Any) -> float:  # noqa: ANN401
        """[ns] The time between two events."""
        return float(self._cupy.cuda.get_elapsed_time(start, end)) * 1e6

    def synchronize(self) -> None:
        """Wait for the GPU."""
        self._cupy.cuda.Device().synchronize()

    def flush(self) -> None:
        """Flush the cache by overwriting it."""
        self._over.fill(0)
