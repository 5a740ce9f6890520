"""How long it takes from a trace file to the per-batch time, by size of the trace.

Prints CPU seconds (user and system, this process) and wall seconds, the median of three
runs each, beside the floor within the same run: `json.loads` of the same text.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import tracedb
from tracedb.synthetic import Delays, execute, training_job

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = (5, 20, 80)
RUNS = 3


def measure(work: Callable[[], object]) -> tuple[float, float]:
    """Median CPU and wall seconds of some work."""
    times = []
    for _ in range(RUNS):
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        times.append((time.process_time() - cpu, time.perf_counter() - wall))
    cpus, walls = zip(*times, strict=True)
    return statistics.median(cpus), statistics.median(walls)


def ingest(file: Path) -> None:
    """Ingest a file into a new database on disk, and query the step times."""
    with (
        tempfile.TemporaryDirectory() as folder,
        tracedb.open(Path(folder) / "run.duckdb") as database,
    ):
        database.ingest([file])
        database.predict()


def main() -> None:
    """Print a line per size."""
    print("  events   MB  json CPU s  tracedb CPU s  ratio  tracedb wall s")
    for steps in STEPS:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "trace.json"
            execute(training_job(1, ranks=1, steps=steps), Delays(), 1)[0].write(file)
            text = file.read_bytes()
            events = len(json.loads(text)["traceEvents"])
            floor, _ = measure(partial(json.loads, text))
            cpu, wall = measure(partial(ingest, file))
        megabytes = len(text) / 1e6
        print(
            f"{events:8,} {megabytes:4.1f} {floor:11.3f} {cpu:14.2f} "
            f"{cpu / floor:6.1f} {wall:15.2f}"
        )


if __name__ == "__main__":
    main()
