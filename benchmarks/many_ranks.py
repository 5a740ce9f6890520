"""What a lake keeps of a job of thousands of ranks, made without any trace.

Ranks are tensor-parallel in groups of 8, stages of a pipeline in groups of 8, and
data-parallel beyond: of 20 collectives 18 are of the first kind, one of each other. One
rank is slow. Times follow from the segments by a plain loop over collectives, in which
each group begins when its last rank has arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import polars as pl

import tracedb
from tracedb import lake
from tracedb.lake import packing
from tracedb.lake.worker import contracted, contraction, fingerprint

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

TENSOR, STAGES = 8, 8
STEPS = 10
_KINDS = {9: 1, 19: 2}
"""Of 20 collectives, those not within a tensor-parallel group."""
SLOW_SHARE = 1.3
_PARTS = 1 << 20
"""Ids reserved per trace, as in `tracedb.lake.manifest.EVENTS`."""


def entry(
    number: int, run: tuple[str, int], rank: int, source: str, partition: str
) -> lake.Entry:
    """A manifest entry for a trace of which the lake has few rows.

    The run is given by its name and number.
    """
    return lake.Entry(
        *(number, *run, rank, "kineto"),
        source=source,
        sha256=f"{number:064}",
        event_count=0,
        partition=partition,
        fingerprint=fingerprint(),
        written_ns=number,
        files={packing.FLEET: tuple(one.full_name for one in contracted())},
    )


@dataclass(frozen=True)
class ManyRanks:
    """A job with many ranks and collectives, one rank of which is slow."""

    ranks: int
    collectives: int
    slow: int
    seed: int = 0

    def fill(self, connection: duckdb.DuckDBPyConnection) -> int:
        """Fill the tables that a lake has; returns the duration of the job."""
        start, end, group, number = self._times()
        ranks, count = start.shape
        trace = np.repeat(np.arange(1, ranks + 1), count)
        place = np.tile(np.arange(1, count + 1), ranks)
        node = trace * _PARTS + place
        parts = pl.DataFrame(
            {
                "node_id": node,
                "trace_id": trace,
                "group_id": group.ravel(),
                "number": number.ravel(),
                "start_ns": start.ravel(),
                "duration_ns": (end - start).ravel(),
                "before": np.where(place > 1, node - 1, -1),
            }
        )
        steps = self._steps(start, end, node.reshape(ranks, count))
        connection.execute("CREATE SCHEMA fleet")
        for name, rows, query in (
            ("trace", pl.DataFrame({"rank": np.arange(ranks)}), _TRACE),
            ("collective", parts, _COLLECTIVE),
            ("step", steps, _STEP),
        ):
            connection.register("rows", rows.to_arrow())
            connection.execute(f"CREATE TABLE fleet.{name} AS {query}")
            connection.unregister("rows")
        return int(end.max())

    def write(self, root: Path) -> None:
        """Write a lake with only those rows per rank that questions need."""
        manifest = lake.Manifest(root)
        manifest.make()
        with duckdb.connect() as connection, tracedb.open() as empty:
            self.fill(connection)
            queries = {one.full_name: contraction(one) for one in contracted()}
            described = empty.connection.execute(f"DESCRIBE {packing.packed(queries)}")
            types = {name: type_ for name, type_, *_ in described.fetchall()}
            for first in range(1, self.ranks + 1, _AT_ONCE):
                _write(connection, root, first, types)
        for trace in range(1, self.ranks + 1):
            folder = f"run=job/rank={trace - 1}/trace={trace}"
            (root / folder).parent.mkdir(parents=True)
            (root / f"trace={trace}").rename(root / folder)
            (only,) = (root / folder).iterdir()
            only.rename(only.with_name(packing.FLEET))
            source = f"/host{(trace - 1) // 8}_1.1.pt.trace.json"
            manifest.commit(entry(trace, ("job", 1), trace - 1, source, folder))

    def _times(self) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Begin, end, group and number of each collective on each rank."""
        random = np.random.default_rng(self.seed)
        shape = (self.ranks, self.collectives)
        segment = random.integers(90_000, 110_000, shape)
        segment[self.slow] = (segment[self.slow] * SLOW_SHARE).astype(np.int64)
        rank = np.arange(self.ranks)
        groups = self._groups(rank)
        start, end = np.empty((2, *shape), np.int64)
        group, number = np.empty((2, *shape), np.int64)
        free = np.zeros(self.ranks, np.int64)
        turns = np.zeros(len(groups), np.int64)
        for at in range(self.collectives):
            kind = _KINDS.get(at % 20, 0)
            own, offset = groups[kind]
            latest = np.zeros(int(own.max()) + 1, np.int64)
            start[:, at] = free + segment[:, at]
            np.maximum.at(latest, own, start[:, at])
            free = latest[own] + 30_000
            turns[kind] += 1
            end[:, at], group[:, at], number[:, at] = free, offset + own, turns[kind]
        return start, end, group, number

    @staticmethod
    def _groups(rank: Numbers) -> list[tuple[Numbers, int]]:
        """Groups of ranks (tensor, pipeline, data), and where their numbers start."""
        tensor, stage = rank % TENSOR, rank // TENSOR % STAGES
        replica = rank // (TENSOR * STAGES)
        found, offset = [], 0
        for own in (
            rank // TENSOR,
            replica * TENSOR + tensor,
            stage * TENSOR + tensor,
        ):
            found.append((own, offset))
            offset += int(own.max()) + 1
        return found

    def _steps(self, start: Numbers, end: Numbers, node: Numbers) -> pl.DataFrame:
        """Steps of equally many collectives, each ending with its last one."""
        last = np.linspace(0, self.collectives, STEPS + 1).astype(np.int64)[1:] - 1
        begins = np.concatenate([start[:, :1] * 0, end[:, last[:-1]]], axis=1)
        trace = np.repeat(np.arange(1, self.ranks + 1), STEPS)
        step = np.tile(np.arange(1, STEPS + 1), self.ranks)
        return pl.DataFrame(
            {
                "step_id": trace * _PARTS + step,
                "trace_id": trace,
                "step": step,
                "start_ns": begins.ravel(),
                "host_ns": (end[:, last] - begins).ravel(),
                "last_collective_id": node[:, last].ravel(),
            }
        )


def _write(
    connection: duckdb.DuckDBPyConnection, root: Path, first: int, types: dict[str, str]
) -> None:
    """Write the files of some ranks, each into a folder of its number."""
    connection.execute(
        f"COPY ({_FILES.format(first=first, last=first + _AT_ONCE - 1, **types)}) "
        f"TO '{root}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (trace), "
        "OVERWRITE_OR_IGNORE)"
    )


_FILES = """
SELECT
    trace_id AS trace,
    parts::{fleet_collective} AS fleet_collective,
    NULL::{fleet_sketch} AS fleet_sketch,
    steps::{fleet_step} AS fleet_step
FROM (
    SELECT trace_id, list(part ORDER BY node_id) AS parts
    FROM fleet.collective AS part
    WHERE trace_id BETWEEN {first} AND {last}
    GROUP BY trace_id
)
INNER JOIN (
    SELECT trace_id, list(own ORDER BY step_id) AS steps
    FROM fleet.step AS own
    GROUP BY trace_id
) USING (trace_id)
"""
_AT_ONCE = 64
_TRACE = """
SELECT rank + 1 AS trace_id, 'job' AS run, rank, 'host' || rank // 8 AS host FROM rows
"""
_COLLECTIVE = """
SELECT
    node_id,
    trace_id,
    'group ' || group_id AS process_group,
    8 AS group_size,
    'all_reduce' AS kind,
    number,
    start_ns,
    duration_ns,
    start_ns AS ready_ns,
    nullif(before, -1) AS source_node_id,
    nullif(before, -1) AS previous_node_id
FROM rows
"""
_STEP = """
SELECT *, host_ns AS period_ns, 0 AS op_count, 0 AS gpu_op_count FROM rows
"""
