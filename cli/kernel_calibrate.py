"""`tracedb kernels calibrate`: learn kernel times from traces of another database."""

from __future__ import annotations

import click

from . import options
from . import output as out

_LEARNT = ("hardware", "family", "basis", "trace_count", "shape_count", "factor")


@click.command(
    short_help="Learn kernel times from traces of another database.",
    epilog=options.examples(
        "tracedb kernels calibrate run.duckdb --from before.duckdb"
    ),
)
@options.database
@click.option(
    "--from",
    "source",
    type=click.Path(),
    metavar="OTHER",
    required=True,
    help="Database whose traces to learn from.",
)
@out.option
def calibrate(database: str, source: str, output: out.Output) -> None:
    """Calibrate the kernel times of DB with the traces of OTHER, on the same GPUs.

    Each trace is already calibrated with its own kernels at ingest. The traces of OTHER
    count where that gives little data. The output shows the factors learned: how much
    longer the kernels of a family took than the roofline or the model predicts, as a
    mean over shapes. `tracedb ask DB kernel_error` shows the resulting accuracy.
    """
    with options.existing(database) as db:
        output.rows(db.calibrate(source), _LEARNT)
