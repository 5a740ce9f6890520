"""Find the events of each process, in a file merged from the traces of several.

Tools append one trace's events to another's, most with other process ids, some sort all
by time. Events of a GPU have the GPU's number instead of a process id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import duckdb

__all__ = ["Ops", "Sections", "UnclearError", "rank_in", "sections"]

_LAST = 1 << 62
_OPS = """
SELECT
    pid, min(event_id), max(event_id), min(ts_ns), max(ts_ns + coalesce(dur_ns, 0))
FROM raw.event
WHERE
    trace_id = $trace_id
    AND cat IN ('cpu_op', 'Operator')
    AND pid IS NOT NULL
    AND event_id BETWEEN $first AND $last
GROUP BY pid
HAVING max(ts_ns) IS NOT NULL
ORDER BY min(event_id)
"""
# The profiler writes it behind all other events.
_ENDS = """
SELECT event_id
FROM raw.event
WHERE trace_id = ? AND name = 'Record Window End'
ORDER BY event_id
"""
_STARTS = """
SELECT min(event_id)
FROM raw.event
WHERE trace_id = ? AND ph IS DISTINCT FROM 'M' AND pid IN (SELECT unnest(?))
GROUP BY pid
ORDER BY ALL
"""
# In ranges of events, and by process id.
_IN_RANGE = """
SELECT event_id, number
FROM (SELECT event_id FROM raw.event WHERE trace_id = $trace_id)
ASOF INNER JOIN (SELECT unnest($firsts) AS first, unnest($numbers) AS number)
    ON event_id >= first
"""
_BY_PID = """
SELECT event_id, number
FROM raw.event
INNER JOIN (SELECT unnest($pids) AS pid, unnest($numbers) AS number) USING (pid)
WHERE trace_id = $trace_id
"""
_NAMES = """
SELECT pid, coalesce(string_agg(DISTINCT args ->> '$.name', ' '), '')
FROM raw.event
WHERE trace_id = ? AND ph = 'M' AND name = 'process_name' AND pid IS NOT NULL
GROUP BY pid
"""
_PIDS = "SELECT DISTINCT pid FROM raw.event WHERE trace_id = ? AND pid IS NOT NULL"
_WORK = """
SELECT
    number,
    count(*) FILTER (cat IN ('cuda_runtime', 'cuda_driver', 'Runtime')
        AND contains(lower(name), 'launch')) > 0 AS has_launches,
    count(*) FILTER (staging.gpu_op_kind(cat, args) IS NOT NULL) > 0 AS has_work
FROM raw.event
LEFT JOIN ({query}) USING (event_id)
WHERE trace_id = $trace_id
GROUP BY number
"""
_RANK = re.compile(r"(?<![a-z])rank[\s_:=#-]{0,2}(\d{1,9})(?!\d)", re.IGNORECASE)
_HEAD = re.compile(r"(.*?)\d*", re.DOTALL)
_MOST = 1024
"""More are not divided: nobody could look at them, and names may be broken."""


class Ops(NamedTuple):
    """The ops of a process: their first and last event, and their extent in time."""

    pid: str
    first: int
    last: int
    start_ns: int
    end_ns: int


class _Trace(NamedTuple):
    """A trace with ops of each process, and the last events of recordings."""

    connection: duckdb.DuckDBPyConnection
    trace_id: int
    ops: list[Ops]
    ends: list[int]


@dataclass(frozen=True)
class Sections:
    """Which events of a trace are of which process."""

    ops: list[Ops]
    """Those of each process."""
    query: str
    """A query for the `event_id` of all events that are of a process, and its `number`
    in `ops`."""
    values: dict[str, Any]
    """The parameters of the query."""


class UnclearError(Exception):
    """A trace has ops of several processes, whose GPU work cannot be told apart."""

    def __init__(self, count: int) -> None:
        """Take the number of processes."""
        super().__init__(f"{count:,} processes")
        self.count = count


def sections(connection: duckdb.DuckDBPyConnection, trace_id: int) -> Sections | None:
    """The processes of a trace with ops; None if there is one.

    Raises `UnclearError` if they cannot be told apart.
    """
    ops = _ops(connection, trace_id, 0, _LAST)
    ends = [row[0] for row in connection.execute(_ENDS, [trace_id]).fetchall()]
    if len(ops) < 2 and len(ends) < 2:  # noqa: PLR2004 (one is the usual case)
        return None
    if max(len(ops), len(ends)) > _MOST:
        raise UnclearError(len(ops))
    trace = _Trace(connection, trace_id, ops, ends)
    for find in (_by_process, _by_end, _by_pid, _by_head, _by_name):
        found = find(trace)
        if found and len(found.ops) > 1 and _have_their_work(connection, found):
            return found
    if len(ops) > 1:
        raise UnclearError(len(ops))
    return None


def _ops(
    connection: duckdb.DuckDBPyConnection, trace_id: int, first: int, last: int
) -> list[Ops]:
    values = {"trace_id": trace_id, "first": first, "last": last}
    return [Ops(*row) for row in connection.execute(_OPS, values).fetchall()]


def _by_process(trace: _Trace) -> Sections | None:
    """Sections that follow one another, with a process id each."""
    in_turn = all(one.last < following.first for one, following in pairwise(trace.ops))
    if len(trace.ops) < len(trace.ends) or not in_turn:
        return None
    starts = trace.connection.execute(
        _STARTS, [trace.trace_id, [one.pid for one in trace.ops]]
    )
    firsts = [0, *(start for (start,) in starts.fetchall()[1:])]
    return _in_ranges(trace.trace_id, trace.ops, firsts, [*range(len(trace.ops))])


def _in_ranges(
    trace_id: int, ops: list[Ops], firsts: list[int], numbers: list[int]
) -> Sections:
    values = {"trace_id": trace_id, "firsts": firsts, "numbers": numbers}
    return Sections(ops, _IN_RANGE, values)


def _by_end(trace: _Trace) -> Sections | None:
    """Sections up to the end of a recording each; process ids may repeat."""
    firsts: list[int] = []
    found: list[Ops] = []
    for first, behind in pairwise([0, *(last + 1 for last in trace.ends[:-1]), _LAST]):
        ops = _ops(trace.connection, trace.trace_id, first, behind - 1)
        if len(ops) > 1:
            return None
        # What has no ops is of the process before it.
        firsts += [first if found else 0 for _ in ops]
        found += ops
    pairs = permutations(found, 2)
    repeated = {one.pid for one, other in pairs if _are_two(one, other)}
    processes: list[Ops] = []
    numbers = []
    for one in found:
        known = [other.pid for other in processes]
        is_known = one.pid in known and one.pid not in repeated
        numbers.append(known.index(one.pid) if is_known else len(processes))
        processes += [] if is_known else [one]
    return _in_ranges(trace.trace_id, processes, firsts, numbers)


def _are_two(one: Ops, other: Ops) -> bool:
    """Whether two recordings with one process id are of two processes."""
    at_one_time = one.start_ns < other.end_ns and other.start_ns < one.end_ns
    return one.pid == other.pid and at_one_time


def _by_pid(trace: _Trace) -> Sections:
    """Processes whose GPU work has their ids, too."""
    return _numbered(trace, {one.pid: n for n, one in enumerate(trace.ops)})


def _by_head(trace: _Trace) -> Sections | None:
    """Processes whose ids begin with what those of no other begin with."""
    heads = [found[1] for one in trace.ops if (found := _HEAD.fullmatch(one.pid))]
    if any(one.startswith(other) for one, other in permutations(heads, 2)):
        return None
    pids = [
        row[0] for row in trace.connection.execute(_PIDS, [trace.trace_id]).fetchall()
    ]
    numbers = {
        pid: number
        for pid in pids
        for number, head in enumerate(heads)
        if pid.startswith(head)
    }
    return _numbered(trace, numbers)


def _by_name(trace: _Trace) -> Sections | None:
    """Processes and GPUs whose names have the rank."""
    names = trace.connection.execute(_NAMES, [trace.trace_id]).fetchall()
    ranks = {pid: rank_in(name) for pid, name in names}
    own = [ranks.get(one.pid) for one in trace.ops]
    if None in own or len({*own}) < len(own):
        return None
    numbers = {pid: own.index(rank) for pid, rank in ranks.items() if rank in own}
    return _numbered(trace, numbers)


def _numbered(trace: _Trace, numbers: dict[str, int]) -> Sections:
    values = {"pids": [*numbers], "numbers": [*numbers.values()]}
    return Sections(trace.ops, _BY_PID, values | {"trace_id": trace.trace_id})


def rank_in(label: str) -> int | None:
    """The rank in a label, such as `RANK 3 - GPU`."""
    found = _RANK.search(label)
    return int(found[1]) if found else None


def _have_their_work(connection: duckdb.DuckDBPyConnection, found: Sections) -> bool:
    """Whether all GPU work is of a process, and each with launches has some."""
    query = _WORK.format(query=found.query)
    counts = connection.execute(query, found.values).fetchall()
    is_any = any(has_work for _, _, has_work in counts)
    return not any(
        has_work if number is None else is_any and has_launches and not has_work
        for number, has_launches, has_work in counts
    )
