"""An empty database, created once per version and copied from then on.

To create a relation, DuckDB binds it with all that it reads, which takes seconds for
all relations. A copy takes 0.1 s, and a copy of the file (`copy`) almost nothing. The
template is in the user's cache folder; if that is not writable, relations are created
one by one.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from uuid import uuid4

import duckdb

import tracedb
from tracedb import catalog
from tracedb.duck import STORAGE, literal, quoted, scalar, transaction
from tracedb.errors import DatabaseError
from tracedb.outputs import written

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = "tracedb_template"
_KEPT = 8
_DIGEST_SIZE = 32
_making = Lock()


def create(connection: duckdb.DuckDBPyConnection) -> None:
    """Create all relations, empty, and sign the database: all of it, or nothing."""
    with _attached(connection) as is_there, transaction(connection):
        if is_there:
            own = quoted(scalar(connection, "SELECT current_database()"))
            connection.execute(f"COPY FROM DATABASE {_NAME} TO {own}")
        else:
            catalog.create(connection)
            sign(connection)


def copy(path: Path) -> None:
    """Create a missing database by copying the template's file, if possible.

    The file appears atomically, even if several processes create it at once.
    """
    whole = _bytes(_path())
    # Leave a remaining write-ahead log of that name to DuckDB.
    if whole is None or path.with_name(f"{path.name}.wal").exists():
        return
    beside = path.with_name(f".{path.name}.{uuid4().hex}")
    with suppress(OSError):
        try:
            beside.write_bytes(whole)
            os.link(beside, path)
        finally:
            beside.unlink(missing_ok=True)


@contextmanager
def empty(name: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to an empty database with a relation and what it reads.

    This is the template, if there is one.
    """
    with duckdb.connect() as connection:
        if _attach(connection, _path()):
            connection.execute(f"USE {_NAME}")
        else:
            catalog.create_only(connection, name)
        yield connection


def sign(connection: duckdb.DuckDBPyConnection) -> None:
    """Store the version and the fingerprint of the database's relations."""
    connection.execute(
        "INSERT OR REPLACE INTO raw.database VALUES ('version', ?), ('fingerprint', ?)",
        [tracedb.__version__, catalog.fingerprint()],
    )


def refuse_newer(connection: duckdb.DuckDBPyConnection, path: str) -> None:
    """Raise `DatabaseError` if a newer tracedb wrote the database.

    Recomputing would lose what only that version knows.
    """
    query = "SELECT value FROM raw.database WHERE property = 'version'"
    version = str(scalar(connection, query))
    if _release(version) > _release(tracedb.__version__):
        raise DatabaseError(
            f"{path}: written by tracedb {version}, and this is the older "
            f"{tracedb.__version__}; install that version, or ingest into another file"
        )


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a version; none if it does not begin with one.

    >>> _release("0.12.1rc2") > _release("0.9")
    True
    """
    release = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, release[0].split("."))) if release else ()


def folder() -> Path:
    """The folder of templates in the user's cache folder.

    >>> folder().name
    'templates'
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    if Path(named).is_absolute():
        caches = Path(named)
    elif sys.platform == "win32":
        caches = Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local"))
    else:
        caches = Path("~/Library/Caches" if sys.platform == "darwin" else "~/.cache")
    # Without a home folder, `~` stays and the folder cannot be created.
    return Path(os.path.expanduser(caches)) / "tracedb" / "templates"  # noqa: PTH111


@contextmanager
def _attached(connection: duckdb.DuckDBPyConnection) -> Iterator[bool]:
    """Attach a valid template, created if missing; yield whether that succeeded."""
    path = _path()
    is_there = _attach(connection, path) or (_make(path) and _attach(connection, path))
    try:
        yield is_there
    finally:
        if is_there:
            connection.execute(f"DETACH {_NAME}")


def _bytes(path: Path) -> bytes | None:
    """The bytes of a template without their digest; None if it is incomplete."""
    try:
        text = path.read_bytes()
    except OSError:
        return None
    whole, digest = text[:-_DIGEST_SIZE], text[-_DIGEST_SIZE:]
    return whole if _digest(whole) == digest else None


def _digest(whole: bytes) -> bytes:
    return hashlib.sha256(whole).digest()


def _path() -> Path:
    """The path of the template; its name depends on versions and relations."""
    versions = f"{tracedb.__version__} {duckdb.__version__} {catalog.fingerprint()}"
    return folder() / f"{hashlib.sha256(versions.encode()).hexdigest()[:16]}.duckdb"


def _attach(connection: duckdb.DuckDBPyConnection, path: Path) -> bool:
    """Attach a template; return False if it is missing or invalid."""
    if not path.is_file():
        return False
    try:
        connection.execute(f"ATTACH {literal(str(path))} AS {_NAME} (READ_ONLY)")
    except duckdb.Error:
        return False
    if _is_sound(connection):
        return True
    connection.execute(f"DETACH {_NAME}")
    return False


def _is_sound(connection: duckdb.DuckDBPyConnection) -> bool:
    query = f"SELECT value FROM {_NAME}.raw.database WHERE property = 'fingerprint'"
    try:
        return bool(scalar(connection, query) == catalog.fingerprint())
    except duckdb.Error:
        return False


def _make(path: Path) -> bool:
    """Create the template or replace a broken one; False if it cannot be written."""
    with _making:
        try:
            with written(path, DatabaseError) as beside:
                with (
                    duckdb.connect(str(beside), config={**STORAGE}) as connection,
                    transaction(connection),
                ):
                    catalog.create(connection)
                    sign(connection)
                # DuckDB ignores bytes after its own blocks.
                with beside.open("ab") as file:
                    file.write(_digest(beside.read_bytes()))
        except (DatabaseError, duckdb.Error):
            return False
        keep_newest(path.parent)
        return True


def keep_newest(folder: Path) -> None:
    """Keep the newest files of a folder, for users who switch between versions."""
    with suppress(OSError):
        files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)
        for file in files[:-_KEPT]:
            file.unlink()
