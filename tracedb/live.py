"""Read-only access to a database for servers, one call at a time, with limits.

Each call opens the file anew, which takes 0.1 s. So writers are not blocked between
calls, and new data are seen. Calls run in a process of their own: DuckDB heeds an
interrupt only between values, and a single value can take a minute and all memory.
The process is ended if it takes more memory than it may.
"""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import duckdb
import msgspec

import tracedb
from tracedb.duck import bounded_memory, connections
from tracedb.encode import encode
from tracedb.errors import FileAccessError, QueryError, TracedbError
from tracedb.ingest import default_memory, of_duckdb
from tracedb.words import counted, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    import polars as pl

    from tracedb.database import Database

MOST_ROWS = 1000
MOST_SECONDS = 60.0
_MOST_BYTES = 32 << 20
"""[B] Largest answer; a single value may have gigabytes."""
LONGEST = 500
"""Longest text for an assistant, in characters; C++ kernel names may have thousands."""
WHOLE = 100_000
"""Longest text for a page, where it can be copied."""
_AGAIN_SECONDS = 0.1
_GRACE_SECONDS = 1.0
"""[s] Time for an interrupted query to end by itself."""
_LOOK_SECONDS = 0.05
"""[s] How often the memory of a call is looked at."""
_HERE = "here, queries read relations only, and no files"

P = ParamSpec("P")
T = TypeVar("T")


class Worker:
    """A process that does one call at a time; the next call replaces one that ended."""

    def __init__(self, memory: int | None = None) -> None:
        """Start nothing yet.

        `memory` limits the process, in bytes; by default as much as an ingest may use.
        """
        self._memory = default_memory() if memory is None else memory
        self._one_call = Lock()
        self._running: tuple[SpawnProcess, Connection] | None = None

    def call(
        self,
        path: str | Path,
        seconds: float,
        work: Callable[Concatenate[Database, P], T],
        *values: P.args,
        **named: P.kwargs,
    ) -> T:
        """What `work`, a function of a module, returns for a database and values.

        Raises `QueryError` if that takes more than `seconds` or more memory than it
        may, or ends the process.
        """
        with self._one_call:
            process, pipe = self._running or self._start()
            self._running = None
            try:
                pipe.send((path, seconds, self._memory, work, values, named))
                answer, refusal = self._answer(process, pipe, seconds + _GRACE_SECONDS)
            except TimeoutError as error:
                process.kill()
                raise QueryError(_late(seconds)) from error
            except (EOFError, OSError) as error:
                process.join()
                raise QueryError(
                    f"the process of the query ended ({_code(process)}); there may be "
                    "too little memory; query less data"
                ) from error
            except BaseException:
                process.kill()
                raise
            self._running = process, pipe
        if refusal is not None:
            raise refusal
        return answer  # type: ignore[no-any-return]  # what `work` returned

    def _answer(self, process: SpawnProcess, pipe: Connection, seconds: float) -> Any:  # noqa: ANN401 (what the call returns)
        """What the process sends.

        Raises `TimeoutError` if that takes too long, `QueryError` for too much memory.
        """
        end = monotonic() + seconds
        while not pipe.poll(_LOOK_SECONDS):
            if _resident(process) > self._memory:
                raise QueryError(_too_much(self._memory))
            if monotonic() > end:
                raise TimeoutError
        return pipe.recv()

    def _start(self) -> tuple[SpawnProcess, Connection]:
        """A new process that is ready: the time of its imports does not count."""
        context = get_context("spawn")
        pipe, end = context.Pipe()
        process = context.Process(target=_work, args=(end,), daemon=True)
        process.start()
        end.close()
        pipe.recv()
        return process, pipe


def _code(process: SpawnProcess) -> str:
    code = process.exitcode or 0
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _late(seconds: float) -> str:
    return f"stopped after {seconds:g} seconds; query less data"


def _too_much(memory: int) -> str:
    return (
        f"{memory / 1e6:,.0f} MB of memory is not enough; query less data, or allow "
        "more (`--memory`)"
    )


def _resident(process: SpawnProcess) -> int:
    """[B] The memory that a process has; 0 where the system does not say."""
    try:
        pages = Path(f"/proc/{process.pid}/statm").read_text("ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _work(pipe: Connection) -> None:
    """Do the calls that a pipe brings until it is closed."""
    # Ctrl-C reaches all processes of a terminal; the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The parent's stdout may be the channel of a protocol.
    os.dup2(2, 1)
    pipe.send(None)
    while True:
        try:
            path, seconds, memory, work, values, named = pipe.recv()
        except EOFError:
            return
        try:
            with _opened(path, seconds, memory) as database:
                answer = work(database, *values, **named)
        except TracedbError as error:
            pipe.send((None, error))
        else:
            pipe.send((answer, None))


@contextmanager
def _opened(path: str | Path, seconds: float, memory: int) -> Iterator[Database]:
    """Open a database read-only within the block, with limits of time and memory.

    Raises `QueryError` if the block takes more.
    """
    with (
        tracedb.open(path, read_only=True) as database,
        bounded_memory(database.connection, of_duckdb(memory)),
    ):
        is_done, is_late = Event(), Event()
        watcher = Thread(target=_stop_late, args=(seconds, is_done, is_late))
        watcher.start()
        try:
            yield database
        except KeyboardInterrupt as error:
            # An interrupted query ends so, whoever interrupted it.
            if not is_late.is_set():
                raise
            raise QueryError(_late(seconds)) from error
        except FileAccessError as error:
            raise QueryError(_HERE) from error
        except QueryError as error:
            if isinstance(error.__cause__, duckdb.OutOfMemoryException):
                raise QueryError(_too_much(memory)) from error
            raise
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


def query(
    database: Database, text: str, most: int, longest: int = LONGEST
) -> dict[str, Any]:
    """The first rows of a query; no further rows are computed."""
    return table(database.sql(text, most + 1), most, longest, is_all=False)


def table(
    frame: pl.DataFrame, most: int, longest: int = LONGEST, *, is_all: bool = True
) -> dict[str, Any]:
    """The first rows for JSON: columns, lists of values, a note if rows are left out.

    Longer texts are cut in the middle. Raises `QueryError` if the values are too large.
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
        "rows": [[_cut(value, longest) for value in row.values()] for row in rows],
    }
    if frame.height > most:
        of = f" of {frame.height:,}" if is_all else "; there are more"
        found["note"] = f"first {counted(most, 'row')}{of}"
    return found


def _cut(value: object, longest: int) -> object:
    return shortened(value, longest) if isinstance(value, str) else value
