"""Mutate small trace files, ingest them, and check laws of the outcome.

python tests/fuzz.py --count 10000 --seed 0

A mutant follows from its number and the seed. What is expected comes from here and not
from the reader under test: a slow scanner tries to decode an event at every `{`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache, partial
from inspect import signature
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, process_time
from typing import Any, NamedTuple
from unittest.mock import patch

import everything

import tracedb
from tracedb import catalog
from tracedb.ingest import decompress, events, ingest

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
SAMPLES = ROOT / "sample_traces"

# Small files of every age; without the corpus its files are left out.
SOURCES = (
    SAMPLES / "generated_gpu" / "rank0.kineto.json.gz",
    SAMPLES / "ddp_gloo" / "rank1.kineto.json.gz",
    SAMPLES / "ddp_gloo" / "rank1.et.json.gz",
    CORPUS / "tracelens" / "decode_graph" / "deepseek_r1_B300.json.gz",
    CORPUS / "kineto" / "resnet50_w4_2020list.json.gz",
    CORPUS / "kineto" / "resnet50_w0_2021a.json.gz",
    CORPUS / "hta" / "amd_trace" / "mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    CORPUS / "hta" / "ns_resolution_rank0.json.gz",
    CORPUS / "param" / "et" / "1.0.3_resnet_1gpu_et.json.gz",
)
EVENTS_OF_A_BASE = 60
TRIES_OF_A_DATABASE = 100
EVERY_LAYER_EACH = 4
AGAIN_EACH = 4
# Planning all views takes ten seconds, however few traces there are.
TRACES_AT_ONCE = 100
MOST_SECONDS = 10.0
LONGEST_MESSAGE = 1_000
# Bytes that the reader takes at once: few, so that small files have many chunks.
CHUNKS = (None, 3_000, 10_000)
BLOCKS = (None, 700)

TOKENS = (b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"'")
HOSTILE = (
    b"\x00",
    b"\x01\x1f\x7f",
    b"\n",
    b"\xff\xfe",
    b"\xc3",
    b"\xed\xa0\x80",
    b"inf",
    b"-Infinity",
    b"nan(ind)",
    b"null",
    b"true",
    b"9" * 40,
    b"1e999",
    b"-",
    b"\\ud800",
    b"\\udc00\\ud800",
    b"\\u12",
    b"\\",
    b"C:\\new\\x",
    b'"',
    b'""',
    b'"}',
    b'"}]}',
    b"]}",
    b"},{",
    b"/* no */",
    b"'; DROP TABLE raw.event; --",
    b"<script>",
    b"\x1b[31m",
    b"\xe2\x80\xae\xe2\x80\xa8",
    b"a" * 20_000,
    b"[" * 3_000,
    b"[" * 1_200 + b"]" * 1_200,
    b'{"a":' * 1_100 + b"1" + b"}" * 1_100,
    b'{"traceEvents": [',
    b'"traceEvents": [], ',
    b'{"ph": "X", "name": "new", "ts": 1, "dur": 1},',
    b'"ph": "B", ',
    b'"ts": "soon", ',
    b'"dur": -5, ',
    b'"args": null, ',
    b'"args": "text", ',
    b'"name": 5, ',
    b'"pid": {"a": []}, ',
)
# Values of the wrong type or range for a field.
ODD_VALUES = (
    *(b"-9223372036854775808", b"9223372036854775807", b"9223372036854775808"),
    *(b"4611686018427387904", b"1099511627776", b"-1", b"0", b"1.5", b"-0.0"),
    *(b"3.2e15", b"9e18", b"1e300", b"-1e300", b"5e-324", b"1" * 400, b"NaN"),
    *(b"-Infinity", b"true", b"false", b"null", b'""', b'" "', b'"abc"', b'"12"'),
    *(b'"-7.5"', b'"1e400"', b'"0x10"', b'"[[1, 2"', b'"\\u0000"'),
    *(b'"\\ud83d\\ude00"', b"[]", b"{}", b"[[]]", b"[1e300, true]"),
    *(b"[[1099511627776, 1099511627776]]", b"[[-9223372036854775808, 1]]"),
    *(b'[[[1.5, "x"], null]]', b'{"a": {"b": []}}', b'"' + b"9" * 5_000 + b'"'),
)
RENAMES = (
    (b'"ph"', b'"phase"'),
    (b'"name"', b'"nom"'),
    (b'"ts"', b'"TS"'),
    (b'"args"', b'"Args"'),
    (b'"dur"', b'"ts"'),
    (b'"cat"', b'"ca\\u0074"'),
    (b'"tid"', b'""'),
    (b'"traceEvents"', b'"nodes"'),
    (b'"nodes"', b'"traceEvents"'),
    (b'"traceEvents"', b'"events"'),
    (b'"id"', b'"name"'),
    (b'"X"', b'"B"'),
    (b'"X"', b'"E"'),
    (b'"M"', b'"X"'),
)

Event = dict[str, Any]
Span = tuple[int, int]


@dataclass(frozen=True)
class Base:
    """A valid trace file, and where its events are."""

    name: str
    text: bytes
    spans: tuple[Span, ...]
    format: str


@dataclass(frozen=True)
class Edit:
    """Bytes that replace a range of the text."""

    kind: str
    start: int
    stop: int
    new: bytes = b""

    def of(self, text: bytes) -> bytes:
        """The text after the edit."""
        return text[: self.start] + self.new + text[self.stop :]


@dataclass(frozen=True)
class Mutant:
    """A mutated file, and what is known about it."""

    base: Base
    content: bytes
    text: bytes
    """The part of its text that can be decompressed."""
    kinds: tuple[str, ...]
    hurt: int | None
    """The only event that was changed, if there is just one."""
    chunk: int | None
    block: int | None

    @property
    def ending(self) -> str:
        """The suffix of its file name."""
        return ".json.gz" if self.content.startswith(b"\x1f\x8b") else ".json"


@dataclass
class Report:
    """Outcomes and broken laws of many mutants."""

    outcomes: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Add another report."""
        self.outcomes += other.outcomes
        self.broken += other.broken

    def __str__(self) -> str:
        """One line for a person."""
        parts = [f"{self.outcomes[name]:,} {name}" for name in OUTCOMES]
        return (
            f"{self.outcomes.total():,} files: {', '.join(parts)}; "
            f"{len(self.broken):,} laws broken"
        )


# Reported once per trace. Lists that close early break the law of one event.
BEHIND = "left out: data after the list"
REPEATED = "left out: repeated fields"
OUTCOMES = (
    "ingested whole",
    "repaired",
    "with events left out",
    "cut off",
    "refused",
    "already there",
    "failed",
)


# ---- Bases: small files, printed in several ways


@cache
def bases() -> tuple[Base, ...]:
    """Every small file, in each formatting that changes how it is cut into chunks."""
    found = [base for path in SOURCES if path.exists() for base in _bases(path)]
    whole = _base("everything", json.dumps(everything.trace(steps=1)))
    return (*found, whole, whole, whole)


def _bases(path: Path) -> Iterator[Base]:
    whole = json.loads(gzip.decompress(path.read_bytes()))
    name = path.name.removesuffix(".json.gz")
    if isinstance(whole, list):
        entries = _some(whole)
        yield _base(f"{name}, list", json.dumps(entries))
        yield _base(f"{name}, pretty list", json.dumps(entries, indent=1))
        return
    key = "traceEvents" if "traceEvents" in whole else "nodes"
    entries = _some(whole.pop(key))
    before, after = {**whole, key: entries}, {key: entries, **whole}
    yield _base(f"{name}, one line", json.dumps(before))
    yield _base(f"{name}, dense", json.dumps(after, separators=(",", ":")))
    yield _base(f"{name}, pretty", json.dumps(after, indent=2))
    yield _base(f"{name}, sorted", json.dumps(before, sort_keys=True))
    if key == "traceEvents":
        phases = {**whole, key: _begins_and_ends(entries)}
        yield _base(f"{name}, begins and ends", json.dumps(phases))


def _some(entries: list[Event]) -> list[Event]:
    """Entries from the whole list, so that each kind occurs."""
    step = max(1, len(entries) // EVENTS_OF_A_BASE)
    return [_shortened(entry) for entry in entries[::step][:EVENTS_OF_A_BASE]]


def _shortened(entry: Event) -> Event:
    """An entry without very long values."""
    return {name: v for name, v in entry.items() if len(json.dumps(v)) < 500}


def _begins_and_ends(entries: list[Event]) -> list[Event]:
    split: list[Event] = []
    for entry in entries:
        if entry.get("ph") != "X":
            split.append(entry)
            continue
        begin = {n: v for n, v in entry.items() if n != "dur"} | {"ph": "B"}
        end = {n: v for n, v in entry.items() if n in {"name", "pid", "tid"}}
        after = entry["ts"] + entry.get("dur", 0)
        split += [begin, {"ph": "E", "ts": after} | end]
    return split[:EVENTS_OF_A_BASE]


def _base(name: str, text: str) -> Base:
    is_et = '"nodes"' in text and '"traceEvents"' not in text
    form = "et" if is_et else "kineto"
    spans = tuple(span for span, _ in scan(text, form))
    assert text.isascii()
    return Base(name, text.encode(), spans, form)


# ---- The expected result: events that can be read, whatever is between them


def _exact(number: str) -> Decimal | float:
    """The exact value of a number; one out of range is no time."""
    try:
        return Decimal(number)
    except ArithmeticError:
        return float("inf")


_decoder = json.JSONDecoder(strict=False, parse_float=_exact)


def scan(text: str, form: str) -> Iterator[tuple[Span, Event]]:
    """Yield every event that decodes at a `{`, outermost first."""
    place = text.find("{")
    while place >= 0:
        end = place + 1
        value: Any
        try:
            value, stop = _decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            pass
        else:
            if _is_event(value, form):
                yield (place, stop), value
                end = stop
        place = text.find("{", end)


def _is_event(value: Event, form: str) -> bool:
    wanted = {"ph"} if form == "kineto" else {"id", "name"}
    return wanted <= value.keys() and not {"traceEvents", "nodes"} & value.keys()


def readable(content: bytes) -> bytes:
    """The text of a file as far as it can be decompressed."""
    if not content.startswith(b"\x1f\x8b"):
        return content
    text = bytearray()
    while content.startswith(b"\x1f\x8b"):
        member = zlib.decompressobj(31)
        try:
            for place in range(len(content)):
                text += member.decompress(content[place : place + 1])
                if member.eof:
                    content = content[place + 1 :]
                    break
        except zlib.error:
            break
        if not member.eof:
            break
    return bytes(text)


Key = tuple[str, int | None]


def key_of(event: Event, form: str) -> Key | None:
    """The name and time of an event; None where they are odd."""
    name: object = event.get("name")
    time: object = event.get("ts") if form == "kineto" else None
    if not isinstance(name, str) or isinstance(time, bool):
        return None
    if time is None:
        return _legible(name), None
    if not isinstance(time, (int, Decimal)):
        return None
    try:
        nanoseconds = Decimal(time) * 1000
        is_odd = abs(nanoseconds) > 1 << 62 or nanoseconds % 1
    except ArithmeticError:
        return None
    return None if is_odd else (_legible(name), int(nanoseconds))


def _legible(name: str) -> str:
    """The name with each run of undecodable bytes as one mark."""
    text = name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return re.sub("\ufffd+", "\ufffd", text)


# ---- Mutations


def _place(rng: random.Random, base: Base) -> int:
    """A position, in four of five cases within the list of events."""
    if rng.random() < 0.8 and base.spans:
        return rng.randrange(base.spans[0][0], base.spans[-1][1])
    return rng.randrange(len(base.text))


def _truncate(rng: random.Random, base: Base) -> Edit:
    return Edit("truncate", rng.randrange(len(base.text)), len(base.text))


def _flip(rng: random.Random, base: Base) -> Edit:
    place = _place(rng, base)
    new = bytes([base.text[place] ^ 1 << rng.randrange(8)])
    return Edit("flip", place, place + 1, new)


def _swap_token(rng: random.Random, base: Base) -> Edit:
    start = _place(rng, base)
    found = [p for t in TOKENS if (p := base.text.find(t, start)) >= 0]
    place = rng.choice(found or [start])
    new = rng.choice((*TOKENS, b"", b" "))
    return Edit("swap", place, place + 1, new)


def _delete(rng: random.Random, base: Base) -> Edit:
    start = _place(rng, base)
    stop = min(len(base.text), start + rng.choice((1, 2, 10, 100, 3_000)))
    return Edit("delete", start, stop)


def _duplicate(rng: random.Random, base: Base) -> Edit:
    start = _place(rng, base)
    size = rng.choice((1, 2, 10, 100, 3_000))
    return Edit("duplicate", start, start, base.text[start : start + size])


def _insert(rng: random.Random, base: Base) -> Edit:
    place = _place(rng, base)
    return Edit("insert", place, place, rng.choice(HOSTILE))


def _insert_behind(rng: random.Random, base: Base) -> Edit:
    """Insert something hostile at the begin or end of a value, a name or an event."""
    marks = re.compile(rb'[\[{,]|: ?"?|"(?=[,}])')
    start = _place(rng, base)
    found = marks.search(base.text, start)
    place = found.end() if found else start
    return Edit("insert behind", place, place, rng.choice(HOSTILE))


def _replace_value(rng: random.Random, base: Base) -> Edit:
    found = re.compile(rb'(?<=: )("[^"]*"|[0-9.]+)|(?<=":)("[^"]*"|[0-9.]+)').search(
        base.text, _place(rng, base)
    )
    start, stop = found.span() if found else (0, 0)
    return Edit("replace value", start, stop, rng.choice(HOSTILE))


def _rename(rng: random.Random, base: Base) -> Edit:
    old, new = rng.choice(RENAMES)
    start = base.text.find(old, _place(rng, base) if rng.random() < 0.8 else 0)
    start = start if start >= 0 else base.text.find(old)
    stop = start + len(old)
    return Edit("rename", start, stop, new) if start >= 0 else Edit("none", 0, 0)


_FIELD = re.compile(r'"([^"\\]{1,40})"\s*:\s*')


def _values(text: str, start: int) -> Iterator[tuple[str, int, int]]:
    """Yield each field after a position, with the range of its value."""
    while found := _FIELD.search(text, start):
        start = found.end()
        try:
            _, stop = _decoder.raw_decode(text, found.end())
        except (ValueError, RecursionError):
            continue
        yield found[1], found.end(), stop


def _odd_value(rng: random.Random, base: Base) -> Edit:
    text = base.text.decode("latin-1")
    found = next(_values(text, _place(rng, base)), ("", 0, 0))
    return Edit("odd value", found[1], found[2], rng.choice(ODD_VALUES))


def _odd_values(rng: random.Random, base: Base) -> Edit:
    """One odd value for one field everywhere, or all odd values for any field."""
    text = base.text.decode("latin-1")
    first = next(_values(text, _place(rng, base)), ("", 0, 0))[0]
    only = {first} - LISTS if rng.random() < 0.7 else None
    values = (rng.choice(ODD_VALUES),) if rng.random() < 0.5 else ODD_VALUES
    new = _with_odd_values(rng, text, only, values, rng.choice((0.1, 0.5, 1.0)))
    return Edit("odd values", 0, len(base.text), new)


LISTS = {"traceEvents", "nodes"}


def _with_odd_values(
    rng: random.Random,
    text: str,
    only: set[str] | None,
    values: tuple[bytes, ...],
    share: float,
) -> bytes:
    """A text with odd values in a share of some fields, or of all fields."""
    pieces, place = [], 0
    for name, start, stop in _values(text, 0):
        is_chosen = name not in LISTS if only is None else name in only
        if start >= place and is_chosen and rng.random() < share:
            pieces += [text[place:start].encode("latin-1"), rng.choice(values)]
            place = stop
    return b"".join([*pieces, text[place:].encode("latin-1")])


def mixed_with_odd_values(source: str, seed: int, share: float) -> bytes:
    """A file of a format with odd values in a share of all fields."""
    rng = random.Random(seed)  # noqa: S311 (repeatable, no secret)
    if source == "kineto":
        whole = everything.trace()
    else:
        whole = json.loads(gzip.decompress(SOURCES[2].read_bytes()))
        whole["nodes"] = whole["nodes"][:EVENTS_OF_A_BASE]
    return _with_odd_values(rng, json.dumps(whole), None, ODD_VALUES, share)


def _repeat(rng: random.Random, base: Base) -> Edit:
    """Insert the same text hundreds of times at one place."""
    start = _place(rng, base)
    size = rng.choice((1, 5, 20, 200))
    piece = rng.choice((base.text[start : start + size], rng.choice(HOSTILE)))
    count = max(2, 20_000 // max(1, len(piece)))
    return Edit("repeat", start, start, piece * count)


def _double(rng: random.Random, base: Base) -> Edit:
    """Repeat half of the text at its end."""
    start = rng.randrange(len(base.text) // 2)
    stop = start + len(base.text) // 2
    return Edit("double", stop, stop, base.text[start:stop])


MUTATIONS: tuple[Callable[[random.Random, Base], Edit], ...] = (
    _truncate,
    _flip,
    _swap_token,
    _delete,
    _duplicate,
    _insert,
    _insert_behind,
    _replace_value,
    _rename,
    _odd_value,
    _odd_values,
    _odd_values,
    _repeat,
    _double,
)


def mutant(seed: int, number: int) -> Mutant:
    """The mutant of a number.

    Bases and mutations rotate: no pair is repeated before all have been tried.
    """
    rng = random.Random(f"{seed}:{number}")  # noqa: S311 (repeatable, no secret)
    turn, place = divmod(number, len(bases()))
    base = bases()[place]
    mutate = MUTATIONS[(seed + turn + place) % len(MUTATIONS)]
    edits = [mutate(rng, base)]
    text, hurt = edits[0].of(base.text), _hurt(base, edits[0])
    while rng.random() < 0.2:
        edits.append(rng.choice(MUTATIONS)(rng, replace(base, text=text, spans=())))
        text, hurt = edits[-1].of(text), None
    kinds = tuple(edit.kind for edit in edits)
    content = text
    if rng.random() < 0.15:
        kind, content = _gzip(rng, text)
        kinds, hurt = (*kinds, kind), hurt if kind in WHOLE_GZIP else None
    return Mutant(
        base,
        content,
        readable(content),
        kinds,
        hurt,
        rng.choice(CHUNKS),
        rng.choice(BLOCKS),
    )


def _hurt(base: Base, edit: Edit) -> int | None:
    """The event that contains an edit."""
    for number, (start, stop) in enumerate(base.spans):
        inside = start < edit.start if edit.start == edit.stop else start <= edit.start
        if inside and edit.stop <= stop and edit.start < stop:
            return number
    return None


WHOLE_GZIP = ("gzip", "gzip in members", "gzip with a tail")


def _gzip(rng: random.Random, text: bytes) -> tuple[str, bytes]:
    """Compress a text, and usually damage the result."""
    packed = gzip.compress(text, 1, mtime=0)
    place = rng.randrange(1, len(packed))
    match rng.randrange(6):
        case 0:
            return "gzip", packed
        case 1:
            middle = rng.randrange(len(text) + 1)
            halves = (text[:middle], text[middle:])
            return "gzip in members", b"".join(gzip.compress(h, 1) for h in halves)
        case 2:
            return "gzip with a tail", packed + rng.choice((b"\0" * 9, b"tail", text))
        case 3:
            return "cut gzip", packed[:place]
        case 4:
            flipped = bytes([packed[place] ^ 1 << rng.randrange(8)])
            return "flipped gzip", packed[:place] + flipped + packed[place + 1 :]
        case _:
            return "cut gzip with a tail", packed[:place] + b"tail"


# ---- Trying a mutant

_UNTIL_RAW: dict[str, Any] = (
    {"until": "raw"} if "until" in signature(ingest).parameters else {}
)
_COUNTS = """
SELECT string_agg(
    'SELECT count(*) FROM ' || schema_name || '.' || table_name, ' UNION ALL '
    ORDER BY schema_name, table_name
)
FROM duckdb_tables()
"""


VIEWS = [r.full_name for r in catalog.relations() if r.kind == "VIEW"]


class Trial:
    """A database with one good trace, into which mutants are ingested one by one."""

    def __init__(self, folder: Path) -> None:
        """Ingest the good trace; files are written to the folder."""
        self._folder = folder
        self._database = tracedb.open()
        self._connection = self._database.connection
        # Two threads gain nothing on files this small.
        self._connection.execute("SET threads = 1")
        good = folder / "good.json"
        good.write_bytes(bases()[0].text)
        self._ingest(good, None, is_whole=True)
        self._count_query = self._rows(_COUNTS)[0][0]
        self._counts = self._rows(self._count_query)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(query).fetchall()

    def every_layer(self, paths: list[Path]) -> Iterator[str]:
        """Compute all layers of some files together; yields broken laws."""
        with tracedb.open() as database:
            database.connection.execute("SET threads = 1")
            try:
                database.ingest(paths)
                for view in VIEWS:
                    query = f"SELECT max(hash(COLUMNS(*))) FROM {view}"
                    database.connection.execute(query)
            except Exception as error:  # noqa: BLE001 (any is what is looked for)
                yield f"all layers: {type(error).__name__}: {error}"

    def _ingest(self, path: Path, tried: Mutant | None, *, is_whole: bool) -> list[int]:
        chunk = tried.chunk if tried else None
        block = (tried.block if tried else None) or 1 << 20
        cutter = partial(events.Cutter, chunk_bytes=chunk or events.CHUNK_BYTES)
        with (
            patch("tracedb.ingest.load.Cutter", cutter),
            patch.object(decompress, "_BLOCK", block),
        ):
            return ingest(
                self._connection,
                [path],
                run=None,
                pair=False,
                progress=lambda _line: None,
                **({} if is_whole else _UNTIL_RAW),
            )

    def path_of(self, tried: Mutant, number: int) -> Path:
        """The path of a mutant's file."""
        return self._folder / f"{number}{tried.ending}"

    def attempt(self, tried: Mutant, number: int) -> tuple[str, list[str]]:
        """Ingest a mutant; returns the outcome and the laws that it broke."""
        path = self.path_of(tried, number)
        path.write_bytes(tried.content)
        # CPU time, since other processes may run.
        begun = process_time()
        try:
            new = self._ingest(path, tried, is_whole=False)
        except tracedb.TracedbError as error:
            outcome, broken = "refused", list(self._of_refusal(tried, path, error))
        except Exception as error:  # noqa: BLE001 (any other is what is looked for)
            outcome, broken = "failed", [f"{type(error).__name__}: {error}"]
            broken += self._of_no_change()
        else:
            outcome, broken = self._judged(tried, new)
            if number % AGAIN_EACH == 0:
                broken += self._of_repetition(path, tried)
            for trace_id in new:
                self._forget_graph(trace_id)
        self._counts = self._rows(self._count_query)
        if process_time() - begun > MOST_SECONDS:
            broken.append(f"slow: {process_time() - begun:.1f} s")
        return outcome, broken

    def _of_refusal(self, tried: Mutant, path: Path, error: Exception) -> Iterator[str]:
        message = str(error)
        if str(path) not in message:
            yield f"message without the file: {message}"
        if not message.isprintable() or len(message) > LONGEST_MESSAGE:
            yield f"message that is no line to read: {message[:300]!r}"
        if tried.hurt is not None:
            yield f"refused for one event: {message[:300]}"
        yield from self._of_no_change()

    def _of_no_change(self) -> Iterator[str]:
        if self._rows(self._count_query) != self._counts:
            yield "an error changed the database"

    def _judged(self, tried: Mutant, new: list[int]) -> tuple[str, list[str]]:
        if not new:
            return "already there", []
        trace_id = new[0]
        issues = dict(
            self._rows(
                "SELECT kind, occurrences FROM raw.ingest_issue "
                f"WHERE trace_id = {trace_id}"
            )
        )
        found = self._found(trace_id)
        query = f"SELECT format FROM raw.trace WHERE trace_id = {trace_id}"
        # A mutant in the other format (trace or graph) has no events to look for.
        is_same = self._rows(query) == [(tried.base.format,)]
        broken = [
            *(_of_events(tried, found, issues) if is_same else ()),
            *self._of_store(trace_id, found),
        ]
        return _outcome(issues), broken

    def _forget_graph(self, trace_id: int) -> None:
        """Remove an execution graph: every later ingest would try to pair it."""
        query = "SELECT format FROM raw.trace"
        if self._rows(f"{query} WHERE trace_id = {trace_id}") == [("et",)]:
            for name in ("trace", "et_node", "ingest_issue"):
                self._rows(f"DELETE FROM raw.{name} WHERE trace_id = {trace_id}")

    def _found(self, trace_id: int) -> list[Key]:
        events_of = "SELECT name, ts_ns, other::VARCHAR FROM raw.event"
        nodes_of = "SELECT node::VARCHAR FROM raw.et_node"
        chosen = f"WHERE trace_id = {trace_id} ORDER BY"
        found = [
            (name, _taken(text) if time is None else time)
            for name, time, text in self._rows(f"{events_of} {chosen} event_id")
        ]
        # Of two fields of one name, Python keeps the last and DuckDB the first.
        nodes = self._rows(f"{nodes_of} {chosen} et_node_id")
        load = partial(json.loads, parse_int=str)
        found += [(load(node).get("name"), None) for (node,) in nodes]
        return [(_legible(str(name or "")), time) for name, time in found]

    def _of_store(self, trace_id: int, found: list[Key]) -> Iterator[str]:
        ((count, header),) = self._rows(
            "SELECT event_count, json_valid(header::VARCHAR) FROM raw.trace "
            f"WHERE trace_id = {trace_id}"
        )
        if count != len(found):
            yield f"event_count {count} of {len(found)} events"
        ((bad,),) = self._rows(
            "SELECT count(*) FROM raw.event WHERE NOT coalesce("
            "json_valid(args::VARCHAR), true) OR NOT coalesce("
            f"json_valid(other::VARCHAR), true) AND trace_id = {trace_id}"
        )
        if bad or not header:
            yield "a column of JSON holds something else"

    def _of_repetition(self, path: Path, tried: Mutant) -> Iterator[str]:
        counts = self._rows(self._count_query)
        try:
            if self._ingest(path, tried, is_whole=False):
                yield "ingested twice"
        except tracedb.TracedbError as error:
            yield f"a second ingest is refused: {error}"
        if self._rows(self._count_query) != counts:
            yield "a second ingest changed the database"


def _taken(other: str | None) -> int | None:
    """A time taken out of an event, as it is kept among the other fields.

    DuckDB would return numbers rounded to doubles.
    """
    load = partial(json.loads, parse_int=Decimal, parse_float=Decimal)
    time = load(other or "{}").get("ts")
    try:
        return None if time is None else int(Decimal(time) * 1000)
    except (ArithmeticError, TypeError, ValueError):
        return None


def _outcome(issues: dict[str, int]) -> str:
    for start, outcome in (("cut off", "cut off"), ("left out", OUTCOMES[2])):
        if any(kind.startswith(start) for kind in issues):
            return outcome
    return "repaired" if issues else "ingested whole"


def _of_events(
    tried: Mutant, found: list[Key], issues: dict[str, int]
) -> Iterator[str]:
    """No readable event is lost unless it is counted."""
    whole = _whole(tried.text)
    if whole is not None:
        yield from _of_whole(tried, whole, found, issues)
        return
    form = tried.base.format
    text = tried.text.decode(errors="replace")
    # An inserted event may be within another one's arguments: not a loss.
    seen = [e for _, e in scan(text, form) if e.get("name") != "new"]
    expected = [key for event in seen if (key := key_of(event, form))]
    missing = Counter(expected) - Counter(found)
    left_out = sum(
        n for k, n in issues.items() if k.startswith("left out") and k != REPEATED
    )
    lost = max(missing.total(), len(seen) - len(found))
    reported = f"{lost} of {len(seen)} events ({next(iter(missing), '')}); {issues}"
    if lost and not issues:
        yield f"silent loss of {reported}"
    elif lost > left_out and BEHIND not in issues:
        yield f"more lost than counted: {reported}"
    elif not lost and not _is_within(expected, found):
        yield "events are in another order"
    if tried.hurt is not None:
        yield from _of_others(tried, found, issues)


def _of_others(
    tried: Mutant, found: list[Key], issues: dict[str, int]
) -> Iterator[str]:
    """All events other than the changed one survive."""
    text, form = tried.base.text.decode(), tried.base.format
    others = [
        key
        for number, (_, event) in enumerate(scan(text, form))
        if number != tried.hurt and (key := key_of(event, form))
    ]
    missing = Counter(others) - Counter(found)
    if missing or not _is_within(others, found):
        yield f"one event hurt, {missing.total()} others lost or moved; {issues}"


class _Fields(dict[str, Any]):
    """A JSON object that knows which of its fields are repeated."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.keys_in_order = [key for key, _ in pairs]

    @property
    def repeated(self) -> int:
        return len(self.keys_in_order) - len(self)


class _Whole(NamedTuple):
    """Strictly valid JSON with one list of events."""

    entries: list[Any]
    header: _Fields

    def repeated(self, form: str) -> int:
        """How many fields of events and header are repeated; nodes are kept as text."""
        events = [e for e in self.entries if isinstance(e, _Fields) and form != "et"]
        return sum(fields.repeated for fields in [*events, self.header])


def _whole(text: bytes) -> _Whole | None:
    try:
        whole = json.loads(
            text,
            parse_constant=_refuse,
            parse_float=_exact,
            object_pairs_hook=_Fields,
        )
    except (ValueError, RecursionError):
        return None
    if isinstance(whole, _Fields):
        keys = whole.keys_in_order
        lists = [key for key in keys if key in {"traceEvents", "nodes"}]
        entries = whole[lists[0]] if len(lists) == 1 else None
        return _Whole(entries, whole) if entries else None
    return _Whole(whole, _Fields([])) if isinstance(whole, list) else None


def _of_whole(
    tried: Mutant, whole: _Whole, found: list[Key], issues: dict[str, int]
) -> Iterator[str]:
    """A strictly valid file keeps each of its entries, in order."""
    entries, form = whole.entries, tried.base.format
    kinds = [k for k in issues if k.startswith(("cut", "left out")) and k != REPEATED]
    objects = [entry for entry in entries if isinstance(entry, dict)]
    if len(objects) != len(found) or (kinds and len(objects) == len(entries)):
        if "gzip" not in " ".join(kinds):
            yield f"{len(found)} of {len(objects)} entries of whole JSON; {issues}"
        return
    if whole.repeated(form) != issues.get(REPEATED, 0):
        yield f"{whole.repeated(form)} fields are there again; {issues}"
    for event, kept in zip(objects, found, strict=True):
        key = key_of(event, form)
        if key and "name" in event and key != kept:
            yield f"{key} became {kept}, and maybe others; {issues}"
            return


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _is_within(part: list[Key], whole: list[Key]) -> bool:
    """Whether a list equals another one with some entries left out."""
    rest = iter(whole)
    return all(key in rest for key in part)


# ---- Many mutants


def try_many(
    seed: int,
    numbers: range,
    keep: Path | None = None,
    every_layer_each: int = EVERY_LAYER_EACH,
) -> Report:
    """Try mutants in one database; those that break a law are written to `keep`."""
    report = Report()
    with TemporaryDirectory() as folder:
        trial, whole = Trial(Path(folder)), []
        for number in numbers:
            tried = mutant(seed, number)
            outcome, broken = trial.attempt(tried, number)
            report.outcomes[outcome] += 1
            what = f"{number} ({tried.base.name}; {', '.join(tried.kinds)})"
            report.broken += [f"{what}: {law}" for law in broken]
            if broken and keep:
                (keep / f"{number}{tried.ending}").write_bytes(tried.content)
            if number % every_layer_each == 0 and outcome not in {"refused", "failed"}:
                whole.append(trial.path_of(tried, number))
        trial.close()
        for start in range(0, len(whole), TRACES_AT_ONCE):
            some = whole[start : start + TRACES_AT_ONCE]
            report.broken += trial.every_layer(some)
    return report


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--whole-each", type=int, default=EVERY_LAYER_EACH)
    parser.add_argument("--keep", type=Path, help="folder for files that break a law")
    return parser.parse_args()


def main() -> int:
    """Try the requested number of mutants; returns 1 if a law was broken."""
    chosen = _arguments()
    if chosen.keep:
        chosen.keep.mkdir(parents=True, exist_ok=True)
    begun, report = monotonic(), Report()
    end = chosen.first + chosen.count
    starts = range(chosen.first, end, TRIES_OF_A_DATABASE)
    parts = [range(s, min(end, s + TRIES_OF_A_DATABASE)) for s in starts]
    attempt = partial(
        try_many,
        chosen.seed,
        keep=chosen.keep,
        every_layer_each=chosen.whole_each,
    )
    with ProcessPoolExecutor(chosen.jobs, get_context("spawn")) as pool:
        for part in pool.map(attempt, parts):
            report.add(part)
            for line in part.broken:
                sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{report}; {monotonic() - begun:.0f} s\n")
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
