"""Record a training loop into a database: `tracedb.profile`."""

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

_KINDS = ("kineto", "et")
_POLL_SECONDS = 0.1


@contextmanager
def profile(  # noqa: PLR0913 (what a recording may have)
    database: str | Path,
    *,
    steps: int = 3,
    warmup: int = 5,
    shapes: bool = True,
    stacks: bool = False,
    memory: bool = False,
    graph: bool = False,
    run: str | None = None,
    traces: str | Path | None = None,
    patience: float = 120,
    tell: Callable[[str], object] = warnings.warn,
) -> Iterator[Loop]:
    """Record some steps of the training loop in the block, into a database.

        with tracedb.profile("run.duckdb", steps=3) as prof:
            for batch in loader:
                train(batch)
                prof.step()

    After `warmup` steps PyTorch's profiler records `steps`, with the `shapes` of
    arguments, and on demand with Python `stacks`, allocations (`memory`), and the first
    of them as an execution `graph`, too. Where the loop calls no `step`, a step ends
    when the first optimizer that is used has taken one; the very first only finds it.

    Under torch.distributed each rank enters such a block. Rank 0 waits up to `patience`
    seconds for the others' traces, and ingests all of them as one run, named `run`.
    `traces` is the folder where they are kept, which all ranks have to share; without
    it is beside the database, and removed. A loop that is broken off once all steps are
    recorded is ingested, too. `tell` is given a line where ranks or steps are missing.

    Raises `RecordError` where PyTorch is missing or no step was recorded, and
    `DatabaseError`, before anything runs, where there can be no such database.
    """
    try:
        from tracedb.record import Loop, Plan, Rank
    except ImportError as error:
        raise RecordError(str(error)) from error
    if steps < 1 or warmup < 0:
        raise RecordError("record at least 1 step, after 0 or more warmup steps")
    plan = Plan(warmup, steps, shapes, stacks, memory, graph)
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
    """Tell that fewer steps ran than were to be recorded; raise where none did."""
    if loop.is_done:
        return
    ran = (
        f"the loop ran {counted(loop.ended_steps, 'step')}; {plan.warmup} of them "
        "are warmup"
    )
    if not loop.recorded_steps:
        _remove(loop.files, loop.folder)
        raise RecordError(
            f"nothing was recorded: {ran}; end each step with `prof.step()`, use an "
            "optimizer, or lower `warmup`"
        )
    tell(
        f"{ran}, {loop.recorded_steps} of {plan.steps} were recorded; the rest of the "
        "loop counts as another step"
    )


def _of_others(
    loop: Loop, patience: float, tell: Callable[[str], object]
) -> list[Path]:
    """The files of the other ranks, as far as they come in time."""
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
