"""Compare estimates of CPU steps with real ones, for `docs/estimate.md`.

    python benchmarks/estimate_cpu.py

measures the models of the goals at five batch sizes, then this CPU (`tracedb kernels
cpu`), with one thread and with two, with the C library's usual memory and with kept
memory, and rewrites the page's part below "How good steps on a CPU are". The models are
the first of `cpu_models.py`, of which measuring the CPU knows nothing.
All of it comes before whatever else runs on the machine: that takes a system which
allows it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import cpu_batch
import msgspec
import side_by_side
from cpu_models import GOAL_MODELS
from measure import cache, tell
from pages import machine, table
from whatif_pairs import MEMORY, NEEDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from side_by_side import Turn

PAGE = Path(__file__).parent.parent / "docs" / "estimate.md"
HEADING, NEXT = "## How good steps on a CPU are\n", "\n## How good graphs are\n"
THREADS = (1, 2)
MEMORIES = ("usual", "kept")
ROUNDS, WARM, LEAST, LEAST_NS = 2, 5, 5, 150_000_000
"""Rounds there and back; per turn: warm-up steps, least number of steps, least time."""
TURN = partial(side_by_side.turn, warm=WARM, least=LEAST, least_ns=LEAST_NS)
"""Turns are long enough for caches to hold the program's own data."""
NUMBERS = range(len(cpu_batch.FACTORS))


class Row(NamedTuple):
    """A model at a batch size and a number of threads."""

    memory: str
    """As the C library gives it (`whatif_pairs.MEMORY`)."""
    threads: int
    model: str
    batch: int
    measured_ns: float
    noise: float
    expected_ns: int
    low_ns: int
    high_ns: int

    @property
    def error(self) -> float:
        """Estimated over measured, minus 1."""
        return self.expected_ns / self.measured_ns - 1

    @property
    def is_within(self) -> bool:
        """Whether the band contains the measured time."""
        return self.low_ns <= self.measured_ns <= self.high_ns


def first_of_all() -> None:
    """Give all threads of this process priority over others."""
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setscheduler(int(thread.name), os.SCHED_FIFO, os.sched_param(1))


def program(threads: int, model: str, number: int) -> Callable[[], object]:
    """The step of a model, warmed up, with all its threads."""
    import torch

    step = cpu_batch.program(model, number)
    torch.set_num_threads(threads)
    step()
    first_of_all()
    return step


def work(threads: int, folder: Path) -> None:
    """Measure the CPU and all programs with a number of threads."""
    from tracedb.from_code.cpu.measure import measure

    if threads == 1:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    else:
        side_by_side._pinned = lambda: "on all cores"  # noqa: SLF001 (it is for one core)
    for model in GOAL_MODELS:
        tell(f"{model}, {threads} threads")
        makes = [partial(program, threads, model, number) for number in NUMBERS]
        with side_by_side.running(makes) as runners:
            turns: list[list[Turn]] = [[] for _ in NUMBERS]
            for number in [*NUMBERS, *reversed(NUMBERS)] * ROUNDS:
                turns[number].append(runners[number].ask(TURN))
        (folder / f"{model}.json").write_bytes(msgspec.json.encode(turns))
    import torch

    torch.set_num_threads(threads)
    torch.ones(1 << 20).add(1)
    first_of_all()
    bytearray(NEEDED)
    measure(folder / "cpu", threads=threads, tell=tell)


def rows_of(memory: str, threads: int, folder: Path) -> Iterator[Row]:
    """Measured and estimated times."""
    import tracedb

    for model in GOAL_MODELS:
        text = (folder / f"{model}.json").read_bytes()
        turns = msgspec.json.decode(text, type=list[list[list[side_by_side.Sample]]])
        quick_ns = side_by_side.quick(s for each in turns for t in each for s in t)
        for number in NUMBERS:
            made: dict[str, Callable[[], object]] = {}

            def step(made: dict[str, Callable[[], object]] = made) -> None:
                if "step" not in made:
                    made["step"] = cpu_batch.program(model, number)  # noqa: B023 (it is called here)
                made["step"]()

            found = tracedb.estimate(step, cpu=folder / "cpu")
            batch = cpu_batch.batch_of(model, cpu_batch.FACTORS[number])
            measured = cpu_batch.spread(turns[number], quick_ns)
            yield Row(
                memory, threads, model, batch, *measured,
                found.step_ns, found.low_ns, found.high_ns,
            )  # fmt: skip


ABOUT = """
Three models at five batch sizes, by `python benchmarks/estimate_cpu.py` on
{machine}, PyTorch {torch}.
The CPU's measurements do not include them, and no constant is fitted
to them. They are no clean hold-out: their errors were looked at while the method was
chosen.

The models are those of `docs/cpu-batch.md`, which describes how steps are measured.
With *usual* memory the C library gives freed memory back to the system, and steps pay
for the page faults of what they take anew; a program may take more of it than the same
program started again. With *kept* memory there are none. Errors are unsigned geometric
means; the goal is 15 %. *Within* is how often the band, which is for four of five, has
the measured step.
"""


def page(rows: Sequence[Row]) -> Iterator[str]:
    """The part of the page."""
    about = ABOUT.format(machine=machine(None), torch=version("torch"))
    yield from (HEADING.rstrip(), about.rstrip(), "")
    head = ["memory", "threads", "model", "error, %", "noise, %", "within"]
    yield from table(head, list(_results(rows)))
    yield ""
    head = [
        *("memory", "threads", "model", "batch", "measured, ms", "noise, %"),
        *("estimated, ms", "band, ms", "error, %"),
    ]
    yield from table(head, [line(row) for row in rows])


def _results(rows: Sequence[Row]) -> Iterator[list[str]]:
    for memory, threads in product(MEMORIES, THREADS):
        for model in (*GOAL_MODELS, "all"):
            some = [
                row
                for row in rows
                if (row.memory, row.threads) == (memory, threads)
                and model in {row.model, "all"}
            ]
            yield [
                memory,
                f"{threads}",
                model,
                f"{100 * cpu_batch.gmae([row.error for row in some]):.1f}",
                f"{100 * sum(row.noise for row in some) / len(some):.1f}",
                f"{sum(row.is_within for row in some)} of {len(some)}",
            ]


def line(row: Row) -> list[str]:
    """The row of a batch size."""
    return [
        row.memory,
        f"{row.threads}",
        row.model,
        f"{row.batch}",
        f"{row.measured_ns / 1e6:.2f}",
        f"{100 * row.noise:.1f}",
        f"{row.expected_ns / 1e6:.2f}",
        f"{row.low_ns / 1e6:.2f} to {row.high_ns / 1e6:.2f}",
        cpu_batch.percent(row.error),
    ]


def main() -> None:
    """Measure, estimate, and write the page."""
    if sys.argv[1:]:
        work(int(sys.argv[1]), Path(sys.argv[2]))
        return
    rows: list[Row] = []
    for memory, threads in product(MEMORIES, THREADS):
        folder = cache() / f"estimate-cpu-{threads}-{memory}"
        folder.mkdir(exist_ok=True)
        command = [sys.executable, __file__, f"{threads}", str(folder)]
        environment = os.environ | {"KINETO_LOG_LEVEL": "99"} | MEMORY[memory]
        subprocess.run(command, check=True, env=environment)  # noqa: S603 (this program)
        rows += rows_of(memory, threads, folder)
    before, _, after = PAGE.read_text().partition(NEXT)
    before = before.partition(HEADING)[0].rstrip()
    PAGE.write_text("\n".join([before, "", *page(rows)]) + "\n" + NEXT + after)


if __name__ == "__main__":
    main()
