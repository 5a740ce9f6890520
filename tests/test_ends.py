"""How commands end: at most one line, nothing half written, an exit code."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Container
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from types import FrameType
from typing import Any

import duckdb
import pytest
from support import SAMPLES, Ingested, assert_nothing_written

import tracedb
from tracedb.duck import stoppable

SAMPLE = SAMPLES / "generated_gpu" / "rank0.kineto.json.gz"
COMMAND = [sys.executable, "-Im", "tracedb"]
ENDLESS = [
    "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a) FROM a",
    "SELECT count(*) FROM range(9000000000) a, range(9000) b WHERE hash(a, b) = 5",
    "FROM range(10000000000)",
]
STARTED_SECONDS = 1.0
"""By then the command's modules are imported; before, Python itself is interrupted."""


@pytest.fixture
def database(tmp_path: Path, ingested: Ingested) -> Path:
    """A database with a trace, in a folder of its own."""
    folder = tmp_path / "ends"
    folder.mkdir()
    return Path(shutil.copy(ingested(SAMPLE), folder / "run.duckdb"))


def start(*arguments: object, **options: Any) -> subprocess.Popen[str]:  # noqa: ANN401
    """Start the command."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(  # noqa: S603 (our own program)
        [*COMMAND, *map(str, arguments)], text=True, **streams | options
    )


def interrupted(
    process: subprocess.Popen[str], seconds: float
) -> tuple[int, str, float]:
    """Exit code, stderr, and seconds to end after one Ctrl-C."""
    sleep(seconds)
    begun = monotonic()
    process.send_signal(signal.SIGINT)
    _, reported = process.communicate(timeout=60)
    return process.returncode, reported, monotonic() - begun


@pytest.mark.parametrize("query", ENDLESS)
def test_the_first_interrupt_ends_a_query(database: Path, query: str) -> None:
    """An endless query ends at one Ctrl-C, with one line."""
    code, reported, seconds = interrupted(start("sql", database, query), 3)
    assert (code, reported) == (130, "tracedb: interrupted\n")
    # A busy machine may be slow.
    assert seconds < 20


@pytest.mark.parametrize("step", range(6))
def test_an_interrupted_ingest_leaves_nothing(
    tmp_path: Path, ingested: Ingested, step: int
) -> None:
    """Interrupted at any moment, it says so in the last line and leaves no database.

    If it was already committed and only the output remained, the database is whole.
    """
    path = tmp_path / "run.duckdb"
    process = start("ingest", SAMPLE, "--db", path)
    code, reported, _ = interrupted(process, STARTED_SECONDS + 0.7 * step)
    if code == 0:  # it had already ended
        return
    assert code == 130
    assert reported.endswith("tracedb: interrupted\n")
    assert "Traceback" not in reported
    if path.exists():
        with (
            tracedb.open(path, read_only=True) as opened,
            tracedb.open(ingested(SAMPLE), read_only=True) as other,
        ):
            for name in ("raw.event", "graph.node", "critical_path.step_time"):
                assert opened.relation(name).equals(other.relation(name)), name
        assert list(tmp_path.iterdir()) == [path]
        return
    assert_nothing_written(tmp_path)


CLOSING = {"close", "_close", "_is_unused"}


def interrupted_at(
    line: int, functions: Container[str] = CLOSING
) -> Callable[..., Any]:
    """A tracer that raises a Ctrl-C at one of the lines that close a database.

    Or at those of other functions, once.
    """
    left = [line]

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if frame.f_code.co_name not in functions or left[0] <= 0:
            return None
        left[0] -= event == "line"
        if left[0] == 0 and event == "line":
            raise KeyboardInterrupt
        return trace

    return trace


@pytest.mark.parametrize("is_kept", [False, True])
def test_an_interrupt_at_any_line_of_close_leaves_a_closed_file(
    tmp_path: Path, *, is_kept: bool
) -> None:
    """The file is whole and has no log; one that holds nothing is removed.

    Not at its first line, `try`.
    """
    path = tmp_path / "run.duckdb"
    lines = 1
    while True:
        lines += 1
        database = tracedb.open(path)
        if is_kept:
            database.connection.execute("CREATE OR REPLACE TABLE kept AS FROM range(9)")
        sys.settrace(interrupted_at(lines))
        try:
            database.close()
        except KeyboardInterrupt:
            continue
        finally:
            sys.settrace(None)
            assert list(tmp_path.iterdir()) == [path] * is_kept
        break
    assert lines > 5


def test_an_interrupt_at_any_line_of_opening_leaves_no_file(tmp_path: Path) -> None:
    """A database that was created, and not yet opened, is removed."""
    lines = 0
    while True:
        lines += 1
        sys.settrace(interrupted_at(lines, {"_open", "attach"}))
        try:
            tracedb.open(tmp_path / "run.duckdb").close()
        except KeyboardInterrupt:
            continue
        finally:
            sys.settrace(None)
            assert list(tmp_path.iterdir()) == []
        break
    assert lines > 8


def test_a_query_has_ended_if_its_start_was_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pool's thread may run before the pool knows of it."""
    ended: list[BaseException] = []
    with duckdb.connect() as connection:

        def submit(_: ThreadPoolExecutor, work: Callable[[], object]) -> None:
            begun = Event()

            def run() -> None:
                begun.set()
                try:
                    work()
                except duckdb.InterruptException as error:
                    ended.append(error)

            Thread(target=run).start()
            begun.wait()
            sleep(0.1)
            raise KeyboardInterrupt

        monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
        with pytest.raises(KeyboardInterrupt):
            stoppable(connection, lambda: connection.execute(ENDLESS[1]).fetchall())
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert ended


@pytest.mark.parametrize("step", range(3))
def test_an_interrupted_simulation_changes_nothing(database: Path, step: int) -> None:
    """The database is unchanged, byte by byte."""
    before = database.read_bytes()
    process = start("predict", database, "--method", "other_steps", "--format", "csv")
    code, reported, _ = interrupted(process, STARTED_SECONDS + step)
    assert (code, reported) in {(130, "tracedb: interrupted\n"), (0, "")}
    assert database.read_bytes() == before


WRITERS = {
    "table": ("sql", "{}", "FROM range(100)"),
    "csv": ("sql", "{}", "FROM range(100)", "--format", "csv"),
    "schema": ("schema",),
    "page": ("schema", "--markdown"),
    "help": ("--help",),
    "question": ("ask", "{}", "top_kernel"),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
def test_a_full_stdout_is_one_line(database: Path, name: str) -> None:
    """A full stdout gives one line on stderr and a failure code."""
    words = [word.replace("{}", str(database)) for word in WRITERS[name]]
    with Path("/dev/full").open("w") as full:
        process = start(*words, stdout=full)
        reported = process.communicate()[1]
    assert process.returncode == 2
    assert reported == "tracedb: error: stdout: No space left on device\n"


def test_a_closed_pipe_is_silent(database: Path) -> None:
    """`tracedb ... | head -1` ends silently, and not as a failed check does."""
    process = start("sql", database, "FROM range(1000000)", "--format", "csv")
    assert process.stdout
    assert process.stdout.readline() == "range\n"
    process.stdout.close()
    process.stdout = None
    reported = process.communicate()[1]
    assert process.returncode == 128 + signal.SIGPIPE
    assert reported == ""


def closed(*numbers: int) -> Callable[[], None]:
    """Closes streams before the command begins."""

    def close() -> None:
        for number in numbers:
            os.close(number)

    return close


def test_closed_streams_are_one_line(database: Path) -> None:
    """Without stdout or stdin, one line says what to do."""
    process = start("sql", database, "SELECT 1", preexec_fn=closed(1))
    reported = process.communicate()[1]
    assert process.returncode == 2
    assert reported.startswith("tracedb: error: stdout is closed")
    assert reported.count("\n") == 1
    process = start("sql", database, "-", preexec_fn=closed(0))
    reported = process.communicate()[1]
    assert process.returncode == 2
    assert "stdin is closed" in reported
    assert reported.count("\n") == 1


def test_closed_streams_do_not_damage_the_database(
    tmp_path: Path, database: Path
) -> None:
    """A file opened as descriptor 1 or 2 is not written to."""
    path = shutil.copy(database, tmp_path)
    process = start("upgrade", path, preexec_fn=closed(0, 1, 2))
    process.communicate()
    assert process.returncode == 0
    with tracedb.open(path, read_only=True) as opened:
        assert opened.sql("FROM raw.trace").height == 1


def test_an_unbuffered_stdout_gets_everything(database: Path) -> None:
    """With `python -u`, which containers set, a reader that leaves is noticed, too."""
    query = "SELECT repeat('x', 99) FROM range(99_999)"
    unbuffered = [sys.executable, "-Ium", "tracedb", "sql", str(database), query]
    with subprocess.Popen(  # noqa: S603 (our own program)
        [*unbuffered, "--format", "csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        process.stdout.close()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(timeout=60)) == (b"", 141)


def test_out_of_memory_is_one_line(database: Path) -> None:
    """A result that does not fit gives one line, whichever library notices it."""
    resource = pytest.importorskip("resource")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1_500_000_000, 1_500_000_000))

    query = "SELECT range, repeat('x', 100) || range FROM range(100000000)"
    for _ in range(4):
        process = start("sql", database, query, "--format", "csv", preexec_fn=limit)
        reported = process.communicate()[1]
        assert "emory" in reported
        assert "Traceback" not in reported
        # Sometimes polars' allocator notices, which aborts the process.
        if process.returncode != -signal.SIGABRT:
            break
    assert process.returncode == 2
    assert reported.count("\n") == 1
