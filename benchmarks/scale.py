"""Repeat a Kineto trace until it has so many events, with times and numbers continued.

    python benchmarks/scale.py trace.json.gz large.json --events 1000000

Copies follow each other, 50 us apart. What numbers an event or names another
(`_SERIES`) goes on from copy to copy, so that a link stays within its copy; processes,
threads, devices and streams stay as they are. The text stays that of the source but for
those numbers, so its layout does too. Metadata (`ph` M) is written once. The same
source gives the same bytes; a name in `.gz` compresses them.
"""

from __future__ import annotations

import argparse
import gzip
import re
from contextlib import contextmanager
from decimal import Decimal
from math import ceil, floor
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_PAUSE_US = 50
_CHUNK = 1_000
_STEP = b"ProfilerStep#"
_SERIES: dict[bytes, tuple[str, int]] = {
    # Key: which ids share its series, and the lowest valid id.
    b"ts": ("time", 0),
    b"external ts": ("time", 1),
    b"correlation": ("link", 1),
    b"External id": ("link", 1),
    b"external id": ("link", 1),
    b"id": ("link", 1),
    b"wait_on_cuda_event_record_corr_id": ("link", 1),
    b"wait_on_cuda_event_id": ("cuda event", 1),
    b"Sequence number": ("sequence", 0),
    b"Ev Idx": ("index", 0),
    b"Profiler Event Index": ("index", 0),
    b"Record function id": ("record function", 1),
    b"Python id": ("python", 1),
    b"Python parent id": ("python", 1),
    _STEP: ("step", 0),
}
_OF_EVENT = {b"ts", b"id"}
"""Keys with this meaning in the event itself, not in its arguments."""

# Keys within a JSON string have escaped quotes and do not match.
_NUMBER = re.compile(
    rb'(?:"(?P<key>%s)"\s*:\s*"?|"name"\s*:\s*"(?P<step>%s))'
    rb'(?P<number>\d+)(?=(?:\.\d+)?"?\s*[,}])'
    % (b"|".join(map(re.escape, _SERIES.keys() - {_STEP})), _STEP)
)


class Scaled(NamedTuple):
    """What was written."""

    events: int
    copies: int


class _Number(NamedTuple):
    """A number in an event's text that increases from copy to copy."""

    start: int
    end: int
    series: str
    value: int


class _Event(NamedTuple):
    """An event as it is written, and what has to be known of it."""

    text: bytes
    separator: bytes
    """The text between it and the previous event."""
    phase: str
    span_us: tuple[Decimal, Decimal] | None
    numbers: list[_Number]


class _Trace(NamedTuple):
    """A trace, split where copies of its events are inserted."""

    head: bytes
    """Everything up to the last event."""
    events: list[_Event]
    tail: bytes


class _Chunk(NamedTuple):
    """Some events: text with `%d` for each number, and the numbers' increments."""

    template: bytes
    values: list[int]
    widths: list[int]

    def copy(self, number: int) -> bytes:
        """The text of one copy; number 0 is the source."""
        pairs = zip(self.values, self.widths, strict=True)
        return self.template % tuple(value + number * width for value, width in pairs)


class _Fields(msgspec.Struct):
    """The fields of an event that are read here."""

    ph: str = ""
    ts: msgspec.Raw = msgspec.Raw()
    dur: msgspec.Raw = msgspec.Raw(b"0")
    args: msgspec.Raw = msgspec.Raw()


def scale(source: Path, target: Path, events: int) -> Scaled:
    """Write whole copies of a trace, at least one, until there are so many events.

    Raises `ValueError` where the source is no trace of Kineto's, or has times that are
    no plain decimals.
    """
    trace = _read(source)
    repeated = [event for event in trace.events if event.phase != "M"]
    if not repeated:
        raise ValueError("no events to repeat")
    once = len(trace.events) - len(repeated)
    copies = max(1, ceil((events - once) / len(repeated)))
    widths = _widths(repeated)
    starts = range(0, len(repeated), _CHUNK)
    chunks = [_chunk(repeated[start : start + _CHUNK], widths) for start in starts]
    with _writer(target) as file:
        file.write(trace.head)
        for number in range(1, copies):
            file.writelines(chunk.copy(number) for chunk in chunks)
        file.write(trace.tail)
    return Scaled(once + copies * len(repeated), copies)


def _read(path: Path) -> _Trace:
    stored = path.read_bytes()
    text = gzip.decompress(stored) if path.suffix == ".gz" else stored
    items, position = _items(text)
    events: list[_Event] = []
    for number, item in enumerate(items):
        start = text.index(item, position)
        events.append(_event(item, text[position:start] if number else b""))
        position = start + len(item)
    if events:
        second = events[1].separator if len(events) > 1 else b",\n"
        events[0] = events[0]._replace(separator=second)
    return _Trace(text[:position], events, text[position:])


def _items(text: bytes) -> tuple[list[bytes], int]:
    """The texts of the events, and where their list begins."""
    try:
        if text.lstrip().startswith(b"["):
            start = text.index(b"[")
            items = msgspec.json.decode(text, type=list[msgspec.Raw])
        else:
            listed = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            events = bytes(listed["traceEvents"])
            start = text.index(events)
            items = msgspec.json.decode(events, type=list[msgspec.Raw])
    except (msgspec.DecodeError, KeyError) as error:
        raise ValueError(f"no trace: {error}") from error
    return [bytes(item) for item in items], start


def _event(text: bytes, separator: bytes) -> _Event:
    fields = msgspec.json.decode(text, type=_Fields)
    numbers = list(_numbers(text, bytes(fields.args)))
    if bytes(fields.ts) and not any(number.series == "time" for number in numbers):
        raise ValueError(f"ts {bytes(fields.ts).decode()}: no plain decimal")
    return _Event(text, separator, fields.ph, _span_us(fields), numbers)


def _span_us(fields: _Fields) -> tuple[Decimal, Decimal] | None:
    ts, dur = (bytes(text).decode().strip('"') for text in (fields.ts, fields.dur))
    return (Decimal(ts), Decimal(ts) + Decimal(dur)) if ts else None


def _numbers(text: bytes, args: bytes) -> Iterator[_Number]:
    args_start = text.index(args) if args else len(text)
    args_end = args_start + len(args)
    for match in _NUMBER.finditer(text):
        key = match["key"] or match["step"]
        if key in _OF_EVENT and args_start <= match.start() < args_end:
            continue
        series, lowest = _SERIES[key]
        if (value := int(match["number"])) >= lowest:
            yield _Number(*match.span("number"), series, value)


def _widths(events: Sequence[_Event]) -> dict[str, int]:
    """The increment of each series per copy: the range that the source covers."""
    values: dict[str, list[int]] = {}
    for number in (number for event in events for number in event.numbers):
        values.setdefault(number.series, []).append(number.value)
    widths = {series: max(seen) - min(seen) + 1 for series, seen in values.items()}
    spans = [event.span_us for event in events if event.span_us]
    first = min((start for start, _ in spans), default=Decimal(0))
    last = max((end for _, end in spans), default=Decimal(0))
    return widths | {"time": ceil(last) - floor(first) + _PAUSE_US}


def _chunk(events: Iterable[_Event], widths: dict[str, int]) -> _Chunk:
    pieces: list[bytes] = []
    numbers: list[_Number] = []
    for event in events:
        position = 0
        pieces.append(event.separator)
        for number in event.numbers:
            pieces += [event.text[position : number.start].replace(b"%", b"%%"), b"%d"]
            position = number.end
        pieces.append(event.text[position:].replace(b"%", b"%%"))
        numbers += event.numbers
    return _Chunk(
        b"".join(pieces),
        [number.value for number in numbers],
        [widths[number.series] for number in numbers],
    )


@contextmanager
def _writer(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write; `.gz` compresses, without a date."""
    with path.open("wb") as plain:
        if path.suffix != ".gz":
            yield plain
            return
        with gzip.GzipFile("", "wb", compresslevel=6, fileobj=plain, mtime=0) as packed:
            yield packed  # type: ignore[misc]  # it writes bytes, as a file does


def main() -> None:
    """Scale one file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path, help="a Kineto trace, .json or .json.gz")
    parser.add_argument("target", type=Path, help="what to write, likewise")
    parser.add_argument("--events", type=int, required=True, help="how many, at least")
    given = parser.parse_args()
    try:
        events, copies = scale(given.source, given.target, given.events)
    except (OSError, EOFError, ValueError, msgspec.DecodeError) as error:
        parser.exit(1, f"{given.source}: {error}\n")
    print(f"{events:,} events in {copies:,} copies")


if __name__ == "__main__":
    main()
