"""`tracedb critical-path`: what bounds a step."""

from __future__ import annotations

import click

import tracedb

from . import options
from . import output as out
from .missing_steps import write_rows

_SUMMARY = ("trace_id", "rank", "step", "kind", "time_ns", "time_share")
_INTERVALS = (
    *("path_id", "step", "offset_ns", "time_ns", "kind", "lane"),
    *("op", "module", "name"),
)


@click.command(
    "critical-path",
    epilog=options.examples(
        "tracedb critical-path run.duckdb",
        "tracedb critical-path run.duckdb --scope run",
        "tracedb critical-path run.duckdb --step 10 --intervals --format csv",
    ),
)
@options.database
@options.step
@click.option(
    "--scope",
    type=click.Choice(tracedb.SCOPES),
    default="step",
    show_default=True,
    help="A step, a whole trace, or a step over all ranks of a run.",
)
@click.option("--intervals", is_flag=True, help="Every interval of the path, in order.")
@out.option
def critical_path(
    database: str, step: int | None, scope: str, *, intervals: bool, output: out.Output
) -> None:
    """Show what bounds each step: its critical path by kind.

    The path of a run goes from rank to rank: at a collective to the one that arrived
    last.
    """
    with tracedb.open(database, read_only=True) as db:
        rows = db.critical_path(step, scope=scope, summary=not intervals)
        write_rows(db, output, rows, _INTERVALS if intervals else _SUMMARY)
