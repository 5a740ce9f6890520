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
    short_help="Predict the kernel times of a database.",
    epilog=options.examples(
        "tracedb kernels apply run.duckdb models/",
        "tracedb kernels apply run.duckdb",
    ),
)
@options.database
@click.argument("models", metavar="[MODELS]", type=click.Path(), required=False)
@out.option
def apply(database: str, models: str | None, output: out.Output) -> None:
    """Predict the kernel times of DB with MODELS, a file or a folder of files.

    Where a model matches the op and the hardware, its times replace the roofline's and
    those of models that were applied earlier, in every prediction. The models that ship
    with tracedb predict all other kernels, as at ingest. Without MODELS, they predict
    all kernels. The output shows how much GPU time is covered, by family.
    """
    with options.existing(database) as db:
        rows = db.apply_models(models)
        output.rows(rows, _COVERAGE)
        if not (rows["model_share"] > 0).any():
            name = models or "shipped models"
            tell(
                f"{name}: no model matches these ops on this hardware; all times are "
                "by roofline"
            )
