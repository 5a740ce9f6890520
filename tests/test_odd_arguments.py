"""Odd arguments to the library give rows, or a `TracedbError` of one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import SAMPLES

import tracedb
from tracedb.pattern import wrong_pattern

SAMPLE = SAMPLES / "generated_gpu" / "rank0.kineto.json.gz"
TEXTS: list[Any] = [
    *("", "a", "\0", "\ud800", "x" * 10_000, Path("nowhere"), "1; --", "\x1b[2J"),
    *("(" * 2_000, "SELECT " + "(" * 5_000 + "1", "SELECT 1 / 'a'", "SELECT $1"),
]
NUMBERS: list[Any] = [
    *(0, -1, 2**31, 2**63, -(2**64), 10**400, True, 1.5, float("nan"), "1", b"1"),
]
OF_NUMBERS = (
    *("relation's step", "ask's value", "overheads", "critical path", "slack"),
    "kernels",
)
"""Functions that take a number; the others get text."""
Call = Callable[[Any, Any], object]
CALLS: dict[str, Call] = {
    "sql": lambda db, odd: db.sql(odd),
    "relation": lambda db, odd: db.relation(odd),
    "relation's step": lambda db, odd: db.relation("question.overhead", odd),
    "ask": lambda db, odd: db.ask(odd),
    "ask's value": lambda db, odd: db.ask("ancestor", odd),
    "overheads": lambda db, odd: db.overheads(odd),
    "critical path": lambda db, odd: db.critical_path(odd),
    "critical path's scope": lambda db, odd: db.critical_path(scope=odd),
    "critical path's method": lambda db, odd: db.critical_path(method=odd),
    "slack": lambda db, odd: db.slack(odd),
    "slack's kind": lambda db, odd: db.slack(kind=odd),
    "predict": lambda db, odd: db.predict(odd),
    "library": lambda db, odd: db.predict(library=odd),
    "bands": lambda db, odd: db.bands(odd),
    "scenarios": lambda db, odd: db.scenarios(odd),
    "depends": lambda db, odd: db.depends(odd),
    "depends' direction": lambda db, odd: db.depends(1, direction=odd),
    "schema": lambda db, odd: db.schema(odd),
    "models": lambda db, odd: db.apply_models(odd),
    "hardware": lambda db, odd: db.add_hardware(odd),
    "calibrate": lambda db, odd: db.calibrate(odd),
    "ingest": lambda db, odd: db.ingest(odd),
    "ingested path": lambda db, odd: db.ingest([odd]),
    "open": lambda _, odd: tracedb.open(odd, read_only=True),
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """A writable database with a trace."""
    path = tmp_path_factory.mktemp("odd") / "run.duckdb"
    with tracedb.open(path) as opened:
        opened.ingest([SAMPLE])
        yield opened


@pytest.mark.parametrize("name", CALLS)
def test_odd_arguments(
    database: tracedb.Database,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No other error is raised, and the database still answers."""
    monkeypatch.chdir(tmp_path)  # `.` has no trace there
    for odd in NUMBERS if name in OF_NUMBERS else TEXTS:
        try:
            CALLS[name](database, odd)
        except tracedb.TracedbError:
            continue
        except Exception as error:
            raise AssertionError(f"{name}: {odd!r:.60}: {error!r}") from error
    assert database.sql("SELECT count(*) FROM raw.trace").item() == 1


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("((a{100}){100}){100}", "repeats too much"),
        (r"\pL{900}", "repeats too much"),
        ("[^x]{500}", "repeats too much"),
        ("a" * 6_000, "repeats too much"),
        ("(" * 100, "not a regular expression"),
        ("a{2000}", "not a regular expression"),
        ("[a", "not a regular expression"),
    ],
)
def test_expensive_patterns_are_refused(
    database: tracedb.Database, tmp_path: Path, pattern: str, why: str
) -> None:
    """A regular expression that would take minutes is refused everywhere."""
    edit = tracedb.Edit(scenario="a", target="gpu", name=f"/{pattern}/", factor=0.5)
    with pytest.raises(tracedb.ScenarioError, match=why):
        database.scenarios([edit])
    with pytest.raises(tracedb.IngestError, match=why):
        database.ingest([tmp_path], step_mark=pattern)


def test_usual_patterns_are_cheap() -> None:
    """Patterns for names run quickly."""
    for pattern in ("(?i).*gemm.*", r"step\[DECODE.*", "(a|b){3}[0-9]{1,4}", r"\d{8}x"):
        assert wrong_pattern(pattern) is None
