"""The memory of real steps on a CPU, from what its allocator tells the profiler."""

from __future__ import annotations

import gc
import json
from typing import TYPE_CHECKING

from torch.profiler import ProfilerActivity, profile, record_function

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def real_peak(make: Callable[[], Callable[[], None]], folder: Path) -> int:
    """[B] What the CPU's allocator held at most during a second step."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run = make()
        run()
        gc.collect()
        with record_function("second"):
            run()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    begin = next(e["ts"] for e in events if e["name"] == "second")
    held, peak = 0, 0
    changes = [e for e in events if e["name"] == "[memory]"]
    for event in sorted(changes, key=lambda e: float(e["ts"])):
        held += event["args"]["Bytes"]
        if event["ts"] >= begin:
            peak = max(peak, held)
    return peak
