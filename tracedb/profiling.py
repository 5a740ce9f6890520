"""Record a loop of training or inference into a database: `tracedb.profile`."""

from __future__ import annotations

import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

from tracedb.database import open_database
from tracedb.errors import RecordError
from tracedb.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tracedb.record import Loop, Plan
    from tracedb.record.loop import StepAt

_KINDS = ("kineto", "et")
_POLL_SECONDS = 0.1
_NO_STEP = (
    "no step ended, because no optimizer stepped and nothing called `prof.step()`; in "
    "inference, call it after each batch or request in a block of `tracedb.profile`, "
    "or end a step after each call of the model (`--step-at forward`), or only at the "
    "end of the program (`--step-at exit`)"
)
_NO_CALL = (
    "no step ended, because no module was called (`torch.nn.Module`); call "
    "`prof.step()` after each batch or request in a block of `tracedb.profile`, or "
    "record the whole program as one step (`--step-at exit`)"
)


@contextmanager
def profile(  # noqa: PLR0913 (what a recording may have)
    database: str | Path,
    *,
    steps: int = 5,
    warmup: int = 5,
    shapes: bool = True,
    stacks: bool = False,
    memory: bool = False,
    graph: bool = False,
    step_at: StepAt = "optimizer",
    run: str | None = None,
    traces: str | Path | None = None,
    patience: float = 120,
    tell: Callable[[str], object] = warnings.warn,
) -> Iterator[Loop]:
    """Record some steps of the loop in the block, into a database.

        with tracedb.profile("run.duckdb") as prof:
            for batch in loader:
                train(batch)
                prof.step()

    After `warmup` steps, PyTorch's profiler records `steps` steps, with the `shapes` of
    arguments. Optionally it records Python `stacks`, allocations (`memory`), and the
    execution `graph` of the first step. Inference calls `step` after each batch or
    request. If the loop does not call it, a step ends when the first optimizer steps;
    the very first optimizer step only identifies it. With `step_at="forward"`, a step
    ends after each call of the first module that is called, such as a model in
    inference; with `"exit"`, the whole block is recorded as one step, without `warmup`.

    Under torch.distributed, every rank enters such a block. Rank 0 waits up to
    `patience` seconds for the traces of the others, and ingests all of them as one run,
    named `run`. `traces` is the folder that keeps the traces; all ranks must share it.
    By default, it is a folder next to the database, which is removed afterwards. A loop
    that is interrupted after all steps were recorded is ingested, too. `tell` receives
    a line if ranks or steps are missing.

    Raises `RecordError` if PyTorch is missing or no step was recorded, and, before
    anything runs, `DatabaseError` if the database cannot be created.
    """
    try:
        from tracedb.record import Loop, Plan, Rank
    except ImportError as error:
        raise RecordError(str(error)) from error
    if steps < 1 or warmup < 0:
        raise RecordError("record at least 1 step, after 0 or more warmup steps")
    if step_at == "exit":
        steps, warmup = 1, 0
    plan = Plan(warmup, steps, shapes, stacks, memory, graph, step_at)
    folder = Path(f"{database}.traces" if traces is None else traces)
    if Rank.current().number == 0:
        open_database(database).close()
    loop = Loop(folder, plan)

    def ingest() -> None:
        """Put the traces of all ranks into the database, as the first rank does."""
        if loop.rank.number > 0:
            return
        files = [*reversed(loop.files), *_of_others(loop, patience, tell)]
        with open_database(database) as opened:
            opened.ingest(files, run=run)
        if traces is None:
            _remove(files, folder)

    try:
        with loop:
            yield loop
    except BaseException:
        if loop.is_done:
            ingest()
        else:
            _remove(loop.files, folder)
        raise
    _check(loop, plan, tell)
    ingest()


def _check(loop: Loop, plan: Plan, tell: Callable[[str], object]) -> None:
    """Report that fewer steps ran than requested; raise if none did."""
    if loop.is_done:
        return
    count = loop.ended_steps + loop.found_steps
    first = ": the first only shows where steps end" if loop.found_steps else ""
    ran = (
        f"the loop ran {counted(count, 'step')}{first}, and warmup takes {plan.warmup}"
    )
    if not loop.recorded_steps:
        _remove(loop.files, loop.folder)
        why = f"{ran}; end each step with `prof.step()`, or lower `warmup`"
        none = _NO_CALL if plan.step_at == "forward" else _NO_STEP
        raise RecordError(f"nothing was recorded: {why if count else none}")
    tell(
        f"{ran}; {loop.recorded_steps} of {plan.steps} were recorded, and what ran "
        "after them, if anything, is another step; means leave it out if it is short"
    )


def _of_others(
    loop: Loop, patience: float, tell: Callable[[str], object]
) -> list[Path]:
    """The files of the other ranks that arrive in time."""
    until = monotonic() + patience
    others = range(1, loop.rank.count)
    while missing := [n for n in others if not loop.file_of(n).exists()]:
        if monotonic() > until:
            listed = ", ".join(map(str, missing))
            tell(f"{loop.folder}: no trace of rank {listed} within {patience:g} s")
            break
        sleep(_POLL_SECONDS)
    files = [loop.file_of(number, kind) for number in others for kind in _KINDS]
    return [file for file in files if file.exists()]


def _remove(files: list[Path], folder: Path) -> None:
    for file in files:
        file.unlink(missing_ok=True)
    with suppress(OSError):  # others may have put something there
        folder.rmdir()
