"""A few mutants of `fuzz.py`, which can try any number."""

from __future__ import annotations

from fuzz import try_many

MUTANTS = 240
"""Enough for as many pairs of file and mutation as 300 random ones would have."""


def test_mutants_break_no_law() -> None:
    """No traceback, no silent loss, no half-written database."""
    report = try_many(0, range(MUTANTS))
    assert report.broken == []
    assert report.outcomes.total() == MUTANTS
    # If all mutants had the same outcome, the test would find nothing.
    assert len(report.outcomes) >= 4
