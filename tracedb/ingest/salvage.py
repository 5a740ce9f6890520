"""Read what can be read of a text that should be a list of events, and is none.

Events that decode where one is due are taken as they are. Where none does, reading goes
on at the next place at which an event decodes; what lies between is mended, whole or
piece by piece, and what cannot be mended is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from tracedb.ingest.json_text import (
    entries,
    is_utf8,
    joined,
    parts,
    read_value,
    value_end,
)
from tracedb.ingest.repair import STRING, mend, requote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracedb.ingest.issues import Issues

# Where the events of a format are.
LISTS = {"kineto": "traceEvents", "et": "nodes"}
# What tells an event from any other object: by the format of the file.
_FIELDS = {"kineto": {"ph"}, "et": {"id", "name"}}
_MARKS = {"kineto": re.compile(rb'"ph"\s*:'), "et": re.compile(rb'"id"\s*:')}
# How events usually begin, as opposed to objects within them.
_BEGINNINGS = {
    "kineto": re.compile(
        rb'[\[\],}]\s*(?=\{\s*"(?:ph|cat|name|pid|tid|ts|dur|id|bp|s|args)"\s*:)'
    ),
    # In schema 1.0.1 nodes begin with their name, as attributes do in later versions.
    "et": re.compile(
        rb'[\[\],}]\s*(?=\{\s*"(?:(?:id|ctrl_deps|attrs|rf_id|parent|inputs)"\s*:'
        rb'|name"\s*:\s*"[^"]*+"\s*,\s*"(?!type"|value")))'
    ),
}
_STRING_OR_BRACE = re.compile(STRING + rb"|[{}]", re.DOTALL)
_ENTRY = re.compile(rb"[^\s,]")
_ENTRY_END = re.compile(rb"\s*[,\]]")
_BLANK = b" \t\r\n,"
_BRACKET = re.compile(rb"\](?=\s*(?:[,}]|\Z))")
_MOST_BRACKETS = 1_000
_LONGEST_REQUOTED = 1 << 16
# How many times its size a text may be parsed in vain, and a free allowance [B].
_MOST_PASSES = 64
_HARMLESS = 1 << 24


class Search:
    """Looks for events in a text, and gives up if that takes too long.

    Deeply nested or unclosed text is parsed again from each brace in it. The events of
    real texts are found after parsing at most 64 times their size.
    """

    def __init__(self, text: bytes, form: str) -> None:
        """Take a text, and the format of the events to look for."""
        self._text = text
        self._form = form
        self._left = _HARMLESS + _MOST_PASSES * len(text)

    def first(self, start: int) -> int | None:
        """The first offset, from `start` on, at which an event can be read."""
        place = self._text.find(b"{", start)
        while place >= 0 and self._left > 0:
            if self.is_event_at(place):
                return place
            place = self._text.find(b"{", place + 1)
        return None

    def is_event_at(self, place: int) -> bool:
        """Whether an event can be read at an offset."""
        end, count = read_value(self._text, place)
        self._left -= count
        return end is not None and _is_event(self._text[place:end], self._form)

    def ends_list(self, place: int, *, is_bare: bool) -> bool:
        """Whether a bracket closes the list of events; False once it has given up."""
        self._left -= len(self._text) - place
        return self._left > 0 and ends_list(
            self._text[place:], self._form, is_bare=is_bare
        )


def count_events(text: bytes, form: str) -> int:
    """The estimated number of events in unreadable text."""
    return len(_MARKS[form].findall(text))


def ends_list(text: bytes, form: str, *, is_bare: bool) -> bool:
    """Whether the text from a bracket on closes the list of events, and the file.

    Nothing follows a bare list; otherwise fields of the header follow.
    """
    if is_bare:
        return not text[1:].strip()
    behind = parts(b'{"":[' + text)
    return behind is not None and LISTS[form] not in behind


def _is_event(text: bytes, form: str) -> bool:
    found = parts(text)
    return found is not None and found.keys() >= _FIELDS[form]


class Salvage:
    """The readable events of a text, from its beginning up to `end`."""

    def __init__(  # noqa: PLR0913 (what there is to know about a text)
        self,
        text: bytes,
        form: str,
        place: int,
        issues: Issues,
        *,
        is_bare: bool,
        is_last: bool,
    ) -> None:
        """Read a text at offset `place` of the file; `is_last` if it ends the file.

        Repairs and omissions are added to the issues.
        """
        self.events: list[bytes] = []
        self.end = 0
        self.is_closed = False
        """Whether a bracket at `end` may close the list."""
        self._text = text
        self._form = form
        self._place = place
        self._issues = issues
        self._is_bare = is_bare
        self._is_last = is_last
        self._is_utf8 = is_utf8(text)
        self._content_end = len(text.rstrip())
        self._search = Search(text, form)
        self._read()

    def _read(self) -> None:
        """Read one event after another; search for the next after unreadable text."""
        text, is_due = self._text, True
        while (start := self._begin(is_due=is_due)) < len(text):
            end = self._event_end(start)
            is_due = end is None
            if end is not None:
                self._keep(start, end)
            elif text[start] == ord("]"):
                self.end, self.is_closed = start, True
                return
            elif (end := self._list_end(start)) is not None:
                self._leave(start, end)
                is_due = False
            else:
                following = self._search.first(start + 1)
                if following is None:
                    self._read_rest(start)
                    return
                self._count_unread(self._mend(start, following), following)
                self.end = following

    def _event_end(self, start: int) -> int | None:
        """The end of the entry at `start`; None if it cannot be read.

        A last entry that contains events has swallowed them, with the list's end, and
        does not count.
        """
        text = self._text
        end = value_end(text, start) if text[start] == ord("{") else None
        if end is None or not self._is_last or end < self._content_end:
            return end
        swallowed = self._search.first(start + 1)
        return end if swallowed is None else None

    def _list_end(self, start: int) -> int | None:
        """The end of an entry that is a list; None if it is not one.

        A comma or bracket must follow it. Events in it do not belong to the trace.
        """
        text = self._text
        end = value_end(text, start) if text[start] == ord("[") else None
        behind = None if end is None else _ENTRY_END.match(text, end)
        return end if behind else None

    def _leave(self, start: int, end: int) -> None:
        """Leave out an entry that is a list, with its contents."""
        held = count_events(self._text[start:end], self._form)
        self._add("left out: entries that are not objects", start, max(1, held))
        self.end = end

    def _begin(self, *, is_due: bool) -> int:
        """The begin of the next entry; missing and extra commas are counted."""
        found = _ENTRY.search(self._text, self.end)
        start = found.start() if found else len(self._text)
        commas = self._text.count(b",", self.end, start)
        if found is None:
            return start
        if self._text[start] == ord("]"):
            self._add("repaired: trailing commas", self.end, commas)
        elif is_due:
            self._add("repaired: extra commas", self.end, commas)
        else:
            self._add("repaired: extra commas", self.end, max(0, commas - 1))
            self._add("repaired: missing commas", self.end, int(not commas))
        return start

    def _add(self, kind: str, place: int, count: int) -> None:
        if count:
            self._issues.add(kind, self._place + place, count)

    def _keep(self, start: int, end: int) -> None:
        """Keep a readable event, with bytes that are not UTF-8 replaced."""
        event = self._text[start:end]
        if not self._is_utf8 and not is_utf8(event):
            event, done = mend(event)
            self._issues.add_repaired(done, self._place + start)
        self.events.append(event)
        self.end = end

    def _read_rest(self, start: int) -> None:
        """Handle text in which no event begins: more may follow, or the list ends."""
        if not self._is_last:
            self.end = start
            return
        closing = self._closing(start)
        if closing is not None:
            self._count_unread(self._mend(start, closing), closing)
            self.end, self.is_closed = closing, True
            return
        unread = self._mend(start, len(self._text))
        self.end = len(self._text) if unread is None else unread
        if unread is not None:
            # The last one is cut off, which the caller reports.
            self._count_unread(unread, len(self._text), spared=1)

    def _closing(self, start: int) -> int | None:
        """The bracket that closes the list after unreadable events."""
        found = [f.start() for f in _BRACKET.finditer(self._text, start)]
        for place in found[-_MOST_BRACKETS:]:
            if self._search.ends_list(place, is_bare=self._is_bare):
                return place
        return None

    def _count_unread(self, start: int | None, stop: int, spared: int = 0) -> None:
        """Count the events in unreadable text, if it is not blank."""
        if start is None or not self._text[start:stop].strip(_BLANK):
            return
        count = count_events(self._text[start:stop], self._form)
        if count > spared:
            kind = "left out: events that cannot be read"
            self._add(kind, start, count - spared)
        elif not spared:
            self._add("left out: text that is not an event", start, 1)

    def _mend(self, start: int, stop: int) -> int | None:
        """Keep what can be repaired; return where the unreadable end begins, if any."""
        if self._take(start, stop, is_whole=True):
            return None
        found = _BEGINNINGS[self._form].finditer(self._text, start, stop)
        bounds = [start, *(begin.end() for begin in found), stop]
        unread = None
        for begin, end in pairwise(bounds):
            taken = self._take_one(begin, end)
            if taken is not None:
                self._count_unread(unread, begin)
                unread = taken if self._text[taken:end].strip(_BLANK) else None
            elif unread is None:
                unread = begin
        return unread

    def _take_one(self, start: int, stop: int) -> int | None:
        """Keep the event at `start` if it can be repaired; return its end."""
        for end in (stop, self._object_end(start, stop)):
            if self._take(start, end, is_whole=False):
                return end
        return None

    def _object_end(self, start: int, stop: int) -> int:
        """Where all braces are closed, outside of strings."""
        depth = 0
        for found in _STRING_OR_BRACE.finditer(self._text, start, stop):
            depth += (found[0] == b"{") - (found[0] == b"}")
            if depth <= 0 and found[0] == b"}":
                return found.end()
        return stop

    def _take(self, start: int, stop: int, *, is_whole: bool) -> bool:
        """Keep the events of a repairable text; of a part, all must be events."""
        piece = self._text[start:stop].strip(_BLANK)
        for text, done in _ways(piece):
            found = entries(joined([text]))
            if found is None or (not is_whole and not self._are_events(found)):
                continue
            events = [entry for entry in found if entry.startswith(b"{")]
            no_objects = len(found) - len(events)
            self._add("left out: entries that are not objects", start, no_objects)
            self._issues.add_repaired(done, self._place + start)
            self.events += events
            return True
        return False

    def _are_events(self, found: list[bytes]) -> bool:
        return bool(found) and all(_is_event(entry, self._form) for entry in found)


def _ways(text: bytes) -> Iterator[tuple[bytes, Counter[str]]]:
    """A text as it is, repaired, and repaired with quotes in names escaped."""
    if is_utf8(text):
        yield text, Counter()
    mended, done = mend(text)
    yield mended, done
    quoted = requote(text) if len(text) < _LONGEST_REQUOTED else text
    if quoted != text:
        mended, done = mend(quoted)
        yield mended, done + Counter({"unescaped quotes": 1})
