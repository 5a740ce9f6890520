"""`tracedb serve`: a report with live SQL, in the browser of this machine."""

from __future__ import annotations

import click

import tracedb

from . import options
from .terminal import tell, tell_line


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
    help="The run (`tracedb sql DB 'FROM staging.run'`). Default: the largest.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="The port. Default: any free one.",
)
@options.memory("Memory limit of a query, such as 4GB.")
def serve(database: str, run: int | None, port: int, memory: int | None) -> None:
    """Show the report of a run in a browser, with live SQL.

    The page is the one of `tracedb report`, with a field for read-only queries, and a
    button that opens the trace in Perfetto's UI. The server accepts connections only
    from this machine, and only with the address that it prints. Stop it with Ctrl-C.
    """
    from tracedb.report import find_run
    from tracedb.serve import Server

    with tracedb.open(database, read_only=True) as opened:
        chosen = find_run(opened.connection, run, jobs=True).run_id
    with Server(database, chosen, port, memory) as server:
        tell_line(f"{database}, run {chosen}: {server.url}")
        tell("stop it with Ctrl-C")
        server.serve_forever()
