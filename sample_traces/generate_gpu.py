"""Make `generated_gpu/` anew: two ranks of a made-up training job, and their truth."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tracedb.synthetic import Delays, Truth, execute, training_job

SEED = 1
DELAYS = Delays(jitter=0.15)


def summary(truth: Truth) -> dict[str, Any]:
    """Return what is true of one rank, short enough to read."""
    return {
        "rank": truth.rank,
        "threads": truth.threads,
        "host_events": len(truth.host_events),
        "launches": len(truth.launches),
        "kernels": len(truth.kernels),
        "steps": [
            {
                "step": step.number,
                "start_ns": step.start_ns,
                "end_ns": step.end_ns,
                "duration_ns": step.duration_ns,
            }
            for step in truth.steps
        ],
        "overheads_ns": [
            {"step": step, "thread": thread, **totals}
            for (step, thread), totals in sorted(truth.overheads.items())
        ],
        "edges": Counter(edge.kind for edge in truth.edges),
        "binding_edges": Counter(edge.kind for edge in truth.edges if edge.binding),
    }


def generate(folder: Path) -> list[Path]:
    """Write the traces and `truth.json`; the same every time."""
    folder.mkdir(exist_ok=True)
    traces = execute(training_job(SEED, ranks=2, steps=3), DELAYS, SEED)
    page = folder / "truth.json"
    ranks = [summary(trace.truth) for trace in traces]
    page.write_text(json.dumps(ranks, indent=1, sort_keys=True) + "\n")
    names = [f"rank{trace.truth.rank}.kineto.json.gz" for trace in traces]
    files = zip(traces, names, strict=True)
    return [*(trace.write(folder / name) for trace, name in files), page]


if __name__ == "__main__":
    for path in generate(Path(__file__).with_name("generated_gpu")):
        print(path, path.stat().st_size)
