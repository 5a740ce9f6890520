"""Steps that the profiler did not mark: the user gives the mark."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from support import CORPUS, SAMPLES, Ingested, needs_corpus, rows, unbroken

import tracedb
from tracedb.cli.main import tracedb as main

DECODE = CORPUS / "tracelens" / "inference" / "sglang_decode"
STEPS = "SELECT name, step, end_ns - start_ns FROM staging.step ORDER BY start_ns"


def event(name: str, start: int, duration: int, cat: str) -> dict[str, Any]:
    """An event of the one thread, times in microseconds."""
    place = {"ph": "X", "pid": 1, "tid": 1, "ts": start, "dur": duration}
    return place | {"name": name, "cat": cat}


@pytest.fixture
def serving(tmp_path: Path) -> Path:
    """A trace of three decoding steps between two other ranges."""
    events = [event("load[a+b]", 0, 50, "user_annotation")]
    for number, batch in enumerate((32, 8, 16)):
        start = 100 * number + 100
        events.append(event(f"step[DECODE bs={batch}]", start, 80, "user_annotation"))
        events.append(event("aten::mm", start + 10, 20, "cpu_op"))
    path = tmp_path / "serving.json"
    path.write_text(json.dumps(events))
    return path


@pytest.mark.until("staging")
def test_without_marks_there_are_no_steps(
    serving: Path, database: tracedb.Database
) -> None:
    """Possible marks are listed as regular expressions."""
    database.ingest([serving])
    assert rows(database, STEPS) == []
    marks = database.relation("staging.step_mark").filter(kind="range")
    assert marks.select("mark", "occurrences", "total_ns").rows() == [
        (r"step\[DECODE bs=[0-9]+\]", 3, 240_000),
        (r"load\[a\+b\]", 1, 50_000),
    ]


def test_a_listed_mark_finds_its_ranges(
    serving: Path, database: tracedb.Database
) -> None:
    """Each listed mark can be used as it is, and every layer has its steps."""
    database.ingest([serving])
    for mark, occurrences in rows(
        database, "SELECT mark, occurrences FROM staging.step_mark"
    ):
        assert database.ingest([serving], step_mark=mark).is_empty()
        assert len(rows(database, STEPS)) == occurrences
        assert database.predict("replay").height == occurrences


@pytest.mark.until("staging")
def test_steps_are_numbered_in_order(serving: Path, database: tracedb.Database) -> None:
    """A name without a number does not define an order."""
    database.ingest([serving], step_mark=r"step\[.*")
    assert rows(database, STEPS) == [
        (f"step[DECODE bs={batch}]", number, 80_000)
        for number, batch in enumerate((32, 8, 16))
    ]


@pytest.mark.until("staging")
@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([(0, 100), (100, 50), (149, 60)], [1, 2, 3]),
        ([(0, 100), (51, 98), (60, 98)], [1, 2]),
        ([(0, 100), (10, 20), (50, 50), (100, 5)], [1, 4]),
        ([(0, 100), (0, 100), (0, 40)], [1]),
    ],
)
def test_steps_of_a_thread_follow_each_other(
    tmp_path: Path,
    database: tracedb.Database,
    marks: list[tuple[int, int]],
    expected: list[int],
) -> None:
    """A mark that overlaps earlier ones by more than half is no step."""
    events = [
        event(f"ProfilerStep#{number}", start, duration, "user_annotation")
        for number, (start, duration) in enumerate(marks, 1)
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps([*events, event("aten::mm", 1, 2, "cpu_op")]))
    database.ingest([path])
    assert rows(database, "SELECT step FROM staging.step ORDER BY step") == [
        (number,) for number in expected
    ]


@pytest.mark.until("staging")
@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (
            "iter.*",
            r"call has such a name; .* 'step\\\[DECODE bs=\[0-9\]\+\\\]'",
        ),
        ("step[", "not a regular expression"),
        ("DECODE", "no user range, op, Python function or call has such a name"),
    ],
)
def test_a_mark_without_matches_is_refused(
    serving: Path, database: tracedb.Database, mark: str, message: str
) -> None:
    """The whole name has to match; on an error nothing is ingested."""
    with pytest.raises(tracedb.IngestError, match=message):
        database.ingest([serving], step_mark=mark)
    assert rows(database, "SELECT count(*) FROM raw.trace") == [(0,)]


@pytest.mark.until("staging")
def test_every_file_needs_the_mark(
    serving: Path, tmp_path: Path, database: tracedb.Database
) -> None:
    """A file does not lose its steps because of another file's mark."""
    other = tmp_path / "other.json"
    other.write_text(json.dumps([event("ProfilerStep#7", 0, 9, "user_annotation")]))
    with pytest.raises(tracedb.IngestError, match=r"other.json: step mark 'step\\\["):
        database.ingest([serving, other], step_mark=r"step\[.*")
    assert database.ingest([serving], step_mark=r"step\[.*").height == 1


@pytest.mark.until("staging")
def test_profiler_marks_can_be_overridden(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """With an expression, ProfilerStep is an ordinary range."""
    path = tmp_path / "both.json"
    events = [
        event("ProfilerStep#7", 0, 100, "user_annotation"),
        event("microbatch#3", 10, 20, "user_annotation"),
    ]
    path.write_text(json.dumps(events))
    database.ingest([path])
    assert rows(database, STEPS) == [("ProfilerStep#7", 7, 100_000)]
    database.ingest([path], step_mark="microbatch.*")
    assert rows(database, STEPS) == [("microbatch#3", 3, 20_000)]


def test_missing_steps_are_explained(serving: Path, tmp_path: Path) -> None:
    """If an answer is empty for lack of steps, a line says how to get them."""
    database = str(tmp_path / "run.duckdb")
    done = CliRunner().invoke(main, ["ingest", str(serving), "--db", database])
    assert "no steps: `tracedb ingest --step-mark` could use 'step" in unbroken(
        done.stderr
    )
    for command in ("predict", "critical-path", "overheads"):
        reported = CliRunner().invoke(main, [command, database]).stderr
        assert "no steps: `tracedb ingest --step-mark` could use 'step" in unbroken(
            reported
        )
    with tracedb.open(database, read_only=True) as opened:
        path, host = opened.critical_path(summary=True), opened.ask("host_time")
    assert set(path["scope"]) == {"trace"}
    for command, whole in (("critical-path", path), ("overheads", host)):
        answer = CliRunner().invoke(main, [command, database, "--format", "json"])
        told = [row["time_ns"] for row in json.loads(answer.stdout)]
        assert told == whole["time_ns"].to_list() != []
        assert whole["time_share"].sum() == pytest.approx(1)
    words = ["ingest", str(serving), "--db", database, "--step-mark", r"step\[.*"]
    assert CliRunner().invoke(main, words).exit_code == 0
    shown = CliRunner().invoke(main, ["predict", database, "--format", "csv"])
    assert shown.stdout.count("replay") == 3
    assert "no steps" not in shown.stderr


def test_a_trace_without_events_says_so(tmp_path: Path) -> None:
    """Nothing could mark its steps, so it is not said what could."""
    (tmp_path / "empty.json").write_text('{"traceEvents": []}')
    words = ["ingest", str(tmp_path / "empty.json"), "--db", str(tmp_path / "a.duckdb")]
    done = CliRunner().invoke(main, words)
    assert f"{tmp_path}/empty.json: no events\n" in done.stderr
    assert "no steps" not in done.stderr


def test_ranks_without_steps_are_one_line(tmp_path: Path) -> None:
    """Traces that lack steps for the same reason share a line."""
    op = event("aten::mm", 0, 5, "cpu_op")
    for rank in range(5):
        ranges = [event(f"phase{i}", 9 * i, 5, "user_annotation") for i in range(3)]
        content = {
            "distributedInfo": {"rank": rank, "world_size": 5},
            "traceEvents": [op, *(ranges if rank else [])],
        }
        (tmp_path / f"{rank}.json").write_text(json.dumps(content))
    words = ["ingest", str(tmp_path), "--db", str(tmp_path / "run.duckdb")]
    done = CliRunner().invoke(main, words)
    told = [
        line
        for line in unbroken(done.stderr).splitlines()
        if ".json" in line and "no st" in line
    ]
    assert [line.partition(": no steps: ")[0] for line in told] == [
        f"{tmp_path}/0.json",
        f"{tmp_path}/1.json and 3 more traces",
    ]


@pytest.fixture
def training(tmp_path: Path) -> Path:
    """A loop without marks; each iteration begins with zero_grad."""
    events = [event("setup", 0, 300, "user_annotation")]
    for number in range(5):
        start = 1000 * number + 300
        zero = event("Optimizer.zero_grad#SGD.zero_grad", start, 2, "user_annotation")
        forward = event("forward", start + 10, 200, "user_annotation")
        events += [zero, forward, event("aten::mm", start + 20, 900, "cpu_op")]
        events += [
            event(f"layer {layer}", start + 10 + 20 * layer, 15, "user_annotation")
            for layer in range(8)
        ]
    path = tmp_path / "training.json"
    path.write_text(json.dumps(events))
    return path


def test_only_useful_marks_are_suggested(
    training: Path, tmp_path: Path, database: tracedb.Database
) -> None:
    """Repeated ranges that cover most of the time, or else ranges that start a step."""
    database.ingest([training])
    marks = database.relation("staging.step_mark").filter(kind="range")
    assert dict(marks.select("mark", "suits").iter_rows()) == {
        "forward": "from",
        "layer [0-9]+": None,
        "setup": None,
        r"Optimizer\.zero_grad#SGD\.zero_grad": "from",
    }
    path = str(tmp_path / "run.duckdb")
    reported = CliRunner().invoke(main, ["ingest", str(training), "--db", path]).stderr
    assert "`tracedb ingest --step-from` could use 'forward', 'Optimizer" in reported
    assert "--step-mark" not in reported
    assert "layer" not in reported


def test_steps_from_one_start_to_the_next(
    training: Path, database: tracedb.Database
) -> None:
    """A step lasts until the next one begins; this works for ingested files too."""
    database.ingest([training])
    assert database.ingest([training], step_from=r"Optimizer\.zero.*").is_empty()
    name = "Optimizer.zero_grad#SGD.zero_grad"
    assert rows(database, STEPS) == [(name, step, 1_000_000) for step in range(4)]
    found = database.predict("replay")
    assert found["measured_ns"].to_list() == [1_000_000] * 4
    assert rows(
        database,
        "SELECT step_id, sum(end_ns - start_ns) FROM overhead.interval GROUP BY ALL "
        "ORDER BY step_id",
    ) == [
        (step, 1_000_000)
        for (step,) in rows(
            database, "SELECT step_id FROM staging.step ORDER BY step_id"
        )
    ]
    # The last ingest decides.
    database.ingest([training], step_mark="forward")
    assert {duration for *_, duration in rows(database, STEPS)} == {200_000}


@pytest.mark.until("staging")
def test_a_range_within_another_starts_no_step(
    training: Path, database: tracedb.Database
) -> None:
    """Some recorders write a range twice, one in the other."""
    events = json.loads(training.read_text())
    events += [
        one | {"ts": one["ts"] + 5, "dur": one["dur"] - 6}
        for one in events
        if one["name"] == "forward"
    ]
    training.write_text(json.dumps(events))
    database.ingest([training], step_from="forward")
    assert rows(database, STEPS) == [("forward", n, 1_000_000) for n in range(4)]


@pytest.mark.until("staging")
def test_one_kind_of_mark_at_a_time(training: Path, database: tracedb.Database) -> None:
    """Both options at once are refused, and so is a range that begins no step."""
    with pytest.raises(tracedb.IngestError, match="use only one of these"):
        database.ingest([training], step_mark="forward", step_from="forward")
    with pytest.raises(tracedb.IngestError, match="calls of a thread have such a name"):
        database.ingest([training], step_from="setup")
    assert rows(database, "SELECT count(*) FROM raw.trace") == [(0,)]


@needs_corpus
def test_a_server_has_steps(database: tracedb.Database) -> None:
    """An SGLang trace, whose decoding step replays a CUDA graph."""
    path = DECODE / "sglang_Qwen3-8B_decode.json.gz"
    database.ingest([path], step_mark=r"step\[DECODE.*")
    ((name, step, duration),) = rows(database, STEPS)
    assert (name, step) == ("step[DECODE bs=32]", 0)
    found = database.predict("replay")
    assert found["measured_host_ns"].to_list() == [duration]
    # The GPU finishes later.
    assert found["measured_ns"].to_list() == found["measured_gpu_end_ns"].to_list()
    assert found["measured_ns"][0] > duration


@pytest.fixture
def unmarked(tmp_path: Path) -> list[Path]:
    """The generated ranks, without their step marks and other user ranges."""
    paths = []
    for source in sorted((SAMPLES / "generated_gpu").glob("rank*.json.gz")):
        trace = json.loads(gzip.decompress(source.read_bytes()))
        trace["traceEvents"] = [
            event
            for event in trace["traceEvents"]
            if event.get("cat") != "user_annotation"
        ]
        paths.append(tmp_path / source.stem)
        paths[-1].write_text(json.dumps(trace))
    return paths


SERVER = "vllm/engine/core.py({}): {}"
STEP = r"vllm/engine/core\.py\(30\): step"


def launched(start: int, number: int) -> list[dict[str, Any]]:
    """A launch of 5 us, and its kernel."""
    args = {"correlation": number, "device": 0, "stream": 7}
    launch = event("cudaGraphLaunch", start, 5, "cuda_runtime") | {"args": args}
    kernel = event("decode", start + 6, 40, "kernel") | {"args": args}
    return [launch, kernel | {"pid": 0, "tid": 7}]


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A server without user ranges, recorded with stacks: four steps of a loop.

    Each calls itself once. A helper is called as often but hardly takes any time, and a
    thread that runs nothing is in one function after another.
    """
    events = [event(SERVER.format(9, "loop"), 0, 430, "python_function")]
    for number in range(4):
        start = 100 * number + 10
        events += [
            event(SERVER.format(*of), start + at, duration, "python_function")
            for of, at, duration in [
                ((30, "step"), 0, 90),
                ((30, "step"), 2, 85),
                ((50, "schedule"), 5, 3),
            ]
        ]
        events.append(event("wait (monitor.py)", start, 99, "python_function"))
        events[-1] |= {"tid": 2, "name": "monitor.py(3): wait"}
        events += launched(start + 20, number + 1)
    path = tmp_path / "engine.json"
    path.write_text(json.dumps(events))
    return path


def test_python_functions_mark_steps(engine: Path, tmp_path: Path) -> None:
    """The function that takes most of the time is suggested; its calls are steps."""
    path = str(tmp_path / "run.duckdb")
    reported = CliRunner().invoke(main, ["ingest", str(engine), "--db", path]).stderr
    assert f"no steps: `tracedb ingest --step-mark` could use '{STEP}'\n" in unbroken(
        reported
    )
    with tracedb.open(path) as database:
        marks = database.ask("step_mark")
        columns = ("option", "mark", "occurrences", "total_ns", "kind")
        assert marks.select(columns).rows() == [
            ("--step-mark", STEP, 4, 360_000, "function")
        ]
        database.ingest([engine], step_mark=STEP)
        name = SERVER.format(30, "step")
        assert rows(database, STEPS) == [(name, n, 90_000) for n in range(4)]
        assert rows(database, "SELECT role FROM staging.thread") == [("main",)]
        assert database.predict("replay").height == 4
        database.ingest([engine], step_from=STEP)
        assert rows(database, STEPS) == [(name, n, 100_000) for n in range(3)]


@pytest.mark.until("staging")
def test_launches_mark_steps(engine: Path, database: tracedb.Database) -> None:
    """Each replay of a CUDA graph starts a step, if nothing else has its name."""
    database.ingest([engine], step_from="cudaGraphLaunch")
    assert rows(database, STEPS) == [("cudaGraphLaunch", n, 100_000) for n in range(3)]
    # A function or a user range of that name comes first.
    events = json.loads(engine.read_text())
    for category in ("python_function", "user_annotation"):
        events += [event("cudaGraphLaunch", 7 * len(events), 5, category)] * 2
        engine.write_text(json.dumps(events))
        database.ingest([engine], step_mark="cudaGraphLaunch")
        found = rows(
            database,
            "SELECT DISTINCT cat FROM staging.step AS step INNER JOIN raw.event "
            "ON step_id = event_id "
            "WHERE step.trace_id = (SELECT max(trace_id) FROM raw.trace)",
        )
        assert found == [(category,)]


def test_functions_give_the_steps_that_ranges_give(
    tmp_path: Path, database: tracedb.Database, ingested: Ingested
) -> None:
    """Step marks recorded as calls of a function: every period and path is the same."""
    for source in sorted((SAMPLES / "generated_gpu").glob("rank*.json.gz")):
        trace = json.loads(gzip.decompress(source.read_bytes()))
        for one in trace["traceEvents"]:
            if str(one["name"]).startswith("ProfilerStep#"):
                one |= {"cat": "python_function", "name": "train.py(3): train"}
        (tmp_path / source.stem).write_text(json.dumps(trace))
    database.ingest([tmp_path], step_mark=r"train\.py.*")
    answers = {
        "staging.step": "trace_id, start_ns, end_ns, gpu_end_ns",
        "critical_path.measured_interval": "scope, kind, start_ns, end_ns",
        "critical_path.step_time": "method, measured_ns, predicted_ns",
        "overhead.interval": "type, start_ns, end_ns",
    }
    with tracedb.open(ingested(SAMPLES / "generated_gpu"), read_only=True) as marked:
        for relation, columns in answers.items():
            query = f"SELECT {columns} FROM {relation} ORDER BY ALL"
            found = rows(database, query)
            assert len(found) > 3
            assert found == rows(marked, query)


def test_a_whole_trace_is_one_step(
    unmarked: list[Path], database: tracedb.Database, ingested: Ingested
) -> None:
    """Its path is that of the trace, and replay is off by as much as of its steps."""
    database.ingest(unmarked)
    intervals = """
        SELECT trace_id, kind, start_ns, end_ns, thread_id
        FROM critical_path.measured_interval WHERE scope = ? ORDER BY ALL
    """
    of_trace = database.connection.execute(intervals, ["trace"]).fetchall()
    assert database.predict("replay").is_empty()
    assert database.ingest(unmarked, one_step=True).is_empty()
    assert database.connection.execute(intervals, ["period"]).fetchall() == of_trace
    assert len(of_trace) > 100
    found = database.predict("replay")
    assert found["step"].to_list() == [0, 0]
    with tracedb.open(ingested(SAMPLES / "generated_gpu"), read_only=True) as marked:
        steps = marked.predict("replay")
    errors = [
        one.group_by("trace_id")
        .agg((pl.col("predicted_ns") - pl.col("measured_ns")).sum())
        .sort("trace_id")
        .rows()
        for one in (found, steps)
    ]
    assert errors[0] == errors[1]
    # Another choice replaces it.
    with pytest.raises(tracedb.IngestError, match="no user range, op, Python"):
        database.ingest(unmarked, step_mark="ProfilerStep#.*")


def test_without_steps_an_edit_tells_of_no_path(
    unmarked: list[Path], tmp_path: Path
) -> None:
    """No time on paths is told, and what to do is."""
    path = str(tmp_path / "run.duckdb")
    ingest = ["ingest", *map(str, unmarked), "--db", path]
    assert "--one-step" in CliRunner().invoke(main, ingest).stderr
    whatif = ["whatif", path, "--edit", "gpu:* x0.5"]
    done = CliRunner().invoke(main, whatif)
    assert "edit 1 matches" in done.stdout
    assert "critical path" not in done.stdout
    assert "--one-step takes the whole trace" in unbroken(done.stderr)
    assert "`tracedb ingest --step-from` could use ops: '" in unbroken(done.stderr)
    assert CliRunner().invoke(main, [*ingest, "--one-step"]).exit_code == 0
    assert "on the critical paths" in CliRunner().invoke(main, whatif).stdout


def test_a_step_takes_something_on_the_host(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """A file of GPU work alone cannot be one step."""
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps([event("sgemm", 0, 5, "kernel")]))
    with pytest.raises(tracedb.IngestError, match="nothing on the host to be a step"):
        database.ingest([path], one_step=True)
    assert rows(database, "SELECT count(*) FROM raw.trace") == [(0,)]


def test_ops_start_steps(tmp_path: Path) -> None:
    """Without ranges and stacks, ops that start similar steps are suggested.

    Of those that repeat equally often the first is named. Other threads' ops, nested
    ones, and those at irregular times do not count.
    """
    events = []
    for number in range(5):
        start = 1_000 * number
        events += [
            event("aten::embedding", start, 100, "cpu_op"),
            event("aten::mm", start + 150, 300, "cpu_op"),
            event("aten::mm", start + 500, 300, "cpu_op"),
            event("aten::argmax", start + 900, 50, "cpu_op"),
            event("aten::max", start + 910, 20, "cpu_op"),
            event("aten::rand", start**2 // 4_000, 20, "cpu_op") | {"tid": 2},
        ]
    source = tmp_path / "decode.json"
    source.write_text(json.dumps(events))
    path = str(tmp_path / "run.duckdb")
    ingest = ["ingest", str(source), "--db", path]
    reported = unbroken(CliRunner().invoke(main, ingest).stderr)
    assert "--step-from` could use ops: 'aten::embedding', 'aten::mm'" in reported
    with tracedb.open(path) as database:
        marks = database.ask("step_mark").select("mark", "occurrences", "kind").rows()
        assert marks == [("aten::embedding", 5, "op"), ("aten::mm", 10, "op")]
        database.ingest([source], step_from=marks[0][0])
        name = "aten::embedding"
        assert rows(database, STEPS) == [(name, n, 1_000_000) for n in range(4)]
        assert database.ask("step_mark").is_empty()


@pytest.mark.until("staging")
def test_batches_divide_a_trace_however_long_they_take(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """The ranges of a loader start steps, also if its workers start and stop slowly."""
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    starts = [0, 2_000, 2_100, 2_200, 2_300]
    for fetching in (10, 90):
        events = [event(name, 0, 1_900, "user_annotation")]
        for start in starts[1:]:
            events.append(event(name, start, fetching, "user_annotation"))
            events.append(event("aten::mm", start + fetching, 9, "cpu_op"))
        source = tmp_path / f"{fetching}.json"
        source.write_text(json.dumps(events))
        database.ingest([source])
    suits = rows(database, "SELECT option, occurrences, kind FROM question.step_mark")
    assert suits == [("--step-from", 5, "range")] * 2


@pytest.mark.until("staging")
def test_functions_of_each_size_of_step_are_suggested(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Requests, and the calls of a model in them, but none of the functions between.

    The first call of each request takes as long as three others, which leaves only 70 %
    of the time to similar calls.
    """
    events = []
    for request in range(2):
        start = 1_000 * request
        for line, name in enumerate(["handle", "retry", "generate"]):
            of = f"server.py({line}): {name}"
            events.append(event(of, start + line, 990 - 2 * line, "python_function"))
        calls = [(10, 290), *((310 + 85 * n, 84) for n in range(8))]
        for at, long in calls:
            of = "server.py(30): forward"
            events.append(event(of, start + at, long, "python_function"))
            events.append(event("aten::mm", start + at + 5, long - 10, "cpu_op"))
    source = tmp_path / "generate.json"
    source.write_text(json.dumps(events))
    database.ingest([source])
    found = rows(database, "SELECT mark, occurrences FROM question.step_mark")
    assert found == [
        (r"server\.py\(0\): handle", 2),
        (r"server\.py\(30\): forward", 18),
    ]


def test_a_mark_after_the_last_step_counts_in_no_mean(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """The profiler begins it when a loop ends its last step; earlier ones count."""
    marks = [
        event(f"ProfilerStep#{n}", 100 * n, 90, "user_annotation") for n in range(4)
    ]
    wait = event("cudaDeviceSynchronize", 310, 5, "cuda_runtime")
    for name, found, count in (
        (
            "trailing",
            [event("aten::mm", start, 20, "cpu_op") for start in (10, 210)],
            3,
        ),
        ("launching", [event("cudaLaunchKernel", 310, 5, "cuda_runtime")], 4),
        ("without work", [], 4),
    ):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps([*marks, *found, wait]))
        (trace_id,) = database.ingest([path])["trace_id"]
        query = f"""
            SELECT count(*), count(*) FILTER (NOT is_empty),
                (FROM question.period SELECT step_count WHERE trace_id = {trace_id}),
                (FROM question.recording SELECT step_count WHERE trace_id = {trace_id})
            FROM staging.step WHERE trace_id = {trace_id}
        """
        assert rows(database, query) == [(4, count, count, count)], name


@pytest.mark.parametrize("stacks", [False, True])
def test_an_empty_recording_is_told(tmp_path: Path, *, stacks: bool) -> None:
    """Nothing can mark steps where nothing was recorded; likely reasons are given."""
    source = tmp_path / "empty.json"
    frames = [event("a.py(3): run", 5, 50, "python_function")] if stacks else []
    note = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "ts": 9.0}
    trace = {"schemaVersion": 1, "traceEvents": [*frames, note]}
    source.write_text(json.dumps(trace))
    path = str(tmp_path / "run.duckdb")
    told = CliRunner().invoke(main, ["ingest", str(source), "--db", path]).stderr
    words = "no steps: neither ops nor user ranges nor GPU work were recorded"
    assert words in unbroken(told)
    told = unbroken(CliRunner().invoke(main, ["summary", path]).stdout)
    assert words in told
    assert "prof.step()" not in told
    assert "profile_all_threads=True" in told
    assert "on_trace_ready" in told
