"""Fixtures: shared databases and folders."""

from __future__ import annotations

import gc
import hashlib
import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
import turns
from support import (
    CORPUS,
    SHARED,
    Amount,
    DatabaseOf,
    Ingested,
    corpus_files,
    empty_database,
    ingests_until,
    made,
    write_ahead,
    write_generated,
)

import tracedb


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-answers` rewrites the kept answers, to be reviewed in the diff.

    With `--thorough`, every generated case is tried, and growth of time is measured.
    `--turn 3/8` leaves out slow tests that have another turn (`turns.py`), and
    `--update-slow` writes the list of slow tests.
    """
    parser.addoption("--update-answers", action="store_true")
    parser.addoption("--thorough", action="store_true")
    parser.addoption("--turn", default="all", metavar="NUMBER/TURNS")
    parser.addoption("--update-slow", action="store_true")


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder shared by all workers, with a template of empty databases."""
    config.addinivalue_line(
        "markers", "until(layer): ingests of the test compute the layers up to this one"
    )
    config.addinivalue_line(
        "markers", "thorough: a further case of what is tested, only with --thorough"
    )
    if SHARED not in os.environ:
        shared = TemporaryDirectory(prefix="tracedb-tests-")
        os.environ[SHARED] = shared.name
        os.environ["XDG_CACHE_HOME"] = shared.name
        config.add_cleanup(shared.cleanup)
        # Tests start many processes, which would compile all modules again.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        # Spark jobs here end before the optimizing compiler pays off.
        quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        os.environ.setdefault("JDK_JAVA_OPTIONS", quick)
        tracedb.open().close()
        if config.getoption("--update-slow"):
            config.pluginmanager.register(turns.Durations())


def pytest_report_header(config: pytest.Config) -> str:
    """Say which slow tests run."""
    return f"slow tests: turn {config.getoption('--turn')}"


# The slowest files come first, so that no worker is left with one at the end; the first
# one creates databases that others use.
_LONGEST = (
    *("test_growth_layers", "test_sql", "test_job_by_spark", "test_fleet", "test_fuzz"),
    *("test_cli", "test_kernel_models"),
    *("test_reexecution", "test_simulation", "test_robustness", "test_whatif"),
    *("test_twin", "test_ingest", "test_stragglers", "test_ends", "test_corpus"),
    *("test_dependencies", "test_broken_files", "test_sandbox", "test_kernel_time"),
)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Put the slowest files first; leave out what is not wanted or has no turn."""
    places = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))
    is_thorough = config.getoption("--thorough")
    chosen, slow = turns.turn(config.getoption("--turn")), turns.slow_names()
    wanted: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        is_further = not is_thorough and item.get_closest_marker("thorough")
        has_turn = not (chosen and turns.waits(item.nodeid, chosen, slow))
        (wanted if has_turn and not is_further else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = wanted


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect garbage of the tests alone: a worker keeps what modules hold."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def amount(pytestconfig: pytest.Config) -> Amount:
    """How many cases to try: few, or many with `--thorough`."""
    is_thorough = pytestconfig.getoption("--thorough")
    return lambda few, many: many if is_thorough else few


@pytest.fixture
def database() -> Iterator[tracedb.Database]:
    """An empty database."""
    with empty_database() as opened:
        yield opened


@pytest.fixture(autouse=True)
def _until(request: pytest.FixtureRequest) -> Iterator[None]:
    """Stop ingests at the layer named by the mark `until`: higher layers cost most.

    That all layers can be computed for any file is tested by `fuzz.py`.
    """
    mark = request.node.get_closest_marker("until")
    with ingests_until(*mark.args) if mark else nullcontext():
        yield


@pytest.fixture(scope="session")
def ingested() -> Ingested:
    """Ingests traces once per test run and returns the database file (read only).

    Later callers, in other workers too, get the same file.
    """
    return _ingested


def _ingested(*paths: Path) -> Path:
    def fill(database: Path) -> None:
        with tracedb.open(database) as opened, ingests_until(None):
            opened.ingest(paths)

    names = "\n".join(map(str, paths))
    return made(f"{hashlib.sha256(names.encode()).hexdigest()[:16]}.duckdb", fill)


@pytest.fixture
def database_of(ingested: Ingested) -> Iterator[DatabaseOf]:
    """Opens a shared database of traces, read only."""
    with ExitStack() as stack:
        yield lambda *paths: stack.enter_context(
            tracedb.open(ingested(*paths), read_only=True)
        )


@pytest.fixture(scope="session")
def generated(ingested: Ingested) -> Iterator[tracedb.Database]:
    """16 generated traces of 1 to 3 threads and 1 to 4 streams."""
    folder = made("generated", lambda folder: write_generated(folder, range(16)))
    with tracedb.open(ingested(folder), read_only=True) as opened:
        yield opened


@pytest.fixture(scope="session")
def behind(ingested: Ingested) -> Iterator[tracedb.Database]:
    """Traces in which the GPU runs several steps behind the host."""
    folder = made("behind", lambda folder: write_ahead(folder, waits=False))
    with tracedb.open(ingested(folder), read_only=True) as opened:
        yield opened


@pytest.fixture(scope="session")
def corpus() -> Iterator[tracedb.Database]:
    """All Kineto traces of the corpus in one database, each as its own run."""
    if not CORPUS.exists():
        pytest.skip("../shared/corpus is absent")

    def fill(database: Path) -> None:
        with (
            tracedb.open(database) as opened,
            ingests_until(None),
            patch("tracedb.ingest.runs.join_siblings"),
        ):
            opened.ingest([CORPUS / name for name in corpus_files("kineto")])

    with tracedb.open(made("corpus.duckdb", fill), read_only=True) as opened:
        yield opened


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
    """The same ranks without their execution graphs."""
    if not CORPUS.exists():
        pytest.skip("../shared/corpus is absent")
    return ingested(CORPUS / "param" / "dlrm8" / "kineto")
