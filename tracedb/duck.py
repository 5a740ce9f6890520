"""Small things that DuckDB's Python API leaves to its users."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import current_thread, main_thread
from typing import IO, TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

import duckdb

from tracedb.errors import DatabaseError, QueryError, TracedbError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import polars as pl
    import pyarrow as pa

STORAGE = {"storage_compatibility_version": "v1.5.0"}
"""Files of this version can be opened by DuckDB 1.5 and later."""
MEMORY_FOLDER = "tracedb"
"""The folder in the names of files in memory, which DuckDB allows as it does others."""
connections: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()
"""Those of open databases and simulations, for who has to stop what they do."""


def scalar(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    values: Sequence[Any] | dict[str, Any] = (),
) -> Any:  # noqa: ANN401 (a value of any SQL type)
    """The first column of the first row, or None; it leaves no result unfinished."""
    rows = connection.execute(query, values).fetchall()
    return rows[0][0] if rows else None


def quoted(name: str) -> str:
    """A name as SQL has it: a file's may have any character."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def literal(text: str) -> str:
    """A text as SQL has it, where no value can be bound."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def one_line(error: BaseException) -> str:
    """What went wrong and DuckDB's suggestion, without the excerpt of the query."""
    said = " ".join(str(error).split("\n\n")[0].split())
    return said or type(error).__name__


T = TypeVar("T")


def stoppable(connection: duckdb.DuckDBPyConnection, work: Callable[[], T]) -> T:
    """What work on a connection gives; a Ctrl-C stops it, however long it takes.

    DuckDB looks for signals now and then only, and may pass them over.
    """
    if current_thread() is not main_thread():
        return work()
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(work)
        try:
            return result.result()
        except BaseException:
            while not result.done():
                connection.interrupt()
                wait([result], timeout=0.05)
            raise


@contextmanager
def own_errors() -> Iterator[None]:
    """Errors of engines and of the system as tracedb's own: one line each."""
    try:
        yield
    except TracedbError:
        raise
    except MemoryError as error:
        raise DatabaseError(f"not enough memory: {one_line(error)}") from error
    except duckdb.InterruptException as error:
        raise KeyboardInterrupt from error
    except (duckdb.Error, ArithmeticError, RecursionError, UnicodeError) as error:
        raise QueryError(one_line(error)) from error
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        raise DatabaseError(f"{place}{error.strerror or error}") from error
    except Exception as error:
        # polars is imported when rows are asked for, and raises what is no ValueError.
        if type(error).__module__.partition(".")[0] not in ("polars", "pyarrow"):
            raise
        raise QueryError(one_line(error)) from error


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """All of the block, or on an error none of it.

    Raises `DatabaseError` where the system cannot write what was done.
    """
    path = file_of(connection)
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except (duckdb.IOException, duckdb.TransactionException) as error:
        _roll_back(connection)
        line = (str(error).splitlines() or [type(error).__name__])[0]
        name = path or "the database in memory"
        raise DatabaseError(f"{name}: cannot be written: {line}") from error
    except BaseException:
        _roll_back(connection)
        raise


@contextmanager
def undone(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Nothing of the block stays, whatever comes of it."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        _roll_back(connection)


def file_of(connection: duckdb.DuckDBPyConnection) -> str | None:
    """The database's file, if it has one."""
    query = (
        "SELECT path FROM duckdb_databases() WHERE database_name = current_database()"
    )
    path: str | None = scalar(connection, query)
    return path


def spill_folder(connection: duckdb.DuckDBPyConnection) -> str | None:
    """Where what has no room in memory goes: beside the database, if it has a file."""
    path = file_of(connection)
    return None if path is None else str(Path(path).absolute().parent)


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    # A commit that failed has rolled back already.
    with suppress(duckdb.Error):
        connection.execute("ROLLBACK")


class _Rows:
    """Rows as Arrow's interface for C has them, and nothing else.

    By their types, DuckDB would convert those of polars by way of pyarrow, and polars
    would keep the class of DuckDB's, of which a process then complains as it ends.
    """

    def __init__(self, rows: duckdb.DuckDBPyRelation | pa.Table | pl.DataFrame) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)


def frame(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """The rows of a query of tracedb's own: columns with names of their own.

    DuckDB's `pl()` goes by way of pyarrow, whose import takes as long as polars'.
    """
    import polars as pl

    return pl.DataFrame(_Rows(relation))


@contextmanager
def registered(
    connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table | pl.DataFrame
) -> Iterator[None]:
    """Rows under a name that queries can read, for as long as the block."""
    connection.register(name, _Rows(rows))
    try:
        yield
    finally:
        # The rollback of an aborted transaction drops the name with all the rest.
        with suppress(duckdb.TransactionException):
            connection.unregister(name)


@contextmanager
def text_file() -> Iterator[Callable[[bytes], str]]:
    """A file for one text after another; in memory where the system can.

    Yields what puts a text there, and returns the path for DuckDB to read it from; it
    raises `duckdb.IOException` where there is no room, as DuckDB does for its files.
    """
    with _unnamed() as (file, path):

        def put(text: bytes) -> str:
            try:
                file.seek(0)
                file.write(text)
                file.truncate()
                file.flush()
            except OSError as error:
                raise duckdb.IOException(
                    f"no room for {len(text):,} bytes: {error.strerror}"
                ) from error
            return path

        yield put


@contextmanager
def _unnamed() -> Iterator[tuple[IO[bytes], str]]:
    if hasattr(os, "memfd_create"):
        number = os.memfd_create(f"{MEMORY_FOLDER}/text")
        with os.fdopen(number, "wb") as file:
            yield file, f"/proc/self/fd/{number}"
        return
    with NamedTemporaryFile(suffix=".json") as named:
        yield named, named.name


def can_read(cursor: duckdb.DuckDBPyConnection, query: str, text: bytes) -> bool:
    """Whether a query over the `$path` of a text, of a `$size`, can be run."""
    try:
        with text_file() as put:
            values = {"path": put(text), "size": len(text) + 1}
            cursor.execute(query, values).fetchall()
    except (duckdb.OperationalError, duckdb.InterruptException):
        raise  # no fault of the text's
    except duckdb.Error:
        return False
    return True


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(I)?)?B?", re.IGNORECASE)


def size_of(text: str) -> int:
    """The bytes that a text tells, as `4GB` or `512 MiB`.

    >>> size_of("1.5 GB"), size_of("2KiB"), size_of("300")
    (1500000000, 2048, 300)

    Raises `ValueError` where it tells none.
    """
    found = _SIZE.fullmatch(text.strip().removesuffix("ytes").removesuffix("yte"))
    if found is None:
        raise ValueError(text)
    number, unit, binary = found.groups()
    power = "KMGT".index(unit.upper()) + 1 if unit else 0
    return int(float(number) * (1024 if binary else 1000) ** power)


def memory_limit(connection: duckdb.DuckDBPyConnection) -> int:
    """[B] How much memory DuckDB may use: what was set, or most of the machine's."""
    return size_of(scalar(connection, "SELECT current_setting('memory_limit')"))


@contextmanager
def bounded_memory(
    connection: duckdb.DuckDBPyConnection, most_bytes: int
) -> Iterator[None]:
    """Let DuckDB use no more than so much memory; what has no room goes to disk.

    By default it keeps as much as fits, also of what is in a file anyway. A limit that
    is lower stays.
    """
    usual = memory_limit(connection)
    if usual <= most_bytes:
        yield
        return
    # DuckDB cuts what it tells to a decimal; a bit more is told as the same again.
    with _set(connection, "memory_limit", f"{most_bytes}B", f"{usual * 1.001:.0f}B"):
        yield


@contextmanager
def one_thread(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Let DuckDB use one thread: more only cost where there is nothing to share."""
    with _set(connection, "threads", "1"):
        yield


@contextmanager
def _set(
    connection: duckdb.DuckDBPyConnection,
    setting: str,
    value: str,
    afterwards: str | None = None,
) -> Iterator[None]:
    """Another value of a setting for as long as the block; afterwards as before."""
    query = "SELECT current_setting(?)::VARCHAR"
    # In an aborted transaction nothing can be set; a cursor is not in it.
    with connection.cursor() as cursor:
        usual = afterwards or scalar(cursor, query, [setting])
        cursor.execute(f"SET {setting} = '{value}'")
        try:
            yield
        finally:
            # A generator that was left in the block may outlive the connection.
            with suppress(duckdb.ConnectionException):
                cursor.execute(f"SET {setting} = '{usual}'")
