"""`tracedb predict`: the time of each step, measured and predicted."""

from __future__ import annotations

import click

import tracedb

from . import options
from . import output as out
from .missing_steps import write_rows

_STEPS = (
    *("rung", "trace_id", "step", "measured_ns", "predicted_ns", "error_share"),
    *("as_measured_share", "unexplained_ns"),
)
_SCORES = (
    *("rung", "grouping", "gpu", "trace_id", "step_count"),
    *("gmae_share", "mape_share", "p90_share", "worst_share", "bias_share"),
    "as_measured_share",
)
_BANDS = (
    *("rung", "trace_id", "step", "measured_ns", "low_ns", "predicted_ns", "high_ns"),
    *("is_inside", "other_count"),
)


@click.command(
    epilog=options.examples(
        "tracedb predict run.duckdb",
        "tracedb predict run.duckdb --rung other_steps --format json",
        "tracedb predict run.duckdb --rung other_steps --bands",
        "tracedb predict run.duckdb --evaluate",
    )
)
@options.database
@click.option(
    "--rung",
    type=click.Choice(tracedb.RUNGS),
    metavar="RUNG",
    help="Only this rung; else replay, statistics and full.",
)
@click.option(
    "--evaluate",
    is_flag=True,
    help="How well each rung predicts, in all, by GPU, run and trace.",
)
@click.option(
    "--bands",
    is_flag=True,
    help="Between which times each step is expected, four times of five.",
)
@out.option
def predict(
    database: str,
    rung: str | None,
    *,
    evaluate: bool,
    bands: bool,
    output: out.Output,
) -> None:
    """Show each step's time, measured and predicted.

    The rung replay takes host and kernel times as measured and computes every wait anew
    from its cause; statistics takes host times from the run's statistics; full also
    predicts kernel times from shapes. The rungs other_steps, other_ranks and shared
    learn host times from other steps of the trace, other ranks of the run, other runs
    with such a GPU alone; published is the algorithm of Lin et al. 2022. What is taken
    as measured, and what no cause explains, stands beside.
    """
    if evaluate and (rung or bands):
        raise click.UsageError("--evaluate is of all rungs, and stands alone")
    with tracedb.open(database, read_only=True) as db:
        if evaluate:
            write_rows(db, output, db.evaluate(), _SCORES)
        elif bands:
            write_rows(db, output, db.bands(rung), _BANDS)
        else:
            write_rows(db, output, db.predict(rung), _STEPS)
