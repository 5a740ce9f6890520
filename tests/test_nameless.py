"""Threads whose names and ops nobody knows are predicted by their times alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from executed import assert_foretold, predict
from nameless import EDITS, answers, edits_of, nameless, paces


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


def kinds(shape: str, seeds: range) -> set[str]:
    """Whether answers about some programs are exact, and told to be guesses."""
    programs = [nameless(seed, shape) for seed in seeds]
    return {one.kind for one in answers([(of, paces(of)) for of in programs])}


def test_a_thread_follows_the_one_that_it_follows_most_steadily() -> None:
    """A thread that always stops just before another one continues is not awaited."""
    assert kinds("forked", range(4, 6)) == {"exact"}


def test_threads_in_equal_periods_may_be_on_their_own() -> None:
    """Nothing tells a wait from time that passes, so wrong answers say so."""
    found = kinds("periodic", range(14, 16))
    assert "wrong, told" in found
    assert "wrong" not in found


@pytest.mark.parametrize(
    ("shape", "seed"),
    [
        ("handover", 0),  # It is woken earlier in an op than assumed.
        ("handover", 6),  # It is woken long before it continues.
        ("handover", 8),  # Its launches come after a wait of the other one.
        ("periodic", 4),  # Two equal periods, a long time apart.
    ],
)
def test_a_wrong_answer_says_that_it_may_be(shape: str, seed: int) -> None:
    """Traces of these programs do not show what their threads wait for."""
    of = nameless(seed, shape)
    parts = edits_of(seed, of) if shape == "handover" else paces(of)
    found = {one.kind for one in answers([(of, parts)])}
    assert "wrong, told" in found
    assert "wrong" not in found
