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
    help="Database whose traces teach.",
)
@out.option
def calibrate(database: str, source: str, output: out.Output) -> None:
    """Let the kernel times of DB learn from the traces of OTHER, on such GPUs.

    A trace teaches itself at ingest; what others teach counts where it has little to
    say. Shown is what DB has been taught: by which factor kernels of a family took
    longer than the roofline or the model says, in the mean over their shapes.
    How well all that predicts: `tracedb ask DB kernel_error`.
    """
    with options.existing(database) as db:
        output.rows(db.calibrate(source), _LEARNT)
