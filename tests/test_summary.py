"""The summary: facts agree with traces of known truth, and the text fits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support import CORPUS, ROOT, SAMPLES, Ingested, needs_corpus, rows
from test_modules import event, ingest, op

import tracedb
from tracedb.cli.main import tracedb as command
from tracedb.summary import PARTS, statements
from tracedb.summary.text import lines
from tracedb.summary.words import doubts
from tracedb.synthetic import Delays, execute, random_program

WIDTH = 80


def launched(
    op_name: str, begin: int, kernel: tuple[str, int, int], number: int
) -> list[dict[str, Any]]:
    """An op of ten microseconds that launches a kernel."""
    name, start, end = kernel
    return [
        op(op_name, begin, begin + 10),
        event(
            "cuda_runtime",
            "cudaLaunchKernel",
            1,
            begin + 2,
            begin + 6,
            correlation=number,
        ),
        event("kernel", name, 7, start, end, correlation=number, device=0, stream=7),
    ]


def two_steps() -> list[dict[str, Any]]:
    """Steps of 200 us: 150 of them in `preprocess`, 30 in which a kernel runs."""
    events = [event("python_function", "train.py(3): main", 1, 0, 500)]
    for number in (4, 5):
        begin = 200 * (number - 4)
        events += [
            event("user_annotation", f"ProfilerStep#{number}", 1, begin, begin + 200),
            event("python_function", "torch/_ops.py(9): run", 1, begin, begin + 12),
            event(
                "python_function",
                "tracedb/record/loop.py(9): is_done",
                1,
                begin,
                begin + 11,
            ),
            *launched("aten::mm", begin + 2, ("gemm", begin + 10, begin + 40), number),
            event(
                "python_function", "data.py(12): preprocess", 1, begin + 12, begin + 190
            ),
            event(
                "python_function",
                "<built-in function sorted>",
                1,
                begin + 50,
                begin + 180,
            ),
            op("aten::item", begin + 190, begin + 200),
        ]
    return events


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of the two steps."""
    folder = tmp_path_factory.mktemp("known")
    trace = folder / "known.json"
    trace.write_text(json.dumps({"traceEvents": two_steps()}))
    with tracedb.open(folder / "known.duckdb") as database:
        database.ingest([trace])
    return folder / "known.duckdb"


def said(database: Path, *options: str) -> str:
    """The output of the command."""
    done = CliRunner().invoke(command, ["summary", str(database), *options])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_facts_by_hand(known: Path) -> None:
    """Period, busy time, and the largest lever with its place."""
    with tracedb.open(known, read_only=True) as database:
        assert rows(
            database,
            "SELECT step_count, median_ns, longest_ns FROM question.period",
        ) == [(2, 200_000, 200_000)]
        busy = "SELECT kind, time_ns FROM question.device_time WHERE is_busy"
        assert rows(database, busy) == [("compute", 60_000)]
        first = "SELECT lever, place, step, time_ns FROM question.lever LIMIT 1"
        lever, place, step, time_ns = rows(database, first)[0]
        assert (lever, place) == ("python", "preprocess (data.py:12)")
        assert step in (4, 5)
        assert 2 * 148_000 <= time_ns <= 2 * 190_000


def test_the_text_says_where_to_look(known: Path) -> None:
    """It has the step time, the frame with file and line, and doubts."""
    text = said(known)
    assert "200 us (median of 2" in text
    assert "preprocess (data.py:12)" in " ".join(text.split())
    assert "busy 15.0 %: kernels 15.0 %" in text
    assert "recorded with Python stacks, without shapes or memory" in text
    assert "no modules" not in text
    takes = text.partition("What takes the time")[2].partition("How far to trust")[0]
    assert takes.split("\n")[-3].endswith(f"-> tracedb whatif {known}")


def test_the_rank_that_others_wait_for_is_named(ingested: Ingested) -> None:
    """It is the one with the longest delays, unless clocks leave the order open."""
    path = ingested(SAMPLES / "generated_gpu")
    with tracedb.open(path, read_only=True) as database:
        found = database.ask("straggler").sort("delayed_ns").rows(named=True)
    part = found[-1]["delayed_ns"] / sum(row["delayed_ns"] for row in found)
    assert statements._latest(found) == (  # noqa: SLF001
        f" The others wait longest for rank {found[-1]['rank']} "
        f"({100 * part:.1f} % of the delays)."
    )
    assert not statements._latest([row | {"is_ambiguous": True} for row in found])  # noqa: SLF001


def test_only_what_was_recorded_is_said_to_be_in_python(
    known: Path, tmp_path: Path, ingested: Ingested
) -> None:
    """Without Python stacks, time between ops may be in any code; so says ingest."""
    assert "between ops, in Python" in " ".join(said(known).split())
    without = [event for event in two_steps() if event["cat"] != "python_function"]
    file = tmp_path / "without.json"
    file.write_text(json.dumps({"traceEvents": without}))
    path = ingested(file)
    text = " ".join(said(path).split())
    assert "between ops, in code that was not recorded" in text
    assert "in Python" not in text
    with tracedb.open(path, read_only=True) as database:
        (brief,) = statements.brief(database, [1])
    assert "in code that was not recorded" in brief


def test_a_thread_may_have_no_python_functions(
    tmp_path: Path, ingested: Ingested
) -> None:
    """Stacks of other threads do not tell what the thread of the steps does."""
    events = [event for event in two_steps() if event["cat"] != "python_function"]
    events.append(event("python_function", "threading.py(9): wait", 99, 100, 50))
    file = tmp_path / "server.json"
    file.write_text(json.dumps({"traceEvents": events}))
    path = ingested(file)
    text = " ".join(said(path).split())
    assert "between ops, in code that was not recorded" in text
    assert "no Python functions were recorded there" in text
    assert "in Python" not in text
    with tracedb.open(path, read_only=True) as database:
        (brief,) = statements.brief(database, [1])
    assert "in code that was not recorded" in brief


def test_recording_takes_at_most_all_of_the_time() -> None:
    """As estimated, many short events may cost more than was recorded."""
    row = {"aspect": "profiler", "occurrences": 5, "time_ns": 10_000, "all_count": None}
    ((mark, text), *_) = doubts([{**row, "time_share": 12.5}])
    assert (mark, text) == (
        "!",
        "recording 5 events may have taken up to 100.0 % of the time",
    )


def test_recording_python_functions_takes_time(
    tmp_path: Path, ingested: Ingested
) -> None:
    """Of 1 ms, 100 calls cost half a microsecond each, and one op up to two."""
    lane = {"ph": "X", "pid": 1, "tid": 1}
    calls = [
        {**lane, "cat": "python_function", "name": "a.py(1): f", "ts": 5 * n, "dur": 4}
        for n in range(100)
    ]
    work = {**lane, "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 1000}
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": [work, *calls]}))
    text = " ".join(said(ingested(file)).split())
    assert "recording 101 events may have taken up to 5.2 % of the time" in text


def test_means_of_ranks_are_not_called_totals(tmp_path: Path) -> None:
    """Without steps, the time of a lever is the mean of ranks; of one, the total."""
    for rank in range(2):
        events = [e for e in two_steps() if not e["name"].startswith("ProfilerStep")]
        ranks = {"rank": rank, "world_size": 2}
        file = tmp_path / f"rank{rank}.json"
        file.write_text(json.dumps({"traceEvents": events, "distributedInfo": ranks}))
    path = tmp_path / "job.duckdb"
    with tracedb.open(path) as database:
        database.ingest([tmp_path], run="job")
        largest, *_ = database.ask("lever", rank=1)["time_ns"]
    for options, each in ([], "per rank"), (["--rank", "1"], "in total"):
        text = " ".join(said(path, *options).split())
        assert f"({largest / 1000:.0f} us {each}) is the host" in text


def test_missing_stacks_are_mentioned(ingested: Ingested) -> None:
    """The text says that places were not recorded."""
    text = said(ingested(SAMPLES / "generated_gpu"))
    assert "recorded without Python stacks" in " ".join(text.split())
    assert "ranks 0, 1 of 2" in text


def test_a_place_of_little_of_the_time_is_not_called_the_largest(
    tmp_path: Path, ingested: Ingested
) -> None:
    """While worker processes fetch a batch, a short op is all that is known of it."""
    lane = {"ph": "X", "pid": 1, "tid": 1}
    worker = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    named = [
        ("user_annotation", "ProfilerStep#0", 0, 1000),
        ("user_annotation", worker, 0, 600),
        ("cpu_op", "aten::set_", 500, 10),
        ("cpu_op", "aten::mm", 600, 400),
    ]
    events = [
        {**lane, "cat": cat, "name": name, "ts": at, "dur": dur}
        for cat, name, at, dur in named
    ]
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": events}))
    path = ingested(file)
    text = " ".join(said(path).split())
    assert "60.0 % (600 us per step) is data loading. ->" in text
    with tracedb.open(path, read_only=True) as database:
        places = dict(rows(database, "SELECT lever, place FROM question.lever"))
    assert places == {"data_loading": None, "dispatch": "aten::mm"}


@pytest.mark.parametrize("sample", ["generated_gpu", "dlrm_cpu", "ddp_gloo"])
def test_the_text_fits_80_columns(
    sample: str, ingested: Ingested, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is longer; a run without GPU work says so."""
    database = ingested(SAMPLES / sample)
    monkeypatch.chdir(database.parent)
    text = said(Path(database.name))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert ("no GPU work" in text) is (sample != "generated_gpu")


def test_tasks_of_unknown_kind_are_not_called_no_work(
    tmp_path: Path, ingested: Ingested
) -> None:
    """A device that only has tasks (MTIA) did work, whose kind the trace lacks."""
    lane = {"ph": "X", "dur": 5, "pid": 1, "tid": 1}
    events = [
        lane | {"cat": "cpu_op", "name": "aten::add", "ts": 1},
        lane | {"cat": "mtia_ccp_events", "name": "job", "ts": 3, "pid": 17, "tid": 9},
    ]
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}))
    text = " ".join(said(ingested(tmp_path / "a.json")).split())
    assert "1 task of devices, but no kernels" in text
    assert "no GPU work" not in text


def test_many_runs_are_a_list(tmp_path: Path) -> None:
    """More than three runs have two lines each, and the command for all about one."""
    traces = [tmp_path / f"job{number}.json" for number in range(4)]
    for trace in traces:
        # Files of the same content would be one trace.
        trace.write_text(json.dumps({"traceEvents": two_steps(), "of": trace.name}))
    path = tmp_path / "jobs.duckdb"
    with tracedb.open(path) as database:
        for number, trace in enumerate(traces):
            database.ingest([trace], run=f"job {number}")
    text = said(path)
    assert max(len(line) for line in text.splitlines() if "->" not in line) <= WIDTH
    found = re.findall(
        r"^Run (\d): job(\d).json; 1 x .*\n  2 steps of", text, re.MULTILINE
    )
    assert found == [(str(number + 1), str(number)) for number in range(4)]
    assert "How far to trust this" not in text
    assert f"-> tracedb summary {path} --run 4" in text
    assert "How far to trust this" in said(path, "--run", "4")
    with tracedb.open(path, read_only=True) as database:
        parts = database.summary()
    two = {name: rows.filter(rows["run_id"] < 3) for name, rows in parts.items()}
    assert [*lines(two, "DB")].count("How far to trust this") == 2


def test_json_has_every_fact(ingested: Ingested) -> None:
    """Each part equals the question of its name."""
    database = ingested(SAMPLES / "generated_gpu")
    parts = json.loads(said(database, "--format", "json"))
    assert tuple(parts) == PARTS
    with tracedb.open(database, read_only=True) as opened:
        assert all(len(parts[name]) == opened.ask(name).height for name in PARTS)


def test_an_unknown_run_is_an_error(ingested: Ingested) -> None:
    """The error lists the runs."""
    path = str(ingested(SAMPLES / "generated_gpu"))
    done = CliRunner().invoke(command, ["summary", path, "--run", "7"])
    assert done.exit_code == 2
    assert "no run 7; there is only run 1" in done.stderr


def test_busy_time_equals_a_loop_over_kernels(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """It does so for random programs, and shares sum to 1."""
    expected: dict[str, int] = {}
    for seed in range(6):
        program = random_program(seed, threads=2, streams=2, steps=2)
        trace = execute(program, Delays(jitter=0.1), seed)[0]
        trace.write(tmp_path / f"{seed}.json")
        expected[f"{seed}.json"] = covered(
            [(work.start_ns, work.end_ns) for work in trace.truth.kernels]
        )
    database.ingest([tmp_path])
    found = """
        SELECT parse_filename(path), sum(time_ns) FILTER (is_busy), sum(time_share)
        FROM question.device_time
        INNER JOIN staging.trace USING (trace_id)
        GROUP BY path
    """
    for name, busy_ns, share in rows(database, found):
        assert share == pytest.approx(1)
        # GPU work after the last period belongs to no step.
        assert busy_ns <= expected[name]
        assert busy_ns == pytest.approx(expected[name], rel=0.05)
    assert rows(database, found)


def test_levers_have_the_gpu_busy_time(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """For random programs it equals that of a loop over intervals and GPU work."""
    for seed in range(4):
        program = random_program(seed, threads=2, streams=3, steps=2)
        execute(program, Delays(jitter=0.1), seed)[0].write(tmp_path / f"{seed}.json")
    database.ingest([tmp_path])
    worked: dict[int, list[tuple[int, int]]] = {}
    query = (
        "SELECT trace_id, start_ns, end_ns FROM staging.gpu_op WHERE kind <> 'other'"
    )
    for trace_id, start_ns, end_ns in rows(database, query):
        worked.setdefault(trace_id, []).append((start_ns, end_ns))
    expected: dict[tuple[int, str], int] = {}
    query = """
        SELECT run_id, critical_path.lever(kind), trace_id, start_ns, end_ns
        FROM critical_path.measured_interval
        WHERE scope = 'period'
    """
    for run_id, lever, trace_id, start_ns, end_ns in rows(database, query):
        cut = [
            (max(begin, start_ns), min(end, end_ns))
            for begin, end in worked[trace_id]
            if begin < end_ns and end > start_ns
        ]
        before = expected.setdefault((run_id, lever), 0)
        expected[run_id, lever] = before + covered(cut)
    query = "SELECT run_id, lever, busy_ns FROM question.lever"
    found = {(run_id, lever): busy for run_id, lever, busy in rows(database, query)}
    assert found == expected
    assert any(found.values())


@pytest.mark.parametrize(
    ("busy_us", "said_of_gpu"),
    [
        (5, ", while the GPU waits"),
        (500, "; the GPU is busy 50.0 % of that time"),
        (999, "; the GPU is busy 99.9 % of that time, so the host may be waiting for"),
    ],
)
def test_a_busy_gpu_is_not_said_to_wait(
    busy_us: int, said_of_gpu: str, tmp_path: Path
) -> None:
    """GPU work launched one by one, by a host without other recorded time."""
    period, link = 1_000, "correlation"
    events: list[dict[str, Any]] = []
    for number in range(50):
        begin = number * period
        launch: dict[str, Any] = {"ph": "X", "cat": "cuda_runtime"}
        launch |= {"name": "cudaLaunchKernel"}
        launch |= {"pid": 1, "tid": 1, "ts": begin, "dur": 0.1, "args": {link: number}}
        work: dict[str, Any] = {"ph": "X", "cat": "kernel", "name": "gemm"}
        work |= {"pid": 0, "tid": 7, "ts": begin + 0.1, "dur": busy_us}
        work |= {"args": {link: number, "device": 0, "stream": 7}}
        events += [launch, work]
    trace = tmp_path / "launches.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    with tracedb.open(tmp_path / "launches.duckdb") as database:
        database.ingest([trace])
    text = " ".join(said(tmp_path / "launches.duckdb").split())
    assert f"is the host between calls{said_of_gpu}" in text
    first = re.search(r"-> tracedb ask \S+ (\w+)", text)
    assert first
    assert first[1] == ("top_kernel" if busy_us == 999 else "host_gap")


def covered(spans: list[tuple[int, int]]) -> int:
    """Time covered by at least one of the spans."""
    total = last = 0
    for start, end in sorted(spans):
        total += max(end - max(start, last), 0)
        last = max(last, end)
    return total


def test_lost_launches_are_reported(database: tracedb.Database, tmp_path: Path) -> None:
    """GPU work without a launch, and launches without GPU work, are recognised."""
    events = two_steps()
    lost = next(e for e in events if e["cat"] == "cuda_runtime")
    kept = [e for e in events if e is not lost]
    kept.append(event("cuda_runtime", "cudaLaunchKernel", 1, 195, 196, correlation=99))
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": kept}))
    database.ingest([file])
    found = rows(
        database,
        "SELECT aspect, occurrences, all_count, time_ns FROM question.trust "
        "WHERE aspect IN ('lost_launch', 'lost_work')",
    )
    assert found == [("lost_work", 1, 2, None), ("lost_launch", 1, 2, 30_000)]


@pytest.mark.parametrize(
    ("trace", "has_remedy"),
    [
        ({"profiler": "PyTorch profiler", "runtime": "CUDA 12.4", "gpu": "H100"}, True),
        ({"profiler": "PyTorch profiler", "runtime": None, "gpu": "V100"}, True),
        ({"profiler": "PyTorch profiler", "runtime": "HIP 7.2", "gpu": None}, False),
        ({"profiler": "PyTorch profiler", "runtime": None, "gpu": "AMD MI250"}, False),
        ({"profiler": "Nsight Systems", "runtime": None, "gpu": "A100"}, False),
    ],
)
def test_only_existing_options_are_recommended(
    trace: dict[str, str | None],
    has_remedy: bool,  # noqa: FBT001 (a case)
) -> None:
    """PyTorch's profiler records synchronization on CUDA only."""
    row = {"aspect": "inferred_wait", "occurrences": 2, "all_count": 3}
    ((mark, text),) = doubts([row], [{**trace, "has_stack": True}])
    assert mark == "!"
    assert text.startswith("2 of 3 synchronising calls")
    assert ("enable_cuda_sync_events" in text) == has_remedy


def test_captured_launches_are_not_lost(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Launches during a capture run nothing; another one without GPU work is lost."""
    calls = ("cudaStreamBeginCapture", "cudaLaunchKernel", "cudaLaunchKernel")
    events = two_steps()
    for number, name in enumerate((*calls, "cudaStreamEndCapture", calls[1])):
        begin = 450 + 10 * number
        events.append(
            event("cuda_runtime", name, 1, begin, begin + 5, correlation=900 + number)
        )
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": events}))
    database.ingest([file])
    found = "SELECT occurrences, all_count FROM question.trust"
    assert rows(database, f"{found} WHERE aspect = 'lost_work'") == [(1, 3)]


def test_a_gpu_has_the_name_of_a_described_one(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """ROCm may describe device 0 where the work is on device 2."""
    events = two_steps()
    for kernel in (e for e in events if e["cat"] == "kernel"):
        kernel["args"]["device"] = 2
    described = [{"id": 0, "name": "AMD Instinct MI300X VF"}]
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": events, "deviceProperties": described}))
    database.ingest([file])
    found = rows(database, "SELECT gpu, device_count FROM question.recording")
    assert found == [("AMD Instinct MI300X VF", 1)]


def test_overlapping_gpu_work_is_reported(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """By its overlap; the first GPU op of a stream overlaps nothing."""
    events = two_steps()
    first = next(e for e in events if e["cat"] == "kernel")
    early = {**first, "ts": first["ts"] + 20, "args": {**first["args"]}}
    early["args"]["correlation"] = 98
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": [*events, early]}))
    database.ingest([file])
    found = rows(
        database,
        "SELECT occurrences, all_count, time_ns FROM question.trust "
        "WHERE aspect = 'overlapping'",
    )
    assert found == [(1, 3, 10_000)]


def test_frames_are_the_innermost_outside_pytorch(known: Path) -> None:
    """Built-in functions and PyTorch's own are skipped."""
    with tracedb.open(known, read_only=True) as database:
        found = rows(database, "SELECT at_ns, name FROM graph.open_frame ORDER BY ALL")
    # Recording begins in the torch frame that ends first: main was then at line 3.
    main, inner = "main (train.py)", "preprocess (data.py:12)"
    assert found == [
        (0, main),
        (12_000, inner),
        (190_000, main),
        (212_000, inner),
        (390_000, main),
        (500_000, None),
    ]


def test_places_are_outside_of_the_standard_library(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Of what it does for a program, the program's function is the place."""
    calls = [
        ("torch/profiler.py(9): start", 0, 1),
        ("threading.py(973): run", 2, 90),
        ("code.py(1): load", 10, 60),
        ("copy.py(128): deepcopy", 20, 50),
        ("datasets/arrow.py(7): get", 30, 40),
        ("/usr/lib/python3.11/json/decoder.py(1): decode", 32, 38),
        ("queue.py(154): get", 70, 80),
    ]
    events = [event("python_function", name, 1, *times) for name, *times in calls]
    events.append(op("aten::mm", 95, 99))
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": events}))
    database.ingest([path])
    query = "SELECT at_ns // 1000, name FROM graph.open_frame ORDER BY at_ns"
    found = rows(database, query)
    run, load = "run (threading.py:973)", "load (code.py:1)"
    inner = "get (datasets/arrow.py:7)"
    assert found == [
        *((2, run), (10, load), (20, load), (30, inner), (32, inner), (38, inner)),
        *((40, load), (50, load), (60, run), (70, "get (queue.py:154)"), (80, run)),
        (90, None),
    ]


def test_path_intervals_have_frames(known: Path) -> None:
    """A host gap has the frame with most of it, a kernel the frame of its launch."""
    query = """
        SELECT DISTINCT kind, frame FROM question.path_interval
        WHERE scope = 'period' AND kind IN ('host_gap', 'host_op') AND time_ns > 9_000
    """
    with tracedb.open(known, read_only=True) as database:
        found = rows(database, query)
    assert ("host_gap", "preprocess (data.py:12)") in found


def test_a_gap_is_divided_by_function(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Each function has its own time, whichever happens to be open in the middle."""
    gap = [
        ("data.py(3): decode", 10, 55),
        ("data.py(9): tidy", 55, 65),
        ("data.py(7): collate", 65, 100),
        ("data.py(3): decode", 75, 90),
    ]
    events = [
        event("user_annotation", "ProfilerStep#1", 1, 0, 120),
        event("python_function", "torch/_ops.py(9): run", 1, 0, 1),
        op("aten::mm", 0, 10),
        *(event("python_function", name, 1, *times) for name, *times in gap),
        op("aten::add", 110, 120),
    ]
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": events}))
    database.ingest([file])
    gaps = "SELECT frame, gap_count, time_ns, longest_ns FROM question.host_gap"
    assert rows(database, gaps) == [
        ("decode (data.py:3)", 1, 60_000, 60_000),
        ("collate (data.py:7)", 1, 20_000, 20_000),
        ("tidy (data.py:9)", 1, 10_000, 10_000),
        (None, 1, 10_000, 10_000),
    ]
    lever = "SELECT place, place_ns FROM question.lever WHERE lever = 'python'"
    assert rows(database, lever) == [("decode (data.py:3)", 60_000)]
    interval = """
        SELECT DISTINCT frame FROM question.path_interval WHERE kind = 'host_gap'
    """
    assert rows(database, interval) == [("decode (data.py:3)",)]


def test_a_gap_without_functions_is_divided_by_user_range(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Ranges tell where the host is, except those that contain a step.

    Before the first op of a step and after its last, too, and if no range is open.
    """
    ranges = [
        ("epoch 7", 0, 1_000),
        ("ProfilerStep#1", 0, 200),
        ("tokenize", 5, 65),
        ("layer 2", 110, 160),
        ("inner", 120, 130),
        ("ProfilerStep#2", 200, 300),
    ]
    events = [event("user_annotation", name, 1, *times) for name, *times in ranges]
    works = [(70, 80), (150, 155), (210, 290)]
    events += [op("aten::mm", *times) for times in works]
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": events}))
    database.ingest([file])
    gaps = "SELECT frame, gap_count, time_ns FROM question.host_gap"
    assert rows(database, gaps) == [
        (None, 5, 100_000),
        ("range 'tokenize'", 1, 60_000),
        ("range 'layer *'", 2, 35_000),
        ("range 'inner'", 1, 10_000),
    ]
    lever = "SELECT place FROM question.lever WHERE lever = 'python'"
    assert rows(database, lever) == [("range 'tokenize'",)]


def test_ingest_ends_with_a_short_summary(tmp_path: Path) -> None:
    """One line per new run, and the command for more."""
    trace = tmp_path / "a.json"
    trace.write_text(json.dumps({"traceEvents": two_steps()}))
    words = ["ingest", str(trace), "--db", str(tmp_path / "a.duckdb")]
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.output
    assert "run 1: 2 steps of 200 us on average:" in done.stderr
    assert f"`tracedb summary {tmp_path / 'a.duckdb'}`" in done.stderr


def test_gaps_and_late_launches(known: Path) -> None:
    """Two gaps are in `preprocess`; both kernels find their stream idle."""
    gaps = "SELECT frame, gap_count FROM question.host_gap LIMIT 1"
    late = "SELECT name, late_count, short_count, free_ns FROM question.launch_bound"
    with tracedb.open(known, read_only=True) as database:
        assert rows(database, gaps) == [("preprocess (data.py:12)", 2)]
        assert rows(database, late) == [("gemm", 2, 0, 170_000)]


def test_copies_by_direction(database: tracedb.Database, tmp_path: Path) -> None:
    """Bytes, time and bandwidth per direction; the name gives the kind of memory."""
    kinds = ("HtoD (Pinned -> Device)", "HtoD (Pageable -> Device)", "DtoD")
    events = [
        event("gpu_memcpy", f"Memcpy {kind}", 7, 20 * n, 20 * n + 10, **args)
        for n, kind in enumerate(kinds)
        for args in [{"device": 0, "stream": 7, "bytes": 1_000 * (n + 1)}]
    ]
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": [*events, op("aten::mm", 0, 5)]}))
    database.ingest([file])
    query = """
        SELECT direction, memory, moved_bytes, time_ns, moved_bytes_per_second
        FROM question.copy ORDER BY moved_bytes
    """
    assert rows(database, query) == [
        ("h2d", "pinned", 1_000, 10_000, 1e8),
        ("h2d", "pageable", 2_000, 10_000, 2e8),
        ("d2d", None, 3_000, 10_000, 3e8),
    ]


def test_a_step_without_ops_is_idle(tmp_path: Path) -> None:
    """Its time is in `host_time`, and what to ask next has an answer."""
    events = [
        {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": at, "dur": 90}
        for cat, name, tid, at in (
            ("user_annotation", "ProfilerStep#4", 1, 100),
            ("cpu_op", "gloo:all_reduce", 2, 110),
            ("cpu_op", "aten::empty", 1, 300),
        )
    ]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    with tracedb.open() as database:
        database.ingest([tmp_path / "trace.json"])
        (host,) = database.ask("host_time").to_dicts()
        told = "\n".join(lines(database.summary(), "run.duckdb"))
        question = re.findall(r"-> tracedb ask run.duckdb (\w+)", told)[0]
        assert database.ask(question).height > 0
    assert (host["type"], host["time_ns"], host["time_share"]) == ("idle", 90_000, 1)
    assert "no ops or calls on the main thread within steps" in told


def test_steps_may_take_no_time(tmp_path: Path) -> None:
    """They have no period, and nothing else could mark steps."""
    mark = {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "dur": 0}
    events = [mark | {"name": f"ProfilerStep#{n}", "ts": 10 * n} for n in range(3)]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    with tracedb.open() as database:
        database.ingest([tmp_path / "trace.json"])
        told = "\n".join(lines(database.summary(), "run.duckdb"))
    assert "unknown: the recorded steps take no time" in told


def test_threads_of_a_server_are_recorded_without_ops(tmp_path: Path) -> None:
    """The profiler was started on another one: the summary says what records ops."""
    calls = [
        event("python_function", "serve.py(9): answer", thread, 10 * n, 10 * n + 9)
        for thread in (1, 2)
        for n in range(5)
    ]
    (tmp_path / "server.json").write_text(json.dumps({"traceEvents": calls}))
    with tracedb.open() as database:
        database.ingest([tmp_path / "server.json"])
        text = " ".join(str(database.summary()).split())
    assert "0 ns" not in text
    assert "or the model ran on another thread than the one that starts the" in text
    assert "(start it there, or set profile_all_threads=True" in text


@needs_corpus
@pytest.mark.parametrize("page", ["README.md", "docs/guide.md"])
def test_pages_show_what_the_summary_says(page: str, ingested: Ingested) -> None:
    """Their example is a part of the text of one of PyTorch's own traces."""
    text = (ROOT / page).read_text()
    (shown,) = re.findall(r"^```text\n(GPU  .*?)^```", text, re.DOTALL | re.MULTILINE)
    name = "gaunernst_bert-small-uncased__1016001.json.gz"
    path = ingested(CORPUS / "tracelens" / "h100" / name)
    with tracedb.open(path, read_only=True) as database:
        told = "\n".join(lines(database.summary(), "run.duckdb"))
    for part in shown.strip().split("\n\n"):
        assert part in told


def test_a_run_of_one_rank_names_its_file(ingested: Ingested) -> None:
    """Runs in one database would look alike; all of a time is not its largest part."""
    path = ingested(SAMPLES / "generated_gpu" / "rank0.kineto.json.gz")
    with tracedb.open(path, read_only=True) as database:
        told = [*lines(database.summary(), "run.duckdb")]
    assert told[0].startswith("Run 1: rank 0 of 2; ")
    assert told[1] == "  rank0.kineto.json.gz"
    assert "(100.0 % of it)" not in " ".join(told)


def test_a_schedule_that_began_anew_has_steps_without_ops(tmp_path: Path) -> None:
    """The last mark is of a cycle of which nothing ran; no model is to blame."""
    events = [
        event("user_annotation", "ProfilerStep#10", 1, 0, 50),
        event("python_function", "train.py(7): main", 1, 0, 100),
        event(
            "python_function", "torch/profiler/profiler.py(342): start_trace", 1, 2, 9
        ),
    ]
    (tmp_path / "late.json").write_text(json.dumps({"traceEvents": events}))
    with tracedb.open() as database:
        database.ingest([tmp_path / "late.json"])
        text = " ".join(str(database.summary()).split())
    assert "main thread: idle; no ops were recorded: a schedule's next cycle" in text


def test_work_from_before_the_recording_has_a_remedy(tmp_path: Path) -> None:
    """The first work waits for what ran before: later steps have causes."""
    path = tmp_path / "early.duckdb"
    events = launched("aten::mm", 0, ("gemm", 40_000, 50_000), 1)
    with tracedb.open(path) as database:
        ingest(database, tmp_path, events)
    text = " ".join(said(path).split())
    assert "cause before the trace 80.0 %" in text
    assert "launched before the recording: record some more steps" in text


def test_a_question_about_gpus_is_not_asked_of_a_run_on_the_cpu(
    tmp_path: Path,
) -> None:
    """Of collectives on the CPU, what is exposed has no rows."""
    place = {"ph": "X", "pid": 1, "tid": 1, "cat": "cpu_op"}
    events = [
        place | {"name": name, "ts": start, "dur": dur}
        for name, start, dur in (("aten::mm", 0, 10), ("gloo:all_reduce", 10, 90))
    ]
    path = tmp_path / "gloo.json"
    path.write_text(json.dumps(events))
    with tracedb.open() as database:
        database.ingest([path])
        said = str(database.summary())
        assert "is data moving between ranks" in said
        assert "exposed_communication" not in said
        assert len(database.ask("exposed_communication")) == 0
