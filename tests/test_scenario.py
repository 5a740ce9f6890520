"""Scenarios: edits of a prediction's inputs, and their effect on steps."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from reference import simulate
from support import SAMPLES, Ingested, rows

import tracedb
from tracedb import Edit
from tracedb.cli.main import tracedb as command
from tracedb.whatif.edit_line import parse
from tracedb.whatif.scenario import UNPROFILED, of_scenario, read_scenarios
from tracedb.whatif.simulation import simulated

MS, US = 1_000_000, 1_000


def event(name: str, start: float, duration: float, **more: Any) -> dict[str, Any]:  # noqa: ANN401 (as JSON has it)
    """Return a complete event of Kineto's; times are in microseconds."""
    place = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1}
    return place | {"name": name, "ts": start, "dur": duration} | more


@pytest.fixture(scope="module")
def hand_made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """A step of 1 ms: an op of 100 us around two, and a wait for a kernel of 500 us."""
    call = {"cat": "cuda_runtime"}
    kernel = {"cat": "kernel", "pid": 0, "tid": 7}
    link = {"device": 0, "stream": 7, "correlation": 1}
    events = [
        event("ProfilerStep#1", 0, 1000, cat="user_annotation"),
        event("aten::linear", 100, 100),
        event("aten::t", 110, 10),
        event("aten::addmm", 130, 60),
        event("cudaLaunchKernel", 150, 10, args={"correlation": 1}, **call),
        event("sgemm", 165, 500, args=link, **kernel),
        event("cudaDeviceSynchronize", 300, 370, args={"correlation": 2}, **call),
        event("aten::relu", 800, 50),
    ]
    path = tmp_path_factory.mktemp("hand_made") / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    with tracedb.open() as database:
        database.ingest([path])
        yield database


def predicted(database: tracedb.Database, *edits: Edit) -> int:
    """The step's predicted time in the only scenario, by replay."""
    (row,) = database.scenarios(edits).iter_rows(named=True)
    assert row["baseline_ns"] == MS
    return int(row["predicted_ns"])


BY_HAND: list[tuple[dict[str, Any], int]] = [
    # 30 of relu's 50 us are saved at the end, where only the host runs.
    ({"target": "host", "name": "aten::relu", "factor": 0.4}, 970),
    # From linear's begin to its launch: 50 us become 150, and the kernel is later.
    ({"target": "host", "type": "T2", "factor": 3}, 1100),
    # The host waits for the kernel.
    ({"target": "gpu", "name": "sgemm", "factor": 1.2}, 1100),
    ({"target": "gpu", "type": "kernel", "add_ns": -100 * US}, 900),
    # Also selected by the op that launched it.
    ({"target": "gpu", "op": "aten::addmm", "add_ns": 7 * US}, 1007),
    # Without the wait, the host ends after 630 us and the kernel after 665.
    ({"target": "wait", "type": "host"}, 665),
    # The host is idle in its first 100 us and its last 150.
    ({"target": "host", "type": "idle", "factor": 0}, 750),
    ({"target": "host", "type": "idle", "add_ns": 10 * US}, 1020),
    # Between linear, wait and relu: 100 us after the launch, and 130.
    ({"target": "host", "type": "T1", "factor": 0}, 870),
]


@pytest.fixture(scope="module")
def predicted_us(hand_made: tracedb.Database) -> list[float]:
    """The step's predicted time with each of these edits alone, by replay."""
    edits = [Edit(scenario=str(n), **edit) for n, (edit, _) in enumerate(BY_HAND)]
    effects = {row["scenario"]: row for row in hand_made.scenarios(edits).to_dicts()}
    assert {row["baseline_ns"] for row in effects.values()} == {MS}
    return [effects[edit.scenario]["predicted_ns"] / US for edit in edits]


@pytest.mark.parametrize("number", range(len(BY_HAND)))
def test_the_effect_of_an_edit_by_hand(predicted_us: list[float], number: int) -> None:
    """The step takes as long as calculated by hand."""
    assert predicted_us[number] == BY_HAND[number][1]


def test_idle_time_agrees_with_the_partition(ingested: Ingested) -> None:
    """Each span has one type on every thread; idle spans are those of steps."""
    with tracedb.open(ingested(SAMPLES / "generated_gpu"), read_only=True) as database:
        edits = [
            Edit(scenario=kind, target="host", type=kind, factor=2)
            for kind in ("T1", "idle")
        ]
        with database.simulate(["replay"], edits) as beside:
            found = rows(
                beside,
                """
                SELECT scenario, list(DISTINCT interval.type ORDER BY interval.type)
                FROM prediction.edited_span
                INNER JOIN overhead.interval USING (thread_id, position)
                GROUP BY scenario ORDER BY scenario
                """,
            )
            twice = rows(
                beside,
                """
                SELECT thread_id, position FROM prediction.edited_span
                GROUP BY ALL HAVING count(*) > 1
                """,
            )
    assert found == [("T1", ["T1"]), ("idle", ["idle"])]
    assert twice == []


MATCHES: list[tuple[dict[str, Any], int, int]] = [
    ({"target": "host", "name": "aten::relu", "factor": 0}, 1, 50),
    # Before and behind the launch: T2, the launch's op has no T5, T3.
    ({"target": "host", "name": "aten::linear", "factor": 0}, 2, 90),
    ({"target": "gpu", "factor": 0}, 1, 500),
    ({"target": "wait"}, 1, 370),
    ({"target": "profiler", "factor": 0}, 6, 12),
]


@pytest.mark.parametrize("method", ["replay", None])
def test_a_simulation_has_one_method_or_the_usual_one(
    method: str | None, hand_made: tracedb.Database
) -> None:
    """It takes a single name; without one, it replays."""
    edits = [Edit(scenario="half", target="gpu", factor=0.5)]
    with hand_made.simulate(method, edits) as beside:
        assert set(beside.ask("scenario_effect")["method"]) == {"replay"}


def test_matches_of_an_edit_are_reported(hand_made: tracedb.Database) -> None:
    """Their number, and their measured time."""
    edits = [Edit(scenario=str(n), **edit) for n, (edit, *_) in enumerate(MATCHES)]
    with hand_made.simulate(["replay"], edits) as beside:
        found = {
            row["scenario"]: row for row in beside.ask("scenario_match").to_dicts()
        }
    assert len(found) == len(MATCHES)
    for number, (edit, count, time_us) in enumerate(MATCHES):
        row = found[str(number)]
        assert (row["edit"], row["target"]) == (1, edit["target"])
        assert (row["match_count"], row["matched_ns"]) == (count, time_us * US), edit


NO_MATCH = [
    (
        {"target": "gpu", "name": "gemm", "factor": 0},
        "no GPU work with name gemm in this database; 1 contains it: sgemm",
    ),
    (
        {"target": "gpu", "name": "segmm", "factor": 0},
        "nearest: sgemm",
    ),
    (
        {"target": "gpu", "type": "memcpy", "factor": 0},
        "no GPU work of type memcpy in this database; available: kernel",
    ),
    (
        {"target": "host", "name": "aten::relux", "factor": 0},
        "nearest: aten::relu",
    ),
    (
        {"target": "host", "type": "wait_data", "factor": 0},
        "no host time of type wait_data in this database; available: T1, T2, T3",
    ),
    ({"target": "wait", "type": "stream"}, "no wait of type stream"),
]


@pytest.mark.parametrize(("edit", "line"), NO_MATCH)
def test_an_edit_that_matches_nothing_is_refused(
    hand_made: tracedb.Database, edit: dict[str, Any], line: str
) -> None:
    """The error names the edit, and similar names."""
    edits = [
        Edit(scenario="edited", target="gpu", factor=2),
        Edit(scenario="edited", **edit),
    ]
    with pytest.raises(tracedb.ScenarioError) as raised:
        hand_made.scenarios(edits)
    assert str(raised.value).startswith("scenario edited, edit 2: no ")
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)


def test_edits_of_one_scenario_add_up(hand_made: tracedb.Database) -> None:
    """Factors are multiplied; then each addend counts once."""
    edits = [
        Edit(scenario="both", target="gpu", factor=2),
        Edit(scenario="both", target="gpu", factor=0.5, add_ns=10 * US),
        Edit(scenario="both", target="gpu", name="sgemm", add_ns=20 * US),
    ]
    assert predicted(hand_made, *edits) == 1030 * US


def test_time_does_not_become_negative(hand_made: tracedb.Database) -> None:
    """A kernel cannot become shorter than 0: the host alone takes 630 us."""
    edit = Edit(scenario="gone", target="gpu", add_ns=-9 * MS)
    assert predicted(hand_made, edit) == 630 * US


def test_profiler_cost_per_event(hand_made: tracedb.Database) -> None:
    """Seven events are too few for an estimate: each costs 2 us, as in the paper."""
    ((count, cost_ns),) = rows(
        hand_made, "SELECT op_count, event_ns FROM overhead.profiler_cost"
    )
    assert (count, cost_ns) == (0, 2 * US)
    # linear, t, addmm and the launch before the kernel, relu after the wait.
    assert predicted(hand_made, UNPROFILED) == 1000 * US - 5 * 2 * US


def test_profiler_cost_is_in_the_gap_before_an_op(
    hand_made: tracedb.Database,
) -> None:
    """If gaps between ops are removed, relu's cost goes with them."""
    gaps = Edit(scenario="gaps", target="host", type="T1", factor=0)
    both = [
        Edit(scenario="both", target="host", type="T1", factor=0),
        Edit(scenario="both", target="profiler", factor=0),
    ]
    steps = hand_made.scenarios([gaps, *both])
    times = dict(zip(steps["scenario"], steps["predicted_ns"], strict=True))
    # t, addmm and the launch (nested), and linear, before which the host is idle.
    assert times["gaps"] - times["both"] == 4 * 2 * US


def test_edits_multiply_time_without_profiler_cost(
    hand_made: tracedb.Database,
) -> None:
    """Doubling host time doubles what remains after removing the cost."""
    double: dict[str, Any] = {"target": "host", "factor": 2}
    edits = [
        Edit(scenario="double", **double),
        Edit(scenario="both", **double),
        Edit(scenario="both", target="profiler", factor=0),
    ]
    steps = hand_made.scenarios(edits)
    times = dict(zip(steps["scenario"], steps["predicted_ns"], strict=True))
    # t, addmm, the launch and relu; linear's cost is in idle time, which stays.
    assert times["double"] - times["both"] == (2 * 4 + 1) * 2 * US


def test_profiler_cost_is_estimated(tmp_path: Path) -> None:
    """It is the median excess of call-free ops over the only op in them."""
    events = [event("ProfilerStep#1", 0, 9000, cat="user_annotation")]
    for number in range(31):
        begin = 100 + 100 * number
        events.append(event("aten::reshape", begin, 10.6 + number * 0.02))
        events.append(event("aten::view", begin + 0.2, 10))
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    with tracedb.open() as database:
        database.ingest([path])
        query = "SELECT op_count, median_ns, event_ns FROM overhead.profiler_cost"
        assert rows(database, query) == [(31, 900, 900)]


def test_events_are_counted_once(ingested: Ingested) -> None:
    """Each op and call begins in exactly one span of host time."""
    with tracedb.open(ingested(SAMPLES / "dlrm_cpu"), read_only=True) as database:
        counted = rows(
            database,
            """
            SELECT thread_id, sum(event_count)::BIGINT FROM overhead.recorded_event
            GROUP BY ALL
            """,
        )
        events = Counter(
            thread
            for relation in ("staging.op", "staging.call")
            for (thread,) in rows(database, f"SELECT thread_id FROM {relation}")
        )
    assert dict(counted) == events


PLACED = (
    "gpu:memcpy move to_stream=7",
    "gpu:*gemm* phase=forward move to_stream=99",
    "gpu:memcpy insert place=before gpu_ns=9us host_ns=3us",
    "gpu:*gemm* insert place=after gpu_ns=9us host_ns=3us",
    "op:/linear|::to$/ insert place=before host_ns=5us",
    "op:/addmm|::item$/ insert place=after host_ns=5us",
    "gpu:collective overlap until=Optimizer.step*",
    "gpu:*gemm* overlap until=aten::bmm to_stream=20",
    "gpu overlap until=*Backward*",
    "host:wait_data overlap workers=2 host_ns=50us",
)
"""Edits that insert or move GPU work or host time."""


def test_scenarios_equal_the_plain_loop(ingested: Ingested) -> None:
    """Edited graphs of two ranks are simulated like in the plain loop."""
    edits = [
        Edit(scenario="fast", target="gpu", factor=0.3),
        Edit(scenario="slow host", target="host", factor=2.5, add_ns=100),
        Edit(scenario="no waits", target="wait"),
        Edit(scenario="no threads", target="wait", type="thread"),
        UNPROFILED,
        Edit(scenario="no copies", target="gpu", type="memcpy", action="remove"),
        Edit(scenario="no sums", target="gpu", type="collective", action="remove"),
        Edit(scenario="no products", target="gpu", name="*gemm*", action="remove"),
        Edit(scenario="no ops", target="op", name="/linear|::to$/", action="remove"),
        *(of_scenario(line, parse(line)) for line in PLACED),
    ]
    path = ingested(SAMPLES / "generated_gpu")
    with (
        tracedb.open(path, read_only=True) as database,
        simulated(database.connection, ["replay", "full"], edits) as connection,
    ):
        beside = _Beside(connection)
        for scenario in ("baseline", *(edit.scenario for edit in edits)):
            for method in ("replay", "full"):
                reference = simulate(beside, method, scenario)  # type: ignore[arg-type]
                chosen = f"WHERE scenario = '{scenario}' AND method = '{method}'"
                found = connection.execute(
                    "SELECT thread_id, position, start_ns, end_ns "
                    "FROM simulation.host_span_time "
                    f"INNER JOIN prediction.variant USING (variant_id) {chosen}"
                ).fetchall()
                times = {(t, p): (start, end) for t, p, start, end in found}
                assert times == reference.spans
                work = connection.execute(
                    "SELECT gpu_op_id, start_ns, end_ns FROM simulation.gpu_work_time "
                    f"INNER JOIN prediction.variant USING (variant_id) {chosen}"
                ).fetchall()
                assert {w: (start, end) for w, start, end in work} == reference.kernels


class _Beside:
    """What the plain loop reads from a database, on a second connection."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 (DuckDB's, untyped)
        self.sql = lambda query: connection.sql(query).pl()


BAD = {
    "no JSON": ('{"a":\n[,]}', "line 2, column 2: not JSON: expected a value"),
    "no comma": (
        '{"a": [] "b"}',
        "column 10: not JSON: expected a comma or a closing bracket",
    ),
    "backslash": (
        '{"a": [{"target": "gpu", "name": "a\\.b"}]}',
        "a backslash in a string must be doubled",
    ),
    "not finite": (
        '{"a": [{"target": "gpu", "factor": NaN}]}',
        "NaN is not a JSON number",
    ),
    "no object": (
        "[]",
        'an object with a list of edits for each name, such as {"faster"',
    ),
    "no list": ('{"a": {"target": "gpu"}}', "scenario a: no edits; expected a list"),
    "no edits": (
        '{"b": [{"target": "gpu", "factor": 2}], "a": []}',
        "scenario a: no edits; expected a list of them",
    ),
    "no edit": (
        '{"a": [2]}',
        'scenario a, edit 1: not an edit; expected an object, such as {"t',
    ),
    "no target": (
        '{"a": [{"factor": 2}]}',
        "edit 1: target is missing; it must be one of host, gpu, op, wait, delay,",
    ),
    "wrong target": (
        '{"a": [{"target": "cpu"}]}',
        'scenario a, edit 1: target is "cpu"; it must be one of host, gpu',
    ),
    "wrong field": (
        '{"a": [{"target": "gpu", "factor": 2}, {"target": "gpu", "faktor": 2}]}',
        "scenario a, edit 2: no field faktor; the fields are target, type, name, op",
    ),
    "a scenario twice": (
        '{"a": [{"target": "gpu", "factor": 2}],\n"a": []}',
        '"a" occurs twice in one object, in lines 1 and 2; rename or remove one',
    ),
    "a field twice": (
        '{"a": [{"target": "gpu", "factor": 2, "factor": 3}]}',
        '"factor" occurs twice in one object, in line 1; rename or remove one',
    ),
    "wrong type": (
        '{"a": [{"target": "host", "type": "T6", "factor": 2}]}',
        "scenario a: no type T6 of host; available: T1, T2",
    ),
    "negative": ('{"a": [{"target": "gpu", "factor": -1}]}', "a number from 0 to 1e9"),
    "infinite": ('{"a": [{"target": "gpu", "factor": 1e999}]}', "from 0 to 1e9"),
    "no integer": ('{"a": [{"target": "gpu", "add_ns": 1.5}]}', "a whole number"),
    "no change": ('{"a": [{"target": "gpu"}]}', "the edit changes nothing"),
    "no wait": (
        '{"a": [{"target": "wait", "factor": 2}]}',
        "unsync removes waits; remove factor",
    ),
    "named profiler": (
        '{"a": [{"target": "profiler", "name": "x", "factor": 0}]}',
        "profiler is selected as a whole; remove name",
    ),
    "named wait": (
        '{"a": [{"target": "wait", "type": "thread", "name": "aten::item"}]}',
        "scenario a: wait of type thread has no op and no name; remove name",
    ),
    "named gap": (
        '{"a": [{"target": "host", "type": "T1", "name": "aten::item", "factor": 0}]}',
        "scenario a: host of type T1 has no op and no name; remove name",
    ),
    "typed profiler": (
        '{"a": [{"target": "profiler", "type": "T1", "factor": 0}]}',
        "no type T1 of profiler; remove it",
    ),
    "expression": (
        '{"a": [{"target": "gpu", "name": "/(/", "factor": 1}]}',
        "name /(/ is not a regular expression",
    ),
    "range": (
        '{"a": [{"target": "gpu", "step": "5..3", "factor": 1}]}',
        "step is 5..3, but 5 is above 3; swap them",
    ),
    "no number": (
        '{"a": [{"target": "gpu", "step": "3-5", "factor": 1}]}',
        'step is "3-5"; it must be a whole number, or a text such as "3..5"',
    ),
    "below 0": (
        '{"a": [{"target": "gpu", "rank": -1}]}',
        "it must be a whole number",
    ),
    "host stream": (
        '{"a": [{"target": "host", "stream": 7, "factor": 1}]}',
        "host is on no stream; remove stream",
    ),
    "waits of all kinds on a device": (
        '{"a": [{"target": "wait", "device": 0}]}',
        "wait is on no device; remove device",
    ),
    "copies in a group": (
        '{"a": [{"target": "gpu", "type": "memcpy", "process_group": "0"}]}',
        "gpu of type memcpy has no process group; remove process_group",
    ),
    "op in op": (
        '{"a": [{"target": "op", "op": "a", "factor": 1}]}',
        "ops are selected by name; remove op",
    ),
    "node and sql": (
        '{"a": [{"target": "op", "node": 1, "sql": "SELECT 1", "factor": 1}]}',
        "node and sql both select nodes; remove one",
    ),
    "part of no op": (
        '{"a": [{"target": "gpu", "part": "self", "factor": 1}]}',
        "part applies to ops: select them by op or shape, or remove part",
    ),
    "phase": (
        '{"a": [{"target": "gpu", "phase": "back", "factor": 1}]}',
        'phase is "back"; it must be one of data_loading, inference, ',
    ),
    "typed op": (
        '{"a": [{"target": "op", "type": "T2", "factor": 1}]}',
        "no type T2 of op; remove it",
    ),
    "baseline": (
        '{"baseline": [{"target": "gpu", "factor": 1}]}',
        "this name is reserved for the unedited baseline",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_one_line(tmp_path: Path, case: str) -> None:
    """The line has the file and the reason."""
    text, line = BAD[case]
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(tracedb.ScenarioError) as raised:
        read_scenarios(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert line in str(raised.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    """The error says that there is none."""
    with pytest.raises(tracedb.ScenarioError, match=r"none\.json: .*: No such file"):
        read_scenarios(tmp_path / "none.json")


def test_the_command_reports_matches(tmp_path: Path, ingested: Ingested) -> None:
    """Rows of all scenarios in file order; one without effect is reported."""
    database, file = ingested(SAMPLES / "generated_gpu"), tmp_path / "what_if.json"
    same = {"target": "gpu", "type": "kernel", "factor": 1}
    half = {"target": "gpu", "factor": 0.5}
    file.write_text(json.dumps({"nothing": [same], "half": [half]}))
    options = ["--scenario", str(file), "--format", "json"]
    done = CliRunner().invoke(command, ["predict", str(database), *options])
    assert done.exit_code == 0
    assert "scenario half, edit 1: " in done.stderr
    assert "GPU ops, " in done.stderr
    assert "scenario nothing: changes no step" in done.stderr
    assert "scenario half: " not in done.stderr
    shown = json.loads(done.stdout)
    assert [row["scenario"] for row in shown] == ["nothing"] * 6 + ["half"] * 6
    assert {row["method"] for row in shown} == {"replay"}


def test_commands_refuse_edits_without_matches(
    tmp_path: Path, ingested: Ingested
) -> None:
    """Exit code 2, one line, empty stdout, for every command with scenarios."""
    database, file = ingested(SAMPLES / "generated_gpu"), tmp_path / "what_if.json"
    gone = {"target": "gpu", "name": "no such kernel", "factor": 0}
    file.write_text(json.dumps({"nothing": [gone]}))
    for words in (["predict"], ["critical-path"], ["ask", "idle_cause"]):
        name, *more = words
        options = [name, str(database), *more, "--scenario", str(file)]
        done = CliRunner().invoke(command, options)
        assert (done.exit_code, done.stdout) == (2, "")
        assert "scenario nothing, edit 1: no GPU work with name no such" in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "options",
    [
        ("--evaluate", "--without-profiler"),
        ("--bands", "--without-profiler"),
        ("--scenario", "x.json", "--without-profiler"),
    ],
)
def test_conflicting_options_are_refused(options: tuple[str, ...]) -> None:
    """Exit code 2, before anything is opened."""
    done = CliRunner().invoke(command, ["predict", "none.duckdb", *options])
    assert done.exit_code == 2
    assert "none.duckdb" not in done.stderr
