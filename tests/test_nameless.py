"""Threads whose names and ops nobody knows are predicted by their times alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from executed import assert_foretold, predict
from nameless import EDITS, edits_of, nameless


@pytest.mark.parametrize("seed", [10, 12])
def test_steady_handovers_show_what_threads_wait_for(seed: int, tmp_path: Path) -> None:
    """A few short rests that end equally late show waits; all that follows is exact."""
    of = nameless(seed)
    parts = edits_of(seed, of)
    edits = {name: part.edits for name, part in parts.items()}
    predicted = predict(tmp_path, [of.case], edits, drops_idle=True)
    carried_out = parts.keys() & {name for _, _, name in predicted.times}
    assert len(carried_out) > EDITS / 2
    assert_foretold(of.case, "baseline", predicted, of.case.known, of.case.delays)
    for name in carried_out:
        changed = parts[name].change(of.case.known, of.case.delays)
        assert_foretold(of.case, name, predicted, *changed)
