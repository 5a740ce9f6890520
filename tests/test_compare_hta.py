"""The page that compares with HTA states tracedb's current results."""

from __future__ import annotations

import tomllib
from importlib import import_module
from typing import Any

import pytest
from support import ROOT, needs_corpus

PAGE = ROOT / "docs" / "critical-path-hta.md"


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 (a module)
    """The program that writes the page; it is outside the package."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return import_module("compare_hta")


@needs_corpus
@pytest.mark.parametrize("title", ["alexnet", "event sync", "DLRM, rank 1"])
def test_page_has_the_current_path(title: str, compare: Any) -> None:  # noqa: ANN401
    """Length, kinds and unexplained share of the path are those on the page."""
    case = next(case for case in compare.CASES if case.title == title)
    with compare.ingested(case) as database:
        figures = compare.our_figures(database)
    assert figures["path"] == figures["elapsed"]
    reported = " | ".join(compare.our_cells(figures))
    rows = PAGE.read_text().splitlines()
    row = next(row for row in rows if row.startswith(f"| {title} |"))
    assert row.endswith(f"| {reported} |"), "run benchmarks/compare_hta.py --write"


def test_every_paragraph_belongs_to_a_trace(compare: Any) -> None:  # noqa: ANN401
    """Each paragraph has the title of a trace with a section on the page."""
    titles = set(tomllib.loads(compare.WHY.read_text()))
    sections = {line.removeprefix("## ") for line in PAGE.read_text().splitlines()}
    assert titles <= {case.title for case in compare.CASES} & sections
