"""Critical paths and idle time of simulations, compared with a plain loop."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import gloo_job
import pytest
from click.testing import CliRunner
from reference import Simulation, predicted_periods, simulate
from support import SAMPLES, Ingested, rows

import tracedb
from tracedb import Edit
from tracedb.cli.main import tracedb as command

METHODS = ("replay", "statistics", "full")
LONGER = 7
ON_DEVICE = ("kernel", "memcpy", "memset", "communication")


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """A job with collectives on the CPU."""
    with tracedb.open() as opened:
        gloo_job.ingest(tmp_path_factory.mktemp("gloo"), opened, gloo_job.job_of(7))
        yield opened


@pytest.fixture(scope="module")
def ranks(ingested: Ingested) -> Iterator[tracedb.Database]:
    """A generated job with two GPUs."""
    path = ingested(SAMPLES / "generated_gpu")
    with tracedb.open(path, read_only=True) as opened:
        yield opened


Tiles = dict[int, list[dict[str, Any]]]
"""The intervals of each path, in order."""


class Found(NamedTuple):
    """Results for a database, cached for all tests."""

    simulated: Callable[[tracedb.Database, str], Simulation]
    """The plain loop's times for a method."""
    intervals: Callable[[tracedb.Database, str], dict[str, Tiles]]
    """Predicted paths of a scope, by method; a trace's times start at 0."""


@pytest.fixture(scope="module")
def found() -> Found:
    """What tests compare; paths of all methods are computed together."""
    return Found(cache(simulate), cache(_intervals))


def _intervals(database: tracedb.Database, scope: str) -> dict[str, Tiles]:
    found: dict[str, Tiles] = defaultdict(lambda: defaultdict(list))
    query = f"""
        SELECT
            * REPLACE (start_ns - from_ns AS start_ns, end_ns - from_ns AS end_ns),
            run_origin_ns
        FROM critical_path.interval
        INNER JOIN prediction.variant USING (variant_id)
        INNER JOIN simulation.origin USING (trace_id)
        CROSS JOIN LATERAL (
            SELECT CASE scope WHEN 'run' THEN 0 ELSE origin_ns END AS from_ns
        )
        WHERE scope = '{scope}'
        ORDER BY start_ns
    """
    with database.simulate(METHODS) as asked:
        for row in asked.sql(query).iter_rows(named=True):
            found[row["method"]][row["path_id"]].append(row)
    return found


def spans(
    database: tracedb.Database, simulation: Simulation, scope: str
) -> dict[int, tuple[int, int]]:
    """Begin and end of each path, from the plain loop's step times."""
    if scope == "period":
        times = predicted_periods(database, simulation)
        return {step: (a, b) for step, (a, b, _) in times.items() if b > a}
    found: dict[int, tuple[int, int]] = {}
    together: dict[Any, list[tuple[int, int, int]]] = defaultdict(list)
    for step, run, number, trace, thread, first, last in rows(
        database,
        "SELECT step_id, run_id, step, trace_id, thread_id, first_position, "
        "last_position FROM simulation.step_span",
    ):
        start = simulation.spans[thread, first][0]
        end = simulation.spans[thread, last][1]
        shift = simulation.origins[trace][1]
        found[step] = (start, end)
        together[run, number].append((end + shift, -step, start + shift))
    if scope == "step":
        return found
    return {
        -max(steps)[1]: (min(start for *_, start in steps), max(steps)[0])
        for steps in together.values()
        if len(steps) > 1
    }


def nodes(
    simulation: Simulation, tiles: list[dict[str, Any]], scope: str
) -> list[tuple[int, int] | int]:
    """The plain loop's nodes of a path's intervals."""
    begun = {
        (span[0], start): span
        for span, (start, end) in simulation.spans.items()
        if start < end
    }
    found: list[tuple[int, int] | int] = []
    for tile in tiles:
        if tile["thread_id"] is not None:
            shift = tile["run_origin_ns"] if scope == "run" else 0
            found.append(begun[tile["thread_id"], tile["start_ns"] - shift])
        elif tile["kind"] in ON_DEVICE:
            found.append(int(tile["node_id"]))
    return found


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("jobs", "scope"),
    [
        ("generated", "step"),
        ("generated", "period"),
        ("behind", "period"),
        ("ranks", "run"),
        ("dlrm8", "run"),
        ("on_cpu", "run"),
    ],
)
def test_delaying_the_path_delays_its_end(
    jobs: str,
    scope: str,
    method: str,
    found: Found,
    request: pytest.FixtureRequest,
) -> None:
    """Intervals tile the path; 7 ns more in any node on it delay its end by 7 ns."""
    database = request.getfixturevalue(jobs)
    simulation = found.simulated(database, method)
    paths = found.intervals(database, scope)[method]
    expected = spans(database, simulation, scope)
    assert paths.keys() == expected.keys()
    assert len(paths) > 0
    on_path = {}
    for path, tiles in paths.items():
        assert (tiles[0]["start_ns"], tiles[-1]["end_ns"]) == expected[path]
        for tile, following in pairwise(tiles):
            assert tile["start_ns"] < tile["end_ns"] == following["start_ns"]
        # The first interval may have begun before the path.
        on_path[path] = nodes(simulation, tiles[1:], scope)
    for share in (0.3, 0.8):
        # A run has one path: a delay in one step shifts the next.
        chosen = {
            tiles[0]["run_id"]: (path, on_path[path][int(share * len(on_path[path]))])
            for path, tiles in paths.items()
        }
        longer = simulation.again({node: LONGER for _, node in chosen.values()})
        later = spans(database, longer, scope)
        for path, _ in chosen.values():
            start, end = expected[path]
            assert later[path] == (start, end + LONGER)


@pytest.mark.parametrize(
    ("jobs", "scope"), [("ranks", "run"), ("dlrm8", "run"), ("on_cpu", "run")]
)
def test_the_replayed_path_equals_the_measured_one(
    jobs: str, scope: str, request: pytest.FixtureRequest
) -> None:
    """By kind, both paths have the same time."""
    database = request.getfixturevalue(jobs)
    path = database.critical_path(scope=scope, summary=True, method="replay")
    assert path.height > 0
    for steps in path.partition_by("path_id"):
        step_ns = steps["measured_ns"].sum()
        for row in steps.iter_rows(named=True):
            assert abs(row["measured_ns"] - row["time_ns"]) < 0.01 * step_ns


def test_within_a_rank_the_path_waits_for_other_ranks(ranks: tracedb.Database) -> None:
    """A step's path stays in its trace, and has the waits for the other rank."""
    query = """
        SELECT
            bool_and(interval.trace_id = path.trace_id),
            sum(interval.end_ns - interval.start_ns) FILTER (kind = 'rank_wait') > 0
        FROM critical_path.interval
        INNER JOIN critical_path.path USING (variant_id, scope, path_id)
        WHERE scope = 'step' AND variant_id > 0
    """
    with ranks.simulate(METHODS) as asked:
        assert rows(asked, query) == [(True, True)]


def plain_idle(
    database: tracedb.Database,
    simulation: Simulation,
    spans: dict[int, tuple[int, int]],
) -> dict[tuple[int, int], int]:
    """Idle time of each step and device, one elementary interval at a time."""
    devices = rows(
        database, "SELECT trace_id, device FROM staging.device WHERE gpu_op_count > 0"
    )
    work = defaultdict(list)
    for kernel, trace, device in rows(
        database, "SELECT gpu_op_id, trace_id, device FROM graph.stream_position"
    ):
        work[trace, device].append(simulation.kernels[kernel])
    found = {}
    for step, trace in rows(database, "SELECT step_id, trace_id FROM staging.step"):
        for device in (d for t, d in devices if t == trace and step in spans):
            start, end = spans[step]
            idle, busy_until = 0, start
            for begin, over in sorted(work[trace, device]):
                idle += max(min(begin, end) - busy_until, 0)
                busy_until = max(busy_until, over)
            found[step, device] = idle + max(end - busy_until, 0)
    return found


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("jobs", ["generated", "ranks", "dlrm8"])
def test_idle_time_is_what_no_gpu_work_covers(
    jobs: str,
    method: str,
    found: Found,
    request: pytest.FixtureRequest,
) -> None:
    """Causes tile the idle time, without gap or overlap."""
    database = request.getfixturevalue(jobs)
    simulation = found.simulated(database, method)
    expected = plain_idle(database, simulation, spans(database, simulation, "step"))
    idle_times = rows(
        database,
        f"""
        SELECT step_id, device, sum(end_ns - start_ns), max(end_ns - later_ns)
        FROM (
            SELECT *, lead(start_ns) OVER (
                PARTITION BY variant_id, step_id, device ORDER BY start_ns
            ) AS later_ns
            FROM critical_path.idle
            INNER JOIN prediction.variant USING (variant_id)
            WHERE method = '{method}'
        )
        GROUP BY ALL
        """,
    )
    assert {(step, device): idle for step, device, idle, _ in idle_times} == {
        key: idle for key, idle in expected.items() if idle > 0
    }
    assert max(overlap or 0 for *_, overlap in idle_times) <= 0


def test_measured_idle_time_is_as_long_as_measured(ranks: tracedb.Database) -> None:
    """As measured, all that is not idle is the separately counted busy time."""
    differing = rows(
        ranks,
        """
        SELECT * FROM question.gpu_active INNER JOIN question.idle_share
            USING (step_id, device)
        WHERE measured_ns <> busy_ns
        """,
    )
    assert differing == []
    assert rows(ranks, "SELECT count(*) > 0 FROM question.gpu_active") == [(True,)]


def test_idle_time_has_its_known_cause(
    hand_made: tracedb.Database,
) -> None:
    """The device is idle during host ops, a launch delay, and the end of the step."""
    found = rows(
        hand_made,
        "SELECT kind, idle_ns / 1000 FROM question.idle_cause ORDER BY kind",
    )
    # Until the launch at 150 us there are a gap of 100 us and 50 us of an op. The
    # kernel runs from 165 to 665 us. The call returns at 670; relu then runs 50 of 330
    # us.
    assert found == [
        ("host_gap", 100.0 + 280.0),
        ("host_op", 50.0 + 50.0),
        ("launch", 10.0),
        ("launch_delay", 5.0),
        ("wait", 5.0),
    ]


def test_idle_time_of_a_trace_without_steps(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """It is that of the whole trace, of which the device is busy for the rest."""
    host = {"ph": "X", "pid": 1, "tid": 1}
    ids = {"correlation": 1, "device": 0, "stream": 7}
    events = [
        host | {"cat": "cpu_op", "name": "aten::mm", "ts": 100, "dur": 60},
        host
        | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": ids}
        | {"ts": 110, "dur": 20},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "args": ids}
        | {"ts": 133, "dur": 67},
    ]
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}))
    database.ingest([tmp_path / "a.json"])
    query = "SELECT step, kind, idle_ns, round(idle_share, 6) FROM question.idle_cause"
    assert rows(database, query) == [
        (None, "launch", 20_000, 0.2),
        (None, "host_op", 10_000, 0.1),
        (None, "launch_delay", 3_000, 0.03),
    ]
    query = "SELECT step, busy_ns, round(idle_share, 6) FROM question.idle_share"
    assert rows(database, query) == [(None, 67_000, 0.33)]


@pytest.fixture(scope="module")
def hand_made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """A step of 1 ms: an op that launches a kernel of 500 us, and a wait for it."""
    path = tmp_path_factory.mktemp("hand_made") / "trace.json"
    path.write_text(HAND_MADE)
    with tracedb.open() as database:
        database.ingest([Path(path)])
        yield database


HAND_MADE = """{"traceEvents": [
{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1,
 "ts": 0, "dur": 1000},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1,
 "ts": 100, "dur": 100},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
 "ts": 150, "dur": 10, "args": {"correlation": 1}},
{"ph": "X", "cat": "kernel", "name": "sgemm", "pid": 0, "tid": 7, "ts": 165,
 "dur": 500, "args": {"device": 0, "stream": 7, "correlation": 1}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 1,
 "tid": 1, "ts": 300, "dur": 370, "args": {"correlation": 2}},
{"ph": "X", "cat": "cpu_op", "name": "aten::relu", "pid": 1, "tid": 1,
 "ts": 800, "dur": 50}
]}"""


def test_all_relations_cover_a_scenario(ranks: tracedb.Database) -> None:
    """Beside the baseline a scenario has its own path and idle time, in its block."""
    slow = Edit(scenario="slow", target="gpu", type="kernel", factor=3)
    known = ranks.sql("FROM prediction.variant").height
    with ranks.simulate(["replay"], [slow]) as beside:
        path = beside.critical_path(2, summary=True, method="replay")
        kernels = dict(
            path.filter((path["kind"] == "kernel") & (path["rank"] == 0))
            .select("scenario", "time_ns")
            .iter_rows()
        )
        assert kernels["slow"] > 2 * kernels["baseline"]
        active = beside.ask("gpu_active")
        assert set(active["scenario"]) == {"baseline", "slow"}
        slowed = active.filter(active["scenario"] == "slow")
        assert slowed["error_share"].null_count() == slowed.height > 0
    assert ranks.sql("FROM prediction.variant").height == known


def test_a_plain_query_reads_what_was_measured(
    ranks: tracedb.Database, ingested: Ingested
) -> None:
    """Any client counts paths once; variants are separate rows when asked for."""
    path = ingested(SAMPLES / "generated_gpu")
    # Any client: no variables, no functions from Python.
    with duckdb.connect(str(path), read_only=True) as client:
        for name in ("path", "hop", "interval", "interval_op"):
            query = f"SELECT DISTINCT variant_id FROM critical_path.{name}"
            assert client.execute(query).fetchall() == [(0,)]
        for name in ("critical_path", "path_interval", "idle_cause"):
            query = f"SELECT DISTINCT scenario, method FROM question.{name}"
            assert client.execute(query).fetchall() == [("baseline", "measured")]
        measured = client.execute("FROM critical_path.hop ORDER BY ALL").fetchall()
    with ranks.simulate(["replay", "other_steps"]) as asked:
        for name in ("path", "hop", "interval", "interval_op"):
            query = f"SELECT DISTINCT method FROM critical_path.{name} " + VARIANTS
            assert rows(asked, query) == [("measured",), ("replay",), ("other_steps",)]
        query = "FROM critical_path.hop WHERE variant_id = 0 ORDER BY ALL"
        assert rows(asked, query) == measured


VARIANTS = "INNER JOIN prediction.variant USING (variant_id) ORDER BY variant_id"


@pytest.mark.parametrize("jobs", ["generated", "ranks"])
def test_hops_lead_from_end_to_begin(jobs: str, request: pytest.FixtureRequest) -> None:
    """The first ends with the path, each later one no later than the previous."""
    database = request.getfixturevalue(jobs)
    query = """
        SELECT
            hop = 1 AS is_first,
            min(path.end_ns - until_ns - hop.shift_ns),
            max(path.end_ns - until_ns - hop.shift_ns) FILTER (hop = 1),
            bool_and(until_ns + hop.shift_ns > path.start_ns OR hop = 1),
            bool_and((reason = 'end') = (hop = 1))
        FROM critical_path.hop AS hop
        INNER JOIN critical_path.path AS path USING (variant_id, scope, path_id)
        WHERE variant_id {}
        GROUP BY ALL ORDER BY is_first
    """
    with database.simulate(METHODS) as asked:
        for variants in ("= 0", "> 0"):
            later, first = rows(asked, query.format(variants))
            assert first == (True, 0, 0, True, True)
            assert later[1] >= 0
            assert later[3:] == (True, True)


def test_predicted_paths_on_the_command_line(
    tmp_path: Path, ingested: Ingested
) -> None:
    """`critical-path` and `sql` accept methods and scenarios, beside the baseline."""
    path, scenario = ingested(SAMPLES / "generated_gpu"), tmp_path / "slow.json"
    scenario.write_text('{"slow": [{"target": "gpu", "factor": 2}]}')
    runner = CliRunner()
    words = ["critical-path", str(path), "--step", "2", "--format", "csv"]
    done = runner.invoke(command, [*words, "--scenario", str(scenario)])
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("scenario,method,scope,path_id")
    assert {line.split(",")[1] for line in lines[1:]} == {"replay"}
    assert {line.split(",")[0] for line in lines[1:]} == {"baseline", "slow"}
    query = "SELECT DISTINCT method FROM question.idle_cause ORDER BY method"
    asked = ["sql", str(path), query, "--method", "other_steps", "--format", "csv"]
    done = runner.invoke(command, asked)
    assert done.stdout.split() == ["method", "measured", "other_steps"]
    for more, text in (
        (["--method", "replay", "--scope", "trace"], "not for traces"),
        (["--method", "lin2022"], "has no graph"),
    ):
        done = runner.invoke(command, [*words, *more])
        assert done.exit_code == 2
        assert text in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("jobs", ["generated", "dlrm8"])
def test_every_node_has_a_time(
    jobs: str,
    found: Found,
    request: pytest.FixtureRequest,
) -> None:
    """Calls begin with their spans in the plain loop; ops enclose their calls."""
    database = request.getfixturevalue(jobs)
    simulation = found.simulated(database, "statistics")
    times = {
        node: (start, end)
        for node, start, end in rows(
            database,
            "SELECT node_id, start_ns, end_ns FROM critical_path.node_time "
            "INNER JOIN prediction.variant USING (variant_id) "
            "WHERE method = 'statistics'",
        )
    }
    known = rows(database, "SELECT node_id FROM graph.node WHERE kind <> 'other'")
    assert times.keys() == {node for (node,) in known}
    begun: dict[int, int] = {}
    ended: dict[int, int] = {}
    for call, thread, position in rows(
        database,
        "SELECT call_id, thread_id, position FROM overhead.timeline "
        "INNER JOIN staging.call USING (call_id, thread_id) ORDER BY position",
    ):
        begun.setdefault(call, simulation.spans[thread, position][0])
        ended[call] = simulation.spans[thread, position][1]
    assert len(begun) > 0
    assert {call: times[call] for call in begun} == {
        call: (begun[call], ended[call]) for call in begun
    }
    nested = rows(database, "SELECT op_id, parent_op_id FROM staging.op")
    for op, parent in nested:
        start, end = times[op]
        assert start <= end
        if parent is not None:
            assert times[parent][0] <= start <= end <= times[parent][1]
