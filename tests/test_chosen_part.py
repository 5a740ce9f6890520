"""A summary, a report and what-if answers of one rank or step count only its own."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from support import SAMPLES, Ingested
from test_report import data_of

import tracedb
from tracedb import catalog
from tracedb.catalog import find
from tracedb.cli.main import tracedb as command
from tracedb.part import Part, has
from tracedb.report.sections import SECTIONS
from tracedb.summary import OF_ALL_RANKS, OF_STEP, PARTS

RUNS = ("generated_gpu", "ddp_gloo")
"""Runs of two ranks: with GPU work, and recorded on CPUs."""
GPU_KINDS = ("kernel", "gpu_memcpy", "gpu_memset")
Event = dict[str, Any]


class Recorded:
    """A rank's trace file, in plain loops."""

    def __init__(self, sample: str, rank: int) -> None:
        """Read the events of the file."""
        path = SAMPLES / sample / f"rank{rank}.kineto.json.gz"
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        self._events = [event for event in events if event["ph"] == "X"]
        self.work = [event for event in self._events if event["cat"] in GPU_KINDS]

    @property
    def op_count(self) -> int:
        """How many ops there are."""
        # The backend of collectives records its ops as annotations.
        return sum(
            event["cat"] == "cpu_op" or event["name"].startswith("gloo:")
            for event in self._events
        )

    @property
    def steps(self) -> list[tuple[int, float, float]]:
        """Number, begin and end of the mark of each step, in microseconds."""
        marks = [e for e in self._events if e["name"].startswith("ProfilerStep#")]
        on_host = [e for e in marks if e["cat"] == "user_annotation"]
        return sorted(
            (int(e["name"].split("#")[1]), e["ts"], e["ts"] + e["dur"]) for e in on_host
        )

    @property
    def periods_ns(self) -> dict[int, int]:
        """From when host and GPU were done with the step before, until they are."""
        launches = {
            event["args"]["correlation"]: event["ts"]
            for event in self._events
            if event["cat"] in ("cuda_runtime", "cuda_driver")
        }
        found, before = {}, self.steps[0][1]
        for number, begin, end in self.steps:
            ends = [
                work["ts"] + work["dur"]
                for work in self.work
                if begin <= launches[work["args"]["correlation"]] < end
            ]
            until = max([end, *ends])
            found[number] = round((until - before) * 1000)
            before = max(before, until)
        return found

    def busy_share(self, step: int) -> float:
        """The share of a step's mark in which the GPU has work."""
        begin, end = next(span for number, *span in self.steps if number == step)
        spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in self.work)
        busy, last = 0.0, begin
        for start, stop in spans:
            cut = min(stop, end)
            busy += max(cut - max(start, last), 0)
            last = max(last, cut)
        return busy / (end - begin)


@pytest.fixture(params=RUNS)
def sample(request: pytest.FixtureRequest) -> str:
    """The name of a run of two ranks."""
    return str(request.param)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_summary_of_a_rank_is_that_of_its_file(
    sample: str, rank: int, ingested: Ingested
) -> None:
    """Counts, periods and busy times equal those of a loop over the file alone."""
    own = Recorded(sample, rank)
    with tracedb.open(ingested(SAMPLES / sample), read_only=True) as database:
        found = database.summary(rank=rank)
        paths = database.critical_path(rank=rank)
        steps = {
            number: database.summary(rank=rank, step=number)
            for number in own.periods_ns
        }
    (recording,) = found["recording"].rows(named=True)
    assert recording["rank"] == rank
    assert (recording["op_count"], recording["gpu_op_count"]) == (
        own.op_count,
        len(own.work),
    )
    (period,) = found["period"].rows(named=True)
    times = own.periods_ns
    assert (period["step_count"], period["longest_ns"]) == (
        len(times),
        pytest.approx(max(times.values()), abs=2),
    )
    assert found["lever"]["time_ns"].sum() == pytest.approx(sum(times.values()), abs=9)
    lever_of = Counter[str]()
    for row in paths.rows(named=True):
        lever_of[lever(row["kind"])] += row["time_ns"]
    assert (
        dict(zip(found["lever"]["lever"], found["lever"]["time_ns"], strict=True))
        == lever_of
    )
    for number, part in steps.items():
        assert part["period"]["median_ns"].to_list() == [
            pytest.approx(times[number], abs=2)
        ]
        assert part["lever"]["time_ns"].sum() == pytest.approx(times[number], abs=2)
        assert part["phase"]["path_ns"].sum() == pytest.approx(times[number], abs=4)
        if own.work:
            (idle,) = part["idle_share"]["idle_share"]
            assert idle == pytest.approx(1 - own.busy_share(number), abs=1e-5)


def lever(kind: str) -> str:
    """What could be done about a kind of time, as `question.lever` names it."""
    names = {
        "kernel": "compute",
        "memcpy": "copy",
        "memset": "copy",
        "absent_rank_wait": "rank_wait",
        "host_op": "dispatch",
        "launch": "dispatch",
        "launch_delay": "dispatch",
        "host_gap": "python",
        "wait": "sync",
        "return": "sync",
        "stream_gap": "gpu_wait",
        "stream_wait": "gpu_wait",
        "occupancy": "gpu_wait",
        "before_trace": "unexplained",
    }
    return names.get(kind, kind)


def test_the_text_names_the_part(ingested: Ingested) -> None:
    """It does so above the figures, and in the commands that show more."""
    path = str(ingested(SAMPLES / "generated_gpu"))
    first = Recorded("generated_gpu", 1).steps[0][0]
    done = CliRunner().invoke(
        command, ["summary", path, "--rank", "1", "--step", str(first)]
    )
    assert done.exit_code == 0, done.stderr
    text = done.stdout
    assert "Run 1: rank 1 of 2; 1 x" in text
    assert f"  below: only rank 1, step {first}\n" in text
    assert f"(step {first})" in text
    assert "of the step's mark on the host" in text
    commands = [line for line in text.splitlines() if "->" in line]
    assert commands
    for line in commands:
        again = CliRunner().invoke(command, line.split("-> tracedb ")[1].split())
        assert again.exit_code == 0, again.stderr
        assert "--rank 1" in line


def test_runs_without_the_step_are_left_out(tmp_path: Path) -> None:
    """The summary of a step is of the traces that have it."""
    samples = [SAMPLES / name for name in ("generated_gpu", "loop_cpu")]
    with tracedb.open(tmp_path / "runs.duckdb") as database:
        database.ingest(samples)
        runs = database.summary(step=5)["recording"]["run_id"].to_list()
        text = repr(database.summary(step=5))
        (run,) = database.sql(
            "SELECT DISTINCT run_id FROM staging.step WHERE step = 5"
        )["run_id"]
    assert runs == [run]
    assert "loop.kineto.json.gz" in text
    assert "module --step 5" in text
    assert "rank0" not in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["summary", "--rank", "7"], "no rank 7; available: 0, 1"),
        (["summary", "--step", "99"], "no step 99; available: "),
        (["summary", "--trace", "9"], "no trace 9; available: 1, 2"),
        (
            ["summary", "--rank", "1", "--trace", "1"],
            "no recording has rank 1, trace 1",
        ),
        (["summary", "--device", "0"], "`tracedb ask DB device_time --device N` is"),
        (["report", "-o", "x.html", "--rank", "7"], "no rank 7; available: 0, 1"),
        (["report", "-o", "x.html", "--step", "1"], "`tracedb summary DB --step N` is"),
        (["report", "-o", "x.html", "--rank", "1", "--trace", "1"], "no recording has"),
        (["whatif", "--rank", "7"], "no rank 7; available: 0, 1"),
        (["whatif", "--device", "0"], "edits select a device with a field"),
        (["whatif", "--edit", "host x0.5", "--check", "--rank", "1"], "with --check"),
        (
            ["whatif", "--edit", "host x0.5", "--rank", "7"],
            "no rank 7; available: 0, 1",
        ),
    ],
    ids=" ".join,
)
def test_a_part_that_is_not_there_is_one_line(
    words: list[str], message: str, ingested: Ingested
) -> None:
    """It names what exists, or the command that has such a part."""
    path = str(ingested(SAMPLES / "generated_gpu"))
    done = CliRunner().invoke(command, [words[0], path, *words[1:]])
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())


@pytest.mark.parametrize("part", [{"rank": 1}, {"rank": 0, "step": 2}], ids=str)
def test_gains_of_a_part_are_means_of_its_steps(part: Part, ingested: Ingested) -> None:
    """What the ranking and the summary of a scenario say is what its steps say."""
    edits = [tracedb.Edit(scenario="gpu", target="gpu", factor=0.0)]
    with (
        tracedb.open(ingested(SAMPLES / "generated_gpu"), read_only=True) as database,
        database.simulate("replay", edits) as beside,
    ):
        rows = beside.ask("scenario_effect")
        for name, number in part.items():
            rows = rows.filter(pl.col(name) == number)
        (summary,) = beside.ask("scenario_summary", **part).rows(named=True)
        (saving,) = beside.ask("scenario_saving", **part).rows(named=True)
        path = beside.ask("scenario_path", **part)
        ranking = database.ranking(**part)
    count = rows.height
    assert 0 < count == summary["step_count"]
    assert summary["baseline_ns"] == round(sum(rows["baseline_ns"]) / count)
    change = summary["change_ns"]
    assert change == pytest.approx(
        (rows["predicted_ns"] - rows["baseline_ns"]).mean(), abs=1
    )
    assert saving["saved_ns"] == -change
    assert path["change_ns"].sum() == pytest.approx(change, abs=path.height)
    assert path["expected_ns"].sum() == pytest.approx(
        saving["expected_ns"], abs=path.height
    )
    assert set(ranking["baseline_ns"]) == {summary["baseline_ns"]}


def test_whatif_says_of_which_steps_it_is(ingested: Ingested) -> None:
    """It names the part, and that edits apply elsewhere as well."""
    path = str(ingested(SAMPLES / "generated_gpu"))
    for more in ([], ["--edit", "host x0.5"]):
        done = CliRunner().invoke(command, ["whatif", path, "--rank", "1", *more])
        assert done.exit_code == 0, done.stderr
        assert "only rank 1; edits apply to all steps and ranks" in done.stderr
        assert not more or "run 1, rank 1, mean step" in done.stdout


def test_a_report_of_a_rank_has_only_its_rows(
    tmp_path: Path, ingested: Ingested
) -> None:
    """So do its sections, lanes and paths; ranks that others wait for are all there."""
    with tracedb.open(ingested(SAMPLES / "generated_gpu"), read_only=True) as database:
        done = database.report(tmp_path / "a.html", rank=1)
        data = data_of((tmp_path / "a.html").read_text())
        trace, *_ = database.summary(rank=1)["recording"]["trace_id"]
        for section in data["sections"]:
            columns = section["columns"]
            rows = [dict(zip(columns, row, strict=True)) for row in section["rows"]]
            if section["name"] == "stragglers":
                assert {row["rank"] for row in rows} == {0, 1}
                continue
            assert {row["rank"] for row in rows if "rank" in row} <= {1}
            assert database.sql(section["query"]).height == len(rows)
        whole = database.ask("top_kernel", rank=1)["time_ns"].sum()
    kernels = next(one for one in data["sections"] if one["name"] == "kernels")
    assert (
        sum(row[kernels["columns"].index("time_ns")] for row in kernels["rows"])
        == whole
    )
    assert done["part"] == data["part"] == "rank 1"
    assert min(row["s"][0] for row in data["timeline"]["rows"]) == 0
    assert min(data["timeline"]["steps"]["start_ns"]) < data["timeline"]["lasts_ns"] / 9
    assert {lane["trace"] for lane in data["timeline"]["lanes"]} == {trace}
    assert {path["trace"] for path in data["timeline"]["paths"]} == {trace}


def test_every_section_of_a_report_can_be_of_a_rank() -> None:
    """Each reads a relation with ranks, from which the others follow by their keys."""
    for section in SECTIONS:
        read = catalog.read_by(section.query)
        assert any(has(one, "rank") for one in read), section.name


def test_questions_of_a_summary_have_ranks() -> None:
    """All of them, apart from those about whole runs."""
    names = {one for name in PARTS for one in (name, *OF_STEP.get(name, ()))}
    without = {name for name in names if not has(find(f"question.{name}"), "rank")}
    assert without == {"job", "stuck_collective"}
    assert set(OF_ALL_RANKS) < names
