"""Scenarios on arrays equal those in SQL, to the nanosecond."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from loading import loading_job
from support import CORPUS, SAMPLES, Ingested, needs_corpus, rows, write_generated

import tracedb
from tracedb import Edit, catalog
from tracedb.errors import ScenarioError
from tracedb.synthetic import Delays, execute, random_program
from tracedb.whatif import twin, twin_graph
from tracedb.whatif.action import RULES

SEEDS = range(4)
HALF = {"target": "gpu", "factor": 0.5}
TARGETS: list[dict[str, Any]] = [
    {"target": "host"},
    *({"target": "host", "type": f"T{number}"} for number in range(1, 6)),
    {"target": "host", "type": "idle"},
    {"target": "gpu"},
    {"target": "gpu", "type": "kernel"},
    {"target": "gpu", "type": "memcpy"},
    {"target": "gpu", "type": "collective"},
    {"target": "gpu", "stream": "7"},
    {"target": "op", "name": "*a*"},
    {"target": "profiler"},
]
TAKEN: list[dict[str, Any]] = [
    {"action": "set", "set_to": "step_median"},
    {"action": "set", "set_to": "rank_min"},
    {"action": "set", "from_run": 1},
    {"action": "ideal"},
]
"""Edits that take times from elsewhere."""
EFFECTS = "FROM question.scenario_effect"
PERIODS = """
SELECT * EXCLUDE (last_gpu_op_id)
FROM critical_path.step_period
ORDER BY variant_id, step_id
"""
Scenario = list[dict[str, Any]]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """Traces of several threads and streams, and a run of two ranks."""
    folder = tmp_path_factory.mktemp("programs")
    write_generated(folder, SEEDS)
    program = random_program(5, threads=2, streams=3, steps=3, ranks=2)
    ranks = []
    for rank, trace in enumerate(execute(program, Delays(jitter=0.1), 5)):
        ranks.append(folder / "ranks" / f"rank{rank}.json")
        ranks[-1].parent.mkdir(exist_ok=True)
        trace.write(ranks[-1])
    with tracedb.open() as database:
        database.ingest(sorted(folder.glob("*.json")))
        database.ingest(ranks, run="ranks")
        yield database


def edits_of(scenarios: list[Scenario]) -> list[Edit]:
    """The edits of numbered scenarios."""
    return [
        Edit(scenario=f"scenario {number}", **edit)
        for number, scenario in enumerate(scenarios)
        for edit in scenario
    ]


def assert_equal_to_sql(
    database: tracedb.Database,
    scenarios: list[Scenario],
    methods: Sequence[str] = ("replay",),
) -> None:
    """Arrays and SQL give the same times of all steps, and the same effects."""
    edits = edits_of(scenarios)
    with database.simulate(methods, edits, only_steps=True) as beside:
        by_arrays = rows(beside, EFFECTS), rows(beside, PERIODS)
        computed = "SELECT DISTINCT variant_id FROM prediction.host_time"
        there = {int(variant) for (variant,) in rows(beside, computed)}
    assert max(there) < 100, "SQL has evaluated a scenario"
    with database.simulate(methods, edits) as beside:
        by_query = rows(beside, EFFECTS), rows(beside, PERIODS)
    assert by_arrays == by_query
    assert len(by_arrays[0]) >= len(scenarios) * len(methods)


FACTORS = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 20))
ADDED = st.one_of(st.none(), st.integers(-30_000, 30_000))
CHANGES = st.builds(
    lambda target, factor, add_ns: target | {"factor": factor, "add_ns": add_ns},
    st.sampled_from(TARGETS),
    FACTORS,
    ADDED,
)
SETS = st.one_of(
    st.sampled_from(
        [
            target | how
            for target in TARGETS
            for how in TAKEN
            # The first run has one rank and no collectives.
            if target["target"] in RULES["set"].times
            and not ("from_run" in how and target.get("type") == "collective")
        ]
    ),
    st.builds(
        lambda target, set_ns: {**target, "action": "set", "set_ns": set_ns},
        st.sampled_from([e for e in TARGETS if e["target"] in {"host", "gpu"}]),
        st.integers(0, 100_000),
    ),
)
SCENARIOS = st.lists(
    st.builds(
        lambda changes, sets: [*changes, *sets],
        st.lists(CHANGES, min_size=1, max_size=3),
        st.lists(SETS, max_size=1),
    ),
    min_size=45,
    max_size=90,
)
METHODS = ("replay", "statistics", "full", "other_steps")


# Setting up is slow, another scenario is cheap: few examples, each large.
@settings(max_examples=2, deadline=None, suppress_health_check=[*HealthCheck])
@given(SCENARIOS)
def test_arrays_and_sql_agree(
    programs: tracedb.Database, scenarios: list[Scenario]
) -> None:
    """Whatever is scaled, lengthened or set, by any method."""
    assert_equal_to_sql(programs, scenarios, METHODS)


LESS = st.builds(
    lambda target, factor, add_ns: target | {"factor": factor, "add_ns": add_ns},
    st.sampled_from(TARGETS),
    st.floats(0, 1),
    st.integers(-30_000, 0),
)
DISJOINT = st.permutations(
    [
        {"target": "host", "type": "T2", "factor": 0.5},
        {"target": "host", "type": "T4", "factor": 3, "add_ns": -700},
        {"target": "host", "type": "idle", "add_ns": 900},
        {"target": "gpu", "type": "kernel", "factor": 1.5},
        {"target": "gpu", "type": "memcpy", "action": "set", "set_ns": 5_000},
    ]
)


@settings(max_examples=2, deadline=None, suppress_health_check=[*HealthCheck])
@given(
    st.lists(st.lists(LESS, min_size=1, max_size=4), min_size=15, max_size=60), DISJOINT
)
def test_laws(
    programs: tracedb.Database, less: list[Scenario], disjoint: Scenario
) -> None:
    """No change has no effect; less time ends no step later; order does not matter.

    Neither the mark of a step, nor its GPU work, nor its period ends later.
    A period may grow, if the previous step ends earlier and something else bounds this
    one.
    """
    same = [target | {"factor": 1} for target in TARGETS]
    edits = edits_of([same, disjoint, disjoint[::-1], *less])
    query = """
        SELECT scenario, list([end_ns, host_end_ns, gpu_end_ns] ORDER BY step_id)
        FROM critical_path.step_period INNER JOIN prediction.variant USING (variant_id)
        WHERE is_simulated
        GROUP BY scenario
    """
    with programs.simulate(["replay"], edits, only_steps=True) as beside:
        steps = dict(rows(beside, query))
    base, *edited = (steps[name] for name in ("baseline", *_names(edits)))
    assert edited[0] == base
    assert edited[1] == edited[2]
    for shorter in edited[3:]:
        for ends, base_ends in zip(shorter, base, strict=True):
            for end_ns, base_end_ns in zip(ends, base_ends, strict=True):
                assert end_ns is None or end_ns <= base_end_ns


def _names(edits: list[Edit]) -> list[str]:
    return list(dict.fromkeys(edit.scenario for edit in edits))


@settings(max_examples=2, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=8, unique=True))
def test_scaling_all_host_time_scales_the_step(
    ingested: Ingested, factors: list[int]
) -> None:
    """If only a host computes, k times its time gives k times the step."""
    types = (None, "idle", "wait_data")
    edits = [
        Edit(scenario=f"{factor}", target="host", type=type_, factor=factor)
        for factor in factors
        for type_ in types
    ]
    with tracedb.open(ingested(SAMPLES / "dlrm_cpu"), read_only=True) as database:
        effects = database.scenarios(edits).to_dicts()
    assert len(effects) >= len(factors)
    for row in effects:
        assert row["predicted_ns"] == int(row["scenario"]) * row["baseline_ns"]


def test_every_target_on_arrays_agrees_with_sql(programs: tracedb.Database) -> None:
    """Each by itself, in blocks of one scenario, too."""
    scenarios = [[target | {"factor": 0.3, "add_ns": 1_001}] for target in TARGETS] + [
        [target | {"action": "set", "set_ns": 7_777}]
        for target in TARGETS
        if target["target"] in {"host", "gpu"}
    ]
    scenarios += [
        [{"target": target} | how] for target in ("host", "gpu", "op") for how in TAKEN
    ]
    assert_equal_to_sql(programs, scenarios)
    taken = {rule for name in RULES for rule in RULES[name].times}
    assert taken == {target["target"] for target in TARGETS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(twin, "_CELLS", 1)
        patch.setattr(twin_graph, "_CELLS", 1)
        assert_equal_to_sql(programs, scenarios[:3])


def test_other_edits_use_sql(programs: tracedb.Database) -> None:
    """Both kinds may be in one request, and results keep its order."""
    scenarios: list[Scenario] = [
        [HALF],
        [{"target": "wait", "type": "host"}],
        [{"target": "gpu", "type": "memcpy", "action": "remove"}, HALF],
        [{"target": "host", "factor": 0}],
    ]
    edits = edits_of(scenarios)
    with programs.simulate(["replay"], edits) as beside:
        expected = rows(beside, EFFECTS)
    assert programs.scenarios(edits).rows() == expected
    query = """
        SELECT DISTINCT scenario
        FROM prediction.host_time INNER JOIN prediction.variant USING (variant_id)
        ORDER BY ALL
    """
    with programs.simulate(["replay"], edits, only_steps=True) as beside:
        found = [scenario for (scenario,) in rows(beside, query)]
    assert found == ["baseline", "scenario 1", "scenario 2"]


def test_a_cycle_has_no_time_in_scenarios(tmp_path: Path) -> None:
    """Nodes waiting in a cycle never begin; all others are as in SQL."""
    write_generated(tmp_path, [2, 5])
    tables = {"prediction.host_time", twin.RESULT} | {
        f"simulation.{name}"
        for name in ("host_offset", "gpu_offset", "segment_edge", "segment_time")
    }
    with tracedb.open() as database:
        database.ingest([tmp_path])
        query = "SELECT DISTINCT thread_id FROM prediction.host_own WHERE trace_id = 1"
        first, second = [thread for (thread,) in rows(database, query)][:2]
        for waiting, awaited in ((first, second), (second, first)):
            database.connection.execute(
                "UPDATE prediction.host_own SET awaited_gpu_op_id = NULL, "
                "awaited_thread_id = ?, awaited_position = 3 "
                "WHERE thread_id = ? AND position = 2",
                [awaited, waiting],
            )
        steps = len(rows(database, PERIODS))
        for _ in catalog.compute(database.connection, [1, 2], tables):
            pass
        assert len(rows(database, PERIODS)) < steps
        assert_equal_to_sql(database, [[HALF], [{"target": "host", "factor": 2}]])


def test_times_out_of_range_are_refused(programs: tracedb.Database) -> None:
    """They would overflow."""
    edits = edits_of(
        [
            [HALF],
            [
                {"target": "gpu", "set_ns": 10**15, "action": "set"},
                HALF | {"factor": 5e3},
            ],
        ]
    )
    with pytest.raises(ScenarioError, match="add up to more than a century"):
        programs.scenarios(edits)


NUMBERS = st.integers(-(10**6), 10**6)


@given(
    arrays.arrays(
        np.int64, st.tuples(st.integers(1, 3), st.just(12)), elements=NUMBERS
    ),
    st.lists(st.booleans(), min_size=12, max_size=12),
    st.sampled_from([2**61, 10**7, 1]),
)
def test_segmented_running_maximum(
    values: twin_graph.Numbers, is_first: list[bool], most: int
) -> None:
    """It restarts in each segment, also with more segments than fit in one pass."""
    is_first[0] = True
    first = np.maximum.accumulate(np.where(is_first, np.arange(12), 0))
    expected = [
        [max(row[first[place] : place + 1]) for place in range(12)] for row in values
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(twin_graph, "_MOST", most)
        found = twin_graph._running_max(values, first)  # noqa: SLF001 (its arithmetic)
    assert found.tolist() == expected


@needs_corpus
def test_a_real_rank_agrees(ingested: Ingested) -> None:
    """One rank of a recommendation model on eight GPUs."""
    trace = CORPUS / "param" / "dlrm8" / "kineto" / "worker0.pt.trace.json.gz"
    with tracedb.open(ingested(trace), read_only=True) as database:
        scenarios = [
            [target | {"factor": factor}]
            for target in (
                {"target": "gpu"},
                {"target": "host"},
                {"target": "op", "name": "*"},
            )
            for factor in (0, 0.35, 2)
        ]
        assert_equal_to_sql(database, scenarios)


def test_an_earlier_step_may_end_last(tmp_path: Path) -> None:
    """GPU work on its own stream outlasts later steps, whose periods are then 0."""
    events: list[dict[str, Any]] = []
    for number, (stream, lasts) in enumerate([(7, 500), (9, 5), (9, 5), (9, 5)]):
        begin, given = 100 * number, {"correlation": number + 1, "stream": stream}
        host = {"ph": "X", "pid": 1, "tid": 1}
        events += [
            host | {"cat": "user_annotation", "name": f"ProfilerStep#{number}"}
            | {"ts": begin, "dur": 100},
            host | {"cat": "cpu_op", "name": "aten::mul", "ts": begin + 1, "dur": 20},
            host | {"cat": "cuda_runtime", "name": "cudaLaunchKernel"}
            | {"ts": begin + 5, "dur": 4, "args": given},
            {"ph": "X", "pid": 0, "tid": stream, "cat": "kernel", "name": f"k{stream}"}
            | {"ts": begin + 10, "dur": lasts, "args": given | {"device": 0}},
        ]  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    factors = (0.2, 0.3, 0.5, 0.9, 2.0)
    with tracedb.open() as database:
        database.ingest([path])
        scenarios: list[Scenario] = [[{"target": "gpu", "factor": f}] for f in factors]
        assert_equal_to_sql(database, scenarios)
        with database.simulate(["replay"], edits_of(scenarios)) as beside:
            found = beside.sql(
                "SELECT count(*) FROM critical_path.step_period "
                "WHERE variant_id >= 100 AND end_ns = start_ns"
            ).item()
    assert found > len(factors)


def test_a_job_on_cpus_agrees(ingested: Ingested) -> None:
    """Threads continue after others with a delay, and ranks have their own clocks."""
    scenarios: list[Scenario] = [
        [{"target": "host", "factor": factor}] for factor in (0.25, 1.0, 3.0)
    ]
    with tracedb.open(ingested(SAMPLES / "ddp_gloo"), read_only=True) as database:
        assert_equal_to_sql(database, scenarios)


def test_needs_of_other_threads_agree(tmp_path: Path) -> None:
    """Time between another thread's work and what needs it is edited, too."""
    for seed in (1, 9):
        job = loading_job(seed)
        execute(job.program, job.delays)[0].write(tmp_path / f"{seed}.json")
    scenarios: list[Scenario] = [
        [{"target": "host", "type": "T1", **change}]
        for change in ({"factor": 0}, {"factor": 0.5}, {"factor": 3}, {"add_ns": 9_000})
    ]
    scenarios.append([{"target": "host", "action": "set", "set_to": "step_median"}])
    with tracedb.open() as database:
        database.ingest(sorted(tmp_path.glob("*.json")))
        assert_equal_to_sql(database, scenarios, ("replay", "statistics"))
