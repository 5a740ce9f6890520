"""Shared by tests of lakes: a runner without processes, and ordered answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

import polars as pl
import pytest

from tracedb.lake.spark import java
from tracedb.lake.worker import Outcome, Task, work

needs_spark = pytest.mark.skipif(
    find_spec("pyspark") is None or java() is None,
    reason="PySpark, or the Java that it runs on, is absent",
)


class Here:
    """A runner without processes: one task after the other."""

    workers = 1
    is_elsewhere = False

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Run all tasks."""
        return map(work, tasks)


def values(frame: pl.DataFrame) -> list[str]:
    """The rows of an answer, sorted."""
    return sorted(
        str([f"{v:.12g}" if isinstance(v, float) else v for v in row])
        for row in frame.rows()
    )
