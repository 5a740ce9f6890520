"""Export to MLCommons Chakra: running the graph gives the times of steps.

The files are read and run by code of this test only, from the public definition of the
format (`et_def.proto`): a node begins when all its dependencies are over, a collective
when the last rank arrives.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support import (
    CORPUS,
    SAMPLES,
    DatabaseOf,
    Ingested,
    assert_nothing_written,
    needs_corpus,
    rows,
)

import tracedb
from tracedb import Edit
from tracedb.cli.main import tracedb as command
from tracedb.errors import QueryError
from tracedb.export.timed_graph import Work, nodes, timed

Node = dict[str, Any]
METADATA, LOAD, STORE, COMPUTE, SEND, RECEIVE, COLLECTIVE = 1, 2, 3, 4, 5, 6, 7
MEETING = SEND, RECEIVE, COLLECTIVE
UNITS = {"duration_ns": "start_ns", "duration_micros": "start_time_micros"}
FIELDS = {
    1: "id",
    2: "name",
    3: "type",
    6: "start_time_micros",
    7: "duration_micros",
}
INTEGERS = {9: 64, 13: 64, 27: 1}
TEXT = 29
# The value that Chakra's feeder reads of each attribute that it knows
# (`src/feeder/et_feeder_node.cpp`); any other one reads as zero.
READ_BY_THE_FEEDER = {
    "is_cpu_op": 27,
    "num_ops": 9,
    "tensor_size": 13,
    "comm_type": 9,
    "comm_size": 9,
    "pg_name": TEXT,
}
DLRM = CORPUS / "param/dlrm8/kineto"
TWICE = Edit(scenario="edited", target="gpu", type="kernel", factor=2)
EDITS = {
    "twice": [TWICE],
    "many": [
        Edit(scenario="edited", target="gpu", factor=0.5),
        Edit(scenario="edited", target="delay", factor=0.3),
        Edit(scenario="edited", target="host", factor=0.7),
        Edit(
            scenario="edited",
            target="gpu",
            type="kernel",
            action="insert",
            place="after",
            gpu_ns=6_000,
        ),
    ],
    "moved": [
        Edit(
            scenario="edited",
            target="gpu",
            type="memcpy",
            action="move",
            to_stream=99,
        ),
        Edit(scenario="edited", target="op", name="/^aten::mm$/", action="remove"),
    ],
}


def varint(data: bytes, place: int) -> tuple[int, int]:
    """A varint (seven bits per byte), and the offset after it."""
    found = shift = 0
    while True:
        byte = data[place]
        found |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return found, place


def message(data: bytes) -> list[tuple[int, Any]]:
    """The fields of a message; Chakra's are numbers or length-delimited bytes."""
    place, found = 0, []
    while place < len(data):
        key, place = varint(data, place)
        assert key & 7 in (0, 2)
        value: Any
        value, place = varint(data, place)
        if key & 7 == 2:
            value, place = data[place : place + value], place + value
        found.append((key >> 3, value))
    return found


def packed(data: bytes) -> Iterator[int]:
    """Packed numbers."""
    place = 0
    while place < len(data):
        value, place = varint(data, place)
        yield value


def read(path: Path) -> list[Node]:
    """The nodes of a file, after its metadata."""
    data, place, found = path.read_bytes(), 0, []
    while place < len(data):
        length, place = varint(data, place)
        found.append(message(data[place : place + length]))
        place += length
    assert found[0][0] == (1, b"0.0.4")
    return [_node(fields) for fields in found[1:]]


def _node(fields: list[tuple[int, Any]]) -> Node:
    node: Node = {"after": [], "start_time_micros": 0, "duration_micros": 0}
    for field, value in fields:
        if field == 5:
            node["after"] += packed(value)
        elif field == 10:
            (_, name), (kind, held) = message(value)
            assert kind in INTEGERS or kind == TEXT
            assert kind == READ_BY_THE_FEEDER.get(name.decode(), kind), name
            node[name.decode()] = held.decode() if kind == TEXT else held
        else:
            node[FIELDS[field]] = value.decode() if field == 2 else value
    return node


def run(ranks: list[list[Node]], unit: str) -> dict[int, int]:
    """When each node begins, if all run as early as possible."""
    meetings: dict[Any, list[int]] = defaultdict(list)
    meeting_of = {}
    for rank in ranks:
        count: Counter[str] = Counter()
        for node in rank:
            if node["type"] in MEETING and node["ranks_meet"]:
                count[node["pg_name"]] += 1
                key = node["pg_name"], count[node["pg_name"]]
                meetings[key].append(node["id"])
                meeting_of[node["id"]] = key
    left = [node for rank in ranks for node in rank]
    ready: dict[int, int] = {}
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    while left:
        waiting = []
        for node in left:
            if any(one not in end for one in node["after"]):
                waiting.append(node)
                continue
            number = node["id"]
            ready[number] = max((end[one] for one in node["after"]), default=0)
            others = meetings[meeting_of[number]] if number in meeting_of else [number]
            if any(one not in ready for one in others):
                waiting.append(node)
                continue
            begin[number] = max(ready[one] for one in others)
            end[number] = begin[number] + node[unit]
        assert len(waiting) < len(left), "nodes wait in a circle"
        left = waiting
    return begin


def periods(ranks: list[list[Node]], begin: Mapping[int, int]) -> list[dict[int, int]]:
    """Each step's time from begin to end, by rank."""
    found = []
    for rank in ranks:
        marks = {
            n["name"]: begin[n["id"]]
            for n in rank
            if n["type"] == METADATA and n["name"].startswith("step")
        }
        steps = [int(name.split()[1]) for name in marks if name.endswith("ends")]
        found.append(
            {
                step: marks[f"step {step} ends"] - marks[f"step {step} begins"]
                for step in steps
                if f"step {step} begins" in marks
            }
        )
    return found


def reported(database: tracedb.Database, run_id: int) -> list[dict[int, int]]:
    """Step times according to tracedb, measured or predicted, by rank."""
    query = f"""
        SELECT trace.trace_id, step, period.end_ns - period.start_ns
        FROM critical_path.step_period AS period
        INNER JOIN staging.step USING (step_id)
        INNER JOIN staging.trace AS trace ON period.trace_id = trace.trace_id
        WHERE trace.run_id = {run_id} AND variant_id = (
            SELECT max(variant_id) FILTER (is_asked) FROM prediction.variant
        )
        ORDER BY rank, trace.trace_id, step
    """
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for trace, step, time in rows(database, query):
        found[trace][step] = time
    return list(found.values())


def runs(database: tracedb.Database) -> list[int]:
    """Runs with steps."""
    query = "SELECT DISTINCT run_id FROM critical_path.step_period ORDER BY run_id"
    return [number for (number,) in rows(database, query)]


def exported(
    database: tracedb.Database, folder: Path, run_id: int, step: int | None = None
) -> list[list[Node]]:
    """The nodes of each rank's file."""
    for old in folder.glob("run.*.et"):
        old.unlink()
    count = database.export(folder / "run.et", run=run_id, step=step, format="chakra")
    files = sorted(folder.glob("run.*.et"), key=lambda path: int(path.suffixes[0][1:]))
    found = [read(path) for path in files]
    assert sum(map(len, found)) == count
    return found


def assert_lawful(database: tracedb.Database, folder: Path, run_id: int) -> None:
    """The graphs of each run, and of a step, take as long as tracedb reports."""
    expected = reported(database, run_id)
    steps = sorted(expected[0])
    for step in (None, steps[len(steps) // 2]):
        ranks = exported(database, folder, run_id, step)
        for unit, start in UNITS.items():
            begin = run(ranks, unit)
            for node in (node for rank in ranks for node in rank):
                assert begin[node["id"]] == node[start], node
            for rank, times in zip(periods(ranks, begin), expected, strict=True):
                wanted = times if step is None else {step: times[step]}
                for number, time in wanted.items():
                    if unit == "duration_ns":
                        assert rank[number] == time
                    else:
                        # The difference of two times, each rounded down.
                        assert abs(rank[number] * 1000 - time) < 1000
        if step is not None and len(ranks) == 1:
            last = max(begin[n["id"]] + n["duration_micros"] for n in ranks[0])
            assert last == expected[0][step] // 1000


@contextmanager
def shown(
    database: tracedb.Database, edits: str | None, method: str | None = "replay"
) -> Iterator[tracedb.Database]:
    """The database as measured, as predicted, or with edits."""
    if method is None:
        with nullcontext(database) as same:
            yield same
    else:
        chosen = None if edits is None else EDITS[edits]
        with database.simulate([method], chosen) as beside:
            yield beside


@pytest.mark.parametrize("method", [None, "replay"], ids=str)
@pytest.mark.parametrize("sample", ["generated_gpu", "ddp_gloo"])
def test_samples_take_the_reported_time(
    sample: str, method: str | None, database_of: DatabaseOf, tmp_path: Path
) -> None:
    """One sample has two ranks with GPUs, the other two ranks on CPUs."""
    with shown(database_of(SAMPLES / sample), None, method) as database:
        (run_id,) = runs(database)
        assert_lawful(database, tmp_path, run_id)


@pytest.mark.parametrize("edits", [None, "many", "moved"], ids=str)
def test_generated_traces_take_the_reported_time(
    edits: str | None, generated: tracedb.Database, tmp_path: Path
) -> None:
    """They have several threads and streams, copies, waits and all kinds of edits."""
    with shown(generated, edits) as database:
        for run_id in runs(database)[3:12:6]:
            assert_lawful(database, tmp_path, run_id)


def test_measured_begins_are_reproduced(
    generated: tracedb.Database, tmp_path: Path
) -> None:
    """Every begin is the measured one, and follows from its dependencies."""
    for run_id in runs(generated)[::5]:
        assert_lawful(generated, tmp_path, run_id)
        (rank,) = exported(generated, tmp_path, run_id)
        assert [n["name"] for n in rank if n["kind"] == "given_begin"] == []


@needs_corpus
def test_real_ranks_take_the_reported_time(
    database_of: DatabaseOf, tmp_path: Path
) -> None:
    """Two ranks of DLRM training, whose collectives are kernels."""
    names = ("worker0", "worker1")
    database = database_of(*(DLRM / f"{name}.pt.trace.json.gz" for name in names))
    assert_lawful(database, tmp_path, 1)
    ranks = exported(database, tmp_path, 1)
    met = [[n for n in r if n["type"] == COLLECTIVE] for r in ranks]
    assert len(met[0]) == len(met[1]) == 8
    assert all(n["ranks_meet"] and "comm_type" in n for r in met for n in r)


@pytest.mark.parametrize("sample", ["generated_gpu", "generated"])
def test_changing_the_file_equals_a_scenario(
    sample: str,
    request: pytest.FixtureRequest,
    database_of: DatabaseOf,
    tmp_path: Path,
) -> None:
    """Doubling kernel durations in the file equals the scenario that doubles them."""
    is_sample = sample == "generated_gpu"
    database = (
        database_of(SAMPLES / sample) if is_sample else request.getfixturevalue(sample)
    )
    files = {}
    with shown(database, None) as replay:
        for run_id in runs(database)[:9:8]:
            files[run_id] = exported(replay, tmp_path, run_id)
    with shown(database, "twice") as scenario:
        for run_id, ranks in files.items():
            kernels = [n for r in ranks for n in r if n["kind"] == "kernel"]
            assert len(kernels) > 5
            for node in kernels:
                node["duration_ns"] *= 2
            found = periods(ranks, run(ranks, "duration_ns"))
            assert found == reported(scenario, run_id)


def test_nodes_say_what_they_are(database_of: DatabaseOf, tmp_path: Path) -> None:
    """Copies, collectives and compute have Chakra's types and known attributes."""
    database = database_of(SAMPLES / "generated_gpu")
    ranks = exported(database, tmp_path, 1)
    query = """
        SELECT count(*) FILTER (kind = 'kernel' AND NOT is_collective),
            count(*) FILTER (is_collective),
            count(*) FILTER (staging.copy_direction(name) = 'h2d' AND kind = 'memcpy'),
            count(*) FILTER (staging.copy_direction(name) = 'd2h' AND kind = 'memcpy'),
            count(*) FILTER (kind = 'memset')
        FROM staging.gpu_op
    """
    ((kernels, collectives, loads, stores, memsets),) = rows(database, query)
    found = [node for rank in ranks for node in rank]
    types = Counter(node["type"] for node in found)
    assert (types[COLLECTIVE], types[LOAD], types[STORE]) == (
        collectives,
        loads,
        stores,
    )
    own = {n["tracedb_node"] for n in found if n["kind"] == "kernel"}
    assert len(own) == kernels
    on_gpu = {n["tracedb_node"] for n in found if not n["is_cpu_op"]}
    assert len(on_gpu) == kernels + collectives + loads + stores + memsets
    reduced = next(node for node in found if node["type"] == COLLECTIVE)
    assert reduced["comm_size"] > 0
    assert {"comm_type", "pg_name", "pg_size"} <= reduced.keys()
    assert sum(node.get("num_ops", 0) for node in found) > 0
    numbers = [node["id"] for node in found]
    assert len({*numbers}) == len(numbers)
    assert all(one < node["id"] for node in found for one in node["after"])


def test_google_protobuf_reads_it(database_of: DatabaseOf, tmp_path: Path) -> None:
    """Classes generated from the public definition find the same nodes."""
    names = ("descriptor_pb2", "descriptor_pool", "message_factory", "unknown_fields")
    descriptor_pb2, descriptor_pool, message_factory, unknown_fields = (
        pytest.importorskip(f"google.protobuf.{name}") for name in names
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="et.proto", syntax="proto3")
    made: dict[str, list[tuple[Any, ...]]] = {
        "Attribute": [
            ("name", 1, kinds.TYPE_STRING),
            ("int64_val", 9, kinds.TYPE_INT64),
            ("uint64_val", 13, kinds.TYPE_UINT64),
            ("bool_val", 27, kinds.TYPE_BOOL),
            ("string_val", 29, kinds.TYPE_STRING),
        ],
        "GlobalMetadata": [
            ("version", 1, kinds.TYPE_STRING),
            ("attr", 2, kinds.TYPE_MESSAGE),
        ],
        "Node": [
            ("id", 1, kinds.TYPE_UINT64),
            ("name", 2, kinds.TYPE_STRING),
            ("type", 3, kinds.TYPE_INT32),
            ("data_deps", 5, kinds.TYPE_UINT64),
            ("start_time_micros", 6, kinds.TYPE_UINT64),
            ("duration_micros", 7, kinds.TYPE_UINT64),
            ("attr", 10, kinds.TYPE_MESSAGE),
        ],
    }
    for name, fields in made.items():
        described = file.message_type.add(name=name)
        for field, number, kind in fields:
            described.field.add(
                name=field,
                number=number,
                type=kind,
                label=3 if field in ("data_deps", "attr") else 1,
                type_name=".Attribute" if field == "attr" else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        for name in made
    }
    (expected, _) = exported(database_of(SAMPLES / "generated_gpu"), tmp_path, 1)
    data, place = (tmp_path / "run.0.et").read_bytes(), 0
    found: list[Any] = []
    while place < len(data):
        length, place = varint(data, place)
        kind = "Node" if found else "GlobalMetadata"
        found.append(classes[kind].FromString(data[place : place + length]))
        place += length
        assert len(unknown_fields.UnknownFieldSet(found[-1])) == 0
    assert found[0].version == "0.0.4"
    own = [(n.id, n.name, [*n.data_deps], n.duration_micros) for n in found[1:]]
    assert own == [
        (n["id"], n["name"], n["after"], n["duration_micros"]) for n in expected
    ]


def test_edges_lead_from_end_to_begin() -> None:
    """Nodes are split where another one starts; a delay is a node of its own."""
    first = Work(1, 100, at_ns=0)
    second = Work(1, 50, [first.end])
    cutting = Work(2, 10, [(second, 20)])
    early = Work(2, 10, [(second, -30)])
    late = Work(2, 10, [(second, 80)])
    for work in (cutting, early, late):
        work.trace = 1
    works = timed([late, early, cutting, second, first])
    made = [*nodes(works, {1: (0, 1000)})]
    ends = {node.number: node.end_ns for node in made}
    for node in made:
        latest = max((ends[one] for one in node.after), default=0)
        assert latest == node.begin_ns
    pieces = defaultdict(list)
    for node in made:
        pieces[node.work].append((node.piece, node.begin_ns, node.end_ns))
    assert pieces[first] == [(0, 0, 70), (1, 70, 100)]
    assert pieces[second] == [(0, 100, 120), (1, 120, 150)]
    assert pieces[cutting] == [(0, 120, 130)]
    assert pieces[early] == [(0, 70, 80)]
    assert pieces[late] == [(-1, 150, 180), (0, 180, 190)]
    halves = [*nodes(works, {1: (60, 125)})]
    assert min(n.begin_ns for n in halves) == 60
    assert max(n.end_ns for n in halves) == 125
    circle = [Work(1, 1), Work(1, 1)]
    circle[0].after, circle[1].after = [circle[1].end], [circle[0].end]
    with pytest.raises(QueryError, match="cycle"):
        timed(circle)


def test_on_the_command_line(tmp_path: Path, ingested: Ingested) -> None:
    """There is a file per rank; if one is not ours, none is overwritten."""
    database = str(ingested(SAMPLES / "generated_gpu"))
    line = ["export", database, "--format", "chakra", "--step", "2", "-o"]
    done = CliRunner().invoke(command, [*line, str(tmp_path / "a.et")])
    assert (done.exit_code, done.stdout) == (0, "")
    assert "a.*.et: " in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"a.0.et", "a.1.et"}
    again = CliRunner().invoke(command, [*line, str(tmp_path / "a.et")])
    assert again.exit_code == 0
    (tmp_path / "b.1.et").write_text("mine")
    refused = CliRunner().invoke(command, [*line, str(tmp_path / "b.et")])
    assert refused.exit_code == 2
    assert "not an export of tracedb" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert {*(path.name for path in tmp_path.iterdir())} == {
        "a.0.et",
        "a.1.et",
        "b.1.et",
    }


def test_scenarios_are_written_one_at_a_time(
    database_of: DatabaseOf, tmp_path: Path
) -> None:
    """A graph is of one scenario; the error lists them."""
    edits = [Edit(scenario=name, target="gpu", factor=2) for name in ("one", "another")]
    database = database_of(SAMPLES / "generated_gpu")
    with (
        database.simulate(["replay"], edits) as beside,
        pytest.raises(QueryError, match="holds one scenario, but there are"),
    ):
        beside.export(tmp_path / "x.et", format="chakra")
    assert_nothing_written(tmp_path)
