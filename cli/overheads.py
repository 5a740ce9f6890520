"""`tracedb overheads`: where the host's time went, and what others can learn of it."""

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


class _ShowByDefault(click.Group):
    """Subcommands, of which the one that shows is meant where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = next((arg for arg in args if not arg.startswith("-")), None)
        if named is not None and named not in self.commands:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_ShowByDefault,
    short_help="Show where each step's host time went.",
    epilog=options.examples(
        "tracedb overheads run.duckdb",
        "tracedb overheads run.duckdb --step 10 --format csv",
        "tracedb overheads learn a.duckdb b.duckdb -o library.parquet",
    ),
)
def overheads() -> None:
    """Show where each step's host time went (show), or learn from it (learn).

    Without one of these words it shows.
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
    """Show where each step's host time went.

    T1 is between ops, T2 before an op's first launch, T3 after its last, T4 in launch
    calls, T5 between launches and in ops without any; then waits and idle time.
    Together they are the step, to the nanosecond.
    """
    with tracedb.open(database, read_only=True) as db:
        rows = db.overheads(step, **within)
        write_rows(db, output, rows)


@overheads.command(
    short_help="Write overheads for predictions elsewhere.",
    epilog=options.examples(
        "tracedb overheads learn a.duckdb b.duckdb -o library.parquet",
        "tracedb overheads learn library.parquet c.duckdb -o library.parquet",
        "tracedb predict new.duckdb --method library --library library.parquet",
    ),
)
@click.argument("sources", metavar="DB...", nargs=-1, required=True)
@options.output("FILE", "Parquet file to write; a library that is there is replaced.")
@out.option
def learn(sources: tuple[str, ...], path: str, output: out.Output) -> None:
    """Write the overheads of databases into a library, for runs never traced.

    A library, too, can be learnt from. What a trace says of T1 to T5 goes in, span by
    span; one that is in several databases counts once.
    """
    from tracedb.overhead_library import learn as write_library

    output.rows(write_library(sources, path))
    tell(f"{path}: written")
