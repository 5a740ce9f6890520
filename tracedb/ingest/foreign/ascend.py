"""Read the timeline of Ascend's PyTorch profiler (torch_npu): `trace_view.json`.

It is a bare list of events. Processes are lanes: `Python` has ops, as Kineto writes
them; `CANN` has calls of the host; `Ascend Hardware` has tasks of the device;
`Communication` (before, `HCCL`) has a row for each group with its collectives, and rows
for their parts. A call and the tasks that it launches share a `connection_id`. With a
task queue, which is usual, ops enqueue their calls, and another thread makes them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

import msgspec

from tracedb.errors import ForeignFileError, IngestError
from tracedb.ingest.decompress import Text
from tracedb.ingest.foreign.event import (
    Event,
    ForeignTrace,
    Row,
    batched,
    copy_name,
    integer,
    present,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["read", "recognises"]

_ENDINGS = (".json", ".json.gz")
_OPENINGS = (b"[", b"\x1f\x8b")
_MARK = b'"Ascend Hardware"'
_TIME_AS_TEXT = re.compile(rb'"ts"\s*:\s*"')
_HARDWARE, _CANN, _PYTHON = "Ascend Hardware", "CANN", "Python"
_COMMUNICATION = ("Communication", "HCCL", "Hccl")
_DERIVED = ("Overlap Analysis",)
"""Lanes that summarise others."""
_GROUP = re.compile(r"(?:Group (?P<name>.+) )?Communication")
_CALLED = "AscendCL@"
_COPY = "MEMCPY_ASYNC"
_ENDS = re.compile("(host|device) to (host|device)")
_WORK = re.compile(
    r"(KERNEL_)?(MIXE?D?_)?(AI_?CORE|AI_?VECTOR_?CORE|AI_?CPU|AIC|AIVE?C?)"
    r"|DSA.*|DVPP.*|FUSION|CCU|DPU|FFTS(_PLUS)?",
    re.IGNORECASE,
)
_CONTROL = re.compile(
    r"(EVENT|NOTIFY|CNT_NOTIFY|CAPTURE)_.*|.*(SDMA|RDMA|PCIE_DMA|WRITE_VALUE).*"
    r"|PLACE_HOLDER.*|(STREAM|MODEL|PROFILER)_.*|MEM_WAIT.*|MEM_WRITE.*|NOP.*"
    r"|LABEL_.*|CALLBACK.*|.*TRACE.*",
    re.IGNORECASE,
)
"""Tasks that order others, or are parts of collectives: no work of their own."""
_STREAM_OF_GROUP = 1_000_000
"""Collectives have no stream; their groups are numbered from here."""
_RANK = re.compile(r"profiler_info_(\d+)\.json")


def recognises(path: Path, head: bytes) -> bool:
    """Whether it is such a list, with a lane of the device; see `ForeignReader`.

    Lanes may be named anywhere. The whole text is searched only if its times are text:
    other tools' lists have numbers.
    """
    if not path.name.endswith(_ENDINGS) or not head.lstrip().startswith(_OPENINGS):
        return False
    try:
        with path.open("rb") as file:
            return _has_lane(Text(str(path), file).blocks())
    except (OSError, IngestError):
        return False


def _has_lane(blocks: Iterator[bytes]) -> bool:
    begun = next(blocks, b"")
    if not begun.lstrip().startswith(b"["):
        return False
    if _MARK in begun:
        return True
    if not _TIME_AS_TEXT.search(begun):
        return False
    rest = begun[-len(_MARK) :]
    for block in blocks:
        if _MARK in rest + block:
            return True
        rest = block[-len(_MARK) :]
    return False


def read(path: Path) -> ForeignTrace:
    """Read a timeline; see `ForeignReader`."""
    issues: Counter[str] = Counter()
    events = _decoded(path, issues)
    header: Row = {
        "source": {"tool": "Ascend PyTorch profiler"},
        "baseTimeNanoseconds": 0,
        "deviceProperties": [],
    }
    ranks = [_RANK.fullmatch(one.name) for one in path.parent.parent.glob("*.json")]
    numbers = [int(found[1]) for found in ranks if found]
    if len(numbers) == 1:
        header["distributedInfo"] = {"rank": numbers[0]}
    return ForeignTrace(header, batched(_Timeline(events, issues).events()), issues)


def _decoded(path: Path, issues: Counter[str]) -> list[Row]:
    """The events; a list that was not closed, as of an interrupted export, is."""
    with path.open("rb") as file:
        source = Text(str(path), file)
        text = b"".join(source.blocks())
    if source.damage:
        issues[f"cut off: {source.damage}"] += 1
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        try:
            found = msgspec.json.decode(text.rstrip().rstrip(b",") + b"]")
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise IngestError(f"{path}: broken timeline: {error}") from error
        issues["closed: the list of events had no end"] += 1
    events = [one for one in found if isinstance(one, dict)]
    if not events:
        raise ForeignFileError(f"{path}: no events in this timeline")
    return events


@dataclass
class _Timeline:
    """A timeline: what its lanes are, and how its events belong together."""

    given: list[Row]
    issues: Counter[str]
    lanes: dict[str, str] = field(default_factory=dict)
    rows: dict[tuple[str, str], str] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)
    python: str | None = None
    """The process of the ops, to which the calls belong, too."""
    queued: dict[str, Row] = field(default_factory=dict)
    """Where ops enqueued calls, by connection."""

    def __post_init__(self) -> None:
        """Read the names of lanes, then the links."""
        for event in self.given:
            args = _arguments(event)
            if event.get("ph") != "M":
                continue
            if event.get("name") == "process_name":
                self.lanes[str(event.get("pid"))] = str(args.get("name"))
            elif event.get("name") == "thread_name":
                self.rows[_row(event)] = str(args.get("name"))
            elif event.get("name") == "process_labels":
                label = re.fullmatch(r"NPU (\d+)", str(args.get("labels")))
                if label:
                    self.devices[str(event.get("pid"))] = int(label[1])
        named = (pid for pid, name in self.lanes.items() if name == _PYTHON)
        self.python = next(named, None)
        self._link()

    def events(self) -> Iterator[Event]:
        """All events, as Kineto would have written them."""
        launched = {id(enqueued): key for key, enqueued in self.queued.items()}
        for event in self.given:
            lane = self.lanes.get(str(event.get("pid")), "")
            if event.get("ph") != "X":
                yield self._plain(event, event.get("cat"))
            elif lane == _HARDWARE:
                yield self._task(event)
            elif lane in _COMMUNICATION:
                yield self._communication(event)
            elif lane == _CANN:
                yield self._call(event)
            elif id(event) in launched:
                connection = launched[id(event)]
                found = self._plain(event, "privateuse1_runtime")
                yield found._replace(
                    args={**found.args, "correlation": integer(connection)}
                )
            elif lane in _DERIVED or event.get("cat"):
                yield self._op(event, event.get("cat") or "derived")
            else:
                self.issues[f"kept without a meaning: lane {lane or 'unnamed'}"] += 1
                yield self._plain(event, "other")

    def _link(self) -> None:
        """Find the place where the call of each connection was enqueued."""
        placed = {
            (str(event.get("tid")), _ns(event.get("ts")), event["cat"]): event
            for event in self.given
            if event.get("ph") == "X" and event.get("cat") in ("enqueue", "dequeue")
        }
        sources, dequeued = {}, defaultdict(list)
        for event in self.given:
            place = str(event.get("tid")), _ns(event.get("ts"))
            if event.get("cat") == "async_task_queue":
                if event.get("ph") == "s":
                    sources[str(event.get("id"))] = placed.get((*place, "enqueue"))
                elif (found := placed.get((*place, "dequeue"))) is not None:
                    dequeued[place[0]].append(
                        (place[1], _end(found), str(event.get("id")))
                    )
        for spans in dequeued.values():
            spans.sort(key=lambda span: span[0] or 0)
        for event in self.given:
            connection = _arguments(event).get("connection_id")
            is_call = self.lanes.get(str(event.get("pid"))) == _CANN
            if connection is None or not is_call or event.get("ph") != "X":
                continue
            spans, start = dequeued.get(str(event.get("tid")), []), _ns(event.get("ts"))
            place_ = bisect_right(spans, start or 0, key=lambda span: span[0] or 0) - 1
            if place_ >= 0 and (start or 0) < (spans[place_][1] or 0):
                enqueued = sources.get(spans[place_][2])
                if enqueued is not None:
                    self.queued[str(connection)] = enqueued

    def _op(self, event: Row, cat: str) -> Event:
        """An op, with its shapes and types as lists."""
        found = self._plain(event, cat)
        args = dict(found.args)
        for key, read_ in (("Input Dims", _dims), ("Input type", _types)):
            if isinstance(args.get(key), str):
                args[key] = read_(args[key])
        return found._replace(args=args)

    def _call(self, event: Row) -> Event:
        """A call; of those within others on the thread, names of AscendCL count."""
        found = self._plain(event, "privateuse1_runtime")
        connection = _arguments(event).get("connection_id")
        args = dict(found.args)
        if str(connection) not in self.queued:
            args["correlation"] = integer(connection)
        name = str(found.name).removeprefix(_CALLED)
        return found._replace(name=name, pid=self.python or found.pid, args=args)

    def _task(self, event: Row) -> Event:
        """A task of the device."""
        found, args = self._plain(event, None), _arguments(event)
        kind = str(args.get("Task Type", ""))
        if found.name == _COPY:
            ends = _ENDS.fullmatch(str(args.get("operation")))
            name = copy_name(ends[1], ends[2]) if ends else "Memcpy"
            moved = {"bytes": integer(args.get("size(B)"))}
            return self._work(found, "gpu_memcpy", name, present(moved))
        if _WORK.fullmatch(kind):
            return self._work(found, "kernel", str(found.name), {})
        if not (_CONTROL.fullmatch(kind) or _CONTROL.fullmatch(str(found.name))):
            self.issues[f"kept without a meaning: task type {kind or 'missing'}"] += 1
        return found._replace(cat="npu_control")

    def _communication(self, event: Row) -> Event:
        """A collective, or a part of one."""
        found, args = self._plain(event, "hccl_task"), _arguments(event)
        row = self.rows.get(_row(event), "")
        group = _GROUP.fullmatch(row)
        if group is None:
            if not row.startswith("Plane"):
                self.issues[f"kept without a meaning: row {row or 'unnamed'}"] += 1
            return found
        known = {
            "Collective name": str(found.name).partition("__")[0],
            "Process Group Name": group["name"],
            "Group size": integer(args.get("rank_size")),
            "In msg nelems": integer(args.get("count")),
            "dtype": args.get("data_type"),
            "stream": _STREAM_OF_GROUP + (integer(event.get("tid")) or 0),
        }
        return self._work(found, "kernel", str(found.name), present(known))

    def _work(self, found: Event, cat: str, name: str, known: Row) -> Event:
        device = self.devices.get(str(found.pid), 0)
        args = {
            **found.args,
            "device": device,
            "stream": integer(found.tid),
            **present({"correlation": integer(found.args.get("connection_id"))}),
            **known,
        }
        return found._replace(
            cat=cat, name=name, pid=device, tid=args["stream"], args=args
        )

    def _plain(self, event: Row, cat: str | None) -> Event:
        start, lasts = _ns(event.get("ts")), _ns(event.get("dur"))
        if event.get("ph") == "X":
            if start is None:
                self.issues["kept without a time: no readable start"] += 1
            if lasts is None:
                self.issues["kept without a duration: no readable end"] += 1
        name, key = event.get("name"), event.get("id")
        return Event(
            ph=str(event.get("ph")),
            cat=cat,
            name=None if name is None else str(name),
            pid=event.get("pid"),
            tid=event.get("tid"),
            ts_ns=start,
            dur_ns=lasts,
            args=_arguments(event),
            id=None if key is None else str(key),
        )


def _row(event: Row) -> tuple[str, str]:
    return str(event.get("pid")), str(event.get("tid"))


def _arguments(event: Row) -> Row:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _ns(value: object) -> int | None:
    """[ns] A time in microseconds, as a number or as text."""
    try:
        return integer(round(Decimal(str(value)) * 1000))
    except (InvalidOperation, ValueError, OverflowError):
        return None


def _end(event: Row) -> int | None:
    start, lasts = _ns(event.get("ts")), _ns(event.get("dur"))
    return None if start is None or lasts is None else start + lasts


def _dims(text: str) -> list[list[int | None]]:
    """Dimensions of all arguments.

    >>> _dims("8,16;;4")
    [[8, 16], [], [4]]
    """
    return [
        [integer(size.strip()) for size in one.split(",")] if one.strip() else []
        for one in re.sub(r'[\[\]"]', "", text).split(";")
    ]


def _types(text: str) -> list[str]:
    return [one.strip() for one in text.split(";")]
