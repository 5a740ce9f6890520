"""Begin and end events form slices."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from support import rows

import tracedb

pytestmark = pytest.mark.until("staging")


def bound(ph: str, name: str, time: int, **fields: object) -> dict[str, Any]:
    """The begin or end event of an op."""
    place = {"ph": ph, "cat": "cpu_op", "pid": 1, "tid": 1, "ts": time}
    return place | {"name": name} | fields


def test_begins_and_ends_are_ops(tmp_path: Path, database: tracedb.Database) -> None:
    """Each end closes the last open begin on its thread; strays are reported."""
    events = [
        bound("E", "stray", 0),
        bound("B", "outer", 1, args={"External id": 7}),
        bound("B", "inner", 2),
        bound("B", "other thread", 3, tid=2),
        bound("E", "inner", 4),
        bound("B", "inner again", 4),
        bound("X", "complete", 4, dur=1),
        bound("E", "", 6),
        bound("E", "outer", 9),
        bound("E", "stray", 10),
        bound("B", "other thread, too", 11, tid=2),
        bound("E", "other thread, too", 12, tid=2),
        bound("B", "after", 13),
        bound("E", "after", 14),
    ]
    (tmp_path / "a.json").write_text(json.dumps(events))
    database.ingest([tmp_path])
    query = "SELECT name, start_ns, end_ns FROM staging.op ORDER BY op_id"
    assert rows(database, query) == [
        ("outer", 1_000, 9_000),
        ("inner", 2_000, 4_000),
        ("inner again", 4_000, 6_000),
        ("complete", 4_000, 5_000),
        ("other thread, too", 11_000, 12_000),
        ("after", 13_000, 14_000),
    ]
    query = """
        SELECT op.name, parent.name FROM staging.op
        INNER JOIN staging.op AS parent ON op.parent_op_id = parent.op_id
        ORDER BY op.op_id
    """
    assert rows(database, query) == [
        ("inner", "outer"),
        ("inner again", "outer"),
        ("complete", "inner again"),
    ]
    query = "SELECT kind, occurrences FROM raw.ingest_issue ORDER BY kind"
    assert rows(database, query) == [
        ("kept in raw.event only: ends without a start", 2),
        ("kept in raw.event only: starts without an end", 1),
    ]


def closed(
    events: list[dict[str, Any]],
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Begins with their ends, by a stack per thread, or per name on it."""
    unnamed = {e["tid"] for e in events if e["ph"] == "E" and not e["name"]}
    stacks: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    found = []
    for event in sorted(events, key=lambda event: event["ts"]):
        tid = event["tid"]
        stack = stacks[tid, "" if tid in unnamed else event["name"]]
        if event["ph"] == "B":
            stack.append(event)
        elif stack:
            found.append((stack.pop(), event))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_begins_and_ends(
    seed: int, tmp_path: Path, database: tracedb.Database
) -> None:
    """Random events with strays and ties on several threads, unsorted.

    All ends on thread 0 have names, some on thread 1, none on thread 2.
    """
    chance = random.Random(seed)  # noqa: S311 (repeatable, no secret)
    events = []
    for number in range(400):
        tid, ph = chance.randrange(3), chance.choice("BE")
        is_named = ph == "B" or tid == 0 or (tid == 1 and chance.random() < 0.8)
        name = f"op {chance.randrange(4)}" if is_named else ""
        events.append(bound(ph, name, number // 3, tid=tid))
    # The file is shuffled, except for events at the same time.
    events.sort(key=lambda event: (event["ts"] * 7) % 134)
    (tmp_path / "a.json").write_text(json.dumps(events))
    database.ingest([tmp_path])
    expected = closed(events)
    assert 100 < len(expected) < 200
    found = rows(
        database, "SELECT name, start_ns, end_ns FROM staging.slice ORDER BY ALL"
    )
    assert found == sorted(
        (begin["name"], begin["ts"] * 1000, end["ts"] * 1000) for begin, end in expected
    )
    crossed = sum(end["name"] not in ("", begin["name"]) for begin, end in expected)
    assert crossed > 10
    issues = dict(rows(database, "SELECT kind, occurrences FROM raw.ingest_issue"))
    assert issues.pop("paired: ends with a start of another name") == crossed
    assert sum(issues.values()) == 400 - 2 * len(expected)


def test_ends_are_matched_by_name(tmp_path: Path, database: tracedb.Database) -> None:
    """Overlapping slices keep their ends; a slice without an end takes no other's."""
    events = [
        bound("B", "first", 0),
        bound("B", "second", 1),
        bound("B", "lost", 2),
        bound("E", "first", 3),
        bound("E", "second", 4),
    ]
    (tmp_path / "a.json").write_text(json.dumps(events))
    database.ingest([tmp_path])
    assert rows(
        database, "SELECT name, start_ns, end_ns FROM staging.slice ORDER BY ALL"
    ) == [("first", 0, 3_000), ("second", 1_000, 4_000)]
    assert rows(database, "SELECT kind, occurrences FROM raw.ingest_issue") == [
        ("kept in raw.event only: starts without an end", 1)
    ]
