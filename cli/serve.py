"""`tracedb serve`: a report that answers queries, in the browser of this machine."""

from __future__ import annotations

import click

import tracedb

from . import options
from .terminal import tell


@click.command(
    epilog=options.examples(
        "tracedb serve run.duckdb",
        "tracedb serve run.duckdb --run 2 --port 8811",
    )
)
@options.database
@click.option(
    "--run",
    type=int,
    metavar="N",
    help="The run (`tracedb sql DB 'FROM raw.run'`); by default the largest.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="The port; by default any that is free.",
)
def serve(database: str, run: int | None, port: int) -> None:
    """Show the report of a run in a browser, with live SQL.

    The page is that of tracedb report, with a field for queries, which read and change
    nothing, and a button that hands the trace to Perfetto's UI. The server answers this
    machine alone, and only who knows the address that it prints. Ctrl-C ends it.
    """
    from tracedb.report import find_run
    from tracedb.serve import Server

    with tracedb.open(database, read_only=True) as opened:
        chosen = find_run(opened.connection, run).run_id
    with Server(database, chosen, port) as server:
        tell(f"{database}, run {chosen}: {server.url}")
        tell("Ctrl-C ends it")
        server.serve_forever()
