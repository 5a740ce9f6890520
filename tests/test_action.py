"""What edits do to their targets, by hand and by laws."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support import SAMPLES, Ingested

import tracedb
from tracedb import Edit
from tracedb.synthetic import Gap, Launch, Op, Program, Rank, Thread, execute, step
from tracedb.whatif.action import wrong_action
from tracedb.whatif.edit_line import parse
from tracedb.whatif.scenario import of_scenario

US = 1_000


def event(name: str, start: float, duration: float, **more: Any) -> dict[str, Any]:  # noqa: ANN401 (as JSON has it)
    """A complete event (`ph: X`) of Kineto; times are in microseconds."""
    place = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1}
    return place | {"name": name, "ts": start, "dur": duration} | more


def launched(
    number: int, launch: float, begin: float, duration: float, stream: int
) -> list[dict[str, Any]]:
    """A launch of 10 us and its kernel, on a stream."""
    link = {"correlation": number}
    call = event("cudaLaunchKernel", launch, 10, cat="cuda_runtime", args=link)
    lane = link | {"device": 0, "stream": stream}
    place = {"cat": "kernel", "pid": 0, "tid": stream, "args": lane}
    return [call, event(f"kernel_{number}", begin, duration, **place)]


@pytest.fixture(scope="module")
def hand_made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """A step of 1 ms: three ops with a kernel each on one stream, then a wait for all.

    Each kernel begins 10 us after its launch, or 5 us after the kernel before it; the
    wait returns 5 us after the last.
    """
    sync = {"cat": "cuda_runtime", "args": {"correlation": 9}}
    events = [
        event("aten::before", -50, 20),
        event("ProfilerStep#1", 0, 1000, cat="user_annotation"),
        event("aten::first", 100, 20),
        *launched(1, 105, 115, 300, 7),
        event("aten::second", 120, 20),
        *launched(2, 125, 420, 100, 7),
        event("aten::third", 140, 20),
        *launched(3, 145, 525, 200, 7),
        event("cudaDeviceSynchronize", 160, 570, **sync),
        event("aten::fourth", 800, 50),
    ]
    path = tmp_path_factory.mktemp("hand_made") / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    with tracedb.open() as database:
        database.ingest([path])
        yield database


def kernel(name: str, action: str, **values: int | str) -> dict[str, Any]:
    """An edit of a kernel."""
    return {"target": "gpu", "name": name, "action": action} | values


THREE: dict[str, Any] = {"target": "op", "name": "/first|second|third/"}
BY_HAND: list[tuple[list[dict[str, Any]], float]] = [
    # The kernel and the delay before the next: 105 us less.
    ([kernel("kernel_2", "remove")], 895),
    # Only the third remains: it begins after its launch and takes 200 us.
    ([kernel("/kernel_[12]/", "remove")], 155 + 200 + 5 + 270),
    ([kernel("kernel_2", "set", set_ns=40 * US)], 940),
    # Set first, then scaled and added to.
    (
        [
            {"target": "gpu", "name": "kernel_2", "factor": 0.5, "add_ns": 10 * US},
            kernel("kernel_2", "set", set_ns=40 * US),
        ],
        930,
    ),
    # Removed GPU work stays removed, whatever other edits change.
    (
        [
            kernel("kernel_2", "set", set_ns=40 * US),
            {"target": "gpu", "name": "kernel_2", "factor": 3},
            kernel("kernel_2", "remove"),
        ],
        895,
    ),
    ([{"target": "host", "name": "aten::fourth", "action": "remove"}], 950),
    # One kernel of 600 us, 10 us after its launch.
    ([{"target": "gpu", "action": "fuse"}], 115 + 600 + 5 + 270),
    ([{"target": "gpu", "action": "fuse", "gpu_ns": 100 * US}], 115 + 100 + 5 + 270),
    ([kernel("/kernel_[23]/", "fuse", gpu_ns=80 * US)], 420 + 80 + 5 + 270),
    # Each as edited, once; a given time is edited like the first one's.
    (
        [
            {"target": "gpu", "action": "fuse"},
            {"target": "gpu", "factor": 0.5},
            {"target": "gpu", "name": "kernel_1", "add_ns": 10 * US},
        ],
        115 + 310 + 5 + 270,
    ),
    (
        [
            {"target": "gpu", "action": "fuse", "gpu_ns": 100 * US},
            {"target": "gpu", "factor": 0.5},
            {"target": "gpu", "name": "kernel_1", "add_ns": 10 * US},
        ],
        115 + 60 + 5 + 270,
    ),
    # Launched like the first, 1 us apart; or by a longer launch, at its end.
    ([{"target": "gpu", "action": "graph"}], 115 + 600 + 2 + 5 + 270),
    (
        [{"target": "gpu", "action": "graph", "gap_ns": 0, "host_ns": 900 * US}],
        105 + 900 + 600 + 5 + 270,
    ),
    # The host begins with the launch, where the first op did.
    ([THREE | {"action": "graph"}], 110 + 600 + 2 + 5 + 270),
    (
        [{"target": "host", "name": "aten::fourth", "action": "set", "set_ns": 7 * US}],
        957,
    ),
]


@pytest.fixture(scope="module")
def predicted_us(hand_made: tracedb.Database) -> dict[str, float]:
    """The step's predicted period with these edits together, by replay."""
    edits = [
        Edit(scenario=str(number), **edit)
        for number, (some, _) in enumerate(BY_HAND)
        for edit in some
    ]
    effects = hand_made.scenarios(edits).to_dicts()
    assert {row["baseline_ns"] for row in effects} == {1_000 * US}
    return {row["scenario"]: row["predicted_ns"] / US for row in effects}


@pytest.mark.parametrize("number", range(len(BY_HAND)))
def test_an_action_by_hand(predicted_us: dict[str, float], number: int) -> None:
    """A step takes as long as calculated by hand."""
    assert predicted_us[str(number)] == BY_HAND[number][1]


def test_removed_work_is_not_in_the_simulation(hand_made: tracedb.Database) -> None:
    """No relation of the simulation has removed GPU work."""
    edit = Edit(scenario="edited", **kernel("kernel_2", "remove"))
    with hand_made.simulate(["replay"], [edit]) as beside:
        for relation in ("prediction.gpu_time", "simulation.gpu_work_time"):
            found = beside.sql(
                f"SELECT scenario, count(*) FROM {relation} "
                "INNER JOIN prediction.variant USING (variant_id) "
                "GROUP BY ALL ORDER BY ALL"
            )
            assert found.rows() == [("baseline", 3), ("edited", 2)]


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        ({"from_run": 7}, "edit 1: no run 7; available: 1"),
        ({"set_to": "rank_min", "name": "aten::before"}, "nothing that it selects is"),
        (kernel("/kernel_[13]/", "fuse"), "edit 1: no two kernels that it selects"),
        (kernel("kernel_1", "overlap", until="no*"), "no op or range that matches"),
        (
            {"target": "op", "name": "/first|third/", "action": "graph"},
            "no two launches that it selects follow each other",
        ),
    ],
)
def test_impossible_edits_are_refused(
    hand_made: tracedb.Database, edit: dict[str, Any], line: str
) -> None:
    """Edits that take unknown times, or fuse GPU work that is apart, are errors."""
    edits = [Edit(**{"scenario": "set", "target": "host", "action": "set"} | edit)]
    with pytest.raises(tracedb.ScenarioError, match=line):
        hand_made.scenarios(edits)


@pytest.mark.parametrize(
    "other",
    [
        {"target": "gpu", "action": "set", "set_ns": 1},
        {"target": "gpu", "action": "fuse", "gpu_ns": 1},
    ],
    ids=["set", "fuse"],
)
def test_two_values_for_one_target_are_refused(
    hand_made: tracedb.Database, other: dict[str, Any]
) -> None:
    """The error names the scenario and says what to do."""
    edits = [
        Edit(scenario="fine", **other),
        Edit(scenario="both", **other),
        Edit(scenario="both", **kernel("kernel_1", "set", set_ns=1)),
    ]
    with pytest.raises(tracedb.ScenarioError) as raised:
        hand_made.scenarios(edits)
    assert "scenario both: two edits set the time of the same 1 target" in str(
        raised.value
    )


OPS_BY_HAND = [
    # The op, and the shorter of the gaps around it.
    (["op:aten::b remove"], 30 + 20),
    (["op:aten::b remove gaps=all"], 30),
    # Of three gaps the longest stays, whichever edit removes the ops between them.
    (["op:/aten::[bc]/ remove"], 30 + 40 + 20 + 5),
    (["op:aten::b remove", "op:aten::c remove"], 30 + 40 + 20 + 5),
    # On two threads, each keeps its own.
    (["op:/aten::[bd]/ remove"], 30 + 20 + 95 + 5),
    # Time before the first op and after the last is not a gap between ops.
    (["op:/aten::[ae]/ remove"], 50 + 90),
    (["op:* remove"], 305 + 35),
    # Host time alone leaves gaps.
    (["host:aten::b remove"], 30),
    (["host module=Net_0/Linear_0 x0"], 135),
    (["host module=Net_0 x0.5"], 200),
    (["op module=*/Linear_0 remove"], 30 + 40 + 20 + 5),
]


@pytest.fixture(scope="module")
def gains(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """[us] What the step of a CPU trace gains by each scenario.

    Five ops, with 20, 60, 5 and 10 us between them; two of them are in a module.
    """
    ops = [("a", 100, 50), ("b", 170, 30), ("c", 260, 40), ("d", 305, 95)]
    events = [
        event("ProfilerStep#1", 0, 1000, cat="user_annotation"),
        event("nn.Module: Net_0", 90, 600, cat="python_function"),
        event("nn.Module: Linear_0", 166, 135, cat="python_function"),
        *(event(f"aten::{name}", start, length) for name, start, length in ops),
        event("aten::e", 410, 90),
    ]
    path = tmp_path_factory.mktemp("gains") / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    edits = [
        of_scenario("; ".join(lines), parse(line))
        for lines, _ in OPS_BY_HAND
        for line in lines
    ]
    with tracedb.open() as database:
        database.ingest([path])
        rows = database.scenarios(edits).to_dicts()
    return {
        row["scenario"]: (row["baseline_ns"] - row["predicted_ns"]) / US for row in rows
    }


@pytest.mark.parametrize(("lines", "gain_us"), OPS_BY_HAND)
def test_ops_and_modules_by_hand(
    gains: dict[str, float], lines: list[str], gain_us: float
) -> None:
    """Removing ops also removes gaps; a module selects the ops in it."""
    assert gains["; ".join(lines)] == gain_us


WRONG = [
    (
        {"target": "gpu", "action": "remove", "gaps": "all"},
        "gaps is about the gaps around removed ops; remove gaps",
    ),
    ({"target": "profiler", "action": "remove"}, "profiler has no action remove"),
    (
        {"target": "op", "action": "graph", "part": "self"},
        "graph applies to whole ops; remove part",
    ),
    ({"target": "gpu", "action": "remove", "factor": 2}, "remove factor"),
    ({"target": "gpu", "action": "set"}, "one of set_ns, set_to, from_run"),
    (
        {"target": "gpu", "action": "set", "set_ns": 5, "set_to": "rank_min"},
        "one of set_ns, set_to, from_run",
    ),
    ({"target": "op", "action": "set", "set_ns": 5}, "use set_ns with host or gpu"),
    (
        {"target": "gpu", "set_ns": 5},
        "changes times by factor and add_ns; remove set_ns",
    ),
    ({"target": "wait", "action": "scale", "factor": 1}, "available: unsync"),
]


@pytest.mark.parametrize(("edit", "line"), WRONG)
def test_fields_that_do_not_go_together_are_refused(
    edit: dict[str, Any], line: str
) -> None:
    """An action takes certain targets, and values of its own."""
    assert line in str(wrong_action(Edit(scenario="wrong", **edit)))


EVERYTHING = [
    {"target": "op", "action": "remove"},
    *({"target": "host", "type": t, "action": "remove"} for t in ("T1", "T4", "idle")),
    {"target": "host", "type": "wait_data", "action": "remove"},
    {"target": "gpu", "action": "remove"},
    {"target": "wait"},
]
LINEAR = {"target": "op", "name": "aten::linear", "action": "remove"}
COPIES = {"target": "gpu", "type": "memcpy", "factor": 0.3}
LAUNCHES = {"target": "delay", "type": "launch", "add_ns": 700}
LAWS: dict[str, list[dict[str, Any]]] = {
    "the same": [{"target": "op", "factor": 1}, {"target": "delay", "factor": 1}],
    "nothing": EVERYTHING,
    "some": [LINEAR, COPIES, LAUNCHES],
    "some, turned": [LAUNCHES, COPIES, LINEAR],
    "less": [
        {"target": "host", "factor": 0.7},
        {"target": "gpu", "factor": 0.9},
        {"target": "delay", "type": "return", "factor": 0.5},
    ],
}


@pytest.fixture(scope="module")
def laws(ingested: Ingested) -> dict[str, list[dict[str, Any]]]:
    """The effects on each step of two ranks, by scenario."""
    edits = [Edit(scenario=n, **edit) for n, some in LAWS.items() for edit in some]
    with tracedb.open(ingested(SAMPLES / "generated_gpu"), read_only=True) as database:
        effects = database.scenarios(edits)
    found: dict[str, list[dict[str, Any]]] = {}
    for row in effects.iter_rows(named=True):
        found.setdefault(row["scenario"], []).append(row)
    return found


def test_edits_that_change_nothing_leave_the_base(
    laws: dict[str, list[dict[str, Any]]],
) -> None:
    """Factors of 1 on all ops and delays: each step is as without them."""
    assert all(row["predicted_ns"] == row["baseline_ns"] for row in laws["the same"])


def test_removing_everything_leaves_no_time(
    laws: dict[str, list[dict[str, Any]]],
) -> None:
    """Without ops, gaps, GPU work and waits, steps take 0."""
    assert [row["predicted_ns"] for row in laws["nothing"]] == [0] * 6


def test_edits_of_different_targets_commute(
    laws: dict[str, list[dict[str, Any]]],
) -> None:
    """Their order does not matter."""
    turned = [row["predicted_ns"] for row in laws["some, turned"]]
    assert [row["predicted_ns"] for row in laws["some"]] == turned
    assert turned != [row["baseline_ns"] for row in laws["some"]]


def test_taking_time_away_ends_no_step_later(
    laws: dict[str, list[dict[str, Any]]],
) -> None:
    """With all edges kept, the host ends no later."""
    for row in laws["less"]:
        assert row["predicted_host_ns"] < row["baseline_host_ns"]


@pytest.fixture(scope="module")
def since_1970(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """Two additions of tensors without elements, at times that count from 1970."""
    functor = "at::native::CUDAFunctor_add<float>"
    name = f"void at::native::vectorized_elementwise_kernel<4, {functor}>"
    dims = ((0, 4), (0, 4), ())
    one = Op("aten::add", (Gap(2 * US), Launch(7, 5 * US, name)), dims)
    program = Program((Rank((Thread("main", (step(1, one, Gap(US), one),)),)),))
    path = execute(program)[0].write(tmp_path_factory.mktemp("1970") / "trace.json")
    trace = json.loads(path.read_text())
    for shifted in trace["traceEvents"]:
        if "ts" in shifted:
            shifted["ts"] += 1_700_000_000_000_000
    path.write_text(json.dumps(trace))
    with tracedb.open() as database:
        database.ingest([path])
        yield database


def test_threads_are_selected_whatever_times_count_from(
    since_1970: tracedb.Database,
) -> None:
    """A thread has its host time in nanoseconds since 1970, too."""
    edit = Edit(scenario="half", target="host", thread="main", factor=0.5)
    [half] = since_1970.scenarios([edit]).to_dicts()
    assert half["predicted_ns"] < half["baseline_ns"]


def test_fused_work_without_tensors_saves_nothing(since_1970: tracedb.Database) -> None:
    """Without traffic there is none to save; the rest is as for any other work."""
    told = [
        Edit(scenario="0", target="gpu", action="fuse"),
        Edit(scenario="1", target="gpu", action="fuse", gpu_ns=10 * US),
    ]
    saved, given = since_1970.scenarios(told).to_dicts()
    assert saved["predicted_ns"] == given["predicted_ns"] < saved["baseline_ns"]
