"""Which way the user's code goes where a condition depends on an unknown value.

A condition for leaving (`if ...: raise`, also `continue`, `break` and `return`) is not
met, and an assertion holds. A `while` loop goes on until another of its conditions ends
it; without one, it has no usual length. Every other condition is false.
"""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_Place = tuple[int, int, int, int]
_LEAVING = (ast.Raise, ast.Continue, ast.Break, ast.Return)
_Tested = ast.Assert | ast.If | ast.IfExp | ast.While


@dataclass(frozen=True)
class Condition:
    """What a condition is for: its truth on the usual way, if the code tells it."""

    usual: bool | None = None
    is_of_loop: bool = False


def condition(frame: FrameType) -> Condition:
    """The condition that a frame tests now."""
    place = _place(frame)
    if place is None:
        return Condition()
    for tested in _tests(frame.f_code.co_filename):
        if not _covers(_span(tested.test), place) and _span(tested) != place:
            continue
        if isinstance(tested, ast.While) and not _has_other_end(tested.test):
            return Condition(is_of_loop=True)
        wanted = _wanted(tested)
        if wanted is not None:
            return Condition(_of_leaf(dict(_leaves(tested.test, wanted)), place))
    return Condition()


def _place(frame: FrameType) -> _Place | None:
    """Where the expression is that a frame computes."""
    places = list(frame.f_code.co_positions())
    first, last, begin, end = places[frame.f_lasti // 2]
    if first is None or last is None or begin is None or end is None:
        return None
    return first, begin, last, end


@lru_cache(maxsize=64)
def _tests(file: str) -> tuple[_Tested, ...]:
    """The statements of a file that test a condition, innermost first."""
    try:
        parsed = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ()
    found = [node for node in ast.walk(parsed) if isinstance(node, _Tested)]
    return tuple(reversed(found))


def _span(node: ast.expr | ast.stmt) -> _Place:
    return (
        node.lineno,
        node.col_offset,
        node.end_lineno or node.lineno,
        node.end_col_offset or node.col_offset,
    )


def _covers(outer: _Place, inner: _Place) -> bool:
    return outer[:2] <= inner[:2] and inner[2:] <= outer[2:]


def _has_other_end(test: ast.expr) -> bool:
    """Whether several conditions must hold: `while not done and length < 20`."""
    return isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)


def _wanted(tested: _Tested) -> bool | None:
    """The truth of the whole condition that goes on; None if either does."""
    if isinstance(tested, (ast.Assert, ast.While)):
        return True
    if isinstance(tested, ast.If):
        if isinstance(tested.body[-1], _LEAVING):
            return False
        if tested.orelse and isinstance(tested.orelse[-1], _LEAVING):
            return True
    return None


def _leaves(test: ast.expr, wanted: bool) -> list[tuple[_Place, bool]]:  # noqa: FBT001
    """The parts of a condition, and the truth of each that makes it as wanted."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _leaves(test.operand, not wanted)
    if isinstance(test, ast.BoolOp):
        return [leaf for value in test.values for leaf in _leaves(value, wanted)]
    return [(_span(test), wanted)]


def _of_leaf(leaves: dict[_Place, bool], place: _Place) -> bool | None:
    """The truth of the part that is tested; Python names the statement for some."""
    for leaf, wanted in leaves.items():
        if _covers(leaf, place):
            return wanted
    truths = set(leaves.values())
    return truths.pop() if len(truths) == 1 else None
