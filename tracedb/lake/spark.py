"""The Spark runner: one task per file, on any Spark cluster.

Spark schedules tasks and retries them if a worker is lost. Workers do the same as with
any runner (`worker.py`); the manifest makes it safe to run a file twice. All workers
must have tracedb installed, and see the same paths of the lake and the files.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tracedb.errors import LakeError
from tracedb.extras import import_extra
from tracedb.lake.runner import MOST_TRIES
from tracedb.lake.worker import Outcome, Task, failed, work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LOCAL = re.compile(r"local(?:\[(?P<cores>\d+|\*)\])?")


@dataclass(frozen=True)
class Spark:
    """A `Runner` on a Spark master such as `local[2]` or `spark://host:7077`.

    `remote` is a Spark Connect server such as `sc://host:15002`, which has its own
    master. Raises `MissingPackageError` if PySpark or its packages for Connect are
    missing, `LakeError` if Java is missing.
    """

    master: str = "local[*]"
    remote: str | None = None
    is_elsewhere = True

    @property
    def workers(self) -> int:
        """The assumed number of tasks at once on a machine: this machine's CPUs."""
        local = None if self.remote else _LOCAL.fullmatch(self.master)
        cores = local["cores"] or "1" if local else "*"
        return (os.cpu_count() or 1) if cores == "*" else int(cores)

    def __post_init__(self) -> None:
        """Check that everything is installed."""
        import_extra("pyspark", "spark", "the Spark runner")
        if self.remote is not None:
            import_extra("pyspark.sql.connect.client", "connect", "Spark Connect")
        elif not java():
            raise LakeError(
                "Spark needs Java 17 or later, which was not found; install it, or set "
                "JAVA_HOME"
            )

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Run all tasks; yield the outcomes when all are done."""
        with self.opened() as session:
            yield from _halved(session, tasks)

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A Spark session; raises `LakeError` if none can be created."""
        with _environment_kept():
            made = self._session() if self.remote is None else _connected(self.remote)
            try:
                yield made
            finally:
                made.stop()

    def _session(self) -> Any:  # noqa: ANN401 (PySpark is not always there)
        from pyspark.sql import SparkSession

        # Otherwise workers use any Python in the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.appName("tracedb").master(_trying(self.master))
        for name, value in _SETTINGS.items():
            builder = builder.config(name, value)
        if _LOCAL.fullmatch(self.master):
            # Most of the default 200 partitions would be empty here.
            parts = str(2 * self.workers)
            builder = builder.config("spark.sql.shuffle.partitions", parts)
        try:
            return builder.getOrCreate()
        except Exception as error:
            raise LakeError(f"Spark at {self.master}: {_first_line(error)}") from error


_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def _environment_kept() -> Iterator[None]:
    """Restore the environment variables that PySpark sets during a session.

    After Spark Connect, it would take all sessions of this process for remote ones.
    """
    kept = {name: value for name, value in os.environ.items() if _of_spark(name)}
    try:
        yield
    finally:
        for name in filter(_of_spark, [*os.environ]):
            del os.environ[name]
        os.environ.update(kept)


def _of_spark(name: str) -> bool:
    return name.startswith("SPARK_")


def _connected(url: str) -> Any:  # noqa: ANN401 (PySpark is not always there)
    """A session of a Spark Connect server, with the server's settings."""
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        host, _, port = DefaultChannelBuilder(url).endpoint.rpartition(":")
        # PySpark would retry for minutes.
        with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S):
            pass
        return SparkSession.builder.remote(url).getOrCreate()
    except Exception as error:
        raise LakeError(f"Spark Connect at {url}: {_first_line(error)}") from error


_CONNECT_S = 10


def java() -> str | None:
    """The Java that Spark uses."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin") if home else None)


def _trying(master: str) -> str:
    """A master URL with retries, which Spark's local mode lacks by default."""
    local = _LOCAL.fullmatch(master)
    return f"local[{local['cores'] or 1},{MOST_TRIES}]" if local else master


def _halved(session: Any, tasks: Sequence[Task]) -> Iterator[Outcome]:  # noqa: ANN401
    """The outcomes of tasks; if a job fails, each half runs again.

    This finds a file that kills its worker each time, which fails the whole job. Files
    that were done before are already in the lake, and count as known.
    """
    if not tasks:
        return
    try:
        answers = _done(session, tasks)
    except Exception as error:  # noqa: BLE001 (Spark's are of several modules)
        if len(tasks) == 1:
            yield failed(tasks[0], f"its task failed: {_first_line(error)}")
            return
        middle = len(tasks) // 2
        yield from _halved(session, tasks[:middle])
        yield from _halved(session, tasks[middle:])
        return
    for answer in answers:
        yield msgspec.json.decode(answer, type=Outcome)


def _done(session: Any, tasks: Sequence[Task]) -> list[str]:  # noqa: ANN401
    """Run tasks on workers, one per partition."""
    from pyspark.sql.functions import col, udf

    rows = [
        (place, msgspec.json.encode(task).decode()) for place, task in enumerate(tasks)
    ]
    frame = session.createDataFrame(rows, "place BIGINT, task STRING")
    do = udf(_do, "string", useArrow=False).asNondeterministic()
    done = frame.repartitionByRange(len(rows), "place").select(do(col("task")))
    return [answer for (answer,) in done.collect()]


def _do(line: str) -> str:
    """Run a task on a worker."""
    return msgspec.json.encode(work(msgspec.json.decode(line, type=Task))).decode()


def spark_reads(session: Any, paths: Sequence[str]) -> Any:  # noqa: ANN401 (PySpark's)
    """The rows of Parquet files; raises `LakeError` if Spark cannot read them.

    For object stores, the cluster must have Hadoop's connector.
    """
    try:
        return session.read.parquet(*paths)
    except Exception as error:
        raise LakeError(
            f"Spark cannot read {paths[0]}: {_first_line(error)}; an object store "
            "needs Hadoop's connector (hadoop-aws for s3a) and credentials; without "
            "--master, DuckDB answers"
        ) from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
