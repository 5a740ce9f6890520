"""Read-only access to a database for servers, one call at a time, with limits.

Each call opens the file anew, which takes 0.1 s. So writers are not blocked between
calls, and new data are seen.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

import msgspec

import tracedb
from tracedb.duck import connections
from tracedb.encode import encode
from tracedb.errors import QueryError
from tracedb.words import counted, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import polars as pl

    from tracedb.database import Database

MOST_ROWS = 1000
MOST_SECONDS = 60.0
_MOST_BYTES = 32 << 20
"""[B] Largest answer; a single value may have gigabytes."""
_LONGEST = 500
"""Longest text, in characters; C++ kernel names may have thousands."""
_AGAIN_SECONDS = 0.1
_one_call = Lock()


@contextmanager
def opened(path: str | Path, seconds: float = MOST_SECONDS) -> Iterator[Database]:
    """Open a database read-only within the block, with a time limit.

    Raises `QueryError` if the block takes longer.
    """
    with _one_call, tracedb.open(path, read_only=True) as database:
        is_done, is_late = Event(), Event()
        watcher = Thread(target=_stop_late, args=(seconds, is_done, is_late))
        watcher.start()
        try:
            yield database
        except KeyboardInterrupt as error:
            # An interrupted query ends so, whoever interrupted it.
            if not is_late.is_set():
                raise
            text = f"stopped after {seconds:g} seconds; query less data"
            raise QueryError(text) from error
        finally:
            is_done.set()
            watcher.join()


def _stop_late(seconds: float, is_done: Event, is_late: Event) -> None:
    """Interrupt all queries from the deadline on, repeatedly: others may follow."""
    wait = seconds
    while not is_done.wait(wait):
        is_late.set()
        for connection in list(connections):
            # A connection may have been closed by now.
            with suppress(Exception):
                connection.interrupt()
        wait = _AGAIN_SECONDS


def query(database: Database, text: str, most: int) -> dict[str, Any]:
    """The first rows of a query; no further rows are computed."""
    return table(database.sql(text, most + 1), most, is_all=False)


def table(frame: pl.DataFrame, most: int, *, is_all: bool = True) -> dict[str, Any]:
    """The first rows for JSON: columns, lists of values, a note if rows are left out.

    Long texts are cut in the middle. Raises `QueryError` if the values are too large.
    """
    size = int(frame.estimated_size())
    if size > _MOST_BYTES:
        raise QueryError(
            f"the answer has {size >> 20:,} MiB, more than {_MOST_BYTES >> 20}; "
            "query less data, or shorter values"
        )
    rows = msgspec.json.decode(encode(frame.head(most), "json"))
    found: dict[str, Any] = {
        "columns": frame.columns,
        "rows": [[_cut(value) for value in row.values()] for row in rows],
    }
    if frame.height > most:
        of = f" of {frame.height:,}" if is_all else "; there are more"
        found["note"] = f"first {counted(most, 'row')}{of}"
    return found


def _cut(value: object) -> object:
    return shortened(value, _LONGEST) if isinstance(value, str) else value
