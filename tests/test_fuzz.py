"""A few mutants of `fuzz.py`, which tries as many as one likes."""

from __future__ import annotations

from fuzz import try_many

MUTANTS = 240
"""As many pairs of a file and a mutation as 300 random ones would have."""


def test_mutants_break_no_law() -> None:
    """No traceback, no silent loss, no half-written database."""
    report = try_many(0, range(MUTANTS))
    assert report.broken == []
    assert report.outcomes.total() == MUTANTS
    # Were mutants all alike, there would be nothing to find.
    assert len(report.outcomes) >= 4
