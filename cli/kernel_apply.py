"""`tracedb kernels apply`: predict the kernels of a database with trained models."""

from __future__ import annotations

import click

from . import options
from . import output as out
from .terminal import tell

_COVERAGE = (
    *("trace_id", "family", "gpu_op_count", "time_ns", "time_share"),
    *("model_share", "roofline_share", "uncovered_share"),
)


@click.command(
    short_help="Predict the kernels of a database.",
    epilog=options.examples(
        "tracedb kernels apply run.duckdb models/",
        "tracedb kernels apply run.duckdb",
    ),
)
@options.database
@click.argument("models", metavar="[MODELS]", type=click.Path(), required=False)
@out.option
def apply(database: str, models: str | None, output: out.Output) -> None:
    """Predict the kernels of DB with MODELS, a file or a folder of them.

    Their times replace those of the roofline wherever a model is of such an op on such
    hardware, in all that is predicted, and those of models that were applied before.
    What they say nothing of is predicted by the models that come with tracedb, as
    everything is at ingest, and without MODELS. Shown is how much of the time of GPU
    work is covered, by family.
    """
    with options.existing(database) as db:
        rows = db.apply_models(models)
        output.rows(rows, _COVERAGE)
        if not (rows["model_share"] > 0).any():
            name = models or "shipped models"
            tell(f"{name}: none is of such ops on such hardware: all by roofline")
