"""What tests of lakes share: a runner without processes, and who needs Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

import pytest

from tracedb.lake.spark import java
from tracedb.lake.worker import Outcome, Task, work

needs_spark = pytest.mark.skipif(
    find_spec("pyspark") is None or java() is None,
    reason="PySpark, or the Java that it runs on, is absent",
)


class Here:
    """The runner that needs no process: one task after the other."""

    workers = 1
    is_elsewhere = False

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Do all tasks."""
        return map(work, tasks)
