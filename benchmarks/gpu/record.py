"""Record models at several batch sizes, and pairs of runs that differ in one thing.

    python benchmarks/gpu/record.py recorded/ --minutes 9

Each recording is a Kineto trace with synchronisation events, an execution graph, and
`NAME.measured.json` with the time of steps that nobody profiled, taken first. Traces
have as many steps as fit into a MB. `pairs.json` names the two sides of each pair.
Needs PyTorch alone; tracedb need not be installed. Ends after its minutes; called again
with the same folder it records what is missing.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from tracedb.record import (
    WORKLOADS,
    Recording,
    Training,
    record,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 1_000_000
STEPS, FEWEST_STEPS = 4, 2
SMALLER = 16
"""Small runs have so many times fewer examples in a batch."""


@dataclass(frozen=True)
class Side:
    """One recording: a model, its batch size, how it is trained."""

    workload: str
    batch_size: int
    training: Training = field(default_factory=Training)

    @property
    def name(self) -> str:
        """Name it by all that is not as usual."""
        how, usual = self.training, Training()
        words = [
            value if isinstance(value, str) else word
            for word in ("optimizer", "implementation", "dtype", "graph")
            if (value := getattr(how, word)) != getattr(usual, word)
        ]
        return "_".join([f"{self.workload}_b{self.batch_size}", *words])


MIXED, FUSED = Training(dtype="bfloat16"), Training(implementation="fused")
FOREACH, GRAPH = Training(implementation="foreach"), Training(graph=True)

# What differs, and between which two; the first side is the usual one.
PAIRS: dict[str, tuple[Side, Side]] = {
    "batch_size": (Side("resnet50", 32), Side("resnet50", 64)),
    "dtype": (Side("resnet50", 64), Side("resnet50", 64, MIXED)),
    "dtype_transformer": (Side("transformer", 128), Side("transformer", 128, MIXED)),
    "fused_optimizer": (Side("resnet50", 64, FOREACH), Side("resnet50", 64, FUSED)),
    "fused_adam": (
        Side("transformer", 128, Training("adam", "foreach", learning_rate=1e-3)),
        Side("transformer", 128, Training("adam", "fused", learning_rate=1e-3)),
    ),
    "graph": (Side("resnet50", 16), Side("resnet50", 16, GRAPH)),
    "graph_transformer": (Side("transformer", 64), Side("transformer", 64, GRAPH)),
    "batched_tables": (Side("dlrm_ddp", 2048), Side("dlrm_ddp_batched", 2048)),
}


def main(words: list[str] | None = None) -> int:
    """Record what is missing; 0: all is there, 3: time was over, 2: an error."""
    asked = options().parse_args(words)
    if asked.device == "cuda" and not torch.cuda.is_available():
        tell("record: error: no CUDA GPU here; --device cpu --small tries the script")
        return 2
    asked.folder.mkdir(parents=True, exist_ok=True)
    write_pairs(asked.folder / "pairs.json", small=asked.small)
    return 0 if run(asked) else 3


def options() -> argparse.ArgumentParser:
    """Return what the command line may say."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="recordings whose name begins so")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--small", action="store_true", help="tiny models and batches")
    return parser


def sides(*, small: bool) -> list[Side]:
    """List all recordings, each once: models by batch size, then those of pairs."""
    plain = [
        Side(name, size)
        for name, workload in WORKLOADS.items()
        for size in workload.batch_sizes
    ]
    paired = [side for pair in PAIRS.values() for side in pair]
    return [sized(side, small=small) for side in dict.fromkeys([*plain, *paired])]


def sized(side: Side, *, small: bool) -> Side:
    """Return a recording with the batch size that it has here."""
    size = max(2, side.batch_size // SMALLER) if small else side.batch_size
    return Side(side.workload, size, side.training)


def write_pairs(path: Path, *, small: bool) -> None:
    """Say which recordings are the two sides of a pair."""
    named = {
        what: [sized(side, small=small).name for side in pair]
        for what, pair in PAIRS.items()
    }
    path.write_text(json.dumps(named, indent=2) + "\n")


def run(asked: argparse.Namespace) -> bool:
    """Record one after another; say whether all is there."""
    until_s = monotonic() + 60 * asked.minutes
    left = list(missing(asked))
    for place, side in enumerate(left):
        if monotonic() > until_s:
            tell(f"time is over: {len(left) - place} recordings are left")
            return False
        tell(f"{place} of {len(left)}: {side.name}")
        try:
            make(side, asked)
        except torch.cuda.OutOfMemoryError:
            tell(f"{side.name}: left out: not enough memory")
        gc.collect()
        torch.cuda.empty_cache()
    return True


def missing(asked: argparse.Namespace) -> Iterator[Side]:
    """Yield the recordings that are not there yet, and that the device can make."""
    for side in dict.fromkeys(sides(small=asked.small)):
        if not side.name.startswith(asked.only):
            continue
        if side.training.graph and asked.device == "cpu":
            tell(f"{side.name}: left out: CUDA graphs need a GPU")
        elif not Recording.named(asked.folder, side.name).measured.exists():
            yield side


def make(side: Side, asked: argparse.Namespace) -> None:
    """Record one, with fewer steps until its files are small enough."""
    workload = WORKLOADS[side.workload]
    facts = {
        "workload": side.workload,
        "about": workload.about,
        "batch_size": side.batch_size,
        "training": asdict(side.training),
    }
    step = workload.step(
        side.batch_size, device=asked.device, training=side.training, small=asked.small
    )
    for steps in range(STEPS, FEWEST_STEPS - 1, -1):
        done = record(
            step,
            asked.folder,
            name=side.name,
            steps=steps,
            repeats=3 if asked.small else 20,
            device=asked.device,
            facts=facts,
        )
        if max(file.stat().st_size for file in (done.kineto, done.et)) <= MOST_BYTES:
            return
    tell(f"{side.name}: over {MOST_BYTES:,} bytes, even with {FEWEST_STEPS} steps")


def tell(line: str) -> None:
    """Say what goes on."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
