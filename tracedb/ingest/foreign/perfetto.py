"""Read traces of Perfetto (`.pftrace`), as PyTorch and `tracedb export` write them.

A file is a list of packets (Perfetto's `trace.proto`). This reads tracks of processes
and threads, their slices and instants with annotations and flows, interned data,
clocks, and GPU work ("render stages"), as which PyTorch's monitor writes kernels.
PyTorch writes no categories: they are derived from the annotations.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tracedb.errors import ForeignFileError, IngestError
from tracedb.export.pftrace import MARK, ORDER, OWN, VALUE, Part
from tracedb.ingest.decompress import most_text
from tracedb.ingest.foreign.event import Event, ForeignTrace, as_text, batched, metadata
from tracedb.protobuf import (
    BYTES,
    VARINT,
    BrokenError,
    fields,
    numbers,
    signed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tracedb.ingest.foreign.event import Row

__all__ = ["ENDINGS", "read", "recognises"]

ENDINGS = (".pftrace", ".pftrace.gz", ".perfetto-trace", ".perfetto-trace.gz")
_GZIP = b"\x1f\x8b"
_PACKET = 0x0A
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_CLEARED = 1
_BOOT = (0, 6)
_OF_SEQUENCE = range(64, 128)
_DEEPEST = 32
_MOST_NANOSECONDS = 2**61

_STREAM = re.compile(r"stream\s*(-?\d+)")
_CALL = re.compile(r"(cuda|hip|cu)[A-Z]\w*")
_DRIVER = re.compile(r"cu[A-Z]")
_STAGES = {"Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}
_IDENTIFYING = {"cuda_sync_kind": "cuda_sync", "Python id": "python_function"}
"""Arguments that identify a category."""
_OF_OPS = ("Sequence number", "Fwd thread id", "Input Dims", "Input type")
_WHOLE = re.compile(r"-?\d{1,18}")


class _Track(NamedTuple):
    """The descriptor of a track; a thread's has the ids of process and thread."""

    parent: int
    name: str
    pid: int | None
    tid: int | None
    process: str
    labels: str
    lane: tuple[str | None, str | None] | None


class _Point(NamedTuple):
    """A begin, an end or an instant on a track."""

    ts: int
    kind: int
    track: int
    name: str | None
    cat: str | None
    args: Row
    order: int


class _Slice(NamedTuple):
    """A slice, or an instant, which has no end."""

    point: _Point
    end: int | None


def recognises(path: Path, head: bytes) -> bool:
    """Whether it is one, by name and first byte; see `ForeignReader`."""
    if not path.name.endswith(ENDINGS):
        return False
    return head.startswith(_GZIP) or head[:1] == bytes([_PACKET])


def read(path: Path) -> ForeignTrace:
    """Read a trace; see `ForeignReader`."""
    issues: Counter[str] = Counter()
    trace = _Trace(issues)
    place = 0
    data = _content(path)
    try:
        for start, packet in _packets(data):
            place = start
            trace.take(packet)
    except (BrokenError, struct.error, zlib.error, RecursionError) as error:
        raise IngestError(
            f"{path}: byte {place:,}: {error}; the file is truncated, or "
            "not a Perfetto trace; write it again"
        ) from error
    except (TypeError, AttributeError, ValueError, IndexError) as error:
        raise IngestError(
            f"{path}: byte {place:,}: a field has an unexpected wire type; "
            "write it again"
        ) from error
    events = trace.events()
    if not events:
        raise ForeignFileError(
            f"{path}: no slices, instants or GPU work in this Perfetto trace"
        )
    return ForeignTrace(trace.header(), batched(events), issues)


def _content(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise IngestError(f"{path}: cannot be read: {error.strerror}") from error
    if not data.startswith(_GZIP):
        return data
    try:
        return _decompressed(data, most_text(len(data)), 31)
    except (zlib.error, BrokenError) as error:
        raise IngestError(
            f"{path}: the gzip stream is truncated or broken ({error}); write it again"
        ) from error


def _decompressed(data: bytes, most: int, window: int) -> bytes:
    stream = zlib.decompressobj(window)
    found = stream.decompress(data, most)
    if not stream.eof:
        raise BrokenError(f"it does not end within {most:,} bytes")
    return found


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The offset and bytes of each packet."""
    place = 0
    for number, layout, value in fields(data):
        if layout != BYTES:
            raise BrokenError("not a list of packets")
        place += len(value)
        if number == Part.PACKET:
            yield place - len(value), value


class _Trace:
    """The state and events collected from packets."""

    def __init__(self, issues: Counter[str]) -> None:
        self._issues = issues
        self._names: dict[int, dict[int, dict[int, Any]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self._defaults: dict[int, dict[str, int]] = defaultdict(dict)
        self._clocks = _Clocks(issues)
        self._tracks: dict[int, _Track] = {}
        self._points: list[_Point] = []
        self._work: list[Event] = []
        self._own: Row | None = None

    def take(self, packet: bytes, *, is_within: bool = False) -> None:
        """Process a packet."""
        found = {number: value for number, _, value in fields(packet)}
        sequence = found.get(Part.SEQUENCE, 0)
        if Part.COMPRESSED in found:
            self._take_compressed(found[Part.COMPRESSED], is_within=is_within)
        self._take_state(sequence, found)
        at = self._time(sequence, found)
        if Part.EVENT in found:
            self._take_event(sequence, at, found[Part.EVENT])
        if Part.GPU_WORK in found and at is not None:
            self._take_work(sequence, at, found[Part.GPU_WORK])

    def _take_compressed(self, data: bytes, *, is_within: bool) -> None:
        if is_within:
            raise BrokenError("nested compressed packets")
        for _, one in _packets(_decompressed(data, most_text(len(data)), 15)):
            self.take(one, is_within=True)

    def _take_state(self, sequence: int, found: dict[int, Any]) -> None:
        """Update the state that later packets refer to."""
        if found.get(Part.FLAGS, 0) & _CLEARED or found.get(Part.CLEARED):
            self._names.pop(sequence, None)
            self._defaults.pop(sequence, None)
            self._clocks.clear(sequence)
        if Part.DEFAULTS in found:
            self._take_defaults(sequence, found[Part.DEFAULTS])
        if Part.CLOCKS in found:
            self._clocks.take(sequence, found[Part.CLOCKS])
        if Part.INTERNED in found:
            self._intern(sequence, found[Part.INTERNED])
        if Part.TRACK in found:
            self._describe(found[Part.TRACK])

    def _time(self, sequence: int, found: dict[int, Any]) -> int | None:
        if Part.TIMESTAMP not in found:
            return None
        default = self._defaults[sequence].get("clock", 0)
        clock = found.get(Part.CLOCK, default)
        return self._clocks.boot_time(sequence, clock, found[Part.TIMESTAMP])

    def _take_defaults(self, sequence: int, data: bytes) -> None:
        for number, _, value in fields(data):
            if number == Part.CLOCK:
                self._defaults[sequence]["clock"] = value
            elif number == Part.EVENT:
                for inner, _, track in fields(value):
                    if inner == Part.EVENT_TRACK:
                        self._defaults[sequence]["track"] = track

    def _intern(self, sequence: int, data: bytes) -> None:
        """Store interned names by kind and id."""
        for kind, layout, value in fields(data):
            if layout != BYTES:
                continue
            iid, names = 0, {}
            for number, inner, name in fields(value):
                if number == 1 and inner == VARINT:
                    iid = name
                elif inner == BYTES:
                    names[number] = name
            # In kernels, field 3 is the demangled name.
            best = names.get(3 if kind == Part.KERNELS else 2) or names.get(2, b"")
            self._names[sequence][kind][iid] = _text(best)

    def _name(self, sequence: int, kind: int, iid: int) -> str | None:
        found = self._names[sequence][kind].get(iid)
        if found is None:
            self._issues["read as none: names that no packet has"] += 1
        return found

    def _describe(self, data: bytes) -> None:
        uuid = parent = 0
        name = process = labels = description = ""
        pid = tid = None
        for number, layout, value in fields(data):
            match number:
                case 1:
                    uuid = value
                case 5:
                    parent = value
                case 2 | 10 if layout == BYTES:
                    name = _text(value)
                case 14:
                    description = _text(value)
                case 3 if layout == BYTES:
                    pid, process, labels = _process(value)
                case 4 if layout == BYTES:
                    pid, tid, thread = _thread(value)
                    name = thread or name
        lane = None
        if description.startswith(MARK):
            self._own = _object(description.removeprefix(MARK))
        elif description.startswith(OWN):
            lane = _lane(description.removeprefix(OWN))
        self._tracks[uuid] = _Track(parent, name, pid, tid, process, labels, lane)

    def _take_event(self, sequence: int, at: int | None, data: bytes) -> None:
        kind = 0
        track = self._defaults[sequence].get("track", 0)
        name: str | None = None
        cats: list[str | None] = []
        args: Row = {}
        for number, layout, value in fields(data):
            match number:
                case 9:
                    kind = value
                case 11:
                    track = value
                case 23:
                    name = _text(value)
                case 10:
                    name = self._name(sequence, Part.EVENT_NAMES, value)
                case 3 | 22:
                    cats += self._categories(sequence, layout, value, number)
                case 4:
                    key, content = self._annotation(sequence, value, _DEEPEST)
                    args[key] = content
        if at is None:
            self._issues["left out: events without a time"] += 1
            return
        cat = next((one for one in cats if one), None)
        order = args.pop(ORDER, None)
        order = order if isinstance(order, int) else len(self._points)
        self._points.append(_Point(at, kind, track, name, cat, args, order))

    def _categories(
        self,
        sequence: int,
        layout: int,
        value: Any,  # noqa: ANN401 (of any layout)
        number: int,
    ) -> list[str | None]:
        """Categories, interned or as text."""
        if number == Part.CATEGORY_TEXT:
            return [_text(value)]
        names = numbers(layout, value)
        return [self._name(sequence, Part.CATEGORIES, one) for one in names]

    def _annotation(self, sequence: int, data: bytes, depth: int) -> tuple[str, object]:
        """The name and value of an annotation."""
        if not depth:
            raise BrokenError(f"annotations more than {_DEEPEST} deep")
        key: str | None = ""
        value: object = None
        entries: dict[str, object] = {}
        items: list[object] = []
        for number, _, raw in fields(data):
            match number:
                case 1:
                    key = self._name(sequence, Part.KEYS, raw)
                case 10:
                    key = _text(raw)
                case 11:
                    name, inner = self._annotation(sequence, raw, depth - 1)
                    entries[name] = inner
                    value = entries
                case 12:
                    items.append(self._annotation(sequence, raw, depth - 1)[1])
                    value = items
                case 17:
                    value = self._name(sequence, Part.STRINGS, raw)
                case 2 | 3 | 4 | 5 | 6 | 7 | 9:
                    value = _VALUES[number](raw)
        return key or "", _untyped(entries) if entries.keys() == {VALUE} else value

    def _take_work(self, sequence: int, at: int, data: bytes) -> None:
        """Process GPU work: the stage gives its kind, the queue its stream."""
        found: dict[int, Any] = {}
        args: Row = {}
        for number, _, value in fields(data):
            if number == 6:  # noqa: PLR2004 (ExtraData)
                key, text = _extra(value)
                args[key] = text
            elif number == 21:  # noqa: PLR2004 (ComputeKernelLaunch)
                args |= _launch(value)
            else:
                found[number] = value
        queue = self._name(sequence, Part.STAGES, found.get(13, 0)) or ""
        stage = self._name(sequence, Part.STAGES, found.get(14, 0)) or ""
        stream = _STREAM.search(queue)
        device = found.get(11, 0)
        args = {
            **args,
            "device": device,
            "stream": int(stream[1]) if stream else found.get(13, 0),
        }
        name = _text(found[17]) if 17 in found else None  # noqa: PLR2004 (the field of names)
        if name is None and found.get(20):
            name = self._name(sequence, Part.EVENT_NAMES, found[20])
        if name is None and found.get(19):
            name = self._name(sequence, Part.KERNELS, found[19])
        cat = _STAGES.get(stage, "gpu_user_annotation")
        duration = min(found.get(2, 0), _MOST_NANOSECONDS)
        self._work.append(
            Event(
                *("X", cat, name or stage, device, args["stream"]),
                *(at, duration, args),
            )
        )

    def header(self) -> dict[str, Any]:
        """The header; for an export of tracedb, the original one."""
        if self._own is not None:
            return _dict(self._own.get("header"))
        return {"baseTimeNanoseconds": self._base(), "source": {"tool": "Perfetto"}}

    def _base(self) -> int:
        if self._own is not None:
            base = _dict(self._own.get("header")).get("baseTimeNanoseconds", 0)
            return base if isinstance(base, int) else 0
        times = [point.ts for point in self._points]
        times += [work.ts_ns for work in self._work if work.ts_ns is not None]
        return min(times, default=0)

    def events(self) -> list[Event]:
        """All events in Kineto's terms, in the recorded order."""
        base = self._base()
        slices = sorted(self._slices(), key=lambda one: one.point.order)
        if self._own is not None:
            return list(_restored(slices, self._tracks, self._own, base))
        events = [self._slice_event(one, base) for one in slices]
        events += [work._replace(ts_ns=(work.ts_ns or 0) - base) for work in self._work]
        return [*self._about(events), *events] if events else []

    def _slices(self) -> Iterator[_Slice]:
        """Slices and instants."""
        rest, paired = _paired_by_place(self._points)
        yield from paired
        by_track: dict[int, list[_Point]] = defaultdict(list)
        for point in rest:
            by_track[point.track].append(point)
        for points in by_track.values():
            open_: list[_Point] = []
            for point in sorted(points, key=lambda one: one.ts):
                if point.kind == _BEGIN:
                    open_.append(point)
                elif point.kind == _END and open_:
                    yield _Slice(open_.pop(), point.ts)
                elif point.kind == _END:
                    self._issues["left out: ends without a start"] += 1
                elif point.kind == _INSTANT or point.args:
                    yield _Slice(point, None)
                elif point.kind != _COUNTER:
                    self._issues[
                        "left out: events of a type that is not supported"
                    ] += 1
            for point in open_:
                self._issues["kept without a duration: starts without an end"] += 1
                yield _Slice(point, None)

    def _slice_event(self, one: _Slice, base: int) -> Event:
        """The event of a slice."""
        point = one.point
        pid, tid = self._place(point.track)
        args = _spread(point.args)
        is_overhead = any(one.name == "Overhead" for one in self._above(point.track))
        own = "overhead" if is_overhead else _category(point.name or "", args)
        cat = point.cat or own
        duration = None if one.end is None else one.end - point.ts
        ph = "i" if duration is None else "X"
        at = point.ts - base
        return Event(ph, cat, point.name, pid, tid, at, duration, args)

    def _place(self, uuid: int) -> tuple[int, int]:
        """The process and thread of a track, own or inherited from its ancestors."""
        pid = tid = None
        for track in self._above(uuid):
            tid = track.tid if tid is None else tid
            pid = track.pid if pid is None else pid
        return pid or 0, (uuid if pid is None else 0) if tid is None else tid

    def _above(self, uuid: int) -> Iterator[_Track]:
        seen: set[int] = set()
        while uuid in self._tracks and uuid not in seen:
            seen.add(uuid)
            yield self._tracks[uuid]
            uuid = self._tracks[uuid].parent

    def _about(self, events: Iterable[Event]) -> Iterator[Event]:
        """Metadata events of processes and threads."""
        named = {(event.pid, event.tid) for event in events}
        for track in self._tracks.values():
            if track.pid is None:
                continue
            if track.tid is None:
                yield metadata("process_name", track.pid, 0, {"name": track.process})
                if track.labels:
                    about = {"labels": track.labels}
                    yield metadata("process_labels", track.pid, 0, about)
            elif (track.pid, track.tid) in named:
                yield metadata(
                    "thread_name", track.pid, track.tid, {"name": track.name}
                )


def _paired_by_place(points: list[_Point]) -> tuple[list[_Point], list[_Slice]]:
    """Pair lists of begins that are followed by their ends in the same order.

    PyTorch's monitor writes all begins of a kind, then all ends. These may overlap, so
    only their order pairs them. Points in order of time are returned unpaired.
    """
    rest: list[_Point] = []
    paired: list[_Slice] = []
    place = 0
    while place < len(points):
        begins = _run(points, place, _BEGIN)
        ends = _run(points, begins, _END)
        count = begins - place
        if count and ends - begins >= count and _is_list(points, place, count):
            paired += [
                _Slice(points[n], points[n + count].ts) for n in range(place, begins)
            ]
            place += 2 * count
        else:
            ends = max(ends, place + 1)
            rest += points[place:ends]
            place = ends
    return rest, paired


def _run(points: list[_Point], place: int, kind: int) -> int:
    """The end of the run of points of one kind from `place` on."""
    while place < len(points) and points[place].kind == kind:
        place += 1
    return place


def _is_list(points: list[_Point], place: int, count: int) -> bool:
    pairs = [(points[n], points[n + count]) for n in range(place, place + count)]
    if not all(a.track == b.track and a.ts <= b.ts for a, b in pairs):
        return False
    latest: dict[int, int] = {}
    for point in points[place : place + 2 * count]:
        if point.ts < latest.get(point.track, point.ts):
            return True
        latest[point.track] = point.ts
    return False


class _Clocks:
    """Converts times of other clocks to the boot clock."""

    def __init__(self, issues: Counter[str]) -> None:
        self._issues = issues
        self._known: dict[tuple[int, int], tuple[int, int, int, bool]] = {}
        self._last: dict[tuple[int, int], int] = {}

    def clear(self, sequence: int) -> None:
        """Reset the incremental clocks of a sequence."""
        for key in [key for key in self._last if key[0] == sequence]:
            del self._last[key]

    def take(self, sequence: int, data: bytes) -> None:
        """Process a clock snapshot."""
        clocks = []
        for number, _, value in fields(data):
            if number == 1:
                one = {inner: raw for inner, _, raw in fields(value)}
                clocks.append(
                    (one.get(1, 0), one.get(2, 0), one.get(4, 1), one.get(3, 0))
                )
        boot = next((at for clock, at, _, _ in clocks if clock in _BOOT), None)
        for clock, at, unit, is_incremental in clocks:
            key = self._key(sequence, clock)
            if boot is not None and clock not in _BOOT:
                self._known[key] = (at, boot, unit or 1, bool(is_incremental))
                self._last[key] = at

    def boot_time(self, sequence: int, clock: int, value: int) -> int:
        """[ns] Convert a time to the boot clock; unchanged if the clock is unknown."""
        value = signed(64, value)
        if clock in _BOOT:
            return value
        key = self._key(sequence, clock)
        known = self._known.get(key)
        if known is None:
            self._issues["kept as recorded: times of an undescribed clock"] += 1
            return value
        at, boot, unit, is_incremental = known
        if is_incremental:
            value = self._last[key] = self._last.get(key, at) + value
        return boot + (value - at) * unit

    @staticmethod
    def _key(sequence: int, clock: int) -> tuple[int, int]:
        return (sequence if clock in _OF_SEQUENCE else 0), clock


def _restored(
    slices: Iterable[_Slice], tracks: dict[int, _Track], own: Row, base: int
) -> Iterator[Event]:
    """The original events of a tracedb export, in order."""
    kept = own.get("about")
    about = [one for one in kept if _is_about(one)] if isinstance(kept, list) else []
    place = 0
    for one in slices:
        while place < len(about) and about[place][0] < one.point.order:
            yield _metadata(about[place])
            place += 1
        yield _recorded(one, tracks, base)
    yield from map(_metadata, about[place:])


def _is_about(value: object) -> bool:
    return isinstance(value, list) and len(value) == 5 and isinstance(value[0], int)  # noqa: PLR2004 (its fields)


def _metadata(about: list[Any]) -> Event:
    _, name, pid, tid, args = about
    return Event("M", None, as_text(name), pid, tid, 0, None, _dict(args))


def _recorded(one: _Slice, tracks: dict[int, _Track], base: int) -> Event:
    point = one.point
    track = tracks.get(point.track)
    pid, tid = track.lane if track is not None and track.lane else (None, None)
    args = dict(point.args)
    other = _dict(args.pop(f"{OWN}.other", None))
    args = _dict(args.pop(f"{OWN}.args", args))
    ph = other.get("ph", "X" if one.end is not None else "i")
    at = None if other.get("ts", 0) is None else point.ts - base
    duration = None if one.end is None else one.end - point.ts
    return Event(
        *(ph, point.cat, point.name, pid, tid, at, other.get("dur", duration)),
        *(args, other.get("id"), other.get("other")),
    )


def _process(data: bytes) -> tuple[int | None, str, str]:
    pid, name, labels = 0, "", []
    for number, _, value in fields(data):
        match number:
            case 1:
                pid = signed(32, value)
            case 6:
                name = _text(value)
            case 8:
                labels.append(_text(value))
    return pid, name, ", ".join(labels)


def _thread(data: bytes) -> tuple[int, int, str]:
    pid = tid = 0
    name = ""
    for number, _, value in fields(data):
        match number:
            case 1:
                pid = signed(32, value)
            case 2:
                tid = signed(64, value)
            case 5:
                name = _text(value)
    return pid, tid, name


def _lane(text: str) -> tuple[str | None, str | None] | None:
    try:
        return msgspec.json.decode(text, type=tuple[str | None, str | None])
    except (msgspec.DecodeError, RecursionError):
        return None


def _extra(data: bytes) -> tuple[str, object]:
    """A name and its value; a suffix " id" only prevents viewers from parsing it."""
    found = {number: _text(value) for number, _, value in fields(data)}
    text = found.get(2, "")
    key = found.get(1, "").removesuffix(" id")
    return key, int(text) if _WHOLE.fullmatch(text) else text


def _launch(data: bytes) -> Row:
    """The grid and block of a kernel."""
    found: Row = {}
    for number, layout, value in fields(data):
        if number in (1, 2) and layout == BYTES:
            sizes = {axis: size for axis, _, size in fields(value)}
            found["grid" if number == 1 else "block"] = [
                sizes.get(axis, 1) for axis in (1, 2, 3)
            ]
    return found


def _category(name: str, args: Row) -> str:
    """The profiler's category of an event, derived from its name and arguments."""
    known = next((cat for key, cat in _IDENTIFYING.items() if key in args), None)
    if known is not None:
        return known
    if _CALL.fullmatch(name) and ("correlation" in args or "cbid" in args):
        return "cuda_driver" if _DRIVER.match(name) else "cuda_runtime"
    if "stream" in args and "device" in args:
        copies = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}
        return copies.get(name.partition(" ")[0], "kernel")
    if any(one in args for one in _OF_OPS) or "::" in name:
        return "cpu_op"
    return "user_annotation" if "External id" in args else "trace"


def _spread(args: Row) -> Row:
    """The arguments; libkineto writes them as one text, a fragment of JSON."""
    text = args.get("metadata")
    if not isinstance(text, str) or args.keys() - {"metadata", "correlation_id"}:
        return args
    found = _object(f"{{{text}}}")
    if not found:
        return args
    correlation = args.get("correlation_id")
    return {**found} if correlation is None else {"correlation": correlation, **found}


def _object(text: str) -> Row:
    try:
        return _dict(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _dict(value: object) -> Row:
    return value if isinstance(value, dict) else {}


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _json(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return _text(data)


def _untyped(entries: Row) -> object:
    """A value that an export of tracedb has as JSON."""
    text = entries[VALUE]
    return _json(text.encode()) if isinstance(text, str) else entries


_VALUES: dict[int, Any] = {
    2: bool,
    3: int,
    4: lambda value: signed(64, value),
    5: lambda value: struct.unpack("<d", value)[0],
    6: _text,
    7: int,
    9: _json,
}
