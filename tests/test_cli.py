"""The command line: data on stdout, everything else on stderr, one line per error."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import time
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click.testing
import duckdb
import polars as pl
import pytest
from pipeline_job import Job, randomly
from pipeline_job import rows as job_rows
from rich.console import Console
from support import SAMPLES, ingests_until, unbroken
from test_summary import two_steps

from tracedb import QueryError, catalog, reasons
from tracedb import open as open_database
from tracedb.cli import ingest, table
from tracedb.cli.main import COMMANDS, tracedb
from tracedb.public import by_subject
from tracedb.words import heading_of_count, shortened

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result
    from support import Ingested

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202egnp.exe\x85\n=1+1"
COLOUR = re.compile(r"\x1b\[[\d;]*m")
DLRM = [SAMPLES / "dlrm_cpu" / f"dlrm.{kind}.json.gz" for kind in ("kineto", "et")]


def run(*arguments: object, stdin: str = "") -> Result:
    """Run `tracedb` in this process."""
    runner = click.testing.CliRunner()
    return runner.invoke(tracedb, [str(word) for word in arguments], input=stdin)


def ask(*arguments: object) -> list[dict[str, Any]]:
    """Run a command that must succeed and return its rows."""
    done = run(*arguments, "--format", "json")
    assert done.exit_code == 0, done.stderr
    return list(json.loads(done.stdout))


def on_terminal(
    *arguments: object, columns: int = 80, stream: str = "stdout"
) -> tuple[int, str, str]:
    """Run `tracedb` in a terminal; returns exit code, terminal text, other stream."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(  # noqa: S603 (our own program)
        [sys.executable, "-Im", "tracedb", *map(str, arguments)],
        stdout=theirs if stream == "stdout" else subprocess.PIPE,
        stderr=theirs if stream == "stderr" else subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm"},
    )
    os.close(theirs)
    shown = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    other = "".join(text for text in process.communicate() if text)
    text = COLOUR.sub("", shown.decode().replace("\r\n", "\n"))
    return process.returncode, text, other


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # on Linux: nobody holds the other end any more
        return b""


def tiny_trace(name: str = "gemm") -> dict[str, Any]:
    """Two steps, each with one op that launches a kernel and waits for it."""
    events = [event for step in (1, 2) for event in _step(step, name)]
    return {"schemaVersion": 1, "traceEvents": events}


def _step(number: int, name: str) -> list[dict[str, Any]]:
    at = number * 1000
    host = {"ph": "X", "pid": 7, "tid": 7}
    linked = {"External id": number, "correlation": number}
    gpu = {"External id": number, "correlation": number, "device": 0, "stream": 7}
    return [
        {**host, "cat": "user_annotation", "name": f"ProfilerStep#{number}"}
        | {"ts": at, "dur": 900, "args": {"External id": 100 + number}},
        {**host, "cat": "cpu_op", "name": "aten::mm"}
        | {"ts": at + 100, "dur": 300, "args": {"External id": number}},
        {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel"}
        | {"ts": at + 200, "dur": 50, "args": linked},
        {**host, "cat": "cuda_runtime", "name": "cudaDeviceSynchronize"}
        | {"ts": at + 500, "dur": 250, "args": {"correlation": 50 + number}},
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7}
        | {"ts": at + 260, "dur": 480.5, "args": gpu},
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a good trace, and with files that users give by mistake."""
    made = tmp_path_factory.mktemp("files")
    (made / "tiny.json").write_text(json.dumps(tiny_trace()))
    (made / "hostile.json").write_text(json.dumps(tiny_trace(HOSTILE)))
    (made / "page.html").write_text("<html></html>")
    (made / "settings.json").write_text('{"learning_rate": 0.1}')
    (made / "cut.json.gz").write_bytes(gzip.compress(b'{"traceEvents": [' * 99)[:-9])
    (made / "empty").mkdir()
    duckdb.connect(made / "foreign.duckdb").execute("CREATE TABLE t (a INT)").close()
    duckdb.connect(made / "blank.duckdb").close()
    return made


@pytest.fixture(scope="module")
def tiny(folder: Path) -> Path:
    """A database of the tiny trace."""
    path = folder / "tiny.duckdb"
    with open_database(path) as db:
        db.ingest([folder / "tiny.json"])
    return path


@pytest.fixture(scope="module")
def hostile(folder: Path) -> Path:
    """A database whose kernel name contains terminal escapes."""
    path = folder / "hostile.duckdb"
    with open_database(path) as db, ingests_until("staging"):
        db.ingest([folder / "hostile.json"])
    return path


# ingest


@pytest.mark.until("staging")
def test_ingest_prints_what_is_new(folder: Path, tmp_path: Path) -> None:
    """New traces are rows on stdout; progress and counts are on stderr."""
    done = run(
        "ingest",
        folder / "tiny.json",
        "--db",
        tmp_path / "a.duckdb",
        "--format",
        "json",
    )
    assert [row["path"] for row in json.loads(done.stdout)] == [
        str(folder / "tiny.json")
    ]
    assert "10 events" in done.stderr
    assert "\n1 new\n" in done.stderr


def test_ingest_again_is_reported(folder: Path, tiny: Path) -> None:
    """A file that was ingested before is no new row; stderr counts it."""
    done = run("ingest", folder / "tiny.json", "--db", tiny, "--format", "json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, [])
    assert "0 new, 1 already in the database" in done.stderr
    done = run("ingest", folder / "tiny.json", "--db", tiny)
    assert (done.stdout, "no rows" in done.stderr) == ("", False)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT '/a/b.json' AS path",
        "SELECT unnest(['/a/b.json', '/c/d.json']) AS path",
        "SELECT unnest(['/a/b.json', '/a/c.json']) AS name",
    ],
)
def test_paths_keep_their_root(tiny: Path, query: str) -> None:
    """Of a wide table, only a folder that all paths have is printed once for all."""
    wide = f"SELECT *, repeat('x', 150) || random() AS other FROM ({query})"
    assert "\n/a/b.json" in run("sql", tiny, wide).stdout


def test_skipped_files_are_told_on_a_terminal(tmp_path: Path) -> None:
    """Its line of progress is overwritten; what was skipped remains."""
    (tmp_path / "a.json").write_text(json.dumps(tiny_trace()))
    for number in range(7):
        (tmp_path / f"{number}.nsys-rep").write_bytes(b"\0")
    command = ("ingest", tmp_path, "--db", tmp_path / "x.duckdb")
    code, shown, _ = on_terminal(*command, stream="stderr", columns=300)
    assert code == 0
    last = shown.partition("1 new, 7 skipped\n")[2]
    assert last.count(".nsys-rep: skipped: is a report of Nsight Systems; export") == 5
    assert "... 2 more\n" in last


@pytest.mark.until("staging")
def test_ingest_names_the_run(folder: Path, tmp_path: Path) -> None:
    """`--run` names the run."""
    database = tmp_path / "a.duckdb"
    ask("ingest", folder / "tiny.json", "--db", database, "--run", "monday")
    assert {row["run"] for row in ask("info", database)} == {"monday"}


@pytest.mark.until("staging")
def test_ingest_tells_ranks_of_several_runs(tmp_path: Path) -> None:
    """Clocks that are an hour apart may be those of one job, which only users know."""
    for rank, start in enumerate((0, 3_600_000_000)):
        trace = tiny_trace()
        for event in trace["traceEvents"]:
            event["ts"] += start
        world = {"rank": rank, "world_size": 2, "backend": "nccl"}
        path = tmp_path / f"{rank}.json"
        path.write_text(json.dumps(trace | {"distributedInfo": world}))
    apart = run("ingest", tmp_path, "--db", tmp_path / "a.duckdb")
    assert "\n2 ranks of 2 are in 2 runs: by their clocks, " in apart.stderr
    one = run("ingest", tmp_path, "--db", tmp_path / "b.duckdb", "--run", "job")
    assert "are in 2 runs" not in one.stderr


@pytest.mark.until("staging")
def test_ingest_tells_the_pair(tmp_path: Path) -> None:
    """Stderr names the trace of an execution graph, and how it was found."""
    done = run("ingest", *DLRM, "--db", tmp_path / "a.duckdb", "--pair")
    assert done.exit_code == 0, done.stderr
    assert f"{DLRM[1]}: paired with {DLRM[0]}: " in unbroken(done.stderr)


@pytest.mark.until("staging")
def test_ingest_pairs_with_what_is_there(tmp_path: Path) -> None:
    """An execution graph ingested before its trace is paired when the trace comes."""
    database = tmp_path / "a.duckdb"
    first = run("ingest", DLRM[1], "--db", database)
    assert f"{DLRM[1]}: paired with no trace: " in unbroken(first.stderr)
    second = run("ingest", DLRM[0], "--db", database)
    assert f"{DLRM[1]}: paired with {DLRM[0]}: " in unbroken(second.stderr)


@pytest.mark.until("staging")
def test_ingest_of_a_folder_counts_what_it_skips(tmp_path: Path) -> None:
    """JSON files that are not traces are skipped and reported."""
    done = run("ingest", DLRM[0].parent, "--db", tmp_path / "a.duckdb")
    assert done.exit_code == 0, done.stderr
    assert "2 new, 1 file that is not a trace skipped\n" in done.stderr


def test_empty_names_are_mistakes(tiny: Path) -> None:
    """As of variables of a shell that are not set."""
    empty = "tracedb: error: the name of the database is empty; name a file\n"
    assert run("summary", "").stderr == empty
    nameless = "no question ''; `tracedb ask DB` lists the questions\n"
    assert run("ask", tiny, "").stderr == f"tracedb: error: {nameless}"


def test_ingest_names_on_a_terminal_what_it_skips(folder: Path, tmp_path: Path) -> None:
    """The line that changes is gone by then."""
    traces = tmp_path / "traces"
    traces.mkdir()
    shutil.copy(folder / "tiny.json", traces)
    (traces / "config.json").write_text('{"x": 1}')
    command = ["ingest", traces, "--db", tmp_path / "a.duckdb"]
    code, shown, _ = on_terminal(*command, stream="stderr")
    assert code == 0
    said = unbroken(shown.rpartition("1 new, ")[2])
    assert said.startswith("1 file that is not a trace skipped")
    assert f"{traces}/config.json: neither a profiler trace" in said


def test_ingest_shows_progress_on_a_terminal(folder: Path, tmp_path: Path) -> None:
    """A changing line on stderr shows progress; stdout stays clean."""
    command = ["ingest", folder / "tiny.json", "--db", tmp_path / "a.duckdb"]
    code, shown, errors = on_terminal(*command, "--format", "csv", stream="stderr")
    assert code == 0
    assert "computing " in shown
    assert errors.startswith("trace_id,run_id,")


# info


def test_info_counts_what_is_in_each_trace(tiny: Path) -> None:
    """Ops, launches, kernels and steps of each trace are counted."""
    (row,) = ask("info", tiny)
    assert row["event_count"] == 10
    assert (row["op_count"], row["call_count"]) == (2, 4)
    assert (row["gpu_op_count"], row["step_count"]) == (2, 2)


def test_info_shows_the_pair(ingested: Ingested) -> None:
    """The row of an execution graph names its trace."""
    kinds = {row["format"]: row for row in ask("info", ingested(DLRM[0].parent))}
    assert kinds["et"]["paired_trace_id"] == kinds["kineto"]["trace_id"]


@pytest.mark.until("staging")
def test_info_exits_with_3_on_issues(folder: Path, tmp_path: Path) -> None:
    """Issues are lines on stderr, and give exit code 3."""
    database = tmp_path / "a.duckdb"
    with open_database(database) as db:
        db.ingest([folder / "tiny.json"])
        db.connection.execute(
            "INSERT INTO raw.ingest_issue VALUES (1, 'cut', 2, NULL, 'cut (2 times)')"
        )
    done = run("info", database, "--format", "json")
    assert (done.exit_code, len(json.loads(done.stdout))) == (3, 1)
    assert done.stderr == f"{folder / 'tiny.json'}: cut (2 times)\n"


# overheads, critical-path, slack, predict, ask


def test_overheads_tile_the_step(tiny: Path) -> None:
    """Types of a thread sum to each step; `--step` selects one step."""
    total: dict[int, int] = {}
    for row in ask("overheads", tiny):
        total[row["step_id"]] = total.get(row["step_id"], 0) + row["time_ns"]
    assert list(total.values()) == [900_000, 900_000]
    assert {row["step_id"] for row in ask("overheads", tiny, "--step", 2)} < set(total)


@pytest.mark.parametrize("command", ["overheads", "critical-path", "slack", "predict"])
def test_a_missing_step_is_reported(tiny: Path, command: str) -> None:
    """One line lists the steps."""
    done = run(command, tiny, "--step", 99)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "tracedb: error: no step 99; available: 1, 2\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["idle_cause", "--step", 99], "no step 99; available: 1, 2"),
        (["idle_cause", "--rank", 1], "no rank 1: the database has no ranks"),
        (["idle_cause", "--run", 7], "no run 7; there is only run 1"),
        (["idle_cause", "--device", 3], "no device 3; there is only device 0"),
        (["top_kernel", "--rank", 1], "no rank 1: the database has no ranks"),
        (
            ["module_tree", "--step", 1],
            "question.module_tree has no steps to choose from; it has ranks",
        ),
    ],
)
def test_a_missing_rank_or_device_is_reported(
    tiny: Path, arguments: list[str | int], said: str
) -> None:
    """One line lists what there is, or says that the answer has no such column."""
    done = run("ask", tiny, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"tracedb: error: {said}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("idle_cause", {"step": 2, "run": 1, "trace": 1, "device": 0}),
        ("overhead", {"step": 1, "trace": 1}),
    ],
)
def test_options_filter_an_answer(
    tiny: Path, question: str, options: dict[str, int]
) -> None:
    """Options select rows by the columns that they name."""
    rows = ask("ask", tiny, question)
    chosen = [
        row
        for row in rows
        if all(row.get(name, value) == value for name, value in options.items())
    ]
    given = [word for name, n in options.items() for word in (f"--{name}", n)]
    assert ask("ask", tiny, question, *given) == chosen
    assert 0 < len(chosen) < len(rows)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("module", "the traces have no Python stacks"),
        ("straggler", "this database has no collectives"),
        ("straggler_recovery", "this database has no table of operations"),
        ("scenario_hit", "no scenario given"),
        # GPU work there is, but no copies; the trace has steps, so they are no reason.
        ("copy", "this database has no copies on a GPU"),
        ("compiled_region", "this database has no torch.compile regions\n"),
    ],
)
def test_an_empty_answer_says_why(tiny: Path, question: str, said: str) -> None:
    """It is still an answer, with exit code 0."""
    done = run("ask", tiny, question)
    assert done.exit_code == 0
    assert done.stderr.startswith(f"no rows\n{said}")
    assert done.stderr.count("\n") == 2


def test_what_cannot_be_there_is_not_recommended(tmp_path: Path) -> None:
    """A profiler for steps that never ran, and names of work that there is not."""
    on_host = [event for event in two_steps() if event["cat"] != "kernel"]
    header = {"estimated": True, "traceEvents": on_host}
    (tmp_path / "t.json").write_text(json.dumps(header))
    assert run("ingest", tmp_path / "t.json", "--db", tmp_path / "t").exit_code == 0
    said = run("ask", tmp_path / "t", "memory").stderr
    assert said.startswith("no rows\nestimated steps have no single allocations; ")
    assert "profile_memory" not in said
    said = run("whatif", tmp_path / "t", "--edit", "gpu:*gemm* x0.5").stderr
    assert said.endswith("no GPU work with name *gemm* in this database; none at all\n")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("dlrm_cpu/dlrm.et.json.gz", "this database has only execution graphs"),
        ("stuck_gloo", "a log of collectives has neither ops nor kernels"),
    ],
)
def test_what_has_no_ops_says_so(ingested: Ingested, path: str, said: str) -> None:
    """Without traces of ops, other questions than its own have that as their reason."""
    database = ingested(SAMPLES / path)
    done = run("ask", database, "period")
    assert done.stderr.startswith(f"no rows\n{said}")
    done = run("predict", database)
    assert done.stderr.startswith(f"no rows\n{said}")
    questions = [r.name for r in catalog.relations() if r.layer == "question"]
    with open_database(database, read_only=True) as db:
        assert all(reasons._reason(db, name) for name in questions)  # noqa: SLF001
    done = run("ask", database, "sharding")
    assert "this database has no sharding plans" in done.stderr


def test_an_empty_column_is_left_out_with_a_reason(tiny: Path) -> None:
    """A table names it; other formats keep all columns."""
    done = run("ask", tiny, "host_gap")
    assert done.stdout.split()[:3] == ["role", "gaps", "time"]
    assert unbroken(done.stderr) == (
        "empty in all rows: frame, module; the traces have no Python stacks; "
        "PyTorch's profiler records them (with_stack=True)\n"
    )
    assert {"frame", "module"} <= ask("ask", tiny, "host_gap")[0].keys()


@pytest.mark.parametrize(
    ("question", "reasons"),
    [
        (
            "efficiency",
            f"{reasons._NO_SHAPES}; {reasons._NO_NAME}",  # noqa: SLF001
        ),
        ("memory_at_peak", reasons._NO_ADDRESSES),  # noqa: SLF001
        ("idle_cause", "the traces have no steps, so each is shown as a whole"),
    ],
)
def test_what_an_empty_column_lacks(
    without_much: Path, question: str, reasons: str
) -> None:
    """The reason is what the traces lack, not another thing that they lack as well."""
    said = unbroken(run("ask", without_much, question).stderr).splitlines()
    (empty,) = (line for line in said if line.startswith("empty in all rows: "))
    assert empty.partition("; ")[2] == reasons


@pytest.mark.parametrize(
    ("profilers", "advice"),
    [
        (["PyTorch profiler", "Nsight Systems"], reasons._NO_SHAPES),  # noqa: SLF001
        (["rocprofv3"], reasons._WRITES_SHAPES),  # noqa: SLF001
        (
            ["JAX profiler"],
            reasons._NO_SHAPES.replace(  # noqa: SLF001
                reasons._RECORDS,  # noqa: SLF001
                "files of JAX profiler have none that tracedb reads, traces of "
                "PyTorch's profiler do",
            ),
        ),
    ],
)
def test_advice_is_about_the_profiler_that_was_used(
    profilers: list[str], advice: str
) -> None:
    """Options of PyTorch's profiler do not help who used another one."""
    recorded = pl.DataFrame({"profiler": profilers})
    lacking = reasons._NO_SHAPES  # noqa: SLF001
    assert reasons._by_profiler(lacking, recorded) == advice  # noqa: SLF001


@pytest.fixture(scope="module")
def without_much(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace without steps, shapes, stacks and addresses of allocations."""
    events = [e for e in tiny_trace()["traceEvents"] if "Step" not in e["name"]]
    allocation = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]"}
    sizes = {"Device Type": 1, "Device Id": 0, "Bytes": 512}
    events.append(allocation | {"pid": 7, "tid": 7, "ts": 1150, "args": sizes})
    folder = tmp_path_factory.mktemp("without")
    (folder / "a.json").write_text(json.dumps({"traceEvents": events}))
    with open_database(folder / "a.duckdb") as db:
        db.ingest([folder / "a.json"])
    return folder / "a.duckdb"


def test_reasons_belong_to_questions() -> None:
    """Every reason for an empty answer names an existing question."""
    known = {r.name for r in catalog.relations() if r.layer == "question"}
    told = {*reasons._NEEDS, *reasons._OF_OPERATIONS}  # noqa: SLF001
    assert told <= known


def test_critical_path_sums_to_the_step(tiny: Path) -> None:
    """Intervals follow each other from the step's begin to its end."""
    path = ask("critical-path", tiny, "--step", 1, "--intervals")
    spans = [(r["offset_ns"], r["offset_ns"] + r["time_ns"]) for r in path]
    assert spans[0][0] == 0
    assert spans[-1][1] == 900_000
    assert all(end == start for (_, end), (start, _) in pairwise(spans))


def test_critical_path_summary_is_shorter(tiny: Path) -> None:
    """Without `--intervals` there is one row per step and kind."""
    rows = ask("critical-path", tiny)
    assert len({(row["step_id"], row["kind"]) for row in rows}) == len(rows)
    assert {row["step_id"] for row in rows} > {
        row["step_id"] for row in ask("critical-path", tiny, "--step", 2)
    }


def test_slack_has_every_node_of_a_step(tiny: Path) -> None:
    """The least slack comes first, then the longest; `--kind` selects a kind."""
    nodes = ask("slack", tiny, "--step", 1)
    assert {row["step"] for row in nodes} == {1}
    order = [
        (row["slack_ns"] is None, row["slack_ns"], -row["duration_ns"]) for row in nodes
    ]
    assert order == sorted(order)
    assert nodes[0]["slack_ns"] == 0
    kernels = ask("slack", tiny, "--step", 1, "--kind", "kernel")
    assert kernels == [row for row in nodes if row["kind"] == "kernel"]
    assert kernels


def test_slack_refuses_unknown_kinds(tiny: Path) -> None:
    """An unknown kind is an error, in Python too."""
    assert run("slack", tiny, "--kind", "gpu").exit_code == 2
    with (
        open_database(tiny, read_only=True) as db,
        pytest.raises(QueryError, match="no kind gpu; available: op, annotation"),
    ):
        db.slack(kind="gpu")


@pytest.mark.parametrize("method", ["replay", "statistics", "full"])
def test_predict_shows_measured_beside_predicted(tiny: Path, method: str) -> None:
    """Each step has its measured period and the signed error of the prediction."""
    rows = ask("predict", tiny, "--method", method)
    assert {row["method"] for row in rows} == {method}
    # Steps begin every millisecond; the first period begins with its mark.
    assert {row["measured_ns"] for row in rows} == {900_000, 1_000_000}
    assert {row["measured_host_ns"] for row in rows} == {900_000}
    for row in rows:
        error = row["predicted_ns"] / row["measured_ns"] - 1
        assert row["error_share"] == pytest.approx(error)


def test_predict_refuses_unknown_methods(tiny: Path) -> None:
    """An unknown method is an error, in Python too."""
    assert run("predict", tiny, "--method", "guess").exit_code == 2
    with (
        open_database(tiny, read_only=True) as db,
        pytest.raises(
            QueryError, match="no method guess; available: replay, statistics"
        ),
    ):
        db.predict("guess")


def test_predict_simulates_methods_on_demand(tiny: Path) -> None:
    """A method that is not stored is simulated; scores cover all methods."""
    rows = ask("predict", tiny, "--method", "other_steps")
    assert {row["method"] for row in rows} == {"other_steps"}
    assert {row["measured_host_ns"] for row in rows} == {900_000}
    scores = ask("predict", tiny, "--evaluate")
    assert {"replay", "statistics", "lin2022"} <= {row["method"] for row in scores}
    for row in ask("predict", tiny, "--bands"):
        assert row["low_ns"] <= row["predicted_ns"] <= row["high_ns"]


def test_predict_evaluates_all_methods(tiny: Path) -> None:
    """`--evaluate` with a single method is an error."""
    done = run("predict", tiny, "--evaluate", "--method", "full")
    assert done.exit_code == 2
    assert "--evaluate covers all methods" in done.stderr


def test_predict_without_a_method_shows_all(tiny: Path) -> None:
    """All three methods are shown together."""
    methods = {row["method"] for row in ask("predict", tiny)}
    assert methods == {"replay", "statistics", "full"}


def test_depends_shows_both_directions(tiny: Path) -> None:
    """A kernel depends on its launch, which began in its op; the host waits for it."""
    (kernel,) = ask("sql", tiny, "SELECT min(gpu_op_id) AS id FROM staging.gpu_op")
    rows = ask("depends", tiny, "--node", kernel["id"])
    assert [(r["direction"], r["distance"], r["kind"], r["name"]) for r in rows] == [
        ("itself", 0, None, "gemm"),
        ("up", 1, "launch", "cudaLaunchKernel"),
        ("down", 1, "sync_device", "cudaDeviceSynchronize"),
        ("up", 2, "nesting", "aten::mm"),
    ]
    assert [r["offset_ns"] for r in rows] == [0, -60_000, 240_000, -160_000]
    assert {r["lane"] for r in rows} == {"device 0 stream 7", "main thread 7"}
    for way in ("up", "down"):
        chosen = ask("depends", tiny, "--node", kernel["id"], f"--{way}")
        assert chosen == [r for r in rows if r["direction"] in {"itself", way}]


def test_depends_shows_waits(tiny: Path) -> None:
    """The call waits for the kernel, which delays the call while it blocks."""
    node = ("--node", "cudaDeviceSynchronize", "--step", 2)
    itself, awaited = ask("depends", tiny, *node, "--waits")
    assert (itself["name"], awaited["name"]) == ("cudaDeviceSynchronize", "gemm")
    assert (awaited["direction"], awaited["waited_ns"]) == ("up", 250_000)
    assert awaited["recorded"] is False
    number = ("--node", awaited["node_id"])
    _, delayed = ask("depends", tiny, *number, "--waits", "--down")
    assert (delayed["node_id"], delayed["kind"]) == (itself["node_id"], "return")
    assert delayed["waited_ns"] == 250_000


def test_depends_finds_a_name_in_its_step(tiny: Path) -> None:
    """A name that occurs once per step is found by name and step, for GPU work too."""
    for name in ("aten::mm", "gemm"):
        rows = ask("depends", tiny, "--node", name, "--step", 2)
        assert rows[0]["name"] == name
    with (
        open_database(tiny, read_only=True) as db,
        pytest.raises(QueryError, match="no direction left; choose up or down"),
    ):
        db.depends("gemm", step=1, direction="left")


def test_ask_lists_the_questions(tiny: Path) -> None:
    """Without a question, each one is listed with its meaning."""
    asked = {row["question"]: row["meaning"] for row in ask("ask", tiny)}
    known = [r.signature for r in catalog.relations() if r.layer == "question"]
    assert sorted(f"question.{name}" for name in asked) == sorted(known)
    assert all(asked.values())


def test_the_list_of_questions_fits(tiny: Path) -> None:
    """By subject, with complete names and parameters; in a pipe at most 100 columns."""
    done = run("ask", tiny)
    known = [r for r in catalog.relations() if r.layer == "question"]
    names = {r.signature.removeprefix("question.") for r in known}
    lines = done.stdout.splitlines()
    width = 2 + max(map(len, names))
    assert names <= {line[:width].strip() for line in lines}
    subjects = [line.removesuffix(":") for line in lines if line[:1].strip()]
    assert subjects == [name for name in by_subject() if name in subjects]
    assert done.stdout.count("?") == len(known)
    assert "One row per" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "tracedb schema question.NAME" in done.stderr


@pytest.mark.parametrize(
    "question",
    [r for r in catalog.relations() if r.layer == "question" and r.is_macro],
    ids=lambda question: question.name,
)
def test_ask_answers_questions_with_values(
    tiny: Path, question: catalog.Relation
) -> None:
    """Each has an answer with its relation's columns; test_sql covers the others."""
    values = (1 for _ in question.parameters)
    done = run("ask", tiny, question.name, *values, "--format", "csv")
    assert done.exit_code == 0, done.stderr
    header = next(csv.reader(io.StringIO(done.stdout)))
    assert header == [row["column"] for row in ask("schema", question.full_name)]


# sql and the formats


def test_json_has_raw_integers(tiny: Path) -> None:
    """Times are integer nanoseconds, also when summed; missing values are null."""
    query = "SELECT sum(end_ns - start_ns) AS busy_ns, NULL AS x FROM staging.gpu_op"
    assert ask("sql", tiny, query) == [{"busy_ns": 961_000, "x": None}]


def test_csv_has_a_header(tiny: Path) -> None:
    """CSV begins with column names; lists are JSON within a field."""
    query = "SELECT gpu_op_id, [1, 2] AS dims, name FROM staging.gpu_op ORDER BY 1"
    lines = run("sql", tiny, query, "--format", "csv").stdout.splitlines()
    assert lines[0] == "gpu_op_id,dims,name"
    assert lines[1].endswith(',"[1,2]",gemm')


def test_parquet_reads_back(tiny: Path) -> None:
    """Polars reads Parquet from stdout, with the types of the query."""
    query = (
        "SELECT name, start_ns, sum(gpu_op_id) AS n FROM staging.gpu_op GROUP BY ALL"
    )
    frame = pl.read_parquet(run("sql", tiny, query, "--format", "parquet").stdout_bytes)
    assert dict(frame.schema) == {
        "name": pl.String,
        "start_ns": pl.Int64,
        "n": pl.Int64,
    }
    assert sorted(frame["start_ns"]) == [1_260_000, 2_260_000]


def test_times_since_1970_are_dates_in_tables(tiny: Path) -> None:
    """Timestamps are shown as dates, long durations are not; other formats keep ns."""
    query = "SELECT 1700000000123456789 AS start_ns, 86400000000000 AS whole_day_ns"
    shown = run("sql", tiny, query).stdout
    assert "2023-11-14 22:13:20.123  86,400,000.000 ms" in shown
    assert ask("sql", tiny, query)[0]["start_ns"] == 1700000000123456789


def test_table_has_units(tiny: Path) -> None:
    """In tables, times, bytes and shares have units, and headings drop them."""
    query = (
        "SELECT 1234567 AS a_ns, 999 AS end_ns, 3 * 2**20 AS c_bytes, 0.125 AS d_share"
    )
    done = run("sql", tiny, query)
    heading, _, row = done.stdout.splitlines()
    assert heading.split() == ["a", "end", "c", "d_share"]
    assert " ".join(row.split()) == "1.235 ms 0.999 us 3.00 MiB 12.50 %"


def test_table_headings_stay_apart(tiny: Path) -> None:
    """Two columns whose short headings are equal keep their full names."""
    done = run("sql", tiny, "SELECT 1 AS a_ns, 2 AS a_bytes, 3 AS bs, 4 AS b_count")
    assert done.stdout.split()[:4] == ["a_ns", "a_bytes", "bs", "b_count"]


def test_counts_are_not_ordinals(tiny: Path) -> None:
    """A count of steps is not formatted like the number of a step."""
    done = run("sql", tiny, "SELECT 1 AS step, 2 AS step_count")
    assert done.stdout.split()[:2] == ["step", "steps"]


def test_table_shows_the_sign_of_an_error(tiny: Path) -> None:
    """Predictions that are too long or too short are distinguished."""
    query = "SELECT unnest([0.02, -0.013]) AS error_share"
    done = run("sql", tiny, query).stdout
    assert [line.strip() for line in done.splitlines()[2:]] == ["+2.00 %", "-1.30 %"]


def test_long_tables_are_cut_and_say_so(tiny: Path) -> None:
    """A table has at most 100 rows; stderr says how to get the others."""
    done = run("sql", tiny, "FROM range(2345)")
    assert len(done.stdout.splitlines()) == 102
    assert done.stderr == "first 100 of 2,345 rows; --format csv has all\n"


def test_no_rows_is_success(tiny: Path) -> None:
    """Exit code 0 and no data; stderr says so."""
    done = run("sql", tiny, "FROM staging.op WHERE false")
    assert (done.exit_code, done.stderr) == (0, "no rows\n")
    assert ask("sql", tiny, "FROM staging.op WHERE false") == []


def test_long_queries_write_rows_alone(tiny: Path) -> None:
    """DuckDB draws no progress bar on stdout."""
    query = "SELECT current_setting('enable_progress_bar')::VARCHAR AS bar"
    assert ask("sql", tiny, query) == [{"bar": "false"}]


def test_query_from_stdin(tiny: Path) -> None:
    """With `-`, the query is read from stdin."""
    done = run("sql", tiny, "-", "--format", "csv", stdin="SELECT 1 AS a")
    assert done.stdout == "a\n1\n"


# schema, upgrade


def test_schema_lists_public_relations() -> None:
    """They are in reading order, with their meaning; no database is needed."""
    listed = ask("schema")
    public = by_subject()
    names = [(subject, name) for subject in public for name in public[subject]]
    assert [(row["subject"], row["relation"]) for row in listed] == names
    assert all(row["meaning"] for row in listed)
    assert "--format csv has all" not in run("schema").stderr


def test_schema_lists_internal_relations_on_demand() -> None:
    """They come after the public ones."""
    public, every = ask("schema"), ask("schema", "--all")
    assert every[: len(public)] == public
    assert {row["relation"] for row in every} == {
        one.full_name for one in catalog.declared()
    }
    behind = every[len(public) :]
    assert all(row["subject"].startswith("Internal: ") for row in behind)
    assert run("schema", "graph.late_work").stdout.startswith(
        "graph.late_work: Internal: "
    )


def test_schema_shows_one_relation() -> None:
    """Its columns with types and meanings; in a terminal also its SQL."""
    columns = ask("schema", "staging.step")
    assert columns[0] | {"meaning": ""} == {
        "column": "step_id",
        "type": "BIGINT",
        "meaning": "",
    }
    shown = run("schema", "staging.step").stdout
    assert "One row per step." in shown
    assert "FROM staging.step_range" in shown


def test_schema_shows_a_macro() -> None:
    """A function has parameters instead of columns."""
    name = "graph.delay_cap_ns"
    parameters = [row["column"] for row in ask("schema", name)]
    assert parameters == ["instance_count", "median_ns", "p95_ns"]
    shown = run("schema", name).stdout
    assert shown.startswith(f"{name}({', '.join(parameters)}): Internal: [ns] ")
    assert "CASE" in shown


def test_schema_page_is_markdown() -> None:
    """--markdown prints the page docs/schema.md."""
    page = run("schema", "--markdown").stdout
    assert page.startswith("# Schema\n")
    assert "## `staging.gpu_op`" in page


def test_upgrade_repairs_a_database_of_another_version(
    tiny: Path, tmp_path: Path
) -> None:
    """The error names `tracedb upgrade`, which works and loses nothing.

    Straggler results are simulated again from the stored operations.
    """
    job = tmp_path / "job.parquet"
    pl.DataFrame(job_rows(Job(), randomly(6))).write_parquet(job)
    database = tmp_path / "old.duckdb"
    database.write_bytes(tiny.read_bytes())
    ask("ingest", job, "--db", database)
    before = ask("info", database), ask("ask", database, "straggler_slowdown")
    assert all(before)
    with open_database(database) as db:
        db.connection.execute("UPDATE raw.database SET value = 'old'")
    refused = run("info", database)
    assert refused.exit_code == 2
    assert f"run `tracedb upgrade {database}`" in refused.stderr
    assert run("upgrade", database).exit_code == 0
    after = ask("info", database), ask("ask", database, "straggler_slowdown")
    assert after == before


# Errors


MISTAKES = {
    "no database": (
        "info {}/absent.duckdb",
        "absent.duckdb: no such database; create it",
    ),
    "no file": (
        "ingest {}/absent.json --db {}/new.duckdb",
        "absent.json: no such file",
    ),
    "empty folder": (
        "ingest {}/empty --db {}/new.duckdb",
        "empty: no traces below",
    ),
    "no JSON": (
        "ingest {}/page.html --db {}/new.duckdb",
        "page.html: is a web page",
    ),
    "empty folder for a CPU": (
        "kernels cpu --output=",
        "--output: the path is empty",
    ),
    "no trace": (
        "ingest {}/settings.json --db {}/new.duckdb",
        "keys are learning_rate",
    ),
    "no run": (
        "ingest {}/tiny.json --db {}/new.duckdb --run=",
        "the name of the run is empty",
    ),
    "cut gzip": (
        "ingest {}/cut.json.gz --db {}/new.duckdb",
        "cut.json.gz: holds no event that can be read (cut off",
    ),
    "bad SQL": ("sql {}/tiny.duckdb SELEC", 'syntax error at or near "SELEC"'),
    "near miss": (
        "sql {}/tiny.duckdb FROM/**/staging.kernels",
        "staging.kernels does not exist; did you mean staging.kernel?",
    ),
    "near macro": (
        "sql {}/tiny.duckdb FROM/**/question.ancestr(3)",
        "no table function question.ancestr; did you mean question.ancestor",
    ),
    "misspelled layer": (
        "sql {}/tiny.duckdb FROM/**/stagin.op",
        "stagin.op does not exist; did you mean staging.op",
    ),
    "write": (
        "sql {}/tiny.duckdb CREATE/**/TABLE/**/t(a/**/INT)",
        "CREATE is not allowed",
    ),
    "delete": (
        "sql {}/tiny.duckdb DELETE/**/FROM/**/raw.event",
        "DELETE is not allowed",
    ),
    "no question": (
        "ask {}/tiny.duckdb top_kernels",
        "no question top_kernels; did you mean top_kernel",
    ),
    "no value of an option": (
        "summary {}/tiny.duckdb --step",
        "error: option '--step' requires",
    ),
    "no node": ("depends {}/tiny.duckdb --node 99", "no node 99; graph.node lists"),
    "mistyped node": ("depends {}/tiny.duckdb --node gem", "; did you mean gemm?"),
    "mistyped command": ("sumary {}/tiny.duckdb", "'sumary'; did you mean summary?"),
    "command of an underscore": (
        "critical_path {}/tiny.duckdb",
        "did you mean critical-path?",
    ),
    "no command": ("{}/tiny.duckdb", "tiny.duckdb'; the command comes first: `tracedb"),
    "mistyped option": (
        "critical-path {}/tiny.duckdb --setp 1",
        "no such option '--setp'; did you mean '--scope' or '--step'? see",
    ),
    "option of another command": (
        "summary {}/tiny.duckdb --scenario x",
        "no such option '--scenario'; it is an option of critical-path, predict, ",
    ),
    "option of one other command": (
        "summary {}/tiny.duckdb --baseline x",
        "no such option '--baseline'; it is an option of `check`; see `tracedb ",
    ),
    "short option of a subcommand": (
        "info {}/tiny.duckdb -o x",
        "it is an option of record, overheads learn, ",
    ),
    "the database as an output": (
        "ingest {}/tiny.json -o {}/new.duckdb",
        "ingest: no such option '-o'; did you mean '--db'? see",
    ),
    "the database as an option": (
        "summary --db {}/tiny.duckdb",
        "summary: no such option '--db'; here the database is given without it; see",
    ),
    "mistyped database": (
        "info {}/tny.duckdb",
        "tny.duckdb: no such database; did you mean {}/tiny.duckdb?",
    ),
    "mistyped trace": (
        "ingest {}/tiny.jsn --db {}/new.duckdb",
        "tiny.jsn: no such file or folder; did you mean {}/tiny.json?",
    ),
    "no number": (
        "shard {}/t.csv --ranks x --gpu H100",
        "'--ranks': 'x' is not a whole number; see",
    ),
    "no share": (
        "check {}/tiny.duckdb --baseline {}/tiny.duckdb --tolerance x",
        "'--tolerance': 'x' is not a number; see",
    ),
    "folder for a database": ("info {}/empty", "empty: a folder, not a database"),
    "unknown ending": (
        "export {}/tiny.duckdb -o {}/picture.svg",
        "picture.svg' is no known format",
    ),
    "database for a trace": (
        "ingest {}/tiny.duckdb --db {}/new.duckdb",
        "tiny.duckdb: a database, not a trace",
    ),
    "roofline": ("ask {}/tiny.duckdb roofline", "did you mean efficiency"),
    "no node in step": (
        "depends {}/tiny.duckdb --node gemm --step 3",
        "no step 3; available: 1, 2",
    ),
    "many nodes": (
        "depends {}/tiny.duckdb --node gemm",
        "choose one by its number: 5 (trace 1 step 1, at 0.260 ms, 480.500 us long); ",
    ),
    "no value": (
        "ask {}/tiny.duckdb delays",
        "takes 1 value, not 0: question.delays(",
    ),
    "a value": ("ask {}/tiny.duckdb wait 7", "question.wait takes 0 values, not 1"),
    "no such node": ("ask {}/tiny.duckdb ancestor 4711", "no node 4711; graph.node"),
    "no such step": ("ask {}/tiny.duckdb longest_chain 99 1", "no step_id 99"),
    "no such run": ("ask {}/tiny.duckdb diff_kind 1 7", "no run 7; raw.run lists"),
    "far miss": ("sql {}/tiny.duckdb FROM/**/sequence", "sequence does not exist; `"),
    "no relation": ("schema staging.kernels", "did you mean staging.kernel"),
    "no such layer": ("schema xyzzy", "`tracedb schema` lists"),
    "foreign": (
        "info {}/foreign.duckdb",
        "a DuckDB file, but not written by tracedb",
    ),
    "foreign, written": (
        "ingest {}/tiny.json --db {}/foreign.duckdb",
        "not written by tracedb",
    ),
    "blank": (
        "info {}/blank.duckdb",
        "blank.duckdb: empty; fill it with `tracedb ingest`",
    ),
    "no DuckDB file": (
        "info {}/page.html",
        "page.html: not a database; if it is",
    ),
    "upgrade of nothing": (
        "upgrade {}/absent.duckdb",
        "absent.duckdb: no such database",
    ),
}


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("line", "message"), MISTAKES.values(), ids=list(MISTAKES))
def test_mistakes_are_one_line(folder: Path, line: str, message: str) -> None:
    """A mistake gives exit code 2, no data, and one line with value and remedy."""
    done = run(*line.replace("{}", str(folder)).split())
    assert (done.exit_code, done.stdout) == (2, "")
    assert message.replace("{}", str(folder)) in done.stderr
    assert re.fullmatch(r"(\[1/1\] .*\n)?tracedb: error: .*\n", done.stderr)


def test_wrong_pair_is_refused(folder: Path, tmp_path: Path) -> None:
    """`--pair` refuses the execution graph of another run, and stores neither file."""
    database = tmp_path / "a.duckdb"
    done = run("ingest", folder / "tiny.json", DLRM[1], "--db", database, "--pair")
    assert done.exit_code == 2
    assert f"tracedb: error: {DLRM[1]}: not an execution graph of" in done.stderr
    assert not database.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["infoo"],
        ["--colour"],
        ["predict"],
        ["predict", "x", "--method", "guess"],
        ["sql", "x", "y", "--colour"],
        ["kernels", "trian"],
        ["kernels", "train", "x"],
        ["microbench", "-o", "x.parquet"],
    ],
)
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    """Unknown commands, arguments and options give one line on stderr."""
    done = run(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert re.fullmatch(
        r"tracedb: error: .*(no such|missing|unexpected|invalid|give).*"
        r" see `tracedb .*--help`\n",
        done.stderr,
    )


@pytest.mark.parametrize("group", ["kernels", "lake", "overheads"])
def test_a_group_alone_shows_its_help(group: str) -> None:
    """A group without a subcommand lists its subcommands, one line each."""
    done = run(group)
    assert f"Usage: tracedb {group} " in done.stderr
    assert "error" not in done.stderr


@pytest.mark.parametrize("words", [[], ["kernels"], ["lake"], ["overheads"]])
def test_commands_are_listed_with_whole_sentences(words: list[str]) -> None:
    """No summary is cut at the end of its line."""
    assert "...\n" not in run(*words, "--help").stdout.partition("\n")[2]


# Outputs


def measurements(folder: Path) -> Path:
    """A file of measurements for training a model."""
    texts = {"device": "V100", "software": "x", "source": "x", "measured": "kernel"}
    op = {"family": "memset", "op": "memset", "dtype": "int8"}
    rows = [
        {**texts, **op, "bytes": 2**n, "time_ns": 2000.0 + n} for n in range(16, 26)
    ]
    path = folder / "sets.parquet"
    pl.DataFrame(rows).write_parquet(path, metadata={"tracedb.measurements": "1"})
    return path


def writers(folder: Path, tiny: Path) -> dict[str, tuple[object, ...]]:
    """The commands that write, without their output path."""
    quick = ("--backend", "numpy", "--family", "memset", "--minutes", "0.001")
    return {
        "learn": ("overheads", "learn", tiny),
        "train": ("kernels", "train", measurements(folder)),
        "microbench": ("microbench", "--plan", "quick", *quick),
    }


@pytest.mark.parametrize("name", ["learn", "train", "microbench"])
@pytest.mark.parametrize("option", ["-o", "--output"])
def test_output_folders_are_created(
    name: str, option: str, tiny: Path, tmp_path: Path
) -> None:
    """Each command that writes creates them, and overwrites its own output only."""
    path = tmp_path / "made" / "here" / "output"
    for _ in range(2):
        done = run(*writers(tmp_path, tiny)[name], option, path)
        assert done.exit_code == 0, done.stderr
    assert path.exists()
    beside = {file.name for file in path.parent.iterdir()}
    assert beside <= {"output", "output.journal"}


@pytest.mark.parametrize("name", ["learn", "train", "microbench"])
def test_outputs_overwrite_nothing_else(name: str, tiny: Path, tmp_path: Path) -> None:
    """A file of another kind stays, as does one where a folder should be."""
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    for path in (other, other / "below"):
        done = run(*writers(tmp_path, tiny)[name], "-o", path)
        assert (done.exit_code, done.stdout) == (2, "")
        assert str(other) in done.stderr
        assert done.stderr.count("tracedb: error: ") == 1
        assert other.read_text() == "mine"


def test_errors_escape_names(tmp_path: Path) -> None:
    """A path with control characters is escaped in the terminal, in one line."""
    done = run("ingest", tmp_path / "a\x1b[2J\nb.json", "--db", tmp_path / "x.duckdb")
    assert r"a\x1b[2J\nb.json: no such file" in done.stderr
    assert done.stderr.count("\n") == 1


# Terminals


def test_table_escapes_names(hostile: Path) -> None:
    """Tables escape control characters in names, also when written to a file."""
    shown = run("sql", hostile, "SELECT DISTINCT name FROM staging.gpu_op").stdout
    assert r"\x1b[2J\x1b]0;owned\x07\u202egnp.exe\x85\n=1+1" in shown
    assert all(line.isprintable() for line in shown.splitlines())


@pytest.mark.parametrize("format_", ["csv", "json", "table"])
def test_terminals_get_no_control_characters(hostile: Path, format_: str) -> None:
    """In every format, a terminal gets printable characters only."""
    query = "SELECT name FROM staging.gpu_op"
    code, shown, _ = on_terminal("sql", hostile, query, "--format", format_)
    assert code == 0
    assert "owned" in shown
    assert all(line.isprintable() for line in shown.splitlines())


def test_names_are_not_markup(tmp_path: Path) -> None:
    """Brackets in names are plain text: rich would fail or turn them into links."""
    names = ("d[/x].json", "[link=evil]a[blink].json")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(tiny_trace(name)))
    database = tmp_path / "a[/b].duckdb"
    code, _, _ = on_terminal(
        "ingest", tmp_path, "--db", database, columns=300, stream="stderr"
    )
    assert code == 0
    query = "SELECT DISTINCT name FROM staging.gpu_op"
    code, shown, _ = on_terminal("sql", database, query, columns=300)
    assert code == 0
    # Whether a file's progress is shown depends on how long it takes.
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=300)
    status = console.status("reading")
    for name in names:
        assert name in shown
        ingest._Progress(status)(f"[1/1] {name}")  # noqa: SLF001 (by itself)
        console.print(status.renderable)
        assert name in screen.getvalue()


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_files_get_names_unchanged(hostile: Path, format_: str) -> None:
    """Output that is not a terminal gets the data unchanged."""
    query = "SELECT DISTINCT name FROM staging.gpu_op"
    shown = run("sql", hostile, query, "--format", format_).stdout_bytes.decode()
    if format_ == "csv":
        assert list(csv.reader(io.StringIO(shown, newline="")))[1] == [HOSTILE]
    else:
        assert json.loads(shown) == [{"name": HOSTILE}]


def test_prose_breaks_between_words(tiny: Path) -> None:
    """What a scenario does fits the window; in a pipe, lines have 100 columns."""
    asked = ("whatif", tiny, "--edit", "gpu x0.5")
    _, shown, _ = on_terminal(*asked, columns=50)
    prose, piped = (
        text.partition("\nscenario ")[2] for text in (shown, run(*asked).stdout)
    )
    assert 50 < max(map(len, piped.splitlines())) <= 100
    assert max(map(len, prose.splitlines())) <= 50
    assert prose.split() == piped.split()


def test_parquet_refuses_a_terminal(tiny: Path) -> None:
    """The message says where to send the bytes."""
    code, shown, errors = on_terminal("info", tiny, "--format", "parquet")
    assert (code, shown) == (2, "")
    assert "redirect it to a file: `> x.parquet`" in errors


def test_wide_tables_fit_the_terminal(tiny: Path) -> None:
    """No line is wider than the terminal, and no number is cut."""
    query = (
        "SELECT 'same' AS a, range AS b, repeat(b::TEXT, 99) AS c, "
        "repeat('x', 40) AS d, repeat('y', 40) AS e FROM range(2)"
    )
    _, shown, errors = on_terminal("sql", tiny, query, columns=60)
    assert max(len(line) for line in shown.splitlines()) <= 60
    assert shown.startswith(f"a same, d {'x' * 40},\ne {'y' * 40}\n")
    assert "…" in shown
    assert errors == ""


def test_names_of_narrow_tables_are_cut_in_the_middle(tiny: Path) -> None:
    """The ends of long names tell them apart, so the middle is cut."""
    names = ", ".join(f"'autograd::engine::{'x' * 80}: {n}Backward'" for n in "AB")
    query = f"SELECT unnest([{names}]) AS a, unnest(['b', 'c']) AS short"
    _, shown, _ = on_terminal("sql", tiny, query, columns=50)
    *_, first, second = shown.splitlines()
    assert first.startswith("autograd::engine")
    assert [line.split()[-2:] for line in (first, second)] == [
        ["ABackward", "b"],
        ["BBackward", "c"],
    ]


def test_headings_of_counts_are_words(tiny: Path) -> None:
    """Known counts have plural headings; users' own names stay as they are."""
    query = "SELECT 1 AS gpu_op_count, 2 AS match_count, 3 AS late_count, 4 AS by_count"
    heading, *_ = run("sql", tiny, query).stdout.splitlines()
    assert heading.split() == ["gpu_ops", "matches", "late", "by_count"]


def test_public_counts_have_headings() -> None:
    """`COUNTED` knows what they count; the hardware's names of units are kept."""
    public = (catalog.find(name) for names in by_subject().values() for name in names)
    names = {column for relation in public for column in relation.columns}
    counts = {name for name in names if name.endswith("_count")}
    assert {name for name in counts if heading_of_count(name) == name} == {"sm_count"}


def test_means_of_counts_are_not_rounded(tiny: Path) -> None:
    """Whole numbers have no decimals; of others, three or more digits remain."""
    values = "[12345::DOUBLE, 12345.25, 0.0625, -2.5, 'nan'::DOUBLE, 'inf'::DOUBLE]"
    query = f"SELECT unnest({values}) AS op_count, 1e37::DECIMAL(38, 0) AS step_count"
    shown = [line.split()[0] for line in run("sql", tiny, query).stdout.splitlines()]
    expected = ["12,345", "12,345.25", "0.0625", "-2.5", "nan", "inf"]
    assert shown[-len(expected) :] == expected


def test_sizes_are_never_shown_as_zero(tiny: Path) -> None:
    """A small size among large ones has a unit of its own; times share theirs."""
    sizes, times = "[5, 7::BIGINT << 30, 0]", "[5, 7000000, 0]"
    query = f"SELECT unnest({sizes}) AS a_bytes, unnest({times}) AS b_ns"
    shown = run("sql", tiny, query).stdout.splitlines()[2:]
    assert [line.split() for line in shown] == [
        ["5", "B", "<0.001", "ms"],
        ["7.00", "GiB", "7.000", "ms"],
        ["0.00", "GiB", "0.000", "ms"],
    ]


def test_sums_have_units(tiny: Path) -> None:
    """DuckDB's sums of integers are of 128 bits, which Python has as decimals."""
    query = (
        "SELECT sum(a)::HUGEINT AS a_ns FROM unnest([2_000_000, 5_000_000]) AS t (a)"
    )
    assert run("sql", tiny, query).stdout.split()[-2:] == ["7.000", "ms"]


def test_times_have_a_unit_in_which_most_have_digits(tiny: Path) -> None:
    """A single long time does not make the others 0.003 ms."""
    few, many = "[1901200, 3094, 3591]", "[70000, 80000, 90000]"
    query = f"SELECT unnest({few}) AS a_ns, unnest({many}) AS b_ns"
    shown = run("sql", tiny, query).stdout.splitlines()[2:]
    assert [line.split() for line in shown] == [
        ["1,901.200", "us", "70.000", "us"],
        ["3.094", "us", "80.000", "us"],
        ["3.591", "us", "90.000", "us"],
    ]


def test_times_that_compare_share_a_unit(tiny: Path) -> None:
    """Parts and sums do; when something is, and means beside a total, have others."""
    columns = {
        "time_ns": "2500000",
        "waiting_ns": "30000",
        "moving_ns": "0",
        "mean_ns": "1500",
        "longest_ns": "1600",
        "offset_ns": "75000000",
        "slack_ns": "2000",
        "duration_ns": "10000",
    }
    query = ", ".join(f"{value} AS {name}" for name, value in columns.items())
    _, _, row = run("sql", tiny, f"SELECT {query}").stdout.splitlines()
    assert " ".join(row.split()) == (
        "2.500 ms 0.030 ms 0.000 ms 1.500 us 1.600 us 75.000 ms 2.000 us 0.010 ms"
    )
    query = "SELECT 2500000 AS host_ns, 1500 AS mean_ns"
    _, _, row = run("sql", tiny, query).stdout.splitlines()
    assert " ".join(row.split()) == "2.500 ms 0.002 ms"


def test_functions_in_narrow_tables_keep_their_files(tiny: Path) -> None:
    """A place is told by the end of its path, and by its line."""
    frame = "add_request (/opt/venv/vllm/v1/worker/batch.py:304)"
    query = f"SELECT '{'n' * 60}' AS name, '{frame}' AS frame, '{'o' * 60}' AS op"
    _, shown, _ = on_terminal("sql", tiny, query, columns=60)
    assert " add_request (…/batch.py:304) " in shown
    assert max(map(len, shown.splitlines())) <= 60


@pytest.mark.until("critical_path")
def test_tables_have_ranks_instead_of_traces(tmp_path: Path) -> None:
    """Traces of two runs keep their numbers; csv has all numbers in any case."""
    expected = [("one", []), ("one", ["rank"]), ("two", ["trace_id", "rank"])]
    for rank, (run_name, own) in enumerate(expected):
        (tmp_path / f"{rank}.json").write_text(
            json.dumps(
                {
                    **tiny_trace(),
                    "distributedInfo": {"rank": rank % 2, "world_size": 2},
                    "salt": rank,
                }
            )
        )
        done = run(
            *("ingest", tmp_path / f"{rank}.json", "--db", tmp_path / "run.duckdb"),
            *("--run", run_name),
        )
        assert done.exit_code == 0, done.stderr
        heading = run("overheads", tmp_path / "run.duckdb").stdout.splitlines()[0]
        assert heading.split()[:-4] == [*own, "step", "thread"]
        names = run("overheads", tmp_path / "run.duckdb", "--format", "csv").stdout
        assert names.startswith("trace_id,rank,step_id,step,")


def test_names_of_megabytes_are_shortened_at_once() -> None:
    """The time is proportional to their length."""
    begun = time.monotonic()
    for name in ("x" * 10**7, "a::" * 10**6, "void " + "x" * 10**7, "x<" * 10**6):
        assert len(shortened(name, 40)) == 40
    assert time.monotonic() - begun < 20


def test_paths_of_narrow_tables_keep_their_ends(tiny: Path) -> None:
    """The folder common to all paths moves to the line above the table."""
    paths = "unnest(['/some/where/a/b.json', '/some/where/c.json'])"
    query = f"SELECT {paths} AS path, 1234567890 AS n"
    _, shown, _ = on_terminal("sql", tiny, query, columns=24)
    assert shown.splitlines()[:2] == ["n 1234567890,", "path in /some/where"]
    assert {"a/b.json", "c.json"} < set(shown.split())


def test_columns_that_do_not_fit_are_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A column of numbers is left out as a whole rather than cut."""
    monkeypatch.setattr(
        table, "Console", lambda **_: Console(force_terminal=True, width=30)
    )
    names = [f"column_{number}" for number in range(9)]
    assert (
        table.write(pl.DataFrame([range(9)], schema=names, orient="row")) == names[3:]
    )
    assert "column_2" in capsys.readouterr().out


# Help


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_terminal(name: str) -> None:
    """Each command's help has lines of at most 80 characters."""
    done = run(name, "--help")
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "Example:" in done.stdout


def test_python_m_tracedb() -> None:
    """`python -m tracedb` is the same command."""
    command = [sys.executable, "-Im", "tracedb", "--version"]
    done = subprocess.run(  # noqa: S603 (our own program)
        command, capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"\S.* \d+\.\d+\.\d+\n", done.stdout)


@pytest.mark.parametrize(
    ("words", "expected"),
    [("tracedb su", "plain,summary"), ("tracedb ask x.duckdb --for", "plain,--format")],
)
def test_shell_completion(words: str, expected: str) -> None:
    """Click's completion finds commands that are imported lazily."""
    program = "import sys; sys.argv[0] = 'tracedb'; "
    program += "from tracedb.cli.start import tracedb; tracedb()"
    typed = words.split()
    told = {"COMP_WORDS": words, "COMP_CWORD": str(len(typed) - 1)}
    done = subprocess.run(  # noqa: S603 (our own program)
        [sys.executable, "-Ic", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "_TRACEDB_COMPLETE": "bash_complete", **told},
    )
    assert expected in done.stdout.splitlines(), done


def test_a_library_that_does_not_fit_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a pyarrow that asks for NumPy 2 where an old PyTorch needs NumPy 1."""
    (tmp_path / "tables.py").write_text('raise ImportError("tables needs another")')
    monkeypatch.syspath_prepend(tmp_path)

    def told(module: str) -> click.testing.Result:
        importing = lambda **_: import_module(module)  # noqa: E731 (no more than that)
        monkeypatch.setattr(ingest.ingest, "callback", importing)
        return click.testing.CliRunner().invoke(tracedb, ["ingest", "x", "--db", "y"])

    assert told("tables").exit_code == told("absent_library").exit_code == 2
    start, end = "tracedb: error: ", "install versions of these libraries that fit"
    broken = "tables, which tracedb needs, cannot be imported: tables needs another; "
    assert told("tables").stderr.startswith(start + broken + end)
    assert "No module named 'absent_library'" in told("absent_library").stderr
    assert isinstance(told("tracedb.absent").exception, ImportError)
