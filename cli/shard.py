"""`tracedb shard`: where to place embedding tables, and what they add to a step."""

from __future__ import annotations

import click

from . import options
from . import output as out
from .terminal import tell

_BRIEF = {
    "plan": (
        *("place", "plan", "split", "added_ns", "forward_ns", "backward_ns"),
        *("exchange_ns", "index_exchange_ns", "imbalance_share", "memory_bytes"),
    ),
    "rank": (
        *("rank", "shard_count", "forward_ns", "backward_ns", "sent_bytes"),
        *("index_bytes", "memory_bytes"),
    ),
    "table": (
        *("rank", "name", "way", "part", "parts", "rows", "width", "pooling"),
        *("forward_ns", "backward_ns", "memory_bytes"),
    ),
}


@click.command(
    short_help="Plan the placement of embedding tables on ranks.",
    epilog=options.examples(
        "tracedb shard tables.csv --ranks 8 --gpu H100 --batch 8192",
        "tracedb shard run.duckdb --ranks 4 --gpu A100 --memory 60GB",
        "tracedb shard tables.csv --ranks 8 --gpu H100 --batch 8192 --by rank",
        "tracedb shard tables.toml --ranks 8 --gpu H100 --batch 512 --db plans.duckdb",
        "tracedb ask plans.duckdb sharding_table --format csv",
    ),
)
@click.argument("source", metavar="DB|FILE", type=click.Path())
@click.option(
    "--ranks",
    type=int,
    metavar="N",
    required=True,
    help="Number of ranks, each with one GPU.",
)
@click.option(
    "--gpu",
    metavar="NAME",
    help="The GPU, by a name that `tracedb kernels hardware` lists. Default: the GPU "
    "of DB.",
)
@click.option(
    "--batch", type=int, metavar="N", help="Examples per rank. Default: as in DB."
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Memory for tables on each rank, such as 60GB. Default: all of the GPU's.",
)
@click.option(
    "--split",
    type=click.Choice(["none", "column", "row", "any"]),
    default="any",
    show_default=True,
    help="How tables may be split if they are too large or too slow for a rank.",
)
@click.option(
    "--optimizer",
    type=click.Choice(["sgd", "rowwise-adagrad", "adagrad", "adam"]),
    default="rowwise-adagrad",
    show_default=True,
    help="Optimizer, whose state for the rows takes memory as well.",
)
@click.option(
    "--launch",
    type=click.Choice(["fused", "table"]),
    default="fused",
    show_default=True,
    help="One launch for all tables of a rank, as FBGEMM does, or one per table.",
)
@click.option(
    "--indices",
    type=click.Choice(["sent", "there"]),
    default="sent",
    show_default=True,
    help="Whether ranks exchange indices within the step, or before it.",
)
@click.option(
    "--ranks-per-node",
    type=int,
    metavar="N",
    help="Ranks per node. Default: 8, or all if there are fewer.",
)
@click.option(
    "--network",
    type=float,
    metavar="GB/S",
    help="Bandwidth from each rank to other nodes. Default: as `tracedb kernels "
    "hardware` lists it.",
)
@click.option(
    "--models",
    metavar="PATH",
    type=click.Path(),
    help="Your own kernel models (see `tracedb kernels train`).",
)
@click.option(
    "--rank",
    type=int,
    metavar="N",
    help="Only the tables that DB looks up on this rank.",
)
@click.option(
    "--by",
    type=click.Choice(["plan", "rank", "table"]),
    default="plan",
    show_default=True,
    help="Show all plans, or the ranks or tables of the best plan (csv, json: of all "
    "plans).",
)
@click.option(
    "--db",
    "database",
    metavar="DB",
    type=click.Path(),
    help="Write tables, costs and plans to DB, replacing those that it has.",
)
@out.option
def shard(  # noqa: PLR0913 (the options of the command)
    source: str,
    *,
    ranks: int,
    gpu: str | None,
    batch: int | None,
    memory: str | None,
    split: str,
    optimizer: str,
    launch: str,
    indices: str,
    ranks_per_node: int | None,
    network: float | None,
    models: str | None,
    rank: int | None,
    by: str,
    database: str | None,
    output: out.Output,
) -> None:
    """Plan the placement of embedding tables on ranks, with the best plan first.

    The tables are those that a step of DB looks up on a GPU, or those of FILE (CSV,
    JSON or TOML) with one row per table: rows, width, pooling (the mean number of rows
    that an example looks up), and optionally name and dtype.

    The plans are: naive (round-robin); balanced by size, by lookups or by predicted
    cost; and searched, which is the best of these, improved by moving, swapping and
    splitting tables until nothing is gained. For each plan, the output shows what it
    adds to a step: the lookups and gradients of the slowest rank, and the all-to-alls.
    The times come from the kernel models that also predict traces. docs/sharding.md
    lists what is not modelled.
    """
    from tracedb.sharding.run import shard as run

    found = run(
        source,
        ranks=ranks,
        gpu=gpu,
        batch=batch,
        memory=memory,
        split=split,
        optimizer=optimizer,
        launch=launch,
        indices=indices,
        ranks_per_node=ranks_per_node,
        network=network,
        models=models,
        rank=rank,
        database=database,
    )
    rows = {"plan": found.plans, "rank": found.ranks, "table": found.tables}[by]
    if by != "plan" and output.format == "table":
        rows = found.of_best(rows)
    output.rows(rows, _BRIEF[by])
    for line in (*found.notes, *found.refused):
        tell(line)
