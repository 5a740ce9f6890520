"""Waits with an unknown cause are kept where they are a large part of a step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support import rows, unbroken

import tracedb
from tracedb import Edit
from tracedb.cli.main import tracedb as command

US = 1_000

Event = dict[str, Any]


def event(name: str, start: float, duration: float, **more: object) -> Event:
    """A complete event of the host thread; times are in microseconds."""
    place = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1}
    return place | {"name": name, "ts": start, "dur": duration} | more


def call(name: str, start: float, duration: float, number: int) -> Event:
    """A call of the runtime."""
    link = {"correlation": number}
    return event(name, start, duration, cat="cuda_runtime", args=link)


def kernel(start: float, duration: float, number: int) -> Event:
    """A kernel on the one stream."""
    link = {"device": 0, "stream": 7, "correlation": number}
    place = {"cat": "kernel", "pid": 0, "tid": 7}
    return event("sgemm", start, duration, args=link) | place


def step(*events: Event) -> list[Event]:
    """A step of 1 ms: a kernel early in it, and an op at its end."""
    return [
        event("ProfilerStep#1", 0, 1000, cat="user_annotation"),
        event("aten::linear", 10, 40),
        call("cudaLaunchKernel", 20, 10, 1),
        kernel(40, 10, 1),
        *events,
        event("aten::relu", 900, 50),
    ]


SYNC = call("cudaDeviceSynchronize", 300, 370, 2)
TRACES = {
    # The host waits for a CUDA graph without any recorded kernels.
    "graph": step(call("cudaGraphLaunch", 250, 20, 3), SYNC),
    # A kernel starts late after unrecorded work, and the host waits for it.
    "late": step(call("cudaLaunchKernel", 200, 10, 3), kernel(500, 160, 3), SYNC),
    # Such a short wait without a cause counts as a delay.
    "short": step(call("cudaDeviceSynchronize", 300, 90, 2)),
}
NUMBER = {name: number for number, name in enumerate(TRACES, 1)}
KEPT = ("graph", "late")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of the traces, each as its own run."""
    folder = tmp_path_factory.mktemp("unexplained")
    with tracedb.open(folder / "run.duckdb") as database:
        for name, events in TRACES.items():
            file = folder / f"{name}.json"
            file.write_text(json.dumps({"traceEvents": events}))
            database.ingest([file], run=name)
    return folder / "run.duckdb"


@pytest.fixture
def database(path: Path) -> Iterator[tracedb.Database]:
    """The same, opened."""
    with tracedb.open(path, read_only=True) as opened:
        yield opened


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("method", ["replay", "statistics", "full"])
def test_large_unexplained_waits_are_kept(
    database: tracedb.Database, method: str, name: str
) -> None:
    """The step takes its measured time, except for delays; kept time is shown."""
    frame = database.predict(method)
    (row,) = frame.filter(frame["trace_id"] == NUMBER[name]).iter_rows(named=True)
    assert row["predicted_ns"] == pytest.approx(1000 * US, abs=110 * US)
    assert row["kept_ns"] == row["unexplained_ns"] > 200 * US


def test_small_unexplained_waits_are_dropped(database: tracedb.Database) -> None:
    """Less than a twentieth of the step counts as a delay that need not recur."""
    frame = database.predict("replay")
    (row,) = frame.filter(frame["trace_id"] == NUMBER["short"]).iter_rows(named=True)
    assert row["kept_ns"] == 0
    assert row["unexplained_ns"] == 40 * US
    assert row["predicted_ns"] == 960 * US


def test_kept_waits_are_unexplained_on_the_path(database: tracedb.Database) -> None:
    """They are on the path as `unexplained`, to the nanosecond."""
    path = database.critical_path(scope="step", method="replay")
    chosen = (path["kind"] == "unexplained") & (path["trace_id"] == NUMBER["graph"])
    found = path.filter(chosen).select("time_ns").rows()
    kept = rows(
        database,
        f"""
        SELECT kept_ns FROM critical_path.step_time
        WHERE method = 'replay' AND trace_id = {NUMBER["graph"]}
        """,
    )
    assert found == kept


def test_a_scenario_without_waits_drops_them(database: tracedb.Database) -> None:
    """Removing the host's waits also removes those without a cause."""
    frame = database.scenarios([Edit(scenario="free", target="wait", type="host")])
    (row,) = frame.filter(frame["trace_id"] == NUMBER["graph"]).iter_rows(named=True)
    assert row["baseline_ns"] == 1000 * US
    assert row["predicted_ns"] < 700 * US


def test_the_command_reports_kept_waits(path: Path) -> None:
    """One line for each trace where they are large, besides the rows."""
    options = ["predict", str(path), "--method", "replay", "--format", "json"]
    done = CliRunner().invoke(command, options)
    assert done.exit_code == 0
    reported = [
        line
        for line in unbroken(done.stderr).splitlines()
        if "as measured (kept_ns)" in line
    ]
    assert [line.split(":")[0] for line in reported] == [
        f"trace {NUMBER[name]}" for name in KEPT
    ]
