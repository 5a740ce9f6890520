"""Long names on a page: each is there once, and cells have its number."""

from __future__ import annotations

from typing import Any

from tracedb.words import shortened

_MOST_CHARACTERS = 1_000_000
"""How long all names together may be; beyond it, the longest ones are cut."""
_LONGEST = (100_000, 10_000, 2_000, 400, 200)
SHORT = 32
"""The longest text that a cell has itself, in characters."""


class Names:
    """Texts referred to by number."""

    def __init__(self) -> None:
        """Begin with the empty text."""
        self._numbers: dict[str, int] = {"": 0}

    def number(self, name: str | None) -> int:
        """The number of a text."""
        return self._numbers.setdefault(name or "", len(self._numbers))

    @property
    def all(self) -> list[str]:
        """The texts in order of their numbers: whole, unless they are too long.

        Then the longest are cut in the middle.

        >>> names = Names()
        >>> [names.number(name) for name in ["a" * 10**6, "b" * 10**4, "c"]]
        [1, 2, 3]
        >>> [*map(len, names.all)]
        [0, 100000, 10000, 1]
        """
        lengths = [*map(len, self._numbers)]
        longest = next(
            (
                most
                for most in _LONGEST
                if sum(min(length, most) for length in lengths) <= _MOST_CHARACTERS
            ),
            _LONGEST[-1],
        )
        return [shortened(name, longest) for name in self._numbers]


def numbered(sections: list[dict[str, Any]]) -> list[str]:
    """Replace long texts in sections by a list of their number; return the texts."""
    names = Names()
    for section in sections:
        section["rows"] = [
            [
                [names.number(value)]
                if isinstance(value, str) and len(value) > SHORT
                else value
                for value in row
            ]
            for row in section["rows"]
        ]
        section["short"] = {
            column: {names.number(name): cut for name, cut in short.items()}
            for column, short in section["short"].items()
        }
    return names.all
