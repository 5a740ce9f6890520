"""Estimate all that is to be recorded, before it is: from code, and from CPU graphs.

    python benchmarks/gpu/beforehand.py estimated/ --gpu H100

Needs tracedb with PyTorch, and no GPU. Each model is estimated from its code alone, and
from an execution graph of one of its steps on this CPU, which takes as much memory as
the model has. `NAME.estimated.json` has the time of a step, how long the GPU is active,
and the peak of the memory, or why there is no estimate; commit them before `record.py`
runs. Ends after its minutes; called again it estimates what is missing.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from sides import Side, sides
from torch.profiler import ExecutionTraceObserver

import tracedb
from tracedb.errors import TracedbError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


ROOT = Path(__file__).resolve().parents[2]


def main(words: list[str] | None = None) -> int:
    """Estimate what is missing; 0: complete, 3: out of time."""
    asked = options().parse_args(words)
    asked.folder.mkdir(parents=True, exist_ok=True)
    until_s = monotonic() + 60 * asked.minutes
    left = list(missing(asked))
    for place, side in enumerate(left):
        if monotonic() > until_s:
            tell(f"time is over: {len(left) - place} estimates are left")
            return 3
        tell(f"{place} of {len(left)}: {side.name}")
        told = estimates(side, asked)
        file_of(side, asked.folder).write_text(json.dumps(told, indent=2) + "\n")
        gc.collect()
    return 0


def options() -> argparse.ArgumentParser:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gpu", required=True, help="as tracedb kernels hardware says")
    parser.add_argument("--only", default="", help="recordings whose name begins so")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--no-graphs", action="store_true", help="from code alone")
    parser.add_argument("--small", action="store_true", help="tiny models and batches")
    return parser


def missing(asked: argparse.Namespace) -> Iterator[Side]:
    """Yield what is not estimated yet."""
    for side in sides(small=asked.small):
        is_there = file_of(side, asked.folder).exists()
        if side.name.startswith(asked.only) and not is_there:
            yield side


def file_of(side: Side, folder: Path) -> Path:
    """The file of a recording's estimates."""
    return folder / f"{side.name}.estimated.json"


def estimates(side: Side, asked: argparse.Namespace) -> dict[str, Any]:
    """Both estimates of a recording, and their provenance."""
    told: dict[str, Any] = {
        **side.facts,
        "gpu": asked.gpu,
        "estimated_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "tracedb": version("tracedb"),
        "commit": commit(),
        "torch": torch.__version__,
        "code": told_of(lambda: from_code(side, asked.gpu, small=asked.small)),
    }
    if not asked.no_graphs:
        told["graph"] = told_of(lambda: from_graph(side, asked.gpu, small=asked.small))
    return told


def commit() -> str | None:
    """The commit of the code; None if git does not know it."""
    asked = ("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty")
    done = subprocess.run(  # noqa: S603 (of our own folder)
        asked, check=False, capture_output=True, text=True
    )
    return done.stdout.strip() or None


def told_of(estimate: Callable[[], tracedb.Estimate]) -> dict[str, Any]:
    """An estimate's results, or why there is none."""
    try:
        found = estimate()
    except TracedbError as error:
        return {"refused": str(error).partition("\n")[0].replace(f"{ROOT}/", "")}
    return {
        "step_ns": found.step_ns,
        "low_ns": found.low_ns,
        "high_ns": found.high_ns,
        "gpu_active_ns": found.gpu_active_ns,
        "kernel_count": found.kernel_count,
        "peak_bytes": found.memory.peak_bytes,
        "unmodelled": found.unmodelled,
    }


def from_code(side: Side, gpu: str, *, small: bool) -> tracedb.Estimate:
    """Estimate the step on fake tensors, as a CUDA graph if the recording is one."""
    made: list[Callable[[], object]] = []
    plain = without_graph(side)

    def step() -> None:
        if not made:
            made.append(plain.step("cuda", small=small))
        made[0]()

    return tracedb.estimate(step, gpu=gpu, cuda_graph=side.training.graph)


def from_graph(side: Side, gpu: str, *, small: bool) -> tracedb.Estimate:
    """Estimate the step from an execution graph of this CPU."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "graph.json.gz")
        record_graph(without_graph(side), file, small=small)
        return tracedb.estimate(file, gpu=gpu, cuda_graph=side.training.graph)


def without_graph(side: Side) -> Side:
    """The step without a CUDA graph, and with batches in memory."""
    plain = replace(side.training, graph=False, workers=None)
    return Side(side.workload, side.batch_size, plain)


def record_graph(side: Side, path: Path, *, small: bool) -> None:
    """Record the execution graph of one step, after a step that allocates state."""
    step = side.step("cpu", small=small)
    keeps_state = side.training.optimizer == "adam"
    for _ in range(keeps_state):
        step()
    raw = path.with_suffix("")
    observer = ExecutionTraceObserver().register_callback(str(raw))
    observer.start()
    step()
    observer.stop()
    observer.unregister_callback()
    path.write_bytes(gzip.compress(raw.read_bytes()))


def tell(line: str) -> None:
    """Report progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
