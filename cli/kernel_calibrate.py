"""`tracedb kernels calibrate`: bring predicted kernel times to those of a trace."""

from __future__ import annotations

import click

from . import options
from . import output as out
from .terminal import tell

_CONSTANTS = (
    *("hardware", "basis", "scale", "offset_ns", "kernel_count", "other_count"),
    *("gmae_before_share", "gmae_after_share", "mape_before_share"),
    *("mape_after_share", "is_applied"),
)


@click.command(
    short_help="Fit predictions to some kernels of a trace.",
    epilog=options.examples(
        "tracedb kernels calibrate run.duckdb",
        "tracedb kernels calibrate run.duckdb --kernels 40 --trace 2",
    ),
)
@options.database
@click.option(
    "--kernels",
    type=int,
    default=20,
    show_default=True,
    metavar="N",
    help="Fit on so many kernels.",
)
@click.option(
    "--trace", type=int, metavar="N", help="Fit on this trace, and calibrate it alone."
)
@out.option
def calibrate(
    database: str, kernels: int, trace: int | None, output: out.Output
) -> None:
    """Fit a factor and an offset to the measured times of some kernels of DB.

    For each hardware, and for times of the roofline and of models apart. The errors
    before and after are of the kernels that were not fitted on; the constants are used
    where neither became more. Without --trace they are for all traces.
    """
    with options.existing(database) as db:
        rows = db.calibrate(kernels, trace)
        output.rows(rows, _CONSTANTS)
        if not rows["is_applied"].all():
            tell("constants that make an error larger are not applied")
