"""Fixtures: databases to ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from support import CORPUS, corpus_files, truth

import tracedb
from tracedb import catalog
from tracedb.duck import quoted, scalar


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a developer rewrite the kept answers, to be read in the diff."""
    parser.addoption("--update-answers", action="store_true")


_create = catalog.create


@pytest.fixture(scope="session", autouse=True)
def copied_relations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Relations are made once and then copied: making them takes a second."""
    path = tmp_path_factory.mktemp("relations") / "empty.duckdb"
    with duckdb.connect(str(path)) as connection:
        catalog.create(connection)

    def copy(connection: duckdb.DuckDBPyConnection) -> None:
        own = quoted(scalar(connection, "SELECT current_database()"))
        # What is attached in a transaction cannot be detached there.
        is_within = _ends_transaction(connection)
        connection.execute(f"ATTACH '{path}' AS relations_once_made (READ_ONLY)")
        connection.execute(f"COPY FROM DATABASE relations_once_made TO {own}")
        connection.execute("DETACH relations_once_made")
        if is_within:
            connection.execute("BEGIN")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "create", copy)
        yield


def _ends_transaction(connection: duckdb.DuckDBPyConnection) -> bool:
    try:
        connection.execute("COMMIT")
    except duckdb.TransactionException:
        return False
    return True


@pytest.fixture
def made_relations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relations are made, not copied, as users' are."""
    monkeypatch.setattr(catalog, "create", _create)


@pytest.fixture
def database() -> Iterator[tracedb.Database]:
    """An empty database in memory."""
    with tracedb.open() as opened:
        yield opened


@pytest.fixture(scope="session", params=corpus_files("kineto"))
def corpus_trace(
    request: pytest.FixtureRequest,
) -> Iterator[tuple[tracedb.Database, dict[str, Any]]]:
    """A corpus trace in a database of its own, with its truth."""
    with tracedb.open() as opened:
        opened.ingest([CORPUS / request.param])
        yield opened, truth()[request.param]


@pytest.fixture(scope="session")
def dlrm8() -> Iterator[tracedb.Database]:
    """Four of the eight ranks of a DLRM run on V100s, with their execution graphs."""
    if not CORPUS.exists():
        pytest.skip("../shared/corpus is absent")
    with tracedb.open() as opened:
        opened.ingest([CORPUS / "param" / "dlrm8"])
        yield opened
