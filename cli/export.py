"""`tracedb export`: a run for other tools."""

from __future__ import annotations

import click

from . import options
from .terminal import tell


@click.command(
    epilog=options.examples(
        "tracedb export run.duckdb -o trace.json",
        "tracedb export run.duckdb -o step.json.gz --step 10 --method replay",
        "tracedb export run.duckdb -o faster.json --scenario faster.json",
    )
)
@options.database
@options.output("FILE", "The trace; `.gz` compresses it.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["chrome"]),
    default="chrome",
    show_default=True,
    help="`chrome` is what Perfetto's UI opens.",
)
@options.step
@click.option(
    "--run",
    type=int,
    metavar="N",
    help="The run (`tracedb sql DB 'FROM raw.run'`); by default the largest.",
)
@options.method
@options.scenario
def export(  # noqa: PLR0913 (one parameter an option)
    database: str,
    path: str,
    format_: str,
    step: int | None,
    run: int | None,
    *,
    method: str | None,
    scenario: str | None,
) -> None:
    """Write a run or a step for a trace viewer.

    All events are as they were recorded, ranks by one clock. What is critical has
    `critical` among its arguments, and `slack_ns` says how much longer anything could
    take. The critical path is a process of its own, and flows lead along it; so is what
    a method or a scenario predicts.
    """
    del format_
    with options.simulated(database, method, scenario) as db:
        count = db.export(path, step=step, run=run)
    tell(f"{path}: {count:,} events, for https://ui.perfetto.dev")
