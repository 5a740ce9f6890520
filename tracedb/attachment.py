"""Attach the file of a database: where it may be, and why it cannot be opened."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING
from uuid import uuid4

import duckdb

from tracedb.duck import STORAGE, literal, one_line, scalar
from tracedb.errors import DatabaseError
from tracedb.near import meant, near_path
from tracedb.outputs import make_folder
from tracedb.remote import is_remote

if TYPE_CHECKING:
    from tracedb.lake import Place

# The optimizer underestimates uncommitted rows, and would use loop joins instead of
# sorting. Division by zero (empty tensors) gives NULL. Queries load no extensions, and
# do not see Python variables.
CONFIG = {
    "error_on_division_by_zero": "false",
    **STORAGE,
    "asof_loop_join_threshold": "0",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
MEMORY = ":memory:"
"""The path of a database in memory."""
# The name of every database in queries; a file's name may clash with a layer's.
_NAME = "tracedb"
# DuckDB's message for a file that another process has locked.
_HELD = re.compile(r"Conflicting lock is held in (?P<name>.+?) \(PID (?P<number>\d+)\)")


def _is_database(path: str) -> bool:
    """Whether a file is empty or has DuckDB's magic bytes."""
    with Path(path).open("rb") as file:
        head = file.read(12)
    return not head or head[8:12] == b"DUCK"


def path_text(path: object) -> str:
    """The path of a database as text that DuckDB takes."""
    if not isinstance(path, (str, os.PathLike)):
        raise DatabaseError(f"{path!r} is not a path")
    text = os.fspath(path)
    if not text:
        raise DatabaseError("the name of the database is empty; name a file")
    try:
        is_text = isinstance(text, str) and "\0" not in text and bool(text.encode())
    except UnicodeEncodeError:
        is_text = False
    if not is_text:
        raise DatabaseError(
            f"{text!r}: not a valid database name: it is not UTF-8 text"
        )
    return str(text)


def in_lake(path: str | Path) -> Place | None:
    """The place in a lake that a path names, if any."""
    text = path_text(path)
    if is_remote(text):
        from tracedb.lake import place_of

        return place_of(text)
    # Opening it will report an invalid file name.
    with suppress(OSError):
        if Path(text).is_dir() or "=" in text:
            from tracedb.lake import find_place

            return find_place(text)
    return None


def check_path(path: str, *, read_only: bool) -> None:
    """Raise `DatabaseError` if no database can be there; create its parent folders."""
    if path and Path(path).is_dir():
        raise DatabaseError(f"{path}: a folder, not a database; name a file in it")
    if read_only and path != MEMORY and not Path(path).is_file():
        raise DatabaseError(
            f"{path}: no such database"
            f"{meant(near_path(path)) or '; create it with `tracedb ingest`'}"
        )
    if path != MEMORY and Path(path).is_file() and not _is_database(path):
        raise DatabaseError(
            f"{path}: not a database; if it is a trace, ingest it: `tracedb ingest "
            f"{shlex.quote(path)} --db run.duckdb`"
        )
    if not path:
        raise DatabaseError("the database path is empty; give a path")
    # On POSIX it is an ordinary character, but DuckDB takes it as a separator.
    if path != MEMORY and "\\" in Path(path).absolute().as_posix():
        raise DatabaseError(
            f"{path}: DuckDB reads a backslash in a path as a slash; choose a path "
            "without one"
        )
    if Path(path).is_file() and not Path(path).stat().st_size:
        raise DatabaseError(
            f"{path}: an empty file, not a database; remove it, and `tracedb ingest` "
            "creates one"
        )
    if not read_only and path != MEMORY:
        make_folder(Path(path).parent, DatabaseError)


def _in_use(error: duckdb.Error) -> str | None:
    """The process that holds a file, and what to do, if that is why opening failed."""
    if isinstance(error, duckdb.ResourceInUseException):
        return (
            "already open in this process; a writer needs exclusive access: close "
            "the other one"
        )
    held = _HELD.search(str(error))
    if held is None:
        return None
    return (
        f"in use by process {held['number']} ({held['name']}); a writer needs "
        "exclusive access: wait until it is done, or query a copy made earlier"
    )


def _damage(error: duckdb.Error) -> str | None:
    """What to do about a file that ends too early, if that is why opening failed."""
    if "Could not read enough bytes" not in str(error):
        return None
    return "a database that was cut off; copy it again, or ingest the traces again"


def attach(
    connection: duckdb.DuckDBPyConnection, path: str, *, read_only: bool
) -> None:
    """Attach a database under the common name, and use it."""
    file = path if path == MEMORY else str(Path(path).absolute())
    mode = "READ_ONLY" if read_only else "READ_WRITE"
    try:
        connection.execute(f"ATTACH {literal(file)} AS {_NAME} (TYPE duckdb, {mode})")
    except duckdb.Error as error:
        reason = _in_use(error) or _damage(error) or one_line(error)
        raise DatabaseError(f"{path}: {reason}") from error
    connection.execute(f"USE {_NAME}")
    # After two seconds of a query, it would be drawn on stdout, which is for data. In
    # Jupyter without ipywidgets there is none, and the setting cannot be changed.
    if scalar(connection, "SELECT current_setting('enable_progress_bar')"):
        connection.execute("SET enable_progress_bar = false")
    spill = f"{file}.tmp" if path != MEMORY else _spill_folder()
    connection.execute(f"SET temp_directory = {literal(spill)}")


def is_held(connection: duckdb.DuckDBPyConnection, path: str) -> bool:
    """Whether a database exists and is attached, if need be now.

    It is not if another process writes it.
    """
    if not Path(path).exists():
        return False
    query = f"SELECT true FROM duckdb_databases() WHERE database_name = '{_NAME}'"
    try:
        if scalar(connection, query):
            connection.execute(f"USE {_NAME}")
        else:
            attach(connection, path, read_only=False)
    except (DatabaseError, duckdb.Error):
        return False
    return True


def _spill_folder() -> str:
    """The folder to which a database in memory spills; created on demand."""
    return str(Path(gettempdir()) / f"tracedb-{uuid4().hex}.tmp")


def stored_fingerprint(connection: duckdb.DuckDBPyConnection, path: str) -> str | None:
    """The fingerprint of the version that wrote a database; None if it is empty.

    Raises `DatabaseError` if tracedb did not write it.
    """
    query = "SELECT value FROM raw.database WHERE property = 'fingerprint'"
    try:
        return str(scalar(connection, query))
    except duckdb.CatalogException as error:
        if scalar(connection, "SELECT count(*) FROM duckdb_tables()"):
            line = f"{path}: a DuckDB file, but not written by tracedb"
            raise DatabaseError(line) from error
        return None
