"""`tracedb ask`: questions by their name."""

from __future__ import annotations

import click

import tracedb

from . import options
from . import output as out
from .missing_steps import write_rows


@click.command(
    epilog=options.examples(
        "tracedb ask run.duckdb",
        "tracedb ask run.duckdb top_kernel --format csv",
    )
)
@options.database
@click.argument("question", required=False, metavar="[QUESTION]")
@out.option
def ask(database: str, question: str | None, output: out.Output) -> None:
    """Answer a question, or list the questions."""
    with tracedb.open(database, read_only=True) as db:
        rows = db.ask(question) if question else db.questions()
        write_rows(db, output, rows)
