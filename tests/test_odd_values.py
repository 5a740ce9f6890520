"""Invalid values become NULL and are counted; nothing stops."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import everything
import pytest
from fuzz import mixed_with_odd_values
from support import rows

import tracedb
from tracedb import catalog

Trace = dict[str, Any]
Issues = dict[str, int]

VIEWS = [r.full_name for r in catalog.relations() if r.kind == "VIEW"]


def _args(trace: Trace, cat: str, number: int) -> dict[str, Any]:
    found = [e["args"] for e in trace["traceEvents"] if e.get("cat") == cat]
    args: dict[str, Any] = found[number]
    return args


def _op(number: int, **args: object) -> Callable[[Trace], None]:
    named = {key.replace("_", " "): value for key, value in args.items()}
    return lambda trace: _args(trace, "cpu_op", number).update(named)


def _arguments_as_text(trace: Trace) -> None:
    """Arguments of the first op and the first kernel as JSON within text."""
    for category in ("cpu_op", "kernel"):
        event = next(e for e in trace["traceEvents"] if e.get("cat") == category)
        event["args"] = json.dumps(event["args"])


def _event(number: int, **fields: object) -> Callable[[Trace], None]:
    return lambda trace: trace["traceEvents"][number].update(fields)


# How a trace is changed, and what is reported.
ODD: dict[str, tuple[Callable[[Trace], None], Issues]] = {
    "no JSON": (_op(0, Input_Dims="no"), {"read as none: Input Dims": 1}),
    "half JSON": (_op(0, Input_type="[["), {"read as none: Input type": 1}),
    "an object": (_op(0, Concrete_Inputs={}), {"read as none: Concrete Inputs": 1}),
    "sizes too large": (
        _op(0, Input_Dims=[[1 << 40, 1 << 40], [1 << 40, 1 << 40]]),
        {"read as none: sizes in Input Dims": 1},
    ),
    "a size below 0": (
        _op(1, Input_Dims=[[8, -(1 << 63), 16], [8, 16, 32]]),
        {"read as none: sizes in Input Dims": 1},
    ),
    "a number that is none": (
        _op(0, External_id="x"),
        {"read as none: External id": 1},
    ),
    "arguments as text": (
        _arguments_as_text,
        {"read as none: args that are not an object": 2},
    ),
    "an event far away": (
        _event(20, ts=-(2.2e15)),
        {"kept without time: times days away from most": 1},
    ),
    "a begin far away": (
        _event(20, ph="B", ts=-(2.2e15)),
        {"kept without time: times days away from most": 1},
    ),
    "a duration of a century": (
        _event(20, dur=2.2e15),
        {"kept without time: durations of days": 1},
    ),
    "a time base of another age": (
        lambda trace: trace.update(baseTimeNanoseconds=(1 << 63) - 1),
        {"read as none: baseTimeNanoseconds": 1},
    ),
    "no ranks": (
        lambda trace: trace["distributedInfo"].update(world_size=-1),
        {"read as none: world_size": 1},
    ),
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """One ingest of a valid trace and one trace per invalid value."""
    folder = tmp_path_factory.mktemp("odd")
    for name in ("whole", *ODD):
        trace = everything.trace()
        if name in ODD:
            ODD[name][0](trace)
        (folder / f"{name}.json").write_text(json.dumps({**trace, "name": name}))
    with tracedb.open() as database:
        database.ingest(sorted(folder.iterdir()))
        yield database


@pytest.mark.parametrize("name", ODD)
def test_invalid_values_are_null_and_reported(odd: tracedb.Database, name: str) -> None:
    """Once each; the issue names the first event, and no other event is lost."""
    query = f"""
        SELECT kind, occurrences, detail FROM raw.ingest_issue
        INNER JOIN raw.trace USING (trace_id)
        WHERE path LIKE '%/{name}.json'
    """
    found = rows(odd, query)
    assert {kind: count for kind, count, _ in found} == ODD[name][1]
    in_header = {"read as none: baseTimeNanoseconds", "read as none: world_size"}
    assert all("first event_id" in d for k, _, d in found if k not in in_header)
    query = """
        SELECT parse_filename(path, true), count(*)
        FROM prediction.op_work INNER JOIN raw.trace USING (trace_id) GROUP BY ALL
    """
    known = dict(rows(odd, query))
    assert known["whole"] - 1 <= known[name] <= known["whole"]


def test_a_time_that_is_used_stays_in_the_event(odd: tracedb.Database) -> None:
    """No field is dropped."""
    query = """
        SELECT ts_ns, dur_ns, other ->> '$.ts', other ->> '$.dur' FROM raw.event
        WHERE other IS NOT NULL AND (ts_ns IS NULL OR dur_ns IS NULL) AND ph = 'X'
        ORDER BY ts_ns NULLS FIRST
    """
    far, long = rows(odd, query)
    assert far[0] is None
    assert float(far[2]) == -2.2e15
    assert long[1] is None
    assert float(long[3]) == 2.2e15


def test_durations_that_sum_to_years_are_accepted(tmp_path: Path) -> None:
    """Each is a day long; all layers sum them up."""
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1}
    day = 86_400_000_000
    events = [{**event, "ts": n, "dur": day} for n in range(1_000)]
    short = [{**event, "ts": 2_000 + 2 * n, "dur": 1} for n in range(1_000)]
    (tmp_path / "a.json").write_text(json.dumps(events + short))
    with tracedb.open() as database:
        database.ingest([tmp_path])
        query = "SELECT kind, occurrences FROM raw.ingest_issue ORDER BY kind DESC"
        assert rows(database, query)[0] == (
            "kept without time: durations of days",
            1_000,
        )
        assert rows(database, "SELECT count(*) FROM staging.op") == [(1_000,)]


def test_odd_values_in_every_field_stop_no_layer(tmp_path: Path) -> None:
    """With any value in any field, every relation can be read."""
    for source, number in product(("kineto", "et"), range(4)):
        text = mixed_with_odd_values(source, number, share=(0.02, 0.3)[number % 2])
        (tmp_path / f"{source}{number}.json").write_bytes(text)
    with tracedb.open() as database:
        database.ingest([tmp_path])
        for view in VIEWS:
            database.connection.execute(f"SELECT max(hash(COLUMNS(*))) FROM {view}")


def _stopped_by(name: str) -> Callable[..., Iterator[str]]:
    """Compute as always, but fail at an event of a given name."""
    compute = catalog.compute

    def computing(connection: Any, *args: Any) -> Iterator[str]:  # noqa: ANN401
        for relation in compute(connection, *args):
            yield relation
            query = "SELECT error('such an event') FROM raw.event WHERE name = ?"
            connection.execute(query, [name]).fetchall()

    return computing


def test_a_file_that_stops_others_is_named(
    tmp_path: Path, database: tracedb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error also names the event; nothing is stored; the others ingest alone."""
    event = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "dur": 1}
    for path in "abc":
        names = ["one", "two", "odd" if path == "b" else "three", "four"]
        events = [{**event, "name": n, "ts": t} for t, n in enumerate(names)]
        (tmp_path / f"{path}.json").write_text(json.dumps([*events, {"file": path}]))
    monkeypatch.setattr(catalog, "compute", _stopped_by("odd"))
    wrong = r"b\.json, event 3 of the file: .*cannot be computed: .*such an event"
    with pytest.raises(tracedb.IngestError, match=wrong):
        database.ingest([tmp_path])
    assert rows(database, "SELECT count(*) FROM raw.trace") == [(0,)]
    database.ingest([tmp_path / "a.json", tmp_path / "c.json"])
    assert rows(database, "SELECT count(*) FROM raw.trace") == [(2,)]
