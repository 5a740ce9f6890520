"""Write the events of Chrome JSON in Perfetto's own format (`.pftrace`).

The packets follow Perfetto's `trace.proto`: tracks of processes and threads, begin and
end of slices, interned names. A slice that overlaps another one of its thread without
nesting gets an extra track. Each event has its ordinal, so that `tracedb ingest`
restores the recorded order.
"""

from __future__ import annotations

from collections import defaultdict
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec

from tracedb.protobuf import double, message, number, text

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ANNOTATIONS",
    "HEAD",
    "MARK",
    "OF",
    "ORDER",
    "OWN",
    "VALUE",
    "Part",
    "nanoseconds",
    "write",
]

OWN = "tracedb"
"""Prefix of tracedb's own annotations and descriptions."""
ORDER = f"{OWN}.event"
"""The annotation with the ordinal of an event."""
OF = f"{OWN}.of"
"""The field of a flow with the begin of its slice, if that is not the flow's time."""
VALUE = f"{OWN}.json"
"""The only key of an annotation whose value, as JSON, has no type in this format."""
MARK = "tracedb export "
"""Prefix of the first track's description; the header and metadata follow."""


class Part:
    """Field numbers from `trace.proto`."""

    # Of a trace, and of a packet.
    PACKET = 1
    CLOCKS, TIMESTAMP, SEQUENCE, EVENT, INTERNED, FLAGS = 6, 8, 10, 11, 12, 13
    CLEARED, COMPRESSED, GPU_WORK, CLOCK, DEFAULTS, TRACK = 41, 50, 53, 58, 59, 60
    # Of interned data.
    CATEGORIES, EVENT_NAMES, KEYS, STAGES, STRINGS, KERNELS = 1, 2, 3, 24, 29, 1000
    # Of an event.
    EVENT_TRACK, CATEGORY_TEXT = 11, 22


_BEGIN, _END, _INSTANT = 1, 2, 3
_CLEARED, _NEEDS_STATE = 1, 2
_BOOT, _REAL = 6, 1
_ROOT = 1
_FIRST_PROCESS = 800_000_000
_FIRST_THREAD = 900_000_000
_LARGEST = 2**31
ANNOTATIONS = ("user_annotation", "gpu_user_annotation")
"""Categories of slices that may have the times of the work within them."""
_FLOWS = {"s": ord("s"), "t": ord("t"), "f": ord("f")}
_FORMAL = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args")
_INTEGERS = range(-(2**63), 2**63)
_DEEPEST = 16


class _Item(NamedTuple):
    """A slice, instant or flow: its encoded content without time, type and track."""

    ts: int
    end: int | None
    order: int
    content: bytes
    is_annotation: bool
    of: int | None
    """The begin of the slice to which a flow is attached."""
    ended: str | None
    """The identifier of a flow that ends."""

    @property
    def place(self) -> tuple[int, int, bool, int]:
        """The sort key: by begin, longer slices first, instants last.

        Work is within the annotation that has its times. Flows are in order with slices
        that take no time, to which they may belong.
        """
        until = self.ts if self.of is not None else self.end
        until = self.ts - 1 if until is None else until
        return self.ts, -until, not self.is_annotation, self.order


class _Open(NamedTuple):
    """A slice that is open."""

    begin: int
    end: int


_Track = tuple[int, list[_Open]]
"""A track, with its open slices."""


def _packet(*parts: bytes) -> bytes:
    return message(Part.PACKET, (*parts, number(Part.SEQUENCE, 1)))


def _track(uuid: int, parent: int, name: str, *parts: bytes) -> bytes:
    """A packet that describes a track."""
    about = [number(1, uuid), text(2, name), *parts]
    if parent:
        about.append(number(5, parent))
    return _packet(message(Part.TRACK, about))


HEAD = _track(_ROOT, 0, "tracedb export")
"""The first bytes of an export, which may be overwritten."""


def write(
    file: IO[bytes], header: dict[str, Any], events: Iterable[dict[str, Any]]
) -> int:
    """Write the header and events of Chrome JSON; return the number of events."""
    base = header.get("baseTimeNanoseconds", 0)
    return _Writer(file, base if isinstance(base, int) else 0).write(header, events)


class _Writer:
    def __init__(self, file: IO[bytes], base: int) -> None:
        self._file = file
        self._base = base
        self._names: dict[tuple[int, str], int] = {}
        self._links: dict[str, int] = {}
        self._begun: set[tuple[str, int]] = set()
        self._late: list[bytes] = []
        self._lanes: dict[tuple[Any, Any], list[_Item]] = defaultdict(list)
        self._about: list[list[Any]] = []
        self._last_uuid = _ROOT

    def write(self, header: dict[str, Any], events: Iterable[dict[str, Any]]) -> int:
        """Write everything: interned names first, then events by thread."""
        self._file.write(HEAD)
        self._file.write(_packet(number(Part.FLAGS, _CLEARED)))
        count = 0
        for count, event in enumerate(events, 1):
            self._take(count, event)
        if self._base > 0:
            self._file.write(_clocks(self._base))
        kept = {"header": header, "about": self._about}
        about = text(14, MARK + msgspec.json.encode(kept).decode())
        self._file.write(_track(_ROOT, 0, "tracedb export", about))
        processes = _Processes(self._about)
        for lane, items in self._lanes.items():
            self._write_lane(lane, items, processes)
        self._file.writelines(self._late)
        return count

    def _take(self, order: int, event: dict[str, Any]) -> None:
        ts, duration = (
            None if event.get(one) is None else nanoseconds(event[one])
            for one in ("ts", "dur")
        )
        of = event.get(OF)
        event = {key: _plain(value) for key, value in event.items() if key != OF}
        if event.get("ph") == "M":
            lane = [event.get("pid"), event.get("tid")]
            self._about.append([order, event.get("name"), *lane, event.get("args")])
            return
        start = (ts or 0) + self._base
        begin = start if of is None else nanoseconds(of) + self._base
        lasts = ts is not None and duration is not None and duration >= 0
        lasts = lasts and event.get("ph") == "X"
        end = start + (duration or 0) if lasts else None
        shifted = {**event, "ts": ts, "dur": duration}
        content = self._content(order, shifted, lasts=lasts)
        is_flow, link = event.get("ph") in _FLOWS, str(event.get("id"))
        if event.get("ph") == "s":
            self._begun.add((link, start))
        item = _Item(
            *(start, end, order, content, event.get("cat") in ANNOTATIONS),
            begin if is_flow else None,
            link if event.get("ph") == "f" else None,
        )
        self._lanes[event.get("pid"), event.get("tid")].append(item)

    def _content(self, order: int, event: dict[str, Any], *, lasts: bool) -> bytes:
        """The encoded event without time, type and track."""
        parts = []
        if event.get("name") is not None:
            parts.append(number(10, self._iid(Part.EVENT_NAMES, event["name"])))
        if event.get("cat") is not None:
            parts.append(number(3, self._iid(Part.CATEGORIES, event["cat"])))
        parts.append(self._annotation(ORDER, order))
        args = event.get("args")
        for key, value in args.items() if isinstance(args, dict) else ():
            parts.append(self._annotation(key, value))
        if not isinstance(args, dict) and args is not None:
            parts.append(self._annotation(f"{OWN}.args", args))
        other = _without_field(event, lasts=lasts)
        if other:
            parts.append(self._annotation(f"{OWN}.other", other))
        phase = _FLOWS.get(event.get("ph", ""))
        if phase is not None:
            link = event.get("id")
            legacy = [number(2, phase), number(6, self._link(link))]
            legacy += [number(12, 1)] if event.get("bp") == "e" else []
            parts.append(message(6, legacy))
        return b"".join(parts)

    def _link(self, link: object) -> int:
        """The number of a flow."""
        return self._links.setdefault(str(link), len(self._links) + 1)

    def _iid(self, kind: int, name: object) -> int:
        """The number of a name; the first use writes a packet that interns it."""
        key = kind, str(name)
        iid = self._names.get(key)
        if iid is None:
            iid = self._names[key] = len(self._names) + 1
            entry = message(kind, (number(1, iid), text(2, key[1])))
            self._file.write(_packet(message(Part.INTERNED, entry)))
        return iid

    def _annotation(self, key: str, value: object) -> bytes:
        """An argument as a debug annotation."""
        named = number(1, self._iid(Part.KEYS, key))
        return message(4, named + _value(value, _DEEPEST))

    def _write_lane(
        self, lane: tuple[Any, Any], items: list[_Item], processes: _Processes
    ) -> None:
        """Write a thread's nested slices, and overlapping ones on extra threads."""
        process, packet = processes.of(lane[0], self._uuid)
        self._file.write(packet)
        name = processes.thread(*lane)
        tracks = [self._new_track(process, lane, name, lane[1])]
        for item in sorted(items, key=lambda one: one.place):
            # A flow at the end of a slice is within it.
            until = item.ts if item.of is None else item.ts - 1
            for uuid, open_ in tracks:
                self._close(uuid, open_, until)
            track = _track_of(tracks, item)
            if track is None:
                track = self._new_track(process, lane, f"{name}, overlapping", None)
                tracks.append(track)
            self._write_item(track, item)
        for uuid, open_ in tracks:
            self._close(uuid, open_, None)

    def _new_track(
        self, process: _Process, lane: tuple[Any, Any], name: str, tid: object
    ) -> _Track:
        """Write the description of a thread, which says what lane was recorded.

        Perfetto reads flows on tracks of threads alone, and their ids are numbers.
        """
        uuid = self._uuid()
        about = text(14, OWN + msgspec.json.encode(_texts(lane)).decode())
        is_number = isinstance(tid, int) and 0 < tid < 2**63
        shown = int(str(tid)) if is_number else _FIRST_THREAD + uuid
        ids = message(4, (number(1, process.pid), number(2, shown), text(5, name)))
        self._file.write(_track(uuid, process.uuid, name, about, ids))
        return uuid, []

    def _write_item(self, track: _Track, item: _Item) -> None:
        uuid, open_ = track
        kind = _INSTANT if item.end is None else _BEGIN
        # Flow events have their phase in the content.
        type_ = b"" if item.of is not None else number(9, kind)
        parts = type_ + number(11, uuid) + item.content
        packet = _packet(
            number(Part.TIMESTAMP, item.ts),
            number(Part.FLAGS, _NEEDS_STATE),
            message(Part.EVENT, parts),
        )
        # Perfetto drops the end of a flow before its start, so at one time in the file.
        at_once = item.ended is not None and (item.ended, item.ts) in self._begun
        if at_once and open_ and open_[-1].end > item.ts:
            self._late.append(packet)
        else:
            self._file.write(packet)
        if item.end is not None:
            open_.append(_Open(item.ts, item.end))

    def _close(self, uuid: int, open_: list[_Open], until: int | None) -> None:
        """Write the ends of slices that are over by `until`."""
        while open_ and (until is None or open_[-1].end <= until):
            parts = number(9, _END) + number(11, uuid)
            ended = number(Part.TIMESTAMP, open_.pop().end)
            self._file.write(_packet(ended, message(Part.EVENT, parts)))

    def _uuid(self) -> int:
        self._last_uuid += 1
        return self._last_uuid


class _Process(NamedTuple):
    uuid: int
    pid: int


class _Processes:
    """Processes by their id in Chrome JSON, with their names."""

    def __init__(self, about: list[list[Any]]) -> None:
        self._known: dict[Any, _Process] = {}
        self._names: dict[tuple[str, Any, Any], str] = {}
        self._ranks: dict[tuple[str, Any, Any], int] = {}
        for _, kind, pid, tid, args in about:
            thread = tid if str(kind).startswith("thread") else None
            for value in args.values() if isinstance(args, dict) else ():
                if isinstance(value, str):
                    self._names.setdefault((kind, pid, thread), value)
                elif isinstance(value, int) and abs(value) < _LARGEST:
                    self._ranks.setdefault((kind, pid, thread), value)

    def thread(self, pid: object, tid: object) -> str:
        """The name of a thread."""
        return self._names.get(("thread_name", pid, tid), str(tid))

    def of(self, pid: object, new: Any) -> tuple[_Process, bytes]:  # noqa: ANN401 (a method)
        """A process, and on first use the packet that describes it."""
        if pid in self._known:
            return self._known[pid], b""
        is_number = isinstance(pid, int) and 0 < pid < _LARGEST
        own = pid if is_number else _FIRST_PROCESS + len(self._known)
        process = self._known[pid] = _Process(new(), int(str(own)))
        label = self._names.get(("process_labels", pid, None))
        name = self._names.get(("process_name", pid, None), str(pid))
        shown = f"{name} {label}" if label else name
        about = [number(1, process.pid), text(6, shown)]
        rank = self._ranks.get(("process_sort_index", pid, None))
        about += [] if rank is None else [number(3, rank)]
        return process, _track(process.uuid, 0, shown, message(3, about))


def _track_of(tracks: list[_Track], item: _Item) -> _Track | None:
    """The track of a flow's slice, or the first track on which an item fits."""
    if item.of is not None:
        own = (one for one in tracks if one[1] and one[1][-1].begin == item.of)
        return next(own, tracks[0])
    return next((one for one in tracks if _fits(one[1], item)), None)


def _fits(open_: list[_Open], item: _Item) -> bool:
    return not open_ or item.end is None or item.end <= open_[-1].end


def _clocks(base: int) -> bytes:
    """A packet that maps times to the Unix epoch."""
    clocks = (message(1, number(1, one) + number(2, base)) for one in (_BOOT, _REAL))
    return _packet(number(Part.TIMESTAMP, base), message(Part.CLOCKS, clocks))


def _without_field(event: dict[str, Any], *, lasts: bool) -> dict[str, Any]:
    """The parts of an event for which Perfetto has no field."""
    other: dict[str, Any] = {}
    ph = event.get("ph")
    if ph != ("X" if lasts else "i"):
        other["ph"] = ph
    if event.get("ts") is None:
        other["ts"] = None
    if not lasts and event.get("dur") is not None:
        other["dur"] = event["dur"]
    if event.get("id") is not None:
        other["id"] = str(event["id"])
    rest = {key: value for key, value in event.items() if key not in _FORMAL}
    return other | ({"other": rest} if rest else {})


def _texts(lane: tuple[Any, Any]) -> list[str | None]:
    return [None if one is None else str(one) for one in lane]


def _plain(value: Any) -> Any:  # noqa: ANN401 (of JSON)
    return (
        msgspec.json.decode(bytes(value)) if isinstance(value, msgspec.Raw) else value
    )


def nanoseconds(microseconds: object) -> int:
    """[ns] A time of Chrome JSON, with all its digits.

    >>> nanoseconds(msgspec.Raw(b"-1790000000000000.001"))
    -1790000000000000001
    """
    digits = (
        bytes(microseconds).decode() if isinstance(microseconds, msgspec.Raw) else ""
    )
    whole, _, rest = (digits or str(microseconds)).removeprefix("-").partition(".")
    found = int(whole) * 1000 + int(f"{rest:0<3}"[:3])
    return -found if (digits or str(microseconds)).startswith("-") else found


def _value(value: object, depth: int) -> bytes:
    """The fields of an annotation that hold a value.

    Values without a type, like null, are JSON below the key `VALUE`: Perfetto has a
    field for JSON, but its trace processor ends at a null there.
    """
    if isinstance(value, dict) and value and depth:
        return b"".join(
            message(11, text(10, str(key)) + _value(one, depth - 1))
            for key, one in value.items()
        )
    if isinstance(value, list) and value and depth:
        return b"".join(message(12, _value(one, depth - 1)) for one in value)
    return _scalar(value) or message(
        11, text(10, VALUE) + text(6, msgspec.json.encode(value).decode())
    )


def _scalar(value: object) -> bytes:
    """The field that holds a scalar; empty for other values."""
    if isinstance(value, bool):
        return number(2, value)
    if isinstance(value, int) and value in _INTEGERS:
        return number(4, value)
    if isinstance(value, float):
        return double(5, value)
    return text(6, value) if isinstance(value, str) else b""
