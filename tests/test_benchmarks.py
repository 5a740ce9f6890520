"""Benchmarks measure what they claim: waits, longest path, sections, host times."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import graph_parts
import host_traces
import int8
import jitter
import kernels
import node_graph
import predict
import pytest
from pages import publish, replace_section
from waiting_job import STEPS, STREAMS, count_waits, waiting_job

import tracedb
from tracedb.synthetic import Delays, Form, GeneratedTrace, execute

EVENTS = 4_000
WAITS = 120


def job(waits: int = WAITS) -> GeneratedTrace:
    """The trace of a small job."""
    return execute(waiting_job(EVENTS, waits), Delays(jitter=0.1), 1)[0]


def written(trace: GeneratedTrace, folder: Path) -> Path:
    """Write a trace as the benchmark does."""
    return trace.write(folder / "job.json", Form(sync_events=True))


@pytest.mark.parametrize("waits", [0, 1, 10, 119, 120, 400])
def test_waits_of_a_program(waits: int) -> None:
    """A job has the requested number of waits."""
    assert count_waits(waiting_job(EVENTS, waits)) == waits


def test_waits_in_the_trace(tmp_path: Path) -> None:
    """The file has them: half for streams, a quarter each for events and devices."""
    file = json.loads(written(job(), tmp_path).read_text())
    names = Counter(event["name"] for event in file["traceEvents"])
    assert names["cudaStreamWaitEvent"] == WAITS // 2
    assert (
        names["cudaStreamSynchronize"] == names["cudaDeviceSynchronize"] == WAITS // 4
    )
    assert names["cudaLaunchKernel"] == EVENTS // 5 - WAITS
    assert len(file["traceEvents"]) == pytest.approx(EVENTS, rel=0.1)


def test_same_bytes() -> None:
    """The same job gives the same bytes."""
    assert job().json_text() == job().json_text()


def test_steps_and_streams() -> None:
    """The job has the requested steps, and uses all streams."""
    truth = job().truth
    assert len(truth.steps) == STEPS
    assert {kernel.stream for kernel in truth.kernels} == {*STREAMS}


def test_too_many_waits() -> None:
    """More waits than the events can hold are an error."""
    with pytest.raises(ValueError, match=r"3,000 waits need more than 4,000 events"):
        waiting_job(EVENTS, 3_000)


def longest_path_ns(edges: list[tuple[int, int, int]]) -> int:
    """The longest path from node 0, by relaxing all edges until nothing changes."""
    ends = {0: 0}
    while True:
        before = dict(ends)
        for source, target, weight in edges:
            if source in ends:
                ends[target] = max(ends.get(target, 0), ends[source] + weight)
        if ends == before:
            return max(ends.values())


def test_longest_path(tmp_path: Path) -> None:
    """The longest path equals the simulated end; every span and GPU op is a node.

    No pair of nodes has two edges: networkx would keep only the last.
    """
    with tracedb.open() as database:
        database.ingest([written(job(), tmp_path)])
        edges = node_graph.edges(database.connection).rows()
        end_ns = node_graph.simulated_end_ns(database.connection)
        counts = database.sql(
            "SELECT (SELECT count(*) FROM overhead.timeline) AS spans, "
            "(SELECT count(*) FROM staging.gpu_op) AS kernels"
        )
    assert longest_path_ns(edges) == end_ns > 0
    assert {target for _, target, _ in edges} == {*range(1, sum(counts.row(0)) + 1)}

    pairs = [(target, source) for source, target, _ in edges]
    assert all(before < after for before, after in pairwise(pairs))


@pytest.mark.parametrize("scenarios", [1, 3])
def test_all_simulations_agree(scenarios: int, tmp_path: Path) -> None:
    """They agree with scenarios too, each of which takes longer than the one before."""
    task = predict.Job(written(job(), tmp_path), 10**9, scenarios, tmp_path)
    [(_, _, _, nodes, *_)] = predict.ingest(task)
    ends = {
        tool: outcome.result
        for tool, work in predict.TOOLS.items()
        if tool not in ("ingest", "floor")
        for outcome in work(task)
    }
    assert len(set(ends.values())) == 1
    assert len(ends) == 4
    assert [outcome.failure for outcome in predict.floor(task)] == [""]
    assert nodes == pytest.approx(EVENTS, rel=0.2)
    assert min(ends.values()) > scenarios * 10**6


def test_int8_page() -> None:
    """Each layer and batch has a row with both times and their ratio."""
    pytest.importorskip("torch", reason="measuring needs tracedb[record]")
    page = int8.page(*int8.measured(int8.plan([(8, 16)], [1, 4]), threads=1))
    assert page.startswith("# FBGEMM's int8 products")
    assert "| 1 | 8 | 16 | " in page
    assert "| 4 | 8 | 16 | " in page
    assert "In the geometric mean int8 is" in page


PAGE = "# Benchmarks\n\n## Loading\n\n### A trace\n\n1 s\n\n## Path\n\n2 s\n"


@pytest.mark.parametrize(
    ("page", "section", "expected"),
    [
        (PAGE, "## Path\n\n3 s\n", PAGE.replace("2 s", "3 s")),
        (
            PAGE,
            "## Loading\n\n4 s\n",
            "# Benchmarks\n\n## Loading\n\n4 s\n\n## Path\n\n2 s\n",
        ),
        (PAGE, "## Memory\n\n5 B\n", f"{PAGE}\n## Memory\n\n5 B\n"),
        ("", "## Path\n\n2 s\n", "# Benchmarks\n\n## Path\n\n2 s\n"),
    ],
)
def test_sections(page: str, section: str, expected: str) -> None:
    """A program replaces or adds its own section, and leaves the others as they are."""
    assert replace_section(page, section) == expected


def test_a_whole_page_keeps_sections_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that writes a page leaves what others wrote, not what it wrote once."""
    monkeypatch.setattr("sys.argv", ["benchmarks/kernels.py"])
    page = tmp_path / "kernels.md"
    by = "Written by\n`python benchmarks/gpu/{}.py --each 5`.\n"
    own, other = (f"## Of {n}\n\n{by.format(n)}" for n in ("kernels", "ranges"))
    page.write_text(f"# Kernels\n\n{own}\n## Goals\n\n{other}\n## Data\n")
    publish("# Kernels\n\n## Goals\n\nnew\n", page)
    assert page.read_text() == f"# Kernels\n\n## Goals\n\nnew\n\n{other}"


@pytest.mark.parametrize(
    ("family", "module", "is_of_it"),
    [
        ("gemm", "families/gemm.py", True),
        ("gemm", "families/waves.py", True),
        ("gemm", "families/rows.py", False),
        ("gemm", "collective_table.py", False),
        ("gemm", "predictor.py", True),
        ("gemm", "describe.py", False),
        ("softmax", "families/rows.py", True),
        ("softmax", "families/waves.py", True),
        ("softmax", "families/gemm.py", False),
        ("collective", "collective_table.py", True),
    ],
)
def test_scores_depend_on_the_code_they_use(
    family: str, module: str, *, is_of_it: bool
) -> None:
    """Scores of a family are reused until code that it uses changes."""
    text = (kernels.CODE / module).read_bytes()
    assert (text in kernels.code({family})) == is_of_it


def host_events(slower: int, *, jitter: bool = False) -> list[dict[str, object]]:
    """Two ops, one with a child, a launch and a wait, on a host slower by a factor."""
    events: list[dict[str, object]] = []
    now = 0

    def add(cat: str, name: str, begin: int, length: int) -> None:
        event = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1}
        events.append(event | {"ts": now + slower * begin, "dur": slower * length})

    for turn in range(20):
        # Now and then the host is interrupted.
        held_up = 50 if jitter and not turn else 0
        add("cpu_op", "aten::outer", 0, 30 + held_up)
        add("cpu_op", "aten::inner", 5, 4)
        add("cuda_runtime", "cudaLaunchKernel", 10, 5)
        add("cuda_runtime", "cudaStreamSynchronize", 16, 10)
        add("cuda_runtime", "cudaEventRecord", 27, 2)
        add("cpu_op", "aten::next", 40 + held_up, 6)
        now += slower * 1_000
    return events


def test_host_times_are_fitted_from_ops() -> None:
    """Of three hosts, the median one's times and each one's speed are found."""
    traces = {
        str(slower): host_traces.samples(host_events(slower)) for slower in (1, 2, 6)
    }
    found = host_traces.learn(traces)
    # 30 us, less 4 in the child, 5 in the launch, and 10 in the wait.
    assert found.time["own", "aten::outer"] == pytest.approx(2 * 11_000)
    assert found.time["own", "aten::inner"] == pytest.approx(2 * 4_000)
    assert found.time["gap", "aten::next"] == pytest.approx(2 * 10_000)
    assert found.time["call", "launch"] == pytest.approx(2 * 5_000)
    assert found.factor == pytest.approx({"1": 0.5, "2": 1, "6": 3})
    assert found.launching == {"aten::outer": 1, "aten::inner": 0, "aten::next": 0}
    # Time between turns belongs to the program and is not a gap.
    assert ("gap", "aten::outer") not in found.time


def test_interruptions_are_in_the_total() -> None:
    """Outliers are left out of means; their sum is distributed over all ops."""
    found = host_traces.learn({"": host_traces.samples(host_events(1, jitter=True))})
    took = 20 * (11_000 + 4_000 + 6_000) + 50_000
    times = (found.time["own", f"aten::{name}"] for name in ("outer", "inner", "next"))
    assert 20 * sum(times) == pytest.approx(took)


def test_parts_of_an_error_add_up() -> None:
    """Errors of the parts of a path add up to that of the step."""
    measured = dict.fromkeys(graph_parts.PARTS, 0) | {
        "host in ops": 6_000_000, "waiting for other ranks": 4_000_000,
    }  # fmt: skip
    said = dict.fromkeys(graph_parts.PARTS, 0) | {"host in ops": 7_000_000}
    rows = list(graph_parts.table(["a"], [measured], [said]))
    errors = [float(row.split("|")[3].strip(" %")) for row in rows[2:]]
    assert errors[-1] == -30
    assert sum(errors[:-1]) == errors[-1]


@pytest.mark.parametrize("seed", [1, 3])
def test_jobs_that_do_not_vary_are_predicted_exactly(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change of a training on two ranks, with a thread for the backward pass."""
    monkeypatch.setattr(jitter, "TRACES", 1)
    subject = jitter.Subject("job", seed, 0)
    foretold = jitter.foretell([subject], "job")
    for name, deed in jitter.DEEDS.items():
        if "job" in deed.of:
            done = jitter.carried_out(name, subject, foretold)
            executed = jitter.mean_period(subject.execute(done, name))
            [prediction] = foretold.means[subject, name]
            # Halves of times are rounded.
            assert prediction.mean_ns == pytest.approx(executed, rel=1e-4), name
