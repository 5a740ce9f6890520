"""`tracedb summary`: an overview of a database."""

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
        "tracedb summary run.duckdb --rank 3",
        "tracedb summary run.duckdb --rank 3 --step 12",
        "tracedb summary run.duckdb --format json",
    )
)
@options.database
@options.step
@options.within
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Text for reading, or all facts as JSON: lists of rows by question.",
)
def summary(  # noqa: PLR0913 (one parameter an option)
    database: str,
    *,
    step: int | None,
    rank: int | None,
    run: int | None,
    trace: int | None,
    format_: str,
) -> None:
    """Show what takes the time, and where.

    Shows what was recorded, how long steps take, what the GPU does and why it is idle,
    the three largest parts of the critical paths and where they occur, and what is
    uncertain in the recording. Each fact comes from a question that `tracedb ask`
    answers in full. With options, only a run, rank, trace or step counts; what is
    uncertain is about whole traces, and waits for late ranks compare all ranks.
    """
    with tracedb.open(database, read_only=True) as db:
        parts = db.summary(run, step=step, rank=rank, trace=trace)
    if format_ == "json":
        _write_json(parts)
    else:
        from tracedb.summary.text import lines

        write_text("\n".join(map(printable, lines(parts, database, parts.part))))


def _write_json(parts: dict[str, pl.DataFrame]) -> None:
    from tracedb.encode import encode

    written = (
        f'"{name}": {encode(rows, "json").decode()}' for name, rows in parts.items()
    )
    write_text("{" + ",\n".join(written) + "}")
