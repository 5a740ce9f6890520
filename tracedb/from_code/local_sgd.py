"""Parameters that ranks average every few steps: a step without it is estimated.

The steps in which ranks do something else at first are over, and the first run of a
step averages. So the second one, which is estimated, averages only what is averaged in
each step, and the answer tells what it lacks.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from math import lcm
from typing import TYPE_CHECKING, Any

from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import (
    HierarchicalModelAverager,
)

from tracedb.from_code import place
from tracedb.from_code.changed import changed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tracedb.from_code.unknown import Assumptions


def _periods(averager: Any) -> list[int]:  # noqa: ANN401 (one of the two)
    """After how many steps it averages, in ascending order."""
    known: list[int] | None = getattr(averager, "_periods", None)
    return [averager.period] if known is None else known


def _first(averager: Any) -> int:  # noqa: ANN401
    """The first step in which it averages all that it ever does."""
    if isinstance(averager, PeriodicModelAverager):
        return int(averager.warmup_steps)
    every = lcm(*_periods(averager))
    return int(-(-averager.warmup_steps // every) * every)


@contextmanager
def between_averages(told: Assumptions) -> Iterator[None]:
    """Within the block, tell of averages that the estimated step lacks."""
    with ExitStack() as stack:
        for kind in (PeriodicModelAverager, HierarchicalModelAverager):
            stack.enter_context(changed(kind, _methods(kind, told)))
        yield


def _methods(kind: Any, told: Assumptions) -> dict[str, Callable[..., None]]:  # noqa: ANN401
    make, average = kind.__init__, kind.average_parameters

    def begin(averager: Any, *args: Any, **more: Any) -> None:  # noqa: ANN401
        make(averager, *args, **more)
        averager.step = _first(averager)

    def averaged(averager: Any, *args: Any, **more: Any) -> None:  # noqa: ANN401
        rare = [str(period) for period in _periods(averager) if period > 1]
        if rare:
            told.tell(
                f"{place.of_caller()}: parameters are averaged every "
                f"{' and '.join(rare)} steps; a step without it is estimated"
            )
        average(averager, *args, **more)

    return {"__init__": begin, "average_parameters": averaged}
