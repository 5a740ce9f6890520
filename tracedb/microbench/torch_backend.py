"""PyTorch as a backend, on a CPU or a CUDA GPU."""

import platform
from collections.abc import Callable
from statistics import median
from time import perf_counter_ns, thread_time_ns

import torch
from torch._C._autograd import DeviceType  # it has no public name
from torch.profiler import ProfilerActivity, profile

from . import host
from .backend import Place
from .case import Case
from .errors import DeviceMissingError, MicrobenchError, UnsupportedError
from .timing import (
    LEAST_FLUSH_BYTES,
    ColdTimer,
    Effort,
    EventTimer,
    HostTimer,
    Overhead,
    Timer,
)
from .torch_ops import BUILDERS

_ROOM = 0.6
"""[1] Share of the memory that a case may take; temporary results need some."""
_TINY_CALLS = 50
_OTHER_BYTES = 2**20
"""[B] The memory that other work reads, and as much that it writes: a core's cache."""


def open_backend(name: str, device: str, threads: int | None) -> "TorchBackend":
    """Open PyTorch on a device; DeviceMissingError if it is missing."""
    del name
    if device == "cpu":
        torch.set_num_threads(threads or torch.get_num_threads())
        clock = thread_time_ns if torch.get_num_threads() == 1 else perf_counter_ns
        return TorchBackend(device, HostTimer(clock), host.memory_bytes())
    if not torch.cuda.is_available():
        raise DeviceMissingError(
            f"PyTorch {torch.__version__} finds no CUDA GPU; measure on the CPU "
            "(--device cpu)"
        )
    gpu = _Gpu()
    total = torch.cuda.get_device_properties(0).total_memory
    return TorchBackend(device, EventTimer(gpu, _overhead(gpu)), total)


class TorchBackend:
    """Builds cases with PyTorch tensors."""

    def __init__(self, device: str, timer: Timer, memory_bytes: int) -> None:
        """Take the device, its timer, and its memory."""
        self.device, self.timer = torch.device(device), timer
        self.cold_timer = ColdTimer(other_work()) if device == "cpu" else timer
        self.memory_bytes = int(memory_bytes * _ROOM)

    def place(self) -> Place:
        """The device and the PyTorch version that measure."""
        if isinstance(self.timer, EventTimer):
            return _gpu_place(self.timer)
        threads = torch.get_num_threads()
        software = f"torch {torch.__version__}, {threads} thread{'s'[threads == 1 :]}"
        facts: dict[str, object] = {
            "threads": threads,
            "capability": torch.backends.cpu.get_cpu_capability(),
            "system": platform.system(),
            "cache": "warm",
            "clock": "wall" if threads > 1 else "the thread's own",
        }
        return Place(host.processor(), software, "op", facts)

    def build(self, case: Case) -> Callable[[], object]:
        """Make the tensors of a case, and the work to time."""
        return BUILDERS[case.family](case, self.device)

    def failure(self, error: Exception) -> str | None:
        """Why a case cannot be measured: memory, or no such op."""
        if isinstance(error, torch.cuda.OutOfMemoryError | MemoryError):
            return "out of memory"
        line = str(error).partition("\n")[0]
        if "can't allocate memory" in line or "out of memory" in line:
            return "out of memory"
        if isinstance(error, UnsupportedError | RuntimeError | TypeError):
            return f"unsupported: {line}"
        return None

    def release(self) -> None:
        """Release GPU memory; raises if the GPU no longer responds."""
        if self.device.type == "cuda":
            _leave_memory()


def other_work() -> Callable[[], object]:
    """Make CPU work that fills the caches, and is not an op of any plan."""
    numbers, order = torch.rand(64, 16), torch.arange(64).flip(0)
    source = torch.rand(_OTHER_BYTES // 4)
    target = torch.empty_like(source)

    def work() -> object:
        target.copy_(source)
        found = torch.cumsum(torch.atan2(numbers, numbers), 0).sort(1).values
        return torch.logical_xor(found.roll(1), numbers[order]).any().item()

    return work


def _leave_memory() -> None:
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except RuntimeError as error:
        line = str(error).partition("\n")[0]
        raise MicrobenchError(
            f"the GPU no longer responds ({line}); run the same command again to "
            "resume with the next case"
        ) from error


def _gpu_place(timer: EventTimer) -> Place:
    properties = torch.cuda.get_device_properties(0)
    software = f"torch {torch.__version__}, cuda {torch.version.cuda}"
    facts = host.gpu_facts() | {
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "multiprocessors": properties.multi_processor_count,
        "cache": "flushed",
        "event_pair_ns": timer.overhead.pair_ns,
        "smallest_kernel_ns": timer.overhead.kernel_ns,
    }
    return Place(properties.name, software, "kernel", facts)


class _Gpu:
    """The GPU as PyTorch drives it."""

    def __init__(self) -> None:
        """Allocate the buffer that flushes the cache: several times its size."""
        cache_bytes = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)
        count = max(4 * cache_bytes, LEAST_FLUSH_BYTES)
        self._over = torch.empty(count, dtype=torch.int8, device="cuda")

    def mark(self) -> torch.cuda.Event:
        """Record an event."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def between_ns(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """[ns] The time between two events."""
        return float(start.elapsed_time(end)) * 1e6

    def synchronize(self) -> None:
        """Wait for the GPU."""
        torch.cuda.synchronize()

    def flush(self) -> None:
        """Flush the cache by overwriting it."""
        self._over.zero_()


def _overhead(gpu: _Gpu) -> Overhead:
    """Measure the smallest kernel between events, and by the profiler."""
    tiny = torch.zeros(1, device="cuda")

    def work() -> object:
        return tiny.add_(1)

    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(_TINY_CALLS):
            gpu.flush()
            work()
        gpu.synchronize()
    kernels = [
        event.time_range.elapsed_us() * 1e3
        for event in profiled.events() or []
        if event.device_type == DeviceType.CUDA and "elementwise" in event.name
    ]
    # After profiling, because CUPTI stays loaded and may slow down later work.
    pairs = EventTimer(gpu).samples(work, Effort(repeats=_TINY_CALLS, most=_TINY_CALLS))
    # Flushes are a memset, or a fill much longer than the kernel to find.
    small = sorted(kernels)[:_TINY_CALLS]
    if not small:
        return Overhead(median(pairs))
    return Overhead(median(pairs), median(small))
