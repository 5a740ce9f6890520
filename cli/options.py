"""What several commands share, defined once: arguments, and examples in their help."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import tracedb

database = click.argument("database", metavar="DB", type=click.Path())
step = click.option(
    "--step", type=int, metavar="N", help="Only the step ProfilerStep#N."
)


def examples(*lines: str) -> str:
    r"""Return command lines as the end of a command's help.

    >>> examples("tracedb info run.duckdb")
    '\x08\nExample:\n  tracedb info run.duckdb'
    """
    # The character keeps click from filling the lines into a paragraph.
    return "\n  ".join(["\b\nExample:", *lines])


def existing(database: str) -> tracedb.Database:
    """Open a database to change it; one that is missing is not made."""
    import tracedb

    if not Path(database).is_file():
        raise tracedb.DatabaseError(
            f"{database}: no such database; make it with `tracedb ingest`"
        )
    return tracedb.open(database)
