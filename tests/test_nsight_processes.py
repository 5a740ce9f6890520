"""Processes of a report of Nsight Systems are ranks, each a trace of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support import rows
from test_foreign import call, kernel, nvtx, report, write_parquet, write_sqlite

import tracedb
from tracedb.cli.main import tracedb as command
from tracedb.ingest import files
from tracedb.ingest.foreign.nsight_processes import ids

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Row = dict[str, Any]
Tables = dict[str, list[Row]]

STEP = 1_000_000
NCCL = 900
"""The id of the name of NCCL's kernel."""


def of_process(row: Row, number: int, device: int = 0) -> Row:
    """A row as another process records it."""
    _, thread = ids(row.get("globalTid"))
    thread = number if row.get("globalTid") is not None else 0
    moved = {key: 1 << 48 | number << 24 for key in ("globalPid",) if key in row}
    if "globalTid" in row:
        moved["globalTid"] = 1 << 48 | number << 24 | thread
    if "deviceId" in row:
        moved["deviceId"] = device
    return row | moved


def steps_of(number: int, device: int, late: int) -> Tables:
    """Two steps of a process: a range, a launch, and a collective that both end."""
    found: Tables = {"NVTX_EVENTS": []}
    calls, kernels = [], []
    for step in range(2):
        at = step * STEP
        found["NVTX_EVENTS"].append(nvtx(f"ProfilerStep#{step}", at, at + STEP - 1000))
        for place in range(2):
            first = at + 1000 + place * 100_000
            correlation = 10 * step + place + 1
            calls.append(
                call("cudaLaunchKernel_v7000", first, first + 5000, correlation)
            )
            begin = first + 10_000 + (late if place else 0)
            work = kernel(begin, at + 90_000 + place * 400_000, correlation)
            kernels.append(work | ({"demangledName": NCCL} if place else {}))
    found["CUPTI_ACTIVITY_KIND_RUNTIME"] = calls
    found["CUPTI_ACTIVITY_KIND_KERNEL"] = kernels
    return {
        table: [of_process(row, number, device) for row in content]
        for table, content in found.items()
    }


def job(ranks: list[tuple[int, int]], **more: list[Row]) -> Tables:
    """A report of processes, given by their ids and devices."""
    tables = {"StringIds": report()["StringIds"], **more}
    tables["StringIds"] = [
        *tables["StringIds"],
        {"id": NCCL, "value": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"},
    ]
    tables["TARGET_INFO_SESSION_START_TIME"] = [{"utcEpochNs": 1_700_000_000 * 10**9}]
    for late, (number, device) in enumerate(ranks):
        for table, content in steps_of(number, device, late * 50_000).items():
            tables[table] = [*tables.get(table, []), *content]
    return tables


def created(number: int, rank: int, ranks: int) -> Row:
    """NCCL's record of a communicator."""
    payload = {"NCCL communicator ID": 5, "No. of ranks": ranks, "Rank": rank}
    text = {"jsonText": json.dumps(payload | {"CUDA device": 0})}
    return of_process(nvtx(950, 10, 20, **text), number)


def ingested(*paths: Path) -> tracedb.Database:
    """A database in memory with these files."""
    database = tracedb.open(allow_files=True)
    database.ingest(paths)
    return database


RANKS = """
SELECT parse_filename(path), rank, world_size, dense_rank() OVER (ORDER BY run_id)
FROM staging.trace ORDER BY trace_id
"""


@pytest.mark.parametrize("write", [write_sqlite, write_parquet])
def test_processes_are_ranks_by_their_gpus(
    tmp_path: Path, write: Callable[[Path, Tables], Path]
) -> None:
    """Each process is a rank with its own main thread; collectives match."""
    with ingested(write(tmp_path / "r", job([(300, 1), (301, 0)]))) as database:
        assert rows(database, RANKS) == [("r#300", 1, 2, 1), ("r#301", 0, 2, 1)]
        assert rows(
            database,
            "SELECT rank, role, count(*) FROM staging.thread "
            "INNER JOIN staging.trace USING (trace_id) GROUP BY ALL ORDER BY ALL",
        ) == [(0, "main", 1), (1, "main", 1)]
        assert rows(
            database,
            "SELECT rank, device, count(*), sum(end_ns - start_ns)::BIGINT "
            "FROM staging.gpu_op INNER JOIN staging.trace USING (trace_id) "
            "GROUP BY ALL ORDER BY ALL",
        ) == [(0, 0, 4, 816_000), (1, 1, 4, 916_000)]
        # Process 300, on GPU 1, waits 50 us in each step for the other one.
        assert rows(
            database,
            "SELECT rank, waiting_ns::BIGINT FROM question.straggler ORDER BY rank",
        ) == [(0, 0), (1, 100_000)]
        assert rows(
            database,
            "SELECT occurrences, all_count FROM question.trust "
            "WHERE aspect = 'assumed_rank'",
        ) == [(2, 2)]


def test_ranks_are_those_that_nccl_recorded(tmp_path: Path) -> None:
    """What NCCL recorded counts more than the order of GPUs, also of several nodes."""
    tables = job([(300, 0), (301, 1)])
    tables["StringIds"].append({"id": 950, "value": "ncclCommInitRankConfig"})
    tables["NVTX_EVENTS"] += [created(300, 5, 8), created(301, 4, 8)]
    tables["NVTX_EVENTS"] += [created(300, 0, 2), created(301, 1, 2)]
    with ingested(write_sqlite(tmp_path / "r", tables)) as database:
        assert rows(database, RANKS) == [("r#300", 5, 8, 1), ("r#301", 4, 8, 1)]
        query = "FROM question.trust WHERE aspect = 'assumed_rank'"
        assert rows(database, query) == []


def test_a_second_node_has_the_further_ranks(tmp_path: Path) -> None:
    """The launcher's arguments say which node it is."""
    words = ["--nnodes=2", "--node-rank", "1", "--nproc_per_node=2", "train.py"]
    arguments = [
        {"name": f"PROCESS_0:ARGUMENT_{n}", "value": word}
        for n, word in enumerate(words)
    ]
    tables = job([(300, 0), (301, 1)], META_DATA_CAPTURE=arguments)
    with ingested(write_sqlite(tmp_path / "r", tables)) as database:
        assert rows(database, RANKS) == [("r#300", 2, 4, 1), ("r#301", 3, 4, 1)]


def test_processes_that_share_a_gpu_are_in_order_of_their_ids(tmp_path: Path) -> None:
    """Where device numbers do not tell, ids do; streams of both stay apart."""
    with ingested(write_sqlite(tmp_path / "r", job([(301, 0), (300, 0)]))) as database:
        assert rows(database, RANKS) == [("r#300", 0, 2, 1), ("r#301", 1, 2, 1)]
        assert rows(
            database,
            "SELECT occurrences FROM question.trust WHERE aspect = 'overlapping'",
        ) == [(0,)]


def test_programs_that_ran_one_after_another_are_no_ranks(tmp_path: Path) -> None:
    """Each is a run of its own, without a rank."""
    tables = job([(300, 0), (301, 0)])
    for content in tables.values():
        for row in content:
            if ids(row.get("globalPid", row.get("globalTid")))[0] == 301:
                row["start"] += 5 * STEP
                row["end"] += 5 * STEP
    with ingested(write_sqlite(tmp_path / "r", tables)) as database:
        assert rows(database, RANKS) == [
            ("r#300", None, None, 1),
            ("r#301", None, None, 2),
        ]


def test_every_row_is_in_one_trace(tmp_path: Path) -> None:
    """Rows of processes without GPU work, or of no process, are with the first."""
    tables = job([(300, 0), (301, 1)])
    tables["NVTX_EVENTS"] += [
        of_process(nvtx("loading", 10, 20), 999),
        nvtx("lost", 10, 20, globalTid=None),
    ]
    whole = write_sqlite(tmp_path / "r", tables)
    count = sum(len(tables[table]) for table in tables if table.isupper())
    with ingested(whole) as database:
        counts = rows(database, "SELECT event_count FROM staging.trace ORDER BY ALL")
        assert counts == [(10,), (12,)]
        assert sum(n for (n,) in counts) == count - 1  # the start of the session
        issues = "SELECT parse_filename(path), kind, occurrences FROM raw.ingest_issue"
        assert rows(database, f"{issues} INNER JOIN raw.trace USING (trace_id)") == [
            ("r#300", "kept with the first process: of no process with GPU work", 2)
        ]
        (repaired,) = rows(
            database,
            "SELECT occurrences FROM question.trust WHERE aspect = 'repaired'",
        )
        assert repaired == (0,)
        database.ingest([whole])
        assert rows(database, "SELECT count(*) FROM staging.trace") == [(2,)]


def test_notes_are_no_damage(tmp_path: Path) -> None:
    """Processes without GPU work are mentioned, and `info` ends as of whole files."""
    tables = job([(300, 0), (301, 1)])
    tables["NVTX_EVENTS"].append(of_process(nvtx("loading", 10, 20), 999))
    whole = write_sqlite(tmp_path / "r", tables)
    with tracedb.open(tmp_path / "r.duckdb") as database:
        database.ingest([whole])
        assert database.issues()["is_note"].to_list() == [True]
    done = CliRunner().invoke(command, ["info", str(tmp_path / "r.duckdb")])
    assert done.exit_code == 0
    assert "of no process with GPU work" in done.stderr


def test_one_process_stays_one_trace(tmp_path: Path) -> None:
    """A report of one process is not divided, nor is one that is damaged."""
    one = write_sqlite(tmp_path / "one", job([(300, 0)]))
    two = write_sqlite(tmp_path / "two", job([(300, 0), (301, 1)]))
    broken = tmp_path / "broken"
    broken.write_bytes(two.read_bytes()[:5000])
    found = files.expand([one, two, broken], tmp_path)
    parts = [source.part for source in found if source.path != broken]
    assert parts == [None, 300, 301]
    assert [s.part for s in found if s.path == broken] == [None]
