"""A lake gives the same rows as a database of the same files, whoever wrote it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import sleep

import duckdb
import pytest
from click.testing import CliRunner
from lakes import Here, needs_spark
from support import (
    CORPUS,
    SAMPLES,
    Ingested,
    needs_corpus,
    sampled,
    write_generated,
)

import tracedb
import tracedb.ingest
from tracedb import catalog, lake
from tracedb.cli.main import tracedb as command
from tracedb.lake import local, manifest, packing, storage
from tracedb.lake.place import partition
from tracedb.lake.worker import Outcome, Task, kept

RANKS = SAMPLES / "generated_gpu"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of two ranks, written by two processes."""
    root = tmp_path_factory.mktemp("lake")
    assert lake.ingest([RANKS], root, lake.Local(2))["new"] == 2
    return root


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A folder of two small traces."""
    folder = tmp_path / "job"
    folder.mkdir()
    write_generated(folder, [0, 1])
    return folder


@pytest.fixture
def no_rows_above_raw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ingests stop at the raw layer: for tests of files rather than of results."""
    whole = tracedb.ingest.ingest
    monkeypatch.setattr(tracedb.ingest, "ingest", partial(whole, until="raw"))


def contents(root: Path) -> dict[str, str]:
    """The partitions' files, with digests."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.glob("run=*/**/*.parquet")
    }


def sources(root: Path) -> list[str]:
    """The names of files that are in a lake."""
    return [Path(entry.source).name for entry in lake.Manifest(root).entries()]


def stored(database: tracedb.Database) -> dict[str, list[str]]:
    """The rows of all tables; floats to nine digits."""
    found = {}
    for relation in catalog.relations():
        if relation.kind == "TABLE" and relation.full_name != "raw.database":
            rows = database.connection.execute(f"FROM {relation.full_name}").fetchall()
            texts = (str([short(value) for value in row]) for row in rows)
            found[relation.full_name] = sorted(texts)
    return found


def short(value: object) -> object:
    """A value without the digits that depend on the order of a sum."""
    return f"{value:.9g}" if isinstance(value, float) else value


@pytest.fixture
def as_in_a_lake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ingests number events as a lake does, if they come first."""
    number = "(SELECT coalesce(max(trace_id) + 1, 1) FROM raw.trace)"
    query = f"SELECT {number} * {manifest.EVENTS} + 1 + 0 * ?"
    loading = sys.modules["tracedb.ingest.load"]
    monkeypatch.setattr(loading, "_NUMBERING", {"kineto": query, "et": query})


@pytest.mark.usefixtures("as_in_a_lake")
@pytest.mark.parametrize("ranks", [[0], [0, 1]])
def test_a_lake_equals_a_database(fleet: Path, ranks: list[int]) -> None:
    """Tables of one rank, and of several, have the rows of an ingest."""
    paths = [RANKS / f"rank{rank}.kineto.json.gz" for rank in ranks]
    place = fleet / "run=generated_gpu" / ("rank=0" if len(ranks) == 1 else "")
    with tracedb.open() as whole, tracedb.open(place) as read:
        whole.ingest(paths, run="generated_gpu")
        assert read.info().equals(whole.info())
        expected, found = stored(whole), stored(read)
        assert {
            name: found[name] for name in found if found[name] != expected[name]
        } == {}


def test_large_relations_have_their_own_files(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rows are the same as in shared files."""
    monkeypatch.setattr(packing, "MOST_ROWS", 300)
    lake.ingest([RANKS / "rank0.kineto.json.gz"], tmp_path / "lake", Here())
    files = {name.split("/")[3] for name in contents(tmp_path / "lake")}
    assert {"small.parquet", "fleet.parquet", "raw.event.parquet"} < files
    assert len(files) < 40
    place = "run=generated_gpu/rank=0"
    with (
        tracedb.open(tmp_path / "lake" / place) as found,
        tracedb.open(fleet / place) as expected,
    ):
        assert stored(found) == stored(expected)


def test_rows_are_sorted_by_key(fleet: Path) -> None:
    """They are so in shared files too, where each relation has its own columns."""
    names = {packing.column_of(one.full_name): one for one in kept()}
    assert len(names) == len(kept())
    path = next(fleet.glob("run=*/rank=*/trace=*/small.parquet"))
    with duckdb.connect() as connection:
        found = connection.sql(f"FROM {packing.files([path])}")
        (row,) = found.pl().rows(named=True)
    assert len(row) > 50
    for column, rows in row.items():
        keys = [tuple(one[name] for name in names[column].key) for one in rows]
        assert keys == sorted(keys, key=lambda key: [(v is None, v) for v in key])


@pytest.mark.usefixtures("no_rows_above_raw")
def test_a_lake_of_another_version_is_refused(traces: Path, tmp_path: Path) -> None:
    """One line, until its files are ingested again: entries had other fields."""
    root = tmp_path / "lake"
    lake.ingest([traces / "0.json"], root, Here())
    (path,) = (root / "_manifest").glob("?" * 64 + ".json")
    said = json.loads(path.read_text())
    said |= {"relations": ["raw.event"], "fingerprint": "of another"}
    del said["files"]
    path.write_text(json.dumps(said))
    for words in (["summary", str(root)], ["lake", "ask", str(root), "period"]):
        done = CliRunner().invoke(command, words)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        assert "written by another version of tracedb; ingest them again" in done.stderr
    assert lake.ingest([traces], root, Here()) == {"new": 2}
    assert all(entry.files for entry in lake.Manifest(root).entries())


def test_commands_take_a_lake(fleet: Path) -> None:
    """Commands read a lake, or one of its ranks, like a database, without changes."""
    rank = f"{fleet}/run=generated_*/rank=1"
    for words in (
        ["summary", rank],
        ["ask", rank, "idle_share"],
        ["sql", rank, "SELECT count(*) FROM staging.step"],
        ["critical-path", rank],
    ):
        done = CliRunner().invoke(command, words)
        assert done.exit_code == 0, done.stderr
    for words in (
        ["ingest", str(RANKS), "--db", str(fleet)],
        ["kernels", "apply", rank],
        ["sql", rank, "SELECT * FROM read_parquet('/etc/passwd')"],
    ):
        done = CliRunner().invoke(command, words)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
    assert lake.Manifest(fleet).failures() == []


def test_what_a_lake_lacks_is_reported(fleet: Path, tmp_path: Path) -> None:
    """The error lists what there is; a folder of other files does not become a lake."""
    with pytest.raises(tracedb.LakeError, match="the runs are generated_gpu"):
        tracedb.open(fleet / "run=other")
    with pytest.raises(tracedb.LakeError, match="the ranks of that run are 0, 1"):
        tracedb.open(fleet / "run=generated_gpu" / "rank=7")
    (tmp_path / "mine").write_text("")
    with pytest.raises(tracedb.LakeError, match="a folder with other files"):
        lake.ingest([RANKS], tmp_path, Here())
    with pytest.raises(tracedb.LakeError, match="a lake needs file paths"):
        lake.ingest(["-"], tmp_path / "new", Here())
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("no_rows_above_raw")
def test_ingesting_again_does_nothing(traces: Path, tmp_path: Path) -> None:
    """The same file or its copy is not ingested again; a changed one replaces it."""
    root = tmp_path / "lake"
    assert lake.ingest([traces], root, Here())["new"] == 2
    before = contents(root)
    shutil.copy(traces / "0.json", tmp_path / "copy.json")
    assert lake.ingest([traces, tmp_path / "copy.json"], root, Here()) == {"known": 3}
    assert contents(root) == before
    shutil.copy(traces / "1.json", tmp_path / "spare.json")
    write_generated(tmp_path, [2])
    (tmp_path / "2.json").rename(traces / "1.json")
    assert lake.ingest([traces], root, Here()) == {"known": 1, "new": 1}
    lake.Manifest(root).tidy()
    assert len(lake.Manifest(root).entries()) == 2
    assert sources(root) == ["0.json", "1.json"]
    folders = {path.split("/")[2] for path in contents(root)}
    assert {name.split("-")[0] for name in folders} == {"trace=1", "trace=2"}
    assert len(folders) == 2
    # Its former content may be ingested again, from another file.
    again = lake.ingest([tmp_path / "spare.json"], root, Here())
    assert again == {"new": 1}


@pytest.mark.usefixtures("no_rows_above_raw")
def test_other_options_make_another_partition(traces: Path, tmp_path: Path) -> None:
    """Rows depend on the mark of steps, so nobody gets those of another mark."""
    root, file = tmp_path / "lake", traces / "0.json"
    assert lake.ingest([file], root, Here()) == {"new": 1}
    first = set(contents(root))
    assert lake.ingest([file], root, Here(), step_from="batch.*") == {"new": 1}
    assert lake.ingest([file], root, Here(), step_from="batch.*") == {"known": 1}
    lake.Manifest(root).tidy()
    assert not first & set(contents(root))
    assert lake.ingest([file], root, Here()) == {"new": 1}
    lake.Manifest(root).tidy()
    assert set(contents(root)) == first


@pytest.mark.usefixtures("no_rows_above_raw")
def test_a_lake_may_lie_among_the_traces(traces: Path) -> None:
    """The lake's own files are not ingested; the run of known content is reported."""
    root = traces / "lake"
    assert lake.ingest([traces], root, Here()) == {"new": 2}
    assert lake.ingest([traces], root, Here()) == {"known": 2}
    reported: list[str] = []
    lake.ingest([traces], root, Here(), run="other", progress=reported.append)
    assert all("it is in run job" in line for line in reported)


@pytest.mark.usefixtures("no_rows_above_raw")
def test_lost_or_damaged_files_are_written_again(traces: Path, tmp_path: Path) -> None:
    """For example after an aborted copy: the message says what to do, and it works."""
    root, copy = tmp_path / "lake", tmp_path / "copy"
    lake.ingest([traces / "0.json"], root, Here())
    shutil.copytree(root, copy)
    (file,) = copy.glob("run=*/*/*/small.parquet")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(tracedb.LakeError, match=r"small\.parquet'?: damaged; delete"):
        tracedb.open(copy)
    file.unlink()
    missing = f"^{re.escape(str(file))}: missing from the lake; ingest its trace again$"
    with pytest.raises(tracedb.LakeError, match=missing):
        tracedb.open(copy)
    assert lake.ingest([traces / "0.json"], copy, Here()) == {"new": 1}
    assert contents(copy) == contents(root)
    with tracedb.open(copy) as db:
        assert db.sql("FROM raw.event").height


@pytest.mark.usefixtures("no_rows_above_raw")
def test_a_content_that_moves_is_not_lost(traces: Path, tmp_path: Path) -> None:
    """One file gets another's content while that one gets new content."""
    root = tmp_path / "lake"
    lake.ingest([traces], root, Here())
    write_generated(tmp_path, [2])
    (traces / "0.json").rename(traces / "1.json")
    (tmp_path / "2.json").rename(traces / "0.json")
    lake.ingest([traces], root, Here())
    assert sources(root) == ["0.json", "1.json"]


@pytest.mark.usefixtures("no_rows_above_raw")
def test_a_failing_file_does_not_stop_others(traces: Path, tmp_path: Path) -> None:
    """It is listed with the reason until it is repaired."""
    root = tmp_path / "lake"
    (traces / "2.json").write_text('{"traceEvents": [')
    (traces / "notes.json").write_text('{"a": 1}')
    words = ["lake", "ingest", str(traces), "--lake", str(root), "--workers", "1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lake, "Local", lambda _workers: Here())
        done = CliRunner().invoke(command, words)
    assert done.exit_code == 3
    assert "2 new, 0 known, 1 skipped, 1 failed" in done.stderr
    done = CliRunner().invoke(command, ["lake", "info", str(root), "--format", "csv"])
    assert done.exit_code == 3
    listed = done.stdout.splitlines()
    assert len(listed) == 4
    assert "2.json,the file ends" in listed[3] or "2.json," in listed[3]
    shutil.copy(traces / "1.json", tmp_path / "whole.json")
    write_generated(tmp_path, [3])
    (tmp_path / "3.json").rename(traces / "2.json")
    assert lake.ingest([traces], root, Here())["new"] == 1
    assert lake.Manifest(root).failures() == []
    # A removed file is no failure once its place was looked at.
    (traces / "4.json").write_text('{"traceEvents": [')
    assert lake.ingest([traces], root, Here())["failed"] == 1
    (traces / "4.json").unlink()
    lake.ingest([traces / "0.json"], root, Here())
    assert len(lake.Manifest(root).failures()) == 1
    lake.ingest([traces], root, Here())
    assert lake.Manifest(root).failures() == []


NAMES = [
    "../../up",
    "/",
    ".",
    "..",
    "a=b",
    "a*?[x]",
    "über\n'\"",
    "__HIVE_DEFAULT_PARTITION__",
]


@pytest.mark.usefixtures("no_rows_above_raw")
def test_run_names_are_escaped(traces: Path, tmp_path: Path) -> None:
    """A run of any name is one folder in the lake, and found by its name."""
    root = tmp_path / "lake"
    lake.ingest([traces / "0.json"], root, Here(), run=NAMES[0])
    assert {path.name for path in tmp_path.iterdir()} == {"job", "lake"}
    (row,) = root.glob("run=*/rank=*/trace=*/small.parquet")
    for name in NAMES:
        path = root / partition(name, None, "1") / row.name
        path.parent.mkdir(parents=True)
        shutil.copy(row, path)
    assert len(list(root.glob("run=*"))) == len(NAMES)
    read = duckdb.execute(
        f"SELECT DISTINCT run FROM read_parquet('{root}/run=*/*/*/small.parquet', "
        "hive_types = {'run': VARCHAR})"
    )
    assert {run for (run,) in read.fetchall()} == {*NAMES}
    place = lake.find_place(
        str(root / partition(NAMES[0], None, "1")).rpartition("/")[0]
    )
    assert place is not None
    assert place.has(NAMES[0], None)
    assert not place.has(NAMES[1], None)
    with pytest.raises(tracedb.LakeError, match="too long"):
        lake.ingest([traces], root, Here(), run="long" * 60)


@pytest.mark.usefixtures("no_rows_above_raw")
def test_folders_of_the_same_name_are_two_runs(tmp_path: Path) -> None:
    """The second one gets a longer name; both keep theirs when ingested again."""
    root = tmp_path / "lake"
    for job in ("a", "b"):
        (tmp_path / job / "profile").mkdir(parents=True)
        write_generated(tmp_path / job / "profile", [ord(job)])
    for _ in range(2):
        lake.ingest([tmp_path / "a", tmp_path / "b"], root, Here())
        runs = [entry.run for entry in lake.Manifest(root).entries()]
        assert runs == ["profile", "b/profile"]


class KilledError(BaseException):
    """Stands for a kill: only the operating system cleans up."""


@pytest.mark.usefixtures("no_rows_above_raw")
@pytest.mark.parametrize("moment", ["half", "whole"])
def test_incomplete_writes_are_never_read(
    traces: Path, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition counts once it is in the manifest; the next writer cleans up."""
    root = tmp_path / "lake"
    lake.ingest([traces / "0.json"], root, Here())

    def die(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        if moment == "half":
            patch.setattr(storage.Folder, "put", die)
        else:
            patch.setattr(lake.Manifest, "commit", die)
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(KilledError):
            lake.ingest([traces], root, Here())
    assert sources(root) == ["0.json"]
    assert list((root / "_attempts").iterdir())
    assert lake.ingest([traces], root, Here()) == {"known": 1, "new": 1}
    assert list((root / "_attempts").iterdir()) == []
    folders = {path.split("/")[2] for path in contents(root)}
    assert len(folders) == 2


@pytest.mark.usefixtures("no_rows_above_raw")
def test_two_concurrent_writers(traces: Path, tmp_path: Path) -> None:
    """Both write the same files; each lands once, and none removes the other's."""
    root = tmp_path / "lake"

    class Both(Here):
        """Lets another writer run after its first file."""

        def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
            outcomes = super().run(tasks)
            yield next(outcomes)
            lake.ingest([traces], root, Here())
            yield from outcomes

    lake.ingest([traces], root, Both())
    assert sources(root) == ["0.json", "1.json"]
    assert len({path.split("/")[2] for path in contents(root)}) == 2


def killing(root: Path, after: str) -> threading.Thread:
    """Kill the first worker process as soon as it has written a file."""

    def kill() -> None:
        while True:
            for path in root.glob(f"_attempts/*/*/{after}"):
                for found in Path("/proc").glob("[0-9]*/fd/*"):
                    with suppress(OSError):
                        if found.readlink() == path:
                            os.kill(int(found.parts[2]), signal.SIGKILL)
                            return
            sleep(0.01)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


def test_a_killed_worker_loses_and_duplicates_nothing(
    fleet: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Another worker ingests its file, with the same bytes.

    Workers leave nothing behind.
    """
    root = tmp_path / "lake"
    killer = killing(root, "trace.duckdb")
    assert (
        lake.ingest([RANKS / "rank0.kineto.json.gz"], root, lake.Local(1))["new"] == 1
    )
    killer.join(0)
    assert not killer.is_alive()
    assert contents(root).items() <= contents(fleet).items()
    assert len(contents(root)) == 2
    assert capfd.readouterr() == ("", "")


def test_an_interrupted_job_blames_no_file(traces: Path, tmp_path: Path) -> None:
    """For example by Ctrl-C, and also with a file name that is not UTF-8."""
    (traces / "0.json").rename(traces / os.fsdecode(b"od\nd \xff.json"))
    (traces / "a.json").write_text('{"traceEvents": [')

    def stop(line: str) -> None:
        assert "a.json: failed" in line
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lake.ingest([traces], tmp_path / "lake", lake.Local(3), progress=stop)
    failures = lake.Manifest(tmp_path / "lake").failures()
    assert [Path(failure.source).name for failure in failures] == ["a.json"]


def test_a_file_that_kills_workers_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is retried, then reported with how the workers ended."""
    kill = "import os, sys; sys.stdin.readline(); os.kill(os.getpid(), 9)"
    monkeypatch.setattr(local, "_COMMAND", (sys.executable, "-c", kill))
    root = tmp_path / "lake"
    assert lake.ingest([RANKS / "rank0.kineto.json.gz"], root, lake.Local(1)) == {
        "failed": 1
    }
    (failure,) = lake.Manifest(root).failures()
    assert "ended 3 times (signal 9)" in failure.detail


@needs_spark
@pytest.mark.parametrize("master", sampled(["local[2]", "local-cluster[2,1,1024]"], 1))
def test_spark_writes_the_same_bytes(fleet: Path, tmp_path: Path, master: str) -> None:
    """Also if a worker is killed: Spark retries its task.

    In one process, and in a cluster of two executors, each in its own Java process.
    """
    root = tmp_path / "lake"
    killer = killing(root, "trace.duckdb")
    assert lake.ingest([RANKS], root, lake.Spark(master))["new"] == 2
    killer.join(0)
    assert not killer.is_alive()
    assert contents(root) == contents(fleet)


def test_missing_parts_of_spark_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without PySpark or Java, the error says how to get it, before any work."""
    words = ["lake", "ingest", str(RANKS), "--lake", "x", "--runner", "spark"]
    monkeypatch.setitem(sys.modules, "pyspark", None)
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 2
    assert done.stderr.endswith("pip install 'tracedb[spark]'\n")
    assert done.stderr.count("\n") == 1
    monkeypatch.setitem(sys.modules, "pyspark", sys)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 2
    assert done.stderr.startswith("tracedb: error: Spark needs Java 17 or later")


@needs_corpus
def test_stragglers_of_a_lake_equal_those_of_a_database(
    ingested: Ingested, tmp_path: Path
) -> None:
    """The ranks of the job are logs of operations."""
    path = CORPUS / "stragglers" / "trace-ST.parquet"
    root = tmp_path / "lake"
    lake.ingest([path], root, Here(), run=path.name)
    with (
        tracedb.open(ingested(path), read_only=True) as one,
        tracedb.open(root) as other,
    ):
        for question in ("straggler_slowdown", "straggler_recovery"):
            expected, found = one.ask(question), other.ask(question)
            assert expected.height > 0
            assert found.equals(expected)
