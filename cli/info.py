"""`tracedb info`: what a database holds."""

from __future__ import annotations

import click

import tracedb

from . import options
from . import output as out
from .issues import tell_issues

ISSUES_FOUND = 3


@click.command(epilog=options.examples("tracedb info run.duckdb"))
@options.database
@out.option
@click.pass_context
def info(context: click.Context, database: str, output: out.Output) -> None:
    """Show the contents of a database.

    Lists the runs and their files, how many events of each type a file has, and which
    execution graph belongs to which trace. Exits with 3 if ingest had to repair a file
    or leave something out; stderr says what.
    """
    with tracedb.open(database, read_only=True) as db:
        output.rows(db.info())
        issues = db.issues()
    tell_issues(issues)
    if not issues["is_note"].all():
        context.exit(ISSUES_FOUND)
