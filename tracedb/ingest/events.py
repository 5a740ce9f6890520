"""Cut a trace's text into chunks of whole events, without reading it all at once.

A chunk is valid if it decodes strictly as a list of events: a cut inside an event or a
string leaves a bracket or quote open, so a wrong cut never decodes. A text that no cut
makes valid is read event by event (`salvage`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from tracedb.errors import ForeignFileError, IngestError
from tracedb.ingest import json_text
from tracedb.ingest.issues import Issues
from tracedb.ingest.json_text import NOT_JSON, parts, place_behind
from tracedb.ingest.kineto import FINE
from tracedb.ingest.openings import ARRAYS, Openings, before_events
from tracedb.ingest.other_formats import (
    what_begins,
    what_has_keys,
    what_is_listed,
)
from tracedb.ingest.repair import mend
from tracedb.ingest.salvage import (
    LISTS,
    Salvage,
    Search,
    count_events,
    ends_list,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracedb.ingest.decompress import Text

CHUNK_BYTES = 4 << 20
_LARGEST_EVENT = 256 << 20
_LARGEST_HEADER = 64 << 20
_MOST_FALSE_ENDS = 100
_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
_SEPARATOR = re.compile(rb"\s*,?\s*")
# A list of whole traces instead of events.
_TRACES = re.compile(rb'\[\s*\{(?:(?!"ph"\s*:).)*?"traceEvents"\s*:\s*\[', re.DOTALL)
_BYTE = re.compile(r"\(byte (\d+)\)")
_BOM = b"\xef\xbb\xbf"
# The first bytes of a DuckDB file: a checksum of any value, this mark, and a version of
# 8 bytes, of which it uses one.
_DATABASE = re.compile(rb".{8}DUCK.\0{7}", re.DOTALL)
_MAGIC_BYTES = 20
_HEAD = 1 << 20
_TAIL = 1 << 16
_CUTS = 6
# [us] Up to here (the year 2033), sums of two times in ns are within 64 bits.
_LARGEST = 2_000_000_000_000_000


class Event(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The fields of a profiler's event, as raw text except for times."""

    ph: Raw = Raw()
    cat: Raw = Raw()
    name: Raw = Raw()
    pid: Raw = Raw()
    tid: Raw = Raw()
    ts: int | float = 0
    dur: int | float = 0
    id: Raw = Raw()
    bp: Raw = Raw()
    s: Raw = Raw()
    args: Raw = Raw()


@dataclass(frozen=True)
class Chunk:
    """Whole events as the text of a JSON list, with their position in the file."""

    text: bytes
    count: int
    place: int
    """The byte offset in the text at which it begins."""
    is_plain: bool
    """Whether all events have only the fields of `Event`, and times that a double
    represents to the nanosecond."""


_plain = msgspec.json.Decoder(list[Event])
_any = msgspec.json.Decoder(list[dict[str, Raw]])


class Cutter:
    """Cuts a text into chunks; `header`, `format` and `issues` are known at the end."""

    def __init__(self, text: Text, chunk_bytes: int = CHUNK_BYTES) -> None:
        """Take an unread text."""
        self.format = ""
        self.header: dict[str, Raw] = {}
        self.issues = Issues()
        self._text = text
        self._blocks = text.blocks()
        self._usual_bytes = self._chunk_bytes = chunk_bytes
        self._rest = b""
        self._place = 0
        self._before = b""
        self._openings = Openings()
        self._false_ends = 0
        self._is_over = False

    def chunks(self) -> Iterator[Chunk]:
        """Yield all events; raises `IngestError` if the text has none."""
        self._open()
        while not self._is_over:
            self._fill(self._chunk_bytes)
            yield from self._next()

    # ---- Reading

    def _fill(self, size: int) -> bool:
        """Read until `size` bytes are available; return whether they are."""
        pieces, there = [self._rest], len(self._rest)
        while there < size:
            block = next(self._blocks, b"")
            if not block:
                break
            pieces.append(block)
            there += len(block)
        self._rest = b"".join(pieces)
        return there >= size

    def _take(self, size: int) -> None:
        """Skip `size` bytes."""
        self._rest = self._rest[size:]
        self._place += size

    def _take_separator(self) -> None:
        found = _SEPARATOR.match(self._rest)
        self._take(found.end() if found else 0)

    def _take_blank(self) -> None:
        """Skip blanks, reading on if necessary."""
        while True:
            self._take(len(self._rest) - len(self._rest.lstrip()))
            if self._rest or not self._fill(1):
                return

    # ---- The begin of the list

    def _open(self) -> None:
        """Find the list of events: read up to it, and keep what precedes it."""
        self._fill(_MAGIC_BYTES)
        if _DATABASE.match(self._rest):
            raise ForeignFileError(f"{self._text.path}: a database, not a trace")
        if self._rest.startswith(_BOM):
            self._take(len(_BOM))
        self._take_blank()
        if self._rest.startswith(b"["):
            self._fill(_HEAD)
            if not _TRACES.match(self._rest):
                self._open_bare()
                return
            self._take(1)
            self._take_blank()
        size = len(self._rest)
        while not self._find_array():
            size = max(1, 2 * size)
            if size > _LARGEST_HEADER or not self._fill(size):
                self._open_last()
                return

    def _open_last(self) -> None:
        """Find the list in the text read so far, or raise: there is no more."""
        if self._find_array() or self._find_after_broken():
            return
        # An empty list counts if there is no other.
        if self._openings.empty is None:
            raise self._foreign()
        self._enter(self._openings.empty)

    def _open_bare(self) -> None:
        """Enter a list that is the whole file, if it has events."""
        self.format = "kineto"
        self._take(1)
        if b'"ph"' not in self._rest:
            self._fill(_LARGEST_HEADER)
        if b'"ph"' not in self._rest and self._rest.lstrip()[:1] not in (b"", b"]"):
            what = what_is_listed(b"[" + self._rest)
            raise ForeignFileError(
                f"{self._text.path}: {what or 'a JSON list, but not of trace events'}"
            )

    def _find_array(self) -> bool:
        opening = self._openings.own(self._rest)
        if opening is not None:
            self._enter(opening)
        return opening is not None

    def _enter(self, opening: re.Match[bytes]) -> None:
        """Enter a list; keep what precedes it, if that can be read."""
        self.format = ARRAYS[opening["key"].decode()]
        before = self._rest[: opening.end()]
        if not _is_header(before, opening["key"].decode()):
            lost = count_events(before, self.format)
            kind = "left out: data before the list"
            self.issues.add(kind, self._place, max(1, lost))
            before = b"{" + opening[0]
        self._before = before
        self._take(opening.end())

    def _find_after_broken(self) -> bool:
        """Find a list that begins with an event, after a header that is not JSON."""
        searches = {form: Search(self._rest, form) for form in LISTS}
        for opening, brace in before_events(self._rest):
            form = ARRAYS[opening["key"].decode()]
            if searches[form].is_event_at(brace):
                self._enter(opening)
                return True
        return False

    def _foreign(self) -> IngestError:
        path, text = self._text.path, self._rest
        if self._text.damage:
            return IngestError(f"{path}: {self._text.damage}, before any event")
        if not text:
            return ForeignFileError(f"{path}: is empty")
        found = parts(text)
        if found is None:
            return self._unreadable()
        for key in LISTS.values() & found.keys():
            return ForeignFileError(f"{path}: its {key} are not a list")
        if what := what_has_keys(found):
            return ForeignFileError(f"{path}: {what}")
        keys = ", ".join(key[:40] for key in sorted(found)[:5]) or "none"
        return ForeignFileError(
            f"{path}: neither a profiler trace (no traceEvents) nor an execution graph "
            f"(no nodes); its keys are {keys}"
        )

    def _unreadable(self) -> IngestError:
        """The error for a text that is not a JSON object and has no list of events."""
        path, text = self._text.path, self._rest
        is_like = any(key.encode() in text for key in ARRAYS)
        what = "" if is_like else what_begins(text)
        if what:
            return ForeignFileError(f"{path}: {what}")
        why = json_text.why_no_object(text)
        is_json = "trailing characters" in why or "no object" in why
        line = parts(text.splitlines()[0]) if is_json else None
        if line is not None:
            if what := what_has_keys(line):
                return ForeignFileError(f"{path}: {what}")
            why = "JSON objects line by line (NDJSON), not one"
        kind = IngestError if is_like and not is_json else ForeignFileError
        return kind(f"{path}: {why}; not a trace")

    # ---- The events

    def _next(self) -> Iterator[Chunk]:
        """Yield the whole events in the text read so far."""
        is_last = len(self._rest) < self._chunk_bytes
        ends = iter([len(self._rest)]) if is_last else islice(self._cuts(), _CUTS)
        for end in ends:
            found = _judge(self._rest, end)
            if found.verdict == "closed":
                found = _judge(self._rest, found.end, is_closed=True)
            if found.text and (found.is_closed or not is_last):
                yield from self._judged(found)
                return
            if found.verdict != "cut":
                break
        yield from self._salvaged(is_last=is_last)

    def _cuts(self) -> Iterator[int]:
        """Ends of events that are followed by another one, the likely ones first."""
        for start in (max(0, self._chunk_bytes - _TAIL), 0):
            within = _BETWEEN.finditer(self._rest, start, self._chunk_bytes)
            for found in reversed(list(within)):
                yield found.start() + 1

    def _judged(self, found: _Judged) -> Iterator[Chunk]:
        is_plain = found.verdict == "plain"
        yield from self._chunk(found.text, found.count, is_plain=is_plain)
        self._continue(found.end, is_closed=found.is_closed, is_last=False)

    def _salvaged(self, *, is_last: bool) -> Iterator[Chunk]:
        found = Salvage(
            self._rest if is_last else self._rest[: self._chunk_bytes],
            self.format,
            self._place,
            self.issues,
            is_bare=not self._before,
            is_last=is_last,
        )
        if not (found.end or found.is_closed or is_last):
            self._grow()
            return
        text = json_text.joined(found.events)
        yield from self._chunk(text, len(found.events), is_plain=False)
        self._continue(found.end, is_closed=found.is_closed, is_last=is_last)

    def _grow(self) -> None:
        """Enlarge chunks, because an event is larger than a chunk."""
        self._chunk_bytes *= 2
        if self._chunk_bytes > _LARGEST_EVENT:
            raise IngestError(
                f"{self._text.path}: no event can be read in the {_LARGEST_EVENT >> 20}"
                f" MB from byte {self._place:,} on"
            )

    def _chunk(self, text: bytes, count: int, *, is_plain: bool) -> Iterator[Chunk]:
        if count:
            yield Chunk(text, count, self._place, is_plain)

    def _continue(self, end: int, *, is_closed: bool, is_last: bool) -> None:
        """Continue after the events up to `end`."""
        self._chunk_bytes = self._usual_bytes
        self._take(end)
        if is_closed:
            self._close()
        elif is_last:
            self._report_cut()
            self._finish(b"]}")
        else:
            self._take_separator()

    # ---- The end of the list

    def _close(self) -> None:
        """Read what follows a bracket, if it ends the list."""
        goes_on = self._fill(_LARGEST_HEADER)
        is_end = not goes_on and ends_list(
            self._rest, self.format, is_bare=not self._before
        )
        following = None if is_end else Search(self._rest, self.format).first(1)
        if following is not None:
            self._pass_over(following)
        elif goes_on:
            raise IngestError(
                f"{self._text.path}: more than 64 MB after the list of events"
            )
        else:
            self._report_damage()
            self._finish(self._rest)

    def _pass_over(self, following: int) -> None:
        """Continue with the next event: the list was closed too early."""
        self._false_ends += 1
        if self._false_ends > _MOST_FALSE_ENDS:
            raise IngestError(
                f"{self._text.path}: more than {_MOST_FALSE_ENDS} lists of events, the "
                f"last before byte {self._place:,}; put each into a file of its own"
            )
        self.issues.add("left out: text that is not an event", self._place)
        self._take(following)

    def _report_cut(self) -> None:
        """Count an issue if the file ends within the list."""
        is_whole_list = not self._before and not self._rest.strip(b", \t\r\n")
        if not is_whole_list or self._text.damage:
            what = self._text.damage or "the file ends within its list of events"
            self.issues.add(f"cut off: {what}", self._place)

    def _report_damage(self) -> None:
        if self._text.damage:
            self.issues.add(f"cut off: {self._text.damage}", self._place)

    def _finish(self, behind: bytes) -> None:
        """Build the header, given the text from the closing bracket on."""
        self._is_over = True
        if not self._before:
            if behind.strip() not in {b"]", b"]}"}:
                self._report_after(behind)
            return
        text = self._before + behind
        found = parts(text)
        if found is None or not json_text.is_utf8(text):
            text, _done = mend(text)
            found = parts(text)
            if found is not None:
                self.issues.add("repaired: data beside the list", self._place)
        if found is None:
            self._report_after(behind)
            text, _done = mend(self._before + b"]}")
            found = parts(text) or {}
        self._report_repeated(text, found)
        own = LISTS[self.format]
        self.header = {key: part for key, part in found.items() if key != own}

    def _report_repeated(self, text: bytes, fields: dict[str, Raw]) -> None:
        repeated = json_text.field_count(text) - len(fields)
        if repeated > 0:
            self.issues.add(json_text.REPEATED, 0, repeated)

    def _report_after(self, text: bytes) -> None:
        lost = max(1, count_events(text, self.format))
        self.issues.add("left out: data after the list", self._place, lost)


def _is_header(text: bytes, key: str) -> bool:
    """Whether the text before a list can be read, or repaired."""
    closed = text + b"]}"
    found = parts(closed)
    if found is None:
        found = parts(mend(closed)[0])
    return found is not None and bytes(found.get(key, Raw())) == b"[]"


@dataclass(frozen=True)
class _Judged:
    """The result of decoding a text as a list of events."""

    verdict: str
    """`plain` events; events with other `fields`; a list that is `closed` inside; a
    `cut` through an event; or `broken` text."""
    end: int
    """The length of the text that this concerns."""
    text: bytes = b""
    count: int = 0
    is_closed: bool = False


def _judge(rest: bytes, end: int, *, is_closed: bool = False) -> _Judged:
    """Decode a text up to `end`, where its list may be closed."""
    text = b"".join((b"[", memoryview(rest)[:end], b"]"))
    verdict, events = "plain", []
    try:
        events = _plain.decode(text)
        if not _are_exact(events):
            verdict = "fields"
    except msgspec.ValidationError:
        verdict = "fields"
    except NOT_JSON as error:
        return _judge_error(text, end, error)
    count = len(events)
    if verdict == "fields":
        try:
            count = len(_any.decode(text))
        except NOT_JSON as error:
            return _judge_error(text, end, error)
    if not json_text.is_utf8(text):
        return _Judged("broken", end)
    return _Judged(verdict, end, text, count, is_closed)


def _are_exact(events: list[Event]) -> bool:
    """Whether doubles represent all times to the nanosecond."""
    return _fits([event.ts for event in events]) and _fits([e.dur for e in events])


def _fits(times: list[int | float]) -> bool:
    largest = max(max(times, default=0), -min(times, default=0))
    is_whole = largest < _LARGEST and set(map(type, times)) == {int}
    return largest < FINE or is_whole


def _judge_error(text: bytes, end: int, error: Exception) -> _Judged:
    """Classify an error: the list is closed, the cut is wrong, or it is not JSON."""
    behind = place_behind(str(error))
    if behind is not None:
        return _Judged("closed", text.rindex(b"]", 0, behind) - 1)
    found = _BYTE.search(str(error))
    is_at_the_end = found is not None and int(found[1]) >= len(text) - 1
    is_cut = is_at_the_end or "truncated" in str(error)
    return _Judged("cut" if is_cut else "broken", end)
