"""An empty database, made once by each version and copied from then on.

To create a relation DuckDB binds it with all that it reads: seconds for all of them,
where a copy takes a tenth of one, and that of the file (`copy`) hardly anything. The
template lies in the user's cache folder; where there is none that can be written,
relations are created as ever.
"""

from __future__ import annotations

import hashlib
import os
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
    """Make a database that is missing as a copy of the template's file, where possible.

    It is there whole or not at all, however many processes make it at once.
    """
    whole = _bytes(_path())
    # What a database of that name left behind is for DuckDB to judge.
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
    """A connection to an empty database that has a relation, and what it reads.

    It is the template, where there is one.
    """
    with duckdb.connect() as connection:
        if _attach(connection, _path()):
            connection.execute(f"USE {_NAME}")
        else:
            catalog.create_only(connection, name)
        yield connection


def sign(connection: duckdb.DuckDBPyConnection) -> None:
    """Note which version's relations the database has."""
    connection.execute(
        "INSERT OR REPLACE INTO raw.database VALUES ('version', ?), ('fingerprint', ?)",
        [tracedb.__version__, catalog.fingerprint()],
    )


def folder() -> Path:
    """Where templates are: in the cache folder of the user.

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
    # Without a home it stays as it is; the folder is then not to be made.
    return Path(os.path.expanduser(caches)) / "tracedb" / "templates"  # noqa: PTH111


@contextmanager
def _attached(connection: duckdb.DuckDBPyConnection) -> Iterator[bool]:
    """Attach a sound template, made now if there is none; yield whether it is there."""
    path = _path()
    is_there = _attach(connection, path) or (_make(path) and _attach(connection, path))
    try:
        yield is_there
    finally:
        if is_there:
            connection.execute(f"DETACH {_NAME}")


def _bytes(path: Path) -> bytes | None:
    """The bytes of a template, without their digest; None if it is not whole."""
    try:
        text = path.read_bytes()
    except OSError:
        return None
    whole, digest = text[:-_DIGEST_SIZE], text[-_DIGEST_SIZE:]
    return whole if _digest(whole) == digest else None


def _digest(whole: bytes) -> bytes:
    return hashlib.sha256(whole).digest()


def _path() -> Path:
    """Where the template is: its name tells what it depends on."""
    versions = f"{tracedb.__version__} {duckdb.__version__} {catalog.fingerprint()}"
    return folder() / f"{hashlib.sha256(versions.encode()).hexdigest()[:16]}.duckdb"


def _attach(connection: duckdb.DuckDBPyConnection, path: Path) -> bool:
    """Attach a template; False where there is none, or none that can be used."""
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
    """Make the template, in place of a broken one; False where it cannot be written."""
    with _making:
        try:
            with written(path, DatabaseError) as beside:
                with (
                    duckdb.connect(str(beside), config={**STORAGE}) as connection,
                    transaction(connection),
                ):
                    catalog.create(connection)
                    sign(connection)
                # DuckDB reads no further than its own blocks.
                with beside.open("ab") as file:
                    file.write(_digest(beside.read_bytes()))
        except (DatabaseError, duckdb.Error):
            return False
        keep_newest(path.parent)
        return True


def keep_newest(folder: Path) -> None:
    """Keep the newest files of a folder, for those who use several versions in turn."""
    with suppress(OSError):
        files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)
        for file in files[:-_KEPT]:
            file.unlink()
