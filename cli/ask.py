"""`tracedb ask`: questions by their name."""

from __future__ import annotations

import click

from . import options
from . import output as out
from .missing_steps import write_rows


@click.command(
    epilog=options.examples(
        "tracedb ask run.duckdb",
        "tracedb ask run.duckdb top_kernel --format csv",
        "tracedb ask run.duckdb waits_for 4711",
        "tracedb ask run.duckdb idle_cause --scenario faster.json",
    )
)
@options.database
@click.argument("question", required=False, metavar="[QUESTION]")
@click.argument("values", required=False, metavar="[VALUE]...", nargs=-1, type=int)
@options.method
@options.scenario
@out.option
def ask(  # noqa: PLR0913 (one parameter an option)
    database: str,
    question: str | None,
    values: tuple[int, ...],
    *,
    method: str | None,
    scenario: str | None,
    output: out.Output,
) -> None:
    """Answer a question, or list the questions.

    Some take values, as the number of a node (graph.node) or of a step (staging.step).
    With a method or scenarios, answers are of these, too, beside what was measured
    (tracedb predict).
    """
    with options.simulated(database, method, scenario) as db:
        rows = db.ask(question, *values) if question else db.questions()
        write_rows(db, output, rows, question=question or "")
