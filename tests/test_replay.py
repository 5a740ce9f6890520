"""Kernels of replayed CUDA graphs are attributed to the captured ops."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import CORPUS, needs_corpus, rows

import tracedb

INFERENCE = CORPUS / "tracelens" / "inference"
REPLAYED = """
SELECT
    gpu_op.name, replaying.name, matched_by, candidates, captured.name
FROM graph.replayed_gpu_op AS replayed
INNER JOIN staging.gpu_op AS gpu_op USING (gpu_op_id)
LEFT JOIN staging.op AS replaying ON replayed.op_id = replaying.op_id
LEFT JOIN staging.op AS captured ON captured_op_id = captured.op_id
ORDER BY replayed.call_id, ordinal
"""

Event = dict[str, Any]


def event(name: str, cat: str, start: int, duration: int, **args: object) -> Event:
    """An event of the host thread, times in microseconds."""
    place = {"ph": "X", "pid": 1, "tid": 1, "ts": start, "dur": duration}
    return place | {"name": name, "cat": cat, "args": args}


def capture(
    start: int, kernels: Sequence[str], *, has_names: bool = True, op: str = "op"
) -> list[Event]:
    """A captured graph: an op around each launch, whose name gives its position."""
    events = [event("cudaStreamBeginCapture_v10000", "cuda_runtime", start, 1)]
    for place, kernel in enumerate(kernels):
        time = start + 10 * place + 10
        events.append(event(f"{op} {place}", "cpu_op", time, 8))
        reported = {"kernel": kernel} if has_names else {}
        args = {"correlation": 10_000 + time} | reported
        events.append(event("cudaLaunchKernel", "cuda_runtime", time + 1, 2, **args))
    end = start + 10 * len(kernels) + 10
    return [*events, event("cudaStreamEndCapture", "cuda_runtime", end, 1)]


def replay(start: int, kernels: Sequence[str]) -> list[Event]:
    """A graph launch within an op, and its kernels on two streams."""
    launch = event("cudaGraphLaunch", "cuda_runtime", start + 1, 5, correlation=start)
    events = [event("replay", "cpu_op", start, 10), launch]
    for place, kernel in enumerate(kernels):
        stream = 7 + place % 2
        args = {"correlation": start, "device": 0, "stream": stream}
        work = event(kernel, "kernel", start + 20 + 5 * place, 4, **args)
        events.append(work | {"pid": 0, "tid": stream})
    return events


def ingested(tmp_path: Path, *files: list[Event]) -> list[tuple[Any, ...]]:
    """The replayed kernels of some files, in order."""
    paths = []
    for number, events in enumerate(files):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps(events))
    with tracedb.open() as database:
        database.ingest(paths)
        return rows(database, REPLAYED)


def test_kernels_are_matched_by_name(tmp_path: Path) -> None:
    """Kernels that run in another order on two streams are matched by name."""
    found = ingested(
        tmp_path,
        capture(0, ["gemm", "relu", "gemm"]),
        replay(500, ["gemm", "gemm", "relu"]),
    )
    assert found == [
        ("gemm", "replay", "name", 1, "op 0"),
        ("gemm", "replay", "name", 1, "op 2"),
        ("relu", "replay", "name", 1, "op 1"),
    ]


def test_kernels_are_matched_by_number(tmp_path: Path) -> None:
    """NVIDIA's launch calls do not have the kernel's name."""
    found = ingested(
        tmp_path,
        capture(0, ["a", "b"], has_names=False),
        capture(0, ["a", "b", "c"], has_names=False, op="longer"),
        replay(500, ["a", "b"]),
    )
    assert found == [
        ("a", "replay", "number", 1, "op 0"),
        ("b", "replay", "number", 1, "op 1"),
    ]


def test_equal_captures_are_replayed_in_order(tmp_path: Path) -> None:
    """Layers of a model look alike, which is reported."""
    layers = [capture(100 * n, ["a", "b"], op=f"layer {n}") for n in range(3)]
    replays = [replay(1_000 + 100 * n, ["a", "b"]) for n in range(6)]
    found = ingested(tmp_path, sum(layers, []), sum(replays, []))  # noqa: RUF017 (few)
    assert [row[4] for row in found] == [
        f"layer {n % 3} {place}" for n in range(6) for place in range(2)
    ]
    assert {row[3] for row in found} == {3}


def test_the_nearest_capture_is_used(tmp_path: Path) -> None:
    """A capture in the same trace is preferred to one in another file."""
    own = capture(0, ["a", "b"], op="own")
    other = capture(0, ["a", "b"], op="other")
    found = ingested(tmp_path, other, [*own, *replay(500, ["a", "b"])])
    assert [row[3:] for row in found] == [(1, "own 0"), (1, "own 1")]


def test_an_unrecorded_kernel_shifts_no_other(tmp_path: Path) -> None:
    """Names that occur equally often in both are matched; others are not attributed."""
    kernels = [f"k{n}" for n in range(30)] + ["same", "same"]
    found = ingested(tmp_path, capture(0, kernels), replay(5_000, kernels[:-1]))
    assert [row[4] for row in found] == [*(f"op {n}" for n in range(30)), None]


def test_other_launches_are_no_capture(tmp_path: Path) -> None:
    """Another graph, or launches that ran, do not count as this graph's capture."""
    ran = capture(0, ["a", "b"])
    ran += [
        event("a", "kernel", 300 + n, 1, correlation=10_010 + 10 * n, stream=7)
        for n in range(2)
    ]
    found = ingested(tmp_path, ran, capture(0, ["x", "y"]), replay(500, ["a", "b"]))
    assert found == [
        ("a", "replay", None, None, None),
        ("b", "replay", None, None, None),
    ]


@needs_corpus
@pytest.mark.parametrize(
    ("pattern", "kernels"),
    [
        ("sglang_decode/*", 544),
        ("vllm_piecewise/*", 361),
        ("xdit_flux1_capture.*", 993),
    ],
)
def test_real_servers_are_attributed(
    database: tracedb.Database, pattern: str, kernels: int
) -> None:
    """Every kernel finds a launch of its name, and a graph's kernels are in order."""
    database.ingest([INFERENCE / pattern])
    found = rows(
        database,
        """
        SELECT
            replayed.call_id, captured_call_id, gpu_op.name = call.launched_name
        FROM graph.replayed_gpu_op AS replayed
        INNER JOIN staging.gpu_op AS gpu_op USING (gpu_op_id)
        LEFT JOIN staging.call AS call ON captured_call_id = call.call_id
        ORDER BY gpu_op.start_ns
        """,
    )
    assert len(found) == kernels
    assert all(is_same for _, _, is_same in found)
    # These graphs have one stream: kernels captured later run later.
    assert found == sorted(found)
    times = database.ask("replayed_op")
    assert times["op_name"].null_count() == 0
    assert times["gpu_time_share"].sum() == pytest.approx(1)
