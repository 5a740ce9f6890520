"""Find the file, and the event in it, that a relation cannot be computed from.

Layers are designed to compute from any input. If one fails all the same, the user must
know what to leave out. An error aborts the transaction, so files are tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from tracedb import catalog
from tracedb.duck import scalar
from tracedb.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from tracedb.ingest.files import Source

    Trial = Callable[[list[Source], int | None], int]

# Finding the event in larger files would take minutes.
_MOST_EVENTS = 50_000


class UncomputedError(Exception):
    """DuckDB could not compute a relation from the loaded events."""


def computing(
    connection: duckdb.DuckDBPyConnection,
    trace_ids: Sequence[int],
    only: Container[str],
) -> Iterator[str]:
    """Like `catalog.compute`, but raises `UncomputedError` if the traces prevent it."""
    name = ""
    try:
        for name in catalog.compute(connection, trace_ids, only):
            yield name
    except duckdb.OperationalError:
        raise  # not the traces' fault
    except duckdb.Error as error:
        why = str(error).splitlines()[0]
        raise UncomputedError(f"{name} cannot be computed: {why}") from error


def blamed(
    error: UncomputedError, sources: Sequence[Source], attempt: Trial
) -> IngestError:
    """The error for the user, with the file and the event that cause it.

    `attempt` ingests the first events of some files (None: all of them), rolls back,
    and returns their number.
    """
    found = next((s for s in sources if _fails([s], None, attempt)), None)
    if found is None:
        names = ", ".join(source.name for source in sources)
        return _error(f"{names}, only together", error)
    count = _count(found, attempt)
    event = "" if count is None else f", event {count:,} of the file"
    return _error(f"{found.name}{event}", error)


def keep(
    connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int], most: int
) -> None:
    """Keep only the first `most` events of each trace."""
    for trace_id in trace_ids:
        query = "SELECT min(event_id) FROM raw.event WHERE trace_id = ?"
        first = scalar(connection, query, [trace_id])
        connection.execute(
            "DELETE FROM raw.event WHERE trace_id = ? AND event_id >= ?",
            [trace_id, (first or 0) + most],
        )


def _count(source: Source, attempt: Trial) -> int | None:
    """The smallest number of first events with which a file fails; None if unknown."""
    try:
        least, most = 0, attempt([source], 0)
    except UncomputedError:
        return None
    if not 0 < most <= _MOST_EVENTS:
        return None
    while least + 1 < most:
        middle = (least + most) // 2
        if _fails([source], middle, attempt):
            most = middle
        else:
            least = middle
    return most


def _fails(sources: list[Source], most: int | None, attempt: Trial) -> bool:
    try:
        attempt(sources, most)
    except UncomputedError:
        return True
    except IngestError:
        return False
    return False


def _error(what: str, error: UncomputedError) -> IngestError:
    return IngestError(
        f"{what}: {error}; leave it out and report it; nothing was stored"
    )
