"""Export a run for speedscope: critical paths as stacks over time, and host threads.

The file has a profile for each critical path (each step of each rank, and of the run
with several ranks), whose stacks are module, Python function, op, and the kind of time
with its name; and one for each host thread, with its nested ops and calls.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

import tracedb
from tracedb.errors import ReportError
from tracedb.export.perfetto import check_step
from tracedb.outputs import EXPORT, check_place, written_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import duckdb

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_MARK = b'{"exporter":"tracedb ' + tracedb.__version__.encode() + b'",'
"""The first bytes of an export."""
_EXPORTER = b'{"exporter":"tracedb '
_BATCH = 20_000

# The paths of steps and of the run; of a trace only if it has no steps.
_PATHS = """
SELECT
    scenario, method, scope, path.rank, path.trace_id, path_id, step, time_ns, module,
    frame, op, kind, name
FROM question.path_interval AS path
INNER JOIN staging.trace AS trace ON path.trace_id = trace.trace_id
WHERE
    run_id = $run
    AND ($step IS NULL OR step = $step)
    AND ($rank IS NULL OR path.rank = $rank)
    AND CASE scope
        WHEN 'period' THEN true
        WHEN 'run' THEN $rank IS NULL
        WHEN 'trace' THEN
            path.trace_id NOT IN (SELECT trace_id FROM staging.step)
        ELSE false
    END
ORDER BY
    scenario, method, scope, CASE WHEN scope = 'run' THEN NULL ELSE path.rank END, step,
    path_id, offset_ns
"""
_THREADS = """
SELECT
    host.trace_id, host.rank, host.thread_id, role, host.start_ns, host.time_ns,
    host.name
FROM question.timeline AS host
INNER JOIN staging.thread AS thread USING (thread_id)
WHERE
    host.run_id = $run
    AND ($rank IS NULL OR host.rank = $rank)
    AND track = 'host'
    AND (
        $step IS NULL
        OR EXISTS (
            FROM graph.step_period AS period
            INNER JOIN graph.run_time AS run_time USING (trace_id)
            WHERE
                period.trace_id = host.trace_id
                AND step = $step
                AND host.start_ns >= period.start_ns + shift_ns
                AND host.start_ns < period.end_ns + shift_ns
        )
    )
ORDER BY host.rank, host.trace_id, host.thread_id, host.start_ns, depth
"""


class _Frames:
    """The frame names of stacks, with their numbers."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def encoded(self) -> bytes:
        return msgspec.json.encode([{"name": name} for name in self.numbers])


def write_speedscope(
    connection: duckdb.DuckDBPyConnection,
    path: str | Path,
    run: int,
    step: int | None = None,
    rank: int | None = None,
) -> int:
    """Write a run, or one of its steps or ranks; `.gz` compresses it.

    Returns the number of profiles. Raises `QueryError` for an unknown step or rank,
    `ReportError` if the file cannot be written, or would replace something other than
    an export.
    """
    path = Path(path)
    check_place(path, _EXPORTER, EXPORT)
    check_step(connection, run, step, rank)
    values = {"run": run, "step": step, "rank": rank}
    frames = _Frames()
    count = 0
    with written_bytes(path, ReportError) as file:
        file.write(_MARK + b'"$schema":"%b","profiles":[' % _SCHEMA.encode())
        for parts in (
            _paths(connection, values, frames),
            _threads(connection, values, frames),
        ):
            for profile in parts:
                _write(file, profile, is_first=count == 0)
                count += 1
        file.write(b'\n],"shared":{"frames":' + frames.encoded() + b"}}\n")
    return count


def _write(file: IO[bytes], profile: dict[str, Any], *, is_first: bool) -> None:
    file.write(b"\n" if is_first else b",\n")
    file.write(msgspec.json.encode(profile))


def _rows(
    connection: duckdb.DuckDBPyConnection, query: str, values: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    found = connection.execute(query, values)
    names = [column[0] for column in found.description or ()]
    while rows := found.fetchmany(_BATCH):
        for row in rows:
            yield dict(zip(names, row, strict=True))


def _paths(
    connection: duckdb.DuckDBPyConnection, values: dict[str, Any], frames: _Frames
) -> Iterator[dict[str, Any]]:
    """A profile per path: one stack per interval."""
    same = ("scenario", "method", "scope", "path_id")
    rows = _rows(connection, _PATHS, values)
    for _, own in groupby(rows, key=lambda row: [row[name] for name in same]):
        intervals = list(own)
        lasts = [row["time_ns"] for row in intervals]
        yield {
            "type": "sampled",
            "name": _path_name(intervals[0]),
            "unit": "nanoseconds",
            "startValue": 0,
            "endValue": sum(lasts),
            "samples": [[*map(frames.number, _stack(row))] for row in intervals],
            "weights": lasts,
        }


def _path_name(row: dict[str, Any]) -> str:
    rank = None if row["scope"] == "run" else row["rank"]
    parts = [
        "critical path",
        "of all ranks" if row["scope"] == "run" else "",
        "" if rank is None else f"rank {rank}",
        "" if row["step"] is None else f"step {row['step']}",
        "" if row["method"] == "measured" else f"predicted by {row['method']}",
        "" if row["scenario"] == "baseline" else f"scenario {row['scenario']}",
    ]
    return ", ".join(filter(None, parts))


def _stack(row: dict[str, Any]) -> list[str]:
    """The frames from outermost to innermost, without equal names."""
    leaf = f"{row['kind']}: {row['name']}" if row["name"] else row["kind"]
    around = (row["module"], row["frame"], row["op"])
    return [*dict.fromkeys(filter(None, around)), leaf]


def _threads(
    connection: duckdb.DuckDBPyConnection, values: dict[str, Any], frames: _Frames
) -> Iterator[dict[str, Any]]:
    """A profile per host thread: its nested ops and calls."""
    rows = _rows(connection, _THREADS, values)
    for (rank, _, thread), own in groupby(
        rows, key=lambda row: (row["rank"], row["trace_id"], row["thread_id"])
    ):
        slices = list(own)
        begin = slices[0]["start_ns"]
        events = list(_events(slices, frames))
        of = f"rank {rank}, " if rank is not None else ""
        yield {
            "type": "evented",
            "name": f"{of}{slices[0]['role']} thread {thread}",
            "unit": "nanoseconds",
            "startValue": begin,
            "endValue": events[-1]["at"],
            "events": events,
        }


def _events(
    slices: Iterable[dict[str, Any]], frames: _Frames
) -> Iterator[dict[str, Any]]:
    """Open and close events; a slice that outlasts its parent ends with it."""
    opened: list[tuple[int, int]] = []
    for row in slices:
        begin = row["start_ns"]
        yield from _closed(opened, begin)
        end = begin + row["time_ns"]
        frame = frames.number(row["name"])
        opened.append((min(end, opened[-1][0]) if opened else end, frame))
        yield {"type": "O", "at": begin, "frame": frame}
    yield from _closed(opened, None)


def _closed(
    opened: list[tuple[int, int]], until: int | None
) -> Iterator[dict[str, Any]]:
    while opened and (until is None or opened[-1][0] <= until):
        end, frame = opened.pop()
        yield {"type": "C", "at": end, "frame": frame}
