"""`tracedb slack`: what could end later without delaying a step."""

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
    *("kind", "name", "op", "offset_ns", "lane", "node_id"),
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
    help="Only nodes of this kind (see graph.node).",
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

    Slack is the time by which a node could end later without delaying the end of its
    step. Nodes are ops, calls and GPU ops. The least slack comes first, then the
    longest node; nodes with slack 0 are on a critical path. A step is its mark on the
    host; in a trace without steps, the end of the trace counts. Slack considers each
    rank alone. Where ranks meet in GPU collectives, run_slack is the slack until the
    step ends later on the last rank of the run. Nodes without slack, at the end, are
    those that no step depends on.
    """
    with tracedb.open(database, read_only=True) as db:
        found = db.slack(step, kind=kind, **within)
        in_run = found["run_slack_ns"].count() > 0
        write_rows(db, output, found, _BRIEF if in_run else _OF_RANK)
        meeting = db.relation("graph.clock")["trace_id"]
        if in_run:
            tell(
                "slack is the time until this rank is delayed, run_slack until the run "
                "is (tracedb ask DB rank_slack)"
            )
        elif found["trace_id"].is_in(meeting.to_list()).any() and len(meeting) > 1:
            tell(
                "slack is the time until this rank is delayed; ranks that wait for it "
                "in collectives may be delayed earlier (tracedb ask DB straggler)"
            )
