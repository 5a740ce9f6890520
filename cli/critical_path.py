"""`tracedb critical-path`: what bounds a step."""

from __future__ import annotations

from functools import partial

import click

import tracedb

from . import options
from . import output as out
from .missing_steps import write_rows


@click.command(
    "critical-path",
    epilog=options.examples(
        "tracedb critical-path run.duckdb",
        "tracedb critical-path run.duckdb --step 10 --intervals --format csv",
    ),
)
@options.database
@options.step
@click.option("--intervals", is_flag=True, help="Every interval of the path, in order.")
@out.option
def critical_path(
    database: str, step: int | None, *, intervals: bool, output: out.Output
) -> None:
    """Show what bounds each step: its critical path by kind."""
    with tracedb.open(database, read_only=True) as db:
        summary = partial(db.relation, "question.critical_path")
        rows = (db.critical_path if intervals else summary)(step)
        write_rows(db, output, rows)
