"""`torch.compile`: regions, graph breaks, recompilations, and their cost."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support import CORPUS, SAMPLES, DatabaseOf, rows

import tracedb

TRITON = CORPUS / "tracelens/torch_compile_triton.json.gz"
LOOP = SAMPLES / "loop_cpu/loop.kineto.json.gz"
REGION = "Torch-Compiled Region: "


def regions(path: Path) -> dict[str, tuple[int, int, int, int]]:
    """Calls, host time, kernels and GPU time of each region, by a plain loop."""
    with gzip.open(path) as file:
        loaded = json.load(file, parse_float=Decimal)["traceEvents"]
    events = [event for event in loaded if event.get("ph") == "X"]
    kernels = {
        event["args"]["correlation"]: event
        for event in events
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    }
    found: dict[str, tuple[int, int, int, int]] = {}
    for event in events:
        if event["name"].startswith(REGION):
            launched = [
                kernels[call["args"]["correlation"]]
                for call in events
                if call["tid"] == event["tid"]
                and event["ts"] <= call["ts"] < event["ts"] + event["dur"]
                and call.get("cat") == "cuda_runtime"
                and call["args"].get("correlation") in kernels
            ]
            name = event["name"].removeprefix(REGION)
            time = sum(int(1000 * kernel["dur"]) for kernel in launched)
            one = (1, int(1000 * event["dur"]), len(launched), time)
            before = found.get(name, (0, 0, 0, 0))
            found[name] = tuple(map(sum, zip(before, one, strict=True)))  # type: ignore[assignment]
    return found


@pytest.mark.parametrize(
    "path", [pytest.param(LOOP, id="loop"), pytest.param(TRITON, id="triton")]
)
def test_regions_against_a_plain_loop(path: Path, database_of: DatabaseOf) -> None:
    """Calls and times on host and GPU agree for each region."""
    if not path.exists():
        pytest.skip("../shared/corpus is absent")
    found = rows(
        database_of(path),
        "SELECT region, call_count, time_ns, gpu_op_count, gpu_time_ns "
        "FROM question.compiled_region",
    )
    assert {row[0]: row[1:] for row in found} == regions(path) != {}


def happening(name: str, at: int, lasting: int, cat: str = "cpu_op") -> dict[str, Any]:
    """An event on the main thread; times in microseconds."""
    args = {"correlation": at} if cat == "cuda_runtime" else {}
    return {"ph": "X", "cat": cat, "pid": 1, "tid": 1, "args": args} | {
        "name": name,
        "ts": at,
        "dur": lasting,
    }


def test_breaks_recompilations_and_their_cost(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Nested events of one kind count once; regions may nest."""
    events = [
        happening("ProfilerStep#1", 0, 1000, "user_annotation"),
        happening("TorchDynamo Cache Lookup", 10, 5),
        happening(f"{REGION}0/0", 20, 100),
        happening("aten::mm", 25, 10),
        happening("cudaGraphLaunch", 40, 10, "cuda_runtime"),
        happening(f"{REGION}1/0", 60, 50),
        happening("ProfilerStep#2", 1000, 1000, "user_annotation"),
        happening("_compile.compile_inner (dynamo_timed)", 1010, 400),
        happening("build_guards (dynamo_timed)", 1100, 50),
        happening(f"{REGION}0/1", 1500, 100),
        happening(f"{REGION}!2/3/1", 1700, 10),
    ]
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": events}))
    database.ingest([file])
    assert rows(
        database,
        "SELECT region, frame, version, version_count, resumed_count, op_count, "
        "graph_launch_count FROM question.compiled_region ORDER BY region",
    ) == [
        ("!2/3/1", "!2/3", 1, 1, 0, 0, 0),
        ("0/0", "0", 0, 2, 0, 1, 1),
        ("0/1", "0", 1, 2, 0, 0, 0),
        ("1/0", "1", 0, 1, 1, 0, 0),
    ]
    assert rows(
        database, "SELECT step, kind, event_count, time_ns FROM question.compile_time"
    ) == [
        (1, "region", 1, 100_000),
        (1, "graph_launch", 1, 10_000),
        (1, "guards", 1, 5_000),
        (2, "compile", 1, 400_000),
        (2, "region", 2, 110_000),
    ]


def test_code_after_a_graph_break_is_not_an_op(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """A region has in it the Python code at its break, and all that follows that."""
    events = [
        happening("ProfilerStep#1", 0, 1000, "user_annotation"),
        happening(f"{REGION}0/0", 10, 980),
        happening("## Call CompiledFxGraph f0 ##", 20, 100),
        happening("aten::mm", 30, 50),
        happening(f"{REGION}1/0", 420, 560),
        happening("## Call CompiledFxGraph f1 ##", 420, 100),
        happening("autograd::engine::evaluate_function: MmBackward0", 540, 260),
        happening("Optimizer.step#SGD.step", 800, 180, "user_annotation"),
        happening("aten::add_", 800, 180),
    ]
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": events}))
    database.ingest([file])
    assert rows(database, "SELECT phase, host_ns FROM question.phase") == [
        ("forward", 520_000),
        ("backward", 280_000),
        ("optimizer", 180_000),
        ("other", 20_000),
    ]
    assert rows(
        database,
        "SELECT frame, longest_ns FROM question.host_gap WHERE longest_ns >= 100_000",
    ) == [("range 'Torch-Compiled Region: */*'", 300_000)]
    assert rows(database, "SELECT region, op_count FROM question.compiled_region") == [
        ("0/0", 0),
        ("1/0", 2),
    ]


def test_compiled_autograd_is_a_backward_pass(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Its regions are named by a `!`; autograd records no ops of its own there."""
    events = [
        happening("ProfilerStep#1", 0, 1000, "user_annotation"),
        happening("aten::linear", 0, 300),
        happening(f"{REGION}!0/2/0", 300, 600),
        happening("## Call CompiledFxGraph f0 ##", 310, 580),
        happening("aten::mm", 320, 500),
        happening("Optimizer.step#SGD.step", 900, 100, "user_annotation"),
        happening("aten::add_", 900, 100),
    ]
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"traceEvents": events}))
    database.ingest([file])
    assert rows(database, "SELECT phase, host_ns FROM question.phase") == [
        ("forward", 300_000),
        ("backward", 600_000),
        ("optimizer", 100_000),
    ]
