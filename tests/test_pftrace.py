"""Perfetto's format: exports are read back, and PyTorch's traces are read."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support import SAMPLES, DatabaseOf, rows

import tracedb
from tracedb.cli.main import tracedb as command
from tracedb.errors import IngestError
from tracedb.export import pftrace
from tracedb.export.pftrace import HEAD
from tracedb.ingest.foreign import perfetto
from tracedb.protobuf import message, number, text

Row = dict[str, Any]

RANK = SAMPLES / "generated_gpu" / "rank0.kineto.json.gz"
SAME = (
    *("staging.op", "staging.call", "staging.gpu_op", "staging.step"),
    *("staging.thread", "staging.flow", "graph.edge", "critical_path.slack"),
    *("critical_path.interval", "question.timeline"),
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rank in Perfetto's format, with a method's predictions."""
    path = tmp_path_factory.mktemp("pftrace") / "run.pftrace"
    with tracedb.open() as database:
        database.ingest([RANK])
        with database.simulate(["replay"]) as simulated:
            simulated.export(path, format="pftrace")
    return path


def test_an_export_can_be_ingested(database_of: DatabaseOf, tmp_path: Path) -> None:
    """An ingested export has the same ops, kernels, flows and paths."""
    first = database_of(RANK)
    path = tmp_path / "out.pftrace.gz"
    count = first.export(path, format="pftrace")
    assert first.export(tmp_path / "out.json", format="chrome") == count
    with tracedb.open() as second:
        second.ingest([path])
        assert rows(second, "FROM raw.ingest_issue") == []
        for name in SAME:
            order = f"FROM {name} ORDER BY ALL"
            assert first.sql(order).equals(second.sql(order)), name


def test_perfettos_own_classes_read_an_export(exported: Path) -> None:
    """Slices are closed and nested; path and prediction have tracks of their own."""
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = protos.Trace()
    trace.ParseFromString(exported.read_bytes())
    open_: dict[int, list[int]] = defaultdict(list)
    names: dict[int, str] = {}
    processes = set()
    last: dict[int, int] = {}
    count: Counter[int] = Counter()
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        names |= {one.iid: one.name for one in packet.interned_data.event_names}
        if packet.track_descriptor.HasField("process"):
            processes.add(packet.track_descriptor.process.process_name)
        event = packet.track_event
        if event.type in (1, 2):
            count[event.type] += 1
            stack = open_[event.track_uuid]
            assert packet.timestamp >= last.get(event.track_uuid, 0)
            last[event.track_uuid] = packet.timestamp
            if event.type == 1:
                assert names[event.name_iid]
                stack.append(packet.timestamp)
            else:
                assert stack.pop() <= packet.timestamp
    assert count[1] == count[2] > 1000
    assert not any(open_.values())
    assert {"critical path", "predicted by replay"} <= processes


def test_only_exports_are_overwritten(
    exported: Path, database_of: DatabaseOf, tmp_path: Path
) -> None:
    """Another tool's trace is never overwritten by an export."""
    mine = tmp_path / "mine.pftrace"
    mine.write_bytes(packet(number(8, 1)))
    with pytest.raises(tracedb.ReportError, match="not an export"):
        database_of(RANK).export(mine, format="pftrace")
    assert exported.read_bytes().startswith(HEAD)


def packet(*parts: bytes) -> bytes:
    """A packet of the first sequence."""
    return message(1, (*parts, number(10, 1)))


def track(uuid: int, parent: int, *parts: bytes) -> bytes:
    """A packet that describes a track."""
    return packet(message(60, (number(1, uuid), number(5, parent), *parts)))


def event(at: int, kind: int, uuid: int, *parts: bytes) -> bytes:
    """A packet with an event."""
    told = (number(9, kind), number(11, uuid), *parts)
    return packet(number(8, at), message(11, told))


def argument(name: str, value: int | str) -> bytes:
    """A debug annotation of an event."""
    held = number(4, value) if isinstance(value, int) else text(6, value)
    return message(4, text(10, name) + held)


def interned(kind: int, *names: str) -> bytes:
    """Interned strings, numbered from 1."""
    entries = (
        message(kind, number(1, iid) + text(2, name))
        for iid, name in enumerate(names, 1)
    )
    return b"".join(entries)


def monitor() -> bytes:
    """A trace like PyTorch's monitor writes it: all begins of a kind, then all ends."""
    names = interned(2, "aten::mm", "cudaLaunchKernel", "gemm", "ProfilerStep#1")
    stages = b"".join(
        message(24, number(1, iid) + text(2, name))
        for iid, name in ((1, "Kernel"), (100, "stream 07"))
    )
    ids = (argument("External id", 5), argument("Sequence number", 3))
    launched = (argument("cbid", 211), argument("correlation", 9))
    work = (number(1, 9), number(2, 40), number(11, 0), number(13, 100), number(14, 1))
    extra = message(6, text(1, "correlation") + text(2, "9"))
    return b"".join(
        (
            track(1, 0, message(3, number(1, 77) + text(6, "python"))),
            track(2, 1, message(4, number(1, 77) + number(2, 78) + text(5, "main"))),
            packet(number(13, 1), message(12, names + stages)),
            event(1000, 1, 2, number(10, 4), argument("External id", 4)),
            event(1010, 1, 2, number(10, 1), *ids),
            event(1050, 1, 2, number(10, 1), *ids),
            event(1100, 2, 2),
            event(1050, 2, 2),
            event(1090, 2, 2),
            event(1020, 1, 2, number(10, 2), *launched),
            event(1030, 2, 2),
            packet(
                number(8, 1060),
                message(53, (*work, number(20, 3), extra, number(5, 1))),
            ),
        )
    )


def read(path: Path) -> list[Row]:
    """The events that the reader returns for a file, without metadata."""
    trace = perfetto.read(path)
    found = [row for batch in trace.batches for row in batch.to_pylist()]
    return [row for row in found if row["ph"] != "M"]


def test_a_trace_of_pytorchs_monitor(tmp_path: Path) -> None:
    """Annotations give kinds, positions give ends, and queues give GPU work."""
    path = tmp_path / "torch.pftrace"
    path.write_bytes(gzip.compress(monitor()))
    found = [
        (row["cat"], row["name"], row["pid"], row["tid"], row["ts_ns"], row["dur_ns"])
        for row in read(path)
    ]
    assert found == [
        ("user_annotation", "ProfilerStep#1", "77", "78", 0, 100),
        ("cpu_op", "aten::mm", "77", "78", 10, 40),
        ("cpu_op", "aten::mm", "77", "78", 50, 40),
        ("cuda_runtime", "cudaLaunchKernel", "77", "78", 20, 10),
        ("kernel", "gemm", "0", "7", 60, 40),
    ]
    with tracedb.open() as database:
        database.ingest([path])
        (row,) = database.sql(
            "SELECT work.name, stream, call.name, op.name FROM staging.gpu_op AS work "
            "INNER JOIN staging.call AS call USING (call_id) "
            "INNER JOIN staging.op AS op ON work.op_id = op.op_id"
        ).rows()
    assert row == ("gemm", 7, "cudaLaunchKernel", "aten::mm")


def test_tracks_of_libkineto(tmp_path: Path) -> None:
    """Each event has its own track below the thread's; arguments are one text."""
    told = (
        argument("metadata", '"External id": 5, "Fwd thread id": 0'),
        argument("correlation_id", 5),
    )
    path = tmp_path / "kineto.pftrace"
    path.write_bytes(
        track(1, 0, message(3, number(1, 77)))
        + track(2, 1, message(4, number(1, 77) + number(2, 78)))
        + track(3, 2, text(2, "thread"))
        + event(100, 1, 3, text(23, "aten::mm"), *told)
        + event(130, 2, 3)
    )
    (row,) = read(path)
    assert (row["pid"], row["tid"], row["cat"]) == ("77", "78", "cpu_op")
    assert '"External id":5' in row["args"]


def test_arguments_of_any_value(tmp_path: Path) -> None:
    """They come back as they were, null, empty lists and large numbers too."""
    args: Row = {
        "a": None,
        "b": {"c": None, "d": [1, None, {}, []]},
        "e": 2**70,
        "f": [{}],
    }
    event = {"ph": "X", "name": "x", "pid": 1, "tid": 2, "ts": 5, "dur": 1}
    path = tmp_path / "odd.pftrace"
    with path.open("wb") as file:
        pftrace.write(file, {}, [{**event, "args": args}])
    (row,) = read(path)
    assert json.loads(row["args"]) == args


def test_clocks_defaults_and_compression(tmp_path: Path) -> None:
    """Times of another clock, the default track, and compressed packets."""
    clocks = message(1, number(1, 6) + number(2, 10_000))
    clocks += message(1, number(1, 64) + number(2, 5) + number(4, 1000) + number(3, 1))
    defaults = number(58, 64) + message(11, number(11, 2))
    inner = (
        packet(number(13, 1))
        + packet(message(6, clocks))
        + packet(message(59, defaults))
        + packet(number(8, 1), message(11, number(9, 1) + text(23, "aten::a")))
        + packet(number(8, 2), message(11, number(9, 2)))
    )
    path = tmp_path / "clocks.pftrace"
    whole = track(2, 0, message(4, number(1, 7) + number(2, 8)))
    path.write_bytes(whole + packet(message(50, zlib.compress(inner))))
    (row,) = read(path)
    assert (row["dur_ns"], row["pid"], row["tid"]) == (2000, "7", "8")
    assert perfetto.read(path).header["baseTimeNanoseconds"] == 11_000


def nested(depth: int) -> bytes:
    """An event with nested annotations."""
    held = text(10, "a") + number(4, 1)
    for _ in range(depth):
        held = text(10, "a") + message(11, held)
    return event(1, 3, 2, message(4, held))


HOSTILE = {
    "cut": (monitor()[:-7], "truncated, or not a Perfetto trace"),
    "cut gzip": (gzip.compress(monitor())[:-20], "gzip stream is truncated"),
    "bomb": (gzip.compress(bytes(2**29)), "gzip stream is truncated or broken"),
    "another message": (message(2, b"abc"), "no slices"),
    "no list": (b"\x0a\x00" + number(1, 5), "not a list of packets"),
    "a layout that is none": (b"\x0a\x02\x0b\x0c", "unknown wire type"),
    "huge number": (b"\x0a" + b"\xff" * 12, "more than ten bytes"),
    "huge length": (b"\x0a\xff\xff\xff\xff\xff\x7f", "ends after"),
    "deep": (nested(3000), "deep"),
    "a number for a message": (
        packet(number(8, 1), number(11, 5)),
        "unexpected wire type",
    ),
    "a text for a number": (
        packet(text(8, "x"), message(11, b"")),
        "unexpected wire type",
    ),
    "compressed twice": (
        packet(message(50, zlib.compress(packet(message(50, zlib.compress(b"")))))),
        "nested compressed packets",
    ),
    "only tracks": (track(1, 0), "no slices"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_one_line(case: str, tmp_path: Path) -> None:
    """The error says what is wrong, and where."""
    data, words = HOSTILE[case]
    path = tmp_path / "hostile.pftrace"
    path.write_bytes(data)
    with pytest.raises(IngestError, match=words) as raised:
        list(perfetto.read(path).batches)
    assert "\n" not in str(raised.value)


def test_a_broken_file_writes_nothing(tmp_path: Path) -> None:
    """Exit code 2, one line, no database."""
    path = tmp_path / "cut.pftrace"
    path.write_bytes(HOSTILE["cut"][0])
    words = ["ingest", str(path), "--db", str(tmp_path / "new.duckdb")]
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "new.duckdb").exists()


def test_odd_bytes_anywhere(tmp_path: Path) -> None:
    """A trace with changed bytes gives rows, or a `TracedbError`."""
    draw, whole = random.Random(0), monitor()  # noqa: S311 (no secret)
    path, outcomes = tmp_path / "odd.pftrace", Counter[str]()
    loop = track(5, 6) + track(6, 5) + event(1, 1, 5) + event(2, 1, 5) + event(0, 2, 5)
    path.write_bytes(loop + track(5, 6) + event(2**64 - 1, 3, 9))
    assert len(read(path)) == 3
    for _ in range(1000):
        data = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(bytes(data))
        try:
            read(path)
            outcomes["read"] += 1
        except IngestError:
            outcomes["refused"] += 1
    assert min(outcomes["read"], outcomes["refused"]) > 100
