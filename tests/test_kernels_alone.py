"""Traces of GPU work without anything on the host, as `rocprofv3 --kernel-trace`."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from support import rows
from test_summary import said

import tracedb
from tracedb.reasons import without_steps

if TYPE_CHECKING:
    from pathlib import Path

Event = dict[str, Any]


def kernels(seed: int) -> list[Event]:
    """Kernels of two devices with two streams each, in microseconds."""
    rng = random.Random(seed)  # noqa: S311 (the same each time)
    events = []
    for device in (0, 1):
        for stream in (7, 20):
            now = rng.randrange(50)
            for number in range(60):
                now += rng.choice((1, 1, 2, 300))
                duration = rng.randrange(1, 60)
                lane = {"pid": device, "tid": stream, "ts": now, "dur": duration}
                args = {"device": device, "stream": stream}
                event: Event = {"ph": "X", "cat": "kernel", "name": f"k{number % 4}"}
                events.append(event | lane | {"args": args})
                now += duration
    return events


def busy_us(events: list[Event], device: int) -> tuple[int, int]:
    """[us] When a device is busy and when it idles, from the first to the last work."""
    begin = min(event["ts"] for event in events)
    end = max(event["ts"] + event["dur"] for event in events)
    own = [event for event in events if event["pid"] == device]
    busy = {us for e in own for us in range(e["ts"], e["ts"] + e["dur"])}
    return len(busy), end - begin - len(busy)


def test_busy_and_idle_time_without_a_host(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Both are known; why it idles is not, as no launch is recorded."""
    events = kernels(1)
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    database.ingest([tmp_path / "t.json"])
    query = """
        SELECT device, is_busy, sum(time_ns)::BIGINT // 1000 FROM question.device_time
        GROUP BY ALL ORDER BY device, is_busy DESC
    """
    expected = []
    for device in (0, 1):
        busy, idle = busy_us(events, device)
        expected += [(device, True, busy), (device, False, idle)]
    assert rows(database, query) == expected
    kinds = "SELECT DISTINCT kind FROM question.device_time ORDER BY kind"
    # Before the first work of a device nothing was recorded.
    assert rows(database, kinds) == [("before_trace",), ("compute",), ("unexplained",)]
    on_path = "SELECT DISTINCT kind FROM critical_path.interval ORDER BY kind"
    assert rows(database, on_path) == [("kernel",), ("unexplained",)]


def test_what_is_said_of_it(tmp_path: Path) -> None:
    """The GPU's time is told, and no option that would be refused is suggested."""
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": kernels(2)}))
    path = tmp_path / "t.duckdb"
    with tracedb.open(path) as database:
        database.ingest([tmp_path / "t.json"])
        hints = " ".join(without_steps(database))
    told = " ".join(said(path).split())
    assert "no GPU work" not in told
    assert "GPU busy" in told
    for text in (told, hints):
        assert "only GPU work was recorded" in text
        assert "--one-step" not in text
