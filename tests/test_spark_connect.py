"""Spark Connect: Spark over the network, without Java on the client."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep

import pytest
from click.testing import CliRunner
from lakes import Here, needs_spark, values
from support import SAMPLES

from tracedb import lake
from tracedb.cli.main import tracedb as command

RANKS = SAMPLES / "generated_gpu"
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_UP_S = 600

pytestmark = [
    needs_spark,
    pytest.mark.skipif(find_spec("grpc") is None, reason="grpcio is absent"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Spark Connect server with two cores and its own Java."""
    import pyspark

    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    folder = tmp_path_factory.mktemp("server")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 (PySpark's own command)
            [
                Path(pyspark.__file__).parent / "bin" / "spark-submit",
                *("--master", "local[2]", "--class", _SERVER),
                *(
                    word
                    for one in settings.items()
                    for word in ("--conf", "=".join(one))
                ),
                "spark-internal",
            ],
            cwd=folder,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for(process, port, folder / "log")
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until the port is open, or report why it is not."""
    until = monotonic() + _UP_S
    while monotonic() < until and process.poll() is None:
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", port), timeout=1),
        ):
            return
        sleep(0.1)
    pytest.fail(f"no server: {log.read_text()[-2000:]}")


def test_a_lake_through_spark_connect(server: str, tmp_path: Path) -> None:
    """Files are byte-identical, and answers equal; existing files are unchanged."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    spark = lake.Spark(remote=server)
    assert lake.ingest([RANKS], ours, Here(), run="job")["new"] == 2
    assert lake.ingest([RANKS], theirs, spark, run="job")["new"] == 2
    assert _bytes(theirs) == _bytes(ours)
    assert lake.ingest([RANKS], theirs, spark, run="job")["known"] == 2
    place = lake.place_of(str(theirs))
    for question in ("period", "straggler"):
        answer = lake.ask(place, question, spark)
        assert answer.height > 0
        assert values(answer) == values(lake.ask(place, question))
    assert lake.ask(place, "period", lake.Spark("local[1]")).height == 1


def test_a_file_that_fails_does_not_stop_others(server: str, tmp_path: Path) -> None:
    """It is noted, as by every runner, and the exit code is 3."""
    traces = tmp_path / "job"
    traces.mkdir()
    trace = RANKS / "rank0.kineto.json.gz"
    (traces / "rank0.json.gz").write_bytes(trace.read_bytes())
    (traces / "rank1.json").write_text('{"traceEvents": [')
    words = ["lake", "ingest", str(traces), "--lake", str(tmp_path / "lake")]
    done = CliRunner().invoke(
        command, [*words, "--runner", "spark", "--remote", server]
    )
    assert done.exit_code == 3, done.stderr
    assert "1 new, 0 known, 0 skipped, 1 failed" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--remote", "sc://127.0.0.1:1"], "Spark Connect at sc://127.0.0.1:1: "),
        (["--remote", "127.0.0.1"], "Spark Connect at 127.0.0.1: "),
        (
            ["--remote", "sc://h", "--master", "local[2]"],
            "cannot be combined with --master",
        ),
    ],
)
def test_a_bad_server_is_reported_at_once(
    tmp_path: Path, words: list[str], said: str
) -> None:
    """One line, before anything is in the lake."""
    words = ["lake", "ingest", str(RANKS), "--lake", str(tmp_path), *words]
    done = CliRunner().invoke(command, [*words, "--runner", "spark"])
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not [*tmp_path.glob("run=*")]


def _bytes(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.glob("run=*/**/*.parquet")
    }
