"""Traces of other profilers become rows with Kineto's meaning, without loss."""

from __future__ import annotations

import gzip
import json
import sqlite3
import struct
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import rows

import tracedb
from tracedb import catalog
from tracedb.duck import registered
from tracedb.errors import IngestError
from tracedb.ingest import nesting
from tracedb.ingest.foreign import (
    HEAD_BYTES,
    ForeignTrace,
    chakra,
    nsight,
    reader_of,
    rocprof,
)

Table = list[dict[str, Any]]
Tables = dict[str, Table]

PID, MAIN, AUTOGRAD = 4711, 4711, 4800
THREAD = 1 << 48 | PID << 24 | MAIN
PROCESS = 1 << 48 | PID << 24
START = 1_700_000_000_123_456_789

TEXTS = (
    "cudaLaunchKernel_v7000",
    "void gemm<float>(float*)",
    "gemm",
    "ProfilerStep#3",
    "cudaMemcpyAsync_v3020",
    "cuLaunchKernel_ptsz",
    "pt_main_thread",
    "cudaEventRecord_v3020",
    "cudaStreamWaitEvent_v3020",
    "cudaStreamSynchronize_v3020",
    "cudaGraphLaunch_v10000",
    "write",
)
NUMBER = {text: number for number, text in enumerate(TEXTS, 1)}


def call(name: str, start: int, end: int | None, correlation: int, **more: Any) -> Any:  # noqa: ANN401 (a row)
    """A row of the runtime's calls."""
    return {
        "start": start,
        "end": end,
        "eventClass": 0,
        "globalTid": THREAD,
        "correlationId": correlation,
        "nameId": NUMBER[name],
        "returnValue": 0,
        "callchainId": None,
        **more,
    }


def work(start: int, end: int, correlation: int, stream: int = 7, **more: Any) -> Any:  # noqa: ANN401 (a row)
    """Columns common to all GPU work."""
    return {
        "start": start,
        "end": end,
        "deviceId": 0,
        "contextId": 1,
        "streamId": stream,
        "correlationId": correlation,
        "globalPid": PROCESS,
        **more,
    }


def kernel(start: int, end: int, correlation: int, stream: int = 7) -> Any:  # noqa: ANN401 (a row)
    """A row of the kernels."""
    launch = {"gridX": 4, "gridY": 2, "gridZ": 1, "blockX": 128, "blockY": 1}
    memory = {"staticSharedMemory": 1024, "dynamicSharedMemory": 32, "blockZ": 1}
    names = {"demangledName": NUMBER["void gemm<float>(float*)"]}
    names |= {"shortName": NUMBER["gemm"], "registersPerThread": 40}
    other = {"mangledName": None, "graphNodeId": None}
    return work(start, end, correlation, stream, **launch, **memory, **names, **other)


def nvtx(text: str | int, start: int, end: int | None, **more: Any) -> Any:  # noqa: ANN401 (a row)
    """A row of the ranges, with its text or the id of its text."""
    return {
        "start": start,
        "end": end,
        "eventType": 59,
        "rangeId": None,
        "domainId": 0,
        "text": text if isinstance(text, str) else None,
        "textId": text if isinstance(text, int) else None,
        "globalTid": THREAD,
        "jsonText": None,
        **more,
    }


def report(version: str = "3.1.7") -> Tables:
    """A step with two ops, a copy, a graph of three kernels, and waits."""
    is_new = version != "3.1.7"
    meta = "META_DATA_EXPORT" if is_new else "EXPORT_META_DATA"
    sync = {"eventSyncId": 0} if is_new else {}
    stamp = {"timestamp": 0} if is_new else {}
    wait = {"syncType": 2, "eventId": 5}
    no_event = {"eventId": 0}
    return {
        "StringIds": [{"id": n, "value": text} for text, n in NUMBER.items()],
        meta: [{"name": "EXPORT_SCHEMA_VERSION", "value": version}],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": START, "utcTime": "x"}],
        "TARGET_INFO_GPU": [
            {"id": 0, "name": "NVIDIA H100", "smCount": 132, "totalMemory": 80 << 30}
        ],
        "ThreadNames": [
            {"nameId": NUMBER["pt_main_thread"], "priority": 20, "globalTid": THREAD}
        ],
        "NVTX_EVENTS": [
            nvtx(NUMBER["ProfilerStep#3"], 1000, 9000),
            nvtx(
                "aten::mm, seq = 12, op_id = 5, sizes = [[8, 16], [16, 4]]", 1100, 2000
            ),
            nvtx("forward", 1050, 2500),
            nvtx("checkpoint", 2600, None, eventType=34),
            nvtx("CCCL", 0, None, eventType=75, domainId=3),
            nvtx("sort", 2700, 2800, domainId=3, eventType=60),
        ],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            call("cudaLaunchKernel_v7000", 1200, 1300, 101),
            call("cudaMemcpyAsync_v3020", 2100, 2200, 102),
            call("cuLaunchKernel_ptsz", 2300, 2400, 103, eventClass=1),
            call("cudaEventRecord_v3020", 3000, 3010, 104),
            call("cudaStreamWaitEvent_v3020", 3020, 3030, 105),
            call("cudaEventRecord_v3020", 3040, 3050, 106),
            call("cudaGraphLaunch_v10000", 3100, 3200, 107),
            call("cudaStreamSynchronize_v3020", 3300, 8000, 108),
            call("cudaLaunchKernel_v7000", 1200, 1300, 101, eventClass=67),
        ],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            kernel(1500, 2500, 101),
            kernel(2700, 2800, 103),
            *(kernel(n, n + 900, 107, 13) for n in (4000, 5000, 6000)),
        ],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [
            work(2600, 2650, 102, bytes=4096, copyKind=1, srcKind=1, dstKind=2)
        ],
        "CUPTI_ACTIVITY_KIND_MEMSET": [
            work(2660, 2670, 999, bytes=64, value=0, memKind=2)
        ],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [
            work(3021, 3022, 105, 13, **wait, **sync),
            work(3300, 7990, 108, 7, syncType=3, **no_event, **sync),
            work(8100, 8200, 109, 2**32 - 1, syncType=4, **no_event, **sync),
        ],
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": [
            without_span(work(0, 0, 104, 7, eventId=5, **stamp, **sync)),
            without_span(work(0, 0, 106, 7, eventId=5, **stamp, **sync)),
        ],
        "OSRT_API": [
            {"start": 10, "end": 20, "globalTid": THREAD, "nameId": NUMBER["write"]}
        ],
        "SCHED_EVENTS": [{"start": 10, "cpu": 1, "globalTid": THREAD}],
    }


def without_span(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a table without begin and end."""
    return {key: value for key, value in row.items() if key not in ("start", "end")}


def write_sqlite(path: Path, tables: Tables) -> Path:
    """Write tables like `nsys export -t sqlite`: without keys or indexes."""
    with closing(sqlite3.connect(path)) as connection:
        for name, content in tables.items():
            columns = list({column: None for row in content for column in row})
            named = ", ".join(f'"{column}"' for column in columns)
            connection.execute(f'CREATE TABLE "{name}" ({named})')
            connection.executemany(
                f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(columns))})',
                [[row.get(column) for column in columns] for row in content],
            )
        connection.commit()
    return path


def write_parquet(path: Path, tables: Tables) -> Path:
    """Write tables like `nsys export -t parquetdir`: one file per table."""
    path.mkdir()
    for name, content in tables.items():
        pq.write_table(pa.Table.from_pylist(content), path / f"{name}.parquet")
    return path


def head_of(path: Path) -> bytes:
    """The first bytes of a file; none for a folder."""
    return b"" if path.is_dir() else path.read_bytes()[:HEAD_BYTES]


def read(path: Path) -> ForeignTrace:
    """Read a file with the reader that recognises it."""
    reader = reader_of(path, head_of(path))
    assert reader is not None
    return reader.read(path)


def events(trace: ForeignTrace) -> list[dict[str, Any]]:
    """All events, with decoded arguments."""
    found = [row for batch in trace.batches for row in batch.to_pylist()]
    return [row | {"args": json.loads(row["args"])} for row in found]


def of(trace: ForeignTrace, cat: str | None) -> list[dict[str, Any]]:
    """The events of a category."""
    return [event for event in events(trace) if event["cat"] == cat]


def insert(database: tracedb.Database, path: Path) -> ForeignTrace:
    """Put a foreign trace into the database and compute all layers."""
    connection, trace = database.connection, read(path)
    connection.execute("INSERT INTO raw.run VALUES (1, 'foreign')")
    count = 0
    for batch in trace.batches:
        numbers = pa.array(range(count + 1, count + 1 + len(batch)), pa.int64())
        count += len(batch)
        with registered(connection, "batch", batch.append_column("event_id", numbers)):
            connection.execute(
                "INSERT INTO raw.event SELECT event_id, 1, ph, cat, name, pid, tid, "
                "ts_ns, dur_ns, id, args, other FROM batch"
            )
    connection.execute(
        "INSERT INTO raw.trace (trace_id, run_id, path, format, sha256, header, "
        "event_count) VALUES (1, 1, ?, 'kineto', '', ?, ?)",
        [str(path), json.dumps(trace.header), count],
    )
    nesting.load(connection, [1])
    for _ in catalog.compute(connection, [1]):
        pass
    return trace


# Nsight Systems


@pytest.mark.parametrize("version", ["3.1.7", "3.27.0"])
def test_a_report_becomes_kineto_events(tmp_path: Path, version: str) -> None:
    """Every row with begin and end becomes an event of the matching category."""
    trace = read(write_sqlite(tmp_path / "r.sqlite", report(version)))
    found = Counter(event["cat"] for event in events(trace))
    assert found == {
        None: 2,
        "cuda_runtime": 7,
        "cuda_driver": 1,
        "cuda_backtrace": 1,
        "cpu_op": 1,
        "user_annotation": 3,
        "cpu_instant_event": 1,
        "kernel": 5,
        "gpu_memcpy": 1,
        "gpu_memset": 1,
        "cuda_sync": 3,
        "cuda_event": 2,
        "osrt_api": 1,
    }
    assert trace.issues == {}
    assert trace.header["baseTimeNanoseconds"] == START
    assert trace.header["source"]["schemaVersion"] == version
    assert trace.header["unreadTables"] == ["SCHED_EVENTS"]
    ((gpu),) = trace.header["deviceProperties"]
    assert (gpu["id"], gpu["name"], gpu["numSms"]) == (0, "NVIDIA H100", 132)


def test_parquet_and_sqlite_say_the_same(tmp_path: Path) -> None:
    """Both exports give the same events."""
    tables = report()
    sqlite = read(write_sqlite(tmp_path / "r.sqlite", tables))
    parquet = read(write_parquet(tmp_path / "r_pqtdir", tables))
    assert events(sqlite) == events(parquet)
    assert sqlite.header == parquet.header


def test_a_kernel_keeps_all_columns_of_nsight(tmp_path: Path) -> None:
    """Columns that Kineto has get its names; the others keep Nsight's."""
    trace = read(write_sqlite(tmp_path / "r.sqlite", report()))
    first = of(trace, "kernel")[0]
    assert (first["name"], first["pid"], first["tid"]) == (
        "void gemm<float>(float*)",
        "0",
        "7",
    )
    assert (first["ts_ns"], first["dur_ns"]) == (1500, 1000)
    assert first["args"] == {
        "device": 0,
        "context": 1,
        "stream": 7,
        "correlation": 101,
        "grid": [4, 2, 1],
        "block": [128, 1, 1],
        "registers per thread": 40,
        "shared memory": 1056,
        "staticSharedMemory": 1024,
        "dynamicSharedMemory": 32,
        "shortName": "gemm",
        "globalPid": PROCESS,
    }


def test_call_names_lose_their_versions(tmp_path: Path) -> None:
    """Calls have Kineto's names; the recorded name is an argument."""
    trace = read(write_sqlite(tmp_path / "r.sqlite", report()))
    calls = [e for e in events(trace) if e["cat"] in ("cuda_runtime", "cuda_driver")]
    assert calls[0]["name"] == "cudaLaunchKernel"
    assert calls[0]["args"]["versionedName"] == "cudaLaunchKernel_v7000"
    assert (calls[0]["pid"], calls[0]["tid"]) == (str(PID), str(MAIN))
    assert [e["name"] for e in calls if e["cat"] == "cuda_driver"] == ["cuLaunchKernel"]


def test_copies_have_names_as_in_kineto(tmp_path: Path) -> None:
    """Direction and kinds of memory are in the name."""
    trace = read(write_sqlite(tmp_path / "r.sqlite", report()))
    found = events(trace)
    named = {e["name"]: e["args"]["bytes"] for e in found if "bytes" in e["args"]}
    assert named == {"Memcpy HtoD (Pinned -> Device)": 4096, "Memset (Device)": 64}


@pytest.mark.parametrize(
    ("text", "cat", "name"),
    [
        ("aten::mm, seq = 12, sizes = [[8, 16], []]", "cpu_op", "aten::mm"),
        ("aten::mm, op_id = 5", "cpu_op", "aten::mm"),
        ("aten::mm", "cpu_op", "aten::mm"),
        ("MmBackward0, seq = 3, op_id = 9", "cpu_op", "MmBackward0"),
        ("mylib::sort", "user_annotation", "mylib::sort"),
        ("forward, op_id = 7", "user_annotation", "forward"),
        ("iteration 5", "user_annotation", "iteration 5"),
        ("step 7, seq = two", "user_annotation", "step 7, seq = two"),
        ("a, sizes = [[1, 2", "user_annotation", "a, sizes = [[1, 2"),
        (f"a, seq = {10**40}", "user_annotation", f"a, seq = {10**40}"),
    ],
)
def test_ranges_of_emit_nvtx_are_ops(
    tmp_path: Path, text: str, cat: str, name: str
) -> None:
    """PyTorch's op ranges become ops; similar ranges stay as they are."""
    tables = report() | {"NVTX_EVENTS": [nvtx(text, 1, 2)]}
    found = events(read(write_sqlite(tmp_path / "r.sqlite", tables)))
    (event,) = [e for e in found if e["ts_ns"] == 1]
    assert (event["cat"], event["name"]) == (cat, name)


def test_op_ranges_have_shapes_and_sequence_numbers(tmp_path: Path) -> None:
    """The tail of the text becomes arguments with Kineto's names."""
    (op,) = of(read(write_sqlite(tmp_path / "r.sqlite", report())), "cpu_op")
    assert op["args"]["Sequence number"] == 12
    assert op["args"]["External id"] == 5
    assert op["args"]["Input Dims"] == [[8, 16], [16, 4]]


def test_ranges_have_the_name_of_their_domain(tmp_path: Path) -> None:
    """A domain is defined by an event, and referenced by number."""
    trace = read(write_sqlite(tmp_path / "r.sqlite", report()))
    domains = {e["name"]: e["args"].get("domain") for e in of(trace, "user_annotation")}
    assert domains == {"ProfilerStep#3": None, "forward": None, "sort": "CCCL"}


def test_a_wait_refers_to_the_last_record_before_it(tmp_path: Path) -> None:
    """Without ids, the record is found by the order of calls."""
    trace = read(write_sqlite(tmp_path / "r.sqlite", report()))
    wait, *_, context = of(trace, "cuda_sync")
    assert wait["args"]["cuda_sync_kind"] == "Stream Wait Event"
    assert wait["args"]["wait_on_stream"] == 7
    assert wait["args"]["wait_on_cuda_event_record_corr_id"] == 104
    assert wait["args"]["wait_on_cuda_event_id"] == 5
    assert (context["name"], context["args"]["stream"]) == ("Context Sync", -1)


def test_a_wait_refers_to_the_id_of_its_record(tmp_path: Path) -> None:
    """Newer schemas name the record of a wait, whatever the order."""
    tables = report("3.27.0")
    tables["CUPTI_ACTIVITY_KIND_CUDA_EVENT"][1] |= {"eventSyncId": 77, "contextId": 2}
    tables["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"][0] |= {
        "eventSyncId": 77,
        "correlationId": 120,
    }
    trace = read(write_sqlite(tmp_path / "r.sqlite", tables))
    wait = of(trace, "cuda_sync")[0]
    assert wait["args"]["wait_on_cuda_event_record_corr_id"] == 106


def test_enumerations_of_the_file_are_used(tmp_path: Path) -> None:
    """They take precedence over those known from other versions."""
    tables = report()
    name = "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE"
    tables["ENUM_CUPTI_SYNC_TYPE"] = [{"id": 2, "name": name, "label": "Stream sync"}]
    tables["ENUM_CUDA_MEM_KIND"] = [{"id": 1, "name": "x", "label": "Pageable"}]
    trace = read(write_sqlite(tmp_path / "r.sqlite", tables))
    found = events(trace)
    assert [e["name"] for e in found if e["cat"] == "cuda_sync"] == [
        "Stream Sync",
        "Unknown Sync",
        "Unknown Sync",
    ]
    assert "Memcpy HtoD (Pageable -> Device)" in [e["name"] for e in found]


@pytest.mark.parametrize(
    "missing",
    [name for name in report() if name != "StringIds"],
)
def test_any_table_may_be_missing(tmp_path: Path, missing: str) -> None:
    """Tables exist only if they have rows."""
    tables = report()
    rows_there = len(tables.pop(missing))
    whole = read(write_sqlite(tmp_path / "whole.sqlite", report()))
    part = read(write_sqlite(tmp_path / "part.sqlite", tables))
    assert len(events(whole)) - len(events(part)) in (0, rows_there)


def test_processes_of_one_report_are_separate(tmp_path: Path) -> None:
    """Correlations and CUDA device numbers start again in each process."""
    tables, other = report(), 1 << 48 | 99 << 24
    tables["TARGET_INFO_GPU"].append(tables["TARGET_INFO_GPU"][0] | {"id": 1})
    tables["TARGET_INFO_CUDA_DEVICE"] = [
        {"gpuId": 0, "cudaId": 0, "pid": PID},
        {"gpuId": 1, "cudaId": 0, "pid": 99},
    ]
    twin = {"globalTid": other | 99}
    tables["CUPTI_ACTIVITY_KIND_RUNTIME"].append(
        call("cudaLaunchKernel_v7000", 1, 2, 101) | twin
    )
    tables["CUPTI_ACTIVITY_KIND_KERNEL"].append(
        kernel(3, 4, 101) | {"globalPid": other}
    )
    found = events(read(write_sqlite(tmp_path / "r.sqlite", tables)))
    launch, work_ = (e for e in found if e["ts_ns"] in (1, 3))
    assert launch["args"]["correlation"] == work_["args"]["correlation"] != 101
    assert work_["args"]["correlationId"] == 101
    assert work_["args"]["device"] == 1


def test_staging_reads_a_report(tmp_path: Path, database: tracedb.Database) -> None:
    """Ops, launches, kernels, steps and waits are linked like in a Kineto trace."""
    insert(database, write_sqlite(tmp_path / "r.sqlite", report()))
    assert rows(
        database,
        "SELECT name, sequence_number, input_dims, is_top_level FROM staging.op",
    ) == [("aten::mm", 12, "[[8,16],[16,4]]", True)]
    assert rows(
        database,
        "SELECT gpu_op.correlation, call.name, call.kind, op.name, gpu_op.kind "
        "FROM staging.gpu_op LEFT JOIN staging.call USING (call_id) "
        "LEFT JOIN staging.op ON gpu_op.op_id = op.op_id ORDER BY gpu_op.start_ns",
    ) == [
        (101, "cudaLaunchKernel", "launch", "aten::mm", "kernel"),
        (102, "cudaMemcpyAsync", "launch", None, "memcpy"),
        (999, None, None, None, "memset"),
        (103, "cuLaunchKernel", "launch", None, "kernel"),
        *[(107, "cudaGraphLaunch", "launch", None, "kernel")] * 3,
    ]
    assert rows(
        database, "SELECT step, start_ns, end_ns, gpu_end_ns FROM staging.step"
    ) == [(3, 1000, 9000, 6900)]
    assert rows(
        database,
        "SELECT target, stream, awaited_stream, event_record_correlation, correlation "
        "FROM staging.device_wait ORDER BY correlation",
    ) == [
        ("stream_wait", 13, 7, 104, 105),
        ("stream", None, 7, None, 108),
        ("device", None, None, None, 109),
    ]
    assert rows(database, "SELECT name, role FROM staging.thread ORDER BY ALL")[0] == (
        "pt_main_thread",
        "main",
    )
    assert rows(database, "SELECT device, name FROM staging.device") == [
        (0, "NVIDIA H100")
    ]
    ((base,),) = rows(database, "SELECT base_ns FROM staging.trace")
    assert base == START


def test_a_graph_traced_as_a_whole_keeps_the_gpu_busy(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """By default Nsight records one row per replay, which counts as GPU work."""
    tables = report()
    tables["CUPTI_ACTIVITY_KIND_KERNEL"] = [kernel(1500, 2500, 101)]
    tables["CUPTI_ACTIVITY_KIND_GRAPH_TRACE"] = [
        work(4000, 7000, 107, 13, graphId=2, graphExecId=4)
    ]
    insert(database, write_sqlite(tmp_path / "r.sqlite", tables))
    assert rows(
        database,
        "SELECT gpu_op.name, call.name, gpu_op.end_ns - gpu_op.start_ns "
        "FROM staging.gpu_op INNER JOIN staging.call USING (call_id) "
        "WHERE gpu_op.correlation = 107",
    ) == [("CUDA graph 2", "cudaGraphLaunch", 3000)]


def test_impossible_times_are_kept_and_counted(tmp_path: Path) -> None:
    """Missing, negative and absurd times lose no row and raise no error."""
    tables = report()
    tables["CUPTI_ACTIVITY_KIND_RUNTIME"] = [
        call("cudaLaunchKernel_v7000", 100, None, 1),
        call("cudaLaunchKernel_v7000", 100, 50, 2),
        call("cudaLaunchKernel_v7000", 100, 2**63 - 1, 3),
        call("cudaLaunchKernel_v7000", 100, 200, 4) | {"start": "soon"},
    ]
    trace = read(write_sqlite(tmp_path / "r.sqlite", tables))
    found = of(trace, "cuda_runtime")
    assert [(e["ts_ns"], e["dur_ns"]) for e in found] == [
        (100, None),
        (100, -50),
        (100, None),
        (None, None),
    ]
    assert found[2]["args"]["end"] == 2**63 - 1
    assert (found[3]["args"]["start"], found[3]["args"]["end"]) == ("soon", 200)
    assert sorted(trace.issues.values()) == [1, 1, 2]


def test_hostile_values_are_stored_as_values(tmp_path: Path) -> None:
    """Names, bytes and numbers of any kind are kept, without harm."""
    hostile = "'; DROP TABLE raw.event; -- <b>\x00\x1b[31m\u202e"
    tables = report()
    tables["StringIds"][0] |= {"value": hostile}
    tables["CUPTI_ACTIVITY_KIND_RUNTIME"][0] |= {"returnValue": b"\xff\x00"}
    tables["CUPTI_ACTIVITY_KIND_RUNTIME"][1] |= {"globalTid": -5, "nameId": b"\xff"}
    tables["CUPTI_ACTIVITY_KIND_RUNTIME"][2] |= {"globalTid": "x", "eventClass": 1.5}
    path = write_sqlite(tmp_path / "r.sqlite", tables)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "UPDATE StringIds SET value = CAST(x'ff41' AS TEXT) WHERE id = 2"
        )
        connection.commit()
    found = events(read(path))
    assert hostile in [event["name"] for event in found]
    assert "\\xffA" in [event["name"] for event in found]
    assert len(found) == len(events(read(write_sqlite(tmp_path / "s", report()))))


def test_a_missing_time_column_is_refused(tmp_path: Path) -> None:
    """A table without its time columns is refused, by name."""
    tables = report() | {"CUPTI_ACTIVITY_KIND_KERNEL": [{"start": 1, "streamId": 7}]}
    path = write_sqlite(tmp_path / "r.sqlite", tables)
    with pytest.raises(IngestError, match=r"KIND_KERNEL has no column end; export"):
        read(path)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.99])
def test_a_truncated_file_is_one_line(tmp_path: Path, share: float) -> None:
    """A partial copy is not recognised, or refused in one line."""
    tables = report()
    tables["NVTX_EVENTS"] *= 2000
    whole = write_sqlite(tmp_path / "whole.sqlite", tables).read_bytes()
    path = tmp_path / "cut.sqlite"
    path.write_bytes(whole[: int(len(whole) * share)])
    if reader_of(path, head_of(path)) is None:
        return
    with pytest.raises(IngestError) as caught:
        events(read(path))
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_damaged_bytes_never_give_a_traceback(tmp_path: Path) -> None:
    """With any damaged byte there are events, or one line."""
    whole = write_sqlite(tmp_path / "whole.sqlite", report()).read_bytes()
    path = tmp_path / "damaged.sqlite"
    for place in range(16, len(whole), 211):
        path.write_bytes(whole[:place] + b"\xee\xff\x81" + whole[place + 3 :])
        reader = reader_of(path, head_of(path))
        try:
            found = events(reader.read(path)) if reader else []
        except IngestError as error:
            assert "\n" not in str(error)  # noqa: PT017 (any outcome is right but one)
        else:
            assert all(event["ph"] for event in found)


def test_a_damaged_parquet_file_is_one_line(tmp_path: Path) -> None:
    """The error names the truncated table."""
    folder = write_parquet(tmp_path / "r_pqtdir", report())
    file = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(IngestError, match=r"KIND_KERNEL.parquet: after row 0: "):
        events(read(folder))


def test_nested_parquet_columns_are_refused(tmp_path: Path) -> None:
    """Exports have no nested columns."""
    tables = report() | {"StringIds": [{"id": 1, "value": ["a"]}]}
    with pytest.raises(IngestError, match="value is not a column of plain values"):
        events(read(write_parquet(tmp_path / "r_pqtdir", tables)))


def test_other_files_are_not_recognised(tmp_path: Path) -> None:
    """Other databases, texts and folders without tables are not recognised."""
    other = write_sqlite(tmp_path / "a.sqlite", {"users": [{"id": 1, "name": "x"}]})
    text = tmp_path / "b.json"
    text.write_text("{}")
    fake = tmp_path / "c.sqlite"
    fake.write_bytes(b"SQLite format 3\0 is how it begins")
    for path in (other, text, fake, tmp_path):
        assert reader_of(path, head_of(path)) is None
    assert reader_of(tmp_path / "missing.sqlite", b"SQLite format 3\0") is None


def test_reading_leaves_the_file_alone(tmp_path: Path) -> None:
    """A report is opened read only, whatever its name."""
    path = write_sqlite(tmp_path / "what? 100%#1.sqlite", report())
    before = path.read_bytes()
    assert len(events(read(path))) == 29
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


# rocprofv3


def agent(number: int, side: str, version: int) -> dict[str, Any]:
    """Columns of a view that describe an agent."""
    absolute = "abs_index" if version == 3 else "absolute_index"
    logical = "log_index" if version == 3 else "logical_index"
    kind = "GPU" if number >= 0 else "CPU"
    return {
        f"{side}agent_{absolute}": number + 2,
        f"{side}agent_{logical}": number + 2,
        f"{side}agent_type_index": max(number, 0),
        f"{side}agent_type": kind,
    }


def record(version: int, category: str, name: str, *rest: int) -> dict[str, Any]:
    """Columns common to all views: begin, end, call, and parent call."""
    start, end, stack, parent = rest
    external = "corr_id" if version == 3 else "correlation_id"
    return {
        "id": start,
        "guid": "g1",
        "category": category,
        "name": name,
        "nid": 1,
        "pid": PID,
        "tid": MAIN,
        "start": start,
        "end": end,
        "duration": end - start,
        "event_id": start,
        "stack_id": stack,
        "parent_stack_id": parent,
        external: 0,
    }


def rocpd(version: int) -> Tables:
    """A small database: a range with an op, two launches, a copy and a wait."""
    hip, hsa = "HIP_RUNTIME_API", "HSA_CORE_API"

    def region(category: str, name: str, *rest: int, message: str = "") -> Any:  # noqa: ANN401 (a row)
        extra = json.dumps({"message": message}) if message else "{}"
        return record(version, category, name, *rest) | {"extdata": extra}

    def gpu(category: str, name: str, *rest: int, **more: Any) -> Any:  # noqa: ANN401 (a row)
        lane = {"stream_id": 3, "queue_id": 1}
        return record(version, category, name, *rest) | lane | more

    launch = {"grid_x": 1024, "grid_y": 2, "grid_z": 1}
    launch |= {"workgroup_x": 256, "workgroup_y": 1, "workgroup_z": 1}
    marker = "MARKER_CORE_RANGE_API"
    return {
        "rocpd_metadata": [
            {"id": 1, "tag": "schema_version", "value": f"{version}.0.3"}
        ],
        "rocpd_info_agent": [
            {"id": 1, "type": "CPU", "type_index": 0, "name": "EPYC"},
            {
                "id": 2,
                "type": "GPU",
                "type_index": 0,
                "name": "gfx942",
                "product_name": "AMD Instinct MI300X",
                "extdata": '{"cu_count": 304}',
            },
        ],
        "processes": [{"nid": 1, "pid": PID, "command": "python train.py"}],
        "threads": [{"nid": 1, "pid": PID, "tid": MAIN, "name": "python"}],
        "regions": [
            region(
                marker, "roctxThreadRangeA", 100, 900, 1, 0, message="ProfilerStep#2"
            ),
            region(
                marker,
                "roctxThreadRangeA",
                110,
                400,
                2,
                0,
                message="aten::mm, op_id = 5",
            ),
            region("MARKER_CORE_API", "roctxMarkA", 420, 420, 9, 0, message="here"),
            region(hip, "hipLaunchKernel", 120, 150, 11, 0),
            region(hip, "hipMemcpyAsync", 200, 260, 12, 0),
            region(hsa, "hsa_amd_memory_async_copy", 210, 250, 13, 12),
            region(hip, "hipStreamSynchronize", 500, 800, 14, 0),
            region("RCCL_API", "ncclAllReduce", 820, 830, 15, 0),
        ],
        "kernels": [
            gpu("KERNEL_DISPATCH", "gemm", 300, 450, 11, 11)
            | agent(0, "", version)
            | launch
        ],
        "memory_copies": [
            gpu("MEMORY_COPY", "MEMORY_COPY_HOST_TO_DEVICE", 500, 520, 13, 0, size=64)
            | agent(0, "dst_", version)
            | agent(-1, "src_", version)
        ],
        "memory_allocations": [
            record(version, "MEMORY_ALLOCATION", "", 90, 95, 3, 0) | {"type": "ALLOC"}
        ],
        "samples": [{"timestamp": 5, "name": "x"}],
    }


@pytest.mark.parametrize("version", [3, 4])
def test_a_rocpd_database_becomes_kineto_events(tmp_path: Path, version: int) -> None:
    """The views of both schemas give the same categories, names and links."""
    trace = read(write_sqlite(tmp_path / "r.db", rocpd(version)))
    found = events(trace)
    assert [(e["cat"], e["name"], e["args"].get("correlation")) for e in found] == [
        (None, "process_name", None),
        (None, "thread_name", None),
        ("user_annotation", "ProfilerStep#2", 1),
        ("cpu_op", "aten::mm", 2),
        ("cpu_instant_event", "here", 9),
        ("cuda_runtime", "hipLaunchKernel", 11),
        ("cuda_runtime", "hipMemcpyAsync", 12),
        ("cuda_runtime", "hsa_amd_memory_async_copy", 13),
        ("cuda_runtime", "hipStreamSynchronize", 14),
        ("rccl_api", "ncclAllReduce", 15),
        ("kernel", "gemm", 11),
        ("gpu_memcpy", "Memcpy HtoD (Host -> Device)", 12),
        ("memory_allocation", "ALLOC", 3),
    ]
    assert trace.header["source"]["schemaVersion"] == f"{version}.0.3"
    assert trace.header["unreadTables"] == ["samples"]
    ((gpu),) = trace.header["deviceProperties"]
    assert (gpu["id"], gpu["name"], gpu["numSms"]) == (0, "AMD Instinct MI300X", 304)


def test_a_dispatch_counts_blocks(tmp_path: Path) -> None:
    """AMD gives the grid in threads, Kineto in blocks."""
    (kernel_,) = of(read(write_sqlite(tmp_path / "r.db", rocpd(3))), "kernel")
    assert kernel_["args"]["grid"] == [4, 2, 1]
    assert kernel_["args"]["block"] == [256, 1, 1]
    assert (kernel_["pid"], kernel_["tid"]) == ("0", "3")
    assert kernel_["args"]["queue_id"] == 1


@pytest.mark.parametrize("version", [3, 4])
def test_staging_reads_a_rocpd_database(
    tmp_path: Path, version: int, database: tracedb.Database
) -> None:
    """GPU work of an inner HSA call belongs to the HIP call around it."""
    insert(database, write_sqlite(tmp_path / "r.db", rocpd(version)))
    assert rows(
        database,
        "SELECT gpu_op.kind, moved_bytes, call.name, op.name FROM staging.gpu_op "
        "INNER JOIN staging.call USING (call_id) "
        "INNER JOIN staging.op ON gpu_op.op_id = op.op_id ORDER BY gpu_op.start_ns",
    ) == [
        ("kernel", None, "hipLaunchKernel", "aten::mm"),
        ("memcpy", 64, "hipMemcpyAsync", "aten::mm"),
    ]
    assert rows(
        database, "SELECT name, kind, target FROM staging.call ORDER BY start_ns"
    ) == [
        ("hipLaunchKernel", "launch", "kernel"),
        ("hipMemcpyAsync", "launch", "memcpy"),
        ("hsa_amd_memory_async_copy", "other", None),
        ("hipStreamSynchronize", "wait", "stream"),
    ]
    assert rows(database, "SELECT step, gpu_end_ns FROM staging.step") == [(2, 520)]


def test_a_rocpd_database_needs_its_views(tmp_path: Path) -> None:
    """The error names the missing view."""
    path = write_sqlite(tmp_path / "r.db", {"rocpd_metadata_1": [{"tag": "a"}]})
    with pytest.raises(IngestError, match="without its views"):
        rocprof.read(path)


def test_a_broken_view_is_one_line(tmp_path: Path) -> None:
    """A view of missing tables is refused."""
    path = write_sqlite(tmp_path / "r.db", {"rocpd_metadata": [{"tag": "a"}]})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE VIEW kernels AS SELECT * FROM missing")
        connection.commit()
    assert nsight.recognises(path, head_of(path)) is False
    with pytest.raises(IngestError, match="table kernels, after row 0: no such table"):
        read(path)


# Chakra


def varint(number: int) -> bytes:
    """A varint: seven bits per byte."""
    number &= 0xFFFFFFFFFFFFFFFF
    more = []
    while number > 0x7F:
        more.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*more, number])


def field(number: int, value: bytes | str | int) -> bytes:
    """A field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(name: str, number: int, value: bytes | str | int) -> bytes:
    """An attribute, with its value in the field of its type."""
    return field(1, name) + field(number, value)


def io(values: str, shapes: str, types: str) -> bytes:
    """Inputs or outputs."""
    return field(1, values) + field(2, shapes) + field(3, types)


NODE = b"".join(
    [
        field(1, 4),
        field(2, "aten::mm"),
        field(3, 4),
        field(4, varint(2) + varint(3)),
        field(5, 7),
        field(5, 300),
        field(7, 12),
        field(
            8, io("[[28, 42, 0, 1, 4, 'cpu'], '<None>', False]", "[[1], [], []]", "x")
        ),
        field(10, attribute("rf_id", 9, 30)),
        field(10, attribute("seq_id", 9, -1)),
        field(10, attribute("tid", 9, 1)),
        field(10, attribute("op_schema", 29, "aten::mm(Tensor a)")),
        field(10, attribute("is_cpu_op", 27, 1)),
        field(10, field(1, "share") + varint(3 << 3 | 1) + struct.pack("<d", 0.5)),
        field(10, attribute("sizes", 10, field(1, varint(5) + varint(6)))),
        field(10, attribute("loss", 6, field(1, struct.pack("<2f", 0.5, 2)))),
        field(10, attribute("depth", 17, 3)),
    ]
)
METADATA = field(2, attribute("schema", 29, "1.1.0-chakra.0.0.4"))
METADATA += field(2, attribute("pid", 13, 4711))


def write_chakra(path: Path, *messages: bytes) -> Path:
    """Write messages, each preceded by its length."""
    path.write_bytes(b"".join(varint(len(m)) + m for m in messages))
    return path


def test_chakra_nodes_are_those_of_pytorch(tmp_path: Path) -> None:
    """Each value is read as it was written."""
    path = write_chakra(tmp_path / "a.0.et", field(1, "0.0.4") + METADATA, NODE)
    assert chakra.recognises(path, head_of(path))
    header, (text,) = chakra.read_nodes(path)
    assert header == {
        "version": "0.0.4",
        "schema": "1.1.0-chakra.0.0.4",
        "pid": 4711,
        "source": {"tool": "Chakra", "schemaVersion": "0.0.4"},
    }
    node = json.loads(text)
    attrs = {a["name"]: (a["type"], a["value"]) for a in node.pop("attrs")}
    assert node == {
        "id": 4,
        "name": "aten::mm",
        "type": "COMP_NODE",
        "ctrl_deps": 2,
        "further_ctrl_deps": [3],
        "data_deps": [7, 300],
        "duration_micros": 12,
        "inputs": {
            "values": [[28, 42, 0, 1, 4, "cpu"], "<None>", False],
            "shapes": [[1], [], []],
            "types": "x",
        },
        "outputs": {"values": [], "shapes": [], "types": []},
    }
    assert attrs == {
        "rf_id": ("int64", 30),
        "seq_id": ("int64", -1),
        "tid": ("int64", 1),
        "op_schema": ("string", "aten::mm(Tensor a)"),
        "is_cpu_op": ("bool", True),
        "share": ("double", 0.5),
        "sizes": ("int64_list", [5, 6]),
        "loss": ("float_list", [0.5, 2.0]),
        "depth": ("sint64", -2),
    }


@pytest.mark.parametrize("ending", [".et", ".et.gz"])
def test_chakra_metadata_before_it_had_a_version(tmp_path: Path, ending: str) -> None:
    """Attributes were field 1 then; files may be compressed."""
    old = field(1, attribute("schema", 29, "1.0.3-chakra.0.0.4"))
    path = write_chakra(tmp_path / f"a{ending}", old, NODE)
    if ending.endswith(".gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    assert chakra.recognises(path, head_of(path))
    header, nodes = chakra.read_nodes(path)
    assert (header["schema"], len(nodes)) == ("1.0.3-chakra.0.0.4", 1)


def test_staging_reads_chakra_nodes(tmp_path: Path, database: tracedb.Database) -> None:
    """The nodes are linked like those of a PyTorch execution graph."""
    path = write_chakra(tmp_path / "a.et", METADATA, NODE)
    header, (node,) = chakra.read_nodes(path)
    connection = database.connection
    connection.execute(
        "INSERT INTO raw.trace (trace_id, run_id, path, format, sha256, header, "
        "event_count) VALUES (1, 1, '', 'et', '', ?, 1)",
        [json.dumps(header)],
    )
    connection.execute("INSERT INTO raw.et_node VALUES (1, 1, ?)", [node.decode()])
    assert rows(
        database,
        "SELECT id, parent_id, name, tid, rf_id, sequence_number, op_schema, "
        "input_dims, is_op FROM staging.et_op",
    ) == [
        (4, 2, "aten::mm", 1, 30, -1, "aten::mm(Tensor a)", "[[1],[],[]]", True),
    ]


def test_a_damaged_chakra_file_is_one_line(tmp_path: Path) -> None:
    """Cut or changed anywhere: nodes, or one line with the byte offset."""
    path = tmp_path / "a.et"
    whole = write_chakra(path, METADATA, NODE, NODE).read_bytes()
    for place in range(1, len(whole)):
        for data in (whole[:place], whole[:place] + b"\xff" + whole[place + 1 :]):
            path.write_bytes(data)
            try:
                _, nodes = chakra.read_nodes(path)
            except IngestError as error:
                assert "\n" not in str(error)  # noqa: PT017 (any outcome is right but one)
            else:
                assert all(json.loads(node)["attrs"] is not None for node in nodes)


def test_duckdb_takes_every_batch(tmp_path: Path) -> None:
    """Columns of a batch match `raw.event` in type and order."""
    trace = read(write_sqlite(tmp_path / "r.sqlite", report()))
    batch = next(trace.batches)  # noqa: F841 (DuckDB finds it by its name)
    found = duckdb.execute("DESCRIBE SELECT * FROM batch").fetchall()
    assert [(name, type_) for name, type_, *_ in found] == [
        ("ph", "VARCHAR"),
        ("cat", "VARCHAR"),
        ("name", "VARCHAR"),
        ("pid", "VARCHAR"),
        ("tid", "VARCHAR"),
        ("ts_ns", "BIGINT"),
        ("dur_ns", "BIGINT"),
        ("id", "VARCHAR"),
        ("args", "VARCHAR"),
        ("other", "VARCHAR"),
    ]
