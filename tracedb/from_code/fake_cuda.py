"""Streams, events and NVTX ranges of a GPU that is not there, as `torch.cuda` has them.

All work is laid out on one stream, in the order in which it is launched; so what waits
for another stream has nothing to wait for.
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
    """Let the host wait for all that it has launched."""
    with record_function(SYNCHRONIZE):
        pass


def nothing(*_: object, **__: object) -> int:
    """Do nothing, and say 0, as functions do that set or count something."""
    return 0


class Event:
    """A place in a stream, of which no time is known."""

    def __init__(self, *_: object, **__: object) -> None:
        """Take what says which kind it is."""

    def synchronize(self) -> None:
        """Let the host wait for it."""
        synchronize()

    def query(self) -> bool:
        """Whether the stream has come to it."""
        return True

    def elapsed_time(self, _other: Event) -> Unknown:
        """[ms] From it to another one: only a real run knows."""
        return Unknown()

    record = wait = nothing


class Stream:
    """A stream that all work is on."""

    cuda_stream = stream_id = device_index = priority = 0
    is_aside = True
    """Whether the code made it, to do something beside the rest."""

    def __init__(self, device: Any = None, **_: object) -> None:  # noqa: ANN401 (as PyTorch has it)
        """Take the device that it is of."""
        self.device = device

    def __enter__(self) -> Stream:  # noqa: PYI034 (there is but one class)
        """Launch on it."""
        _entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Launch on the one before."""
        _entered.pop()

    def synchronize(self) -> None:
        """Let the host wait for it."""
        synchronize()

    def query(self) -> bool:
        """Whether it has done all."""
        return True

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is made of what is launched."""
        return False

    def record_event(self, event: Event | None = None) -> Event:
        """Give the place to which it has come."""
        return event or Event()

    wait_stream = wait_event = nothing


class _Default(Stream):
    """The stream that there is without the code's doing."""

    is_aside = False


_entered: list[Stream] = []
"""The streams that the code is launching on, the innermost last."""


def is_aside() -> bool:
    """Whether the code is launching on a stream that it has made."""
    return bool(_entered) and _entered[-1].is_aside


def stream(chosen: Stream | None) -> Any:  # noqa: ANN401 (a context)
    """Launch on a stream."""
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
"""What of `torch.cuda` is of streams."""


class Nvtx:
    """Ranges of NVTX, which are the profiler's."""

    def __init__(self) -> None:
        """Have none open."""
        self._open: list[torch.profiler.record_function] = []

    def range_push(self, message: str, *_: object, **__: object) -> int:
        """Begin a range; say how deep it lies."""
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
        """Have a range for as long as the block."""
        with record_function(message):
            yield

    @property
    def functions(self) -> dict[str, object]:
        """What stands in the place of those of `torch.cuda.nvtx`."""
        return {
            "range_push": self.range_push,
            "range_pop": self.range_pop,
            "range": self.range,
            "mark": nothing,
        }
