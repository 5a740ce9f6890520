"""Pipeline stages of fake ranks: what they agree on before the first step is real.

The stages of `torch.distributed.pipelining` vote on how to find out the shapes of
their messages, by a number that PyTorch's own code reads. Everything else they do runs
on fake tensors.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch

from tracedb.from_code.changed import changed
from tracedb.from_code.fake_mesh import really

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def real_votes() -> Iterator[None]:
    """Make pipeline schedules vote with real tensors within the block."""
    schedule = _schedule()
    if schedule is None:
        yield
        return
    voted = {_VOTE: _on_cpu(getattr(schedule, _VOTE))}
    with changed(schedule, voted):
        yield


_VOTE = "_warmup_p2p"


def _schedule() -> Any:  # noqa: ANN401 (a class without a public name)
    """The class that votes; None in versions of PyTorch that do not."""
    try:
        from torch.distributed.pipelining import schedules
    except ImportError:
        return None
    found = schedules._PipelineSchedule  # noqa: SLF001
    return found if hasattr(found, _VOTE) else None


def _on_cpu(vote: Callable[..., None]) -> Callable[..., None]:
    """The same vote with the values of real tensors, in place of those of a GPU."""

    @wraps(vote)
    def voted(schedule: object, stages: list[Any], *args: Any, **more: Any) -> None:  # noqa: ANN401
        devices = [stage.device for stage in stages]
        for stage in stages:
            stage.device = torch.device("cpu")
        try:
            with really():
                vote(schedule, stages, *args, **more)
        finally:
            for stage, device in zip(stages, devices, strict=True):
                stage.device = device

    return voted
