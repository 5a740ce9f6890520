"""Changes of programs whose traces do not record what waits are for.

The program is executed with all of its waits, also those that its trace does not show,
so predictions may be wrong. `python tests/unrecorded.py 1..10` makes the changes of
`tests/test_reexecution.py`, and counts how many wrong answers say so.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

from executed import (
    WRONG,
    Case,
    Predicted,
    one_thread,
    period_error,
    predict,
)
from test_reexecution import ALONE, CHANGES, TO_STREAMS

from tracedb.synthetic import Form

TOLD = """
    SELECT path, scenario, true
    FROM question.scenario_assumption CROSS JOIN staging.trace
    WHERE contains(assumption, 'not recorded: ')
    UNION ALL
    SELECT path, scenario, false
    FROM question.scenario_guess CROSS JOIN staging.trace
"""


def real(seed: int) -> Case:
    """A program with all of its waits."""
    one = one_thread(seed, recorded=True)
    return Case(f"real {seed}", one.program, one.program, one.delays, Form())


def error(one: Case, name: str, predicted: Predicted) -> float:
    """[1] The largest error of a step's period."""
    changed = CHANGES[name][0](one.program, one.delays)
    return period_error(one, name, predicted, *changed)


def search(seeds: range) -> None:
    """Print how many answers are wrong, and whether they say so."""
    found: dict[str, list[float]] = defaultdict(list)
    edits = {name: CHANGES[name][1] for name in ALONE if name not in TO_STREAMS}
    for one in map(real, seeds):
        with TemporaryDirectory() as folder:
            predicted = predict(Path(folder), [one], edits, TOLD, drops_idle=True)
        said = defaultdict(set)
        for scenario, is_told in predicted.answers[one.name, 0]:
            said[scenario].add(is_told)
        for name in edits:
            if (one.name, 0, name) not in predicted.times:
                continue
            off = error(one, name, predicted)
            kind = "wrong" if off > WRONG else "exact"
            word = {True: ", told", False: ", waits named", None: ""}[
                max(said[name], default=None)
            ]
            found[kind + word].append(off)
            if kind == "wrong" and True not in said[name]:
                sys.stdout.write(f"{one.name}, {name}: {off:.2%} without a word\n")
                sys.stdout.flush()
    for kind, errors in sorted(found.items()):
        sys.stdout.write(f"{len(errors):5} {kind} (largest error {max(errors):.1%})\n")


if __name__ == "__main__":
    first, _, last = sys.argv[1].partition("..")
    search(range(int(first), int(last or first) + 1))
