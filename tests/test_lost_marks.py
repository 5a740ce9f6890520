"""Step marks, steps and ops of recorded traces that a recording has only in part."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from support import SAMPLES, rows

import tracedb
from tracedb.summary.words import doubts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Event = dict[str, Any]

OF_HOST = ("cpu_op", "user_annotation", "cuda_runtime")


def until(event: Event) -> float:
    """[us] The end of an event."""
    return float(event["ts"]) + float(event["dur"])


def spans(events: list[Event], *cats: str) -> list[Event]:
    """Complete events of some categories, in order."""
    found = [one for one in events if one.get("ph") == "X" and one.get("cat") in cats]
    return sorted(found, key=lambda one: (float(one["ts"]), -until(one)))


def marks(events: list[Event]) -> list[Event]:
    """The marks of the steps."""
    ranges = spans(events, "user_annotation")
    return [one for one in ranges if one["name"].startswith("ProfilerStep")]


def last(events: list[Event]) -> float:
    """[us] The end of the recording."""
    return max(map(until, spans(events, *OF_HOST)))


def inside(events: list[Event], outer: Event) -> list[Event]:
    """Ops of a thread that are in an event, the longest first."""
    found = [
        one
        for one in spans(events, "cpu_op")
        if one["tid"] == outer["tid"]
        and float(outer["ts"]) < float(one["ts"])
        and until(one) <= until(outer)
    ]
    return sorted(found, key=lambda one: -float(one["dur"]))


def intact(events: list[Event]) -> list[Event]:
    """As recorded."""
    return events


def on_two_threads(events: list[Event]) -> list[Event]:
    """Another thread steps, too, a little later."""
    return events + [
        mark | {"tid": 77, "ts": float(mark["ts"]) + 7} for mark in marks(events)
    ]


def on_the_next_thread(events: list[Event]) -> list[Event]:
    """The marks are also on a thread that runs ops."""
    first = marks(events)
    others = [one for one in spans(events, "cpu_op") if one["tid"] != first[0]["tid"]]
    tid = others[0]["tid"] if others else 77
    return events + [mark | {"tid": tid} for mark in first]


def without_a_mark(events: list[Event]) -> list[Event]:
    """The second step has none."""
    return [one for one in events if one is not marks(events)[1]]


def without_an_end(events: list[Event]) -> list[Event]:
    """The second step's mark lasts until the recording ends."""
    mark = marks(events)[1]
    mark["dur"] = last(events) - float(mark["ts"])
    return events


def without_time(events: list[Event]) -> list[Event]:
    """The second step's mark takes no time."""
    marks(events)[1]["dur"] = 0
    return events


def with_a_late_op(events: list[Event]) -> list[Event]:
    """An op within another op of the second step lasts until the recording ends."""
    outer = inside(events, marks(events)[1])[0]
    op = inside(events, outer)[0]
    op["dur"] = last(events) - float(op["ts"])
    return events


def with_an_op_without_time(events: list[Event]) -> list[Event]:
    """The end of the longest op of the second step is its start."""
    inside(events, marks(events)[1])[0]["dur"] = 0
    return events


def cut(events: list[Event]) -> list[Event]:
    """The recording ends within the last step."""
    mark = marks(events)[-1]
    end = float(mark["ts"]) + 0.4 * float(mark["dur"])
    kept = [one for one in events if one["ph"] == "M" or float(one["ts"]) <= end]
    for one in spans(kept, *OF_HOST):
        one["dur"] = min(float(one["dur"]), end - float(one["ts"]))
    return kept


def without_two_marks(events: list[Event]) -> list[Event]:
    """Those before the last one."""
    lost = marks(events)[-3:-1]
    return [one for one in events if one not in lost]


Change = Callable[[list[Event]], list[Event]]

DLRM, GPU = "dlrm_cpu/dlrm.kineto.json.gz", "generated_gpu/rank0.kineto.json.gz"
REPAIRED: dict[str, dict[Change, str]] = {
    DLRM: {
        on_two_threads: "left out: step marks that another thread has, too",
        without_an_end: "corrected: ends of step marks that were lost",
        with_a_late_op: "corrected: ends of ops that were lost",
    },
    GPU: {
        on_the_next_thread: "left out: step marks that another thread has, too",
        without_a_mark: "added: step marks missing between others",
        without_time: "corrected: ends of step marks that were lost",
    },
}
TOLD: dict[str, tuple[Change, ...]] = {
    DLRM: (with_an_op_without_time, without_two_marks),
    GPU: (cut,),
}


@pytest.fixture(scope="module", params=REPAIRED)
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tracedb.Database]:
    """A trace in all these forms, each a run of its name."""
    folder: Path = tmp_path_factory.mktemp("damaged")
    text = gzip.decompress((SAMPLES / request.param).read_bytes())
    with tracedb.open() as opened:
        for change in (intact, *REPAIRED[request.param], *TOLD[request.param]):
            trace = json.loads(text)
            trace["traceEvents"] = change(trace["traceEvents"])
            path = folder / f"{change.__name__}.json"
            path.write_text(json.dumps(trace))
            opened.ingest([path], run=change.__name__)
        yield opened


def of(
    database: tracedb.Database, name: str, what: str, among: str = ""
) -> list[tuple[Any, ...]]:
    """Columns of a relation for the run of a form, in order."""
    columns, relation = what.split(" FROM ")
    return rows(
        database,
        f"SELECT {columns} FROM {relation} WHERE run_id = ("
        f"SELECT run_id FROM raw.run WHERE name = '{name}') {among} ORDER BY ALL",
    )


def issues(database: tracedb.Database, name: str) -> list[tuple[Any, ...]]:
    """What was repaired."""
    return of(database, name, "kind, occurrences FROM staging.ingest_issue")


def found(database: tracedb.Database, name: str) -> dict[str, tuple[int, int]]:
    """The doubts about recorded steps, ops and waits, with how many of how many."""
    among = "AND aspect IN ('early_return', 'untimed_op', 'cut_step', 'lost_step')"
    told = of(
        database, name, "aspect, occurrences, all_count FROM question.trust", among
    )
    return {aspect: (count, whole) for aspect, count, whole in told}


PERIODS = "step, predicted_ns FROM critical_path.step_time"
REPLAY = "AND method = 'replay' AND scenario = 'baseline'"


def repaired(database: tracedb.Database) -> Iterator[tuple[str, str]]:
    """The repaired forms, with what is counted."""
    there = {name for (name,) in rows(database, "SELECT name FROM raw.run")}
    for change, kind in {**REPAIRED[DLRM], **REPAIRED[GPU]}.items():
        if change.__name__ in there:
            yield change.__name__, kind


def test_repaired_answers_are_those_of_the_whole(database: tracedb.Database) -> None:
    """Steps have the same numbers and periods, and the time the same reasons."""
    levers = "lever, time_share, mean_ns FROM question.lever"
    for name, _ in repaired(database):
        for what, among in ((PERIODS, REPLAY), (levers, "")):
            expected = of(database, "intact", what, among)
            answers = of(database, name, what, among)
            assert [row[0] for row in answers] == [row[0] for row in expected], name
            for row, whole in zip(answers, expected, strict=True):
                assert row[-1] == pytest.approx(whole[-1], abs=50_000), name
        for (_, share, _), (_, whole, _) in zip(
            of(database, name, levers), of(database, "intact", levers), strict=True
        ):
            assert share == pytest.approx(whole, abs=0.01), name


def test_repairs_are_counted(database: tracedb.Database) -> None:
    """A whole recording has none, and a repaired one leaves no other doubt."""
    steps = len(of(database, "intact", "step FROM staging.step"))
    assert issues(database, "intact") == []
    assert found(database, "intact") == {}
    for name, kind in repaired(database):
        assert issues(database, name) == [(kind, steps if "thread" in kind else 1)]
        assert found(database, name) == {}


def test_marks_of_two_threads_are_of_one_main_thread(
    database: tracedb.Database,
) -> None:
    """The other one has the role that its ops give it."""
    for name, _ in repaired(database):
        main = of(database, name, "role FROM staging.thread", "AND role = 'main'")
        assert len(main) == 1


@pytest.mark.parametrize("database", [GPU], indirect=True)
def test_a_step_in_which_the_recording_ends_is_in_no_mean(
    database: tracedb.Database,
) -> None:
    """It stays a step, and is told; nothing is predicted for it."""
    steps = of(database, "intact", "step FROM staging.step")
    assert of(database, "cut", "step FROM staging.step") == steps
    assert found(database, "cut") == {"cut_step": (1, len(steps))}
    for relation in ("question.period", "question.recording"):
        of_form = of(database, "cut", f"step_count FROM {relation}")
        assert of_form == [(len(steps) - 1,)]
    whole = of(database, "intact", PERIODS, REPLAY)[:-1]
    kept = of(database, "cut", PERIODS, REPLAY)
    assert [step for step, _ in kept] == [step for step, _ in whole]
    for (_, time), (_, expected) in zip(kept, whole, strict=True):
        assert time == pytest.approx(expected, abs=50_000)
    paths = sum(time for (time,) in of(database, "cut", "time_ns FROM question.lever"))
    assert paths == pytest.approx(sum(time for _, time in whole), rel=0.02)


@pytest.mark.parametrize("database", [DLRM], indirect=True)
def test_what_cannot_be_repaired_is_told(database: tracedb.Database) -> None:
    """Several lost marks in a row, and ends that are no later than starts."""
    assert found(database, "without_two_marks") == {"lost_step": (2, 3)}
    ((aspect, (count, _)),) = found(database, "with_an_op_without_time").items()
    assert (aspect, count) == ("untimed_op", 1)


@pytest.mark.parametrize(
    ("aspect", "words"),
    [
        ("early_return", "2 of 5 waits return before the GPU work"),
        ("untimed_op", "2 of 5 ops are recorded to take no time"),
        ("cut_step", "the recording ended within 2 of 5 steps"),
        ("lost_step", "2 steps between others"),
    ],
)
def test_doubts_are_sentences(aspect: str, words: str) -> None:
    """The summary has them."""
    row = {"aspect": aspect, "occurrences": 2, "all_count": 5, "time_ns": 1_000}
    ((mark, said),) = doubts([row])
    assert mark == "!"
    assert said.startswith(words)


def test_a_trace_of_unlike_steps_is_not_cut(tmp_path: Path) -> None:
    """A last step with less, and unlike the one before, is a step like others."""
    events = []
    for step, names in enumerate((["mm"] * 40, ["mm"] * 20, ["add"] * 12)):
        start = 1000 * step
        place = {"ph": "X", "pid": 1, "tid": 1}
        mark = {"cat": "user_annotation", "name": f"ProfilerStep#{step}"}
        events.append(place | mark | {"ts": start, "dur": 990})
        events += [
            place
            | {"cat": "cpu_op", "name": f"aten::{name}", "ts": start + 10 * n, "dur": 9}
            for n, name in enumerate(names, 1)
        ]
    path = tmp_path / "unlike.json"
    path.write_text(json.dumps(events))
    with tracedb.open() as database:
        database.ingest([path])
        assert rows(database, "SELECT bool_or(is_cut) FROM staging.step") == [(False,)]


def looped(last_calls: list[str], tail: list[str]) -> list[Event]:
    """Two steps of twenty ops, and a last one with ops and calls of these names."""
    place = {"ph": "X", "pid": 1, "tid": 1, "dur": 9}
    ops = [["mm"] * 20, ["mm"] * 20, tail]
    events = []
    for step, names in enumerate(ops):
        start = 1000 * step
        mark = {"cat": "user_annotation", "name": f"ProfilerStep#{step}"}
        events.append(place | mark | {"ts": start, "dur": 990})
        events += [
            place | {"cat": "cpu_op", "name": name, "ts": start + 10 * n}
            for n, name in enumerate(names, 1)
        ]
    return events + [
        place | {"cat": "cuda_runtime", "name": name, "ts": 2500 + 10 * n}
        for n, name in enumerate(last_calls)
    ]


@pytest.mark.parametrize(
    ("calls", "tail", "is_cut"),
    [
        ([], ["aten::item"], True),
        ([], ["aten::item"] * 2, False),
        (["cudaGraphLaunch"], [], False),
    ],
)
def test_what_follows_a_loop_is_no_step(
    calls: list[str], tail: list[str], *, is_cut: bool, tmp_path: Path
) -> None:
    """The last step of a profiler ends with the program; a graph is a whole step."""
    path = tmp_path / "loop.json"
    path.write_text(json.dumps(looped(calls, tail)))
    with tracedb.open() as database:
        database.ingest([path])
        query = "SELECT is_cut FROM staging.step ORDER BY step"
        assert rows(database, query) == [(False,), (False,), (is_cut,)]


@pytest.mark.parametrize("shares_start", [True, False])
def test_a_last_op_is_not_cut_to_what_it_calls(
    tmp_path: Path, *, shares_start: bool
) -> None:
    """Files in whole microseconds have ops that begin with the op that they call."""
    inner = 100 if shares_start else 130
    events = [
        {"ph": "X", "pid": 1, "tid": 1, "cat": "Operator"}
        | {"name": f"aten::{name}", "ts": start, "dur": dur}
        for name, start, dur in (("linear", 100, 100), ("mm", inner, 70))
    ]
    path = tmp_path / "last.json"
    path.write_text(json.dumps(events))
    with tracedb.open() as database:
        database.ingest([path])
        query = "SELECT name, end_ns - start_ns FROM staging.op ORDER BY op_id"
        expected = [("aten::linear", 100_000), ("aten::mm", 70_000)]
        assert rows(database, query) == expected
        assert rows(database, "FROM staging.ingest_issue") == []
