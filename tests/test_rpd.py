"""Databases of rocmProfileData: calls, markers and GPU work of each process."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from support import rows
from test_foreign import rocpd, write_sqlite

import tracedb
from tracedb.ingest.foreign import parts_of, reader_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.until("staging")
Tables = dict[str, list[dict[str, Any]]]
HTOD = "Memcpy HtoD (Host -> Device)"
HEAD = b"SQLite format 3\0"


class Recording:
    """Tables of a recording, with an id for each text."""

    def __init__(self, version: int) -> None:
        """Start without rows."""
        self.version = version
        self.tables: Tables = {
            "rocpd_metadata": [{"id": 1, "tag": "schema_version", "value": version}],
            **{name: [] for name in ("rocpd_api", "rocpd_op", "rocpd_api_ops")},
            **{name: [] for name in ("rocpd_string", "rocpd_ustring")},
            **{name: [] for name in ("rocpd_copyapi", "rocpd_monitor")},
        }

    def text(self, text: str, table: str = "rocpd_string") -> int:
        """The id of a text."""
        known = self.tables[table]
        found = [row["id"] for row in known if row["string"] == text]
        if not found:
            # Equal ids in both tables are other texts.
            known.append({"id": len(known) + 1, "string": text})
        return found[0] if found else len(known)

    def call(  # noqa: PLR0913, PLR0917 (the columns)
        self, number: int, pid: int, name: str, start: int, end: int, told: str = ""
    ) -> None:
        """A call or marker."""
        of_told = "rocpd_ustring" if self.version > 2 else "rocpd_string"
        self.tables["rocpd_api"].append(
            {"id": number, "pid": pid, "tid": pid, "start": start, "end": end}
            | {"apiName_id": self.text(name), "args_id": self.text(told, of_told)}
        )

    def work(  # noqa: PLR0913, PLR0917 (the columns)
        self, call: int, gpu: int, what: str, start: int, end: int, name: str = ""
    ) -> None:
        """A GPU op, and what launched it."""
        number = len(self.tables["rocpd_op"]) + 1
        self.tables["rocpd_op"].append(
            {"id": number, "gpuId": gpu, "queueId": 4, "start": start, "end": end}
            | {"description_id": self.text(name), "opType_id": self.text(what)}
        )
        link = {"id": number, "api_id": call, "op_id": number}
        self.tables["rocpd_api_ops"].append(link)

    def process(self, pid: int, gpu: int) -> None:
        """What one process records: a step with an op, a kernel, a copy and a fill."""
        first = pid << 32
        self.call(first + 1, pid, "UserMarker", 100, 900, "ProfilerStep#2")
        self.call(first + 2, pid, "UserMarker", 110, 400, "aten::mm, op_id = 5")
        self.call(first + 3, pid, "hipLaunchKernel", 120, 150)
        self.call(first + 4, pid, "hipMemcpyAsync", 200, 260)
        self.call(first + 5, pid, "hipMemsetAsync", 420, 430)
        self.call(first + 6, pid, "hipStreamSynchronize", 500, 800)
        self.call(first + 7, pid, "UserMarker", 950, 950, "done")
        self.call(first + 8, pid, "ApiTable::writeRows", 960, 970, "count=3")
        self.work(first + 3, gpu, "KernelExecution", 300, 450, f"gemm{gpu}.kd")
        self.work(first + 4, gpu, "CopyHostToDevice", 500, 520)
        self.work(first + 5, gpu, "FillBuffer", 530, 540)
        size = {"api_ptr_id": first + 4, "size": 64}
        self.tables["rocpd_copyapi"].append(size)

    def written(self, path: Path) -> Path:
        """The file."""
        return write_sqlite(path, {k: v for k, v in self.tables.items() if v})


@pytest.mark.parametrize("version", [2, 3])
def test_calls_markers_and_work(
    tmp_path: Path, database: tracedb.Database, version: int
) -> None:
    """Work belongs to its launch and the op around it; markers are ops and ranges."""
    recording = Recording(version)
    recording.process(77, 1)
    database.ingest([recording.written(tmp_path / "trace.rpd")])
    work = """
        SELECT gpu_op.kind, gpu_op.name, device, stream, moved_bytes, call.name, op.name
        FROM staging.gpu_op AS gpu_op
        INNER JOIN staging.call AS call USING (call_id)
        LEFT JOIN staging.op AS op ON gpu_op.op_id = op.op_id
        ORDER BY gpu_op.start_ns
    """
    assert rows(database, work) == [
        ("kernel", "gemm1.kd", 1, 4, None, "hipLaunchKernel", "aten::mm"),
        ("memcpy", HTOD, 1, 4, 64, "hipMemcpyAsync", "aten::mm"),
        ("memset", "FillBuffer", 1, 4, None, "hipMemsetAsync", None),
    ]
    calls = "SELECT name, kind, target FROM staging.call ORDER BY start_ns"
    assert rows(database, calls) == [
        ("hipLaunchKernel", "launch", "kernel"),
        ("hipMemcpyAsync", "launch", "memcpy"),
        ("hipMemsetAsync", "launch", "memset"),
        ("hipStreamSynchronize", "wait", "stream"),
    ]
    assert rows(database, "SELECT step, gpu_end_ns FROM staging.step") == [(2, 540)]
    recorded = "SELECT profiler, overhead_ns FROM staging.recording"
    assert rows(database, recorded) == [("rocmProfileData", 10)]


def test_processes_are_ranks(tmp_path: Path, database: tracedb.Database) -> None:
    """Processes of one file are traces, in the order of their GPUs."""
    recording = Recording(3)
    recording.process(900, 1)
    recording.process(901, 0)
    database.ingest([recording.written(tmp_path / "trace.rpd")])
    query = """
        SELECT parse_filename(path), rank, world_size, min(gpu_op.name), count(*)
        FROM staging.trace INNER JOIN staging.gpu_op AS gpu_op USING (trace_id)
        WHERE kind = 'kernel'
        GROUP BY ALL ORDER BY ALL
    """
    assert rows(database, query) == [
        ("trace.rpd#900", 1, 2, "gemm1.kd", 1),
        ("trace.rpd#901", 0, 2, "gemm0.kd", 1),
    ]
    calls = "SELECT trace_id, count(*) FROM staging.call GROUP BY ALL ORDER BY ALL"
    assert rows(database, calls) == [(1, 4), (2, 4)]


def test_both_of_amd_are_told_apart(tmp_path: Path) -> None:
    """Databases of rocprofv3 have a table of this name, too, for other facts."""
    recording = Recording(3)
    recording.process(1, 0)
    one = recording.written(tmp_path / "a.db")
    other = write_sqlite(tmp_path / "b.db", rocpd(4))
    readers = [reader_of(path, HEAD) for path in (one, other)]
    names = [getattr(reader, "__name__", "").rpartition(".")[2] for reader in readers]
    assert names == ["rpd", "rocprof"]
    assert parts_of(one, HEAD) == []


def test_a_column_that_is_missing_is_named(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """The error is one line."""
    recording = Recording(3)
    recording.process(1, 0)
    path = recording.written(tmp_path / "a.rpd")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE rocpd_op RENAME COLUMN opType_id TO type_id")
        connection.commit()
    with pytest.raises(tracedb.IngestError, match="rocpd_op has no column opType_id"):
        database.ingest([path])
