"""`tracedb kernels`: models of kernel times, trained on measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from . import options
from . import output as out
from .kernel_apply import apply
from .kernel_calibrate import calibrate
from .kernel_cpu import cpu
from .kernel_hardware import hardware
from .terminal import tell

if TYPE_CHECKING:
    import polars as pl

    from tracedb.kernels.model import Model

_BRIEF_SCORES = (
    *("split", "family", "op", "dtype", "hardware", "predictor"),
    *("gmae_share", "mape_share", "p90_share", "coverage_share", "rows", "source"),
)
_BRIEF_MODELS = (
    *("family", "op", "dtype", "measured", "hardware", "shapes"),
    *("gmae_share", "mape_share", "p90_share", "source", "software"),
)
_FAMILY = "Only this family; may be given several times."

_measured = click.argument(
    "paths", metavar="PATH...", type=click.Path(), nargs=-1, required=True
)
_models = click.argument(
    "models", metavar="[MODELS]", type=click.Path(), required=False
)


@click.group(
    short_help="Train and apply models of kernel times.",
    epilog=options.examples(
        "tracedb kernels train measurements/ -o models/",
        "tracedb kernels evaluate measurements/gemm.parquet",
        "tracedb kernels list models/",
        "tracedb kernels apply run.duckdb models/",
        "tracedb kernels calibrate run.duckdb",
        "tracedb kernels hardware",
        "tracedb kernels cpu -o this-cpu/",
    ),
)
def kernels() -> None:
    """Train, evaluate, list and apply models of kernel times.

    Measurements are Parquet files from `tracedb microbench`, or files of public data
    sets (docs/kernels.md lists the formats).
    """


for _command in (apply, calibrate, cpu, hardware):
    kernels.add_command(_command)


@kernels.command(
    epilog=options.examples(
        "tracedb kernels train measurements/ -o models/",
        "tracedb kernels train a100.parquet h100.parquet -o models/",
    )
)
@_measured
@options.output("FOLDER", "Folder for the models, one file each.")
@out.option
def train(paths: tuple[str, ...], path: str, output: out.Output) -> None:
    """Train a model for each op and hardware in the measurements.

    With fewer than 25 shapes, a model is only a calibrated roofline. With more shapes,
    it also has regressors for the residual. Measurements that cannot be used are
    reported on stderr.
    """
    from tracedb.kernels import train as train_models

    done = train_models(paths, path, tell)
    for reason, count in done.measurements.dropped.items():
        tell(f"dropped {count:,} rows: {reason}")
    for name in done.measurements.skipped:
        tell(f"skipped {name}: no measurements")
    for name in done.too_few:
        tell(f"too few shapes for a model: {name}")
    for why in done.doubtful:
        tell(f"doubtful: {why}")
    output.rows(_listed(done.models), _BRIEF_MODELS)


@kernels.command(
    epilog=options.examples(
        "tracedb kernels evaluate measurements/ --family gemm",
        "tracedb kernels evaluate gemm.parquet --split largest --format csv",
    )
)
@_measured
@click.option("--family", "families", multiple=True, metavar="FAMILY", help=_FAMILY)
@click.option(
    "--split",
    "splits",
    multiple=True,
    type=click.Choice(["random", "shape", "largest", "hardware", "campaign"]),
    help="Only this split; may be given several times.",
)
@out.option
def evaluate(
    paths: tuple[str, ...],
    families: tuple[str, ...],
    splits: tuple[str, ...],
    output: out.Output,
) -> None:
    """Score models on held-out measurements.

    The splits hold out a random fifth of the shapes, a fifth of the combinations of
    related sizes, the largest fifth, and each device in turn. For comparison, the
    output also scores the data-sheet roofline, the calibrated roofline, and a neural
    network on the logarithms of the sizes.
    """
    from tracedb.kernels import evaluate as score

    output.rows(score(paths, families, splits, tell), _BRIEF_SCORES)


@kernels.command(
    "list",
    short_help="List models and what they were trained on.",
    epilog=options.examples(
        "tracedb kernels list models/", "tracedb kernels list --format csv"
    ),
)
@_models
@out.option
def list_models(models: str | None, output: out.Output) -> None:
    """List models: what each was trained on, and its scores on held-out data.

    Without MODELS, lists the models that ship with tracedb, with their licences.
    """
    from tracedb.kernels import load, shipped

    found = load(models) if models else shipped()
    output.rows(_listed(found.models), _BRIEF_MODELS)


@kernels.command(epilog=options.examples("tracedb kernels show models/MODEL.npz"))
@click.argument("model", metavar="MODEL", type=click.Path())
@out.option
def show(model: str, output: out.Output) -> None:
    """Show one model in full: constants, range, scores, provenance."""
    import polars as pl

    from tracedb.kernels import described, load_model

    facts = list(described(load_model(model)))
    output.rows(pl.DataFrame(facts, schema=["part", "name", "value"], orient="row"))


def _listed(models: tuple[Model, ...]) -> pl.DataFrame:
    import polars as pl

    from tracedb.kernels import summary

    rows: list[dict[str, Any]] = [summary(model) for model in models]
    return pl.DataFrame(rows, infer_schema_length=None)
