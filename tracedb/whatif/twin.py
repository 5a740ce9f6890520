"""Simulate step times of many scenarios at once, with arrays.

Scenarios that change only durations share the dependencies of their method's baseline:
the segments of `simulation.host_offset` and `gpu_offset`, and the edges between them.
These are read once, with the durations that each scenario changes; the rest are sums
and running maxima, with a row per scenario. The results equal those of SQL, to the
nanosecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracedb.duck import registered
from tracedb.errors import ScenarioError
from tracedb.whatif.action import RULES, action_of
from tracedb.whatif.twin_graph import Changes, Graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from tracedb.whatif.scenario import Edit
    from tracedb.whatif.twin_graph import Columns, Numbers, Periods

RESULT = "critical_path.step_period"
"""The relation with the step times of all variants."""

_CELLS = 2**24
"""Nodes times scenarios that are read at once."""

_VARIANTS = """
SELECT variant.variant_id, base.variant_id
FROM prediction.variant
INNER JOIN prediction.variant AS base USING (method)
WHERE
    list_contains($scenarios::VARCHAR[], variant.scenario)
    AND base.scenario = 'baseline'
    AND variant.is_simulated
ORDER BY variant.variant_id
"""
# Segments, spans and GPU work of the baseline, by number: their index in arrays. What
# waits in a cycle has no time in the baseline, nor in a scenario.
_SEGMENTS = """
CREATE OR REPLACE TEMP TABLE twin_segment AS
SELECT
    row_number() OVER (ORDER BY trace_id, lane, segment) - 1 AS number,
    trace_id,
    lane,
    segment
FROM simulation.segment_time
WHERE variant_id = $base
"""
_SPANS = """
CREATE OR REPLACE TEMP TABLE twin_span AS
SELECT
    row_number() OVER (ORDER BY thread_id, position) - 1 AS number,
    thread_id,
    position,
    begun.number AS segment,
    CASE WHEN host.waits THEN ended.number ELSE begun.number END AS end_segment,
    host.waits,
    CASE WHEN is_blocked THEN 0 ELSE time.kept_ns END AS kept_ns,
    time.predicted_ns - CASE WHEN is_blocked THEN 0 ELSE time.kept_ns END AS own_ns
FROM prediction.host_time AS time
INNER JOIN simulation.host_offset AS host USING (variant_id, thread_id, position)
INNER JOIN prediction.host_own USING (thread_id, position)
INNER JOIN twin_segment AS begun
    ON thread_id = begun.lane AND host.segment = begun.segment
LEFT JOIN twin_segment AS ended
    ON thread_id = ended.lane AND host.segment + 1 = ended.segment
WHERE variant_id = $base
"""
_WORK = """
CREATE OR REPLACE TEMP TABLE twin_work AS
SELECT
    row_number() OVER (ORDER BY work.lane, placement.position) - 1 AS number,
    work.gpu_op_id,
    work.trace_id,
    stream.number AS segment,
    host.number AS host_segment,
    coalesce(span.number, -1) AS span,
    CASE
        WHEN span.number IS NULL THEN placement.start_ns
        ELSE launch_delay_ns - time.submit_ns
    END AS ready_ns,
    CASE WHEN span.number IS NULL THEN 0 ELSE coalesce(launch.submit_ns, 0) END
    AS submit_ns,
    is_first,
    CASE WHEN is_first THEN 0 ELSE work.stream_delay_ns END AS stream_delay_ns,
    work.predicted_ns
FROM simulation.gpu_offset AS work
INNER JOIN prediction.gpu_time AS time USING (variant_id, gpu_op_id)
INNER JOIN simulation.gpu_placement AS placement USING (gpu_op_id)
INNER JOIN graph.stream_position USING (gpu_op_id)
LEFT JOIN graph.launch_submission AS launch USING (call_id)
LEFT JOIN twin_segment AS stream
    ON work.lane = stream.lane AND work.segment = stream.segment
LEFT JOIN twin_segment AS host
    ON
        work.trace_id = host.trace_id
        AND host_lane = host.lane
        AND host_segment = host.segment
LEFT JOIN twin_span AS span
    ON
        placement.launch_thread_id = span.thread_id
        AND placement.launch_position = span.position
WHERE variant_id = $base
"""
# The segments after which work ends, as in `simulation.work_end`; a collective ends
# after the segments of all its ranks.
_TERMS = """
CREATE OR REPLACE TEMP TABLE twin_term AS
WITH
part AS (
    SELECT own.number AS work, own.number AS part, 0 AS later_ns
    FROM twin_work AS own
    ANTI JOIN graph.collective ON gpu_op_id = node_id
    UNION ALL
    SELECT
        own.number,
        part.number,
        part_origin.run_origin_ns - own_origin.run_origin_ns
    FROM twin_work AS own
    INNER JOIN graph.collective AS own_collective
        ON own.gpu_op_id = own_collective.node_id
    INNER JOIN graph.collective AS part_collective
        ON
            own_collective.last_node_id = part_collective.last_node_id
            AND (NOT own_collective.is_eager OR own.gpu_op_id = part_collective.node_id)
    INNER JOIN twin_work AS part ON part_collective.node_id = part.gpu_op_id
    INNER JOIN simulation.origin AS own_origin ON own.trace_id = own_origin.trace_id
    INNER JOIN simulation.origin AS part_origin ON part.trace_id = part_origin.trace_id
)

SELECT
    work,
    part,
    later_ns,
    is_host,
    CASE WHEN is_host THEN host_segment ELSE segment END AS source
FROM part
INNER JOIN twin_work ON part = number
CROSS JOIN (VALUES (false), (true)) AS known (is_host)
WHERE source IS NOT NULL
"""
# Edges between segments, as in `simulation.segment_edge`: after host time (from the end
# of a span, or without a span from the begin of the source), and after GPU work. The
# time between another thread's work and what needs it (a span) is edited with that.
_HOST_EDGES = """
CREATE OR REPLACE TEMP TABLE twin_host_edge AS
SELECT row_number() OVER () - 1 AS number, *
FROM (
    SELECT
        origin.number AS source,
        target.number AS target,
        -1 AS span,
        0 AS delay_ns,
        NULL AS thread_id,
        NULL AS position
    FROM twin_segment AS target
    INNER JOIN twin_segment AS origin USING (trace_id)
    WHERE target.segment = 0 AND target.lane <> 0 AND origin.lane = 0
    UNION ALL
    SELECT segment, end_segment, number, 0, NULL, NULL
    FROM twin_span
    WHERE waits AND end_segment IS NOT NULL
    UNION ALL
    SELECT
        awaited.end_segment,
        waiting.end_segment,
        CASE WHEN awaited.waits THEN -1 ELSE awaited.number END,
        other.delay_ns,
        CASE WHEN is_ready THEN other.thread_id END,
        CASE WHEN is_ready THEN other.position END
    FROM prediction.awaited_thread AS other
    INNER JOIN prediction.host_own USING (thread_id, position)
    INNER JOIN twin_span AS waiting USING (thread_id, position)
    INNER JOIN twin_span AS awaited
        ON
            other.awaited_thread_id = awaited.thread_id
            AND other.awaited_position = awaited.position
    WHERE variant_id = $base AND waiting.waits AND waiting.end_segment IS NOT NULL
    UNION ALL
    SELECT
        CASE WHEN is_woken THEN arrived.end_segment ELSE arrived.segment END,
        host.end_segment,
        CASE WHEN is_woken THEN -1 ELSE arrived.number END,
        arrival_origin.run_origin_ns - origin.run_origin_ns,
        NULL,
        NULL
    FROM simulation.meeting_wait AS meeting
    INNER JOIN twin_span AS host USING (thread_id, position)
    INNER JOIN simulation.rank_arrival AS arrival
        ON
            meeting.variant_id = arrival.variant_id
            AND meeting.last_op_id = arrival.last_op_id
            AND meeting.op_id <> arrival.op_id
    INNER JOIN twin_span AS arrived
        ON arrival.thread_id = arrived.thread_id AND arrival.position = arrived.position
    INNER JOIN simulation.origin AS origin ON meeting.trace_id = origin.trace_id
    INNER JOIN simulation.origin AS arrival_origin
        ON arrival.trace_id = arrival_origin.trace_id
    WHERE meeting.variant_id = $base AND host.end_segment IS NOT NULL
)
"""
_WORK_EDGES = """
SELECT
    source,
    target.number AS target,
    work,
    part,
    is_host,
    later_ns + delay_ns AS later_ns
FROM simulation.awaited_work AS awaited
INNER JOIN twin_segment AS target
    ON target_lane = target.lane AND target_segment = target.segment
INNER JOIN twin_work AS own ON awaited.gpu_op_id = own.gpu_op_id
INNER JOIN twin_term ON own.number = work
WHERE variant_id = $base
"""
# Steps in the order of their threads, and the GPU work of each.
_STEPS = """
CREATE OR REPLACE TEMP TABLE twin_step AS
SELECT
    row_number() OVER (ORDER BY step.thread_id, step.start_ns, step_id) - 1 AS number,
    step_id,
    step.run_id,
    step.trace_id,
    step.thread_id,
    first.number AS first_span,
    last.number AS last_span
FROM simulation.step_span AS bound
INNER JOIN staging.step AS step USING (step_id)
INNER JOIN twin_span AS first
    ON bound.thread_id = first.thread_id AND first_position = first.position
INNER JOIN twin_span AS last
    ON bound.thread_id = last.thread_id AND last_position = last.position
WHERE first.end_segment IS NOT NULL AND last.end_segment IS NOT NULL
"""
_STEP_WORK = """
SELECT step.number AS step, source, work, part, is_host, later_ns
FROM staging.step_work
INNER JOIN twin_step AS step USING (step_id)
INNER JOIN twin_work AS own USING (gpu_op_id)
INNER JOIN twin_term ON own.number = work
ORDER BY step, source
"""
# The spans (the n-th of a launch) that pass before work is submitted, and the share of
# them, as in `prediction.submitted_later_ns`.
_SUBMISSIONS = """
SELECT
    work.number AS work,
    span.number AS span,
    row_number() OVER (PARTITION BY work.number ORDER BY span.position) AS ordinal,
    span_ns,
    submit_share
FROM twin_work AS work
INNER JOIN graph.stream_position USING (gpu_op_id)
INNER JOIN prediction.launch_span AS launch USING (call_id)
INNER JOIN twin_span AS span
    ON launch.thread_id = span.thread_id AND launch.position = span.position
WHERE submit_share > 0
ORDER BY ordinal, work
"""
_TABLES = (_SEGMENTS, _SPANS, _WORK, _TERMS, _HOST_EDGES, _STEPS)
_COLUMNS = {
    "segment": "SELECT count(*) AS count FROM twin_segment",
    "span": "SELECT segment, coalesce(end_segment, -1) AS end_segment, waits, "
    "own_ns + kept_ns AS predicted_ns FROM twin_span ORDER BY number",
    "work": "SELECT is_first, span, ready_ns, submit_ns, stream_delay_ns, predicted_ns "
    "FROM twin_work ORDER BY number",
    "step": "SELECT * EXCLUDE (number) FROM twin_step ORDER BY number",
    "host_edge": "SELECT source, target, span, delay_ns FROM twin_host_edge "
    "ORDER BY number",
    "work_edge": _WORK_EDGES,
    "step_work": _STEP_WORK,
    "submission": _SUBMISSIONS,
}
# The durations that scenarios change, as in `prediction.host_time` and `gpu_time`.
_CHANGES = {
    "span": """
SELECT
    variant_id,
    number,
    prediction.edited_ns(own_ns, set_ns, factor, add_ns) + kept_ns AS lasting_ns
FROM prediction.host_edit
INNER JOIN twin_span USING (thread_id, position)
WHERE variant_id BETWEEN $first AND $last
""",
    "work": """
SELECT
    variant_id,
    number,
    prediction.edited_ns(predicted_ns, set_ns, factor, add_ns) AS lasting_ns
FROM prediction.gpu_edit
INNER JOIN twin_work USING (gpu_op_id)
WHERE variant_id BETWEEN $first AND $last
""",
    "delay": """
SELECT
    variant_id,
    number,
    prediction.edited_ns(delay_ns, set_ns, factor, add_ns) AS lasting_ns
FROM prediction.host_edit
INNER JOIN twin_host_edge USING (thread_id, position)
WHERE variant_id BETWEEN $first AND $last
""",
}


def only_times(edits: Sequence[Edit]) -> list[str]:
    """The scenarios that change only durations."""
    found: dict[str, bool] = {}
    for edit in edits:
        is_one = edit.target in RULES[action_of(edit)].times
        found[edit.scenario] = found.get(edit.scenario, True) and is_one
    return [scenario for scenario, is_one in found.items() if is_one]


def variants(
    connection: duckdb.DuckDBPyConnection, scenarios: Sequence[str]
) -> dict[int, list[int]]:
    """The variants of some scenarios, by the baseline of their method."""
    found: dict[int, list[int]] = {}
    rows = connection.execute(_VARIANTS, {"scenarios": [*scenarios]}).fetchall()
    for variant, base in rows:
        found.setdefault(int(base), []).append(int(variant))
    return found


def evaluate(connection: duckdb.DuckDBPyConnection, base: int, of: list[int]) -> None:
    """Store the step times of some variants of a baseline.

    Raises `ScenarioError` if the times of a scenario add up to more than a century.
    """
    columns = _read(connection, base)
    graph = Graph(columns)
    size = max(_CELLS // (graph.nodes + 1), 1)
    for first in range(0, len(of), size):
        chunk = of[first : first + size]
        spans, work, delays = (_changes(connection, name, chunk) for name in _CHANGES)
        try:
            periods = graph.periods(spans, work, delays, len(chunk))
        except OverflowError as error:
            raise ScenarioError(
                "the times of a scenario add up to more than a century"
            ) from error
        _store(connection, columns["step"], chunk, periods)


def _read(connection: duckdb.DuckDBPyConnection, base: int) -> dict[str, Columns]:
    """The arrays of a baseline."""
    for query in _TABLES:
        connection.execute(query, _values(query, base=base))
    return {
        name: _columns(connection, query, base=base) for name, query in _COLUMNS.items()
    }


def _columns(
    connection: duckdb.DuckDBPyConnection, query: str, **values: int
) -> Columns:
    """The columns of a query, which must not contain NULL."""
    rows = connection.sql(query, params=_values(query, **values))
    table = rows.to_arrow_table()
    return {name: table[name].to_numpy() for name in table.column_names}


def _values(query: str, **values: int) -> dict[str, int] | None:
    """The values that a query has parameters for."""
    named = {name: value for name, value in values.items() if f"${name}" in query}
    return named or None


def _changes(
    connection: duckdb.DuckDBPyConnection, name: str, chunk: list[int]
) -> Changes:
    """The durations that some variants change."""
    query = _CHANGES[name]
    found = _columns(connection, query, first=chunk[0], last=chunk[-1])
    # There may be others between the first and the last.
    among = np.flatnonzero(np.isin(found["variant_id"], chunk))
    order = among[np.argsort(found["variant_id"][among], kind="stable")]
    row = np.searchsorted(chunk, found["variant_id"][order])
    return Changes(row, found["number"][order], found["lasting_ns"][order])


def _store(
    connection: duckdb.DuckDBPyConnection,
    steps: Columns,
    chunk: list[int],
    periods: Periods,
) -> None:
    """Add the rows of some variants to the relation of periods."""
    count = len(steps["step_id"])

    def each(name: str) -> Numbers:
        return np.tile(steps[name], len(chunk))

    columns = {
        "variant_id": np.repeat(chunk, count),
        "run_id": each("run_id"),
        "trace_id": each("trace_id"),
        "step_id": each("step_id"),
        "host_start_ns": periods.host_start.T.ravel(),
        "host_end_ns": periods.host_end.T.ravel(),
        "gpu_end_ns": pa.array(
            periods.gpu_end.T.ravel(), mask=~np.tile(periods.has_work, len(chunk))
        ),
        "last_gpu_op_id": pa.nulls(count * len(chunk), pa.int64()),
        "start_ns": periods.start.T.ravel(),
        "end_ns": periods.done.T.ravel(),
    }
    with registered(connection, "twin_period", pa.table(columns)):
        connection.execute(f"INSERT INTO {RESULT} BY NAME FROM twin_period")
