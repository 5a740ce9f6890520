"""Record models at several batch sizes, and pairs of runs that differ in one thing.

    python benchmarks/gpu/record.py recorded/ --minutes 9

First a process without a profiler takes the time of the steps of all, and the peak of
their memory: CUDA's profiling library may slow down what runs after it. Then another
records: a Kineto trace with synchronisation events, one with the Python stack and the
memory, an execution graph, and `NAME.measured.json` with what was measured before.
Traces have as many steps as fit into a MB. `pairs.json` names the two sides of each
pair, and the edits that predict the second. Needs PyTorch, NumPy and pyarrow; tracedb
need not be installed. Ends after its minutes; called again with the same folder it
records what is missing. What failed is in `NAME.failed.txt`, and is tried again if that
is removed.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import os
import platform
import subprocess
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from sides import pairs, sides

from tracedb.microbench import host
from tracedb.record import measure, record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sides import Side

MOST_BYTES = 1_000_000
STEPS, FEWEST_STEPS = 4, 2
REPEATS, ROUNDS = 20, 5
FEW, ONCE = 3, 1
"""The same for small runs."""
ALL_THERE, TIME_OVER, ENDED_EARLY = 0, 3, 4
"""Exit codes."""
TIMED, MEASURED = ".timed.json", ".measured.json"
"""Written last for each side by the two phases."""
ENDED = "it ended the program, or the program was ended meanwhile"


def main(words: list[str] | None = None) -> int:
    """Record what is missing; 0: complete, 3: out of time, 2: an error."""
    asked = options().parse_args(words)
    if asked.device == "cuda" and not torch.cuda.is_available():
        tell("record: error: no CUDA GPU here; --device cpu --small tries the script")
        return 2
    asked.folder.mkdir(parents=True, exist_ok=True)
    write_pairs(asked.folder / "pairs.json", small=asked.small)
    if asked.phase is not None:
        return PHASES[asked.phase](asked)
    return supervise(asked)


def options() -> argparse.ArgumentParser:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="recordings whose name begins so")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--small", action="store_true", help="tiny models and batches")
    parser.add_argument("--phase", choices=["time", "trace"], help="this one alone")
    return parser


def write_pairs(path: Path, *, small: bool) -> None:
    """Write the sides of each pair, and the edits that predict the second one."""
    told = {name: pair.facts for name, pair in pairs(small=small).items()}
    path.write_text(json.dumps(told, indent=2) + "\n")


def supervise(asked: argparse.Namespace) -> int:
    """Time all in a process that never profiles, then record in another.

    Each has half of the time, so that there are traces even if it does not suffice. A
    process that ends early is restarted, unless it made no progress.
    """
    end_s = monotonic() + 60 * asked.minutes
    ended = []
    for left, phase in zip(range(len(PHASES), 0, -1), PHASES, strict=True):
        until_s = monotonic() + (end_s - monotonic()) / left
        before: dict[str, str] | None = None
        while before != (now := state(asked.folder)):
            before = now
            code = child(asked, phase, (until_s - monotonic()) / 60)
            if code in (ALL_THERE, TIME_OVER):
                break
            tell(f"{phase}: the process ended with {code}")
        ended.append(code)
    return TIME_OVER if any(ended) else ALL_THERE


def state(folder: Path) -> dict[str, str]:
    """What is complete, and what failed how."""
    return {
        file.name: file.read_text() if file.suffix == ".txt" else ""
        for file in sorted(folder.iterdir())
    }


def child(asked: argparse.Namespace, phase: str, minutes: float) -> int:
    """Run a phase in a child process; returns how it ended."""
    command = [sys.executable, str(Path(__file__).resolve()), str(asked.folder)]
    command += ["--device", asked.device, "--only", asked.only, "--phase", phase]
    command += ["--minutes", f"{max(minutes, 0):.2f}", *["--small"] * asked.small]
    return subprocess.run(command, check=False).returncode  # noqa: S603 (this program)


def time_all(asked: argparse.Namespace) -> int:
    """Time what is not timed yet, without a profiler."""
    machine = facts(asked.device)
    return each(asked, TIMED, lambda side: time_one(side, asked, machine))


def trace_all(asked: argparse.Namespace) -> int:
    """Record what was timed."""
    return each(asked, MEASURED, lambda side: trace_one(side, asked))


PHASES = {"time": time_all, "trace": trace_all}


def each(asked: argparse.Namespace, ending: str, work: Callable[[Side], object]) -> int:
    """Run a phase for all sides that lack its file."""
    until_s = monotonic() + 60 * asked.minutes
    left = list(missing(asked, ending))
    for place, side in enumerate(left):
        if monotonic() > until_s:
            tell(f"time is over: {len(left) - place} are left for {ending}")
            return TIME_OVER
        tell(f"{place} of {len(left)}: {side.name}{ending}")
        if not attempt(side, asked, work):
            return ENDED_EARLY
    return ALL_THERE


def facts(device: str) -> dict[str, Any]:
    """Facts common to all recordings of this run."""
    gpu = host.gpu_facts() if device == "cuda" else {}
    return {
        "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(Path(word).name or word for word in sys.argv),
        "python": platform.python_version(),
        "processor": host.processor(),
        "cores": os.cpu_count(),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "gpu": gpu,
    }


def missing(asked: argparse.Namespace, ending: str) -> Iterator[Side]:
    """Yield sides that are missing and that the device supports."""
    for side in sides(small=asked.small):
        name = asked.folder / side.name
        if not side.name.startswith(asked.only):
            continue
        if side.training.graph and asked.device == "cpu":
            tell(f"{side.name}: left out: CUDA graphs need a GPU")
        elif has_failed(side, asked.folder):
            tell(f"{side.name}: left out: it failed before")
        elif any(Path(f"{name}{end}").exists() for end in (ending, MEASURED)):
            continue
        elif ending != MEASURED or timed_of(side, asked.folder).exists():
            yield side


def failure_of(side: Side, folder: Path) -> Path:
    """The file with the reason why a recording failed."""
    return folder / f"{side.name}.failed.txt"


def has_failed(side: Side, folder: Path) -> bool:
    """Whether it should not be retried; a crash is retried once."""
    failed = failure_of(side, folder)
    return failed.exists() and failed.read_text() != ENDED


def attempt(
    side: Side, asked: argparse.Namespace, work: Callable[[Side], object]
) -> bool:
    """Run a phase for one side and note a failure; returns whether to continue."""
    failed = failure_of(side, asked.folder)
    failed.write_text(f"{ENDED}, twice" if failed.exists() else ENDED)
    try:
        work(side)
    except NoKernelsError:
        tell(f"{side.name}: the profiler of this process records no kernels")
        return False
    except Exception as error:  # noqa: BLE001 (others are recorded all the same)
        failed.write_text(traceback.format_exc())
        tell(f"{side.name}: failed: {type(error).__name__}: {first_line(error)}")
    else:
        failed.unlink()
    gc.collect()
    if asked.device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    return True


class NoKernelsError(Exception):
    """The trace has no kernels: some versions record those of one session only."""


def first_line(error: Exception) -> str:
    """The first line of an error."""
    return str(error).strip().partition("\n")[0]


def time_one(side: Side, asked: argparse.Namespace, machine: dict[str, Any]) -> None:
    """Time one side, and measure its memory."""
    before = allocated(asked.device)
    step = side.step(asked.device, small=asked.small)
    told = measure(
        step,
        repeats=FEW if asked.small else REPEATS,
        rounds=ONCE if asked.small else ROUNDS,
        device=asked.device,
    )
    told |= {"bytes_before": before, "workspace_bytes": workspaces(asked.device)}
    timed_of(side, asked.folder).write_text(
        json.dumps({**side.facts, **machine, **told}, indent=2) + "\n"
    )


def timed_of(side: Side, folder: Path) -> Path:
    """The file with a side's times, until it is recorded."""
    return folder / f"{side.name}{TIMED}"


def trace_one(side: Side, asked: argparse.Namespace) -> None:
    """Record one side, with fewer steps until its files are small enough."""
    timed = timed_of(side, asked.folder)
    step = side.step(asked.device, small=asked.small)
    measured = json.loads(timed.read_text())
    for steps in range(STEPS, FEWEST_STEPS - 1, -1):
        done = record(
            step,
            asked.folder,
            name=side.name,
            steps=steps,
            stacks=True,
            device=asked.device,
            measured=measured,
        )
        if asked.device == "cuda" and not has_kernels(done.kineto):
            done.measured.unlink()
            raise NoKernelsError
        if max(file.stat().st_size for file in (done.kineto, done.et)) <= MOST_BYTES:
            break
    else:
        tell(f"{side.name}: over {MOST_BYTES:,} bytes, even with {FEWEST_STEPS} steps")
    if done.stacks.stat().st_size > MOST_BYTES:
        tell(f"{side.name}: its trace with stacks is over {MOST_BYTES:,} bytes")
        done.stacks.unlink()
    timed.unlink()


def has_kernels(trace: Path) -> bool:
    """Whether the profiler recorded anything on the GPU."""
    return b'"cat": "kernel"' in gzip.decompress(trace.read_bytes())


def allocated(device: str) -> int:
    """[B] Allocated GPU memory before the model is created."""
    if device == "cpu":
        return 0
    clear_workspaces()
    return torch.cuda.memory_allocated()


def clear_workspaces() -> None:
    """Release cuBLAS workspaces, which count as allocated."""
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)  # noqa: SLF001 (it has no public name)
    if clear is not None:
        clear()


def workspaces(device: str) -> int:
    """[B] The part of the peak held by cuBLAS."""
    if device == "cpu":
        return 0
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    clear_workspaces()
    return held - torch.cuda.memory_allocated()


def tell(line: str) -> None:
    """Report progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
