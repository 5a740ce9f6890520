"""What code asks `torch.cuda` for that no stream or event concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self

import torch

from tracedb.errors import EstimateError
from tracedb.from_code import place
from tracedb.from_code.capability import known_capability
from tracedb.from_code.fake_cuda import nothing
from tracedb.from_code.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable


CUDA, NCCL = "13.0", (2, 27, 0)
"""Recent versions, for code that asks whether something is there yet."""


def capability(gpu: str) -> tuple[int, int]:
    """The compute capability of a GPU; `EstimateError` if it is not known."""
    found = known_capability(gpu)
    return found or _unknown(f"the compute capability of {gpu}")


class Properties:
    """The properties of a GPU, as far as its name tells them."""

    def __init__(self, name: str) -> None:
        """Take its name."""
        self.name = name

    def __getattr__(self, asked: str) -> int:
        """Its compute capability; `EstimateError` for all others."""
        if asked in {"major", "minor"}:
            return capability(self.name)[asked == "minor"]
        return _unknown(f"{asked} of {self.name}")


def _unknown(what: str) -> NoReturn:
    raise EstimateError(
        f"{place.of_caller()}: {what} is not known here; let the step not ask for it"
    )


class Generator(torch.Generator):
    """A generator of any device: fake tensors take those of the CPU."""

    def __new__(cls, device: object = None) -> Self:
        """Ignore the device."""
        del device
        return super().__new__(cls, "cpu")  # type: ignore[call-arg]


def _captured(*_: object, **__: object) -> NoReturn:
    raise EstimateError(
        f"{place.of_caller()}: a CUDA graph cannot be captured without a GPU; let the "
        "step run its ops, and estimate it with --cuda-graph (cuda_graph=True)"
    )


GRAPHS = dict.fromkeys(
    ("CUDAGraph", "graph", "make_graphed_callables", "graph_pool_handle"), _captured
)
"""The attributes of `torch.cuda` that capture graphs."""

HELD = (
    *("memory_allocated", "max_memory_allocated"),
    *("memory_reserved", "max_memory_reserved"),
)
"""Functions that return how much memory tensors have."""
_SETTING = """
    current_device set_device _exchange_device _maybe_exchange_device init initial_seed
    empty_cache ipc_collect reset_peak_memory_stats reset_max_memory_allocated
    set_per_process_memory_fraction current_blas_handle
"""
_READING = """
    utilization memory_usage temperature power_draw clock_rate device_memory_used
"""
CONSTANT: dict[str, Callable[..., object]] = {
    **dict.fromkeys(_SETTING.split(), nothing),
    **dict.fromkeys(_READING.split(), lambda *_, **__: Unknown()),
    "mem_get_info": lambda *_, **__: (Unknown(), Unknown()),
    "memory_snapshot": lambda *_, **__: [],
    "get_allocator_backend": lambda: "native",
    "can_device_access_peer": lambda *_: True,
}
"""Functions that set what no estimate depends on, or read it."""
HISTORY = dict.fromkeys(("_record_memory_history", "_dump_snapshot"), nothing)
"""Functions of `torch.cuda.memory` that keep a history of allocations."""

_TYPES = {
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}


def _typed(dtype: torch.dtype) -> Callable[..., torch.Tensor]:
    """The constructor of a type of tensors: from sizes or from values."""

    def made(*given: Any) -> torch.Tensor:  # noqa: ANN401
        if given and not isinstance(given[0], int):
            return torch.tensor(given[0], dtype=dtype, device="cuda")
        return torch.empty(given, dtype=dtype, device="cuda")

    return made


TYPED = {name: _typed(dtype) for name, dtype in _TYPES.items()}
"""The old types of `torch.cuda`."""
