"""Questions about what was recorded answer what plain loops find."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import everything
import pytest
from plain_answers import ANSWERS, Recorded, assert_answers
from support import SAMPLES, Ingested, made

import tracedb

GPU = ("kernel", "gpu_memcpy", "gpu_memset")


def scattered(trace: dict[str, Any]) -> dict[str, Any]:
    """The trace with a third of its GPU work on other devices and streams, and later.

    Some of it runs on when the host is done.
    """
    chance = random.Random(0)  # noqa: S311
    work = [e for e in trace["traceEvents"] if e.get("cat") in GPU]
    for event in chance.sample(work, len(work) // 3):
        event["pid"] = event["args"]["device"] = chance.choice([1, 5])
        event["tid"] = event["args"]["stream"] = chance.choice([7, 20])
        event["ts"] += chance.choice([0, 40, 900])
    return trace


def write_odd(folder: Path) -> None:
    """Write traces whose work is scattered, and one with every kind of event."""
    folder.mkdir()
    for rank in (0, 1):
        recorded = SAMPLES / f"generated_gpu/rank{rank}.kineto.json.gz"
        trace = json.loads(gzip.decompress(recorded.read_bytes()))
        trace.pop("distributedInfo")
        (folder / f"{rank}.json").write_text(json.dumps(scattered(trace)))
    (folder / "everything.json").write_text(json.dumps(everything.trace()))


@pytest.fixture(scope="module")
def odd(ingested: Ingested) -> Iterator[tracedb.Database]:
    """Traces whose GPU work is scattered, and one with every kind of event."""
    with tracedb.open(ingested(made("odd", write_odd)), read_only=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def samples(ingested: Ingested) -> Iterator[tracedb.Database]:
    """The traces that come with tracedb."""
    with tracedb.open(ingested(SAMPLES), read_only=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def recorded(request: pytest.FixtureRequest) -> tuple[tracedb.Database, Recorded]:
    """A database, with its rows for plain loops."""
    database = request.getfixturevalue(request.param)
    return database, Recorded(database)


@pytest.mark.parametrize("question", ANSWERS)
@pytest.mark.parametrize(
    "recorded", ["samples", "odd", "generated", "behind", "corpus"], indirect=True
)
def test_answers_are_those_of_plain_loops(
    recorded: tuple[tracedb.Database, Recorded], question: str
) -> None:
    """Every row is there, and every value as documented."""
    database, plain = recorded
    assert_answers(question, database.sql(f"FROM question.{question}"), plain)
