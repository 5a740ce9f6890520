"""`tracedb depends`: what a node depends on, and what depends on it."""

from __future__ import annotations

import click

import tracedb

from . import options
from . import output as out

_BRIEF = (
    *("direction", "distance", "kind", "name", "node_id", "waited_ns", "offset_ns"),
    *("duration_ns", "lane", "recorded"),
)


@click.command(
    short_help="Show what a node depends on, and what depends on it.",
    epilog=options.examples(
        "tracedb depends run.duckdb --node 4711",
        "tracedb depends run.duckdb --node aten::item --step 10 --rank 1 --up",
        "tracedb depends run.duckdb --node 4711 --down --waits --format csv",
    ),
)
@options.database
@click.option(
    "--node",
    required=True,
    metavar="N|NAME",
    help="Number of the node in graph.node, or its exact name.",
)
@click.option(
    "--up", "direction", flag_value="up", help="Show only what the node depends on."
)
@click.option(
    "--down", "direction", flag_value="down", help="Show only what depends on the node."
)
@click.option(
    "--waits", is_flag=True, help="Show what the node waits for, and what it delays."
)
@options.step
@click.option("--rank", type=int, metavar="N", help="Show only nodes of this rank.")
@out.option
def depends(  # noqa: PLR0913 (the options of the command)
    database: str,
    node: str,
    direction: str | None,
    step: int | None,
    rank: int | None,
    *,
    waits: bool,
    output: out.Output,
) -> None:
    """Show what a node depends on (up), and what depends on it (down).

    The output stays within the step of the node and lists the nearest nodes first. The
    distance is the number of edges in between, the kind is that of the edge that
    reaches a node first, and the offset is measured from the start of the given node.
    --waits shows what the node and everything inside it waited for; for a GPU op, also
    what it delayed.
    """
    with tracedb.open(database, read_only=True) as db:
        asked = int(node) if node.isdecimal() else node
        rows = db.depends(asked, direction=direction, waits=waits, step=step, rank=rank)
        output.rows(rows, _BRIEF)
