"""Export a run with tracedb's results for Perfetto's UI: Chrome JSON or `.pftrace`.

Every recorded event with a time is kept, on the clock of the run. Events on the
critical path have the argument `critical`, events with slack `slack_ns`. Flows named
`critical_path`, as in HolisticTraceAnalysis, connect the path. The path, and each
prediction by a method or a scenario, are processes of their own.
"""

from __future__ import annotations

import json
from collections import defaultdict
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec

from tracedb.errors import QueryError, ReportError
from tracedb.export import pftrace
from tracedb.export.layout import FIELD, Layout
from tracedb.outputs import EXPORT, check_place, written_bytes
from tracedb.part import NO_STEPS, no_such_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import duckdb

ENDINGS = {
    ".json": "chrome",
    ".json.gz": "chrome",
    ".pftrace": "pftrace",
    ".pftrace.gz": "pftrace",
    ".speedscope.json": "speedscope",
    ".speedscope.json.gz": "speedscope",
    ".et": "chakra",
}
"""The format of each ending of a file's name; the longest match counts."""
_MARK = b'{"exportedBy":"tracedb",\n'
"""The first bytes of an export, which may be overwritten."""
_BASE = "baseTimeNanoseconds"
_BATCH = 20_000
_FOREVER = 2**62
_EXACT_NS = 2**40 * 1000
"""[ns] Below this, viewers get exact nanoseconds from a double of microseconds."""
_FIRST, _ENDS, _BEGINS, _LAST = range(4)
"""The order of events of one time where it counts."""
_NUMBERS = range(2**32)
"""The ids of processes and threads for which Perfetto has a place."""
_OWN_PROCESS = 900_000_000
"""Ids of tracedb's own processes start here, above any system's."""

_TRACES = """
SELECT
    trace_id, rank, CASE WHEN count(*) OVER () = 1 THEN 0 ELSE shift_ns END AS shift_ns,
    run_start_ns, header
FROM graph.run_time
INNER JOIN staging.trace USING (run_id, trace_id)
INNER JOIN (SELECT trace_id, header FROM raw.trace) USING (trace_id)
WHERE run_id = $run AND ($rank IS NULL OR rank = $rank)
ORDER BY rank, trace_id
"""
# Events of GPUs are at the times that answers have (`staging.gpu_op`): all of a lane by
# the host's clock, and GPU ops without what they are recorded to outlast.
_MOVED = """
CREATE OR REPLACE TEMP TABLE export_moved AS
WITH
work AS (
    SELECT event_id, event.trace_id, pid, tid, clock_ns, overrun_ns
    FROM staging.gpu_op
    INNER JOIN raw.event AS event ON gpu_op_id = event_id
    WHERE clock_ns <> 0 OR overrun_ns > 0
)

SELECT event_id, lane.clock_ns, coalesce(overrun_ns, 0) AS overrun_ns
FROM raw.event
INNER JOIN (SELECT DISTINCT trace_id, pid, tid, clock_ns FROM work) AS lane
    USING (trace_id, pid, tid)
LEFT JOIN work USING (event_id)
WHERE ts_ns IS NOT NULL AND (lane.clock_ns <> 0 OR overrun_ns > 0)
"""
_EVENT = """
CREATE OR REPLACE TEMP VIEW export_event AS
SELECT event.* REPLACE (
    ts_ns - coalesce(clock_ns, 0) AS ts_ns, dur_ns - coalesce(overrun_ns, 0) AS dur_ns
)
FROM raw.event AS event
LEFT JOIN export_moved USING (event_id)
"""
# The first and the last time at which something is, as the file would have it.
_EXTENT = """
SELECT min(ts_ns + shift_ns), max(ts_ns + shift_ns + greatest(coalesce(dur_ns, 0), 0))
FROM export_event
INNER JOIN export_trace USING (trace_id)
WHERE ph <> 'M'
"""
_SPAN = """
SELECT min(start_ns + shift_ns), max(end_ns + shift_ns)
FROM graph.step_period
INNER JOIN export_trace USING (trace_id)
WHERE step = $step
"""
# The paths of runs (with several ranks), of steps, and of traces without steps.
_PATH = """
CREATE OR REPLACE TEMP TABLE export_path AS
SELECT
    scope, path_id, interval.trace_id, interval.kind, interval.node_id,
    CASE
        WHEN scope = 'run' THEN interval.start_ns - run_time.run_start_ns - first_ns
        ELSE interval.start_ns + trace.shift_ns
    END AS start_ns,
    interval.end_ns - interval.start_ns AS time_ns
FROM critical_path.interval AS interval
INNER JOIN graph.run_time AS run_time USING (trace_id)
INNER JOIN export_trace AS trace USING (trace_id)
WHERE
    variant_id = 0
    AND interval.start_ns < interval.end_ns
    AND CASE scope
        WHEN 'run' THEN (SELECT count(*) FROM export_trace) > 1
        WHEN 'period' THEN true
        WHEN 'trace' THEN interval.trace_id NOT IN (SELECT trace_id FROM staging.step)
        ELSE false
    END
"""
_EVENTS = """
SELECT
    event.trace_id, ph, cat, event.name, pid, tid,
    -- Metadata have no time of their own; Perfetto drops events before 0.
    ts_ns + CASE ph WHEN 'M' THEN 0 ELSE shift_ns END,
    dur_ns, id,
    args::VARCHAR, other::VARCHAR, slack_ns,
    event.event_id IN (SELECT node_id FROM export_path) AS is_critical,
    event.event_id, ts_ns AS recorded_ns
FROM export_event AS event
INNER JOIN export_trace AS trace USING (trace_id)
LEFT JOIN critical_path.slack AS slack ON event.event_id = node_id
LEFT JOIN export_order AS moved ON event.event_id = moved.event_id
WHERE
    -- Events without a phase or a time cannot be shown.
    ph = 'M'
    OR (
        ph <> ''
        AND ts_ns + shift_ns < $end
        AND ts_ns + shift_ns + coalesce(dur_ns, 0) >= $start
    )
ORDER BY coalesce(place, event.event_id), event.event_id
"""
_PATH_SLICES = """
SELECT
    path.scope, path.path_id, path.trace_id, rank, path.kind, path.start_ns,
    path.time_ns, node.name, path.node_id
FROM export_path AS path
INNER JOIN export_trace USING (trace_id)
LEFT JOIN graph.node AS node ON path.node_id = node.node_id
WHERE path.start_ns < $end AND path.start_ns + time_ns > $start
ORDER BY path.scope, path.path_id, path.start_ns
"""
# From each interval with a node to the next one with another node, unless that began
# before: there the path returns from a call to its op.
_FLOWS = """
WITH
placed AS (
    SELECT
        path.*,
        event.trace_id AS node_trace_id,
        pid,
        tid,
        shift_ns,
        event.start_ns - coalesce(clock_ns, 0) + shift_ns AS at_ns,
        event.end_ns - coalesce(clock_ns + overrun_ns, 0) + shift_ns AS until_ns
    FROM export_path AS path
    INNER JOIN staging.slice AS event ON path.node_id = event.event_id
    INNER JOIN export_trace AS trace ON event.trace_id = trace.trace_id
    LEFT JOIN export_moved AS moved ON event.event_id = moved.event_id
    WHERE scope = CASE WHEN (SELECT count(*) FROM export_trace) > 1
        AND EXISTS (FROM export_path WHERE scope = 'run') THEN 'run' ELSE scope END
),

followed AS (
    SELECT
        *,
        lead(node_id) OVER along AS next_node_id,
        lead(node_trace_id) OVER along AS next_trace_id,
        lead(pid) OVER along AS next_pid,
        lead(tid) OVER along AS next_tid,
        lead(at_ns) OVER along AS next_ns,
        lead(until_ns) OVER along AS next_until_ns,
        lead(shift_ns) OVER along AS next_shift_ns,
        lead(kind) OVER along AS next_kind
    FROM placed
    WINDOW along AS (PARTITION BY scope, path_id ORDER BY start_ns)
)

SELECT
    node_id, node_trace_id, pid, tid, shift_ns, at_ns,
    next_node_id, next_trace_id, next_pid, next_tid, next_shift_ns, next_ns,
    next_kind, time_ns
FROM followed
WHERE
    node_id <> next_node_id
    AND at_ns <= next_ns
    -- Both slices are written.
    AND next_ns < $end
    AND until_ns >= $start
    AND next_until_ns >= $start
ORDER BY scope, path_id, start_ns
"""
_VARIANTS = """
SELECT variant_id, method, scenario
FROM prediction.variant
WHERE is_asked AND is_simulated AND variant_id > 0
ORDER BY variant_id
"""
_PREDICTED = """
SELECT
    trace.trace_id, rank, node.thread_id, node.device, node.stream, node.kind,
    node.name,
    time.start_ns + origin_ns + trace.shift_ns AS begin_ns, time.end_ns - time.start_ns,
    node.end_ns - node.start_ns
FROM critical_path.node_time AS time
INNER JOIN graph.node AS node USING (node_id)
INNER JOIN export_trace AS trace ON node.trace_id = trace.trace_id
INNER JOIN simulation.origin AS origin ON node.trace_id = origin.trace_id
WHERE
    variant_id = $variant
    AND begin_ns < $end
    AND begin_ns + time.end_ns - time.start_ns >= $start
ORDER BY rank, trace.trace_id, node.device NULLS FIRST, thread_id, stream, begin_ns,
    time.end_ns DESC, node_id
"""


class _Trace(NamedTuple):
    trace_id: int
    rank: int | None
    shift_ns: int
    run_start_ns: int
    header: str | None


class _Numbers:
    """Ids of processes and flows: as recorded for one trace, renumbered for several.

    Perfetto reads ids of flows only if they are numbers, and shows the names of
    processes, but not their labels: the names of several traces' processes have all.
    """

    def __init__(self, traces: list[_Trace]) -> None:
        self._is_one = len(traces) == 1
        self._known: dict[tuple[int, str | None], int] = {}
        self._links: dict[tuple[int, str], int] = {}
        self._about: dict[int, dict[str, str]] = defaultdict(dict)
        self._threads: dict[tuple[int, Any], str] = {}
        self._ranks = {trace.trace_id: trace.rank for trace in traces}

    def process(self, trace: int, pid: str | None) -> int | str | None:
        """The process id of an event."""
        if self._is_one:
            return _number(pid)
        return self._known.setdefault((trace, pid), len(self._known) + 1)

    def link(self, trace: int, number: str | None) -> int | str | None:
        """The id of a flow."""
        if self._is_one or number is None:
            return _plain(number)
        return self._links.setdefault((trace, number), len(self._links) + 1)

    def keeps(self, event: dict[str, Any], trace: int) -> bool:
        """Whether a recorded event is written.

        Names of processes are merged; Perfetto takes empty names for broken events.
        """
        what = _NAMED.get(event["name"]) if event["ph"] == "M" else None
        if what is None:
            return True
        told = msgspec.json.decode(event["args"]) if event["args"] else None
        text = told.get(what) if isinstance(told, dict) else None
        if event["name"] == "thread_name":
            self._threads[trace, event["tid"]] = str(text)
        if self._is_one or event["name"] not in _MERGED:
            return text != ""
        if text:
            self._about[event["pid"]].setdefault(what, str(text))
        return False

    def names(self) -> Iterator[dict[str, Any]]:
        """Metadata events that name the processes of several traces."""
        for (trace, pid), process in self._known.items():
            about = self._about.get(process, {})
            rank, label = self._ranks[trace], about.get("labels")
            of = f"trace {trace}" if rank is None else f"rank {rank}"
            name = " ".join([of, *([label] if label else [])])
            called = about.get("name", pid)
            shown = f"{name}: {called}" if called else name
            yield _about(process, "process_name", name=shown)
            yield _about(process, "process_sort_index", sort_index=process)

    def extra_threads(self, lanes: Layout) -> Iterator[dict[str, Any]]:
        """Metadata events that name the threads of slices that do not nest."""
        for (trace, pid, tid), thread in lanes.threads():
            name = self._threads.get((trace, _thread(pid, tid)), f"thread {tid}")
            process: Any = self.process(trace, pid)
            yield _about(process, "thread_name", thread, name=f"{name}, overlapping")


_MERGED = {"process_name": "name", "process_labels": "labels"}
"""Metadata events of which `_Numbers.names` makes one name, and their argument."""
_NAMED = _MERGED | {"thread_name": "name"}


class _Form(NamedTuple):
    """A format: first bytes of its files, its writer, and whether it is Chrome JSON.

    There, viewers read times as doubles, and slices of a thread must nest.
    """

    mark: bytes
    write: Callable[[IO[bytes], dict[str, Any], Iterator[dict[str, Any]]], int]
    is_chrome: bool


def format_of(path: str | Path) -> str:
    """The format of a file by its name; raises `QueryError` if there is none."""
    fitting = [ending for ending in ENDINGS if str(path).lower().endswith(ending)]
    if fitting:
        return ENDINGS[max(fitting, key=len)]
    raise QueryError(
        f"the ending of '{path}' is no known format: use {', '.join(ENDINGS)}, or give "
        "the format"
    )


def write_chrome(
    connection: duckdb.DuckDBPyConnection,
    path: str | Path,
    run: int,
    step: int | None = None,
    rank: int | None = None,
) -> int:
    """Write a run, or one of its steps or ranks, as Chrome JSON; `.gz` compresses it.

    Simulated variants (`prediction.variant`) are processes of their own. Returns the
    number of events. Raises `QueryError` for an unknown step or rank, `ReportError` if
    the file cannot be written, or would replace something other than an export.
    """
    form = _Form(_MARK, _write, is_chrome=True)
    return _write_run(connection, Path(path), (run, step, rank), form)


def write_pftrace(
    connection: duckdb.DuckDBPyConnection,
    path: str | Path,
    run: int,
    step: int | None = None,
    rank: int | None = None,
) -> int:
    """Write the same events in Perfetto's own format, as `write_chrome` does."""
    form = _Form(pftrace.HEAD, pftrace.write, is_chrome=False)
    return _write_run(connection, Path(path), (run, step, rank), form)


def _write_run(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    part: tuple[int, int | None, int | None],
    form: _Form,
) -> int:
    check_place(path, form.mark, EXPORT)
    run, step, rank = part
    check_step(connection, run, step, rank)
    chosen = connection.execute(_TRACES, {"run": run, "rank": rank})
    traces = [_Trace(*row) for row in chosen.fetchall()]
    connection.execute(_MOVED)
    connection.execute(_EVENT)
    _keep(connection, traces, 0)
    try:
        first = _first(connection, form)
        _keep(connection, traces, first)
        span = _span(connection, step)
        connection.execute(_PATH)
        with written_bytes(path, ReportError) as file:
            layout = Layout(connection, is_chrome=form.is_chrome)
            events = _all_events(connection, traces, span, layout)
            return form.write(file, _header(traces, first), events)
    finally:
        connection.execute("DROP VIEW IF EXISTS temp.export_event")
        for table in ("export_path", "export_order", "export_trace", "export_moved"):
            connection.execute(f"DROP TABLE IF EXISTS temp.{table}")


def _keep(
    connection: duckdb.DuckDBPyConnection, traces: list[_Trace], first: int
) -> None:
    """Store the traces, with what is added to their times to count from `first`."""
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE export_trace "
        "(trace_id BIGINT, rank BIGINT, shift_ns BIGINT, first_ns BIGINT)"
    )
    rows = [(one.trace_id, one.rank, one.shift_ns - first, first) for one in traces]
    connection.executemany("INSERT INTO export_trace VALUES (?, ?, ?, ?)", rows)


def _first(connection: duckdb.DuckDBPyConnection, form: _Form) -> int:
    """[ns] The time that is 0 in the file: as recorded, unless viewers would lose some.

    Perfetto drops what is before 0, and slices whose begins and ends are no longer
    exact as doubles.
    """
    ((first, last),) = connection.execute(_EXTENT).fetchall()
    if first is None:
        return 0
    is_fine = not form.is_chrome or last < _EXACT_NS
    return 0 if first >= 0 and is_fine else int(first)


def _span(connection: duckdb.DuckDBPyConnection, step: int | None) -> dict[str, int]:
    """[ns] The interval of events to write."""
    if step is None:
        return {"start": -_FOREVER, "end": _FOREVER}
    ((start, end),) = connection.execute(_SPAN, {"step": step}).fetchall()
    return {"start": start, "end": end}


def check_step(
    connection: duckdb.DuckDBPyConnection,
    run: int,
    step: int | None,
    rank: int | None = None,
) -> None:
    """Raise `QueryError`, listing what there is, if a run has no such step or rank."""
    traces = connection.execute(
        "SELECT rank, trace_id FROM staging.trace WHERE run_id = ? AND rank >= 0", [run]
    ).fetchall()
    if rank is not None and rank not in dict(traces):
        known = sorted(dict(traces))
        raise no_such_number(f"rank {rank} in run {run}", known, "its files have none")
    query = """
        SELECT DISTINCT step FROM staging.step INNER JOIN staging.trace USING (trace_id)
        WHERE step.run_id = $run AND ($rank IS NULL OR rank = $rank) ORDER BY step
    """
    found = connection.execute(query, {"run": run, "rank": rank}).fetchall()
    known = [number for (number,) in found]
    if step is not None and step not in known:
        raise no_such_number(f"step {step} in run {run}", known, NO_STEPS)


def _write(
    file: IO[bytes], header: dict[str, Any], events: Iterator[dict[str, Any]]
) -> int:
    """Write the header and the events, one per line; return their number."""
    file.write(_MARK)
    for name, value in header.items():
        file.write(
            msgspec.json.encode(name) + b":" + msgspec.json.encode(value) + b",\n"
        )
    file.write(b'"traceEvents":[')
    count = 0
    for event in _opened(events):
        file.write((b",\n" if count else b"\n") + msgspec.json.encode(event))
        count += event.get("ph") != "E"
    file.write(b"\n]}\n")
    return count


def _opened(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The events, with tracedb's own slices as begins and ends.

    Viewers add begin and duration of a slice as doubles. At times as large as profilers
    write them, the sum can exceed the begin of the next slice, and Perfetto drops that.
    An end that is written is the same double as the next begin.
    """
    open_: dict[tuple[int, int], list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    for event in events:
        if event.get("ph") != "X" or not _is_own(event.get("pid")):
            yield event
            continue
        stack = open_[event["pid"], event["tid"]]
        begin = pftrace.nanoseconds(event["ts"])
        end = begin + pftrace.nanoseconds(event["dur"])
        yield from _ended(stack, begin)
        if begin == end:
            yield event
            continue
        yield {key: value for key, value in event.items() if key != "dur"} | {"ph": "B"}
        stack.append((min(end, stack[-1][0]) if stack else end, event))
    for stack in open_.values():
        yield from _ended(stack, _FOREVER)


def _ended(
    stack: list[tuple[int, dict[str, Any]]], until: int
) -> Iterator[dict[str, Any]]:
    """The ends of open slices that are over by a time."""
    while stack and stack[-1][0] <= until:
        end, event = stack.pop()
        yield {"ph": "E", "pid": event["pid"], "tid": event["tid"], "ts": _us(end)}


def _is_own(pid: object) -> bool:
    return isinstance(pid, int) and pid >= _OWN_PROCESS


def _header(traces: list[_Trace], first: int) -> dict[str, Any]:
    """The header of the file: for one trace, as recorded, with the time that is 0."""
    if len(traces) > 1:
        return {_BASE: max(traces[0].run_start_ns + first, 0)}
    # Unlike msgspec, this takes numbers beyond doubles; they are written as null.
    header = json.loads(traces[0].header or "{}")
    kept = header if isinstance(header, dict) else {}
    base = kept.get(_BASE, 0)
    if first and isinstance(base, int):
        kept[_BASE] = max(base + first, 0)
    return {
        name: value
        for name, value in kept.items()
        if name not in ("traceEvents", "exportedBy")
    }


def _all_events(
    connection: duckdb.DuckDBPyConnection,
    traces: list[_Trace],
    span: dict[str, int],
    layout: Layout,
) -> Iterator[dict[str, Any]]:
    numbers = _Numbers(traces)
    late = _InOrder()
    yield from _recorded(connection, numbers, span, layout, late)
    yield from numbers.extra_threads(layout)
    yield from _path(connection, span)
    yield from _flows(connection, numbers, span, layout, late)
    yield from late.events()
    yield from numbers.names()
    variants = connection.execute(_VARIANTS).fetchall()
    for place, (variant, method, scenario) in enumerate(variants, 1):
        words = "" if scenario == "baseline" else f", scenario {scenario}"
        process = _OWN_PROCESS + place
        yield from _process(process, f"predicted by {method}{words}")
        yield from _predicted(connection, process, span | {"variant": variant})


def _batches(
    connection: duckdb.DuckDBPyConnection, query: str, values: dict[str, int]
) -> Iterator[tuple[Any, ...]]:
    """Rows of a query, fetched in batches; no other query may run in between."""
    found = connection.execute(query, values)
    while rows := found.fetchmany(_BATCH):
        yield from rows


def _recorded(
    connection: duckdb.DuckDBPyConnection,
    numbers: _Numbers,
    span: dict[str, int],
    layout: Layout,
    late: _InOrder,
) -> Iterator[dict[str, Any]]:
    """The recorded events, with marks on the critical path and with slack."""
    for row in _batches(connection, _EVENTS, span):
        trace, ph, cat, name, pid, tid, ts, dur, link, args, other, *more = row
        slack, critical, number, at = more
        event = {
            "ph": ph,
            "cat": cat,
            "name": name,
            "pid": numbers.process(trace, pid),
            "tid": _thread(pid, tid),
            "ts": _us(ts),
            "dur": _us(dur),
            "id": None if link is None else numbers.link(trace, link),
            "args": _with(args, critical=critical, slack_ns=slack),
        }
        if not numbers.keeps(event, trace):
            continue
        lane = (trace, pid, tid)
        moved = layout.of(number, ph, lane, at)
        if layout.is_chrome and ph == "X" and dur is None:
            # As in `.pftrace`; a slice without a duration counts as a broken event.
            event["ph"] = "i"
        if moved:
            event |= {"tid": moved, FIELD: event["tid"]}
        if ph == "f" and layout.begins(lane, at):
            # Without it, viewers attach the end of a flow to the next slice.
            event["bp"] = "e"
        whole = {key: value for key, value in event.items() if value is not None} | (
            _without_times(other) if other else {}
        )
        if number in layout.pairs:
            late.pair(whole, (ts, ts + dur), layout.rank(number))
        elif ph in ("s", "t", "f") and layout.has_order(trace, at):
            late.flow(whole, ts)
        else:
            yield whole


class _InOrder:
    """Begins, ends and flows whose order in the file counts: they are written last."""

    def __init__(self) -> None:
        self._events: list[tuple[tuple[int, int, int, int], dict[str, Any]]] = []

    def pair(self, event: dict[str, Any], span: tuple[int, int], rank: int) -> None:
        """Write a slice as a begin and an end, unless it has no length."""
        begin, end = span
        if begin == end:
            self._add((begin, _BEGINS, rank, 0), event)
            return
        opening = {name: value for name, value in event.items() if name != "dur"}
        kept = ("name", "pid", "tid", FIELD)
        closing = {name: event[name] for name in kept if name in event}
        self._add((begin, _BEGINS, rank, 0), opening | {"ph": "B"})
        self._add((end, _ENDS, -rank, 0), {"ph": "E", **closing, "ts": _us(end)})

    def flow(self, event: dict[str, Any], at: int) -> None:
        """Write an end of a recorded flow after all begins."""
        self._add((at, _LAST, 0, 0), event)

    def arrow(self, event: dict[str, Any], at: int, rank: int | None) -> None:
        """Write an end of a flow of the path, after the begin of its slice if late."""
        others = _FIRST if event["ph"] == "s" else _LAST
        self._add((at, others, 0, 0) if rank is None else (at, _BEGINS, rank, 1), event)

    def events(self) -> Iterator[dict[str, Any]]:
        """The events in their order."""
        self._events.sort(key=itemgetter(0))
        yield from (event for _, event in self._events)

    def _add(self, key: tuple[int, int, int, int], event: dict[str, Any]) -> None:
        self._events.append((key, event))


def _without_times(other: str) -> dict[str, Any]:
    """Fields of an event without times that are not numbers: viewers end at them."""
    fields = msgspec.json.decode(other)
    return {name: value for name, value in fields.items() if name not in ("ts", "dur")}


def _path(
    connection: duckdb.DuckDBPyConnection, span: dict[str, int]
) -> Iterator[dict[str, Any]]:
    """The critical path as a process: a thread per rank, and one for the run."""
    yield from _process(_OWN_PROCESS, "critical path")
    lanes = _Lanes()
    for scope, path, trace, rank, kind, start, lasts, name, node in _batches(
        connection, _PATH_SLICES, span
    ):
        is_run = scope == "run"
        owner = "run" if is_run else "trace" if rank is None else f"rank {rank}"
        thread, is_new = lanes.place((None if is_run else trace, path), start, lasts)
        if is_new:
            yield _about(_OWN_PROCESS, "thread_name", thread, name=owner)
            yield _about(_OWN_PROCESS, "thread_sort_index", thread, sort_index=thread)
        yield {
            "ph": "X",
            "cat": "critical_path",
            "name": f"{kind}: {name}" if name else kind,
            "pid": _OWN_PROCESS,
            "tid": thread,
            "ts": _us(start),
            "dur": _us(lasts),
            "args": {"kind": kind, "trace": trace}
            | ({} if node is None else {"node": node}),
        }


class _Lanes:
    """Threads for paths: a path that begins before another one ends gets its own."""

    def __init__(self) -> None:
        self._path: tuple[int | None, int] | None = None
        self._thread = 0
        self._ends: list[tuple[int | None, int]] = []

    def place(
        self, path: tuple[int | None, int], start: int, lasts: int
    ) -> tuple[int, bool]:
        """The thread of a path's next interval, and whether it is new."""
        known = len(self._ends)
        if path != self._path:
            self._path = path
            fitting = (
                place
                for place, (owner, end) in enumerate(self._ends)
                if owner == path[0] and end <= start
            )
            self._thread = next(fitting, known)
        end = path[0], start + lasts
        if self._thread == known:
            self._ends.append(end)
        else:
            self._ends[self._thread] = end
        return self._thread + 1, self._thread == known


def _flows(
    connection: duckdb.DuckDBPyConnection,
    numbers: _Numbers,
    span: dict[str, int],
    layout: Layout,
    late: _InOrder,
) -> Iterator[dict[str, Any]]:
    """Pairs of flow events from one event of the path to the next."""
    for number, row in enumerate(_batches(connection, _FLOWS, span), 1):
        source, target, (kind, lasts) = _End(*row[:6]), _End(*row[6:12]), row[12:]
        at, until = source.own_ns(layout), target.own_ns(layout)
        # A flow that ends before it starts is dropped.
        at = at if at <= until else source.start_ns
        shared = {
            "cat": "critical_path",
            "name": "critical_path",
            "id": number,
            "args": {"weight": lasts / 1000, "critical": True, "type": kind},
        }
        start = {"ph": "s", **source.place(numbers, layout), "ts": _us(at), **shared}
        ending = {"ph": "f", "bp": "e", **target.place(numbers, layout)}
        end = {**ending, "ts": _us(until), **shared}
        ranks = source.rank(layout, at), target.rank(layout, until)
        if ranks == (None, None):
            yield from (start, end)
        else:
            late.arrow(start, at, ranks[0])
            late.arrow(end, until, ranks[1])


class _End(NamedTuple):
    """The slice at one end of a flow of the path; times are those of the file."""

    node: int
    trace: int
    pid: str | None
    tid: str | None
    shift_ns: int
    start_ns: int

    def own_ns(self, layout: Layout) -> int:
        """[ns] When no slice within it is open; its start if there is no such time."""
        found = layout.own_ns(self.node)
        return self.start_ns if found is None else found + self.shift_ns

    def rank(self, layout: Layout, at: int) -> int | None:
        """Its place among begins and ends, if a flow at a time has to be in order."""
        lane = (self.trace, self.pid, self.tid)
        is_late = layout.is_in_order(lane, at - self.shift_ns)
        return layout.rank(self.node) if is_late else None

    def place(self, numbers: _Numbers, layout: Layout) -> dict[str, Any]:
        """The process and thread on which it is."""
        moved = layout.of(self.node, "X", (self.trace, self.pid, self.tid), None)
        thread = moved or _thread(self.pid, self.tid)
        # In Perfetto's format, the writer makes the extra tracks.
        of = {} if layout.is_chrome else {pftrace.OF: _us(self.start_ns)}
        return {"pid": numbers.process(self.trace, self.pid), "tid": thread, **of}


def _predicted(
    connection: duckdb.DuckDBPyConnection, process: int, values: dict[str, int]
) -> Iterator[dict[str, Any]]:
    """The predicted events of a variant by lane, with their measured durations."""
    lanes: dict[tuple[Any, ...], int] = {}
    for row in _batches(connection, _PREDICTED, values):
        trace, rank, thread, device, stream, kind, name, start, lasts, measured = row
        lane = (trace, thread, device, stream)
        if lane not in lanes:
            lanes[lane] = len(lanes) + 1
            place = (
                f"thread {thread}"
                if device is None
                else f"GPU {device} stream {stream}"
            )
            label = place if rank is None else f"rank {rank} {place}"
            yield _about(process, "thread_name", lanes[lane], name=label)
            yield _about(
                process, "thread_sort_index", lanes[lane], sort_index=lanes[lane]
            )
        yield {
            "ph": "X",
            "cat": f"predicted_{kind}",
            "name": name,
            "pid": process,
            "tid": lanes[lane],
            "ts": _us(start),
            "dur": _us(lasts),
            "args": {"measured_ns": measured, "change_ns": lasts - measured},
        }


def _process(process: int, name: str) -> Iterator[dict[str, Any]]:
    """Metadata events that name one of tracedb's processes, and sort it first."""
    yield _about(process, "process_name", name=name)
    yield _about(process, "process_sort_index", sort_index=process - 2 * _OWN_PROCESS)


def _about(
    process: int, what: str, thread: int = 0, /, **args: object
) -> dict[str, Any]:
    """A metadata event of a process or a thread."""
    about = {"pid": process, "tid": thread, "ts": 0}
    return {"ph": "M", "name": what, **about, "args": args}


def _us(ns: int | None) -> msgspec.Raw | None:
    """[us] A time with all digits of its nanoseconds.

    >>> bytes(_us(-1_234_567))
    b'-1234.567'
    """
    if ns is None:
        return None
    whole, rest = divmod(abs(ns), 1000)
    return msgspec.Raw(f"{'-' if ns < 0 else ''}{whole}.{rest:03d}".encode())


def _plain(text: str | None) -> int | str | None:
    """The text as an integer, if JSON would write it the same way; else the text."""
    if text is None or not text.removeprefix("-").isascii():
        return text
    digits = text.removeprefix("-")
    is_number = digits.isdigit() and (digits == "0" or digits[0] != "0")
    return int(text) if is_number and len(digits) < 16 else text  # noqa: PLR2004 (exact in JSON)


def _number(text: str | None) -> int | str | None:
    """The id of a process or a thread: an integer if Perfetto has a place for it.

    Of others, it takes texts one by one, and puts all numbers together.
    """
    plain = _plain(text)
    return text if isinstance(plain, int) and plain not in _NUMBERS else plain


def _thread(pid: str | None, tid: str | None) -> int | str | None:
    """The id of a thread; Perfetto takes thread 0 for the one with the process's id."""
    return tid if tid == "0" != pid else _number(tid)


def _with(
    args: str | None, *, critical: bool, slack_ns: int | None
) -> msgspec.Raw | None:
    """The JSON arguments, preceded by tracedb's own."""
    own = ['"critical":1'] if critical else []
    own += [] if slack_ns is None else [f'"slack_ns":{slack_ns}']
    if not own or (args is not None and not args.startswith("{")):
        return None if args is None else msgspec.Raw(args.encode())
    rest = (args or "{}").removeprefix("{").strip()
    comma = "" if rest.startswith("}") else ","
    return msgspec.Raw(f"{{{','.join(own)}{comma}{rest}".encode())
