"""Edits of collectives, on all ranks or on some, equal the jobs with these changes.

`python tests/collectives.py 1..20` searches further.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from collectives import KINDS, scenario
from remade import compare

from tracedb.synthetic.program import seeded


@pytest.mark.parametrize(
    ("kind", "seed", "wanted"),
    [
        ("groups", 1, {"overlap", "moved", "no work", "no op", "graph", "group"}),
        ("grid", 1, {"graph", "group"}),
        ("pipeline", 7, {"graph", "group"}),
    ],
)
def test_edits_of_collectives_equal_their_changes(
    kind: str, seed: int, wanted: set[str], tmp_path: Path
) -> None:
    """Several groups, two of them at once, or messages: all work, steps and periods."""
    case = KINDS[kind](seed)
    random = seeded("collective edits")
    made = [scenario(case, random) for _ in range(16)]
    outcome = compare(case, made, tmp_path)
    assert [(of.scenario.kinds, of.times) for of in outcome.wrong] == []
    assert len(outcome.exact) + len(outcome.refused) == len(made)
    assert len(outcome.exact) >= len(made) - 3
    assert {kind for of in outcome.exact for kind in of.kinds} >= wanted
