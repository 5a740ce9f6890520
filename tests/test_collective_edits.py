"""Edits of collectives, on all ranks or on some, equal the jobs with these changes.

`python tests/collectives.py 1..20` searches further.
"""

from __future__ import annotations

from pathlib import Path

from collectives import groups, scenario
from remade import compare

from tracedb.synthetic.program import seeded


def test_edits_of_collectives_equal_their_changes(tmp_path: Path) -> None:
    """Three ranks, and several groups of them: all work, steps and periods."""
    case = groups(1)
    random = seeded("collective edits")
    made = [scenario(case, random) for _ in range(16)]
    outcome = compare(case, made, tmp_path)
    assert [(of.scenario.kinds, of.times) for of in outcome.wrong] == []
    assert len(outcome.exact) == len(made)
    kinds = {kind for of in made for kind in of.kinds}
    assert kinds >= {"overlap", "moved", "no work", "no op"}
