"""Record a step function: its plain time, its Kineto trace and its execution graph.

An event of Kineto matches a node of the execution graph if its `Record function id` is
the node's `rf_id`. Its `External id` is the same number only in the first recording of
a process with one thread: Kineto counts on between recordings, and assigns External ids
to threads in blocks of 512.
"""

import gzip
import json
import platform
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any, TypeAlias, TypedDict

import torch
import torch.distributed as dist
from torch._C._profiler import _ExperimentalConfig  # it has no public name
from torch.profiler import (
    ExecutionTraceObserver,
    ProfilerAction,
    ProfilerActivity,
    profile,
    schedule,
)

Step: TypeAlias = Callable[[], object]

# Names of the profiler's own, uncompressed files.
_KINETO, _ET, _STACKS = "kineto.json", "et.json", "stacks.kineto.json"

# Fields of a Kineto file about the machine, and their replacements.
_SCRUBBED = {"host_name": "host", "traceName": "trace.json", "trace_id": ""}


class Counts(TypedDict, total=False):
    """Keyword arguments of `record` on how often to call the step."""

    warmup: int
    steps: int
    repeats: int
    rounds: int


@dataclass(frozen=True)
class Recording:
    """The files of one recorded rank."""

    kineto: Path
    et: Path
    measured: Path
    stacks: Path
    """A second trace with stacks, if requested."""

    @classmethod
    def named(cls, out_dir: str | Path, name: str) -> "Recording":
        """The files of the recording of this name."""
        files = (f"{_KINETO}.gz", f"{_ET}.gz", "measured.json", f"{_STACKS}.gz")
        return cls(*(Path(out_dir, f"{name}.{file}") for file in files))


def record(  # noqa: PLR0913  callers name them, and most have a default
    step: Step,
    out_dir: str | Path,
    *,
    name: str,
    warmup: int = 3,
    steps: int = 4,
    repeats: int = 20,
    rounds: int = 1,
    stacks: bool = False,
    rank: int | None = None,
    device: str | torch.device = "cpu",
    facts: Mapping[str, object] | None = None,
    measured: Mapping[str, object] | None = None,
) -> Recording:
    """Record `step`, a function that does one training step whenever it is called.

    After `warmup` calls, the step is timed `repeats` times without a profiler, each
    call separately, and then back to back in `rounds`. After `warmup` more calls,
    Kineto records `steps` calls, the first of them also as an execution graph. The
    graph makes that step several times slower; `measured.json` names it, so that
    averages can leave it out. With `stacks`, a second trace has one more step with
    Python functions and memory.

    `rank` is for ranks without torch.distributed. `facts` are added to `measured.json`.
    If `measured` has the result of `measure`, the step is not timed again.
    """
    files = Recording.named(out_dir, name)
    files.kineto.parent.mkdir(parents=True, exist_ok=True)
    target = torch.device(device)
    recorded = range(warmup, warmup + steps)
    _repeat(step, warmup)
    measured_facts = dict(facts or {}) | _describe(target, rank)
    measured_facts |= (
        _measure(step, repeats, rounds, target) if measured is None else measured
    )
    measured_facts["execution_graph_step"] = f"ProfilerStep#{recorded.start}"
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder)
        _profile_steps(step, recorded, raw, target, rank)
        write_gzip(files.kineto, scrub((raw / _KINETO).read_text(encoding="utf-8")))
        write_gzip(files.et, (raw / _ET).read_text(encoding="utf-8"))
        if stacks:
            _profile_stacks(step, warmup, raw / _STACKS, target)
            text = (raw / _STACKS).read_text(encoding="utf-8")
            write_gzip(files.stacks, scrub(text))
    files.measured.write_text(
        json.dumps(measured_facts, indent=2) + "\n", encoding="utf-8"
    )
    return files


def measure(
    step: Step,
    *,
    warmup: int = 3,
    repeats: int = 20,
    rounds: int = 1,
    device: str | torch.device = "cpu",
) -> dict[str, object]:
    """Time a step without a profiler, and measure its GPU memory.

    On a GPU, use a process in which nothing has been recorded: CUDA's profiling library
    may stay active and slow down later steps.
    """
    _repeat(step, warmup)
    return _measure(step, repeats, rounds, torch.device(device))


def _profile_steps(
    step: Step, recorded: range, raw: Path, device: torch.device, rank: int | None
) -> None:
    """Record the steps with these numbers, the first one also as a graph.

    The observer starts with Kineto, so that both count from the same op.
    """
    observer = ExecutionTraceObserver().register_callback(str(raw / _ET))
    profiler = make_profiler(
        schedule(wait=0, warmup=recorded.start, active=len(recorded), repeat=1),
        lambda done: done.export_chrome_trace(str(raw / _KINETO)),
        has_gpu=device.type == "cuda",
        execution_trace_observer=observer,
    )
    state_rank(profiler, rank)
    with profiler:
        for number in range(recorded.stop):
            step()
            profiler.step()
            if number == recorded.start:
                observer.stop()


def _profile_stacks(step: Step, warmup: int, path: Path, device: torch.device) -> None:
    """Record one step with Python functions and memory, which makes it slower."""
    with make_profiler(
        schedule(wait=0, warmup=warmup, active=1, repeat=1),
        lambda done: done.export_chrome_trace(str(path)),
        has_gpu=device.type == "cuda",
        with_stack=True,
        profile_memory=True,
    ) as profiler:
        for _ in range(warmup + 1):
            step()
            profiler.step()


def make_profiler(
    schedule: Callable[[int], ProfilerAction],
    on_ready: Callable[[profile], object],
    *,
    has_gpu: bool,
    **settings: Any,  # noqa: ANN401 (those of `torch.profiler.profile`)
) -> profile:
    """Set up Kineto for the steps of a schedule."""
    activities = [ProfilerActivity.CPU]
    if has_gpu:
        activities.append(ProfilerActivity.CUDA)
    return profile(
        activities=activities,
        schedule=schedule,
        on_trace_ready=on_ready,
        experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True),
        **{"record_shapes": True, **settings},
    )


def state_rank(profiler: profile, rank: int | None) -> None:
    """Write a rank into the Kineto file that torch.distributed does not know."""
    if rank is not None and _distributed(rank)["world_size"] is None:
        profiler.preset_metadata_json("distributedInfo", json.dumps({"rank": rank}))


def scrub(kineto: str) -> str:
    """Remove the machine's name and other identifying fields from the text.

    The text itself is edited, so that all numbers stay as the profiler wrote them.
    """
    for key, value in _SCRUBBED.items():
        kineto = re.sub(rf'("{key}": *)"[^"]*"', rf'\g<1>"{value}"', kineto)
    return kineto


def write_gzip(path: Path, text: str) -> None:
    """Compress text into a file; equal texts give equal bytes."""
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def _describe(device: torch.device, rank: int | None) -> dict[str, object]:
    """Describe the machine and the software for `measured.json`."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "torch": torch.__version__,
        "device": str(device),
        "device_name": gpu or platform.machine(),
        "threads": torch.get_num_threads(),
        **_distributed(rank),
    }


def _distributed(rank: int | None) -> dict[str, int | None]:
    """The rank of this process and the number of ranks, if known."""
    if dist.is_available() and dist.is_initialized():
        return {"rank": dist.get_rank(), "world_size": dist.get_world_size()}
    return {"rank": rank, "world_size": None}


def _measure(
    step: Step, repeats: int, rounds: int, device: torch.device
) -> dict[str, object]:
    """Time the step on the wall clock, call by call and back to back."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    single = [_time_ns(step, device) for _ in range(repeats)]
    together = [
        _time_ns(lambda: _repeat(step, repeats), device) / repeats
        for _ in range(rounds)
    ]
    return {
        "step_ns": single,
        "median_step_ns": round(median(single)),
        "back_to_back_ns": [round(each) for each in together],
        "back_to_back_step_ns": round(median(together)),
        **_peak(device),
    }


def _peak(device: torch.device) -> dict[str, object]:
    """The peak GPU memory [B] of tensors, and that reserved by the allocator."""
    if device.type != "cuda":
        return {}
    return {
        "peak_bytes": torch.cuda.max_memory_allocated(device),
        "peak_reserved_bytes": torch.cuda.max_memory_reserved(device),
    }


def _time_ns(step: Step, device: torch.device) -> int:
    """[ns] The time of one call, GPU work included."""
    _synchronize(device)
    start = perf_counter_ns()
    step()
    _synchronize(device)
    return perf_counter_ns() - start


def _synchronize(device: torch.device) -> None:
    """Wait for the device to finish all work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _repeat(step: Step, times: int) -> None:
    """Call the step `times` times."""
    for _ in range(times):
        step()
