"""Bandwidth of collectives, and how long they wait before moving data."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import CORPUS, SAMPLES, DatabaseOf, rows

import tracedb

ONE_RANK = [CORPUS / "hta/nccl_data.json.gz"]
TWO_RANKS = [SAMPLES / f"generated_gpu/rank{rank}.kineto.json.gz" for rank in (0, 1)]
DLRM8 = [
    CORPUS / f"param/dlrm8/kineto/worker{rank}.pt.trace.json.gz" for rank in (0, 1)
]
RECORDED = [
    pytest.param(TWO_RANKS, id="generated"),
    pytest.param(ONE_RANK, id="nccl_data"),
]
BYTES = {"Float": 4, "Int": 4, "Long": 8, "Byte": 1, "BFloat16": 2}


class Transfer(NamedTuple):
    """A collective on one rank; times in microseconds."""

    begin: float
    end: float
    kind: str
    ranks: int
    message: int


def transfers(path: Path) -> list[Transfer]:
    """The collectives of a trace, found through the calls that record them."""
    with gzip.open(path) as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]
    calls = [event for event in events if event["name"] == "record_param_comms"]
    launches = {
        event["args"]["correlation"]: event
        for event in events
        if event.get("cat") == "cuda_runtime" and "correlation" in event["args"]
    }
    found = []
    for kernel in events:
        if kernel.get("cat") == "kernel" and kernel["name"].startswith("nccl"):
            launch = launches[kernel["args"]["correlation"]]
            call = next(call for call in calls if encloses(call, launch))
            found.append(transfer(kernel, call["args"]))
    return sorted(found)


def encloses(call: dict[str, Any], launch: dict[str, Any]) -> bool:
    """Whether a launch is within a call on its thread."""
    within = 0 <= float(launch["ts"]) - float(call["ts"]) <= float(call["dur"])
    return bool(call["tid"] == launch["tid"]) and within


def transfer(kernel: dict[str, Any], call: dict[str, Any]) -> Transfer:
    """A kernel, with the message that its call records."""
    elements = max(call["In msg nelems"], call["Out msg nelems"])
    begin, lasting = float(kernel["ts"]), float(kernel["dur"])
    return Transfer(
        begin,
        begin + lasting,
        call["Collective name"].replace("_", "").replace("base", ""),
        call["Group size"],
        elements * BYTES[call["dtype"]],
    )


def bus_factor(one: Transfer) -> float:
    """The bus bandwidth factor of NCCL tests."""
    others = (one.ranks - 1) / one.ranks
    factors = {"allreduce": 2 * others, "alltoall": others, "allgather": others}
    return factors.get(one.kind, 1)


@pytest.mark.parametrize("paths", RECORDED)
def test_bandwidths_against_a_plain_loop(
    paths: list[Path], database_of: DatabaseOf
) -> None:
    """Message sizes, waits and both bandwidths agree for each collective."""
    if not paths[0].exists():
        pytest.skip("../shared/corpus is absent")
    database = database_of(*paths)
    ranks = [transfers(path) for path in paths]
    for rank, made in enumerate(ranks):
        found = rows(
            database,
            f"""
            SELECT
                message_bytes, group_size, waiting_ns, moving_ns,
                algorithm_bytes_per_second, bus_bytes_per_second
            FROM question.collective_kernel
            INNER JOIN staging.gpu_op USING (gpu_op_id)
            WHERE rank = {rank}
            ORDER BY start_ns
            """,
        )
        assert len(found) == len(made) > 0
        for number, (one, row) in enumerate(zip(made, found, strict=True)):
            arrival = max(other[number].begin for other in ranks)
            moving = 1e3 * (one.end - arrival)
            waiting = 1e3 * (arrival - one.begin) if len(ranks) > 1 else None
            assert row[:2] == (one.message, one.ranks)
            assert row[2] == pytest.approx(waiting, abs=2)
            assert row[3] == pytest.approx(moving, abs=2)
            speed = 1e9 * one.message / row[3]
            assert row[4:] == pytest.approx((speed, speed * bus_factor(one)))


@pytest.mark.parametrize("paths", [*RECORDED, pytest.param(DLRM8, id="dlrm8")])
def test_laws_of_bandwidths(paths: list[Path], database_of: DatabaseOf) -> None:
    """Waiting and moving sum to the time; no link moves more than twice the message."""
    if not paths[0].exists():
        pytest.skip("../shared/corpus is absent")
    database = database_of(*paths)
    law = """
        SELECT count(*) FILTER (message_bytes > 0) > 0, bool_and(
            coalesce(waiting_ns + absent_waiting_ns, 0) + moving_ns = time_ns
            AND coalesce(bus_bytes_per_second, 0) <= 2 * algorithm_bytes_per_second
            AND algorithm_bytes_per_second * moving_ns <= 1.000001e9 * message_bytes
        )
        FROM question.collective_kernel WHERE moving_ns > 0
    """
    assert rows(database, law) == [(True, True)]
    sums = "sum(time_ns)::BIGINT, sum(moving_ns)::BIGINT, max(bus_bytes_per_second)"
    kernels = rows(database, f"SELECT {sums} FROM question.collective_kernel")
    best = sums.replace("max(bus", "max(best_bus")
    assert rows(database, f"SELECT {best} FROM question.collective") == kernels


@pytest.mark.parametrize(
    ("ranks", "gpus", "nodes"),
    [([1, 2], 2, 2), ([0, 1], 1, None)],
)
def test_nodes_follow_from_the_ranks_of_the_group(
    ranks: list[int],
    gpus: int,
    nodes: int | None,
    database: tracedb.Database,
    tmp_path: Path,
) -> None:
    """Ranks are numbered node by node; a trace that shows one GPU does not tell."""
    ids = {"correlation": 1, "device": 0, "stream": 7}
    group: dict[str, Any] = {
        "Process Group Name": "0",
        "Process Group Ranks": str(ranks),
    }
    group |= {"Collective name": "reduce", "Group size": len(ranks)}
    call = group | {"In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "Float"}
    common = {"ph": "X", "pid": 1, "tid": 1}
    events = [
        common
        | {"cat": "cpu_op", "name": "record_param_comms", "ts": 0, "dur": 20}
        | {"args": call},
        common
        | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 5, "dur": 5}
        | {"args": ids},
        {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "ts": 30, "dur": 40}
        | {"name": "ncclDevKernel_Reduce", "args": ids | group},
    ]
    described = [{"id": device, "name": "NVIDIA A40"} for device in range(gpus)]
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"deviceProperties": described, "traceEvents": events}))
    database.ingest([file])
    found = rows(
        database,
        "SELECT kind, message_bytes, node_count, bus_bytes_per_second, waiting_ns "
        "FROM question.collective",
    )
    assert found == [("reduce", 4000, nodes, pytest.approx(4000 / 40e-6), None)]
