"""Timelines of Ascend's PyTorch profiler, as torch_npu and msprof write them.

The generator follows their writers: torch_npu's `TraceEventManager` (ops, task queue,
flows) and msprof's assemblers of the lanes CANN, Ascend Hardware and Communication.
"""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from support import rows

import tracedb
from tracedb.errors import IngestError
from tracedb.ingest.decompress import Text
from tracedb.ingest.foreign import ascend

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Event = dict[str, Any]

BASE_US = 1_704_161_511_420_306
HOST, CANN, NPU, HCCL, OVERLAP = 437675, 4481792, 4481793, 4481794, 4481795
MAIN, QUEUE = 437675, 439228
STEPS = 3


def at(us: float) -> str:
    """A time as both write it: microseconds as text."""
    return f"{BASE_US + us:.3f}"


def span(
    pid: int, tid: int, us: float, lasts: float, name: str, **args: object
) -> Event:
    """An event with a duration; `cat` is a field, not an argument."""
    own = {"cat": args.pop("cat")} if "cat" in args else {}
    fields = {"pid": pid, "tid": tid, "ts": at(us), "dur": lasts}
    return {"ph": "X", "name": name, **fields, **own, "args": args}


def arrow(
    name: str, cat: str, key: object, *ends: tuple[int, int, float]
) -> list[Event]:
    """Both ends of a flow."""
    shared = {"bp": "e", "name": name, "id": key, "cat": cat}
    return [
        {"ph": ph, **shared, "pid": pid, "tid": tid, "ts": at(us)}
        for ph, (pid, tid, us) in zip("sf", ends, strict=True)
    ]


def lane(pid: int, name: str, label: str, **threads: str) -> list[Event]:
    """The names of a lane and of its rows."""
    named = [
        ("process_name", 0, {"name": name}),
        ("process_labels", 0, {"labels": label}),
    ]
    named += [("thread_name", int(tid[1:]), {"name": n}) for tid, n in threads.items()]
    return [
        {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}
        for kind, tid, args in named
    ]


def op(
    us: float, connection: int, name: str, kernel: str, *, queued: bool
) -> list[Event]:
    """An op that launches a kernel 30 us later, by the queue's thread or its own."""
    key = connection << 32
    args = {"Sequence number": -1, "Fwd thread id": 0, "Input Dims": "8,16;16,4;"}
    args |= {"Input type": "float;float;Scalar"}
    events = [span(HOST, MAIN, us, 20, name, cat="cpu_op", **args)]
    caller, called = (QUEUE, us + 10) if queued else (MAIN, us + 5)
    if queued:
        events += [
            span(HOST, MAIN, us + 5, 2, f"Enqueue@{name}", cat="enqueue"),
            span(HOST, QUEUE, us + 9, 12, f"Dequeue@{name}", cat="dequeue"),
            *arrow(
                "enqueue_to_dequeue",
                "async_task_queue",
                connection,
                (HOST, MAIN, us + 5),
                (HOST, QUEUE, us + 9),
            ),
        ]
    shared = {"Thread Id": caller, "Mode": "launch", "level": "node"}
    begun = us + 30
    return [
        *events,
        span(CANN, caller, called - 0.5, 9, f"AscendCL@aclnn{kernel}"),
        span(
            CANN, caller, called, 8, "Node@launch", connection_id=connection, **shared
        ),
        span(
            NPU,
            2,
            begun,
            100,
            kernel,
            **{"Task Type": "KERNEL_AIVEC", "Physic Stream Id": 2, "Task Id": 7},
            **{"Model Id": 4294967295, "connection_id": connection},
        ),
        *arrow(
            f"HostToDevice{key}",
            "HostToDevice",
            str(key),
            (CANN, caller, called),
            (NPU, 2, begun),
        ),
        *arrow(
            "torch_to_npu",
            "async_npu",
            round((BASE_US + begun) * 1000),
            (HOST, MAIN, us),
            (NPU, 2, begun),
        ),
    ]


def timeline(*, queued: bool = True, more: list[Event] | None = None) -> list[Event]:
    """Three steps: two ops, a copy, a collective, and a wait for all of them."""
    events = [
        *lane(HOST, "Python", "CPU"),
        *lane(CANN, "CANN", "CPU"),
        *lane(NPU, "Ascend Hardware", "NPU 3", _2="Stream 2"),
        *lane(
            HCCL, "Communication", "NPU 3", _0="Group tp Communication", _1="Plane 0"
        ),
        *lane(OVERLAP, "Overlap Analysis", "NPU 3"),
    ]
    for step in range(STEPS):
        us, first = 1000.0 * step, 10 * step + 10
        events.append(span(HOST, MAIN, us, 900, f"ProfilerStep#{step}", cat="cpu_op"))
        events += op(us + 10, first, "aten::add", "Add", queued=queued)
        events += op(us + 150, first + 1, "aten::mul", "Mul", queued=queued)
        task: Event = {"Task Type": "SDMA", "connection_id": first + 2}
        moved: Event = {"size(B)": 4096, "operation": "host to device"}
        shared: Event = {"rank_size": 8, "count": 256, "data_type": "fp32"}
        events += [
            span(HOST, MAIN, us + 320, 20, "aten::copy_", cat="cpu_op"),
            span(
                *(CANN, MAIN, us + 325, 10, "AscendCL@aclrtMemcpyAsync"),
                connection_id=first + 2,
            ),
            span(NPU, 2, us + 340, 20, "MEMCPY_ASYNC", **task, **moved),
            span(NPU, 2, us + 365, 5, "EVENT_WAIT", **{"Task Type": "EVENT_WAIT"}),
            span(HOST, MAIN, us + 380, 20, "c10d::allreduce_", cat="cpu_op"),
            span(CANN, MAIN, us + 385, 10, "Node@launch", connection_id=first + 3),
            span(
                *(HCCL, 0, us + 400, 200, "hcom_allReduce__428_0_1"),
                connection_id=first + 3,
                **shared,
            ),
            span(HCCL, 1, us + 410, 90, "Notify_Wait", **{"task type": "Notify Wait"}),
            span(OVERLAP, 0, us + 40, 100, "Computing"),
            span(CANN, MAIN, us + 420, 185, "AscendCL@aclrtSynchronizeDevice"),
        ]
    return events + (more or [])


def ingested(
    folder: Path, text: str, name: str = "trace_view.json"
) -> Iterator[tracedb.Database]:
    """A database of a timeline, in the folders that the profiler makes."""
    path = folder / "host_1_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    (path.parent.parent / "profiler_info_5.json").write_text("{}")
    with tracedb.open() as database:
        database.ingest([path])
        yield database


@pytest.fixture(scope="module", params=[True, False], ids=["queued", "direct"])
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tracedb.Database]:
    """A timeline with the task queue, and one without."""
    text = json.dumps(timeline(queued=request.param))
    yield from ingested(tmp_path_factory.mktemp("ascend"), text)


def test_work_calls_and_ops_belong_together(database: tracedb.Database) -> None:
    """Each task has its call and op, its device and stream; waits are no work."""
    query = """
        SELECT gpu_op.name, gpu_op.kind, device, stream, moved_bytes, op.name,
            count(*), min(gpu_op.end_ns - gpu_op.start_ns)
        FROM staging.gpu_op AS gpu_op
        LEFT JOIN staging.call AS call ON gpu_op.call_id = call.call_id
        LEFT JOIN staging.op AS op ON call.op_id = op.op_id
        GROUP BY ALL ORDER BY ALL
    """
    copy = "Memcpy HtoD (Host -> Device)"
    reduce_ = "hcom_allReduce__428_0_1"
    assert rows(database, query) == [
        ("Add", "kernel", 3, 2, None, "aten::add", STEPS, 100_000),
        (copy, "memcpy", 3, 2, 4096, "aten::copy_", STEPS, 20_000),
        ("Mul", "kernel", 3, 2, None, "aten::mul", STEPS, 100_000),
        (reduce_, "kernel", 3, 1_000_000, None, "c10d::allreduce_", STEPS, 200_000),
    ]
    query = """
        SELECT DISTINCT name, input_dims::VARCHAR FROM staging.op
        WHERE name = 'aten::add'
    """
    assert rows(database, query) == [("aten::add", "[[8,16],[16,4],[]]")]


def test_steps_collectives_and_waits(database: tracedb.Database) -> None:
    """Steps, the group's collectives, and the host's waits for the device are known."""
    query = (
        "SELECT kind, process_group, group_size, element_count FROM staging.collective"
    )
    assert rows(database, query) == [("all_reduce", "tp", 8, 256)] * STEPS
    query = (
        "SELECT count(*) FROM staging.call WHERE kind = 'wait' AND target = 'device'"
    )
    assert rows(database, query) == [(STEPS,)]
    query = "SELECT step FROM staging.step ORDER BY step"
    assert [step for (step,) in rows(database, query)] == list(range(STEPS))
    query = "SELECT profiler, rank FROM question.recording"
    assert rows(database, query) == [("Ascend PyTorch profiler", 5)]
    assert rows(database, "SELECT kind FROM staging.ingest_issue") == []


@pytest.mark.until("staging")
def test_what_is_not_known_is_told(tmp_path: Path) -> None:
    """An unknown task, an unknown lane and a list without its end are counted."""
    more = [
        span(NPU, 2, 5000, 5, "Odd", **{"Task Type": "NEW_ENGINE"}),
        *lane(99, "New lane", "NPU"),
        span(99, 0, 5000, 5, "thing"),
    ]
    for database in ingested(tmp_path, json.dumps(timeline(more=more))[:-1] + ",\n"):
        told = " ".join(map(str, rows(database, "FROM staging.ingest_issue")))
        assert "task type NEW_ENGINE" in told
        assert "lane New lane" in told
        assert "the list of events had no end" in told
        query = "SELECT count(*) FROM staging.gpu_op"
        assert rows(database, query) == [(4 * STEPS,)]


def test_a_broken_timeline_is_one_line(tmp_path: Path) -> None:
    """A file that is no list of events names itself."""
    path = tmp_path / "trace_view.json"
    path.write_text('[{"args": {"name": "Ascend Hardware"}} {]')
    with tracedb.open() as opened, pytest.raises(IngestError, match="broken timeline"):
        opened.ingest([path])


@pytest.mark.until("staging")
@pytest.mark.parametrize("kept", [1, 0.7])
def test_a_compressed_timeline_is_read(tmp_path: Path, kept: float) -> None:
    """With gzip's suffix it has the same work; a stream that ends early is told."""
    packed = gzip.compress(json.dumps(timeline()).encode())
    text = packed[: int(kept * len(packed))]
    path = tmp_path / "trace_view.json.gz"
    path.write_bytes(text)
    with tracedb.open() as database:
        if kept < 1:
            with pytest.raises(IngestError, match="broken timeline"):
                database.ingest([path])
            return
        database.ingest([path])
        query = "SELECT count(*) FROM staging.gpu_op"
        assert rows(database, query) == [(4 * STEPS,)]


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_lists_of_other_tools_are_not_searched(tmp_path: Path, suffix: str) -> None:
    """Lanes may be named at the end; a list with numbers as times is not read on."""
    own = json.dumps([*timeline()[5:], *([timeline()[-1]] * 9_000), *timeline()[:5]])
    other = json.dumps([{"ph": "X", "name": "a", "ts": 1.5, "dur": 1}] * 40_000)
    pack = gzip.compress if suffix.endswith(".gz") else bytes
    read = []
    for text in (own, other + own):
        path = tmp_path / f"a{suffix}"
        path.write_bytes(pack(text.encode()))
        with patch.object(ascend, "Text", Counted):
            Counted.count = 0
            head = path.read_bytes()[:64]
            read.append((ascend.recognises(path, head), Counted.count > 1))
    assert read == [(True, True), (False, False)]


class Counted(Text):
    """A text that counts the blocks that are taken from it."""

    count = 0

    def blocks(self) -> Iterator[bytes]:
        """Count each."""
        for block in super().blocks():
            Counted.count += 1
            yield block


@pytest.mark.until("staging")
def test_odd_fields_do_not_stop_it(tmp_path: Path) -> None:
    """Fields of any type, and none, are kept as they are."""
    odd: list[Any] = [None, [], {}, "x", -1, 1e300, "9" * 40, True]
    more: list[Any] = [
        {"ph": "X", "cat": cat, "pid": pid, key: value}
        for pid in (NPU, CANN, HCCL, HOST, 77)
        for cat in ("dequeue", "enqueue", "cpu_op")
        for key in ("ts", "tid", "dur", "name", "id", "args", "pid")
        for value in odd
    ]
    more += [{"ph": "f", "pid": HOST, key: 0} for key in ("cat", "name", "id", "ph")]
    more += [{"ph": "s", "cat": "async_task_queue", "id": [], "tid": {}}, 1, None]
    more += [{"ph": "M", "name": "process_name", "pid": [], "args": []}]
    for database in ingested(tmp_path, json.dumps(timeline(more=more))):
        query = "SELECT count(*) FROM staging.gpu_op"
        assert rows(database, query) == [(4 * STEPS,)]
