"""`tracedb upgrade`: compute a database of another version anew."""

from __future__ import annotations

from pathlib import Path

import click

import tracedb

from . import options
from .terminal import tell


@click.command(epilog=options.examples("tracedb upgrade run.duckdb"))
@options.database
def upgrade(database: str) -> None:
    """Bring a database of another version up to this one.

    All layers are computed anew but raw, which holds the files as they were read.
    """
    if not Path(database).is_file():
        raise tracedb.DatabaseError(f"{database}: no such database")
    with tracedb.open(database):
        tell(f"{database}: ready for tracedb {tracedb.__version__}")
