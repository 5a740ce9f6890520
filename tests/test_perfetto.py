"""Perfetto's own trace processor reads exports, and sees what the database has."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from perfetto_ui import Load, Processor, needs_perfetto, trace_processor
from support import CORPUS, SAMPLES, DatabaseOf, Ingested, needs_corpus, rows
from test_report import hostile_trace

import tracedb
from tracedb.export import pftrace

pytestmark = needs_perfetto

GPU = SAMPLES / "generated_gpu"
OF_PROCESS = """
SELECT process.name, slice.name, dur FROM slice
INNER JOIN thread_track ON slice.track_id = thread_track.id
INNER JOIN thread USING (utid) INNER JOIN process USING (upid)
"""
SLACK = """
SELECT count(*), sum(int_value) FROM slice INNER JOIN args USING (arg_set_id)
WHERE key IN ('args.slack_ns', 'debug.slack_ns')
"""
RECORDED = """
SELECT name, ts_ns + shift_ns, coalesce(dur_ns, 0) FROM raw.event
INNER JOIN graph.run_time USING (trace_id) WHERE ph IN ('X', 'i')
"""
PATH = """
SELECT concat_ws(': ', path.kind, node.name), path.end_ns - path.start_ns
FROM critical_path.interval AS path LEFT JOIN graph.node AS node USING (node_id)
WHERE
    variant_id = 0
    AND (scope = 'period' OR scope = 'run' AND (SELECT count(*) FROM raw.trace) > 1)
    AND path.end_ns > path.start_ns
"""
PREDICTED = """
SELECT node.name, time.end_ns - time.start_ns FROM critical_path.node_time AS time
INNER JOIN graph.node AS node USING (node_id)
INNER JOIN prediction.variant USING (variant_id) WHERE scenario = 'half'
"""
ARROWS = """
SELECT source.ts, target.ts FROM flow
INNER JOIN slice AS source ON slice_out = source.id
INNER JOIN slice AS target ON slice_in = target.id
"""

MEANT = """
SELECT
    extract_arg(flow.arg_set_id, 'cat') AS cat,
    source.name,
    target.name,
    extract_arg(source.arg_set_id, '{prefix}.correlation')
    = extract_arg(target.arg_set_id, '{prefix}.correlation'),
    extract_arg(source.arg_set_id, '{prefix}.critical')
    + extract_arg(target.arg_set_id, '{prefix}.critical')
FROM flow
INNER JOIN slice AS source ON slice_out = source.id
INNER JOIN slice AS target ON slice_in = target.id
"""


def meant(processor: Processor, ending: str) -> list[tuple[Any, ...]]:
    """For each flow: category, names, if correlations are equal, ends on the path."""
    prefix = "args" if ending == ".json" else "debug"
    return processor.rows(MEANT.format(prefix=prefix))


def reread(
    events: list[dict[str, Any]], folder: Path, ending: str, load: Load
) -> Processor:
    """The export of a trace of these events, as Perfetto's trace processor has it."""
    (folder / "trace.json").write_text(json.dumps({"traceEvents": events}))
    with tracedb.open() as database:
        database.ingest([folder / "trace.json"])
        database.export(folder / f"out{ending}")
    processor = load(folder / f"out{ending}")
    assert processor.errors() == []
    return processor


@pytest.fixture(scope="module")
def load() -> Iterator[Load]:
    """Loads a trace into a trace processor, always in one browser."""
    with trace_processor() as made:
        yield made


@pytest.fixture(scope="module")
def simulated(ingested: Ingested) -> Iterator[tracedb.Database]:
    """Two ranks with the prediction of a scenario."""
    edit = tracedb.Edit(scenario="half", target="gpu", factor=0.5)
    with (
        tracedb.open(ingested(GPU), read_only=True) as database,
        database.simulate(["replay"], [edit]) as beside,
    ):
        yield beside


def arrows(path: Path) -> Counter[Any]:
    """The begins of the events that the flows of an export in Chrome JSON connect."""
    ends: dict[Any, dict[str, int]] = defaultdict(dict)
    document = json.loads(path.read_text(), parse_float=Decimal)
    for event in document["traceEvents"]:
        if event["ph"] in "sf":
            ends[event["cat"], event["id"]][event["ph"]] = round(event["ts"] * 1000)
    return Counter((one["s"], one["f"]) for one in ends.values() if len(one) == 2)


def from_first(flows: Counter[Any]) -> Counter[Any]:
    """Flows with times from the first of them."""
    first = min(at for at, _ in flows)
    return Counter((a - first, b - first) for a, b in flows.elements())


@pytest.mark.parametrize("ending", [".json", ".pftrace"])
def test_nothing_is_lost(
    ending: str, simulated: tracedb.Database, tmp_path: Path, load: Load
) -> None:
    """Ranks, path and predictions have all slices, times, arguments and arrows."""
    simulated.export(tmp_path / "run.json")
    simulated.export(tmp_path / f"run{ending}")
    processor = load(tmp_path / f"run{ending}")
    assert processor.errors() == []
    own = defaultdict[str, Counter[Any]](Counter)
    for process, name, lasts in processor.rows(OF_PROCESS):
        own[process][name, lasts] += 1
    assert {name for name in own if "python3" in name} == {
        f"rank {rank} {of}: python3" for rank in (0, 1) for of in ("CPU", f"GPU {rank}")
    }
    slices = processor.rows("SELECT name, ts, dur FROM slice")
    first = min(at for _, at, _ in slices)
    shown = Counter((name, at - first, lasts) for name, at, lasts in slices)
    assert not Counter(rows(simulated, RECORDED)) - shown
    assert own["critical path"] == Counter(rows(simulated, PATH))
    scenario = Counter(rows(simulated, PREDICTED))
    assert own["predicted by replay, scenario half"] == scenario
    query = "SELECT count(slack_ns), sum(slack_ns)::BIGINT FROM critical_path.slack"
    assert processor.rows(SLACK) == rows(simulated, query)
    found = Counter((a - first, b - first) for a, b in processor.rows(ARROWS))
    assert found == arrows(tmp_path / "run.json")


def test_streams_have_names(
    database_of: DatabaseOf, tmp_path: Path, load: Load
) -> None:
    """Arrows to work of a stream whose id is a text, as Kineto once wrote it."""
    document = json.loads(gzip.decompress((GPU / "rank0.kineto.json.gz").read_bytes()))
    for event in document["traceEvents"]:
        if event["pid"] == 0:
            event["tid"] = f"stream {event['tid']}"
    (tmp_path / "named.json").write_text(json.dumps(document))
    database = database_of(tmp_path / "named.json")
    database.export(tmp_path / "run.json")
    database.export(tmp_path / "run.pftrace")
    processor = load(tmp_path / "run.pftrace")
    found = Counter((a, b) for a, b in processor.rows(ARROWS))
    assert found.total() > 100
    assert from_first(found) == from_first(arrows(tmp_path / "run.json"))


def test_a_rank_may_be_behind(tmp_path: Path, load: Load) -> None:
    """What names a rank whose clock is set back is no event before 0."""
    for rank in (0, 1):
        text = gzip.decompress((GPU / f"rank{rank}.kineto.json.gz").read_bytes())
        document = json.loads(text)
        first = min(e["ts"] for e in document["traceEvents"] if e["ph"] != "M")
        for event in document["traceEvents"]:
            event["ts"] = event.get("ts", first) - first + 1000 * (1 + rank)
            if event["ph"] == "M":
                event["ts"] = 0
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(document))
    with tracedb.open() as database:
        database.ingest([tmp_path / f"rank{rank}.json" for rank in (0, 1)])
        database.export(tmp_path / "run.json")
    assert load(tmp_path / "run.json").errors() == []


def test_a_path_at_large_times(
    database_of: DatabaseOf, tmp_path: Path, load: Load
) -> None:
    """No interval is dropped where times are too large to be exact doubles."""
    database = database_of(GPU / "rank0.kineto.json.gz")
    database.export(tmp_path / "one.json")
    processor = load(tmp_path / "one.json")
    found = Counter(
        name
        for process, name, _ in processor.rows(OF_PROCESS)
        if process == "critical path"
    )
    assert found == Counter(name for name, _ in rows(database, PATH))


SLICES: list[dict[str, Any]] = [
    # On thread 7, the second one overlaps the first; the third is within both.
    {"name": "a", "tid": 7, "ts": 10, "dur": 10},
    {"name": "b", "tid": 7, "ts": 15, "dur": 10},
    {"name": "c", "tid": 7, "ts": 16, "dur": 1},
    # Ids for which Perfetto has no place.
    {"name": "d", "tid": -5, "ts": 11, "dur": 12},
    {"name": "e", "tid": 2**40, "ts": 12, "dur": 12},
    {"name": "f", "tid": 0, "ts": 13, "dur": 12},
]


@pytest.mark.parametrize("ending", [".json", ".pftrace"])
@pytest.mark.parametrize("start", [-20, 0, 1_700_000_000_000_000])
def test_slices_may_lie_anywhere(
    start: int, ending: str, tmp_path: Path, load: Load
) -> None:
    """Before 0, at times beyond exact doubles, overlapping, and with any thread id."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "cpu_op", "pid": 3, **one, "ts": one["ts"] + start}
        for one in SLICES
    ]
    events += [{**events[0], "name": "g", field: "NaN"} for field in ("ts", "dur")]
    for field in ("ph", "pid", "tid"):
        kept = {key: value for key, value in events[0].items() if key != field}
        events.append({**kept, "cat": "incomplete"})
    for name, tid in (("main", 7), ("", 8)):
        about = {"ph": "M", "name": "thread_name", "pid": 3, "tid": tid}
        events.append({**about, "ts": 0, "args": {"name": name}})
    processor = reread(events, tmp_path, ending, load)
    shown = processor.rows(
        "SELECT slice.name, ts, dur, utid, track_id, thread.name FROM slice "
        "INNER JOIN thread_track ON slice.track_id = thread_track.id "
        "INNER JOIN thread USING (utid) WHERE category = 'cpu_op' ORDER BY slice.name"
    )
    first = min(at for _, at, *_ in shown)
    expected = [(one["name"], one["ts"], one["dur"]) for one in SLICES]
    # Without a duration, it is an instant; without a time, it is left out.
    expected.append(("g", 10, 0))
    assert [(n, 10 + (at - first) // 1000, t // 1000) for n, at, t, *_ in shown] == (
        expected
    )
    threads = {name: (thread, track) for name, _, _, thread, track, _ in shown[:-1]}
    assert threads["a"] == threads["c"]
    assert len({*threads.values()}) == len(SLICES) - 1
    if ending == ".json":
        names = {name: thread for name, *_, thread in shown}
        assert (names["a"], names["b"]) == ("main", "main, overlapping")


@needs_corpus
@pytest.mark.parametrize(
    "trace",
    [
        "hta/critical_path/alexnet.json.gz",
        "nsys/healthy_1pct.sqlite",
        "tracelens/decode_graph/deepseek_r1_B300.json.gz",
    ],
)
def test_both_formats_show_the_same(
    trace: str, database_of: DatabaseOf, tmp_path: Path, load: Load
) -> None:
    """Recordings whose slices overlap, or begin before 0, lose none of them."""
    database = database_of(CORPUS / trace)
    found = []
    for ending in (".json", ".pftrace"):
        database.export(tmp_path / f"run{ending}")
        processor = load(tmp_path / f"run{ending}")
        assert processor.errors() == []
        flows = meant(processor, ending)
        assert len(flows) >= arrows(tmp_path / "run.json").total()
        assert all(same in (1, None) for cat, _, _, same, _ in flows if cat == "ac2g")
        slices = processor.rows("SELECT name, ts, dur FROM slice")
        first = min(at for _, at, _ in slices)
        found.append(Counter((name, at - first, dur) for name, at, dur in slices))
        found[-1] += Counter(cat for cat, *_ in flows)
    assert found[0] == found[1]


HOST = {"ph": "X", "pid": 1, "tid": 1}
WORK = {"ph": "X", "pid": 0, "tid": 7}
CALL: dict[str, Any] = {**HOST, "cat": "cuda_runtime"}
CROSSING: list[dict[str, Any]] = [
    # Children begin with their op, one of them without a length.
    {**HOST, "cat": "cpu_op", "name": "outer", "ts": 0, "dur": 200},
    {**HOST, "cat": "cpu_op", "name": "inner", "ts": 0, "dur": 40},
    {**HOST, "cat": "cpu_op", "name": "innermost", "ts": 0, "dur": 40},
    {**HOST, "cat": "cpu_op", "name": "instant", "ts": 0, "dur": 0},
    {**HOST, "cat": "cpu_op", "name": "next", "ts": 40, "dur": 5},
    {
        **CALL,
        "name": "cudaLaunchKernel",
        "ts": 50,
        "dur": 5,
        "args": {"correlation": 1},
    },
    {**CALL, "name": "cudaMemcpyAsync", "ts": 56, "dur": 3, "args": {"correlation": 2}},
    # The range around a kernel has its times, and comes later.
    {**WORK, "cat": "kernel", "name": "k", "ts": 60, "dur": 20}
    | {"args": {"correlation": 1, "device": 0, "stream": 7}},
    {**WORK, "cat": "gpu_user_annotation", "name": "range", "ts": 60, "dur": 20},
    # A copy overlaps both.
    {**WORK, "cat": "gpu_memcpy", "name": "copy", "ts": 70, "dur": 30}
    | {"args": {"correlation": 2, "device": 0, "stream": 7}},
    # Ends of flows say nothing of what they are attached to.
    {"ph": "s", "pid": 1, "tid": 1, "id": 1, "ts": 50},
    {"ph": "f", "pid": 0, "tid": 7, "id": 1, "ts": 60},
    {"ph": "s", "pid": 1, "tid": 1, "id": 2, "ts": 56},
    {"ph": "f", "pid": 0, "tid": 7, "id": 2, "ts": 70},
    # A flow ends when it starts, and its end comes first.
    {"ph": "f", "pid": 0, "tid": 8, "id": 3, "ts": 150},
    {**CALL, "name": "cudaStreamSynchronize", "ts": 150, "dur": 9}
    | {"args": {"correlation": 3}},
    {"ph": "s", "pid": 1, "tid": 1, "id": 3, "ts": 150},
    {**WORK, "tid": 8, "cat": "cuda_sync", "name": "Stream Sync", "ts": 150, "dur": 8}
    | {"args": {"correlation": 3, "device": 0, "stream": 8}},
]


OPS = """
SELECT
    op.name, parent.name, op.start_ns - min(op.start_ns) OVER (),
    op.end_ns - op.start_ns
FROM staging.op AS op
LEFT JOIN staging.op AS parent ON op.parent_op_id = parent.op_id
ORDER BY op.name
"""


@pytest.mark.parametrize("ending", [".json", ".pftrace"])
def test_arrows_meet_their_slices(ending: str, tmp_path: Path, load: Load) -> None:
    """Not the range around it, a child that begins with it, or an overlapping slice."""
    of_flows = {"cat": "ac2g", "name": "ac2g"}
    events = [one if one["ph"] == "X" else {**of_flows, **one} for one in CROSSING]
    processor = reread(events, tmp_path, ending, load)
    flows = meant(processor, ending)
    assert {(a, b) for cat, a, b, *_ in flows if cat == "ac2g"} == {
        ("cudaLaunchKernel", "k"),
        ("cudaMemcpyAsync", "copy"),
        ("cudaStreamSynchronize", "Stream Sync"),
    }
    path = [(a, b, ends) for cat, a, b, _, ends in flows if cat == "critical_path"]
    calls = ("cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize")
    assert sorted(path) == [("outer", call, 2) for call in calls]
    nested = processor.rows(
        "SELECT slice.name, parent.name, slice.ts, slice.dur FROM slice "
        "LEFT JOIN slice AS parent ON slice.parent_id = parent.id "
        "WHERE slice.category = 'cpu_op' ORDER BY slice.name"
    )
    first = min(at for *_, at, _ in nested)
    assert [(a, b, (at - first) // 1000, dur // 1000) for a, b, at, dur in nested] == [
        ("inner", "outer", 0, 40),
        ("innermost", "inner", 0, 40),
        ("instant", "innermost", 0, 0),
        ("next", "outer", 40, 5),
        ("outer", None, 0, 200),
    ]
    if ending == ".json":
        text = (tmp_path / "out.json").read_text()
        assert '"ph":"B"' in text
        with tracedb.open() as database:
            database.ingest([tmp_path / "out.json"])
            assert rows(database, "FROM raw.ingest_issue") == []
            again = rows(database, OPS)
        assert again == [(a, b, at - first, dur) for a, b, at, dur in nested]


def test_names_and_arguments_may_be_anything(tmp_path: Path, load: Load) -> None:
    """Nothing stops the trace processor, which ends a name only at its first NUL."""
    trace = json.loads(hostile_trace(tmp_path / "trace.json").read_text())
    events = trace["traceEvents"]
    events[1]["args"] = {
        "null": None,
        "nested": {"null": None, "list": [1, None, {}], "empty": {}},
        "large": 2**70,
        "": "no key",
    }
    with (tmp_path / "out.pftrace").open("wb") as file:
        pftrace.write(file, {}, events)
    processor = load(tmp_path / "out.pftrace")
    assert processor.errors() == []
    expected = Counter(
        (event["name"].partition("\0")[0], 1000 * event["ts"], 1000 * event["dur"])
        for event in events
        if event["ph"] == "X"
    )
    assert Counter(processor.rows("SELECT name, ts, dur FROM slice")) == expected
    texts = dict(processor.rows("SELECT key, string_value FROM args"))
    assert texts["debug.null.tracedb_json"] == "null"
    assert texts["debug.large.tracedb_json"] == str(2**70)
