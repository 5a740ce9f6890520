"""Slow tests take turns: over all turns each runs once, and fast tests always run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import turns

SLOW = frozenset({"test_a.py::test_slow"})
SLOW_CASES = [f"tests/test_a.py::test_slow[{number}]" for number in range(400)]


def test_a_slow_test_runs_in_one_turn() -> None:
    """Each case has one of the eight turns, which have about as many."""
    chosen = [
        [number for number in range(1, 9) if not turns.waits(case, (number, 8), SLOW)]
        for case in SLOW_CASES
    ]
    assert all(len(found) == 1 for found in chosen)
    sizes = [chosen.count([number]) for number in range(1, 9)]
    assert min(sizes) > len(SLOW_CASES) / 8 / 2


def test_a_fast_test_runs_in_each_turn() -> None:
    """What is not in the list never waits, though its name begins alike."""
    for case in ("test_a.py::test_slow_not[1]", "test_b.py::test_slow"):
        assert not any(turns.waits(case, (number, 8), SLOW) for number in range(1, 9))


def test_a_test_has_its_turn_wherever_the_suite_runs() -> None:
    """The folder that pytest runs in does not matter."""
    for case in SLOW_CASES:
        beside = case.removeprefix("tests/")
        assert turns.waits(case, (1, 8), SLOW) == turns.waits(beside, (1, 8), SLOW)


def test_slow_tests_are_those_whose_cases_take_long() -> None:
    """The mean of the cases of a function counts, set-up and end included."""
    seconds = [
        *[(f"tests/test_a.py::test_many[{number}]", 0.2) for number in range(50)],
        ("tests/test_a.py::test_one", 1.5),
        *[("tests/test_b.py::test_two[1]", 0.5), ("tests/test_b.py::test_two[2]", 2)],
    ]
    before = ["test_a.py::test_many", "test_c.py::test_not_run"]
    assert turns.slow_after(before, seconds) == [
        *("test_a.py::test_one", "test_b.py::test_two", "test_c.py::test_not_run"),
    ]


TESTS = """
import time

import pytest


def test_long():
    time.sleep(1.1)


def test_short():
    pass


@pytest.mark.skip
def test_needs_java():
    pass
"""


def test_the_list_is_written_by_those_that_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test that is skipped here stays in the list: it may be slow elsewhere."""
    tests = tmp_path / "test_a.py"
    tests.write_text(TESTS)
    listed = tmp_path / "slow.txt"
    listed.write_text("test_a.py::test_needs_java\ntest_a.py::test_short\n")
    monkeypatch.setattr(turns, "SLOW", listed)
    alone = ["-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tests)]
    assert pytest.main(alone, plugins=[turns.Durations()]) == 0
    assert listed.read_text().split() == [
        *("test_a.py::test_long", "test_a.py::test_needs_java"),
    ]


@pytest.mark.parametrize("text", ["", "0/8", "9/8", "3", "3/0", "all/8"])
def test_a_turn_that_cannot_be_is_refused(text: str) -> None:
    """There is a turn from the first to the last."""
    with pytest.raises(pytest.UsageError, match="--turn takes"):
        turns.turn(text)


def test_slow_tests_are_there() -> None:
    """Each name of the list is that of a test function."""
    files: dict[str, set[str]] = {}
    for name in turns.slow_names():
        file, _, function = name.partition("::")
        if file not in files:
            tree = ast.parse((Path(__file__).parent / file).read_text(encoding="utf-8"))
            found = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
            files[file] = {one.name for one in found}
        assert function in files[file], f"{name} is not there (--update-slow)"
