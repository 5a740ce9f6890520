"""The Spark runner: a task for each file, on whatever cluster Spark has.

Spark places tasks and tries them again when a worker is lost; what a worker does is the
same as everywhere (`worker.py`), and the manifest makes it right that a file is done
twice. Lake and files are paths that all workers see, where tracedb is installed.
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
    """The Spark of a master, as `local[2]` or `spark://host:7077`: a `Runner`.

    With `remote`, as `sc://host:15002`, a Spark Connect server, which has a master of
    its own. Raises `MissingPackageError` where PySpark is missing, or what it needs to
    connect, `LakeError` where Java is.
    """

    master: str = "local[*]"
    remote: str | None = None
    is_elsewhere = True

    @property
    def workers(self) -> int:
        """How many tasks one machine is taken to do at once: as many as this one."""
        local = None if self.remote else _LOCAL.fullmatch(self.master)
        cores = local["cores"] or "1" if local else "*"
        return (os.cpu_count() or 1) if cores == "*" else int(cores)

    def __post_init__(self) -> None:
        """See that everything is there."""
        import_extra("pyspark", "spark", "the Spark runner")
        if self.remote is not None:
            import_extra("pyspark.sql.connect.client", "connect", "Spark Connect")
        elif not java():
            raise LakeError(
                "Spark needs Java 17 or later, which was not found; install it, or set "
                "JAVA_HOME"
            )

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Do all tasks; yield what became of them when all are done."""
        with self.opened() as session:
            yield from _halved(session, tasks)

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A session of Spark; raises `LakeError` where there is none to be had."""
        with _environment_kept():
            made = self._session() if self.remote is None else _connected(self.remote)
            try:
                yield made
            finally:
                made.stop()

    def _session(self) -> Any:  # noqa: ANN401 (PySpark is not always there)
        from pyspark.sql import SparkSession

        # Workers would take any Python that the path has.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.appName("tracedb").master(_trying(self.master))
        for name, value in _SETTINGS.items():
            builder = builder.config(name, value)
        if _LOCAL.fullmatch(self.master):
            # Of 200, as a cluster has, most would have nothing to do here.
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
    """Put back what PySpark notes in the environment while a session lasts.

    After Spark Connect it would hold all sessions of this process for such.
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
    """A session of a Spark Connect server; its settings are the server's."""
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        host, _, port = DefaultChannelBuilder(url).endpoint.rpartition(":")
        # PySpark would try for minutes.
        with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S):
            pass
        return SparkSession.builder.remote(url).getOrCreate()
    except Exception as error:
        raise LakeError(f"Spark Connect at {url}: {_first_line(error)}") from error


_CONNECT_S = 10


def java() -> str | None:
    """The Java that Spark would take."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin") if home else None)


def _trying(master: str) -> str:
    """A master that tries tasks again: on one machine Spark would not."""
    local = _LOCAL.fullmatch(master)
    return f"local[{local['cores'] or 1},{MOST_TRIES}]" if local else master


def _halved(session: Any, tasks: Sequence[Task]) -> Iterator[Outcome]:  # noqa: ANN401
    """Outcomes of tasks; where a job fails, of each half.

    A file that ends its worker each time fails the job that it is in, and is found so;
    what the others have done meanwhile is in the lake, and known.
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
    """What workers make of tasks, each a partition of its own."""
    from pyspark.sql.functions import col, udf

    rows = [
        (place, msgspec.json.encode(task).decode()) for place, task in enumerate(tasks)
    ]
    frame = session.createDataFrame(rows, "place BIGINT, task STRING")
    do = udf(_do, "string", useArrow=False).asNondeterministic()
    done = frame.repartitionByRange(len(rows), "place").select(do(col("task")))
    return [answer for (answer,) in done.collect()]


def _do(line: str) -> str:
    """What a worker makes of a task."""
    return msgspec.json.encode(work(msgspec.json.decode(line, type=Task))).decode()


def spark_reads(session: Any, paths: Sequence[str]) -> Any:  # noqa: ANN401 (PySpark's)
    """The rows of Parquet files; raises `LakeError` where Spark cannot read them.

    What a store is called by Spark's own readers they know by classes of Hadoop's,
    which a cluster has or has not.
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
