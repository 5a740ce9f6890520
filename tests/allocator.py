"""Small steps on a CPU: their real memory, as its allocator tells, and the estimate."""

from __future__ import annotations

import gc
import json
from typing import TYPE_CHECKING

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from tracedb.from_code.fake_run import FakeRun, FakeStep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Tensor = torch.Tensor


def step_of(function: Callable[[Tensor], Tensor], *shape: int) -> Callable[[], None]:
    """A step that trains a weight through a function."""
    weight = torch.nn.Parameter(torch.randn(shape))
    inputs = torch.randn(shape)

    def run() -> None:
        weight.grad = None
        torch.autograd.backward(function(weight * inputs).mean())

    return run


def estimated(make: Callable[[], Callable[[], None]]) -> FakeStep:
    """A step with fake tensors on a CPU."""
    fake = FakeRun(None)
    with fake.inside():
        run = make()
    return fake.step(run)


def real_peak(
    make: Callable[[], Callable[[], None]], folder: Path, before: int = 1
) -> int:
    """[B] What the CPU's allocator held at most during a step, after some `before`."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run = make()
        for _ in range(before):
            run()
        gc.collect()
        with record_function("second"):
            run()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    begin = next(e["ts"] for e in events if e["name"] == "second")
    # What was there before may be freed meanwhile.
    there: dict[int, int] = {}
    peak = 0
    changes = [e for e in events if e["name"] == "[memory]"]
    for event in sorted(changes, key=lambda e: float(e["ts"])):
        told = event["args"]
        there[told["Addr"]] = max(told["Bytes"], 0)
        if event["ts"] >= begin:
            peak = max(peak, sum(there.values()))
    return peak
