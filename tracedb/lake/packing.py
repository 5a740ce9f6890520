"""How the relations of a trace share files.

Where many files are, each costs: an object store charges for it, and who lists, opens
and plans pays for each, whatever is in it. So a relation has a Parquet file of its own
where it has many rows. All others of a trace share one: it has one row, and a column
for each relation, the list of its rows. What a lake keeps for questions of the fleet
is in a file of the same form, which all traces have, with the same columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracedb.duck import literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

MOST_ROWS = 50_000
"""With more, a relation has its own file: of some 100 kB, and more."""
SMALL = "small.parquet"
"""The file of all relations with fewer."""
FLEET = "fleet.parquet"
"""The file of what questions of the fleet read."""


def file_of(relation: str) -> str:
    """The name of the file that has the rows of one relation alone."""
    return f"{relation}.parquet"


def column_of(relation: str) -> str:
    """The column that has the rows of a relation, in a file that several share.

    >>> column_of("staging.step")
    'staging_step'
    """
    return relation.replace(".", "_")


def packed(queries: Mapping[str, str]) -> str:
    """The query of a file that several relations share, of the query of each."""
    lists = (
        f"(SELECT list(kept) FROM ({query}) AS kept) AS {column_of(name)}"
        for name, query in queries.items()
    )
    return f"SELECT {', '.join(lists)}"


def unpacked(relation: str, source: str) -> str:
    """The rows of a relation, of what has the columns of files that several share."""
    column = column_of(relation)
    return f"SELECT unnest({column}, max_depth := 2) FROM {source}"


def files(paths: Iterable[str | Path], *options: str) -> str:
    """What a query reads files by."""
    listed = ", ".join(literal(str(path)) for path in paths)
    return f"read_parquet({', '.join([f'[{listed}]', *options, _NO_FOLDERS])})"


_NO_FOLDERS = "hive_partitioning = false"
"""What names of folders say, the manifest says as well."""
