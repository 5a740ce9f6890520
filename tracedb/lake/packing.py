"""Pack the small relations of a trace into one file.

Each file has a cost, whatever its size: object stores charge per file, and listing,
opening and planning take time. So only a relation with many rows has its own Parquet
file. All others of a trace share one with a single row, and a column per relation,
which is the list of its rows. The rows for questions of the fleet are in another such
file, which has the same columns for all traces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracedb.duck import literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

MOST_ROWS = 50_000
"""A relation with more rows has its own file, of about 100 kB or more."""
SMALL = "small.parquet"
"""The file of all relations with fewer rows."""
FLEET = "fleet.parquet"
"""The file that questions of the fleet read."""


def file_of(relation: str) -> str:
    """The name of the file of a single relation."""
    return f"{relation}.parquet"


def column_of(relation: str) -> str:
    """The column of a relation in a shared file.

    >>> column_of("staging.step")
    'staging_step'
    """
    return relation.replace(".", "_")


def packed(queries: Mapping[str, str]) -> str:
    """The query for a shared file, given the query of each relation."""
    lists = (
        f"(SELECT list(kept) FROM ({query}) AS kept) AS {column_of(name)}"
        for name, query in queries.items()
    )
    return f"SELECT {', '.join(lists)}"


def unpacked(relation: str, source: str) -> str:
    """A query for the rows of a relation, from a source with shared files' columns."""
    column = column_of(relation)
    return f"SELECT unnest({column}, max_depth := 2) FROM {source}"


def files(paths: Iterable[str | Path], *options: str) -> str:
    """The table function call that reads files."""
    listed = ", ".join(literal(str(path)) for path in paths)
    return f"read_parquet({', '.join([f'[{listed}]', *options, _NO_FOLDERS])})"


_NO_FOLDERS = "hive_partitioning = false"
"""The names of folders are ignored, because the manifest has the same values."""
