"""`tracedb critical-path`: what bounds a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

import tracedb

from . import options
from . import output as out
from .missing_steps import tell_missing_steps, write_rows

if TYPE_CHECKING:
    from typing import Unpack

    from tracedb.part import Within

_SUMMARY = ("trace_id", "rank", "step", "kind", "time_ns", "time_share")
_INTERVALS = (
    *("trace_id", "step", "offset_ns", "time_ns", "kind", "lane"),
    *("op", "module", "name"),
)


@click.command(
    "critical-path",
    epilog=options.examples(
        "tracedb critical-path run.duckdb",
        "tracedb critical-path run.duckdb --scope run",
        "tracedb critical-path run.duckdb --step 10 --intervals --format csv",
        "tracedb critical-path run.duckdb --scenario faster.json",
    ),
)
@options.database
@options.step
@options.within
@click.option(
    "--scope",
    type=click.Choice(tracedb.SCOPES),
    help="The period of a step (the default, if there are steps), its mark on the "
    "host, a whole trace (the default otherwise), or a step across all ranks of a run.",
)
@click.option(
    "--intervals", is_flag=True, help="List every interval of the path, in order."
)
@options.method
@options.scenario
@out.option
def critical_path(  # noqa: PLR0913 (one parameter an option)
    database: str,
    step: int | None,
    scope: str | None,
    *,
    intervals: bool,
    method: str | None,
    scenario: str | None,
    output: out.Output,
    **within: Unpack[Within],
) -> None:
    """Show what bounds each step: its critical path by kind.

    The path of a period starts when the host and the GPU have finished the previous
    step, and ends when both have finished this one; it may end with GPU work. The path
    of a step covers only its mark on the host. For a trace without steps, the path is
    that of the whole trace. The path of a run moves between ranks:
    at a collective, to the rank that arrived last. With a method or scenarios, the
    output shows the path of the predicted step next to the measured one (see `tracedb
    predict`; the default method is replay).
    """
    method = method or ("replay" if scenario else None)
    with options.simulated(database, method, scenario) as db:
        rows = db.critical_path(
            step, scope=scope, summary=not intervals, method=method, **within
        )
        brief = _INTERVALS if intervals else _SUMMARY
        if method:
            brief = ("scenario", "method", *brief, "measured_ns")
        write_rows(db, output, rows, brief)
        if scope is None:
            whole = set(rows.filter(rows["scope"] == "trace")["trace_id"])
            tell_missing_steps(db, whole)
