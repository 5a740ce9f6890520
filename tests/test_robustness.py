"""Kills, full disks, two writers, odd paths: whole traces or one clear line.

Run as a program, this file is a fork server for the kill test: one process with all
imports, which forks a child for each ingest to be killed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest
from support import SAMPLES, Amount, assert_nothing_written, ingests_until, rows

import tracedb
from tracedb import catalog

FOLDERS = 3
NEW_DATABASE_EACH = 2
KILLED_UNTIL = "graph"
"""The last layer that killed ingests compute: all layers are in one transaction."""
SAMPLE = SAMPLES / "generated_gpu" / "rank0.kineto.json.gz"

Counts = dict[str, dict[str, int]]


def write_trace(path: Path, number: int) -> Path:
    """A small trace of a step with ops, launches and kernels."""

    def slice_(cat: str, name: str, ts: int, **args: object) -> dict[str, object]:
        lane = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
        fields = {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": 8}
        return {**fields, **lane, "args": args}

    events = [slice_("user_annotation", "ProfilerStep#1", 0) | {"dur": 1_000}]
    for op in range(30 + number):
        begin, link = 10 + 20 * op, {"correlation": op, "External id": op}
        events += [
            slice_("cpu_op", "aten::mm", begin, **{"External id": op}),
            slice_("cuda_runtime", "cudaLaunchKernel", begin + 1, **link) | {"dur": 2},
            slice_("kernel", "gemm", begin + 5, **link, stream=7, device=0),
        ]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"traceEvents": events, "number": number}))
    return path


# ---- Kills


def nurse() -> None:
    """Fork a child for each requested ingest, and report how it ended."""
    catalog.relations()
    while line := sys.stdin.readline():
        database, folder = json.loads(line)
        child = os.fork()
        if not child:
            _ingest_and_exit(database, folder)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        # The id is the child's until it is reaped, which is after the kill.
        sys.stdin.readline()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _ingest_and_exit(database: str, folder: str) -> None:
    code = 1
    try:
        with tracedb.open(database) as opened, ingests_until(KILLED_UNTIL):
            opened.ingest([folder])
        code = 0
    finally:
        os._exit(code)


class Nursery:
    """Children that ingest and are killed after a while."""

    def __init__(self) -> None:
        """Start the fork server."""
        self._process = subprocess.Popen(  # noqa: S603 (our own program)
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _tell(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _hear(self) -> int:
        assert self._process.stdout
        return int(self._process.stdout.readline())

    def ingest(self, database: Path, folder: Path, seconds: float | None) -> int:
        """Start an ingest, kill it after some seconds, and return its exit code."""
        self._tell(json.dumps([str(database), str(folder)]))
        child = self._hear()
        if seconds is not None:
            sleep(seconds)
            os.kill(child, signal.SIGKILL)
        self._tell("wait")
        return self._hear()

    def close(self) -> None:
        """Stop the fork server."""
        self._process.communicate()


def counts(database: tracedb.Database) -> Counts:
    """Rows of each relation by trace; rows of unknown traces under `?`."""
    tables = rows(
        database,
        """
        SELECT schema_name || '.' || table_name FROM duckdb_columns()
        INNER JOIN duckdb_tables() USING (schema_name, table_name)
        WHERE column_name = 'trace_id' ORDER BY ALL
        """,
    )
    found: Counts = {}
    query = " UNION ALL ".join(
        f"SELECT '{name}', coalesce(parse_filename(known.path), '?'), count(*) "
        f"FROM {name} AS t LEFT JOIN raw.trace AS known USING (trace_id) GROUP BY ALL"
        if name != "raw.trace"
        else f"SELECT '{name}', parse_filename(path), event_count FROM {name}"
        for (name,) in tables
    )
    for name, path, count in rows(database, query):
        found.setdefault(path, {})[name] = count
    return found


def is_consistent(found: Counts, expected: Counts) -> bool:
    """Whether all traces in the database equal those of an undisturbed ingest."""
    return all(found[path] == expected.get(path) for path in found)


def _killed_after(kill: int, seconds: float) -> float:
    """Half of the kills at any time, the others around commit and checkpoint."""
    rng = random.Random(kill)  # noqa: S311 (repeatable, no secret)
    first, last = (0.0, 1.0) if kill % 2 else (0.75, 1.1)
    return seconds * rng.uniform(first, last)


def test_a_killed_ingest_leaves_whole_traces(tmp_path: Path, amount: Amount) -> None:
    """After a kill at any moment, the database opens with whole traces only."""
    kills = amount(12, 24)
    folders = [tmp_path / str(number) for number in range(FOLDERS)]
    for number in range(2 * FOLDERS):
        write_trace(folders[number // 2] / f"{number}.json", number)
    with tracedb.open() as undisturbed, ingests_until(KILLED_UNTIL):
        undisturbed.ingest(folders)
        expected = counts(undisturbed)
    nursery = Nursery()
    begun = monotonic()
    assert nursery.ingest(tmp_path / "first.duckdb", folders[0], None) == 0
    seconds = monotonic() - begun
    path, killed, checked = tmp_path / "run.duckdb", 0, 0
    for kill in range(kills):
        if kill % NEW_DATABASE_EACH == 0:
            _remove(path)
        folder = folders[kill % FOLDERS]
        after = _killed_after(kill, seconds)
        is_killed = nursery.ingest(path, folder, after) == -signal.SIGKILL
        # The machine may have been busy while the first ingest was timed.
        seconds *= 1 if is_killed else 0.7
        killed += is_killed
        checked += _check(path, expected, read_only=kill % 2 == 0)
    for folder in folders:
        assert nursery.ingest(path, folder, None) == 0
    nursery.close()
    assert killed > kills // 2
    assert checked > kills // 4
    with tracedb.open(path, read_only=True) as database:
        assert counts(database) == expected


def _remove(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def _check(path: Path, expected: Counts, *, read_only: bool) -> bool:
    """Open the database after a kill; False if there is none yet."""
    try:
        with tracedb.open(path, read_only=read_only) as database:
            found = counts(database)
    except tracedb.DatabaseError as error:
        message = str(error)
    else:
        assert is_consistent(found, expected), found
        return True
    # A new database is empty until its relations are committed.
    assert read_only
    assert "empty" in message or "no such database" in message
    return False


# ---- Two processes, one database

HOLDER = """
import sys, tracedb
path, read_only = sys.argv[1], sys.argv[2] == "reader"
with tracedb.open(path, read_only=read_only) as database:
    print(database.sql("SELECT count(*) FROM raw.trace").item(), flush=True)
    sys.stdin.readline()
    print(database.sql("SELECT count(*) FROM raw.trace").item(), flush=True)
"""


@contextmanager
def held(path: Path, kind: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the database open, as `reader` or `writer`."""
    process = subprocess.Popen(  # noqa: S603 (our own program)
        [sys.executable, "-c", HOLDER, str(path), kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        process.stdout.readline()
        yield process
    finally:
        if process.poll() is None:
            process.communicate("\n")


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    """Start the command line."""
    return subprocess.Popen(  # noqa: S603 (our own program)
        [sys.executable, "-m", "tracedb", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "500"},
    )


def is_clear(text: str, *named: Path) -> bool:
    """Whether the message is one line with these paths."""
    line = text.strip()
    return line.isprintable() and all(str(path) in line for path in named)


@pytest.fixture(scope="module")
def one_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with one trace, to be copied."""
    folder = tmp_path_factory.mktemp("filled")
    path = folder / "run.duckdb"
    with tracedb.open(path) as database:
        database.ingest([write_trace(folder / "old.json", 1)])
    return path


@pytest.fixture
def filled(tmp_path: Path, one_trace: Path) -> Path:
    """A database file with one trace."""
    return Path(shutil.copy(one_trace, tmp_path))


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    """Of two concurrent ingests, each lands whole or says in one line why not."""
    path = tmp_path / "run.duckdb"
    files = [write_trace(tmp_path / f"{n}.json", n) for n in range(2)]
    both = [start("ingest", file, "--db", path) for file in files]
    ends = [(process.communicate()[1], process.returncode) for process in both]
    assert 0 in {code for _, code in ends}
    for file, (reported, code) in zip(files, ends, strict=True):
        assert code in {0, 2}
        if code == 2:
            assert is_clear(reported, path)
            with tracedb.open(path) as database:
                database.ingest([file])
    with tracedb.open(path, read_only=True) as database:
        assert sorted(counts(database)) == ["0.json", "1.json"]


def test_a_database_created_by_another_process_stays(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second writer that saw no database does not remove it."""
    with held(filled, "writer") as process:
        monkeypatch.setattr(Path, "exists", lambda _: False)
        with pytest.raises(tracedb.DatabaseError, match="in use by process"):
            tracedb.open(filled)
        monkeypatch.undo()
        assert filled.exists()
        assert process.communicate("\n")[0].strip() == "1"


@pytest.mark.until("graph")
@pytest.mark.parametrize("holder", ["writer", "reader"])
def test_a_second_writer_is_refused(tmp_path: Path, filled: Path, holder: str) -> None:
    """One line names the database; readers keep what they see."""
    file = write_trace(tmp_path / "new.json", 2)
    with held(filled, holder) as process:
        second = start("ingest", file, "--db", filled)
        reported = second.communicate()[1]
        assert second.returncode == 2
        assert is_clear(reported, filled)
        assert f"in use by process {process.pid}" in reported
        assert "wait until it is done" in reported
        assert process.communicate("\n")[0].strip() == "1"
    with tracedb.open(filled) as database:
        assert database.ingest([file]).height == 1


def test_concurrent_readers(filled: Path) -> None:
    """Any number of processes can read at once."""
    with held(filled, "reader"), tracedb.open(filled, read_only=True) as database:
        assert rows(database, "SELECT count(*) FROM raw.trace") == [(1,)]


def test_a_reader_is_refused_during_a_write(filled: Path) -> None:
    """DuckDB locks the file for one writer, and a later reader is refused.

    The error says what to do; a copy made earlier can be read meanwhile.
    """
    copy = shutil.copy(filled, filled.with_name("copy.duckdb"))
    with held(filled, "writer") as process:
        with pytest.raises(tracedb.DatabaseError) as caught:
            tracedb.open(filled, read_only=True)
        assert is_clear(str(caught.value), filled)
        assert f"in use by process {process.pid}" in str(caught.value)
        assert "query a copy" in str(caught.value)
        with tracedb.open(copy, read_only=True) as database:
            assert rows(database, "SELECT count(*) FROM raw.trace") == [(1,)]


def test_a_reader_and_a_writer_in_one_process(filled: Path) -> None:
    """A file opened for reading cannot be opened for writing: one clear line."""
    with tracedb.open(filled, read_only=True) as reader:
        with pytest.raises(tracedb.DatabaseError) as caught:
            tracedb.open(filled)
        assert is_clear(str(caught.value), filled)
        assert rows(reader, "SELECT count(*) FROM raw.trace") == [(1,)]


# ---- Full disks


@contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """A folder on a file system of the given size; skips if none can be mounted."""
    folder = Path(tempfile.mkdtemp())
    mount = shutil.which("mount") or "mount"
    command = [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        if subprocess.run(command, capture_output=True, check=False).returncode:  # noqa: S603 (our own program)
            pytest.skip("no small file system can be mounted here")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S603, S607
    finally:
        folder.rmdir()


@pytest.mark.parametrize("size", ["200k", "700k", "1200k"])
def test_a_full_disk_under_a_new_database(size: str) -> None:
    """One clear line, and no file is left."""
    with small_disk(size) as folder:
        path = folder / "run.duckdb"
        with (
            pytest.raises(tracedb.TracedbError) as caught,
            tracedb.open(path) as database,
        ):
            database.ingest([SAMPLE])
        assert is_clear(str(caught.value), path)
        assert_nothing_written(folder)


def test_a_full_disk_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    """One clear line; earlier traces are readable, and ingest works given space."""
    file = write_trace(tmp_path / "small.json", 1)
    with small_disk("24m") as folder:
        path = folder / "run.duckdb"
        with tracedb.open(path) as database:
            database.ingest([file])
            before = counts(database)
        ballast = folder / "ballast"
        _fill(ballast, free=300_000)
        with (
            pytest.raises(tracedb.TracedbError) as caught,
            tracedb.open(path) as database,
        ):
            database.ingest([SAMPLE])
        assert is_clear(str(caught.value), path)
        with tracedb.open(path, read_only=True) as database:
            assert counts(database) == before
        ballast.unlink()
        with tracedb.open(path) as database:
            assert database.ingest([SAMPLE]).height == 1


def _fill(path: Path, free: int) -> None:
    space = shutil.disk_usage(path.parent).free
    path.write_bytes(bytes(space - free))


LIMITED = """
import resource, sys, tracedb
path, file, limit = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
try:
    with tracedb.open(path) as database:
        database.ingest([file])
except tracedb.TracedbError as error:
    print(error)
    sys.exit(2)
"""


def test_a_limit_on_file_size_is_a_clear_error(filled: Path) -> None:
    """A limit on file size acts like a full disk: one line, no change."""
    with tracedb.open(filled, read_only=True) as database:
        before = counts(database)
    done = subprocess.run(  # noqa: S603 (our own program)
        [sys.executable, "-c", LIMITED, str(filled), str(SAMPLE), "100000"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert is_clear(done.stdout, filled)
    with tracedb.open(filled) as database:
        assert counts(database) == before


# ---- Odd paths


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Interrupt a hanging test."""

    def interrupt(_number: int, _frame: object) -> None:
        raise TimeoutError(f"still running after {seconds} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def unprivileged() -> Iterator[Path]:
    """An accessible folder, and no privileges even if root runs the tests."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o777)
        shutil.rmtree(folder)


def _closed_file(folder: Path) -> Path:
    path = write_trace(folder / "a.json", 1)
    path.chmod(0)
    return path


def _closed_folder(folder: Path) -> Path:
    path = write_trace(folder / "closed" / "a.json", 1).parent
    path.chmod(0)
    return path


def _in_closed_folder(folder: Path) -> Path:
    return _closed_folder(folder) / "a.json"


def _beside_closed_file(folder: Path) -> Path:
    write_trace(folder / "mixed" / "b.json", 1)
    return _closed_file(folder / "mixed")


@pytest.mark.parametrize(
    "make",
    [
        _closed_file,
        _closed_folder,
        _in_closed_folder,
        _beside_closed_file,
    ],
)
def test_unreadable_paths(
    database: tracedb.Database, make: Callable[[Path], Path]
) -> None:
    """One line names a file or folder without permission."""
    with unprivileged() as folder:
        path = make(folder)
        with pytest.raises(tracedb.IngestError) as caught:
            database.ingest([path])
        assert is_clear(str(caught.value), path)
        assert "ermission" in str(caught.value)


def _fifo(folder: Path) -> Path:
    path = folder / "pipe.json"
    os.mkfifo(path)
    return path


def _dangling(folder: Path) -> Path:
    path = folder / "link.json"
    path.symlink_to(folder / "nowhere.json")
    return path


def _loop(folder: Path) -> Path:
    path = folder / "loop.json"
    path.symlink_to(path)
    return path


def _null(_folder: Path) -> Path:
    return Path("/dev/null")


def _endless(_folder: Path) -> Path:
    return Path("/dev/zero")


def _long(folder: Path) -> Path:
    return folder / ("a" * 300 + ".json")


ODD = [_fifo, _dangling, _loop, _null, _endless, _long]


@pytest.mark.parametrize("make", ODD)
def test_odd_paths_are_refused_without_waiting(
    tmp_path: Path, database: tracedb.Database, make: Callable[[Path], Path]
) -> None:
    """A pipe without a writer, a device, a dangling link: one line at once."""
    path = make(tmp_path)
    with pytest.raises(tracedb.IngestError) as caught, within(10):
        database.ingest([path])
    assert is_clear(str(caught.value), path)


@pytest.mark.until("staging")
@pytest.mark.parametrize("make", [_fifo, _dangling, _loop])
def test_odd_paths_in_a_folder_are_skipped(
    tmp_path: Path, database: tracedb.Database, make: Callable[[Path], Path]
) -> None:
    """They are skipped beside a trace, and nothing waits."""
    path = make(tmp_path)
    write_trace(tmp_path / "a.json", 1)
    with within(10):
        assert database.ingest([tmp_path]).height == 1
    assert path.is_symlink() or path.is_fifo()


@pytest.mark.until("staging")
def test_a_folder_named_like_a_trace_is_a_folder(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """A folder that ends in .json is searched, not read."""
    write_trace(tmp_path / "traces.json" / "a.json", 1)
    assert database.ingest([tmp_path]).height == 1


@pytest.mark.until("staging")
@pytest.mark.parametrize("name", ["a\nb.json", "a\x1b[31m.json", "a'; --\".json"])
def test_hostile_file_names_stay_in_one_line(
    tmp_path: Path, database: tracedb.Database, name: str
) -> None:
    """A line feed or an escape in a file name does not break the message."""
    path = tmp_path / name
    path.write_text("no trace")
    with pytest.raises(tracedb.IngestError) as caught:
        database.ingest([path])
    assert str(caught.value).isprintable()
    path.write_text('[{"ph": "X", "name": "a", "ts": 1}]')
    assert database.ingest([path]).height == 1


def test_a_database_path_that_cannot_be_created(tmp_path: Path) -> None:
    """A folder as the database, or a path below a file: one clear line."""
    file = tmp_path / "file"
    file.touch()
    for path, named in ((file / "run.duckdb", file), (tmp_path, tmp_path)):
        with pytest.raises(tracedb.DatabaseError) as caught:
            tracedb.open(path)
        assert is_clear(str(caught.value), named)


if __name__ == "__main__":
    nurse()
