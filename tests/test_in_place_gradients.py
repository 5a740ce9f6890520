"""Gradients that PyTorch computes in place take no other memory in an estimate."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import pytest
import torch
from allocator import estimated, real_peak, step_of
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tracedb.from_code.fake_run import FakeStep

Tensor = torch.Tensor
ROWS = torch.arange(0, 64, 4)


def shared(h: Tensor) -> Tensor:
    """A sum whose terms share one gradient, so that not all is added in place."""
    return (h + h.relu()) + h


def statistics(h: Tensor) -> Tensor:
    """Variance and mean, whose formula itself adds up two tensors."""
    return torch.stack(torch.var_mean(h, 1)).sum()


def message(h: Tensor) -> Tensor:
    """A layer of a graph network: rows are read, and added to others."""
    return torch.zeros(64, 128).index_add(0, ROWS, h[ROWS].tanh() * h[ROWS])


def own(h: Tensor) -> Tensor:
    """A function of the user's own, whose gradient fills a copy."""
    found: Tensor = Picked.apply(h)  # type: ignore[no-untyped-call]
    return found


class Picked(torch.autograd.Function):
    """Take one column; the gradient is scattered, out of place."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, h: Tensor) -> Tensor:
        """Take the first column."""
        ctx.save_for_backward(h)
        return h[:, :1].clone()

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *given: Tensor) -> Tensor:
        """Scatter into a copy of zeros, and hold both."""
        (h,) = ctx.saved_tensors  # type: ignore[attr-defined]
        rows = torch.zeros(64, 1, dtype=torch.int64)
        zeros = torch.zeros_like(h)
        return zeros.scatter(1, rows, given[0]) + zeros


class Spread(torch.autograd.Function):
    """A function whose gradient has all rows in one place."""

    @staticmethod
    def forward(_: torch.autograd.function.FunctionCtx, *given: Tensor) -> Tensor:
        """Return a copy."""
        return given[0].clone()

    @staticmethod
    def backward(_: torch.autograd.function.FunctionCtx, *given: Tensor) -> Tensor:
        """Return rows that share their memory."""
        return given[0].new_empty_strided(given[0].shape, (0, 1))


each_function = pytest.mark.parametrize(
    "function",
    [
        lambda h: h[ROWS],
        lambda h: h.gather(1, torch.zeros(64, 1, dtype=torch.int64)),
        lambda h: h.index_select(0, ROWS),
        lambda h: h.max(1)[0],
        lambda h: h.topk(4, 1)[0],
        lambda h: h.sort(1)[0],
        lambda h: h + functional.gelu(h),
        lambda h: h[:, ::2].relu() + h[:, 1::2],
        lambda h: (h + h).relu(),
        lambda h: torch.cat([h, h], 1).relu(),
        lambda h: h.sum(0).exp() + h.sum(0).tanh(),
        lambda h: sum(Spread.apply(h) for _ in range(2)),  # type: ignore[no-untyped-call]
        lambda h: h.scatter(1, torch.zeros(64, 1, dtype=torch.int64), 0.5).relu(),
        lambda h: torch.bmm(h.view(8, 8, 128), h.view(8, 128, 8)),
        shared,
        statistics,
        message,
        own,
    ],
    ids=[
        *("index", "gather", "index_select", "max", "topk", "sort", "residual"),
        *("halves", "twice", "parts of one", "sums", "spread", "scatter"),
        *("views", "shared", "statistics", "message", "own function"),
    ],
)


@cache
def step_with(function: Callable[[Tensor], Tensor]) -> FakeStep:
    """The step with fake tensors."""
    return estimated(lambda: step_of(function, 64, 128))


@each_function
def test_the_peak_is_that_of_the_allocator(
    function: Callable[[Tensor], Tensor], tmp_path: Path
) -> None:
    """Within 1 %, whether gradients are filled and added in place or not.

    A tensor more is 8 % or more; the rest is indices made before the profiler began.
    """
    peak = step_with(function).memory.peak_bytes
    assert peak == pytest.approx(
        real_peak(lambda: step_of(function, 64, 128), tmp_path), rel=0.01
    )


@each_function
def test_the_engine_adds_in_place_where_pytorch_does(
    function: Callable[[Tensor], Tensor],
) -> None:
    """As many gradients are added and filled in place, or on a copy, as in reality."""
    names = [f"aten::{n}" for n in ("add", "add_", "scatter", "scatter_")]
    run = step_of(function, 64, 128)
    run()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run()
    real = Counter(event.name for event in profiler.events() or ())
    ops = Counter(op.name for op in step_with(function).ops.values())
    assert [ops[name] for name in names] == [real[name] for name in names]
