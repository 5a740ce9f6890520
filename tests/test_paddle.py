"""Profiles of PaddlePaddle, whose names end in times and whose threads have two ids."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support import rows

import tracedb

if TYPE_CHECKING:
    from collections.abc import Iterator

Event = dict[str, Any]

KERNEL = ("cudaLaunchKernel", "Kernel", "sgemm")
COPY = ("cudaMemcpyAsync", "Memcpy", "MEMCPY_HtoD")


def event(cat: str, name: str, ts: float, dur: float, **args: object) -> Event:
    """An event of the host as it writes them: a Python range, or one of C++."""
    is_cpp = cat in {"Operator", "OperatorInner", "CudaRuntime"}
    shown = f"{dur / 1000:.3f} ms" if dur > 1000 else f"{dur:.3f} us"
    written = {"name": f"{name}[{shown}]", "cat": cat, "ph": "X", "ts": ts, "dur": dur}
    lane = {"pid": 31, "tid": "65({})".format("C++" if is_cpp else "Python")}
    return written | lane | {"args": {"start_time": f"{ts:.3f} us"} | args}


def launched(names: tuple[str, str, str], number: int, *times: int) -> list[Event]:
    """A runtime call and its GPU work: starts and durations."""
    call, cat, name = names
    start, dur, gpu_start, gpu_dur = times
    numbered = {"correlation id": number}
    work = event(cat, name, gpu_start, gpu_dur, stream=7, bytes=4096, **numbered)
    call_event = event("CudaRuntime", call, start, dur, **numbered)
    return [call_event, work | {"pid": 0, "tid": 7}]


def step(number: int) -> list[Event]:
    """A step: a batch, a forward op, its backward op and the optimizer's."""
    at = 2000 * number
    shapes = {"input_shapes": {"X": [[8, 4]], "Y": [[4, 2]]}}
    types = {"input_dtypes": {"X": ["float32"], "Y": ["float32"]}}
    return [
        event("ProfileStep", f"ProfileStep#{number}", at, 1990),
        event("Dataloader", "_DataLoaderIterSingleProcess", at + 10, 100),
        event("Forward", "Linear", at + 150, 200),
        event("Operator", "matmul dygraph", at + 160, 150, **shapes, **types),
        event("OperatorInner", "matmul infer_meta", at + 165, 5),
        *launched(KERNEL, 7 + number, at + 200, 20, at + 230, 300),
        event("Backward", "Gradient Backward", at + 400, 200),
        event("Operator", "matmul_grad dygraph", at + 410, 150),
        *launched(KERNEL, 17 + number, at + 450, 20, at + 540, 280),
        event("Optimization", "Optimization Step", at + 650, 200),
        event("Operator", "sgd dygraph", at + 660, 100),
        *launched(COPY, 27 + number, at + 700, 9, at + 830, 10),
    ]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """A database of a profile of three steps and an allocation."""
    memory = {"place": "Place(gpu:1)", "addr": "77", "increase_bytes": 512}
    totals = {"current_allocated": 2048, "current_reserved": 4096}
    allocation = event("Allocate", "[memory]", 170, 0) | {"ph": "i", "name": "[memory]"}
    events = [
        *(one for number in range(3) for one in step(number)),
        allocation | {"tid": "65(C++)", "args": memory | totals},
        {},
    ]
    path = tmp_path_factory.mktemp("paddle") / "host_apid_31.paddle_trace.json"
    path.write_text(json.dumps({"schemaVersion": "1.0.2", "traceEvents": events}))
    with tracedb.open() as database:
        database.ingest([path])
        yield database


def test_work_belongs_to_the_op_that_launched_it(recorded: tracedb.Database) -> None:
    """Names have no times, so equal kernels are one; a thread has one id."""
    query = """
        SELECT work.name, op.name, count(*), sum(work.end_ns - work.start_ns)::BIGINT
        FROM staging.gpu_op AS work
        LEFT JOIN staging.op AS op ON work.op_id = op.op_id
        GROUP BY ALL ORDER BY ALL
    """
    assert rows(recorded, query) == [
        ("Memcpy HtoD", "sgd dygraph", 3, 30_000),
        ("sgemm", "matmul dygraph", 3, 900_000),
        ("sgemm", "matmul_grad dygraph", 3, 840_000),
    ]
    assert rows(recorded, "SELECT tid, role FROM staging.thread") == [("65", "main")]
    assert rows(recorded, "SELECT direction, moved_bytes FROM question.copy") == [
        ("h2d", 3 * 4096)
    ]


def test_ops_nest_and_have_shapes(recorded: tracedb.Database) -> None:
    """Inner events are ops within theirs; shapes are those of all arguments."""
    query = """
        SELECT DISTINCT
            op.name, around.name, op.input_dims::VARCHAR, op.input_types::VARCHAR
        FROM staging.op AS op
        LEFT JOIN staging.op AS around ON op.parent_op_id = around.op_id
        WHERE op.name LIKE 'matmul %' ORDER BY op.name
    """
    assert rows(recorded, query) == [
        ("matmul dygraph", None, "[[8,4],[4,2]]", '["float32","float32"]'),
        ("matmul infer_meta", "matmul dygraph", None, None),
    ]


def test_its_ranges_are_steps_batches_and_phases(recorded: tracedb.Database) -> None:
    """Their categories tell, whatever their names."""
    assert rows(recorded, "SELECT step FROM staging.step") == [(0,), (1,), (2,)]
    assert rows(recorded, "SELECT count(*) FROM staging.data_loading") == [(3,)]
    query = """
        SELECT DISTINCT op.name, phase
        FROM graph.event_phase
        INNER JOIN staging.op AS op ON node_id = op_id
        ORDER BY ALL
    """
    assert rows(recorded, query) == [
        ("matmul dygraph", "forward"),
        ("matmul_grad dygraph", "backward"),
        ("sgd dygraph", "optimizer"),
    ]


def test_its_memory_and_what_is_told(recorded: tracedb.Database) -> None:
    """Allocations have a device and totals; nothing is left unread."""
    query = """
        SELECT device_type, device, changed_bytes, address, allocated_bytes,
            reserved_bytes
        FROM staging.memory_event
    """
    assert rows(recorded, query) == [("cuda", 1, 512, 77, 2048, 4096)]
    told = "SELECT profiler, has_shapes, has_memory FROM staging.recording"
    assert rows(recorded, told) == [("PaddlePaddle profiler", True, True)]
    assert rows(recorded, "FROM staging.ingest_issue") == []
