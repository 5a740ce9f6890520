"""`tracedb report`: a run as one HTML file."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

import tracedb

from . import options
from .terminal import tell

if TYPE_CHECKING:
    from tracedb.whatif.scenario import Edit


@click.command(
    epilog=options.examples(
        "tracedb report run.duckdb -o report.html",
        "tracedb report run.duckdb -o second.html --run 2",
        "tracedb report run.duckdb -o rank3.html --rank 3",
        "tracedb report after.duckdb -o change.html --against before.duckdb",
        "tracedb report run.duckdb -o report.html --scenario faster.toml",
    )
)
@options.database
@options.output("FILE", "HTML file to write.")
@click.option(
    "--run",
    type=int,
    metavar="N",
    help="The run (`tracedb sql DB 'FROM staging.run'`). Default: the largest.",
)
@click.option("--rank", type=int, metavar="N", help="Only rank N of the run.")
@click.option(
    "--trace",
    type=int,
    metavar="N",
    help="Only the file with trace_id N (see `tracedb info`).",
)
@click.option(
    "--against",
    metavar="DB",
    type=click.Path(),
    help="Also show what changed since the largest run of this database (see `tracedb "
    "diff`).",
)
@click.option(
    "--scenario",
    metavar="FILE",
    help="Also show what the scenarios in this file would do, side by side.",
)
@click.option(
    "--stored",
    is_flag=True,
    help="Also show the scenarios stored in the database (reference.scenario).",
)
def report(  # noqa: PLR0913 (one parameter an option)
    database: str,
    path: str,
    run: int | None,
    *,
    rank: int | None,
    trace: int | None,
    against: str | None,
    scenario: str | None,
    stored: bool,
) -> None:
    """Write a report of a run as one HTML file.

    The report starts with the output of `tracedb summary`. A timeline of all threads,
    streams and ranks shows the critical path. Charts and tables show what bounds the
    steps, each with its SQL.
    """
    with ExitStack() as stack:
        db, *others = (
            stack.enter_context(tracedb.open(name, read_only=True))
            for name in (database, against)
            if name is not None
        )
        done = db.report(
            path,
            run,
            rank=rank,
            trace=trace,
            against=others[0] if others else None,
            scenarios=_edits(db, scenario, stored=stored),
        )
    size = f"{done['bytes'] / 1e6:.1f} MB"
    which = ", ".join(
        filter(None, [f"run {done['run_id']}", done["part"], done["run"]])
    )
    tell(f"{path}: report of {which} ({size})")
    for note in done["notes"]:
        tell(note)
    if done["other_runs"]:
        tell(f"{done['other_runs']} more in the database; choose with --run")


def _edits(
    database: tracedb.Database, path: str | None, *, stored: bool
) -> list[Edit] | None:
    """The edits of a file and of the database, if either is asked for."""
    from tracedb.whatif.scenario import read_scenarios

    if path is None and not stored:
        return None
    own = database.stored_edits() if stored else []
    return [*own, *(read_scenarios(path) if path else ())]
