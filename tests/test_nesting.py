"""Ops and calls find the op around them, whatever memory there is."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tracedb
from tracedb.duck import bounded_memory, registered, scalar
from tracedb.ingest import nesting

MB = 1_000_000
MANY = """
INSERT INTO raw.event BY NAME
SELECT
    number AS event_id,
    1 AS trace_id,
    'X' AS ph,
    CASE number % 2 WHEN 0 THEN 'cpu_op' ELSE 'cuda_runtime' END AS cat,
    '1' AS pid,
    number % 5 AS tid,
    (1000 * number) // 7 AS ts_ns,
    hash(number) % 9000 AS dur_ns
FROM range(1, $count + 1) AS event (number)
"""


def test_nesting_within_little_memory(tmp_path: Path) -> None:
    """Rows of the open transaction are sorted in less memory than they take."""
    count = 1_000_000
    with tracedb.open(tmp_path / "run.duckdb") as database:
        connection = database.connection
        connection.execute("BEGIN")
        connection.execute(MANY, {"count": count})
        with bounded_memory(connection, 60 * MB):
            nesting.load(connection, [1])
        assert scalar(connection, "SELECT count(*) FROM raw.nesting") > count / 2
        connection.execute("ROLLBACK")


def spans(seed: int) -> list[dict[str, Any]]:
    """Ops and calls of a few threads; many begin or end together."""
    rng = random.Random(seed)  # noqa: S311 (repeatable, no secret)
    return [
        {
            "event_id": number,
            "trace_id": rng.randrange(1, 3),
            "ph": "X",
            "cat": rng.choice(["cpu_op", "cpu_op", "cuda_runtime"]),
            "pid": "1",
            "tid": str(rng.randrange(3)),
            "ts_ns": rng.randrange(500),
            "dur_ns": int(2 ** rng.uniform(0, 9)),
            "args": f'{{"External id": {rng.randrange(1000)}}}',
        }
        for number in range(1, 2001)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_time_slices_do_not_change_nesting(
    monkeypatch: pytest.MonkeyPatch, database: tracedb.Database, seed: int
) -> None:
    """Open ops are carried from slice to slice; simultaneous begins share a slice."""
    connection = database.connection
    with registered(connection, "span", pa.Table.from_pylist(spans(seed))):
        connection.execute("INSERT INTO raw.event BY NAME FROM span")
    found = []
    for bytes_per_event in (1, 10**9):
        monkeypatch.setattr(nesting, "_BYTES_PER_EVENT", bytes_per_event)
        nesting.load(connection, [1, 2])
        query = "DELETE FROM raw.nesting RETURNING *"
        found.append(sorted(connection.execute(query).fetchall()))
    as_one, in_slices = found
    assert len(as_one) > 500
    assert in_slices == as_one
