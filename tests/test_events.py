"""Reading a text in chunks gives the same events as reading it at once."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pytest

from tracedb.ingest.decompress import Text
from tracedb.ingest.events import Cutter

# Text that looks like the bounds of events, but is within a string.
DECOYS = ["a},{b", "x]", '["', '\\"q\\', "é\n", "},", '"traceEvents":[', "]}"]
FIELDS = ["cat", "name", "ts", "args", "odd"]


def cut(text: bytes, chunk_bytes: int) -> tuple[list[Any], dict[str, Any], Any]:
    """Events, header and issues of a text, read in small chunks."""
    cutter = Cutter(Text("text", io.BytesIO(text)), chunk_bytes)
    events: list[Any] = []
    for chunk in cutter.chunks():
        found = json.loads(chunk.text)
        assert chunk.count == len(found)
        events += found
    header = {name: json.loads(bytes(part)) for name, part in cutter.header.items()}
    return events, header, cutter.issues.counts


def value(chance: random.Random, depth: int = 0) -> Any:  # noqa: ANN401 (JSON)
    """A JSON value, often one that looks like something else."""
    kind = chance.random()
    if kind < 0.4:
        return chance.choice(DECOYS)
    if kind < 0.55:
        return chance.randint(-5, 10 ** chance.randint(0, 20))
    if kind < 0.7 and depth < 3:
        return {name: value(chance, depth + 1) for name in "abc"}
    if kind < 0.8 and depth < 3:
        return [value(chance, depth + 1) for _ in range(chance.randint(0, 3))]
    return chance.choice([None, True, 1.5])


def document(chance: random.Random) -> tuple[list[Any], dict[str, Any], bytes]:
    """Events, header and text of a trace, in one of its formats."""
    events = [
        {"ph": "X"} | {name: value(chance) for name in chance.sample(FIELDS, 3)}
        for _ in range(chance.randint(0, 40))
    ]
    before = {"p": value(chance), "meta": {"traceEvents": [1, {}]}}
    behind = {"q": value(chance), "r": [{"a": 1}]}
    before, behind = (
        part if chance.random() < 0.5 else {} for part in (before, behind)
    )
    whole: Any = before | {"traceEvents": events} | behind
    if chance.random() < 0.2:
        whole, before, behind = events, {}, {}
    indent = chance.choice([None, 1, 2])
    separators = chance.choice([None, (",", ":"), (" , ", " : ")])
    text = json.dumps(whole, indent=indent, separators=separators)
    return events, before | behind, text.encode()


@pytest.mark.parametrize("chunk_bytes", [16, 64, 300, 5000, 1 << 20])
def test_any_chunk_size_gives_the_same_events(chunk_bytes: int) -> None:
    """Random documents, with brackets in strings, give the same at each chunk size."""
    chance = random.Random(chunk_bytes)  # noqa: S311 (reproducible, no secret)
    for _ in range(300):
        events, header, text = document(chance)
        assert cut(text, chunk_bytes) == (events, header, {}), text


def test_whole_events_survive_a_cut_anywhere() -> None:
    """A text cut at any byte gives the events that end before it, and an issue."""
    events = [{"ph": "X", "name": name, "args": {"b": [{}]}} for name in DECOYS]
    text = json.dumps({"traceEvents": events}).encode()
    ends = [
        len(json.dumps({"traceEvents": events[:number]}).encode()) - 2
        for number in range(1, len(events) + 1)
    ]
    for at in range(len('{"traceEvents": [') + 1, len(text) - 2):
        found, _, issues = cut(text[:at], 64)
        assert found == events[: sum(end <= at for end in ends)]
        assert [
            kind.partition(":")[0] in {"cut off", "left out"} for kind in issues
        ] == [True]
