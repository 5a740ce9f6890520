"""FBGEMM's int8 products against fp32 ones on this CPU: the page `docs/int8.md`.

    python benchmarks/int8.py --write docs/int8.md

Linear layers of recommenders, by batch size. Each is measured in both types, in several
rounds of a shuffled order, and all of it twice, which tells the noise.
"""

from __future__ import annotations

import os
import tempfile
from itertools import product
from math import exp, log
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from measure import tell
from pages import parser, publish, table

from tracedb.microbench import Case, Plan, Summary, measure, open_backend

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Outputs and inputs of layers: DLRM_MLPerf, DLRM_default, and square ones.
LAYERS = ((64, 512), (128, 256), (512, 512), (1024, 479), (1024, 1024), (2048, 2048))
BATCHES = (1, 16, 128, 512, 2048)
TYPES = ("float32", "int8")
ROUNDS = 3

TITLE = "# FBGEMM's int8 products against fp32 ones on a CPU"
HOW = """\
Written by `benchmarks/int8.py`. {device} ({cores} cores), {software}. PyTorch's linear
layer in fp32, compared with the layer quantized by FBGEMM: weights prepacked, output
requantized, bias included. A time is the median of {rounds} rounds of at least ten
samples each, with warm caches. The machine is shared: in a repeated measurement, the
times differed by {gmae:.1%} in the geometric mean, {mape:.1%} in the mean.
"""
RESULT = """\
In the geometric mean int8 is {overall:.2f} times faster: {large:.2f} times from a batch
of {many} on, {single:.2f} times with one example.
"""


def plan(layers: Iterable[tuple[int, int]], batches: Iterable[int]) -> Plan:
    """Every layer at every batch size, in both types."""
    sizes = list(product(batches, layers))
    cases = [
        Case("gemm", "linear", dtype, {"batch": 1, "m": m, "n": n, "k": k})
        for m, (n, k) in sizes
        for dtype in TYPES
    ]
    return Plan("int8", cases, rounds=ROUNDS, again_share=1.0)


def measured(chosen: Plan, threads: int) -> tuple[Summary, list[dict[str, Any]]]:
    """Measure a plan; returns the results."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "int8.parquet")
        done = measure(file, chosen, open_backend("torch", "cpu", threads), tell=tell)
        return done, pq.read_table(file).to_pylist()


def page(done: Summary, rows: Sequence[dict[str, Any]]) -> str:
    """Write the page."""
    noise = done.noise["all"]
    sizes = dict.fromkeys((row["m"], row["n"], row["k"]) for row in rows)
    times = {(row["m"], row["n"], row["k"], row["dtype"]): row for row in rows}
    gains = {
        size: times[*size, "float32"]["time_ns"] / times[*size, "int8"]["time_ns"]
        for size in sizes
    }
    lines = [
        [
            *(f"{number:,}" for number in size),
            *(_time(times[*size, dtype], size) for dtype in TYPES),
            f"{gain:.2f}",
        ]
        for size, gain in gains.items()
    ]
    head = ["batch", "outputs", "inputs", "fp32, us (GFLOP/s)", "int8", "times less"]
    few, many = (f(size[0] for size in sizes) for f in (min, max))
    many //= 4
    how = HOW.format(
        device=done.place.device,
        software=done.place.software,
        cores=os.cpu_count(),
        rounds=ROUNDS,
        gmae=noise["gmae_share"],
        mape=noise["mape_share"],
    )
    result = RESULT.format(
        overall=_geometric(gains.values()),
        many=many,
        large=_geometric(gain for size, gain in gains.items() if size[0] >= many),
        single=_geometric(gain for size, gain in gains.items() if size[0] == few),
    )
    rows_of_page = "\n".join(table(head, lines, left=0))
    return "\n\n".join([TITLE, fill(how, 88), rows_of_page, fill(result, 88)]) + "\n"


def _time(row: dict[str, Any], size: tuple[int, int, int]) -> str:
    m, n, k = size
    return f"{row['time_ns'] / 1e3:,.1f} ({2 * m * n * k / row['time_ns']:,.0f})"


def _geometric(ratios: Iterable[float]) -> float:
    return exp(fmean(log(ratio) for ratio in ratios))


def main() -> None:
    """Measure, then print or write the page."""
    given = parser(__doc__)
    given.add_argument("--threads", type=int, default=1)
    asked = given.parse_args()
    publish(page(*measured(plan(LAYERS, BATCHES), asked.threads)), asked.write)


if __name__ == "__main__":
    main()
