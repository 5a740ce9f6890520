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
        'tracedb sql run.duckdb "FROM staging.gpu_op" --format parquet > k.parquet',
        "tracedb sql run.duckdb - < query.sql",
    )
)
@options.database
@click.argument("query", metavar="QUERY")
@options.method
@options.scenario
@click.option(
    "--allow-files", is_flag=True, help="Let the query read files, as by read_csv."
)
@out.option
def sql(  # noqa: PLR0913 (one parameter an option)
    database: str,
    query: str,
    method: str | None,
    scenario: str | None,
    *,
    allow_files: bool,
    output: out.Output,
) -> None:
    """Run a query; it cannot change the database.

    A query is one statement that reads the database: SELECT, FROM, WITH, DESCRIBE,
    SHOW, SUMMARIZE or EXPLAIN. Use - to read it from stdin. The command schema
    lists the relations to ask. With a method or scenarios, relations are as they are
    predicted so (tracedb predict).
    """
    if query == "-":
        query = _from_stdin()
    with options.simulated(database, method, scenario, allow_files=allow_files) as db:
        output.rows(db.sql(query))


def _from_stdin() -> str:
    if sys.stdin is None:
        raise click.UsageError("stdin is closed, and the query is to come from there")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise Failure("stdin: it is not UTF-8 text") from error
