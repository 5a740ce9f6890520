"""Slow tests take turns: each commit runs one share of them, and all fast tests.

A seventh of the cases take nine tenths of the time. `make test` runs those of
one turn, chosen by the hash of the commit, so that a commit always has the same tests.
`--turn all` (the default of pytest alone) leaves nothing out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

SLOW = Path(__file__).parent / "slow_tests.txt"
"""The names of slow test functions, as `test_file.py::function`, in order."""
# [s] A test function is slow if its cases take this long in the mean.
_SLOW_S = 0.5
_TURN = re.compile(r"(\d+)/(\d+)")


def turn(text: str) -> tuple[int, int] | None:
    """Which turn of how many: `3/8` is the third of eight; None for `all`.

    Raises `UsageError` for any other text.
    """
    if text == "all":
        return None
    parts = _TURN.fullmatch(text)
    if not parts or not 1 <= int(parts[1]) <= int(parts[2]):
        raise pytest.UsageError(f"--turn takes `all` or a turn like `3/8`, not {text}")
    return int(parts[1]), int(parts[2])


def slow_names() -> frozenset[str]:
    """The names of the slow test functions."""
    return frozenset(SLOW.read_text(encoding="utf-8").split())


def case_of(node_id: str) -> str:
    """The file, function and parameters of a test, wherever pytest runs."""
    path, _, rest = node_id.partition("::")
    return f"{Path(path).name}::{rest}"


def name_of(node_id: str) -> str:
    """The file and function of a test."""
    return case_of(node_id).partition("[")[0]


def waits(node_id: str, chosen: tuple[int, int], slow: frozenset[str]) -> bool:
    """Whether a test has another turn than the chosen one."""
    number, turns = chosen
    own = crc32(case_of(node_id).encode()) % turns + 1
    return name_of(node_id) in slow and own != number


class Durations:
    """Adds up how long each test takes, to write the list of slow tests."""

    def __init__(self) -> None:
        """No test has run yet."""
        self._seconds: dict[str, float] = defaultdict(float)
        self._skipped: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of set-up, call or end of a test."""
        self._seconds[report.nodeid] += report.duration
        if report.skipped:
            self._skipped.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write the names of slow tests; those skipped here may be slow elsewhere."""
        ran = [one for one in self._seconds.items() if one[0] not in self._skipped]
        names = slow_after(slow_names(), ran)
        SLOW.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


def slow_after(
    before: Iterable[str], seconds: Iterable[tuple[str, float]]
) -> list[str]:
    """The names of test functions whose cases take long in the mean, in order.

    Functions that did not run stay as they were.
    """
    cases: dict[str, list[float]] = defaultdict(list)
    for node_id, duration in seconds:
        cases[name_of(node_id)].append(duration)
    slow = {name for name, found in cases.items() if sum(found) / len(found) >= _SLOW_S}
    return sorted(slow | (set(before) - cases.keys()))
