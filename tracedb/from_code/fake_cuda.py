"""Fake streams, events and NVTX ranges, with the interface of `torch.cuda`.

The recorder is told which stream each op is launched on, and which events streams and
the host wait for.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from itertools import count
from typing import TYPE_CHECKING, Any

from torch.profiler import record_function

from tracedb.from_code.ops import SYNCHRONIZE
from tracedb.from_code.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from tracedb.from_code.recorder import Recorder


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
        self._number: int | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Record it on a stream, by default the current one."""
        for recorder in _recorders[-1:]:
            self._number = recorder.record_event((stream or _current()).stream_id)

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream, by default the current one, wait for it if it was recorded."""
        for recorder in _recorders[-1:]:
            if self._number is not None:
                recorder.wait_event(self._number, (stream or _current()).stream_id)

    def synchronize(self) -> None:
        """Let the host wait for it if it was recorded."""
        for recorder in _recorders[-1:]:
            if self._number is not None:
                recorder.reach_event(self._number)

    def query(self) -> bool:
        """True: as if the event had been reached."""
        return True

    def elapsed_time(self, _other: Event) -> Unknown:
        """[ms] Unknown without a real run."""
        return Unknown()


class Stream:
    """A CUDA stream. The default one has number 0."""

    device_index = priority = 0
    device_type = 1
    """CUDA's number among the types of devices."""

    def __init__(self, device: Any = None, **_: object) -> None:  # noqa: ANN401 (as PyTorch has it)
        """Take its device, and the next number."""
        self.device = device
        self.stream_id = self.cuda_stream = next(_numbers)

    def __enter__(self) -> Stream:  # noqa: PYI034 (there is but one class)
        """Make it the current stream."""
        _entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the previous stream."""
        _entered.pop()

    def synchronize(self) -> None:
        """Let the host wait for it."""
        for recorder in _recorders[-1:]:
            recorder.reach_stream(self.stream_id)

    def query(self) -> bool:
        """True: as if all its work were done."""
        return True

    def is_capturing(self) -> bool:
        """False: no CUDA graph is being captured."""
        return False

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, by default a new one, and return it."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Let it wait for an event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Let it wait for what was launched on another stream."""
        stream.record_event().wait(self)


_numbers = count()
_DEFAULT = Stream()
_entered: list[Stream] = []
"""The current streams that the code has entered, innermost last."""
_recorders: list[Recorder] = []
"""What records the calls; the last one is in use."""


@contextmanager
def told(recorder: Recorder) -> Iterator[None]:
    """Tell a recorder what streams and events do within the block."""
    _recorders.append(recorder)
    try:
        yield
    finally:
        _recorders.remove(recorder)


def end() -> None:
    """Return to the default stream."""
    _entered.clear()


def _current(*_: object) -> Stream:
    return _entered[-1] if _entered else _DEFAULT


def current() -> int:
    """The number of the stream that code launches on."""
    return _current().stream_id


def stream(chosen: Stream | None) -> Any:  # noqa: ANN401 (a context)
    """Launch on a stream within the block."""
    return chosen or nullcontext()


def _set(chosen: Stream) -> None:
    """Launch on a stream from now on."""
    _entered[-1:] = [chosen]


def _default(*_: object) -> Stream:
    return _DEFAULT


STREAMS = {
    "Stream": Stream,
    "ExternalStream": Stream,
    "StreamContext": stream,
    "Event": Event,
    "stream": stream,
    "set_stream": _set,
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
