"""Broken files are repaired or cut, and reported; or refused in one line."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import (
    CORPUS,
    empty_database,
    ingests_until,
    needs_corpus,
    rows,
    truth,
)

import tracedb

BASE = CORPUS / "tracelens" / "decode_graph" / "deepseek_r1_B300.json.gz"
DERIVED = CORPUS / "derived"
WHOLE = ["bom", "inf_bandwidth", "trailing_comma", "backslash_path"]
CUT = ["truncated.json", "truncated_gzip.json.gz"]

TWICE = b'[{"ph": "X", "name": "b", "name": "a"}]'
"""DuckDB refuses this: the whole ingest is then read by the Python reader."""

Issue = tuple[str, int]
Names = list[str | None]
Found = tuple[Names, list[Issue]]
Tried = Callable[[bytes], Found]


def issues(
    database: tracedb.Database, kinds: str = "[^k].*", trace_id: int = 1
) -> list[Issue]:
    """What was repaired or left out, with counts; without issues of the kind `kept`."""
    query = f"""
        SELECT kind, occurrences FROM raw.ingest_issue
        WHERE
            trace_id = {trace_id}
            AND regexp_full_match(kind, '{kinds}|kept without time.*')
        ORDER BY kind
    """
    return [(kind, count) for kind, count in rows(database, query)]


def names(database: tracedb.Database, trace_id: int = 1) -> Names:
    """The names of all events, in order."""
    query = f"SELECT name FROM raw.event WHERE trace_id = {trace_id} ORDER BY event_id"
    return [name for (name,) in rows(database, query)]


@pytest.fixture(scope="module")
def base() -> Iterator[tracedb.Database]:
    """The file from which others are derived."""
    with empty_database() as database, ingests_until("staging"):
        database.ingest([BASE])
        yield database


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tried]:
    """Names and issues of all small contents, ingested together."""
    folder = tmp_path_factory.mktemp("tried")
    contents = {content for content, *_ in (*DAMAGED, *BROKEN)}
    contents.update(TOO_LATE, ODD_BUT_WHOLE)
    paths = {
        content: folder / f"{n}.json" for n, content in enumerate(sorted(contents))
    }
    for content, path in paths.items():
        path.write_bytes(content)
    again = paths[TWICE]
    lines: list[str] = []
    with empty_database() as database, ingests_until("staging"):
        database.ingest({*paths.values()} - {again}, progress=lines.append)
        # Read as if alone: none was read more carefully because of another file.
        assert not [line for line in lines if line.startswith("reading again")]
        database.ingest([again], progress=lines.append)
        assert [line for line in lines if line.startswith("reading again")]
        yield lambda content: _found(database, paths[content])


def _found(database: tracedb.Database, path: Path) -> Found:
    query = f"SELECT trace_id FROM raw.trace WHERE path = '{path}'"
    ((trace_id,),) = rows(database, query)
    return names(database, trace_id), issues(database, trace_id=trace_id)


def ingested(tmp_path: Path, content: bytes) -> Found:
    """Names and issues of a content."""
    file = tmp_path / "a.json"
    file.write_bytes(content)
    with empty_database() as database:
        database.ingest([file])
        return names(database), issues(database)


@needs_corpus
@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.until("staging")
def test_a_repaired_file_has_all_events(name: str, base: tracedb.Database) -> None:
    """It has the same events as the original, except for one name."""
    with empty_database() as derived:
        derived.ingest([DERIVED / f"{name}.json.gz"])
        assert len(names(derived)) == 3387
        differing = sum(
            a != b for a, b in zip(names(base), names(derived), strict=True)
        )
        assert differing == (name == "backslash_path")
        query = "SELECT kind, count(*), count(call_id) FROM staging.gpu_op GROUP BY ALL"
        assert sorted(rows(base, query)) == sorted(rows(derived, query))
        assert bool(issues(derived)) == (name != "bom")


@needs_corpus
@pytest.mark.parametrize("name", CUT)
@pytest.mark.until("staging")
def test_a_truncated_file_has_its_whole_events(
    name: str, base: tracedb.Database
) -> None:
    """Every event before the cut is there, and the issue gives the byte offset."""
    with empty_database() as cut:
        cut.ingest([DERIVED / name])
        kept = names(cut)
        assert 1000 < len(kept) < 3387
        assert kept == names(base)[: len(kept)]
        ((kind, count),) = issues(cut)
        assert kind.startswith("cut off: ")
        assert count == 1
        assert rows(cut, "SELECT first_bytes > 0 FROM raw.ingest_issue") == [(True,)]


@needs_corpus
def test_the_corpus_has_no_other_broken_file() -> None:
    """These tests cover each file that the manifest calls malformed."""
    known = {f"derived/{name}.json.gz" for name in WHOLE} | {
        f"derived/{n}" for n in CUT
    }
    assert known == {p for p, facts in truth().items() if facts["kind"] == "malformed"}


DAMAGED = [
    (rb'[{"ph": "X", "name": "C:\new\x"}]', [r"C:\new\x"], "backslashes"),
    (b'[{"ph": "X", "name": "a\tb"}]', ["a\tb"], "control characters"),
    (b'[{"ph": "X", "name": "a\xffb"}]', ["a\ufffdb"], "not UTF-8"),
    (b'[{"ph": "X", "name": "\\ud800"}]', ["\ufffd"], "halves of characters"),
    (b'[{"ph": "X", "name": "a", "args": {"b": -inf}}]', ["a"], "not finite"),
    (b'[{"ph": "X", "name": "a "b" c"}]', ['a "b" c'], "unescaped quotes"),
    (b'{"traceEvents": [{"ph": "X", "name": "a"},]}', ["a"], "trailing commas"),
    (b'[{"ph": "X", "name": "a", "args": {"b": [1,],}, }]', ["a"], "trailing commas"),
    (b'{"traceEvents": [{"ph": "X", "name": "a"}', ["a"], "cut off"),
    (b'{"traceEvents": [{"ph": "X", "name": "a"}], "b": ', ["a"], "left out"),
    (b'[{"ph": "X", "name": "a"}, {"ph" "b"}]', ["a"], "left out"),
    (b'[{"ph": "X", "name": "a", "ts": "soon"}]', ["a"], "without time"),
    (b'[{"ph": "X", "name": "a", "ts": "1_000"}]', ["a"], "without time"),
    (TWICE, ["a"], "repeated fields"),
    (b'[{"ph": "X", "name": "a", "new": 1, "new": 2}]', ["a"], "repeated fields"),
    (
        b'{"traceEvents": [{"ph": "X", "name": "a"}], "b": 1, "b": 2}',
        ["a"],
        "repeated fields",
    ),
]


@pytest.mark.parametrize(("content", "expected", "issue"), DAMAGED)
def test_each_kind_of_damage_is_repaired_and_counted(
    tried: Tried, content: bytes, expected: list[str], issue: str
) -> None:
    """What can be read is kept; the rest is reported as an issue."""
    found, reported = tried(content)
    assert found == expected
    assert [issue in kind for kind, _ in reported] == [True]


A, B, C = (b'{"ph": "X", "name": "%s", "ts": 1}' % name for name in (b"a", b"b", b"c"))
BAD = b'{"ph": "X", "name" "b", "args": {"x": [{"y": 1}, {"name": 2}]}}'


BROKEN = [
    (b"[%b,,%b]" % (A, C), "ac", [("repaired: extra commas", 1)]),
    (b"[%b %b]" % (A, C), "ac", [("repaired: missing commas", 1)]),
    (
        b"[%b, [%b, {}], [], %b]" % (A, B, C),
        "ac",
        [("left out: entries that are not objects", 2)],
    ),
    (
        b'{"x": [%b, %b] y, "traceEvents": [%b]}' % (A, B, C),
        "c",
        [("left out: data before the list", 2)],
    ),
    (
        b'{"traceEvents": [%b], "x": {"ph": y}, "z": {"ph": y}}' % C,
        "c",
        [("left out: data after the list", 2)],
    ),
    (
        b"[%b, null, 7, %b]" % (A, C),
        "ac",
        [("left out: entries that are not objects", 2)],
    ),
    (
        b"[%b, %b, %b]" % (A, BAD, C),
        "ac",
        [("left out: events that cannot be read", 1)],
    ),
    (
        b"[%b, %b, %b]" % (A, B[:-1], C),
        "ac",
        [("left out: events that cannot be read", 1)],
    ),
    (
        b"[%b, %b, %b]" % (A, B.replace(b'b"', b"b"), C),
        "ac",
        [("left out: events that cannot be read", 1)],
    ),
    (
        b"[%b, oh no %b]" % (A, C),
        "ac",
        [("left out: text that is not an event", 1)],
    ),
    (
        b"[%b],%b,%b]" % (A, B, C),
        "abc",
        [("left out: text that is not an event", 1)],
    ),
    (
        b'{"traceEvents": [%b], "traceEvents": [%b]}' % (A, B),
        "ab",
        [("left out: text that is not an event", 1)],
    ),
    (
        b'{"a": oh, "traceEvents": [%b]}' % A,
        "a",
        [("left out: data before the list", 1)],
    ),
    (
        b'{"a": "\xff", "traceEvents": [%b]}' % A,
        "a",
        [("repaired: data beside the list", 1)],
    ),
    (
        b'{"traceEvents": [%b, %b], "a": 1}' % (A, BAD),
        "a",
        [("left out: events that cannot be read", 1)],
    ),
    (
        b'{"traceEvents": [%b, %b, {"ph": "X", "na' % (A, BAD),
        "a",
        [
            ("cut off: the file ends within its list of events", 1),
            ("left out: events that cannot be read", 1),
        ],
    ),
]


@pytest.mark.parametrize(("content", "expected", "reported"), BROKEN)
def test_damage_does_not_spread(
    tried: Tried, content: bytes, expected: str, reported: list[Issue]
) -> None:
    """Reading resumes at the next event, whatever precedes it."""
    assert tried(content) == (list(expected), reported)


@pytest.mark.parametrize(
    ("content", "expected", "key"),
    [
        (b'{"nodes": [], "traceEvents": [%b, %b]}' % (A, B), "ab", "nodes"),
        (b'{"traceEvents": [%b], "nodes": [{"id": 1}]}' % A, "a", "nodes"),
        (b'{"nodes": 4, "traceEvents": [%b]}' % A, "a", "nodes"),
    ],
)
@pytest.mark.until("staging")
def test_lists_of_the_other_format_are_kept(
    tmp_path: Path, content: bytes, expected: str, key: str
) -> None:
    """A list that is not the list of events is part of the header."""
    (tmp_path / "a.json").write_bytes(content)
    with empty_database() as database:
        database.ingest([tmp_path])
        assert names(database) == list(expected)
        assert issues(database) == []
        assert rows(database, f"SELECT header.{key} IS NULL FROM raw.trace") == [
            (False,)
        ]


TOO_LATE = [
    b'[{"ph": "X", "name": "a", "ts": %b}]' % time
    for time in (b"1e999999", b'"1e999999"', b'"-1e999999"')
]


@pytest.mark.parametrize("content", TOO_LATE)
def test_times_out_of_range_are_dropped(tried: Tried, content: bytes) -> None:
    """An exponent that no type holds is counted; it is not called no number."""
    found, reported = tried(content)
    assert found == ["a"]
    assert reported == [("kept without time: times out of range", 1)]


def test_times_beyond_64_bits_are_dropped(tmp_path: Path) -> None:
    """Sums of times never overflow; bad times are counted."""
    event = b'{"ph": "X", "name": "%b", "cat": "cpu_op", "pid": 1, "tid": 1, %b}'
    late = event % (b"a", b'"ts": 9e15, "dur": 9e15')
    early = event % (b"b", b'"ts": 2e15, "dur": 1')
    with empty_database() as database:
        (tmp_path / "a.json").write_bytes(b"[%b, %b]" % (late, early))
        database.ingest([tmp_path])
        query = "SELECT name, ts_ns, dur_ns FROM raw.event ORDER BY name"
        assert rows(database, query) == [("a", None, None), ("b", 2 * 10**18, 1000)]
        query = "SELECT name, start_ns, end_ns FROM staging.op"
        assert rows(database, query) == [("b", 2 * 10**18, 2 * 10**18 + 1000)]
        assert dict(issues(database)) == {"kept without time: times out of range": 2}


def test_a_graph_with_broken_nodes_keeps_the_others(tmp_path: Path) -> None:
    """Attributes have names too, but are not nodes."""
    node = b'{"id": %d, "name": "%b", "attrs": [{"name": "x", "value": 1}]}'
    nodes = [node % (1, b"a"), node % (2, b"\xff"), node[:20], node % (3, b"c")]
    (tmp_path / "a.json").write_bytes(
        b'{"schema": "1", "nodes": [%b]}' % b",".join(nodes)
    )
    with empty_database() as database:
        database.ingest([tmp_path])
        query = "SELECT node ->> '$.name' FROM raw.et_node ORDER BY et_node_id"
        assert rows(database, query) == [("a",), ("\ufffd",), ("c",)]
        assert issues(database) == [
            ("left out: events that cannot be read", 1),
            ("repaired: bytes that are not UTF-8", 1),
        ]


@pytest.mark.parametrize("place", [0, 7, 29])
@pytest.mark.until("staging")
def test_nodes_of_the_oldest_schema_are_repaired_one_by_one(
    tmp_path: Path, place: int
) -> None:
    """They begin with their names, like attributes in later schemas."""
    node = rb'{"name": "a%d", "id": 1, "op_schema": "C:\new\x", "x": [{"name": "b"}]}'
    nodes = [node % number for number in range(29)]
    nodes.insert(place, nodes[0].replace(b'"op_schema":', b'"op_schema"'))
    text = b'{"schema": "1.0.1", "nodes": [%b]}' % b", ".join(nodes)
    (tmp_path / "a.json").write_bytes(text)
    with empty_database() as database:
        database.ingest([tmp_path])
        query = "SELECT node ->> '$.name' FROM raw.et_node ORDER BY et_node_id"
        assert rows(database, query) == [(f"a{number}",) for number in range(29)]
        assert issues(database)[0] == ("left out: events that cannot be read", 1)


@pytest.mark.parametrize("order", ["bad first", "bad last"])
@pytest.mark.until("staging")
def test_repairable_nodes_survive_beside_broken_ones(
    tmp_path: Path, order: str
) -> None:
    """One node has Windows paths in an attribute, another is not JSON."""
    attrs = [{"name": f"x{n}", "value": n} for n in range(20)]
    nodes = [
        json.dumps({"id": n, "name": str(n), "attrs": [*attrs, {"name": "C:/new"}]})
        for n in range(5)
    ]
    nodes = [node.replace("C:/new", "C:\\new\\x") for node in nodes]
    bad = nodes[0].replace("[", "", 1)
    nodes = [bad, *nodes] if order == "bad first" else [*nodes, bad]
    (tmp_path / "a.json").write_bytes(b'{"nodes": [%b]}' % ", ".join(nodes).encode())
    with empty_database() as database:
        database.ingest([tmp_path])
        query = "SELECT node ->> '$.name' FROM raw.et_node ORDER BY et_node_id"
        assert rows(database, query) == [(str(n),) for n in range(5)]
        assert issues(database) == [
            ("left out: events that cannot be read", 1),
            ("repaired: unescaped backslashes", 5),
        ]


def test_a_broken_gzip_stream_is_read_up_to_the_break(tmp_path: Path) -> None:
    """The same holds if the stream fits into one block of the reader."""
    chance = random.Random(0)  # noqa: S311 (repeatable, no secret)
    events = [{"ph": "X", "name": chance.randbytes(8).hex()} for _ in range(2_000)]
    packed = bytearray(gzip.compress(json.dumps(events).encode()))
    packed[len(packed) // 2] ^= 255
    found, reported = ingested(tmp_path, bytes(packed))
    assert 500 < len(found) < 1_500
    assert found[:500] == [event["name"] for event in events[:500]]
    assert any(kind.startswith("cut off: the gzip stream") for kind, _ in reported)


ODD_BUT_WHOLE = [
    b'\xef\xbb\xbf{"traceEvents": [{"ph": "X", "name": "a"}]}',
    b'[{"ph": "X", "name": "a"}',
    b'[{"ph": "X", "name": "a"},\n',
    b'  \n [{"ph": "X", "name": "a"}]\n',
    b'{"nodes": 1, "traceEvents": [{"ph": "X", "name": "a"}]}',
    b'{"x": "\\"traceEvents\\": [", "traceEvents": [{"ph": "X", "name": "a"}]}',
    b'{"x": {"traceEvents": [{}]}, "traceEvents": [{"ph": "X", "name": "a"}]}',
    b'{"traceEvents": [{"ph": "X", "name": "a", "id": 99999999999999999999999}]}',
]


@pytest.mark.parametrize("content", ODD_BUT_WHOLE)
def test_unusual_but_valid_files_need_no_repair(tried: Tried, content: bytes) -> None:
    """A byte order mark, a list without its end, and decoys are no issue."""
    assert tried(content) == (["a"], [])


@pytest.mark.until("staging")
def test_gzip_with_several_members(tmp_path: Path) -> None:
    """Members are read one after another, as in concatenated files."""
    text = b'[{"ph": "X", "name": "a"}, {"ph": "X", "name": "b"}]'
    content = gzip.compress(text[:20]) + gzip.compress(text[20:])
    assert ingested(tmp_path, content) == (["a", "b"], [])


def test_a_decompression_bomb_is_refused(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """A file that expands five hundred fold is refused early."""
    bomb = tmp_path / "bomb.json.gz"
    with gzip.open(bomb, "wb") as file:
        file.write(b'[{"ph": "X", "name": "')
        for _ in range(300):
            file.write(b"a" * (1 << 20))
    with pytest.raises(tracedb.IngestError, match="decompresses to more than"):
        database.ingest([bomb])


def test_extreme_nesting_does_no_harm(tmp_path: Path) -> None:
    """Arguments nested a hundred thousand deep leave the other events intact."""
    deep = b'{"ph": "X", "name": "deep", "args": ' + b"[" * 100_000 + b"]" * 100_000
    content = b'[{"ph": "X", "name": "a"},' + deep + b'},{"ph": "X", "name": "b"}]'
    found, reported = ingested(tmp_path, content)
    assert found in (["a", "b"], ["a", "deep", "b"])
    assert bool(reported) == (len(found) == 2)


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    """Quotes, markup, control characters and SQL are stored like any other text."""
    hostile = ["'; DROP TABLE raw.event; --", '"<script>', "\x1b[31m\x07", "%s {} $1"]
    events = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": name,
            "pid": hostile[0],
            "tid": name,
            "ts": 1,
            "dur": 1,
            "args": {name: name},
        }
        for name in hostile
    ]
    found, reported = ingested(tmp_path, json.dumps(events).encode())
    assert found == hostile
    assert reported == []


def test_events_that_reach_no_layer_are_counted(tmp_path: Path) -> None:
    """Events that only the raw layer keeps are reported with the reason."""
    events = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "a",
            "pid": 1,
            "tid": 1,
            "ts": 1,
            "dur": -1,
        },
        {"ph": "X", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 1, "ts": 1},
        {"ph": "X", "cat": "cpu_op", "name": "c", "pid": 1, "ts": 1, "dur": 1},
        {"ph": "B", "cat": "cpu_op", "name": "d", "pid": 1, "tid": 1, "ts": 1},
        {"ph": "Y", "cat": "cpu_op", "name": "e", "pid": 1, "tid": 1, "ts": 1},
    ]
    (tmp_path / "a.json").write_text(json.dumps(events))
    with empty_database() as database:
        database.ingest([tmp_path])
        assert names(database) == ["a", "b", "c", "d", "e"]
        reported = issues(database, "kept in raw.*")
    assert [(kind.partition(": ")[2], count) for kind, count in reported] == [
        ("events of an unknown phase", 1),
        ("events with a negative duration", 1),
        ("events without a duration", 1),
        ("events without a process or a thread", 1),
        ("starts without an end", 1),
    ]


@pytest.mark.parametrize("content", ["42", '"s"', '{"a": 1}\n{"a": 2}', "[1, 2]"])
@pytest.mark.until("staging")
def test_other_json_in_a_folder_is_skipped(tmp_path: Path, content: str) -> None:
    """JSON of any shape next to traces does not stop their ingest."""
    (tmp_path / "stray.json").write_text(content)
    (tmp_path / "trace.json").write_text('[{"ph": "X", "name": "a"}]')
    with empty_database() as database:
        database.ingest([tmp_path])
        assert names(database) == ["a"]


def test_a_repeated_attribute_is_accepted(tmp_path: Path) -> None:
    """In a node of an execution graph, the first one counts."""
    attrs = [{"name": "tid", "value": 7}, {"name": "tid", "value": 8}, {"value": 1}]
    node = {"id": 2, "name": "aten::add", "ctrl_deps": 1, "attrs": attrs}
    (tmp_path / "a.json").write_text(json.dumps({"schema": "1.1.1", "nodes": [node]}))
    with empty_database() as database:
        database.ingest([tmp_path])
        assert rows(database, "SELECT name, tid FROM staging.et_op") == [
            ("aten::add", 7)
        ]
