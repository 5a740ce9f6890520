"""Shares of the hardware's peaks that ops, modules and steps reach."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import pytest
from support import CORPUS, SAMPLES, DatabaseOf, rows

import tracedb

QWEN = CORPUS / "tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
BERT = CORPUS / "tracelens/mi300/gaunernst_bert-small-uncased__1016001.json.gz"
SAMPLE = SAMPLES / "generated_gpu/rank0.kineto.json.gz"
# FLOP/s of half, TF32 and fp32 products, and B/s, from data sheets.
H100 = {"half": 989.4e12, "tf32": 494.7e12, "fp32": 66.9e12, "memory": 3350e9}
MI300X = {"half": 1307.4e12, "tf32": 653.7e12, "fp32": 163.4e12, "memory": 5300e9}
TRACES = [
    pytest.param(SAMPLE, H100, id="generated"),
    pytest.param(QWEN, H100, id="qwen"),
    pytest.param(BERT, MI300X, id="bert"),
]
PRODUCTS = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1}
"""Matrix product ops, and the index of their first matrix argument."""


def events(path: Path) -> list[dict[str, Any]]:
    """The events of a trace."""
    with gzip.open(path) as file:
        return list(json.load(file)["traceEvents"])


def products(path: Path) -> dict[str, Counter[str]]:
    """FLOPs, and kernel time in microseconds, of matrix product ops."""
    found = [event for event in events(path) if event.get("ph") == "X"]
    ops = sorted(
        (event for event in found if event.get("cat") == "cpu_op"),
        key=lambda op: float(op["ts"]),
    )
    launches = {
        event["args"]["correlation"]: event
        for event in found
        if event.get("cat") in ("cuda_runtime", "cuda_driver")
        and "correlation" in event.get("args", {})
    }
    flops: Counter[str] = Counter()
    times: Counter[str] = Counter()
    seen = set()
    for kernel in (event for event in found if event.get("cat") == "kernel"):
        launch = launches.get(kernel["args"].get("correlation"))
        op = launch and innermost(ops, launch)
        if not op or op["name"] not in PRODUCTS:
            continue
        times[op["name"]] += kernel["dur"]
        if id(op) not in seen:
            seen.add(id(op))
            flops[op["name"]] += multiplications(op)
    return {"flops": flops, "times": times}


def innermost(
    ops: list[dict[str, Any]], launch: dict[str, Any]
) -> dict[str, Any] | None:
    """The op around a launch on its thread that began last."""
    return next(
        (
            op
            for op in reversed(ops)
            if op["tid"] == launch["tid"]
            and float(op["ts"])
            <= float(launch["ts"])
            <= float(op["ts"]) + float(op["dur"])
        ),
        None,
    )


def multiplications(op: dict[str, Any]) -> int:
    """FLOPs of a product: two per multiply-add."""
    first = PRODUCTS[op["name"]]
    a, b = op["args"]["Input Dims"][first : first + 2]
    return int(2 * prod(a) * b[-1])


@pytest.mark.parametrize(("path", "peaks"), TRACES)
def test_products_against_a_plain_loop(
    path: Path, peaks: dict[str, float], database_of: DatabaseOf
) -> None:
    """FLOPs, time and share of peak agree for each matrix product op."""
    if not path.exists():
        pytest.skip("../shared/corpus is absent")
    expected = products(path)
    found = database_of(path).sql(
        "SELECT op, unit, flops, time_ns, compute_share, flops_per_second "
        "FROM question.efficiency_by_op WHERE family = 'gemm'"
    )
    summed: Counter[str] = Counter()
    for op, unit, flops, time_ns, share, rate in found.iter_rows():
        summed[op] += flops
        assert rate == pytest.approx(1e9 * flops / time_ns)
        assert share == pytest.approx(rate / peaks[unit])
    assert {op for op in summed if op in PRODUCTS} == set(expected["flops"])
    assert expected["flops"]
    for op, flops in expected["flops"].items():
        assert summed[op] == pytest.approx(flops, rel=2e-3), op
        times = sum(row[3] for row in found.iter_rows() if row[0] == op)
        assert times == pytest.approx(1e3 * expected["times"][op], rel=1e-4), op


@pytest.mark.parametrize(("path", "peaks"), TRACES)
def test_all_work_is_counted_once(
    path: Path, peaks: dict[str, float], database_of: DatabaseOf
) -> None:
    """Sums by family, op, module and step are equal, unknown work included."""
    if not path.exists():
        pytest.skip("../shared/corpus is absent")
    database = database_of(path)
    totals = "sum(gpu_op_count)::BIGINT, sum(time_ns)::BIGINT, sum(flops)"
    ((count, time_ns, flops),) = rows(
        database,
        """
        SELECT count(*), sum(end_ns - start_ns)::BIGINT, NULL
        FROM staging.gpu_op
        WHERE
            kind <> 'other' AND NOT is_collective
            AND (kind <> 'memcpy' OR name ILIKE '%device -> device%')
        """,
    )
    ((_, _, flops),) = rows(database, f"SELECT {totals} FROM question.efficiency")
    for part in ("efficiency", "efficiency_by_op"):
        found = rows(database, f"SELECT {totals} FROM question.{part}")
        assert found == [(count, time_ns, pytest.approx(flops))], part
    if rows(database, "FROM staging.module_call LIMIT 1"):
        roots = "module IS NULL OR NOT contains(module, '/')"
        query = f"SELECT {totals} FROM question.efficiency_by_module WHERE {roots}"
        assert rows(database, query) == [(count, time_ns, pytest.approx(flops))]
    steps = database.sql("FROM question.efficiency_by_step")
    assert steps["flops"].sum() <= flops * (1 + 1e-9)
    shares = steps["mfu_share"].drop_nulls()
    assert shares.len()
    assert shares.is_between(0, 1).all()
    bound = "SELECT bool_and((flops_per_byte > ?) = (bound = 'compute')) "
    ridge = peaks["half"] / peaks["memory"]
    query = bound.replace("?", str(ridge)) + (
        "FROM question.efficiency WHERE unit = 'half' AND flops > 0"
    )
    assert rows(database, query)[0][0] in (True, None)


def kernel(name: str, at: int, lasting: int, number: int) -> list[dict[str, Any]]:
    """An op with one launch and its kernel; a product if named like one."""
    fields = {"ph": "X", "pid": 1, "tid": 1, "ts": at, "dur": 10}
    shapes = {"Input Dims": [[64, 32], [32, 16]], "Input type": ["float", "float"]}
    ids = {"correlation": number, "device": 0, "stream": 7}
    return [
        fields | {"cat": "cpu_op", "name": name, "args": shapes},
        fields
        | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 5}
        | {"args": ids, "ts": at + 1},
        {"ph": "X", "cat": "kernel", "name": "sgemm", "pid": 0, "tid": 7, "args": ids}
        | {"ts": at + 20, "dur": lasting},
    ]


@pytest.mark.parametrize(("gpu", "peak"), [("NVIDIA A40", 37.4e12), ("Gaudi", None)])
def test_unknown_work_is_reported(
    gpu: str, peak: float | None, database: tracedb.Database, tmp_path: Path
) -> None:
    """Ops of unknown work have a row; unlisted GPUs have no shares."""
    work = [*kernel("aten::mm", 100, 40, 1), *kernel("my::op", 200, 10, 2)]
    file = tmp_path / "a.json"
    described = [{"id": 0, "name": gpu}]
    file.write_text(json.dumps({"deviceProperties": described, "traceEvents": work}))
    database.ingest([file])
    flops = 2 * 64 * 32 * 16
    share = peak and pytest.approx(flops / 40e-6 / peak)
    assert rows(
        database,
        "SELECT op, family, time_ns, unknown_share, flops, compute_share "
        "FROM question.efficiency_by_op",
    ) == [
        ("aten::mm", "gemm", 40_000, 0, flops, share),
        ("my::op", "unknown", 10_000, 1, None, None),
    ]
    ((period, unknown, mfu),) = rows(
        database,
        "SELECT period_ns, unknown_share, mfu_share FROM question.efficiency_by_step",
    )
    assert (period, unknown) == (130_000, pytest.approx(0.2))
    assert mfu == (peak and pytest.approx(flops / 130e-6 / peak))


def test_work_of_assumed_types_is_reported(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """A product without recorded types counts as assumed; unknown work does not."""
    work = [
        *kernel("aten::mm", 100, 40, 1),
        *kernel("aten::mm", 200, 30, 2),
        *kernel("my::op", 300, 10, 3),
    ]
    del work[3]["args"]["Input type"]
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": work}))
    database.ingest([file])
    shares = "unknown_share, assumed_share"
    for part, key, expected in (
        ("efficiency", "family", [("gemm", 0, 30 / 70), ("unknown", 1, 0)]),
        ("efficiency_by_op", "op", [("aten::mm", 0, 30 / 70), ("my::op", 1, 0)]),
        ("efficiency_by_step", "device", [(0, 10 / 80, 30 / 80)]),
    ):
        found = rows(database, f"SELECT {key}, {shares} FROM question.{part}")
        assert found == [(row[0], *map(pytest.approx, row[1:])) for row in expected]
