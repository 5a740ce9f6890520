"""Shared by tests: paths of samples and corpus, ground truth, plain rows."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest

import tracedb
from tracedb.ingest import ingest
from tracedb.synthetic import (
    Delays,
    DeviceSync,
    Gap,
    Launch,
    Op,
    Program,
    Rank,
    Thread,
    execute,
    random_program,
    step,
)
from tracedb.synthetic.program import seeded

ROOT = Path(__file__).parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
SAMPLES = ROOT / "sample_traces"

needs_corpus = pytest.mark.skipif(
    not CORPUS.exists(), reason="../shared/corpus is absent"
)

Ingested = Callable[..., Path]
"""Takes traces, returns the path of their database (read only)."""
DatabaseOf = Callable[..., tracedb.Database]
"""Takes traces, returns their database, opened read only."""


@cache
def truth() -> dict[str, Any]:
    """Independent ground truth of the corpus, by file; empty without a corpus."""
    page = CORPUS / "truth.json"
    return dict(json.loads(page.read_text())["files"]) if page.exists() else {}


def corpus_files(kind: str) -> list[Any]:
    """Corpus files of a kind as parameters; a single skipped one without a corpus."""
    found = [path for path, facts in truth().items() if facts["kind"] == kind]
    absent = pytest.param(
        "", marks=pytest.mark.skip(reason="../shared/corpus is absent")
    )
    return sorted(found) or [absent]


def sampled(cases: Iterable[Any], few: int) -> list[Any]:
    """Cases for parameters, of which only the first few are tried by default.

    The others have the mark `thorough`.
    """
    return [
        case if place < few else pytest.param(case, marks=pytest.mark.thorough)
        for place, case in enumerate(cases)
    ]


Amount = Callable[[int, int], int]
"""How many cases a test tries: the first number by default, the second if thorough."""


def rows(database: tracedb.Database, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    return database.sql(query).rows()


def unbroken(notes: str) -> str:
    """What a command told on stderr, with each note on one line."""
    return notes.replace("\n  ", " ")


def assert_nothing_written(folder: Path) -> None:
    """A failed command leaves no file behind."""
    assert list(folder.iterdir()) == []


SHARED = "TRACEDB_TESTS_SHARED"
"""The folder of files shared by workers; the first process creates and removes it."""


def made(name: str, make: Callable[[Path], None]) -> Path:
    """A file or folder shared by workers, made by the first one that needs it."""
    path = Path(os.environ[SHARED]) / name
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            beside = path.with_suffix(".new")
            make(beside)
            beside.rename(path)
    return path


def rewrite(page: Path, change: Callable[[str], str]) -> None:
    """Change the text of a page: workers take turns, and readers see whole texts."""
    with (Path(os.environ[SHARED]) / f"{page.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        beside = page.with_name(f".{page.name}.new")
        beside.write_text(change(page.read_text()))
        beside.replace(page)


@contextmanager
def empty_database() -> Iterator[tracedb.Database]:
    """A database without traces: a copied file costs half of one in memory."""
    with TemporaryDirectory() as folder:
        path = shutil.copy(made("empty.duckdb", _make_empty), folder)
        with tracedb.open(path) as opened:
            yield opened


def _make_empty(path: Path) -> None:
    # A database that stays empty is removed when it is closed.
    beside = path.with_suffix(".empty")
    with tracedb.open(beside) as opened:
        opened.connection.execute("CHECKPOINT")
        shutil.copy(beside, path)


@contextmanager
def ingests_until(layer: str | None) -> Iterator[None]:
    """Ingests compute the layers up to `layer`; all of them if None."""
    whole = partial(ingest, until=layer)
    with patch("tracedb.ingest.ingest", whole):
        yield


def write_generated(
    folder: Path, seeds: Iterable[int], jitters: Sequence[float] = (0.0, 0.2)
) -> None:
    """Write traces of 1 to 3 threads and 1 to 4 streams, alternating jitters."""
    folder.mkdir(exist_ok=True)
    for seed in seeds:
        program = random_program(
            seed, threads=1 + seed % 3, streams=1 + seed % 4, steps=1 + seed % 2
        )
        delays = Delays(jitter=jitters[seed % len(jitters)])
        execute(program, delays, seed)[0].write(folder / f"{seed}.json")


STEPS_AHEAD = 6


def ahead(seed: int, *, waits: bool) -> Program:
    """Steps whose host runs far ahead of the GPU, or waits for it."""
    random = seeded("ahead", seed)
    steps = []
    for number in range(STEPS_AHEAD):
        body: list[Any] = [
            Op(
                "aten::mm",
                (
                    Gap(random.randrange(2_000, 20_000)),
                    Launch(7, random.randrange(100_000, 1_000_000)),
                    Launch(20, random.randrange(1_000, 50_000)),
                ),
            )
            for _ in range(random.randrange(3, 9))
        ]
        if waits:
            body.append(DeviceSync())
        steps.append(step(number, Gap(random.randrange(9_000)), *body, Gap(1_000)))
    return Program((Rank((Thread("main", tuple(steps)),)),))


def write_ahead(folder: Path, *, waits: bool) -> None:
    """Write eight such traces."""
    folder.mkdir(exist_ok=True)
    for seed in range(8):
        program = ahead(seed, waits=waits)
        execute(program, Delays(jitter=0), seed)[0].write(folder / f"ahead{seed}.json")


def union_ns(spans: list[tuple[int, int]]) -> int:
    """[ns] The time in which any of the spans, each from start to end, is open."""
    total, over = 0, 0
    for start, end in sorted(spans):
        total += max(end - max(start, over), 0)
        over = max(over, end)
    return total
