"""Measure what a recording costs: steps of a loop without and with `tracedb.profile`.

    python benchmarks/recording.py

Prints a table: the median step before anything is recorded, by how much recorded steps
take longer, how long writing the trace and the ingest take, and how many events there
are. The loops are small models of `tracedb.record` on a CPU, one thread. Times are CPU
seconds, since other work on the machine must not count.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import process_time
from typing import TYPE_CHECKING

import torch

import tracedb
from tracedb.record import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable

MODELS = (("dlrm_default", 64), ("transformer", 8))
WARMUP, STEPS, COLD = 32, 16, 12
SETTINGS = ((), ("shapes",), ("shapes", "stacks"), ("shapes", "memory"))
HEAD = "| model | recorded | step | recorded step | writing | ingest | events |"


@dataclass(frozen=True)
class Cost:
    """[s] What one recording cost, in CPU time."""

    plain: float
    recorded: float
    writing: float
    ingest: float
    events: int

    def row(self, *words: str) -> str:
        """A row of the table."""
        change = f"{self.recorded * 1e3:.1f} ms ({self.recorded / self.plain - 1:+.0%})"
        cells = (
            *words,
            f"{self.plain * 1e3:.1f} ms",
            change,
            f"{self.writing:.2f} s",
            f"{self.ingest:.1f} s",
            f"{self.events:,}",
        )
        return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print a row per model and setting."""
    torch.set_num_threads(1)
    print(HEAD)
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, batch_size in MODELS:
        step = WORKLOADS[name].step(batch_size, small=True)
        for settings in SETTINGS:
            words = ", ".join(settings) or "times alone"
            print(measured(step, settings).row(f"{name}, {batch_size}", words))


def measured(step: Callable[[], object], settings: tuple[str, ...]) -> Cost:
    """What it costs to record some steps."""
    times, last = [], 0.0
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder, "run.duckdb")
        with tracedb.profile(
            database,
            warmup=WARMUP,
            steps=STEPS,
            shapes="shapes" in settings,
            stacks="stacks" in settings,
            memory="memory" in settings,
        ) as prof:
            for _ in range(WARMUP + STEPS):
                times.append(seconds(step))
                last = seconds(prof.step)
            ended = process_time()
        ingest = process_time() - ended
        with tracedb.open(database, read_only=True) as db:
            events = int(db.info()["event_count"][0])
    plain = times[COLD : WARMUP - 1]
    return Cost(median(plain), median(times[WARMUP:]), last, ingest, events)


def seconds(work: Callable[[], object]) -> float:
    """[s] CPU time of one call."""
    before = process_time()
    work()
    return process_time() - before


if __name__ == "__main__":
    main()
