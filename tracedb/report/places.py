"""The places of the critical paths, computed once for all parts of a report.

What takes the time, what is on the path, and the timeline show them. Each of their
queries would compute them anew, which would take two fifths of the time of a report.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracedb import catalog

if TYPE_CHECKING:
    import duckdb

_PLACES = "critical_path.interval_place"
READERS = ("critical_path.interval_op", "question.path_interval", "question.lever")
_NAMES = re.compile(rf"\b(?:{'|'.join(map(re.escape, (_PLACES, *READERS)))})\b")


def put(connection: duckdb.DuckDBPyConnection) -> None:
    """Store the places on measured paths, and make the readers of them.

    The table and the views are temporary. Queries `over` them give the same answers.
    """
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {stored(_PLACES)} AS "
        f"FROM {_PLACES} WHERE variant_id = 0"
    )
    for name in READERS:
        relation = catalog.find(name)
        connection.execute(
            f"CREATE OR REPLACE TEMP VIEW {stored(name)} "
            f"({', '.join(relation.columns)}) AS {over(relation.query)}"
        )


def over(query: str) -> str:
    """The query with the stored places, and the readers of them.

    >>> over("FROM question.lever")
    'FROM report_question_lever'
    """
    return _NAMES.sub(lambda found: stored(found[0]), query)


def stored(name: str) -> str:
    """The name of the temporary relation."""
    return f"report_{name.replace('.', '_')}"
