"""Empty databases are copied from a template, which is recreated if damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from support import rows

import tracedb
from tracedb import catalog, template
from tracedb.duck import STORAGE

# Declarations of a database; the lists of `EXCLUDE` and `REPLACE` are unordered.
CATALOG = """
SELECT schema_name, table_name, length(sql) AS size, comment FROM duckdb_tables()
UNION ALL BY NAME
SELECT schema_name, view_name AS table_name, length(sql) AS size, comment
FROM duckdb_views() WHERE NOT internal
UNION ALL BY NAME
SELECT
    schema_name, function_name AS table_name, length(macro_definition) AS size, comment
FROM duckdb_functions() WHERE NOT internal
UNION ALL BY NAME
SELECT schema_name, table_name, column_index AS size, column_name, data_type, comment
FROM duckdb_columns() WHERE NOT internal
ORDER BY ALL
"""


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty user cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path / "caches" / "tracedb" / "templates"


@pytest.fixture
def creations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Databases whose relations were created one by one; here only a few relations."""
    seen: list[str] = []

    def create(connection: duckdb.DuckDBPyConnection) -> None:
        seen.append(str(connection.sql("SELECT current_database()").fetchall()[0][0]))
        catalog.create_only(connection, "raw.database")
        catalog.create_only(connection, "raw.trace")

    monkeypatch.setattr(catalog, "create", create)
    return seen


def is_usable(database: tracedb.Database) -> bool:
    """Whether a new database has relations and this version's mark."""
    query = "SELECT value FROM raw.database WHERE property = 'fingerprint'"
    return rows(database, query) == [(catalog.fingerprint(),)]


def test_a_copy_equals_a_created_database(tmp_path: Path) -> None:
    """Statements, types, comments and macros equal those created one by one."""
    path = str(tmp_path / "created.duckdb")
    with duckdb.connect(path, config={**STORAGE}) as connection:
        catalog.create(connection)
    # In files, numbers in views are written differently.
    with duckdb.connect(path) as connection:
        created = connection.sql(CATALOG).fetchall()
    for name in (tmp_path / "a.duckdb", ":memory:"):
        with tracedb.open(name) as database:
            assert database.connection.sql(CATALOG).fetchall() == created
            assert is_usable(database)


@pytest.mark.usefixtures("caches")
def test_the_template_is_created_once(tmp_path: Path, creations: list[str]) -> None:
    """The first database creates it; later ones, in files or not, are copies."""
    for path in (":memory:", tmp_path / "a.duckdb", tmp_path / "b.duckdb"):
        with tracedb.open(path) as database:
            assert is_usable(database)
    assert len(creations) == 1


@pytest.mark.parametrize("damage", ["empty", "cut", "other", "older"])
def test_a_damaged_template_is_recreated(
    caches: Path, creations: list[str], damage: str
) -> None:
    """Whatever is in its place, a new database is complete, and the next is a copy."""
    tracedb.open().close()
    (path,) = caches.iterdir()
    whole = path.read_bytes()
    if damage == "older":
        with duckdb.connect(str(path)) as connection:
            connection.execute("UPDATE raw.database SET value = 'older'")
    else:
        path.write_bytes({"empty": b"", "cut": whole[:20_000]}.get(damage, b"no" * 99))
    for _ in range(2):
        with tracedb.open() as database:
            assert is_usable(database)
    assert len(creations) == 2


@pytest.mark.usefixtures("creations")
def test_damaged_blocks_are_detected(caches: Path) -> None:
    """A template with any damaged block is not copied."""
    tracedb.open().close()
    (path,) = caches.iterdir()
    whole = path.read_bytes()
    for place in range(4096, len(whole), len(whole) // 12):
        damaged = bytearray(whole)
        damaged[place : place + 64] = bytes(64 - i for i in range(64))
        path.write_bytes(damaged)
        with tracedb.open() as database:
            assert is_usable(database)


def test_a_home_that_is_not_writable(
    caches: Path, creations: list[str], tmp_path: Path
) -> None:
    """Relations are then created in each database."""
    caches.parent.parent.write_bytes(b"a file where the folder would be")
    path = tmp_path / "a.duckdb"
    with tracedb.open(path) as database:
        assert is_usable(database)
    assert creations == ["tracedb"]


@pytest.mark.parametrize("named", ["", "relative"])
def test_the_cache_folder_follows_xdg(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: str
) -> None:
    """A relative cache folder is ignored, as the standard says."""
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert template.folder().is_relative_to(tmp_path)


@pytest.mark.usefixtures("creations")
def test_old_templates_are_removed(caches: Path) -> None:
    """The newest ones are kept."""
    caches.mkdir(parents=True)
    for age in range(20):
        file = caches / f"{age}.duckdb"
        file.touch()
        os.utime(file, (1e9 - age, 1e9 - age))
    tracedb.open().close()
    left = {file.stem for file in caches.iterdir()}
    assert left > {str(age) for age in range(7)}
    assert len(left) == 8


AT_ONCE = """
import sys, time, tracedb
from tracedb import catalog

def create(connection):
    time.sleep(1)
    catalog.create_only(connection, "raw.database")
    catalog.create_only(connection, "raw.trace")

catalog.create = create
with tracedb.open(sys.argv[1]) as opened:
    print(opened.sql("FROM raw.database WHERE property = 'fingerprint'").item(0, 1))
"""
"""Few relations are created, slowly: another process starts meanwhile."""


def test_concurrent_processes(caches: Path, tmp_path: Path) -> None:
    """Each gets a complete database, and one template is left."""
    processes = [
        subprocess.Popen(  # noqa: S603 (our own program)
            [sys.executable, "-Ic", AT_ONCE, str(tmp_path / f"{number}.duckdb")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    told = [process.communicate() for process in processes]
    assert told == [(f"{catalog.fingerprint()}\n", "")] * 3
    assert len(list(caches.iterdir())) == 1
