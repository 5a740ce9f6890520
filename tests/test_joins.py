"""GPU work that waits for several streams: edits that remove one of these waits.

Each program is executed again without the waits that an edit selects, and compared with
what is predicted from the trace of the unchanged program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from executed import (
    CUDA,
    Case,
    Predicted,
    case,
    periods,
    predict,
    times,
    warm_up,
    wrong_times,
)
from joins import Chooses, UnclearError, Waits, join_program, without
from support import Amount

import tracedb
from tracedb import Edit
from tracedb.synthetic import (
    EventRecord,
    Form,
    Gap,
    Launch,
    Program,
    Rank,
    StreamSync,
    StreamWait,
    Thread,
    execute,
    step,
)
from tracedb.synthetic.random_program import STREAMS

Selections = Mapping[str, tuple[Chooses, Mapping[str, Any]]]


def _between(own: int, of: int) -> Chooses:
    return lambda waiting, by: (waiting.stream, by.stream) == (own, of)


def _for(of: int) -> Chooses:
    return lambda _, by: by.stream == of


OF_STREAMS: Selections = {
    f"for {of}": (_for(of), {"awaited_stream": of}) for of in STREAMS
} | {
    f"of {own} for {of}": (_between(own, of), {"stream": own, "awaited_stream": of})
    for own, of in permutations(STREAMS, 2)
}
SELECTIONS: Selections = {
    **OF_STREAMS,
    "of 20": (lambda waiting, _: waiting.stream == 20, {"stream": 20}),
    "for a kernel": (lambda _, by: by.name == "part_7_1", {"awaited": "part_7_1"}),
    "for kernels": (lambda _, by: by.name.startswith("part_"), {"awaited": "part_*"}),
    "for an op": (
        lambda _, by: by.op == "aten::round_1",
        {"awaited_op": "aten::round_1"},
    ),
    "of an op": (lambda waiting, _: waiting.op == "aten::round_1", {"op": "*round_1"}),
    "of a kernel for another": (
        lambda waiting, by: (waiting.name, by.name) == ("joined", "joined"),
        {"name": "joined", "awaited": "joined"},
    ),
    "for a stream, in a step": (
        lambda waiting, by: (waiting.step, by.stream) == ("ProfilerStep#2", 7),
        {"step": 2, "awaited_stream": 7},
    ),
    "all": (lambda *_: True, {}),
}
NONE: Selections = {"baseline": (lambda *_: False, {})}


@pytest.fixture(scope="module", params=[True, False], ids=["recorded", "told by time"])
def cases(request: pytest.FixtureRequest, amount: Amount) -> list[Case]:
    """Programs with joins."""
    seeds = range(amount(10, 100))
    return [join_program(seed, recorded=request.param) for seed in seeds]


@pytest.fixture(scope="module")
def predicted(cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> Predicted:
    """Predictions of all removals."""
    edits = {
        name: [{"target": "wait", "type": "stream", **fields}]
        for name, (_, fields) in SELECTIONS.items()
    }
    folder = tmp_path_factory.mktemp("programs")
    return predict(folder, cases, edits, drops_idle=True)


@pytest.mark.parametrize("name", [*NONE, *SELECTIONS])
def test_selected_waits_are_removed_and_the_others_hold(
    name: str, cases: list[Case], predicted: Predicted
) -> None:
    """Of the waits of a GPU op, those that the edit selects are gone, no others."""
    chooses, _ = {**NONE, **SELECTIONS}[name]
    compared = 0
    for one in cases:
        try:
            program, delays = without(chooses)(one.known, one.delays)
        except UnclearError:
            continue
        (trace,) = execute(program, delays)
        happened = times(trace.truth)
        happened |= periods(happened, predicted.launched[one.name, 0])
        assert wrong_times(happened, predicted.times[one.name, 0, name]) == {}, one.name
        compared += 1
    assert compared > len(cases) / 2


def test_of_two_events_of_a_stream_the_last_is_passed_on(tmp_path: Path) -> None:
    """The host waits for a stream that waits for a late event, then an early one."""
    body = (
        *warm_up(STREAMS[:3]),
        *(Launch(7, 5_000), EventRecord("early", 7), Launch(7, 200_000)),
        *(EventRecord("late", 7), StreamWait(24, "late"), StreamWait(24, "early")),
        *(StreamSync(24), Gap(1_000), Launch(20, 5_000)),
    )
    program = Program((Rank((Thread("main", (step(0, *body),)),)),))
    one = case("two events", program, CUDA, recorded=True)
    edits = {"gone": [{"target": "wait", "type": "stream"}]}
    predicted = predict(tmp_path, [one], edits)
    happened = times(execute(program, CUDA)[0].truth)
    assert wrong_times(happened, predicted.times[one.name, 0, "baseline"]) == {}


def test_waits_that_may_remain_are_told(tmp_path: Path) -> None:
    """Without records, of a join only the wait that ended last is known."""
    body = (
        *warm_up(STREAMS[:3]),
        *(Launch(7, 300_000), EventRecord("short", 7), Launch(20, 400_000)),
        *(EventRecord("long", 20), StreamWait(24, "short"), StreamWait(24, "long")),
        *(Launch(24, 5_000), Gap(500_000)),
    )
    program = Program((Rank((Thread("main", (step(0, *body),)),)),))
    (trace,) = execute(program, CUDA)
    removal = Edit(scenario="gone", target="wait", type="stream", awaited_stream=20)
    with tracedb.open() as database:
        database.ingest([trace.write(tmp_path / "a.json", Form(sync_events=False))])
        with database.simulate(edits=[removal]) as simulated:
            told = simulated.ask("scenario_assumption")["assumption"].to_list()
    assert any("streams do not wait for work that was over" in line for line in told)


def test_programs_have_joins(cases: list[Case]) -> None:
    """Much of the GPU work waits for several streams, or for what one passes on."""
    if all(one.form.sync_events for one in cases):
        assert sum(joined(one) for one in cases) > 2 * len(cases)


def joined(one: Case) -> int:
    """How much GPU work of a program waits for several streams."""
    waits = Waits()
    waits.read(one.program.ranks[0].threads[0].body)
    counts = Counter(waiting for waiting, _ in waits.pairs())
    return sum(count > 1 for count in counts.values())
