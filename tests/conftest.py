"""Fixtures: databases to ask."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from support import CORPUS, DatabaseOf, Ingested, corpus_files, truth

import tracedb
import tracedb.ingest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a developer rewrite the kept answers, to be read in the diff."""
    parser.addoption("--update-answers", action="store_true")


# Where databases are that workers share: the first process makes it, and removes it.
_SHARED = "TRACEDB_TESTS_SHARED"


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder that the workers share, with a template of empty databases."""
    if _SHARED not in os.environ:
        shared = TemporaryDirectory(prefix="tracedb-tests-")
        os.environ[_SHARED] = shared.name
        os.environ["XDG_CACHE_HOME"] = shared.name
        config.add_cleanup(shared.cleanup)
        tracedb.open().close()


# Files that take longest come first, so that no worker is left with one at the end; the
# first makes databases that others read.
_LONGEST = (
    *("test_corpus", "test_robustness", "test_kernel_models", "test_fuzz"),
    *("test_broken_files", "test_simulation", "test_ingest", "test_sql", "test_cli"),
    *("test_dependencies", "test_kernel_time", "test_overhead_library"),
    *("test_partition", "test_expectation", "test_waits", "test_ranks"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take longest first."""
    places = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


@pytest.fixture
def database() -> Iterator[tracedb.Database]:
    """An empty database in memory."""
    with tracedb.open() as opened:
        yield opened


@pytest.fixture
def no_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ingests stop at staging: for tests of how files are read.

    That all layers stand whatever a file has in it is for `fuzz.py` and its like.
    """
    whole = tracedb.ingest.ingest
    monkeypatch.setattr(tracedb.ingest, "ingest", partial(whole, until="staging"))


@pytest.fixture(scope="session")
def ingested() -> Ingested:
    """Makes a database of traces, once in a run of the tests; to be read only.

    Those who ask next, other workers too, are given the same file.
    """
    return _ingested


def _ingested(*paths: Path) -> Path:
    names = "\n".join(map(str, paths))
    name = hashlib.sha256(names.encode()).hexdigest()[:16]
    database = Path(os.environ[_SHARED]) / f"{name}.duckdb"
    with database.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not database.exists():
            beside = database.with_suffix(".new")
            with tracedb.open(beside) as opened:
                opened.ingest(paths)
            beside.rename(database)
    return database


@pytest.fixture
def database_of(ingested: Ingested) -> Iterator[DatabaseOf]:
    """Opens a database of traces, made once in a run of the tests, to read it."""
    with ExitStack() as stack:
        yield lambda *paths: stack.enter_context(
            tracedb.open(ingested(*paths), read_only=True)
        )


@pytest.fixture(scope="session", params=corpus_files("kineto"))
def corpus_trace(
    request: pytest.FixtureRequest, ingested: Ingested
) -> Iterator[tuple[tracedb.Database, dict[str, Any]]]:
    """A corpus trace in a database of its own, with its truth."""
    path = ingested(CORPUS / request.param)
    with tracedb.open(path, read_only=True) as opened:
        yield opened, truth()[request.param]


@pytest.fixture(scope="session")
def dlrm8(ingested: Ingested) -> Iterator[tracedb.Database]:
    """Four of the eight ranks of a DLRM run on V100s, with their execution graphs."""
    if not CORPUS.exists():
        pytest.skip("../shared/corpus is absent")
    path = ingested(CORPUS / "param" / "dlrm8")
    with tracedb.open(path, read_only=True) as opened:
        yield opened


@pytest.fixture(scope="session")
def dlrm8_alone(ingested: Ingested) -> Path:
    """A database of the same ranks without their execution graphs."""
    if not CORPUS.exists():
        pytest.skip("../shared/corpus is absent")
    return ingested(CORPUS / "param" / "dlrm8" / "kineto")
