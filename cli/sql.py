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
    "--allow-files",
    is_flag=True,
    help="Let the query read files, for example with read_csv.",
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
    """Run a read-only SQL query.

    The query is one statement: SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE or
    EXPLAIN. Use - to read it from stdin. `tracedb schema` lists the relations. With a
    method or scenarios, the relations also hold the prediction (see `tracedb predict`).
    """
    if query == "-":
        query = _from_stdin()
    with options.simulated(database, method, scenario, allow_files=allow_files) as db:
        output.rows(db.sql(query))


def _from_stdin() -> str:
    if sys.stdin is None:
        raise click.UsageError("stdin is closed, so the query cannot be read")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise Failure("stdin: not UTF-8 text") from error
