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


@click.command(
    epilog=options.examples(
        "tracedb predict run.duckdb",
        "tracedb predict run.duckdb --rung other_steps --format json",
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
@out.option
def predict(
    database: str, rung: str | None, *, evaluate: bool, output: out.Output
) -> None:
    """Show each step's time, measured and predicted.

    The rung replay takes host and kernel times as measured and computes every wait anew
    from its cause; statistics takes host times from the run's statistics; full also
    predicts kernel times from shapes. The rungs other_steps, other_ranks and shared
    learn host times from other steps of the trace, other ranks of the run, other runs
    with such a GPU alone; published is the algorithm of Lin et al. 2022. What is taken
    as measured, and what no cause explains, stands beside.
    """
    if evaluate and rung:
        raise click.UsageError("--evaluate is of all rungs: leave out --rung")
    with tracedb.open(database, read_only=True) as db:
        rows = db.evaluate() if evaluate else db.predict(rung)
        write_rows(db, output, rows, _SCORES if evaluate else _STEPS)
