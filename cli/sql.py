"""`tracedb sql`: one query."""

from __future__ import annotations

import sys

import click

from . import options
from . import output as out
from .errors import Failure


@click.command(
    epilog=options.examples(
        'tracedb sql run.duckdb "SELECT name, count(*) FROM staging.op GROUP BY name"',
        'tracedb sql run.duckdb "FROM staging.kernel" --format parquet > k.parquet',
        "tracedb sql run.duckdb - < query.sql",
    )
)
@options.database
@click.argument("query", metavar="QUERY")
@options.rung
@options.scenario
@click.option(
    "--allow-files", is_flag=True, help="Let the query read files, as by read_csv."
)
@out.option
def sql(  # noqa: PLR0913 (one parameter an option)
    database: str,
    query: str,
    rung: str | None,
    scenario: str | None,
    *,
    allow_files: bool,
    output: out.Output,
) -> None:
    """Run a query, which changes nothing.

    It is one statement that reads the database alone: SELECT, FROM, WITH, DESCRIBE,
    SHOW, SUMMARIZE or EXPLAIN. A QUERY of - is read from stdin. The command schema
    lists the relations to ask. With a rung or scenarios, relations are as they are
    predicted so (tracedb predict).
    """
    if query == "-":
        query = _from_stdin()
    with options.simulated(database, rung, scenario, allow_files=allow_files) as db:
        output.rows(db.sql(query))


def _from_stdin() -> str:
    if sys.stdin is None:
        raise click.UsageError("stdin is closed, and the query is to come from there")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise Failure("stdin: it is no text in UTF-8") from error
