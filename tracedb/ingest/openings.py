"""Find where a file's own list of events opens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracedb.ingest.salvage import LISTS

if TYPE_CHECKING:
    from collections.abc import Iterator

ARRAYS = {key: form for form, key in LISTS.items()}
_OPENING = re.compile(rb'"(?P<key>traceEvents|nodes)"\s*:\s*\[')
# A string, the quote of an unclosed one, or a bracket.
_TOKEN = re.compile(rb'"(?:[^"\\]*+(?:\\.[^"\\]*+)*+")?|[\[\]{}]', re.DOTALL)
_EMPTY = re.compile(rb"\s*\]\s*,")
_OPENED = 1


class Openings:
    """Finds the lists of a text that begins with `{`, and may grow between calls.

    A list is the file's own if it is a field of the outermost object. Depth is counted
    from token to token, each once: to decode all that stands before a list, for every
    list that a value may hold, takes the square of the time.
    """

    def __init__(self) -> None:
        """Start at the beginning of a text."""
        self.empty: re.Match[bytes] | None = None
        """The file's own list, if it is empty and other fields follow."""
        self._judged = 0
        self._place = 0
        self._depth = 0

    def own(self, text: bytes) -> re.Match[bytes] | None:
        """The file's own list of events, unless it is empty."""
        for found in _OPENING.finditer(text, self._judged):
            self._judged = found.end()
            if not self._is_own(text, found.start()):
                continue
            if not _EMPTY.match(text, found.end()):
                return found
            self.empty = self.empty or found
        return None

    def _is_own(self, text: bytes, start: int) -> bool:
        while (token := _TOKEN.search(text, self._place)) and token.start() < start:
            if token[0] == b'"':
                return False  # everything that follows is in a string
            self._depth += (token[0] in b"[{") - (token[0] in b"]}")
            self._place = token.end()
        return self._place <= start and self._depth == _OPENED and text[:1] == b"{"


def before_events(text: bytes) -> Iterator[tuple[re.Match[bytes], int]]:
    """Every list that may open in a text, with the offset of its first brace."""
    brace = 0
    for found in _OPENING.finditer(text):
        if brace < found.end():
            brace = text.find(b"{", found.end())
            if brace < 0:
                return
            yield found, brace
