"""What the simulation reads, as a graph that networkx finds the longest path of.

A node is the end of a span of host time or of GPU work, node 0 the origin of the
trace. Its begin needs no node: it is the end of what comes before, plus a delay. So the
length of the longest path is the end of what ends last in the simulation, to the
nanosecond.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb
    import polars as pl
    from measure import Clock

METHOD = "replay"

_EDGES = f"""
WITH
numbered AS (
    SELECT *, row_number() OVER (ORDER BY thread_id, position) AS node
    FROM prediction.host_time
    INNER JOIN prediction.variant USING (variant_id)
    WHERE method = '{METHOD}'
),

-- A span begins where the one before it on its thread ends.
span AS (
    SELECT
        *,
        coalesce(lag(node) OVER (PARTITION BY thread_id ORDER BY position), 0)
        AS begin_node
    FROM numbered
),

origin AS (SELECT min(start_ns) AS origin_ns FROM overhead.timeline),

-- GPU work, with the span of host time that its launch begins in.
work AS (
    SELECT
        place.*,
        time.* EXCLUDE (run_id, trace_id, gpu_op_id, variant_id),
        timeline.position AS span_position,
        (SELECT count(*) FROM span)
        + row_number() OVER (ORDER BY device, stream, place.position) AS node
    FROM graph.stream_position AS place
    INNER JOIN prediction.gpu_time AS time
        ON place.gpu_op_id = time.gpu_op_id
    INNER JOIN prediction.variant
        ON time.variant_id = variant.variant_id AND method = '{METHOD}'
    ASOF LEFT JOIN overhead.timeline
        ON
            place.launch_thread_id = timeline.thread_id
            AND place.launch_start_ns >= timeline.start_ns
),

edge (source, target, weight_ns) AS (
    SELECT begin_node, node, predicted_ns FROM span
    UNION ALL
    SELECT work.node, span.node, span.delay_ns
    FROM span
    INNER JOIN overhead.timeline USING (thread_id, position)
    INNER JOIN graph.host_awaited AS awaited USING (call_id)
    INNER JOIN work ON awaited.gpu_op_id = work.gpu_op_id
    WHERE span.awaited_gpu_op_id IS NOT NULL
    UNION ALL
    SELECT awaited.node, span.node, span.delay_ns
    FROM span
    INNER JOIN span AS awaited
        ON
            span.awaited_thread_id = awaited.thread_id
            AND span.awaited_position = awaited.position
    UNION ALL
    SELECT begin_node, work.node, launch_delay_ns + work.predicted_ns
    FROM work
    INNER JOIN span
        ON
            work.launch_thread_id = span.thread_id
            AND work.span_position = span.position
    UNION ALL
    SELECT 0, node, start_ns - origin_ns + predicted_ns
    FROM work CROSS JOIN origin
    WHERE span_position IS NULL
    UNION ALL
    SELECT previous.node, work.node, work.stream_delay_ns + work.predicted_ns
    FROM work
    INNER JOIN work AS previous ON work.previous_gpu_op_id = previous.gpu_op_id
    UNION ALL
    SELECT source.node, work.node, awaited.delay_ns + work.kept_ns + work.predicted_ns
    FROM work
    INNER JOIN prediction.gpu_awaited AS awaited ON work.gpu_op_id = awaited.gpu_op_id
    INNER JOIN work AS source ON awaited.awaited_gpu_op_id = source.gpu_op_id
    WHERE work.awaited_gpu_op_id IS NOT NULL
)

SELECT source, target, max(weight_ns) AS weight_ns
FROM edge
GROUP BY source, target
ORDER BY target, source
"""

_SIMULATED_END = f"""
SELECT max(end_ns)
FROM (
    SELECT variant_id, end_ns FROM simulation.host_span_time
    UNION ALL
    SELECT variant_id, end_ns FROM simulation.gpu_work_time
)
INNER JOIN prediction.variant USING (variant_id)
WHERE method = '{METHOD}'
"""


def edges(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Source, target and weight of each edge of the only trace."""
    found: pl.DataFrame = connection.sql(_EDGES).pl()
    return found


def simulated_end_ns(connection: duckdb.DuckDBPyConnection) -> int:
    """When the last span or GPU op ends in tracedb's simulation."""
    [(end_ns,)] = connection.execute(_SIMULATED_END).fetchall()
    return int(end_ns)


def longest_path_ns(path: Path, building: Clock, searching: Clock) -> int:
    """Let networkx find the longest path, from edges in a NumPy file."""
    networkx, numpy = import_module("networkx"), import_module("numpy")
    rows = numpy.load(path).tolist()
    with building:
        graph = networkx.DiGraph()
        graph.add_weighted_edges_from(rows)
    with searching:
        return int(networkx.dag_longest_path_length(graph))
