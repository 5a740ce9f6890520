"""`tracedb kernels apply`: predict the kernels of a database with trained models."""

from __future__ import annotations

import click

import tracedb

from . import options
from . import output as out

_COVERAGE = (
    *("trace_id", "family", "kernel_count", "time_ns", "time_share"),
    *("model_share", "roofline_share", "uncovered_share"),
)


@click.command(epilog=options.examples("tracedb kernels apply run.duckdb models/"))
@options.database
@click.argument("models", metavar="MODELS", type=click.Path())
@out.option
def apply(database: str, models: str, output: out.Output) -> None:
    """Predict the kernels of DB with MODELS, a file or a folder of them.

    Their times replace those of the roofline wherever a model knows the hardware and
    the shape, in all that is predicted. Shown is how much of the time of GPU work is
    covered, by family.
    """
    with tracedb.open(database) as db:
        output.rows(db.apply_models(models), _COVERAGE)
