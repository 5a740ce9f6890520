"""Laws of predicted kernel times, searched with sizes that nobody measured.

`python tests/kernel_laws.py N` sweeps N random shapes of the families, types and GPUs
that the shipped models serve: one size grows in small steps, the others are odd, 1 or
huge. It prints what breaks a law, and the largest steps and dips.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracedb import kernels
from tracedb.kernels.hardware import hardware_table
from tracedb.kernels.models import SERVING
from tracedb.kernels.pooled import SOURCE
from tracedb.kernels.rows import Rows, rows_of
from tracedb.kernels.work import Op

Sizes = Mapping[str, int]

LARGEST = {
    "gemm": {"batch": 512, "m": 1 << 20, "n": 1 << 17, "k": 1 << 17},
    "attention": {"images": 512, "heads": 64, "queries": 1 << 15, "keys": 1 << 15},
    "elementwise": {"elements": 1 << 31},
    "softmax": {"rows": 1 << 20, "width": 1 << 17},
    "normalisation": {"rows": 1 << 20, "width": 1 << 17},
    "embedding": {"rows": 1 << 22, "width": 1 << 14, "table_rows": 1 << 26},
    "collective": {"bytes": 1 << 34},
}
"""The sizes of a family that are drawn, each from 1 to this."""
OTHERS: Mapping[str, Sizes] = {
    "attention": {"kv_heads": 1, "head_dim": 128, "causal": 1},
    "elementwise": {"inputs": 1, "outputs": 1},
    "collective": {"ranks": 8, "ranks_per_node": 8},
}
UNITS = {"m": 64, "n": 64, "k": 64, "queries": 64, "keys": 64, "width": 8}
"""Sizes grow by whole multiples of these: what is less aligned takes longer."""
GROWING = ("rows", "elements", "bytes", "images")
"""Sizes of which four times as much takes at least twice as long, out of memory."""
STEP = 1.03
TOLERANCE = 1e-9
JUMP = 3.0
"""The largest step that some data show: softmax beyond 1,024 elements on MI210."""
DIP = 4.0
"""The largest dip: lookups of 16 rows take 14 us on A100, and of 24 rows 4 us."""
DIPS = {"heads": 20.0}
"""Larger ones: on L40S, a query over 32,768 keys of one head takes 605 us if it has one
head, which no blocks of threads share, and 31 us if it has two."""


@dataclass(frozen=True)
class Question:
    """A sweep of one size."""

    hardware: str
    what: Op
    name: str
    sizes: NDArray[np.int64]
    frame: pl.DataFrame

    def __str__(self) -> str:
        """Words to find it again."""
        first = self.frame.drop("hardware", "family", "op", "dtype", "measured").row(0)
        what = " ".join(self.what)
        return f"{what} on {self.hardware}, {self.name} from {first}"


@dataclass(frozen=True)
class Answer:
    """Predictions of a sweep, and what bounds them."""

    question: Question
    found: pl.DataFrame
    rows: Rows

    def times(self, name: str = "predicted_ns") -> NDArray[np.float64]:
        """[ns] A column."""
        return self.found[name].to_numpy()

    def broken(self) -> list[str]:
        """The laws that do not hold."""
        ns, low, high = map(self.times, ("predicted_ns", "low_ns", "high_ns"))
        least = np.minimum(self.rows.least_ns, ns.max()) * (1 - TOLERANCE)
        laws = {
            "finite": np.isfinite(ns) & np.isfinite(low) & np.isfinite(high),
            "in the band": (low <= ns) & (ns <= high),
            "above the bound": ns >= least,
            "band above the bound": low >= least,
            "no jump": np.append(self.step() <= JUMP, True),
            "no dip": self.dip() <= DIPS.get(self.question.name, DIP),
            "four times as much": self.four_times(),
        }
        return [name for name, holds in laws.items() if not holds.all()]

    def step(self) -> NDArray[np.float64]:
        """How much longer each takes than the one before, per size."""
        sizes, ns = self.question.sizes, self.times()
        found: NDArray[np.float64] = ns[1:] / ns[:-1] / (sizes[1:] / sizes[:-1])
        return found

    def dip(self) -> NDArray[np.float64]:
        """How much shorter each is than a smaller one."""
        ns = self.times()
        found: NDArray[np.float64] = np.maximum.accumulate(ns) / ns
        return found

    def four_times(self) -> NDArray[np.bool_]:
        """Whether it takes at least 1.9 times as long to move four times as much."""
        sizes, ns, work = self.question.sizes, self.times(), self.rows.work
        is_large = (work.memory_ns > 20 * work.floor_ns) & (sizes >= 128)
        is_large &= (work.footprint > 4 * work.l2_bytes) & (4 * sizes <= sizes[-1])
        if self.question.name not in GROWING:
            is_large[:] = False
        return ~is_large | (np.interp(4 * sizes, sizes, ns) >= 1.9 * ns)


def drawn(random: Random, largest: int) -> int:
    """A size up to a largest one: any, an odd one, a power of two, 1."""
    size = int(2 ** random.uniform(0, np.log2(largest)))
    return random.choice((size, size | 1, 1 << size.bit_length() - 1, 1, largest))


def question(random: Random, models: kernels.Models) -> Question:
    """A random sweep of something that a model is of, on any listed GPU."""
    keys = [s.key for s in models.shelves if s.key.family in LARGEST]
    key = random.choice([k for k in keys if k.source != SOURCE])
    gpus = [r.name for r in models.hardware.rows if not r.is_generic and r.vendor]
    hardware = random.choice((key.hardware, random.choice(gpus)))
    largest = LARGEST[key.family]
    name = random.choice([*largest])
    others = {n: drawn(random, most) for n, most in largest.items()}
    others = {**OTHERS.get(key.family, {}), **others}
    unit = UNITS.get(name, 1)
    steps = STEP ** np.arange(np.log(largest[name]) / np.log(STEP))
    sizes = np.unique((steps / unit).round().clip(1) * unit).astype(np.int64)
    texts = {"hardware": hardware, "family": key.family, "op": key.op}
    texts |= {"dtype": key.dtype, "measured": key.measured}
    frame = pl.DataFrame({name: sizes}).with_columns(
        **{n: pl.lit(v) for n, v in {**others, **texts}.items() if n != name}
    )
    what = Op(key.family, key.op, key.dtype)
    return Question(hardware, what, name, sizes, frame)


def answer(asked: Question, models: kernels.Models) -> Answer | None:
    """What serving models say; None if the roofline serves."""
    found = models.predict(asked.frame)
    if not found["likeness"].is_in(SERVING).all() or found["likeness"].null_count():
        return None
    figures = hardware_table().find(asked.hardware).figures
    rows = rows_of(asked.frame, asked.what, figures, is_listed=True)
    return Answer(asked, found, rows)


def report(found: list[Answer]) -> list[str]:
    """What breaks a law, and the largest steps and dips."""
    broken = [(one, laws) for one in found if (laws := one.broken())]
    lines = [f"{', '.join(laws)}: {one.question}" for one, laws in broken]
    for name, of in (("step", Answer.step), ("dip", Answer.dip)):
        worst = sorted(found, key=lambda one: -of(one).max(initial=0))[:5]
        lines += [f"{name} {of(one).max():.2f}: {one.question}" for one in worst]
    return [*lines, f"{len(broken)} of {len(found)} sweeps break a law"]


def main() -> None:
    """Search, and print what was found."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    models = kernels.shipped().serving()
    randoms = (Random(seed) for seed in range(count))  # noqa: S311 (repeatable)
    asked = (question(random, models) for random in randoms)
    found = [one for each in asked if (one := answer(each, models)) is not None]
    sys.stdout.write("\n".join(report(found)) + "\n")
    sys.exit(any(one.broken() for one in found))


if __name__ == "__main__":
    main()
