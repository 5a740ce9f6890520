"""Helpers for DuckDB's Python API."""

from __future__ import annotations

import os
import re
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Event, Lock, current_thread, main_thread
from typing import IO, TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

import duckdb

from tracedb.errors import DatabaseError, IngestError, QueryError, TracedbError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import polars as pl
    import pyarrow as pa

STORAGE = {"storage_compatibility_version": "v1.5.0"}
"""Files of this version can be opened by DuckDB 1.5 and later."""
MEMORY_FOLDER = "tracedb"
"""The folder in the names of files in memory, for DuckDB's `allowed_directories`."""
connections: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()
"""The connections of open databases and simulations, to interrupt their queries."""


def scalar(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    values: Sequence[Any] | dict[str, Any] = (),
) -> Any:  # noqa: ANN401 (a value of any SQL type)
    """The first column of the first row, or None."""
    rows = connection.execute(query, values).fetchall()
    return rows[0][0] if rows else None


def quoted(name: str) -> str:
    """A name as a quoted SQL identifier."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def literal(text: str) -> str:
    """A text as an SQL literal, where values cannot be bound."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def one_line(error: BaseException) -> str:
    """An error message in one line, without the excerpt of the query."""
    line = " ".join(str(error).split("\n\n")[0].split())
    return line or type(error).__name__


T = TypeVar("T")


def stoppable(connection: duckdb.DuckDBPyConnection, work: Callable[[], T]) -> T:
    """Run work on a connection so that Ctrl-C stops it.

    DuckDB itself checks for signals rarely, and may miss them.
    """
    if current_thread() is not main_thread():
        return work()
    turn, is_stopped = Lock(), Event()

    def run() -> T:
        with turn:
            if is_stopped.is_set():
                raise CancelledError
            return work()

    with ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(run).result()
        except BaseException:
            # Even `submit` may have been interrupted: whether its thread began is open.
            is_stopped.set()
            while not turn.acquire(timeout=0.05):
                connection.interrupt()
            turn.release()
            raise


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise errors of engines and of the system as tracedb's own, in one line."""
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
        # polars is imported lazily; its errors are not ValueErrors.
        if type(error).__module__.partition(".")[0] not in ("polars", "pyarrow"):
            raise
        raise QueryError(one_line(error)) from error


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Run the block as a transaction, which an error rolls back.

    Raises `DatabaseError` if the changes cannot be written.
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
    """Roll back the block's changes in any case."""
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
    """The folder of the database's file, to which it spills; None in memory."""
    path = file_of(connection)
    return None if path is None else str(Path(path).absolute().parent)


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    # A failed commit has already rolled back.
    with suppress(duckdb.Error):
        connection.execute("ROLLBACK")


class _Rows:
    """Rows with only the Arrow C stream interface, which hides their type.

    For polars frames DuckDB would import pyarrow; from DuckDB relations polars would
    keep a class that causes errors at process exit.
    """

    def __init__(self, rows: duckdb.DuckDBPyRelation | pa.Table | pl.DataFrame) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)


def frame(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """The rows of one of tracedb's own queries; column names must be unique.

    DuckDB's `pl()` imports pyarrow, which takes as long as importing polars.
    """
    import polars as pl

    return pl.DataFrame(_Rows(relation))


@contextmanager
def registered(
    connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table | pl.DataFrame
) -> Iterator[None]:
    """Register rows under a name that queries can read within the block."""
    connection.register(name, _Rows(rows))
    try:
        yield
    finally:
        # The rollback of an aborted transaction drops the name.
        with suppress(duckdb.TransactionException):
            connection.unregister(name)


@contextmanager
def text_file() -> Iterator[Callable[[bytes], str]]:
    """A reusable file for texts, in memory if the system supports it.

    Yields a function that writes a text and returns the path for DuckDB to read. It
    raises `duckdb.IOException` if there is no space, as DuckDB does for its own files.
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
    """Whether a query can read a text, given its `$path` and `$size`."""
    try:
        with text_file() as put:
            values = {"path": put(text), "size": len(text) + 1}
            cursor.execute(query, values).fetchall()
    except (duckdb.OperationalError, duckdb.InterruptException):
        raise  # not the text's fault
    except duckdb.Error:
        return False
    return True


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(I)?)?B?", re.IGNORECASE)


def size_of(text: str) -> int:
    """Parse a size in bytes, such as `4GB` or `512 MiB`.

    >>> size_of("1.5 GB"), size_of("2KiB"), size_of("300")
    (1500000000, 2048, 300)

    Raises `ValueError` if it is not a size.
    """
    found = _SIZE.fullmatch(text.strip().removesuffix("ytes").removesuffix("yte"))
    if found is None:
        raise ValueError(text)
    number, unit, binary = found.groups()
    power = "KMGT".index(unit.upper()) + 1 if unit else 0
    return int(float(number) * (1024 if binary else 1000) ** power)


def size_in(memory: str) -> int:
    """[B] The size that a text gives; raises `IngestError` if it is not a size."""
    try:
        return size_of(memory)
    except ValueError:
        raise IngestError(f"memory '{memory}' is not a size; write it as 4GB") from None


def memory_limit(connection: duckdb.DuckDBPyConnection) -> int:
    """[B] DuckDB's memory limit: as set, or by default most of the machine's."""
    return size_of(scalar(connection, "SELECT current_setting('memory_limit')"))


@contextmanager
def bounded_memory(
    connection: duckdb.DuckDBPyConnection, most_bytes: int
) -> Iterator[None]:
    """Limit DuckDB's memory within the block; it spills to disk.

    By default DuckDB caches as much as fits, even of data in a file. A lower limit
    stays.
    """
    usual = memory_limit(connection)
    if usual <= most_bytes:
        yield
        return
    # DuckDB truncates the reported limit to one decimal; adding a bit restores it.
    with _set(connection, "memory_limit", f"{most_bytes}B", f"{usual * 1.001:.0f}B"):
        yield


@contextmanager
def one_thread(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Limit DuckDB to one thread within the block, where more add only overhead."""
    with _set(connection, "threads", "1"):
        yield


@contextmanager
def joins_as_written(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Let joins hash their right side within the block, whatever DuckDB estimates."""
    with _set(connection, "disabled_optimizers", "build_side_probe_side"):
        yield


@contextmanager
def _set(
    connection: duckdb.DuckDBPyConnection,
    setting: str,
    value: str,
    afterwards: str | None = None,
) -> Iterator[None]:
    """Change a setting within the block."""
    query = "SELECT current_setting(?)::VARCHAR"
    # Nothing can be set in an aborted transaction; a cursor is outside of it.
    with connection.cursor() as cursor:
        usual = afterwards or scalar(cursor, query, [setting])
        cursor.execute(f"SET {setting} = '{value}'")
        try:
            yield
        finally:
            # An unfinished generator may outlive the connection.
            with suppress(duckdb.ConnectionException):
                cursor.execute(f"SET {setting} = '{usual}'")
