"""`tracedb slack`: what may end later without making a step longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

import tracedb

from . import options
from . import output as out
from .missing_steps import write_rows
from .terminal import tell

if TYPE_CHECKING:
    from typing import Unpack

    from tracedb.part import Within

_BRIEF = (
    *("trace_id", "rank", "step", "slack_ns", "run_slack_ns", "duration_ns"),
    "offset_ns",
    *("kind", "lane", "op", "name", "node_id"),
)
_OF_RANK = tuple(column for column in _BRIEF if column != "run_slack_ns")


@click.command(
    epilog=options.examples(
        "tracedb slack run.duckdb --step 10",
        "tracedb slack run.duckdb --step 10 --kind kernel",
        "tracedb slack run.duckdb --format csv",
    )
)
@options.database
@options.step
@options.within
@click.option(
    "--kind",
    type=click.Choice(tracedb.NODE_KINDS),
    help="Only nodes of this kind, as graph.node has it.",
)
@out.option
def slack(
    database: str,
    step: int | None,
    *,
    kind: str | None,
    output: out.Output,
    **within: Unpack[Within],
) -> None:
    """Show how much later each node could end (its slack).

    That is, before a step ends later. Nodes are ops, calls and GPU ops; the least slack
    comes first, and of equal slack the longest: those of slack 0 are on a critical
    path. A step is its mark on the host; in a trace without steps the end of the trace
    counts. It is of each rank alone; where ranks meet in collectives on GPUs, run_slack
    is until the run's step ends later, which is on its last rank. No step depends on
    what stands last, without a slack.
    """
    with tracedb.open(database, read_only=True) as db:
        found = db.slack(step, kind=kind, **within)
        in_run = found["run_slack_ns"].count() > 0
        write_rows(db, output, found, _BRIEF if in_run else _OF_RANK)
        meeting = db.relation("graph.clock")["trace_id"]
        if in_run:
            tell(
                "slack is until the own rank is later, run_slack until the run is "
                "(tracedb ask DB rank_slack)"
            )
        elif found["trace_id"].is_in(meeting.to_list()).any() and len(meeting) > 1:
            tell(
                "slack is until the own rank is later; ranks that wait for it in "
                "collectives may be later before (tracedb ask DB straggler)"
            )
