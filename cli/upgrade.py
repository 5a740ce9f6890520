"""`tracedb upgrade`: recompute a database from another version."""

from __future__ import annotations

from pathlib import Path

import click

import tracedb
from tracedb.near import meant, near_path

from . import options
from .terminal import tell


@click.command(epilog=options.examples("tracedb upgrade run.duckdb"))
@options.database
def upgrade(database: str) -> None:
    """Upgrade a database from another version.

    Recomputes all layers except raw, which holds the files as they were read.
    """
    if not Path(database).is_file():
        near = meant(near_path(database))
        raise tracedb.DatabaseError(f"{database}: no such database{near}")
    with tracedb.open(database):
        tell(f"{database}: up to date with tracedb {tracedb.__version__}")
