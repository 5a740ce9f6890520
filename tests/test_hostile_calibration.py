"""Calibration by traces that mislead: wrong shapes, lone ops, GPUs of several kinds.

What recurs is predicted about as its siblings were measured, whatever its shapes say.
"""

from __future__ import annotations

import json
import math
import random
from itertools import count
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from launched import FLOAT, HALF, LONG, Op, tensors
from support import sampled

import tracedb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

A100, T4 = "NVIDIA A100-SXM4-80GB", "Tesla T4"
SIBLINGS = 12
MOST = 1.6
"""How much longer or shorter than its siblings a recurring kernel may be predicted."""
ABSURD = 100


def product(m: int, n: int, k: int, dtype: str = HALF) -> Op:
    """A matrix product."""
    return Op("aten::mm", **tensors((m, k), (k, n), dtype=dtype), kernels=["gemm"])


def sum_of(size: int) -> Op:
    """An addition."""
    return Op("aten::add", **tensors((size,), (size,)))


USUAL = product(512, 512, 512)
Timed = tuple[Op, float, int]
"""An op, the time of its kernel [us], and the device."""


def several(op: Op, kernel_us: float, device: int = 0) -> list[Timed]:
    """Siblings, which differ by 5 %."""
    seeded = random.Random(kernel_us)  # noqa: S311 (no secret)
    times = [kernel_us * (1 + 0.05 * seeded.uniform(-1, 1)) for _ in range(SIBLINGS)]
    return [(op, round(time, 3), device) for time in times]


def trace(ops: list[Timed], *devices: str) -> dict[str, Any]:
    """A trace of ops on devices, one op after another."""
    numbers = count(1)
    events = []
    for op, kernel_us, device in ops:
        for event in op.events(next(numbers), kernel_us):
            if event["cat"] == "kernel":
                event["pid"] = event["args"]["device"] = device
            events.append(event)
    named = [{"id": number, "name": name} for number, name in enumerate(devices)]
    return {"deviceProperties": named, "traceEvents": events}


NORM = (FLOAT, "ScalarList", FLOAT, FLOAT, "Scalar")
TRACES = {
    "usual": trace([*several(USUAL, 20), *several(sum_of(10**6), 10)], A100),
    "no shapes": trace(several(Op("aten::mm", [], []), 20), A100),
    "types that do not exist": trace(
        [*several(product(512, 512, 512, "banana"), 20), *several(USUAL, 20)], A100
    ),
    "types of other units": trace(
        [
            *several(product(512, 512, 512, "c10::complex<double>"), 20),
            *several(product(512, 512, 512, "long int"), 20),
        ],
        A100,
    ),
    "no elements": trace(
        [
            *several(product(0, 512, 512), 3),
            *several(product(512, 512, 0), 3),
            *several(sum_of(0), 3),
            *several(
                Op("aten::native_layer_norm", [[0, 5], [], [5], [5], []], NORM), 5
            ),
            *several(Op("aten::_softmax", [[7, 0], [], []], NORM[:3]), 5),
            *several(Op("aten::argmax", [[0, 5]], [FLOAT]), 5),
            *several(Op("aten::embedding", [[0, 0], [0]], [FLOAT, LONG]), 5),
        ],
        A100,
    ),
    "sizes below 0": trace(
        [*several(product(-5, 512, 512), 20), *several(USUAL, 20)], A100
    ),
    "10^18 elements": trace(
        [*several(sum_of(10**18), 20), *several(product(10**9, 10**9, 10**9), 20)], A100
    ),
    "shapes of minutes": trace(
        [*several(product(2**20, 2**20, 2**14), 20), *several(USUAL, 20)], A100
    ),
    "an element in milliseconds": trace(
        [*several(sum_of(1), 5000), *several(product(1, 1, 1), 9000)], A100
    ),
    "an unlisted GPU": trace(
        [*several(USUAL, 20), *several(sum_of(10**6), 5000)], "Voodoo 2"
    ),
    "no GPU": trace([*several(USUAL, 20), *several(sum_of(10**6), 50)]),
    "GPUs of two kinds": trace(
        [
            *(several(USUAL, 20) + several(sum_of(10**6), 10)),
            *(several(USUAL, 200, 1) + several(sum_of(10**6), 45, 1)),
        ],
        *(A100, T4),
    ),
    "the better GPU is slower": trace(
        [*several(USUAL, 200), *several(USUAL, 20, 1)], A100, T4
    ),
    "of 1 ns": trace([*several(USUAL, 0.001), *several(sum_of(10**6), 0.001)], A100),
}
PREDICTED = """
    SELECT
        [op.name, input_dims::VARCHAR, input_types::VARCHAR, device::VARCHAR] AS what,
        list(work.end_ns - work.start_ns ORDER BY gpu_op_id) AS measured,
        list(gpu.predicted_ns ORDER BY gpu_op_id) AS predicted
    FROM prediction.gpu_time AS gpu
    INNER JOIN prediction.variant USING (variant_id)
    INNER JOIN staging.gpu_op AS work USING (gpu_op_id)
    INNER JOIN staging.op AS op ON work.op_id = op.op_id
    WHERE method = 'full'
    GROUP BY ALL
"""
NUMBERS = ("question.kernel_error", "question.efficiency", "prediction.kernel_time")


def predicted(
    path: Path, text: dict[str, Any]
) -> Iterator[tuple[Any, list[int], list[int]]]:
    """Measured and predicted times of each op; every number is finite."""
    path.write_text(json.dumps(text))
    with tracedb.open() as database:
        database.ingest([path])
        for relation in NUMBERS:
            found = database.sql(f"FROM {relation}")
            for column in found.iter_columns():
                if column.dtype.is_float():
                    assert column.drop_nulls().is_finite().all(), (
                        relation,
                        column.name,
                    )
        yield from database.sql(PREDICTED).rows()


@pytest.mark.parametrize("name", sampled(TRACES, 5))
def test_recurring_kernels_are_predicted_as_their_siblings(
    name: str, tmp_path: Path
) -> None:
    """No shape makes a prediction worse than what the same op took before and after."""
    found = list(predicted(tmp_path / "trace.json", TRACES[name]))
    assert found
    for what, measured, times in found:
        siblings = median(measured)
        for time in times:
            assert siblings / MOST <= time <= siblings * MOST, what


def test_lone_kernels_are_predicted_within_reason(tmp_path: Path) -> None:
    """A single kernel and one with an outlier among siblings: no time is absurd."""
    alone = trace([(USUAL, 20, 0)], A100)
    outlier = trace([*several(USUAL, 20), (USUAL, 20_000, 0)], A100)
    nothing = trace([*several(USUAL, 20), *[(sum_of(10**6), 0, 0)] * 3], A100)
    for number, text in enumerate((alone, outlier, nothing)):
        for what, _, times in predicted(tmp_path / f"{number}.json", text):
            assert all(math.isfinite(time) for time in times)
            assert all(20_000 / ABSURD <= time <= 20_000 * ABSURD for time in times), (
                what
            )
