"""Plan embedding tables on ranks: the request and the answer."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl

import tracedb
from tracedb import catalog, kernels
from tracedb.attachment import CONFIG
from tracedb.duck import frame, own_errors, registered, size_in, transaction
from tracedb.errors import EstimateError, ShardingError
from tracedb.from_code.job import Job
from tracedb.from_code.pricing import Device
from tracedb.sharding import costs
from tracedb.sharding.cuts import WAYS, Cuts
from tracedb.sharding.plans import Exchange, Goal, plans
from tracedb.sharding.search import Plan, searched
from tracedb.sharding.tables import ENDINGS, read_tables, recorded_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracedb.sharding.tables import Table

OPTIMIZERS = {
    "sgd": (0, 0),
    "rowwise-adagrad": (4, 0),
    "adagrad": (0, 4),
    "adam": (0, 8),
}
"""[B] Optimizer state: bytes per row and bytes per element."""
SPLITS = ("none", *WAYS, "any")
SEARCHED = "searched"
_QUESTIONS = ("sharding", "sharding_rank", "sharding_table")
_FILLED = (
    *("sharded_table", "sharding", "shard_estimate", "exchange_estimate"),
    "shard_placement",
)
_DEVICE = tuple(
    f"prediction.{name}"
    for name in ("hardware", "kernel_efficiency", "memory_capacity")
)
"""What `Device` reads."""
_MOST_RANKS = 4096
_MOST_SUMS = 2**46
"""Largest number of elements of a table that are sent or looked up in a step."""
_GIGA = 1e9
_GPU = """
SELECT gpu FROM staging.trace_gpu WHERE gpu IS NOT NULL ORDER BY trace_id LIMIT 1
"""


@dataclass(frozen=True)
class Asked:
    """The request: ranks, their GPU, the lookups of a step, the memory."""

    ranks: int
    ranks_per_node: int
    device: Device
    batch: int
    limit_bytes: int | None
    optimizer: str
    is_fused: bool
    sends_indices: bool
    network_bytes_per_second: float | None


@dataclass(frozen=True)
class Sharding:
    """Plans for embedding tables: what they add to a step, and where shards are.

    The frames are `question.sharding`, `question.sharding_rank` and
    `question.sharding_table`. `refused` has a line for each plan that does not fit,
    `notes` the sources of the input.
    """

    plans: pl.DataFrame
    ranks: pl.DataFrame
    tables: pl.DataFrame
    refused: tuple[str, ...]
    notes: tuple[str, ...]

    def of_best(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows of the best plan."""
        best = self.plans.row(0, named=True)
        return rows.filter(plan=best["plan"], split=best["split"])


@own_errors()
def shard(  # noqa: PLR0913 (the options of one command)
    source: str | Path | Sequence[Table],
    *,
    ranks: int,
    gpu: str | None = None,
    batch: int | None = None,
    memory: int | str | None = None,
    split: str = "any",
    optimizer: str = "rowwise-adagrad",
    launch: str = "fused",
    indices: str = "sent",
    ranks_per_node: int | None = None,
    network: float | None = None,
    models: str | Path | None = None,
    rank: int | None = None,
    database: str | Path | None = None,
) -> Sharding:
    """Plan where embedding tables go, and predict what they add to a step.

    The source is a database whose traces look up tables (those of one `rank`), a file
    of tables (CSV, JSON, TOML), or a list of `tracedb.sharding.tables.Table`. `batch`
    is the number of examples per rank; the default for it and for the GPU is as
    recorded. `memory` is the memory for tables on each rank, in bytes or as `60GB`.
    `split` is how tables may be split. `launch` is `fused` (one launch for all tables
    of a rank) or `table` (one per table). `indices` are `sent` within the step or
    already `there`. With more ranks than `ranks_per_node`, each rank sends `network`
    GB/s to other nodes, by default as its hardware does. `models` are trained kernel
    models. `database` stores the plans. Raises `ShardingError`.
    """
    _refuse_unknown("split", split, SPLITS)
    _refuse_unknown("optimizer", optimizer, OPTIMIZERS)
    _refuse_unknown("launch", launch, ("fused", "table"))
    _refuse_unknown("indices", indices, ("sent", "there"))
    limit = size_in(memory) if isinstance(memory, str) else memory
    _refuse_sizes(ranks, batch, limit, network)
    given = _given(source, rank)
    with _opened(database) as connection:
        name = _needed(gpu or given.gpu, "the GPU (--gpu)")
        device = Device.of(connection, name)
        asked = Asked(
            ranks=ranks,
            ranks_per_node=_per_node(ranks, ranks_per_node, device),
            device=device,
            batch=_needed(batch or given.batch, "the batch size of a rank (--batch)"),
            limit_bytes=limit,
            optimizer=optimizer,
            is_fused=launch == "fused",
            sends_indices=indices == "sent",
            network_bytes_per_second=None if network is None else network * _GIGA,
        )
        if limit is None:
            asked = replace(asked, limit_bytes=asked.device.capacity_bytes)
        _refuse_large(given.tables, asked)
        own = kernels.shipped(connection)
        known = own if models is None else kernels.load(models, connection).over(own)
        with transaction(connection):
            _fill(connection, given.tables, asked)
            costs.estimate(connection, known, asked, len(given.tables))
            _place(connection, asked, split)
            return _answer(connection, asked, given)


@dataclass(frozen=True)
class _Given:
    """The tables, and what is known about their run."""

    tables: list[Table]
    gpu: str | None = None
    batch: int | None = None
    notes: tuple[str, ...] = ()


def _given(source: str | Path | Sequence[Table], rank: int | None) -> _Given:
    """The tables of a source."""
    if not isinstance(source, (str, Path)):
        return _Given([*source])
    if Path(source).suffix.lower() in ENDINGS:
        return _Given(read_tables(source))
    with tracedb.open(source, read_only=True) as db:
        found = recorded_tables(db.connection, rank)
        gpus = db.connection.execute(_GPU).fetchall()
    notes = [f"{len(found.tables):,} tables, from {source}"]
    if found.traces > 1:
        notes.append(
            f"they come from {found.traces} traces; if each rank has all tables, "
            "choose one rank (--rank)"
        )
    if found.are_means:
        notes.append(
            "tables that are looked up together get mean sizes; a file of tables gives "
            "the size of each"
        )
    gpu = gpus[0][0] if gpus else None
    return _Given(found.tables, gpu, found.bags, tuple(notes))


def _needed(value: Any, what: str) -> Any:  # noqa: ANN401 (whatever is needed)
    if value is None:
        raise ShardingError(f"give {what}; a file of tables does not have it")
    return value


def _refuse_unknown(
    name: str, value: str, known: Sequence[str] | dict[str, Any]
) -> None:
    if value not in known:
        raise ShardingError(f"no {name} {value}; available: {', '.join(known)}")


def _per_node(ranks: int, given: int | None, device: Device) -> int:
    """Ranks per node: as given, or as many as a node has GPUs."""
    try:
        return min(ranks, Job.of(ranks, given, device.per_node).per_node)
    except EstimateError as error:
        raise ShardingError(str(error)) from error


def _refuse_sizes(
    ranks: int, batch: int | None, limit: int | None, network: float | None
) -> None:
    if not 1 <= ranks <= _MOST_RANKS:
        raise ShardingError(f"{ranks} ranks; the limit is 1 to {_MOST_RANKS:,}")
    for name, value in (("batch", batch), ("memory", limit), ("network", network)):
        if value is not None and not 0 < value < float("inf"):
            raise ShardingError(f"{name} is {value}; it must be above 0")


def _refuse_large(tables: Sequence[Table], asked: Asked) -> None:
    """Raise `ShardingError` for no tables, and for sums that would overflow."""
    if not tables:
        raise ShardingError("no tables; give at least one")
    examples = asked.ranks * asked.batch
    for table in tables:
        if examples * max(table.pooling, 1) * table.width > _MOST_SUMS:
            raise ShardingError(
                f"{table.name}: {examples:,} examples look up more than 2^46 elements"
            )


@contextmanager
def _opened(database: str | Path | None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with the relations of plans: the user's, or one in memory."""
    if database is not None:
        with tracedb.open(database) as db:
            yield db.connection
        return
    with duckdb.connect(config={**CONFIG}) as connection:
        names = (*(f"question.{name}" for name in _QUESTIONS), *_DEVICE)
        catalog.create_only(connection, *names, are_documented=False)
        yield connection


def _fill(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[Table], asked: Asked
) -> None:
    """Replace the stored request."""
    for name in _FILLED:
        connection.execute(f"DELETE FROM reference.{name}")
    rows = pl.DataFrame(
        [
            (n, t.name, t.rows, t.width, t.pooling, t.dtype, t.element_size)
            for n, t in enumerate(tables)
        ],
        ["ordinal", "name", "rows", "width", "pooling", "dtype", "element_size"],
        orient="row",
    )
    with registered(connection, "given", rows):
        connection.execute("INSERT INTO reference.sharded_table BY NAME FROM given")
    connection.execute(
        "INSERT INTO reference.sharding VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            *(asked.ranks, asked.device.hardware, asked.batch, asked.limit_bytes),
            *(*OPTIMIZERS[asked.optimizer], asked.sends_indices),
        ],
    )


def _place(connection: duckdb.DuckDBPyConnection, asked: Asked, split: str) -> None:
    """Store the plans by rules for each way to split, and the searched plan."""
    cuts = Cuts(connection)
    goal = Goal(
        asked.ranks, asked.limit_bytes, _exchange(connection), asked.sends_indices
    )
    best = []
    for way in [one for one in SPLITS[:-1] if split in ("any", one) or one == "none"]:
        chosen = cuts.tables
        if way != "none":
            chosen = cuts.chosen(way, goal.ranks, goal.limit_bytes)
            if chosen == cuts.tables:
                continue
        shards = cuts.shards(chosen)
        found = []
        for name, rank in plans(shards, goal):
            _store(connection, name, way, Plan(0, shards, rank))
            if goal.fits(shards, rank):
                found.append(Plan(goal.time_ns(shards, rank), shards, rank))
        best += [min(found, key=lambda plan: plan.time_ns)] if found else []
    may_split = split == "any"
    better = [searched(start, cuts, goal, may_split=may_split) for start in best]
    if better:
        _store(connection, SEARCHED, split, min(better, key=lambda plan: plan.time_ns))


def _exchange(connection: duckdb.DuckDBPyConnection) -> Exchange:
    rows = frame(connection.sql("FROM reference.exchange_estimate")).sort(
        "message_bytes"
    )
    return Exchange(
        *(rows[n].to_numpy().astype(float) for n in ("message_bytes", "estimate_ns"))
    )


def _store(
    connection: duckdb.DuckDBPyConnection, name: str, split: str, plan: Plan
) -> None:
    shards = plan.shards
    rows = pl.DataFrame(
        {
            "ordinal": [cut.ordinal for cut in shards.cut],
            "way": [cut.way for cut in shards.cut],
            "parts": [cut.parts for cut in shards.cut],
            "part": np.asarray(shards.part),
            "rank": np.asarray(plan.rank),
        }
    ).with_columns(plan=pl.lit(name), split=pl.lit(split))
    with registered(connection, "placed", rows):
        connection.execute("INSERT INTO reference.shard_placement BY NAME FROM placed")


def _answer(
    connection: duckdb.DuckDBPyConnection, asked: Asked, given: _Given
) -> Sharding:
    """The answers; raises `ShardingError` if no plan fits."""
    found = [frame(connection.sql(f"FROM question.{name}")) for name in _QUESTIONS]
    plans, ranks, tables = found
    lines = tuple(_lines(ranks.filter(~pl.col("fits"))))
    if plans["place"].null_count() == plans.height:
        raise ShardingError(_no_room(asked, tables))
    notes = (*given.notes, *_assumed(connection, asked))
    return Sharding(plans, ranks, tables, lines, notes)


def _no_room(asked: Asked, tables: pl.DataFrame) -> str:
    """The message if no plan fits."""
    whole = tables.filter(plan="size", split="none")["memory_bytes"]
    needed, there = int(whole.sum()), asked.ranks * (asked.limit_bytes or 0)
    advice = "use more ranks, or GPUs with more memory"
    if needed <= there:
        advice = "allow tables to be split (--split any), or use more ranks"
    return (
        f"no plan fits: the tables take {_gb(needed)} with what the optimizer "
        f"keeps, {asked.ranks} ranks of {asked.device.hardware} have {_gb(there)} "
        f"({_gb(asked.limit_bytes)} each); {advice}"
    )


def _lines(full: pl.DataFrame) -> Iterator[str]:
    """A line per plan that does not fit, with the rank that needs the most memory."""
    for (plan, split), rows in full.group_by(["plan", "split"], maintain_order=True):
        largest = rows.sort("memory_bytes", "rank", descending=[True, False])
        row = largest.row(0, named=True)
        yield (
            f"plan {plan}, split {split}: does not fit: rank {row['rank']} needs "
            f"{_gb(row['memory_bytes'])}"
        )


def _assumed(connection: duckdb.DuckDBPyConnection, asked: Asked) -> Iterator[str]:
    """Notes on the sources of times."""
    limit = "no limit, because the memory of the GPU is unknown"
    if asked.limit_bytes is not None:
        limit = f"up to {_gb(asked.limit_bytes)} per rank"
    yield (
        f"{asked.ranks} ranks of {asked.device.hardware}, {asked.batch:,} examples "
        f"each; memory for tables: {limit}"
    )
    for what, table in (("lookups", "shard"), ("all-to-alls", "exchange")):
        named = connection.execute(
            f"SELECT DISTINCT model FROM reference.{table}_estimate WHERE model IS NOT "
            "NULL ORDER BY model"
        ).fetchall()
        yield f"{what} by {'; '.join(m for (m,) in named) or 'the roofline'}"


def _gb(size: int | None) -> str:
    return f"{(size or 0) / _GIGA:,.1f} GB"
