"""`tracedb overheads`: where the host time went, and libraries of overheads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

import tracedb

from . import options
from . import output as out
from .missing_steps import tell_missing_steps, write_rows
from .terminal import tell

if TYPE_CHECKING:
    from typing import Unpack

    from tracedb.part import Within


class _ShowByDefault(click.Group):
    """A group whose default subcommand is `show`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = next((arg for arg in args if not arg.startswith("-")), None)
        if named is not None and named not in self.commands:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_ShowByDefault,
    short_help="Show where the host time of each step went.",
    epilog=options.examples(
        "tracedb overheads run.duckdb",
        "tracedb overheads run.duckdb --step 10 --format csv",
        "tracedb overheads learn a.duckdb b.duckdb -o library.parquet",
    ),
)
def overheads() -> None:
    """Show where the host time of each step went, or learn from it.

    Without a subcommand, runs `show`.
    """


@overheads.command(epilog=options.examples("tracedb overheads show run.duckdb"))
@options.database
@options.step
@options.within
@out.option
def show(
    database: str,
    step: int | None,
    output: out.Output,
    **within: Unpack[Within],
) -> None:
    """Show where the host time of each step went.

    T1 is the time between ops, T2 before the first launch of an op, T3 after its last
    launch, T4 in launch calls, T5 between launches and in ops without launches. Waits
    and idle time follow. Together they add up to the step, to the nanosecond.
    For a trace without steps, they cover its main thread in the whole trace.
    """
    with tracedb.open(database, read_only=True) as db:
        rows = db.overheads(step, **within)
        if rows.is_empty() and step is None:
            whole = db.ask("host_time", **within)
            write_rows(db, output, whole)
            tell_missing_steps(db, set(whole["trace_id"]))
        else:
            write_rows(db, output, rows)


@overheads.command(
    short_help="Learn overheads, for predictions of other runs.",
    epilog=options.examples(
        "tracedb overheads learn a.duckdb b.duckdb -o library.parquet",
        "tracedb overheads learn library.parquet c.duckdb -o library.parquet",
        "tracedb predict new.duckdb --method library --library library.parquet",
    ),
)
@click.argument("sources", metavar="DB...", nargs=-1, required=True)
@options.output("FILE", "Parquet file to write; an existing library is replaced.")
@out.option
def learn(sources: tuple[str, ...], path: str, output: out.Output) -> None:
    """Learn the overheads of databases, and write them to a library.

    The library predicts runs that were never traced. It has the T1 to T5 times of each
    trace, span by span. Sources may be libraries, too. A trace that is in several
    sources counts once.
    """
    from tracedb.overhead_library import learn as write_library

    output.rows(write_library(sources, path))
    tell(f"{path}: written")
