"""Choose what the timeline of a report shows: everything if it is small enough.

Otherwise, slices that are too short to see are merged with their neighbours: those of
one track and depth of a lane that begin in the same short bin of time. The number of
slices that a page can hold determines the bins. In some steps (the one of median time
and the slowest), bins are shorter, to allow a closer look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tracedb.report import places
from tracedb.report.names import Names
from tracedb.words import duration

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    import duckdb
    import polars as pl

MOST_RANKS = 16
MOST_LANES = 96
_LONGEST = 2**50
"""[ns] The longest bin."""
_CLOSE_SHARE = 0.6
"""Share of the slices for the steps with detail."""
_NAMING = "time_ns::HUGEINT * 4_611_686_018_427_387_904 - {}"
"""What is largest for the slice that names merged ones: the longest, then the first."""
_PATH_SHARE = 0.25
"""Number of path intervals, relative to the slices."""

_LANES = """
SELECT
    slice.trace_id,
    slice.rank,
    slice.thread_id,
    slice.device,
    slice.stream,
    role,
    coalesce(thread.name, '') AS name,
    tid,
    count(*) AS slice_count,
    sum(time_ns) FILTER (depth = 0 AND track IN ('host', 'gpu')) AS busy_ns
FROM question.timeline AS slice
LEFT JOIN staging.thread AS thread ON slice.thread_id = thread.thread_id
WHERE slice.run_id = $run
GROUP BY
    slice.trace_id, slice.rank, slice.thread_id, slice.device, slice.stream, role,
    thread.name, tid
ORDER BY
    slice.rank, slice.trace_id, slice.device NULLS FIRST,
    array_position(['main', 'autograd', 'data_loading', 'other'], role),
    busy_ns DESC NULLS LAST, slice.thread_id, slice.stream
"""
_STEPS = """
SELECT trace_id, rank, step_id, step, start_ns + shift_ns AS start_ns, end_ns - start_ns
FROM graph.step_period
INNER JOIN graph.run_time USING (run_id, trace_id)
INNER JOIN staging.trace USING (run_id, trace_id)
WHERE run_id = $run AND end_ns > start_ns
ORDER BY ALL
"""
_SLICES = """
CREATE OR REPLACE TEMP TABLE report_slice AS
SELECT
    lane, track, depth, kind, slice.start_ns, time_ns, name, op, node_id,
    EXISTS (
        FROM close
        WHERE
            slice.start_ns < close.end_ns
            AND slice.start_ns + time_ns > close.start_ns
    ) AS is_close
FROM question.timeline AS slice
INNER JOIN report_lane AS lane
    ON
        slice.trace_id = lane.trace_id
        AND slice.thread_id IS NOT DISTINCT FROM lane.thread_id
        AND slice.device IS NOT DISTINCT FROM lane.device
        AND slice.stream IS NOT DISTINCT FROM lane.stream
WHERE run_id = $run
"""
_INTERVALS = """
CREATE OR REPLACE TEMP TABLE report_interval AS
SELECT
    CASE WHEN scope = 'run' THEN -1 ELSE interval.trace_id END AS row,
    coalesce(lane, -1) AS lane,
    interval.kind,
    CASE
        WHEN scope = 'run' THEN interval.start_ns - run_start_ns
        ELSE interval.start_ns + shift_ns
    END AS start_ns,
    interval.end_ns - interval.start_ns AS time_ns,
    coalesce(interval.name, '') AS name,
    coalesce(interval.op_name, '') AS op,
    interval.node_id
FROM critical_path.interval_op AS interval
INNER JOIN graph.run_time AS run_time USING (trace_id)
LEFT JOIN staging.gpu_op AS work ON interval.node_id = work.gpu_op_id
LEFT JOIN report_lane AS lane
    ON
        interval.trace_id = lane.trace_id
        AND interval.thread_id IS NOT DISTINCT FROM lane.thread_id
        AND CASE WHEN interval.thread_id IS NULL THEN work.device END
        IS NOT DISTINCT FROM lane.device
        AND CASE WHEN interval.thread_id IS NULL THEN work.stream END
        IS NOT DISTINCT FROM lane.stream
WHERE
    variant_id = 0
    AND run_time.run_id = $run
    AND (
        scope IN ('run', 'period')
        OR (
            scope = 'trace'
            AND interval.trace_id NOT IN (SELECT trace_id FROM staging.step)
        )
    )
"""


class Drawn(Protocol):
    """A lane: what the page shows of it."""

    @property
    def trace_id(self) -> int:
        """Its trace."""

    @property
    def rank(self) -> int | None:
        """Its rank, if several lanes have one."""

    @property
    def label(self) -> str:
        """Its label."""

    @property
    def is_open(self) -> bool:
        """Whether all of its rows are shown at first."""


class Lane(NamedTuple):
    """A host thread or a stream."""

    trace_id: int
    rank: int | None
    thread_id: int | None
    device: int | None
    stream: int | None
    role: str | None
    name: str
    tid: str | None
    is_open: bool = True

    @property
    def label(self) -> str:
        """Its label."""
        if self.thread_id is None:
            return f"GPU {self.device} stream {self.stream}"
        name = self.name.removeprefix("thread ").replace(f"{self.tid} ", "").strip("()")
        return " ".join(part for part in (self.role, self.tid, name) if part)


class Chosen(NamedTuple):
    """What a timeline shows: lanes, steps, and which of these have detail."""

    lanes: Sequence[Drawn]
    steps: Sequence[Step]
    close: Sequence[tuple[int, int, str]]
    """Begin, end and name of each step with detail."""
    hidden: Sequence[str]
    """Notes on what is left out."""


class Step(NamedTuple):
    """A step of a rank."""

    trace_id: int
    rank: int | None
    step_id: int
    step: int
    start_ns: int
    time_ns: int


def timeline(
    connection: duckdb.DuckDBPyConnection,
    run: int,
    most: int,
    traces: Container[int] | None = None,
) -> dict[str, Any]:
    """Lanes, slices, critical paths and steps of a run, as data for the page.

    With `traces`, only of these, from their own start on and without the path of the
    run. The places of the paths must be stored (`places.put`).
    """
    steps = [
        step
        for step in (Step(*row) for row in _rows(connection, _STEPS, run))
        if traces is None or step.trace_id in traces
    ]
    lanes, hidden = _lanes(connection, run, traces)
    close = close_steps(steps)
    _put(connection, lanes, close, run)
    if traces is not None:
        connection.execute("DELETE FROM report_interval WHERE row = -1")
        begin_ns = _moved_to_start(connection)
        steps = [step._replace(start_ns=step.start_ns - begin_ns) for step in steps]
        close = [(begin - begin_ns, end - begin_ns, name) for begin, end, name in close]
    return drawn(connection, Chosen(lanes, steps, close, hidden), most)


def _moved_to_start(connection: duckdb.DuckDBPyConnection) -> int:
    """[ns] Where the first slice began; now it begins at 0, and others likewise."""
    query = "SELECT coalesce(min(start_ns), 0) FROM report_slice"
    ((begin,),) = connection.execute(query).fetchall()
    for table in ("report_slice", "report_interval"):
        connection.execute(f"UPDATE {table} SET start_ns = start_ns - {begin}")
    return int(begin)


def drawn(
    connection: duckdb.DuckDBPyConnection, chosen: Chosen, most: int
) -> dict[str, Any]:
    """What the temporary tables have, merged to about so many slices."""
    names = Names()
    lanes, steps, close, hidden = chosen
    stretches = {
        is_close: _stretch(
            connection, "report_slice", f"is_close = {is_close}", int(most * share)
        )
        for is_close, share in ((True, _CLOSE_SHARE), (False, 1 - _CLOSE_SHARE))
    }
    path_stretch = _stretch(
        connection, "report_interval", "true", int(most * _PATH_SHARE)
    )
    content = {
        "lanes": [
            {
                "label": lane.label,
                "rank": lane.rank,
                "trace": lane.trace_id,
                "open": lane.is_open,
            }
            for lane in lanes
        ],
        "rows": _slices(connection, stretches, names),
        "paths": _paths(connection, path_stretch, lanes, names),
        "steps": _columns(steps, ("trace_id", "rank", "step", "start_ns", "time_ns")),
        "close": [[*step] for step in close],
        "lasts_ns": _lasts(connection),
        "notes": [*hidden, *_merged(connection, stretches, path_stretch, close)],
    }
    for table in ("report_slice", "report_interval", "report_lane", "close"):
        connection.execute(f"DROP TABLE IF EXISTS temp.{table}")
    return {**content, "names": names.all}


def _rows(
    connection: duckdb.DuckDBPyConnection, query: str, run: int
) -> list[tuple[Any, ...]]:
    return connection.execute(query, {"run": run}).fetchall()


def _lanes(
    connection: duckdb.DuckDBPyConnection, run: int, among: Container[int] | None
) -> tuple[list[Lane], list[str]]:
    """The lanes to show, and notes on those left out."""
    found = [
        lane
        for lane in (Lane(*row[:8]) for row in _rows(connection, _LANES, run))
        if among is None or lane.trace_id in among
    ]
    traces = list(dict.fromkeys(lane.trace_id for lane in found))
    kept = [lane for lane in found if lane.trace_id in traces[:MOST_RANKS]]
    notes = []
    if len(traces) > MOST_RANKS:
        notes.append(f"The first {MOST_RANKS} of {len(traces)} ranks are drawn.")
    if len(kept) > MOST_LANES:
        notes.append(f"The first {MOST_LANES} of {len(kept)} lanes are drawn.")
    return kept[:MOST_LANES], notes


def close_steps(steps: Sequence[Step]) -> list[tuple[int, int, str]]:
    """Begin and end over all ranks, and name, of the steps with detail."""
    spans: dict[int, tuple[int, int]] = {}
    for step in steps:
        begin, end = spans.get(step.step, (_LONGEST, -_LONGEST))
        until = step.start_ns + step.time_ns
        spans[step.step] = (min(begin, step.start_ns), max(end, until))
    ordered = sorted(spans, key=lambda step: spans[step][1] - spans[step][0])
    if not ordered:
        return [(-_LONGEST, _LONGEST, "all")]
    chosen = {ordered[(len(ordered) - 1) // 2], ordered[-1]}
    return [(*spans[step], str(step)) for step in sorted(chosen)]


def _put(
    connection: duckdb.DuckDBPyConnection,
    lanes: Sequence[Lane],
    close: Sequence[tuple[int, int, str]],
    run: int,
) -> None:
    """Store the slices and intervals of these lanes in temporary tables."""
    rows = [(number, *lane[:1], *lane[2:5]) for number, lane in enumerate(lanes)]
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE report_lane ("
        "lane INTEGER, trace_id BIGINT, thread_id BIGINT, device BIGINT, stream BIGINT)"
    )
    connection.executemany("INSERT INTO report_lane VALUES (?, ?, ?, ?, ?)", rows)
    put_close(connection, close)
    for query in (_SLICES, _INTERVALS):
        connection.execute(places.over(query), {"run": run})


def put_close(
    connection: duckdb.DuckDBPyConnection, close: Sequence[tuple[int, int, str]]
) -> None:
    """Store the steps with detail in a temporary table."""
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE close (start_ns BIGINT, end_ns BIGINT)"
    )
    connection.executemany(
        "INSERT INTO close VALUES (?, ?)", [step[:2] for step in close]
    )


def _stretch(
    connection: duckdb.DuckDBPyConnection, table: str, chosen: str, most: int
) -> int:
    """[ns] The shortest bin (a power of 2) that leaves about that many rows."""
    place = "lane, track, depth" if table == "report_slice" else "row"
    low, high = 0, 42
    while low < high:
        middle = (low + high) // 2
        ns = 2**middle
        query = (
            f"SELECT count(*) FILTER (time_ns >= {ns}) + approx_count_distinct("
            f"hash({place}, start_ns // {ns})) FILTER (time_ns < {ns}) "
            f"FROM {table} WHERE {chosen}"
        )
        ((count,),) = connection.execute(query).fetchall()
        low, high = (low, middle) if count <= most else (middle + 1, high)
    return int(2**low)


def _slices(
    connection: duckdb.DuckDBPyConnection, stretches: dict[bool, int], names: Names
) -> list[dict[str, Any]]:
    """The rows of lanes: slices of one track and depth, in order."""
    import polars as pl

    length = f"CASE WHEN is_close THEN {stretches[True]} ELSE {stretches[False]} END"
    frame = connection.sql(f"""
        SELECT
            lane, track, depth, min(start_ns) AS s,
            max(start_ns + time_ns) - min(start_ns) AS d,
            count(*) AS c, sum(time_ns)::BIGINT AS b, arg_max(name, longest) AS n,
            arg_max(kind, longest) AS k, arg_max(op, longest) AS o,
            arg_max(node_id, longest) AS i
        FROM (
            SELECT
                *, time_ns >= {length} AS is_long, {length} AS length,
                {_NAMING.format("node_id")} AS longest
            FROM report_slice
        )
        GROUP BY
            lane, track, depth, is_close, CASE WHEN is_long THEN node_id END,
            CASE WHEN NOT is_long THEN start_ns // length END
        ORDER BY
            lane, array_position(['range', 'module', 'host', 'gpu'], track), depth, s, d
    """).pl()
    keys = ["lane", "track", "depth"]
    rows = []
    for place, part in frame.group_by(keys, maintain_order=True):
        row = dict(zip(keys, place, strict=True)) | _packed(
            part, names, ("n", "k", "o")
        )
        if part["c"].max() == 1:
            del row["c"], row["b"]
        else:
            row["b"] = part.select(pl.when(pl.col("c") > 1).then("b").otherwise(0))[
                "b"
            ].to_list()
        if not any(row["o"]):
            del row["o"]
        rows.append(row)
    return rows


def _packed(
    part: pl.DataFrame, names: Names, texts: Iterable[str]
) -> dict[str, list[int]]:
    """Columns as lists of numbers: begins as differences, texts as numbers."""
    packed = {
        column: part[column].to_list() for column in part.columns if len(column) == 1
    }
    for column in texts:
        packed[column] = [names.number(text) for text in packed[column]]
    begins = part["s"]
    packed["s"] = begins.diff().fill_null(begins.first()).to_list()
    return packed


def _paths(
    connection: duckdb.DuckDBPyConnection,
    stretch: int,
    lanes: Sequence[Drawn],
    names: Names,
) -> list[dict[str, Any]]:
    """The critical path of each rank, and of the run: intervals in order."""
    frame = connection.sql(f"""
        SELECT
            row, min(start_ns) AS s,
            max(start_ns + time_ns) - min(start_ns) AS d, count(*) AS c,
            arg_max(lane, longest) AS l, arg_max(kind, longest) AS k,
            arg_max(name, longest) AS n, arg_max(op, longest) AS o,
            arg_max(node_id, longest) AS i
        FROM (
            SELECT *, {_NAMING.format("start_ns")} AS longest FROM report_interval
        )
        GROUP BY
            row, CASE WHEN time_ns >= {stretch} THEN start_ns END,
            CASE WHEN time_ns < {stretch} THEN start_ns // {stretch} END
        ORDER BY row, s, d
    """).pl()
    ranks = {lane.trace_id: lane.rank for lane in lanes}
    paths = []
    for (row,), part in frame.group_by("row", maintain_order=True):
        if row == -1 or row in ranks:
            place = {"trace": row, "rank": ranks.get(row)}
            paths.append(place | _packed(part, names, ("n", "k", "o")))
    return paths


def _merged(
    connection: duckdb.DuckDBPyConnection,
    stretches: dict[bool, int],
    path_stretch: int,
    close: Sequence[tuple[int, int, str]],
) -> list[str]:
    """Notes on merged slices."""
    notes = []
    where = " and ".join(name for _, _, name in close)
    for is_close, place in ((True, f"In step {where}"), (False, "Elsewhere")):
        query = (
            f"SELECT count(*) FROM report_slice WHERE is_close = {is_close} "
            f"AND time_ns < {stretches[is_close]}"
        )
        ((count,),) = connection.execute(query).fetchall()
        if count and stretches[is_close] > 1:
            before = "" if where == "all" else f"{place}, "
            notes.append(
                f"{before}{count:,} slices shorter than "
                f"{duration(stretches[is_close])} are merged with their neighbors."
            )
    if path_stretch > 1:
        notes.append(
            f"Intervals of the critical path shorter than {duration(path_stretch)} are "
            "merged."
        )
    return notes


def _lasts(connection: duckdb.DuckDBPyConnection) -> int:
    """[ns] From the first begin of a slice to the last end."""
    query = "SELECT max(start_ns + time_ns) - min(start_ns) FROM report_slice"
    ((lasts,),) = connection.execute(query).fetchall()
    return int(lasts or 0)


def _columns(rows: Sequence[Step], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: [getattr(row, name) for row in rows] for name in names}
