"""`tracedb summary`: what a database holds, in the first minute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

import tracedb

from . import options
from .terminal import printable, write_text

if TYPE_CHECKING:
    import polars as pl


@click.command(
    epilog=options.examples(
        "tracedb summary run.duckdb",
        "tracedb summary run.duckdb --run 2",
        "tracedb summary run.duckdb --format json",
    )
)
@options.database
@click.option("--run", "run_id", type=int, metavar="N", help="Only this run.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For a person, or every fact as a list of rows by the name of its question.",
)
def summary(database: str, run_id: int | None, *, format_: str) -> None:
    """Show what takes the time, and where.

    What was recorded, how long steps take, what the GPU does and why it is idle,
    the three largest parts of the critical paths with the place where most of each is,
    and what the recording leaves in doubt. Each fact is a question that
    `tracedb ask` answers in full.
    """
    with tracedb.open(database, read_only=True) as db:
        parts = db.summary(run_id)
    if format_ == "json":
        _write_json(parts)
    else:
        from tracedb.summary.text import lines

        write_text("\n".join(map(printable, lines(parts, database))))


def _write_json(parts: dict[str, pl.DataFrame]) -> None:
    from tracedb.encode import encode

    written = (
        f'"{name}": {encode(rows, "json").decode()}' for name, rows in parts.items()
    )
    write_text("{" + ",\n".join(written) + "}")
