"""Predict the times of shards and all-to-alls on a GPU, each size once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from tracedb.duck import frame, registered, scalar
from tracedb.kernels.shape_times import shape_times

if TYPE_CHECKING:
    import duckdb

    from tracedb.kernels import Models
    from tracedb.sharding.run import Asked

_FAMILIES = {"forward": "embedding_bag", "backward": "embedding_bag_backward"}
_KINDS = """
SELECT DISTINCT rows, width, pooling, dtype FROM prediction.embedding_shard ORDER BY ALL
"""
# The largest message: all tables on one rank, split so that most is sent.
_MOST_SENT = """
SELECT sum(most)::BIGINT
FROM (
    SELECT ordinal, max(sent) AS most
    FROM (
        SELECT ordinal, sum(shard_count * greatest(sent_bytes, index_bytes)) AS sent
        FROM prediction.embedding_shard
        GROUP BY ordinal, way, parts
    )
    GROUP BY ordinal
)
"""
_KNOTS_PER_DOUBLING = 4
_LEAST_KNOT = 10
"""[log2 B] The smallest knot, 1 KiB; below, time hardly changes."""
_TIMES = ("ns", "low_ns", "high_ns")


class _Launch(NamedTuple):
    """The shards of one lookup launch, and its examples."""

    copies: int
    examples: int


def estimate(
    connection: duckdb.DuckDBPyConnection, models: Models, asked: Asked, tables: int
) -> None:
    """Fill the relations of predicted times for the stored tables' shards."""
    kinds = frame(connection.sql(_KINDS))
    for direction, family in _FAMILIES.items():
        times = _lookups(models, asked, kinds, family, tables)
        rows = times.with_columns(direction=pl.lit(direction))
        _store(connection, "reference.shard_estimate", rows)
    most = int(scalar(connection, _MOST_SENT))
    exchanges = _exchanges(models, asked, most)
    _store(connection, "reference.exchange_estimate", exchanges)


def _store(
    connection: duckdb.DuckDBPyConnection, table: str, rows: pl.DataFrame
) -> None:
    with registered(connection, "estimates", rows.rename({"ns": "estimate_ns"})):
        connection.execute(f"INSERT INTO {table} BY NAME FROM estimates")


def _lookups(
    models: Models, asked: Asked, kinds: pl.DataFrame, family: str, tables: int
) -> pl.DataFrame:
    """The time that each kind of shard adds to its launch, and that of empty launches.

    If all tables of a rank share a launch, a shard adds its part of a launch of equal
    shards, one per table of a rank, beyond the time of an empty launch.
    """
    copies = -(-tables // asked.ranks) if asked.is_fused else 1
    example = {"rows": 1, "width": 1, "pooling": 1.0, "dtype": "float32"}
    schema = kinds.schema
    nothing = _times(
        models, asked, pl.DataFrame([example], schema), family, _Launch(1, 1)
    )
    if not asked.is_fused:
        nothing = nothing.with_columns(pl.lit(0).alias(name) for name in _TIMES)
    examples = asked.ranks * asked.batch
    times = _times(models, asked, kinds, family, _Launch(copies, examples))
    launch = nothing.row(0, named=True)
    added = {
        name: ((pl.col(name) - launch[name]).clip(1) / copies).ceil().cast(pl.Int64)
        for name in _TIMES
    }
    times = times.with_columns(**added).with_columns(
        low_ns=pl.min_horizontal("ns", "low_ns"),
        high_ns=pl.max_horizontal("ns", "high_ns"),
    )
    size = {"rows": 0, "width": 0, "pooling": 0.0, "dtype": ""}
    none = pl.DataFrame([size], schema).hstack(nothing)
    return pl.concat([none, kinds.hstack(times)], how="vertical_relaxed")


def _times(
    models: Models, asked: Asked, kinds: pl.DataFrame, family: str, launch: _Launch
) -> pl.DataFrame:
    """The time of a launch with `count` shards, for each kind."""
    copies, examples = launch
    found = (copies * examples * pl.col("pooling")).round().clip(1)
    shapes = kinds.select(
        "dtype",
        "width",
        hardware=pl.lit(asked.device.hardware),
        family=pl.lit(family),
        op=pl.lit("sum"),
        tables=pl.lit(copies),
        table_rows=pl.col("rows"),
        bags=pl.lit(examples),
        pooling=pl.col("pooling").round().clip(1),
        rows=found.cast(pl.Int64),
    )
    return shape_times(models, shapes)


def _exchanges(models: Models, asked: Asked, most: int) -> pl.DataFrame:
    """The time of all-to-alls by size, up to the largest possible one."""
    knots = [0, 1]
    while knots[-1] < most:
        step = len(knots) - 2
        knots.append(round(2 ** (_LEAST_KNOT + step / _KNOTS_PER_DOUBLING)))
    sizes = pl.DataFrame({"message_bytes": knots}, {"message_bytes": pl.Int64})
    nothing = pl.DataFrame(
        [{**dict.fromkeys(_TIMES, 0), "model": None}],
        {**dict.fromkeys(_TIMES, pl.Int64), "model": pl.String},
    )
    if asked.ranks == 1:
        alone = pl.concat([nothing] * len(knots))
        return sizes.hstack(alone)
    asked_sizes = sizes[1:].select(
        hardware=pl.lit(asked.device.hardware),
        family=pl.lit("collective"),
        op=pl.lit("all_to_all"),
        dtype=pl.lit("bytes"),
        bytes=pl.col("message_bytes"),
        ranks=pl.lit(asked.ranks),
        ranks_per_node=pl.lit(asked.ranks_per_node),
    )
    if asked.network_bytes_per_second is not None:
        models = models.over_network(
            asked.device.hardware, asked.network_bytes_per_second
        )
    times = shape_times(models, asked_sizes)
    # Times are made monotonic: a message could be padded to a larger one.
    rising = times.with_columns(pl.col(name).cum_min(reverse=True) for name in _TIMES)
    return sizes.hstack(pl.concat([nothing, rising], how="vertical_relaxed"))
