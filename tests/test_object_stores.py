"""Lakes and traces in object stores behave like in folders (S3 by moto)."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from lakes import Here, needs_spark
from support import SAMPLES, write_generated

import tracedb
import tracedb.ingest
from tracedb import lake, remote
from tracedb.cli.main import tracedb as command
from tracedb.lake import packing, storage

RANK = SAMPLES / "generated_gpu" / "rank0.kineto.json.gz"

needs_s3 = pytest.mark.skipif(
    not all(map(find_spec, ("moto", "s3fs", "flask", "flask_cors"))),
    reason="s3fs, or moto's server, is absent",
)


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """A local S3, with its address in the environment."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "AWS_ENDPOINT_URL", "http://{}:{}".format(*server.get_host_and_port())
        )
        patch.setenv("AWS_ACCESS_KEY_ID", "id")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield "s3"
    server.stop()


@pytest.fixture
def bucket(s3: str, request: pytest.FixtureRequest) -> str:
    """An empty bucket."""
    name = hashlib.sha256(request.node.name.encode()).hexdigest()[:20]
    files(s3).mkdir(name)
    return f"{s3}://{name}"


def files(uri: str) -> Any:  # noqa: ANN401 (fsspec has no types)
    """The contents of a store, by fsspec."""
    return remote.opened(f"{uri}://x" if "://" not in uri else uri, tracedb.LakeError)[
        0
    ]


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A folder of two small traces."""
    write_generated(tmp_path / "job", [0, 1])
    return tmp_path / "job"


@pytest.fixture
def no_rows_above_raw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ingests stop at the raw layer: for tests of files rather than of results."""
    whole = tracedb.ingest.ingest
    monkeypatch.setattr(tracedb.ingest, "ingest", partial(whole, until="raw"))


def contents(uri: str) -> dict[str, str]:
    """The partitions' files with digests, without the job's name."""
    fs, root = remote.opened(uri, tracedb.LakeError)
    found = {}
    for path in fs.glob(f"{root}/run=*/rank=*/trace=*/*.parquet"):
        folder, _, name = path.removeprefix(f"{root}/").rpartition("/")
        digest = hashlib.sha256(fs.cat_file(path)).hexdigest()
        found[f"{folder.rpartition('-')[0]}/{name}"] = digest
    return found


def invoked(*words: str) -> Result:
    """The output of a command; one line if it fails."""
    done = CliRunner().invoke(command, words)
    if done.exit_code == 2:
        assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    return done


@needs_s3
def test_a_lake_in_a_store_equals_one_in_a_folder(bucket: str, tmp_path: Path) -> None:
    """Written by another process from a trace in a store: same bytes, rows, answers."""
    name = "run 1/ä%b"
    uri, folder = f"{bucket}/some/lake", tmp_path / "lake"
    files(bucket).put_file(str(RANK), f"{bucket}/traces/{RANK.name}")
    words = ("--workers", "1", "--run", name)
    done = invoked("lake", "ingest", f"{bucket}/traces", "--lake", uri, *words)
    assert done.exit_code == 0, done.stderr
    lake.ingest([RANK], folder, Here(), run=name)
    here = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.glob("run=*/**/*.parquet")
    }
    there = contents(uri)
    named = {path for path in here if path.endswith(packing.SMALL)}
    assert len(here) == len(there) == 2
    assert {p for p in here if here[p] != there[p]} == named, "it has the URI"
    assert files(bucket).glob(f"{uri}/_attempts/*") == []
    with tracedb.open(f"{uri}/run=run*/rank=0") as one, tracedb.open(folder) as other:
        assert one.ask("idle_share").equals(other.ask("idle_share"))
    far, near = (lake.place_of(str(root)) for root in (uri, folder))
    for question in ("period", "straggler"):
        assert lake.ask(far, question).equals(lake.ask(near, question))
    (listed,) = lake.info(far).rows(named=True)
    assert listed["path"] == f"{bucket}/traces/{RANK.name}"
    assert invoked("summary", uri).exit_code == 0
    told = invoked("summary", f"{uri}/run=other")
    assert f"the runs are {name}" in told.stderr


@needs_s3
@pytest.mark.usefixtures("no_rows_above_raw")
def test_ingesting_again_does_nothing(bucket: str, traces: Path) -> None:
    """A changed file replaces its former partition, which is removed."""
    uri = f"{bucket}/lake"
    assert lake.ingest([traces], uri, Here()) == {"new": 2}
    before = files(bucket).find(bucket)
    assert lake.ingest([traces], uri, Here()) == {"known": 2}
    assert files(bucket).find(bucket) == before
    write_generated(traces, [2])
    (traces / "2.json").rename(traces / "1.json")
    assert lake.ingest([traces], uri, Here()) == {"known": 1, "new": 1}
    assert lake.ingest([traces], uri, Here()) == {"known": 2}
    kept = {path.split("/")[2] for path in contents(uri)}
    assert len(kept) == len(lake.Manifest(uri).entries()) == 2
    assert [entry.number for entry in lake.Manifest(uri).entries()] == [1, 2]


@needs_s3
@pytest.mark.usefixtures("no_rows_above_raw")
def test_traces_of_a_store_go_into_a_database(bucket: str, traces: Path) -> None:
    """By folder, pattern or name, with members of archives; names are URIs."""
    fs = files(bucket)
    fs.put([*map(str, sorted(traces.iterdir()))], [f"{bucket}/job/{n}" for n in "01"])
    for name in "01":
        fs.mv(f"{bucket}/job/{name}", f"{bucket}/job/{name}.json")
    fs.pipe_file(f"{bucket}/job/readme.txt", b"no trace")
    with tracedb.open() as db:
        names = [f"{bucket}/job", f"{bucket}/job/*.json", f"{bucket}/job/0.json"]
        new = db.ingest(names, memory="1GB")
        assert new["path"].to_list() == [f"{bucket}/job/{n}.json" for n in "01"]
        with pytest.raises(tracedb.IngestError, match="no such file or folder"):
            db.ingest(f"{bucket}/job/2.json")
    uri = f"{bucket}/lake"
    fs.pipe_file(f"{bucket}/job/2.json", b'{"traceEvents": [')
    assert lake.ingest([f"{bucket}/job"], uri, Here()) == {"new": 2, "failed": 1}
    (failure,) = lake.Manifest(uri).failures()
    assert (failure.source, failure.run) == (f"{bucket}/job/2.json", "job")


class KilledError(BaseException):
    """Stands for a kill: nothing is cleaned up."""


@needs_s3
@pytest.mark.usefixtures("no_rows_above_raw")
@pytest.mark.parametrize("moment", ["half", "whole", "failed"])
def test_incomplete_uploads_are_never_read(
    bucket: str, traces: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition counts once it is in the manifest; leftovers go after a week."""
    uri = f"{bucket}/lake"
    lake.ingest([traces / "0.json"], uri, Here())

    def die(*_: object) -> None:
        raise KilledError

    def half(here: list[str], there: list[str]) -> None:
        files(bucket).put_file(here[0], there[0])
        raise OSError("no more") if moment == "failed" else KilledError

    with monkeypatch.context() as patch:
        if moment == "whole":
            patch.setattr(lake.Manifest, "commit", die)
        else:
            patch.setattr(files(bucket), "put", half)
        patch.setattr(storage.Objects, "remove", lambda *_: None)
        if moment == "failed":
            assert lake.ingest([traces], uri, Here()) == {"known": 1, "failed": 1}
            (failure,) = lake.Manifest(uri).failures()
            assert failure.detail == f"{uri}: no more"
        else:
            with pytest.raises(KilledError):
                lake.ingest([traces], uri, Here())
    assert len(lake.Manifest(uri).entries()) == 1
    assert lake.ingest([traces], uri, Here()) == {"known": 1, "new": 1}
    assert len(lake.Manifest(uri).entries()) == 2
    assert len(files(bucket).glob(f"{uri}/run=*/rank=*/trace=*")) == 3
    monkeypatch.setattr(storage, "_OVER_S", -60)
    assert lake.ingest([traces], uri, Here()) == {"known": 2}
    left = {path.split("/")[2] for path in contents(uri)}
    assert len(files(bucket).glob(f"{uri}/run=*/rank=*/trace=*")) == len(left) == 2
    assert files(bucket).glob(f"{uri}/_attempts/*") == []


@pytest.fixture(params=["folder", pytest.param("s3", marks=needs_s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a lake, of each kind."""
    if request.param == "folder":
        return str(tmp_path / "lake")
    return f"{request.getfixturevalue('bucket')}/lake"


def test_guarantees_of_storage(place: str, tmp_path: Path) -> None:
    """Folders and stores alike: of two concurrent changes to a file, none is lost."""
    here, there = storage.storage(place), storage.storage(place)
    assert (here.is_lake(), here.is_free(), here.names("_manifest")) == (
        False,
        True,
        [],
    )
    here.make()
    here.write("_manifest/a.json", b"1")
    here.write("_manifest/a.json", b"2")
    assert (there.is_lake(), there.is_free()) == (True, False)
    assert there.names("_manifest") == ["_manifest/a.json"]
    assert there.read(["_manifest/a.json", "_manifest/b.json"]) == {
        "_manifest/a.json": b"2"
    }

    def count(one: storage.Storage) -> None:
        for _ in range(5):
            one.change("_manifest/n.json", lambda n: str(int(n or 0) + 1).encode())

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(count, (here, there)))
    seen: list[bytes | None] = []

    def look(content: bytes | None) -> bytes:
        seen.append(content)
        return content or b""

    here.change("_manifest/n.json", look)
    assert seen == [b"10"]
    here.remove("_manifest/a.json")
    here.remove("_manifest/a.json")
    assert here.read(["_manifest/a.json"]) == {}
    with here.job() as job:
        beside = Path(here.scratch(job) or tmp_path) / "rows"
        beside.mkdir()
        (beside / "x.parquet").write_bytes(b"x")
        put = here.put(beside, "run=a%2Fb/rank=0/trace=1", job)
    name = f"{put}/x.parquet"
    with there.at_hand([name]) as paths:
        assert Path(paths[name]).read_bytes() == b"x"
    there.clear(lambda: {put}, [])
    assert there.names(put) == [name]
    there.clear(set, [put])
    assert there.names(put) == []


@needs_s3
def test_missing_files_are_reported_as_such(bucket: str) -> None:
    """A reader then reads the manifest again."""
    with pytest.raises(storage.GoneError), storage.Objects(bucket).at_hand(["a"]):
        pass


@needs_s3
@pytest.mark.usefixtures("no_rows_above_raw")
def test_a_lake_can_be_copied_into_a_store(
    bucket: str, traces: Path, tmp_path: Path
) -> None:
    """Its ids continue with the given numbers; without these it is refused."""
    lake.ingest([traces / "0.json"], tmp_path / "lake", Here())
    for path in (tmp_path / "lake").rglob("*.*"):
        if path.is_file():
            name = path.relative_to(tmp_path)
            files(bucket).put_file(str(path), f"{bucket}/{name}")
    assert lake.ingest([traces], f"{bucket}/lake", Here()) == {"known": 1, "new": 1}
    assert [e.number for e in lake.Manifest(f"{bucket}/lake").entries()] == [1, 2]
    files(bucket).rm(f"{bucket}/lake/_manifest/numbers", recursive=True)
    files(bucket).rm(f"{bucket}/lake/_manifest/numbers.json")
    with pytest.raises(
        tracedb.LakeError, match="the numbers of existing traces are unknown"
    ):
        lake.ingest([traces], f"{bucket}/lake", Here())


@contextmanager
def without_caches(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """File systems are created again, from the current environment."""
    import s3fs

    patch.setenv("AWS_MAX_ATTEMPTS", "1")
    patch.setattr(s3fs.S3FileSystem, "retries", 1)
    s3fs.S3FileSystem.clear_instance_cache()
    yield
    s3fs.S3FileSystem.clear_instance_cache()


@needs_s3
@pytest.mark.parametrize("trouble", ["no bucket", "no credentials", "no network"])
def test_errors_of_a_store_are_one_line(
    s3: str, trouble: str, traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any work, when writing and reading, with exit code 2."""
    uri = f"{s3}://nobody-has-this/lake"
    with without_caches(monkeypatch):
        why = "bucket does not exist"
        if trouble == "no credentials":
            why = "Unable to locate credentials"
            monkeypatch.delenv("AWS_ACCESS_KEY_ID")
            monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
            monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
        elif trouble == "no network":
            why = "Could not connect to the endpoint"
            monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        done = invoked("lake", "ingest", str(traces), "--lake", uri)
        assert (done.exit_code, done.stderr.count(uri)) == (2, 1)
        assert why in done.stderr
        done = invoked("lake", "ingest", uri, "--lake", str(traces / "new"))
        assert done.exit_code == 2
        assert why in done.stderr
        assert not (traces / "new").exists()
        done = invoked("summary", uri)
        assert done.exit_code == 2
        assert ("not a lake" if trouble == "no bucket" else why) in done.stderr


def test_missing_packages_and_unknown_schemes_are_reported(
    traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing package, with how to get it; an unknown scheme."""
    for scheme, package, extra in (("s3", "s3fs", "s3"), ("gs", "gcsfs", "gs")):
        monkeypatch.setitem(sys.modules, package, None)
        uri = f"{scheme}://bucket/lake"
        for words in (
            ("lake", "ingest", str(traces), "--lake", uri),
            ("lake", "ingest", uri, "--lake", str(traces / "new")),
            ("summary", uri),
            ("lake", "ask", uri),
        ):
            done = invoked(*words)
            assert done.exit_code == 2
            assert f"{uri} needs the package {package}" in done.stderr
            assert done.stderr.endswith(f"pip install 'tracedb[{extra}]'\n")
    (traces / "a b").mkdir()
    for uri in (f"file://{traces}/a b", f"FILE://localhost{traces}/a%20b"):
        done = invoked("lake", "info", uri)
        assert f"on this machine: '{traces}/a b'\n" in done.stderr


@pytest.mark.thorough
@needs_spark
@needs_s3
def test_spark_workers_write_to_a_store(bucket: str, traces: Path) -> None:
    """The bytes equal local ones; each worker is a process started by Java."""
    words = ["lake", "ingest", str(traces), "--run", "job", "--lake", f"{bucket}/lake"]
    python = [sys.executable, "-Im", "tracedb"]
    done = subprocess.run(  # noqa: S603 (our own command)
        [*python, *words, "--runner", "spark", "--master", "local[2]"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lake.ingest([traces], f"{bucket}/other", Here(), run="job")
    sent = contents(f"{bucket}/lake")
    assert len(sent) == 4
    assert sent == contents(f"{bucket}/other")


@needs_spark
def test_spark_says_which_stores_it_cannot_read() -> None:
    """Its readers need Hadoop classes, which are not everywhere."""
    from tracedb.lake.spark import spark_reads

    with (
        lake.Spark("local[1]").opened() as session,
        pytest.raises(tracedb.LakeError, match="needs Hadoop's connector"),
    ):
        spark_reads(session, ["s3a://bucket/lake/fleet.step.parquet"])
