"""Predict CPU training at other batch sizes: `docs/cpu-batch.md`.

    python benchmarks/cpu_batch.py --write docs/cpu-batch.md

Of each model (`cpu_models.py`) a step is recorded at one batch size; `tracedb whatif
--set batch=N` says from that what it takes at four others, and between which bounds.
They are measured side by side with it (`side_by_side.py`), with memory as the C library
usually gives it, and with kept memory. With `--anew` all is measured again: it has one
core for itself, for a quarter of an hour, where the system allows that.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import math
import os
import shutil
import statistics
import subprocess
import sys
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import side_by_side
from measure import cache, tell
from msgspec import structs
from pages import machine, parser, publish, table
from side_by_side import Turn
from whatif_pairs import MEMORY, NEEDED, record

import tracedb
from tracedb.errors import ScenarioError
from tracedb.whatif.edit_line import parse_setting
from tracedb.whatif.scenario import UNPROFILED, of_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MEMORIES = ("kept", "usual")
"""How the C library gives memory (`whatif_pairs.MEMORY`)."""
FACTORS = (0.5, 1, 2, 4, 8)
"""Measured batch sizes, relative to the recorded one."""
GOAL = 0.10
ROUNDS = 5
"""Rounds of all programs, each followed by one in reverse order."""
AGAIN = len(FACTORS)
"""Index of the second program at the recorded batch size."""
RECORDED = FACTORS.index(1)
DONE = "measured.json"


class Measured(msgspec.Struct):
    """Times of one model's programs."""

    how: str
    beside: float
    """Mean number of other runnable processes: the load."""
    turns: list[list[Turn]]
    """By program."""


class Row(NamedTuple):
    """One batch size; times are of unprofiled steps."""

    memory: str
    model: str
    recorded_batch: int
    batch: int
    measured_ns: float
    noise: float
    """Relative difference of the two halves of its turns."""
    recorded_ns: float
    """The same with the profiler."""
    predicted_ns: float
    predicted_recorded_ns: float
    low_ns: float
    """Lower end of the band of a recorded step."""
    high_ns: float
    growth: float = 1
    """Measured time relative to that at the recorded batch size."""
    predicted_growth: float = 1

    @property
    def error(self) -> float:
        """Predicted over measured, minus 1."""
        return self.predicted_ns / self.measured_ns - 1

    @property
    def growth_error(self) -> float:
        """The same for growth relative to the recorded batch size."""
        return self.predicted_growth / self.growth - 1

    @property
    def recorded_error(self) -> float:
        """The same for profiled steps."""
        return self.predicted_recorded_ns / self.recorded_ns - 1

    @property
    def is_other(self) -> bool:
        """Whether it is not the recorded batch size."""
        return self.batch != self.recorded_batch

    @property
    def is_within(self) -> bool:
        """Whether the band of recorded steps has the measured one."""
        return self.low_ns <= self.recorded_ns <= self.high_ns


# The process that measures.


def program(model: str, number: int) -> Callable[[], object]:
    """The step of a model at a batch size."""
    import torch
    from cpu_models import MODELS

    torch.set_num_threads(1)
    torch.manual_seed(0)
    factor = 1 if number == AGAIN else FACTORS[number]
    return MODELS[model].build(batch_of(model, factor))


def batch_of(model: str, factor: float = 1) -> int:
    """A batch size, relative to the recorded one."""
    from cpu_models import MODELS

    return round(MODELS[model].batch * factor)


def prepared(memory: str, model: str, number: int) -> Callable[[], object]:
    """The step, in a process with this kind of memory."""
    if memory == "kept":
        bytearray(NEEDED)
    return program(model, number)


def work(memory: str, folder: Path, models: Sequence[str]) -> None:
    """Measure the programs of models, and record them."""
    import torch._dynamo  # noqa: F401 (an optimizer imports it as it begins)

    import tracedb.record.vision  # noqa: F401 (once, for all processes)

    for model in models:
        tell(f"measuring {model}, {memory} memory")
        numbers = range(AGAIN + 1)
        with side_by_side.running(
            [partial(prepared, memory, model, n) for n in numbers]
        ) as all_:
            load = os.getloadavg()[0]
            for runner in all_:
                runner.ask(side_by_side.turn)
            turns: list[list[Turn]] = [[] for _ in numbers]
            for at in range(ROUNDS):
                for n in (*numbers, *reversed(numbers)):
                    turns[n].append(all_[n].ask(side_by_side.turn))
                tell(f"{model}: round {at + 1} of {ROUNDS}")
            for n in numbers:
                path = folder / model / f"{n}.json.gz"
                turns[n].append(all_[n].ask(partial(record, path)))
            how = all_[0].how
        done = msgspec.json.encode(Measured(how, load, turns))
        (folder / model / DONE).write_bytes(done)


# The parent process: predictions and page.


def rows_of(memory: str, model: str, folder: Path) -> list[Row]:
    """Measurements of a model, and predictions from one recording."""
    measured = msgspec.json.decode((folder / DONE).read_bytes(), type=Measured)
    batches = [batch_of(model, factor) for factor in FACTORS]
    edits = [
        of_scenario(str(batch), parse_setting(f"batch={batch}")) for batch in batches
    ]
    both = [structs.replace(UNPROFILED, scenario=edit.scenario) for edit in edits]
    plain = [
        structs.replace(edit, scenario=f"{edit.scenario} plain")
        for edit in [*edits, *both]
    ]
    with tracedb.open() as database:
        database.ingest([folder / f"{RECORDED}.json.gz"])
        with database.simulate(None, [*edits, *plain], only_steps=True) as beside:
            steps = beside.relation("question.scenario_effect")
            means = beside.relation("question.scenario_summary")
    quick_ns = side_by_side.quick(
        step for turns in measured.turns for turn in turns for step in turn
    )
    own = measured.turns[RECORDED][-1]
    counted = side_by_side.calm(own, side_by_side.quick(own))

    def predicted(scenario: str) -> float:
        """[ns] A scenario's step, over the recorded steps that count."""
        told = steps.filter(steps["scenario"] == scenario).sort("step")
        times = told["predicted_host_ns"].to_list()
        found: float = statistics.median(
            time for time, step in zip(times, own, strict=True) if step in counted
        )
        return found

    def reach(batch: int) -> tuple[float, float]:
        """[ns] How far the ends of the band are from the expected time."""
        [mean] = means.filter(means["scenario"] == str(batch)).iter_rows(named=True)
        expected = mean["predicted_ns"]
        return mean["low_ns"] - expected, mean["high_ns"] - expected

    rows = []
    for at, batch in enumerate(batches):
        recorded_ns = predicted(f"{batch}")
        low, high = reach(batch)
        rows.append(
            Row(
                *(memory, model, batches[RECORDED], batch),
                *spread(measured.turns[at][:-1], quick_ns),
                typical(measured.turns[at][-1:], quick_ns),
                predicted(f"{batch} plain"),
                recorded_ns,
                *(recorded_ns + low, recorded_ns + high),
            )
        )
    base = rows[RECORDED]
    return [
        row._replace(
            growth=row.measured_ns / base.measured_ns,
            predicted_growth=row.predicted_ns / base.predicted_ns,
        )
        for row in rows
    ]


def typical(turns: Sequence[Turn], quick_ns: float) -> float:
    """[ns] The typical step of some turns."""
    return side_by_side.typical([step for turn in turns for step in turn], quick_ns)


def spread(turns: Sequence[Turn], quick_ns: float) -> tuple[float, float]:
    """[ns] The typical step of some turns, and the relative difference of halves."""
    half = len(turns) // 2
    one, other = typical(turns[:half], quick_ns), typical(turns[half:], quick_ns)
    return typical(turns, quick_ns), abs(other / one - 1)


def measure(memory: str, models: Sequence[str]) -> None:
    """Measure models that have not been measured yet."""
    folder = recordings() / memory
    missing = [name for name in models if not (folder / name / DONE).exists()]
    quiet = {"OMP_NUM_THREADS": "1", "KINETO_LOG_LEVEL": "99"}
    command = [sys.executable, __file__, "--work", memory, str(folder), *missing]
    if missing:
        environment = os.environ | quiet | MEMORY[memory]
        subprocess.run(command, check=True, env=environment)  # noqa: S603 (this program)


def recordings() -> Path:
    """The folder of recordings, by what is measured and how."""
    here = Path(__file__).parent
    text = b"".join(
        (here / name).read_bytes() for name in ("side_by_side.py", "cpu_models.py")
    )
    facts = f"{FACTORS} {ROUNDS} {inspect.getsource(program)}"
    digest = hashlib.sha256(text + facts.encode()).hexdigest()[:12]
    return cache() / f"cpu-batch-{digest}"


def gmae(errors: Sequence[float]) -> float:
    """Geometric mean of error factors, minus 1."""
    return math.exp(statistics.mean(abs(math.log1p(e)) for e in errors)) - 1


ABOUT = """# CPU trainings at other batch sizes

Written by `python benchmarks/cpu_batch.py --write docs/cpu-batch.md` on
{machine}, torch {torch}, one thread.
Measurements are kept, model by model; `--anew` repeats all of them.

Each model (`benchmarks/cpu_models.py`) is recorded at one batch size, with shapes, for
{recorded} steps. From only that recording, `tracedb whatif --set batch=N` predicts the
step time at four others: it infers which sizes scale with the batch, learns each op's
fixed time from the recorded ops, and scales the rest by a roofline whose peaks are what
this recording reaches. A size that may be the batch's or the model's is rejected, so
the models here avoid such sizes. Nothing is fitted to other batch sizes. The profiler's
overhead is subtracted (`profiler x0`), and unrecorded steps are the ground truth.
Recorded steps of the same batch size, predicted with the profiler, are shown for
comparison, and whether the *band* of the answer, which is for four of five, has them.

Programs are separate processes that take turns, {how}; a step counts if nothing else
had the core and the core was quick (`benchmarks/side_by_side.py`). {beside} With *kept*
memory no step takes new pages (`docs/whatif-pairs.md` explains why); with *usual*
memory the C library gives freed memory back to the system, as it does in any program,
so steps of some sizes pay for page faults that others do not have. *Noise* is how much
the two halves of a program's turns differ. *Growth* is the step time divided by that at
the recorded batch size, first predicted, then measured; it excludes how much slower
recorded steps were than others at their own batch size, as happens while other jobs
keep the core's hyperthread sibling busy.

"""
HEAD = (
    *("memory", "model", "batch", "measured, ms", "noise, %", "predicted, ms"),
    *("error, %", "growth predicted", "measured", "error, %"),
    *("recorded, ms", "predicted, ms", "band, ms", "error, %"),
)


MEANS = """Absolute errors, geometric means over four other batch sizes. *Within* is how
often the band has the recorded step. The goal, for the first three models, is"""


def percent(share: float) -> str:
    """A signed percentage."""
    return f"{100 * share:+.1f}"


def line(row: Row) -> list[str]:
    """The row of a batch size."""
    return [
        row.memory,
        row.model,
        f"{row.batch}" if row.is_other else f"{row.batch} (recorded)",
        f"{row.measured_ns / 1e6:.2f}",
        f"{100 * row.noise:.1f}",
        f"{row.predicted_ns / 1e6:.2f}",
        percent(row.error),
        f"{row.predicted_growth:.2f}",
        f"{row.growth:.2f}",
        percent(row.growth_error),
        f"{row.recorded_ns / 1e6:.2f}",
        f"{row.predicted_recorded_ns / 1e6:.2f}",
        f"{row.low_ns / 1e6:.2f} to {row.high_ns / 1e6:.2f}",
        percent(row.recorded_error),
    ]


def result(memory: str, name: str, rows: Sequence[Row]) -> list[str]:
    """A summary of some rows."""
    others = [row for row in rows if row.is_other and row.memory == memory]
    return [
        memory,
        name,
        f"{100 * gmae([row.error for row in others]):.1f}",
        f"{100 * gmae([row.growth_error for row in others]):.1f}",
        f"{100 * gmae([row.recorded_error for row in others]):.1f}",
        f"{sum(row.is_within for row in others)} of {len(others)}",
        f"{100 * statistics.median(row.noise for row in others):.1f}",
        percent(max((row.error for row in others), key=abs)),
    ]


def results(rows: Sequence[Row]) -> Iterator[list[str]]:
    """The summaries: of each model, of those of the goals, and of the others."""
    from cpu_models import GOAL_MODELS

    models = list(dict.fromkeys(row.model for row in rows))
    others = [name for name in models if name not in GOAL_MODELS]
    groups = {
        **{name: [name] for name in models},
        "goal": [name for name in models if name in GOAL_MODELS],
        "others": others,
    }
    for memory in dict.fromkeys(row.memory for row in rows):
        for name, of in groups.items():
            some = [row for row in rows if row.model in of]
            if some:
                yield result(memory, name, some)


def page(
    rows: Sequence[Row], refused: Sequence[str], measured: Sequence[Measured]
) -> str:
    """The whole page."""
    from importlib.metadata import version

    loads = [one.beside for one in measured]
    about = ABOUT.format(
        machine=machine(None),
        torch=version("torch"),
        recorded=12,
        how="; ".join(sorted({one.how for one in measured})),
        beside="Other jobs ran on the machine: loads of "
        f"{min(loads):.1f} to {max(loads):.1f} on its cores as the models started.",
    )
    head = [
        *("memory", "model", "error, %", "growth error, %", "recorded error, %"),
        *("within", "noise, %", "worst, %"),
    ]
    return "\n".join(
        [
            about.rstrip(),
            "",
            f"{MEANS} {100 * GOAL:g} %:",
            "",
            *table(head, list(results(rows))),
            "",
            *(part for one in refused for part in (one, "")),
            *table([*HEAD], map(line, rows)),
            "",
        ]
    )


def main() -> None:
    """Measure, predict, and write the page."""
    from cpu_models import MODELS

    given = parser(__doc__)
    given.add_argument("--anew", action="store_true", help="measure all again")
    given.add_argument("--models", nargs="*", default=list(MODELS), metavar="MODEL")
    given.add_argument("--work", nargs="*", help=argparse.SUPPRESS)
    asked = given.parse_args()
    if asked.work:
        memory, folder, *models = asked.work
        work(memory, Path(folder), models)
        return
    if asked.anew and recordings().exists():
        shutil.rmtree(recordings())
    for memory in MEMORIES:
        measure(memory, asked.models)
    rows, refused, measured = [], [], []
    for memory, model in product(MEMORIES, asked.models):
        folder = recordings() / memory / model
        text = (folder / DONE).read_bytes()
        measured.append(msgspec.json.decode(text, type=Measured))
        try:
            rows += rows_of(memory, model, folder)
        except ScenarioError as error:
            refused.append(f"{model}, {memory} memory, is refused: {error}.")
    publish(page(rows, refused, measured), asked.write)


if __name__ == "__main__":
    main()
