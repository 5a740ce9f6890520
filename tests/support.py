"""What tests share: where the samples and the corpus lie, the truth, plain rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tracedb

ROOT = Path(__file__).parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
SAMPLES = ROOT / "sample_traces"

needs_corpus = pytest.mark.skipif(
    not CORPUS.exists(), reason="../shared/corpus is absent"
)

Ingested = Callable[..., Path]
"""Takes traces, gives the path of a database of them, to be read only."""
DatabaseOf = Callable[..., tracedb.Database]
"""Takes traces, gives a database of them, opened to be read."""


@cache
def truth() -> dict[str, Any]:
    """The corpus's independent ground truth, file by file; empty without a corpus."""
    page = CORPUS / "truth.json"
    return dict(json.loads(page.read_text())["files"]) if page.exists() else {}


def corpus_files(kind: str) -> list[Any]:
    """Corpus files of a kind as test parameters; one skipped one without a corpus."""
    found = [path for path, facts in truth().items() if facts["kind"] == kind]
    absent = pytest.param(
        "", marks=pytest.mark.skip(reason="../shared/corpus is absent")
    )
    return sorted(found) or [absent]


def rows(database: tracedb.Database, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    return database.sql(query).rows()
