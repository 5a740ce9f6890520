"""A few mutants of `fuzz.py`, which can try any number."""

from __future__ import annotations

from fuzz import try_many
from support import Amount


def test_mutants_break_no_law(amount: Amount) -> None:
    """No traceback, no silent loss, no half-written database."""
    # 240 have as many pairs of file and mutation as 300 random ones would have.
    mutants = amount(80, 240)
    report = try_many(0, range(mutants))
    assert report.broken == []
    assert report.outcomes.total() == mutants
    # If all mutants had the same outcome, the test would find nothing.
    assert len(report.outcomes) >= 4
