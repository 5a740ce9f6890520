"""`tracedb report`: a run as one HTML file, to look at and to pass on."""

from __future__ import annotations

import click

import tracedb

from . import options
from .summary import lines
from .terminal import tell


@click.command(
    epilog=options.examples(
        "tracedb report run.duckdb -o report.html",
        "tracedb report run.duckdb -o second.html --run 2",
    )
)
@options.database
@options.output("FILE", "The report, an HTML file.")
@click.option(
    "--run",
    type=int,
    metavar="N",
    help="The run (`tracedb sql DB 'FROM raw.run'`); by default the largest.",
)
def report(database: str, path: str, run: int | None) -> None:
    """Write a report of a run: one HTML file.

    It begins with the summary (tracedb summary), and has the timeline of all threads,
    streams and ranks with the critical path drawn on it, and pictures and tables of
    what bounds the steps, each with its SQL.
    """
    with tracedb.open(database, read_only=True) as db:
        done = db.report(
            path, run, words=lambda chosen: lines(db.summary(chosen), database)
        )
    size = f"{done['bytes'] / 1e6:.1f} MB"
    tell(f"{path}: a report of run {done['run_id']}, {done['run']} ({size})")
    for note in done["notes"]:
        tell(note)
    if done["other_runs"]:
        tell(f"{done['other_runs']} more in the database: --run says which")
