"""Cut a trace's text into chunks of whole events, without reading it all at once.

A chunk is right if it decodes strictly as a list of events: a cut inside an event or a
string leaves something open, so a wrong cut never decodes. What does not decode though
the cut is right is mended, and events that cannot be mended are left out; both are
counted with their place in the text.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from tracedb.errors import ForeignFileError, IngestError
from tracedb.ingest.repair import LONE_SURROGATE, mend, requote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracedb.ingest.decompress import Text

CHUNK_BYTES = 8 << 20
_LARGEST_HEADER = 64 << 20
_ARRAYS = {"traceEvents": "kineto", "nodes": "et"}
_OPENING = re.compile(rb'"(?P<key>traceEvents|nodes)"\s*:\s*\[')
_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
_BYTE = re.compile(r"\(byte (\d+)\)")
_BOM = b"\xef\xbb\xbf"
_SEPARATORS = b", \t\r\n"
_TAIL = 1 << 16
_CLOSING = re.compile(rb'\](?=\s*(?:,\s*"[^"]*"\s*:|\}?\s*\Z))')
_END_OF_LIST = re.compile(rb"\]\s*\Z")
_END_OF_OBJECT = re.compile(rb"\]\s*\}\s*\Z")
_BEGINNING = re.compile(rb'\{\s*"(?:ph|cat|name|pid|tid|ts|dur|id|bp|s|args)"\s*:')


class Event(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The fields that a profiler's event may have, each as its text."""

    ph: Raw = Raw()
    cat: Raw = Raw()
    name: Raw = Raw()
    pid: Raw = Raw()
    tid: Raw = Raw()
    ts: Raw = Raw()
    dur: Raw = Raw()
    id: Raw = Raw()
    bp: Raw = Raw()
    s: Raw = Raw()
    args: Raw = Raw()


@dataclass
class Issues:
    """What was mended or left out, by kind: how often, and where first."""

    counts: Counter[str] = field(default_factory=Counter)
    first_bytes: dict[str, int | None] = field(default_factory=dict)

    def add(self, kind: str, place: int | None, count: int = 1) -> None:
        """Count an issue, with its byte in the text if it has one."""
        self.counts[kind] += count
        self.first_bytes.setdefault(kind, place)


@dataclass(frozen=True)
class Chunk:
    """Whole events as the text of a JSON list, with their place in the file."""

    text: bytes
    count: int
    first: int
    place: int
    """The byte of the text at which it begins."""
    is_plain: bool
    """Whether each event has no other fields than those of `Event`."""


_plain = msgspec.json.Decoder(list[Event])
_any = msgspec.json.Decoder(list[dict[str, Raw]])


class Cutter:
    """Cuts a text into chunks; `header`, `format` and `issues` are known at the end."""

    def __init__(self, text: Text, chunk_bytes: int = CHUNK_BYTES) -> None:
        """Take a text that has not been read from."""
        self.format = ""
        self.header: dict[str, Raw] = {}
        self.issues = Issues()
        self.count = 0
        self._text = text
        self._blocks = text.blocks()
        self._chunk_bytes = chunk_bytes
        self._rest = b""
        self._place = 0
        self._before = b""
        self._is_closed = False
        self._is_over = False

    def chunks(self) -> Iterator[Chunk]:
        """Yield all events; raises `IngestError` where the text holds none."""
        self._open()
        while not self._is_over:
            self._fill()
            yield from self._next()
        self._close()

    def _read(self) -> bool:
        block = next(self._blocks, b"")
        self._rest += block
        return bool(block)

    def _fill(self) -> None:
        pieces, size = [self._rest], len(self._rest)
        while size < self._chunk_bytes:
            block = next(self._blocks, b"")
            if not block:
                break
            pieces.append(block)
            size += len(block)
        self._rest = b"".join(pieces)

    def _open(self) -> None:
        """Find the list of events: read up to it, and keep what stands before."""
        self._read()
        self._rest = self._rest.removeprefix(_BOM).lstrip()
        if self._rest.startswith(b"["):
            self.format = "kineto"
            self._take(1)
            if b'"ph"' not in self._rest and self._rest.lstrip()[:1] not in (b"", b"]"):
                raise ForeignFileError(
                    f"{self._text.path}: a JSON list, but not of trace events"
                )
            return
        while not self._find_array():
            if len(self._rest) > _LARGEST_HEADER or not self._read():
                raise self._foreign()

    def _find_array(self) -> bool:
        for found in _OPENING.finditer(self._rest):
            header = self._rest[: found.end()]
            key = found["key"].decode()
            if self._is_header(header, key):
                self.format = _ARRAYS[key]
                self._before = header
                self._take(found.end())
                return True
        return False

    def _is_header(self, text: bytes, key: str) -> bool:
        """Whether the list that opens here is the file's own, not one in a value."""
        parts = _parts(text + b"]}") or _parts(mend(text + b"]}")[0])
        return parts is not None and bytes(parts.get(key, Raw())) == b"[]"

    def _take(self, size: int) -> bytes:
        taken, self._rest = self._rest[:size], self._rest[size:]
        self._place += size
        return taken

    def _next(self) -> Iterator[Chunk]:
        """Yield the events that lie whole in what was read."""
        if len(self._rest) < self._chunk_bytes:
            self._is_over = True
            yield from self._taken(self._resolved(len(self._rest)))
            return
        for end in self._cuts():
            found = self._resolved(end)
            if found.verdict != "cut":
                yield from self._taken(found)
                return
        # One event larger than a chunk: let chunks be larger.
        self._chunk_bytes *= 2

    def _cuts(self) -> Iterator[int]:
        """Ends of events that another follows, the likely ones first."""
        for start in (max(0, len(self._rest) - _TAIL), 0):
            for found in reversed(list(_BETWEEN.finditer(self._rest, start))):
                yield found.start() + 1

    def _resolved(self, end: int) -> _Judged:
        """Judge the text up to a place, mended if need be."""
        found = _judge(self._rest[:end])
        if found.verdict == "closed":
            self._is_closed = True
            return _judge(self._rest[: found.end])
        if found.verdict == "broken":
            found = self._mended(end)
        if found.verdict == "broken" or (found.verdict == "cut" and self._is_over):
            return self._salvaged(end)
        return found

    def _mended(self, end: int) -> _Judged:
        """Mend the text up to a place, judge it anew, and count what was mended."""
        text, done = mend(self._rest[:end])
        found = _judge(text)
        if found.verdict in {"plain", "fields"}:
            self._count_mended(done, 0)
        elif found.verdict == "closed":
            # Where the list ends in the text as it stands is for the salvage to find.
            found = replace(found, verdict="broken")
        return replace(found, end=end)

    def _count_mended(self, done: Counter[str], offset: int) -> None:
        for kind, times in (+done).items():
            self.issues.add(f"mended: {kind}", self._place + offset, times)

    def _taken(self, found: _Judged) -> Iterator[Chunk]:
        """Take what was judged off the rest, and yield it."""
        if self._is_over and not self._is_closed:
            self._tell_cut(found.end)
        place = self._place
        self._take(found.end)
        if self._is_closed:
            self._is_over = True
        else:
            self._take(len(self._rest) - len(self._rest.lstrip(_SEPARATORS)))
        if found.count:
            is_plain = found.verdict == "plain"
            yield Chunk(found.text, found.count, self.count, place, is_plain)
            self.count += found.count

    def _tell_cut(self, end: int) -> None:
        """Count it as an issue if the file ends where it should go on."""
        is_whole_list = not self._before and not self._rest[end:].strip(_SEPARATORS)
        if not is_whole_list or self._text.damage:
            what = self._text.damage or "the file ends inside its list of events"
            self.issues.add(f"cut off: {what}", self._place + end)

    def _salvaged(self, end: int) -> _Judged:
        """Entry by entry: keep those that can be read, mended if need be."""
        kept: list[bytes] = []
        for start, entry in _entries(self._rest[:end]):
            text, done = _read_entry(entry)
            closed = None if text else _closing(entry, is_list=not self._before)
            is_last = not self._rest[start + len(entry) : end].strip(_SEPARATORS)
            if closed is not None:
                self._is_closed, end = True, start + closed
                text, done = _read_entry(entry[:closed].strip(_SEPARATORS))
                done["trailing commas"] += entry[:closed].rstrip().endswith(b",")
            elif not text and is_last and (kept or self._is_over):
                # The last one: cut off, or the cut went through it.
                end = start
                break
            if text:
                kept.append(text)
                self._count_mended(done, start)
            else:
                kind = "left out: events that are no JSON objects"
                self.issues.add(kind, self._place + start)
            if closed is not None:
                break
        return _Judged("fields", end, b"[" + b",".join(kept) + b"]", len(kept))

    def _close(self) -> None:
        """Read what stands behind the list, and put the header together."""
        while self._read():
            if len(self._rest) > _LARGEST_HEADER:
                raise IngestError(
                    f"{self._text.path}: more than 64 MB behind the list of events"
                )
        is_cut_off = any(kind.startswith("cut off") for kind in self.issues.counts)
        if self._text.damage and not is_cut_off:
            self.issues.add(f"cut off: {self._text.damage}", self._place)
        if self._before:
            behind = b"" if is_cut_off else self._rest
            self.header = self._header(self._before + (behind.strip() or b"]}"))

    def _header(self, text: bytes) -> dict[str, Raw]:
        """What stands beside the list, given the text before it and behind it."""
        parts = _parts(text)
        if parts is None:
            parts = _parts(mend(text)[0])
            kind = "left out: what stands behind the list" if parts is None else ""
            self.issues.add(kind or "mended: what stands beside the list", self._place)
        if parts is None:
            parts = _parts(mend(self._before + b"]}")[0]) or {}
        return {name: part for name, part in parts.items() if name not in _ARRAYS}

    def _foreign(self) -> IngestError:
        path, text = self._text.path, self._rest
        if self._text.damage:
            return IngestError(f"{path}: {self._text.damage}, before any event")
        parts = _parts(text)
        if parts is None:
            why = _why_no_json(text)
            is_json = "trailing characters" in why or "no object" in why
            kind = ForeignFileError if is_json else IngestError
            return kind(f"{path}: {why}; not a trace")
        keys = ", ".join(sorted(parts)[:5]) or "none"
        return ForeignFileError(
            f"{path}: neither a profiler trace (no traceEvents) nor an execution graph "
            f"(no nodes); its keys are: {keys}"
        )


def _parts(text: bytes) -> dict[str, Raw] | None:
    try:
        return msgspec.json.decode(text, type=dict[str, Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _why_no_json(text: bytes) -> str:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return str(error)
    return "a JSON value that is no object"


@dataclass(frozen=True)
class _Judged:
    """What a text is as a list of events, and how much of it that says."""

    verdict: str
    """`plain` events; others have `fields` of their own; the list is `closed` inside;
    a `cut` goes through an event; or it is `broken`."""
    end: int
    text: bytes = b"[]"
    count: int = 0


def _judge(text: bytes) -> _Judged:
    body = text.strip(_SEPARATORS)
    listed = b"[" + body + b"]"
    try:
        return _Judged("plain", len(text), listed, len(_plain.decode(listed)))
    except msgspec.ValidationError:
        pass
    except (UnicodeDecodeError, RecursionError):
        return _Judged("broken", len(text))
    except msgspec.DecodeError as error:
        return _judge_error(text, listed, str(error))
    try:
        return _Judged("fields", len(text), listed, len(_any.decode(listed)))
    except (msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        return _Judged("broken", len(text))
    except msgspec.DecodeError as error:
        return _judge_error(text, listed, str(error))


def _judge_error(text: bytes, listed: bytes, error: str) -> _Judged:
    """Tell where a list is closed, whether a cut is wrong, or that text is no JSON."""
    found = _BYTE.search(error)
    place = int(found[1]) if found else len(listed)
    if "trailing characters" in error:
        skipped = len(text) - len(text.lstrip(_SEPARATORS))
        # The reader has taken the first byte behind the list when it says so.
        return _Judged("closed", listed.rindex(b"]", 0, place - 1) - 1 + skipped)
    # The reader calls text truncated, too, where the second half of a character lacks.
    is_open = "truncated" in error and not LONE_SURROGATE.search(text)
    at_the_end = is_open or (found is not None and place >= len(listed) - 1)
    return _Judged("cut" if at_the_end else "broken", len(text))


def _entries(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Split a list's text into its entries, each with its place, whatever is in them.

    What lies between two ends of objects is an entry, unless it is no JSON and the next
    one does not begin as an event does: then both are one, cut inside a value.
    """
    bounds = [0, *(found.end() for found in _BETWEEN.finditer(text)), len(text)]
    start = bounds[0]
    for here, there in pairwise(bounds[1:]):
        entry = text[start:here].strip(_SEPARATORS)
        if _read_entry(entry)[0] or _BEGINNING.match(text, here, there):
            yield start, entry
            start = here
    if text[start:].strip(_SEPARATORS):
        yield start, text[start:].rstrip(_SEPARATORS)


def _read_entry(entry: bytes) -> tuple[bytes, Counter[str]]:
    """An entry as text of an object, and what was mended; empty if it is none."""
    text, done = mend(entry)
    if _parts(text) is None:
        text, done = requote(text), Counter({"unescaped quotes": 1})
    return (text, done) if _parts(text) is not None else (b"", Counter())


def _closing(entry: bytes, *, is_list: bool) -> int | None:
    """Where the list closes in its last entry, with what stands behind the list."""
    for found in _CLOSING.finditer(entry):
        before = entry[: found.start()].strip(_SEPARATORS)
        if not before or _read_entry(before)[0]:
            return found.start()
    end = (_END_OF_LIST if is_list else _END_OF_OBJECT).search(entry)
    return end.start() if end else None
