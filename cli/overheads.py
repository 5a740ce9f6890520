"""`tracedb overheads`: where the host's time went."""

from __future__ import annotations

import click

import tracedb

from . import options
from . import output as out
from .missing_steps import write_rows


@click.command(
    epilog=options.examples(
        "tracedb overheads run.duckdb",
        "tracedb overheads run.duckdb --step 10 --format csv",
    )
)
@options.database
@options.step
@out.option
def overheads(database: str, step: int | None, output: out.Output) -> None:
    """Show where each step's host time went.

    T1 is between ops, T2 before an op's first launch, T3 after its last, T4 in launch
    calls, T5 between launches and in ops without any; then waits and idle time.
    Together they are the step, to the nanosecond.
    """
    with tracedb.open(database, read_only=True) as db:
        rows = db.overheads(step)
        write_rows(db, output, rows)
