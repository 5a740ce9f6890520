"""A few mutants of `fuzz.py`, which tries as many as one likes."""

from __future__ import annotations

import pytest
from fuzz import try_many

MUTANTS = 150


@pytest.mark.parametrize("seed", range(2))
def test_mutants_break_no_law(seed: int) -> None:
    """No traceback, no silent loss, no half-written database."""
    report = try_many(seed, range(MUTANTS))
    assert report.broken == []
    assert report.outcomes.total() == MUTANTS
    # Were mutants all alike, there would be nothing to find.
    assert len(report.outcomes) >= 4
