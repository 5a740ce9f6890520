"""`tracedb ask`: questions by their name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from . import options
from . import output as out
from .missing_steps import write_rows
from .terminal import tell

if TYPE_CHECKING:
    from typing import Unpack

    from tracedb.part import Part


def _questions(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[str]:
    """The questions that begin so, as a shell completes them: from a list of names."""
    from tracedb import public

    names = (
        name.split(".") for names in public.by_subject().values() for name in names
    )
    return [
        name for layer, name in names if layer == "question" and name.startswith(begun)
    ]


@click.command(
    epilog=options.examples(
        "tracedb ask run.duckdb",
        "tracedb ask run.duckdb top_kernel --format csv",
        "tracedb ask run.duckdb idle_cause --step 10 --rank 1",
        "tracedb ask run.duckdb waits_for 4711",
        "tracedb ask run.duckdb idle_cause --scenario faster.json",
    )
)
@options.database
@click.argument(
    "question", required=False, metavar="[QUESTION]", shell_complete=_questions
)
@click.argument("values", required=False, metavar="[VALUE]...", nargs=-1, type=int)
@options.step
@options.within
@options.device
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
    **part: Unpack[Part],
) -> None:
    """Answer a question, or list the questions.

    Some questions take values, such as the number of a node (graph.node) or of a step
    (staging.step). With a method or scenarios, the answer also has the predicted
    values, next to the measured ones (see `tracedb predict`). The options for a step,
    rank, run, trace or device select rows with that number; for answers without such a
    column, they select what is counted (`Counts:` in `tracedb schema question.NAME`).
    """
    with options.simulated(database, method, scenario) as db:
        if question is None:
            output.questions(db.questions())
            tell(
                "`tracedb schema question.NAME` shows the full description and the "
                "columns"
            )
        else:
            rows = db.ask(question, *values, **part)
            is_part = rows.is_empty() and any(n is not None for n in part.values())
            of = db.ask(question, *values).height if is_part else 0
            write_rows(db, output, rows, question=question, of=of)
