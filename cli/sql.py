"""`tracedb sql`: one query."""

from __future__ import annotations

import sys

import click

import tracedb

from . import options
from . import output as out


@click.command(
    epilog=options.examples(
        'tracedb sql run.duckdb "SELECT name, count(*) FROM staging.op GROUP BY name"',
        'tracedb sql run.duckdb "FROM staging.kernel" --format parquet > k.parquet',
        "tracedb sql run.duckdb - < query.sql",
    )
)
@options.database
@click.argument("query", metavar="QUERY")
@out.option
def sql(database: str, query: str, output: out.Output) -> None:
    """Run a query; it cannot change the database.

    A QUERY of - is read from stdin. The command schema lists the relations to ask.
    """
    if query == "-":
        query = sys.stdin.read()
    with tracedb.open(database, read_only=True) as db:
        output.rows(db.sql(query))
