"""Edits of delays by any selector equal programs whose actions have such delays."""

from __future__ import annotations

from pathlib import Path

import pytest
from delays import compared, delayed
from executed import one_thread
from test_composed import Kind, autograd, ranks

from tracedb.synthetic.program import seeded

COUNT = 10
PROGRAMS: dict[str, Kind] = {
    "ranks": ([ranks], [1], {"streams", "ranks"}),
    "threads": (
        [lambda seed: one_thread(4 * seed + 2, recorded=True), autograd],
        [1],
        {"streams", "threads"},
    ),
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_delays_of_what_is_selected_change(kind: str, tmp_path: Path) -> None:
    """All GPU ops, steps and periods agree to the nanosecond."""
    makers, seeds, traits = PROGRAMS[kind]
    random = seeded("delays", kind)
    parts = [delayed(random, frozenset(traits)) for _ in range(COUNT)]
    cases = [make(seed) for make in makers for seed in seeds]
    assert compared(tmp_path, cases, parts) > COUNT / 2
