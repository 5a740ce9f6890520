"""Fake streams, events and NVTX ranges, with the interface of `torch.cuda`.

All work is laid out on one stream in launch order, so waiting for another stream does
nothing.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from torch.profiler import record_function

from tracedb.from_code.ops import SYNCHRONIZE
from tracedb.from_code.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch


def synchronize(*_: object, **__: object) -> None:
    """Record that the host waits for all launched work."""
    with record_function(SYNCHRONIZE):
        pass


def nothing(*_: object, **__: object) -> int:
    """Do nothing and return 0: a stub for setters and counters."""
    return 0


class Event:
    """A CUDA event, whose time is unknown."""

    def __init__(self, *_: object, **__: object) -> None:
        """Ignore the flags."""

    def synchronize(self) -> None:
        """Let the host wait for it."""
        synchronize()

    def query(self) -> bool:
        """True: as if the event had been reached."""
        return True

    def elapsed_time(self, _other: Event) -> Unknown:
        """[ms] Unknown without a real run."""
        return Unknown()

    record = wait = nothing


class Stream:
    """A CUDA stream."""

    cuda_stream = stream_id = device_index = priority = 0
    is_aside = True
    """Whether it is a side stream, which the code created."""

    def __init__(self, device: Any = None, **_: object) -> None:  # noqa: ANN401 (as PyTorch has it)
        """Take its device."""
        self.device = device

    def __enter__(self) -> Stream:  # noqa: PYI034 (there is but one class)
        """Make it the current stream."""
        _entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the previous stream."""
        _entered.pop()

    def synchronize(self) -> None:
        """Let the host wait for it."""
        synchronize()

    def query(self) -> bool:
        """True: as if all its work were done."""
        return True

    def is_capturing(self) -> bool:
        """False: no CUDA graph is being captured."""
        return False

    def record_event(self, event: Event | None = None) -> Event:
        """Return the event, or a new one."""
        return event or Event()

    wait_stream = wait_event = nothing


class _Default(Stream):
    """The default stream."""

    is_aside = False


_entered: list[Stream] = []
"""The current streams that the code has entered, innermost last."""


def is_aside() -> bool:
    """Whether the code is launching on a side stream."""
    return bool(_entered) and _entered[-1].is_aside


def stream(chosen: Stream | None) -> Any:  # noqa: ANN401 (a context)
    """Launch on a stream within the block."""
    return chosen or nullcontext()


def _current(*_: object) -> Stream:
    return _entered[-1] if _entered else _Default()


def _default(*_: object) -> Stream:
    return _Default()


STREAMS = {
    "Stream": Stream,
    "ExternalStream": Stream,
    "StreamContext": stream,
    "Event": Event,
    "stream": stream,
    "set_stream": nothing,
    "current_stream": _current,
    "default_stream": _default,
    "synchronize": synchronize,
}
"""The attributes of `torch.cuda` that concern streams."""


class Nvtx:
    """NVTX ranges, recorded as profiler ranges."""

    def __init__(self) -> None:
        """Start without open ranges."""
        self._open: list[torch.profiler.record_function] = []

    def range_push(self, message: str, *_: object, **__: object) -> int:
        """Begin a range; return its depth."""
        opened = record_function(message)
        opened.__enter__()  # type: ignore[no-untyped-call]
        self._open.append(opened)
        return len(self._open) - 1

    def range_pop(self) -> int:
        """End the innermost range."""
        if self._open:
            self._open.pop().__exit__(None, None, None)
        return len(self._open)

    @contextmanager
    def range(self, message: str, *_: object, **__: object) -> Iterator[None]:
        """Record the block as a range."""
        with record_function(message):
            yield

    @property
    def functions(self) -> dict[str, object]:
        """The replacements for functions of `torch.cuda.nvtx`."""
        return {
            "range_push": self.range_push,
            "range_pop": self.range_pop,
            "range": self.range,
            "mark": nothing,
        }
