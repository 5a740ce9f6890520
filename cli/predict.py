"""`tracedb predict`: the time of each step, measured and predicted."""

from __future__ import annotations

import click

import tracedb

from . import options
from . import output as out
from .missing_steps import write_rows

_BRIEF = (
    "rung",
    "trace_id",
    "step",
    "measured_ns",
    "predicted_ns",
    "error_share",
    "unexplained_ns",
)


@click.command(
    epilog=options.examples(
        "tracedb predict run.duckdb",
        "tracedb predict run.duckdb --rung replay --format json",
    )
)
@options.database
@click.option(
    "--rung", type=click.Choice(tracedb.RUNGS), help="Only this rung; else all three."
)
@out.option
def predict(database: str, rung: str | None, output: out.Output) -> None:
    """Show each step's time, measured and predicted.

    The rung replay takes host and kernel times as measured and computes every wait anew
    from its cause; statistics takes host times from the trace's statistics; full also
    predicts kernel times from shapes. What no cause explains stands beside.
    """
    with tracedb.open(database, read_only=True) as db:
        rows = db.predict(rung)
        write_rows(db, output, rows, _BRIEF)
