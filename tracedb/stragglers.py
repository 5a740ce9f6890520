"""Simulate the steps of a job whose ranks log operations, for many scenarios at once.

SQL gives the durations of operations (`prediction.operation_time`), their dependencies
(`graph.operation_edge`), and which of them keep their own time in a scenario
(`prediction.straggler_scenario`, `straggler_kept`). This module evaluates them in
(max, +), with a column per scenario: an operation begins when all its predecessors are
over, and ends its duration after the last of its peers has begun.

`simulation.segment_time` evaluates such edges as well, at 20 us each. But a job of
100,000 operations has 200,000 edges and, with 32 data-parallel ranks, 50 scenarios; and
most operations wait for another rank, so segments would not reduce the edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracedb.duck import registered
from tracedb.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb
    import polars as pl
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

__all__ = [
    "CIRCLE",
    "OTHER_STEPS",
    "CircleError",
    "OperationGraph",
    "levels",
    "starts",
    "store",
]

_RUNS = """
SELECT DISTINCT run_id
FROM staging.operation
WHERE run_id IN (SELECT run_id FROM raw.trace WHERE list_contains($traces, trace_id))
ORDER BY run_id
"""
_DROP = """
DELETE FROM reference.straggler_time
WHERE
    run_id NOT IN (SELECT run_id FROM raw.trace)
    OR run_id IN (SELECT run_id FROM raw.trace WHERE list_contains($traces, trace_id))
"""
_OPERATIONS = """
SELECT
    operation_id, step, op_type, dp_rank, stage, own_ns, ideal_ns, ends_step,
    coalesce(group_id, operation_id) AS group_id
FROM prediction.operation_time
WHERE run_id = $run_id
ORDER BY operation_id
"""
_EDGES = """
SELECT source_operation_id AS source, operation_id AS target
FROM graph.operation_edge
WHERE run_id = $run_id
"""
_SCENARIOS = """
SELECT scope, name
FROM prediction.straggler_scenario
ANTI JOIN reference.straggler_time USING (run_id, scope, name)
WHERE run_id = $run_id
ORDER BY ALL
"""
_KEPT = """
SELECT scope, name, op_type, dp_rank, stage
FROM prediction.straggler_kept
WHERE run_id = $run_id
"""
_TWICE = """
SELECT raw.run.name, step, dp_rank, stage
FROM staging.operation
INNER JOIN raw.run USING (run_id)
WHERE run_id = $run_id
GROUP BY ALL
HAVING min(trace_id) < max(trace_id)
ORDER BY ALL
LIMIT 1
"""
_OTHER_STEPS = """
INSERT INTO raw.ingest_issue
SELECT
    min(trace_id), $kind, count(DISTINCT step), NULL,
    $kind || ' (' || count(DISTINCT step) || ' of them)'
FROM staging.operation
INNER JOIN graph.pipeline_step USING (run_id, step)
WHERE run_id = $run_id AND NOT is_alike
HAVING count(*) > 0
"""
_ISSUE = """
INSERT INTO raw.ingest_issue
SELECT min(trace_id), $kind, 1, NULL, $kind
FROM staging.operation
WHERE run_id = $run_id
"""
_DROP_ISSUES = """
DELETE FROM raw.ingest_issue
WHERE
    list_contains($kinds, kind)
    AND trace_id IN (
        SELECT other.trace_id
        FROM raw.trace
        INNER JOIN raw.trace AS other USING (run_id)
        WHERE list_contains($traces, raw.trace.trace_id)
    )
"""
CIRCLE = "not analyzed for stragglers: operations that wait for each other in a cycle"
OTHER_STEPS = "not analyzed for stragglers: steps that lack operations of most steps"
_CHOICES = ("op_type", "dp_rank", "stage")
_MOST_TIMES = 1 << 24
"""Operations times scenarios that are held in memory at once."""


def store(connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int]) -> None:
    """Recompute `reference.straggler_time` for the runs of some traces.

    Raises `IngestError` if two traces of a run have the same step of a worker.
    """
    traces = {"traces": [*trace_ids]}
    connection.execute(_DROP, traces)
    connection.execute(_DROP_ISSUES, traces | {"kinds": [CIRCLE, OTHER_STEPS]})
    for (run_id,) in connection.execute(_RUNS, traces).fetchall():
        run = {"run_id": run_id}
        _refuse_twice(connection, run)
        connection.execute(_OTHER_STEPS, run | {"kind": OTHER_STEPS})
        _store(connection, run)


def _refuse_twice(connection: duckdb.DuckDBPyConnection, run: dict[str, int]) -> None:
    for name, step, dp_rank, stage in connection.execute(_TWICE, run).fetchall():
        raise IngestError(
            f"run '{name}': step {step} of data-parallel rank {dp_rank}, stage {stage} "
            "is in two files; ingest these as two runs (`--run`)"
        )


def _store(connection: duckdb.DuckDBPyConnection, run: dict[str, int]) -> None:
    operations = connection.sql(_OPERATIONS, params=run).pl()
    if not operations["ends_step"].any():
        return  # part of a log, without a whole step
    edges = connection.sql(_EDGES, params=run).pl()
    try:
        graph = OperationGraph(
            *(operations[name].to_numpy() for name in ("operation_id", "group_id")),
            *(edges[name].to_numpy() for name in ("source", "target")),
        )
    except CircleError:
        connection.execute(_ISSUE, {**run, "kind": CIRCLE})
        return
    # Some scenarios depend on the times of others, and appear after these.
    while scenarios := connection.execute(_SCENARIOS, run).fetchall():
        kept = connection.sql(_KEPT, params=run).pl()
        for rows in _times(graph, operations, kept, scenarios):
            with registered(connection, "simulated", rows):
                connection.execute(
                    "INSERT INTO reference.straggler_time BY NAME "
                    "SELECT $run_id AS run_id, * FROM simulated",
                    run,
                )


def _times(
    graph: OperationGraph,
    operations: pl.DataFrame,
    kept: pl.DataFrame,
    scenarios: list[tuple[str, str]],
) -> Iterator[pl.DataFrame]:
    """Scope, name, step and time of scenarios, in batches that fit in memory."""
    import polars as pl

    own, ideal, step, ends_step = (
        operations[name].to_numpy()[:, None]
        for name in ("own_ns", "ideal_ns", "step", "ends_step")
    )
    # Operations that end steps, those of each step together.
    last = np.flatnonzero(ends_step)
    last = last[np.argsort(step[last, 0], kind="stable")]
    bounds = starts(step[last, 0])
    steps = step[last[bounds[:-1]], 0]
    at_once = max(_MOST_TIMES // len(operations), 1)
    for first in range(0, len(scenarios), at_once):
        part = scenarios[first : first + at_once]
        keeps = np.column_stack([_keeps(operations, kept, *one) for one in part])
        ends = graph.ends(np.where(keeps, own, ideal))
        latest = np.maximum.reduceat(ends[last], bounds[:-1])
        for (scope, name), times in zip(part, latest.T, strict=True):
            rows = {"step": steps, "simulated_ns": times}
            yield pl.DataFrame(rows).with_columns(
                scope=pl.lit(scope), name=pl.lit(name)
            )


def _keeps(
    operations: pl.DataFrame, kept: pl.DataFrame, scope: str, name: str
) -> NDArray[np.bool_]:
    """Which operations keep their own time in a scenario."""
    keeps = np.zeros(len(operations), np.bool_)
    rows = kept.filter(scope=scope, name=name)
    for choice in rows.select(_CHOICES).iter_rows(named=True):
        agrees = np.ones(len(operations), np.bool_)
        for column, value in choice.items():
            if value is not None:
                agrees &= operations[column].to_numpy() == value
        keeps |= agrees
    return keeps


class CircleError(Exception):
    """Operations wait for each other in a cycle."""


class OperationGraph:
    """Operations, their groups of peers, and their dependencies."""

    def __init__(
        self, operation: Numbers, group: Numbers, source: Numbers, target: Numbers
    ) -> None:
        """Take ascending numbers of operations, their groups, and edges between them.

        Raises `CircleError` for a cycle.
        """
        _, node = np.unique(group, return_inverse=True)
        source = np.searchsorted(operation, source)
        target = np.searchsorted(operation, target)
        level = levels(node[source], node[target], int(node.max(initial=-1)) + 1)
        # Topological order, in which the members of a group are adjacent.
        self._order = np.lexsort((node, level[node]))
        count = len(operation)
        position = np.empty(count, np.int64)
        position[self._order] = np.arange(count)
        # All operations also follow a virtual one that ends at 0: the last row.
        source = np.concatenate([np.full(count, count), position[source]])
        target = np.concatenate([np.arange(count), position[target]])
        by_target = np.argsort(target, kind="stable")
        self._source = source[by_target]
        self._first_edge = np.searchsorted(target[by_target], np.arange(count + 1))
        self._node = node[self._order]
        self._bounds = starts(level[self._node])

    def ends(self, times: Numbers) -> Numbers:
        """[ns] The ends of operations with these durations; a column per scenario."""
        times = times[self._order]
        ends = np.zeros((len(times) + 1, times.shape[1]), np.int64)
        for first, after in zip(self._bounds[:-1], self._bounds[1:], strict=True):
            edges = self._first_edge[first : after + 1]
            waited = ends[self._source[edges[0] : edges[-1]]]
            begins = np.maximum.reduceat(waited, edges[:-1] - edges[0])
            peers = starts(self._node[first:after])
            latest = np.maximum.reduceat(begins, peers[:-1])
            latest = np.repeat(latest, np.diff(peers), axis=0)
            ends[first:after] = latest + times[first:after]
        result = np.empty_like(times)
        result[self._order] = ends[:-1]
        return result


def starts(values: NDArray[Any]) -> Numbers:
    """The bounds of runs of equal values, including 0 and the length."""
    inner = np.flatnonzero(np.diff(values)) + 1
    return np.concatenate([[0], inner, [len(values)]]).astype(np.int64)


def levels(source: Numbers, target: Numbers, count: int) -> Numbers:
    """The length of the longest path to each node.

    Raises `CircleError` for a cycle.
    """
    by_source = np.argsort(source, kind="stable")
    first = np.searchsorted(source[by_source], np.arange(count + 1))
    target = target[by_source]
    missing = np.bincount(target, minlength=count)
    level = np.full(count, -1, np.int64)
    known, depth = np.flatnonzero(missing == 0), 0
    while len(known):
        level[known] = depth
        successors = target[_ranges(first[known], first[known + 1])]
        np.subtract.at(missing, successors, 1)
        known, depth = np.unique(successors[missing[successors] == 0]), depth + 1
    if (level < 0).any():
        raise CircleError
    return level


def _ranges(first: Numbers, after: Numbers) -> Numbers:
    """The concatenated numbers of all ranges."""
    lengths = after - first
    before = np.cumsum(lengths) - lengths
    numbers: Numbers = np.arange(lengths.sum()) + np.repeat(first - before, lengths)
    return numbers
