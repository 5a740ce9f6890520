"""Whole numbers as text: one, or a range of some."""

from __future__ import annotations

import re

_RANGE = re.compile(r"(\d{1,15})\.\.(\d{1,15})(?::(\d{1,6}))?")
MOST = 10_000
"""The most values of a sweep."""


def whole_numbers(text: str) -> list[int]:
    """The numbers from 1 on that a text asks for: one, doubling, or equally spaced.

    >>> whole_numbers("300"), whole_numbers("256..2048"), whole_numbers("1..10:4")
    ([300], [256, 512, 1024, 2048], [1, 4, 7, 10])

    Raises `ValueError` for another text. A count above `MOST` gives one more than that.
    """
    matched = _RANGE.fullmatch(text)
    if matched is None:
        if not re.fullmatch(r"0*[1-9]\d{0,14}", text):
            raise ValueError(
                f"{text} is neither a whole number from 1 nor a range such as "
                "256..65536, or 256..65536:20 with a count"
            )
        return [int(text)]
    low, high = int(matched[1]), int(matched[2])
    if not 0 < low <= high:
        raise ValueError(f"{text} does not ascend from 1 or more")
    if matched[3] is None:
        return _doubled(low, high)
    if not int(matched[3]):
        raise ValueError(f"{text} asks for none of them")
    return _spaced(low, high, min(int(matched[3]), MOST + 1))


def _doubled(low: int, high: int) -> list[int]:
    """Double from `low`; end with `high`.

    >>> _doubled(100, 500)
    [100, 200, 400, 500]
    """
    found = []
    while low < high:
        found.append(low)
        low *= 2
    return [*found, high]


def _spaced(low: int, high: int, count: int) -> list[int]:
    """`count` equally spaced integers from `low` to `high`, duplicates dropped.

    >>> _spaced(1, 10, 4), _spaced(1, 3, 9)
    ([1, 4, 7, 10], [1, 2, 3])
    """
    gaps = max(count - 1, 1)
    sizes = [low + round((high - low) * number / gaps) for number in range(count)]
    return list(dict.fromkeys(sizes))
