"""Waits for other threads that Python stacks show, on made-up recordings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from support import rows

import tracedb

if TYPE_CHECKING:
    from pathlib import Path

MAIN, WORKER = 1, 2
STEPS = 6
WAIT_US = 8_000
LATE_US = 150
"""[us] The worker ends a wait so much before the call that waits returns."""
CALLS = {
    "condition": ("threading.py(295): wait", "threading.py(366): notify"),
    "queue": (
        "<built-in method get of _queue.SimpleQueue object at 0x7f00>",
        "<built-in method put of _queue.SimpleQueue object at 0x7f00>",
    ),
    "lock": (
        "<built-in method acquire of _thread.lock object at 0x7f00>",
        "<built-in method __exit__ of _thread.lock object at 0x7f00>",
    ),
}


@dataclass(frozen=True)
class Loop:
    """A loop that waits for a thread that loads its batches."""

    kind: str = "condition"
    is_recorded: bool = True
    """Whether the ops of the other thread are recorded."""
    asleep: int = 0
    """[us] From the other thread's last op until it ends the wait."""
    signal: float = 1
    """[1] When the other thread makes the call that ends the wait, of the wait."""
    signal_thread: int = WORKER

    def write(self, path: Path) -> Path:
        """The recording."""
        waits, signals = CALLS[self.kind]
        events = [_call("torch/profiler.py(1): start", MAIN, 900, 9)]
        for step in range(STEPS):
            begin = 1_000 + 12_000 * step + 97 * step**2
            wait = begin + 50
            got = wait + WAIT_US
            at = wait + round(self.signal * WAIT_US) - LATE_US
            done = at - 20 - self.asleep
            events += [
                _slice("user_annotation", f"ProfilerStep#{step}", MAIN, begin, 11_000),
                _call("run.py(9): next_batch", MAIN, wait - 9, WAIT_US + 20),
                _call(waits, MAIN, wait, WAIT_US),
                _slice("cpu_op", "aten::mm", MAIN, got + 60, 2_000),
                _call("run.py(20): load", WORKER, wait + 500, at - wait - 505),
                _call(signals, self.signal_thread, at, 4),
            ]
            if self.is_recorded:
                events.append(_slice("cpu_op", "aten::mul", WORKER, done - 900, 900))
        path.write_text(json.dumps({"traceEvents": events}))
        return path


def _slice(cat: str, name: str, tid: int, ts: int, dur: int) -> dict[str, Any]:
    return {
        "ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur
    }  # fmt: skip


def _call(name: str, tid: int, ts: int, dur: int) -> dict[str, Any]:
    return _slice("python_function", name, tid, ts, dur)


def waits(loop: Loop, folder: Path) -> list[tuple[Any, ...]]:
    """What `question.wait` says of threads."""
    query = """
        SELECT waiting_name, awaited_name, wait_count, waited_ns // 1000, frame
        FROM question.wait
        WHERE kind = 'join'
    """
    with tracedb.open() as database:
        database.ingest([loop.write(folder / "loop.json")])
        return rows(database, query)


@pytest.mark.parametrize(
    ("loop", "awaited_name", "early_us"),
    [
        *((Loop(kind), "aten::mul", 20) for kind in CALLS),
        *((Loop(kind, is_recorded=False), "load (run.py:20)", 0) for kind in CALLS),
    ],
    ids=[*CALLS, *(f"{kind} of an unrecorded thread" for kind in CALLS)],
)
def test_a_wait_that_stacks_show(
    loop: Loop, awaited_name: str, early_us: int, tmp_path: Path
) -> None:
    """It lasts until the other thread's last op, or until that ends the wait."""
    ((waiting, awaited, count, time, frame),) = waits(loop, tmp_path)
    assert (waiting, count, frame) == ("aten::mm", STEPS, "next_batch (run.py:9)")
    assert awaited == awaited_name
    assert time == STEPS * (WAIT_US - LATE_US - early_us)


def test_a_thread_that_works_on_after_its_last_op(tmp_path: Path) -> None:
    """The wait lasts until the other thread ends it."""
    ((_, awaited, _, time, _),) = waits(Loop(asleep=3_000), tmp_path)
    assert (awaited, time) == ("aten::mul", STEPS * (WAIT_US - LATE_US))


@pytest.mark.parametrize(
    "loop",
    [Loop(signal=0.4, asleep=1_000), Loop(signal_thread=MAIN, asleep=500)],
    ids=["time", "itself"],
)
def test_waits_that_end_by_themselves(loop: Loop, tmp_path: Path) -> None:
    """What another thread did long before, or the same one, ends none."""
    assert waits(loop, tmp_path) == []


def test_another_kind_of_call_ends_no_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that is given back ends no wait for a simple queue."""
    monkeypatch.setitem(CALLS, "queue", (CALLS["queue"][0], CALLS["lock"][1]))
    assert waits(Loop(kind="queue", asleep=500), tmp_path) == []
