"""Answers about twice as much of anything take about twice the time.

`python tests/test_growth_questions.py` asks all questions about all shapes of
`test_growth_layers`, which takes some minutes; or only about the shapes named.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from test_growth_layers import (
    MOST,
    SHAPES,
    SHORT,
    Costs,
    Shape,
    keep_least,
    written,
)

import tracedb


@contextmanager
def ingested(shape: Shape, size: int) -> Iterator[tracedb.Database]:
    """A database of a shape."""
    with TemporaryDirectory() as folder, tracedb.open() as database:
        database.ingest(written(Path(folder), shape, size))
        yield database


def costs(database: tracedb.Database, questions: Sequence[str], tries: int) -> Costs:
    """[s] The least CPU time of each answer."""
    least: Costs = {}
    for _ in range(tries):
        for question in questions:
            begun = time.process_time()
            database.ask(question)
            keep_least(least, {question: time.process_time() - begun})
    return least


def growths(
    shape: Shape, questions: Sequence[str] | None = None, tries: int = 1
) -> Costs:
    """Growth of each long answer's CPU time when the size doubles."""
    with (
        ingested(shape, shape.size) as database,
        ingested(shape, 2 * shape.size) as doubled,
    ):
        asked = questions or database.questions()["question"].to_list()
        once, twice = costs(database, asked, tries), costs(doubled, asked, tries)
    return {
        question: taken / max(once[question], SHORT / MOST)
        for question, taken in twice.items()
        if taken > SHORT
    }


@pytest.mark.thorough
def test_answers_about_twice_as_many_steps_take_twice_the_time() -> None:
    """Steps meet gaps of the GPU, and each other, in order."""
    shape = SHAPES["steps"]._replace(size=8_000)
    found = growths(shape, ("idle_cause", "gpu_active", "prediction_score"), tries=2)
    assert found
    assert {name: growth for name, growth in found.items() if growth >= MOST} == {}


def main(names: Sequence[str]) -> None:
    """Print what grows too fast."""
    for name in names or SHAPES:
        for question, growth in growths(SHAPES[name]).items():
            if growth >= MOST:
                sys.stdout.write(f"{name}: {question} x {growth:.1f}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
