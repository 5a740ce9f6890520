"""`tracedb shard`: where embedding tables go, and what they add to a step."""

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
    short_help="Plan how embedding tables are spread over ranks.",
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
    "--ranks", type=int, metavar="N", required=True, help="Ranks, each with a GPU."
)
@click.option(
    "--gpu",
    metavar="NAME",
    help="The GPU: a name that `tracedb kernels hardware` lists; else that of DB.",
)
@click.option(
    "--batch", type=int, metavar="N", help="Examples of each rank; else as DB has them."
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="What tables may take of each rank's memory, as 60GB; else all of its GPU's.",
)
@click.option(
    "--split",
    type=click.Choice(["none", "column", "row", "any"]),
    default="any",
    show_default=True,
    help="Whether tables that are too large or too slow for a rank are split.",
)
@click.option(
    "--optimizer",
    type=click.Choice(["sgd", "rowwise-adagrad", "adagrad", "adam"]),
    default="rowwise-adagrad",
    show_default=True,
    help="What it keeps for rows takes memory, too.",
)
@click.option(
    "--launch",
    type=click.Choice(["fused", "table"]),
    default="fused",
    show_default=True,
    help="One launch for all tables of a rank, as FBGEMM's, or one a table.",
)
@click.option(
    "--indices",
    type=click.Choice(["sent", "there"]),
    default="sent",
    show_default=True,
    help="Whether ranks send them to each other in the step, or before it.",
)
@click.option(
    "--ranks-per-node",
    type=int,
    metavar="N",
    help="Ranks of a node; else 8, or all where there are fewer.",
)
@click.option(
    "--network",
    type=float,
    metavar="GB/S",
    help="What each rank can send to other nodes, where it is not as `tracedb kernels "
    "hardware` lists it.",
)
@click.option(
    "--models",
    metavar="PATH",
    type=click.Path(),
    help="Kernel models of your own (tracedb kernels train).",
)
@click.option("--rank", type=int, metavar="N", help="Only the tables of this rank.")
@click.option(
    "--by",
    type=click.Choice(["plan", "rank", "table"]),
    default="plan",
    show_default=True,
    help="What is shown: all plans; or of the best one (csv, json: of all).",
)
@click.option(
    "--db",
    "database",
    metavar="DB",
    type=click.Path(),
    help="Keep tables, costs and plans there, in the place of those it has.",
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
    """Plan how embedding tables are spread over ranks, the best plan first.

    The tables are those that a step of DB looks up on a GPU, or a row each of FILE
    (CSV, JSON or TOML): rows, width, pooling (rows that an example looks up, in the
    mean), and if need be name and dtype.

    Plans are naive (one rank after the other), balanced by size, by lookups or by
    predicted cost, and searched: the best of them, improved by moving, swapping and
    splitting tables until nothing is gained. Each has what it adds to a step: lookups
    and gradients of the slowest rank, and the all-to-alls between them, by the same
    kernel models that predict traces. docs/sharding.md says what is not modelled.
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
