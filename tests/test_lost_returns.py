"""Python functions whose return was not recorded end where their callers do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support import rows

import tracedb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Name, number, caller, start and end [us]. The returns of `forward`, and of `scale` in
# it, were not recorded, so they last until that of `main`.
CALLS = [
    ("train.py(1): main", 1, None, 0, 9000),
    ("<built-in method apply>", 2, 1, 100, 500),
    ("attention.py(5): forward", 3, 2, 110, 9000),
    ("attention.py(8): scale", 4, 3, 120, 9000),
    ("data.py(3): fetch", 5, 1, 1000, 2000),
    ("data.py(9): read", 6, 5, 1100, 2000.4),
]


def event(cat: str, name: str, start: float, end: float) -> dict[str, Any]:
    """A complete event of the only thread."""
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start} | {
        "dur": end - start
    }


def call(name: str, number: int, caller: int | None, *times: float) -> dict[str, Any]:
    """A call of a Python function."""
    args = {"Python parent id": caller, "Python id": number}
    return event("python_function", name, *times) | {"args": args}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """A database of the calls, and of a few ops between them."""
    path: Path = tmp_path_factory.mktemp("returns") / "trace.json"
    events = [call(*of_call) for of_call in CALLS]
    events += [event("cpu_op", "aten::mm", at, at + 10) for at in (130, 1200, 3000)]
    path.write_text(json.dumps({"traceEvents": events}))
    with tracedb.open() as opened:
        opened.ingest([path], one_step=True)
        yield opened


def test_functions_end_with_their_callers(database: tracedb.Database) -> None:
    """Also those within such a function; ends may differ by a microsecond."""
    assert rows(
        database,
        "SELECT name, (end_ns / 1000)::DOUBLE FROM staging.python_frame ORDER BY ALL",
    ) == [
        ("fetch (data.py:3)", 2000),
        ("forward (attention.py)", 500),
        ("main (train.py)", 9000),
        ("read (data.py:9)", 2000.4),
        ("scale (attention.py)", 500),
    ]


def test_what_comes_later_is_not_in_them(database: tracedb.Database) -> None:
    """Time between later ops is in the function that was running then."""
    query = "SELECT frame, time_ns FROM question.host_gap"
    assert rows(database, query) == [
        ("main (train.py)", 1_499_600),
        ("read (data.py:9)", 890_000),
        ("scale (attention.py)", 360_000),
        ("fetch (data.py:3)", 100_400),
    ]


def test_shortened_functions_are_counted(database: tracedb.Database) -> None:
    """And doubted."""
    assert rows(
        database,
        "SELECT kind, issue.occurrences, trust.occurrences "
        "FROM staging.ingest_issue AS issue INNER JOIN question.trust USING (run_id) "
        "WHERE aspect = 'repaired'",
    ) == [("corrected: Python functions that last longer than their callers", 2, 2)]
