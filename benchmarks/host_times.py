"""Learn the host times that come with tracedb: small steps, recorded on this CPU.

Ops on a handful of numbers take the host about what they take when a GPU computes: the
dispatch, the checks, the allocation. `own` is the time of an op without the ops in
it, `gap` that between top-level ops, by the name of the next. What a GPU alone shows
(launches, waits) is not measured here but assumed, as `docs/estimate.md` says.

    python benchmarks/host_times.py

rewrites `tracedb/from_code/host_times.json`.
"""

from __future__ import annotations

import json
import platform
from bisect import bisect
from collections import defaultdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

from tracedb.record.vision import resnet

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = Path(__file__).parent.parent / "tracedb" / "from_code" / "host_times.json"
_WARMUP, _STEPS = 3, 20
_EVENT_NS = 1_000
"""[ns] Cost of recording an op: in its own time, and in its parent's."""
_PROGRAM_NS = 200_000
"""[ns] Longer gaps belong to the program (Lin et al. 2022 also drop them)."""
_ASSUMED = {
    "launch": 4_000,  # Lin et al. 2022: T4
    "copy": 6_000,
    "wait": 2_000,
    "return_delay": 2_000,
    "handover": 10_000,
    "graph_launch": 10_000,  # as `prediction.graph_replay`
    "graph_gap": 1_000,
}

Samples = dict[str, dict[str, list[int]]]


def main() -> None:
    """Record all small steps and write the quartiles."""
    torch.set_num_threads(1)
    samples: Samples = {"own": defaultdict(list), "gap": defaultdict(list)}
    for make in (_perceptron, _recommender, _convolutions, _attention):
        for optimizer in (torch.optim.SGD, torch.optim.Adam):
            _add(_events(make(optimizer)), samples)
    FILE.write_text(json.dumps(_page(samples), indent=1, sort_keys=True) + "\n")


def _trained(
    model: nn.Module,
    make: Callable[..., torch.optim.Optimizer],
    error: Callable[[], Any],
) -> Callable[[], float]:
    optimizer = make(model.parameters(), lr=0.01, foreach=True)

    def step() -> float:
        optimizer.zero_grad()
        loss = error()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def _perceptron(optimizer: Any) -> Callable[[], float]:  # noqa: ANN401
    model = nn.Sequential(
        nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 8), nn.Sigmoid()
    )
    inputs = torch.ones(2, 8)
    return _trained(
        model, optimizer, lambda: nn.functional.mse_loss(model(inputs), inputs)
    )


def _recommender(optimizer: Any) -> Callable[[], float]:  # noqa: ANN401
    tables = nn.ModuleList([nn.EmbeddingBag(8, 8, mode="sum") for _ in range(4)])
    bottom = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())
    top = nn.Sequential(nn.Linear(18, 8), nn.ReLU(), nn.Linear(8, 1))
    model = nn.ModuleList([tables, bottom, top])
    rows, columns = torch.tril_indices(5, 5, -1)
    numbers, looked_up = torch.ones(2, 4), torch.zeros(2, 1, dtype=torch.long)
    wanted = torch.ones(2)

    def error() -> torch.Tensor:
        dense = bottom(numbers)
        vectors = torch.stack([dense, *[table(looked_up) for table in tables]], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, rows, columns]
        answer = top(torch.cat([dense, products], 1)).squeeze(1)
        return nn.functional.binary_cross_entropy_with_logits(answer, wanted)

    return _trained(model, optimizer, error)


def _convolutions(optimizer: Any) -> Callable[[], float]:  # noqa: ANN401
    model = resnet((1, 1, 1, 1), 2, 4)
    images, classes = torch.ones(2, 3, 32, 32), torch.zeros(2, dtype=torch.long)
    return _trained(
        model, optimizer, lambda: nn.functional.cross_entropy(model(images), classes)
    )


def _attention(optimizer: Any) -> Callable[[], float]:  # noqa: ANN401
    words = nn.Embedding(8, 8)
    layer = nn.TransformerEncoderLayer(8, 2, 8, dropout=0.1, batch_first=True)
    model = nn.Sequential(words, layer)
    sentence = torch.zeros(1, 4, dtype=torch.long)
    return _trained(model, optimizer, lambda: model(sentence).square().mean())


def _page(samples: Samples) -> dict[str, Any]:
    times: dict[str, Any] = {**_ASSUMED}
    for kind, by_name in samples.items():
        usual = {name: round(_low(found)) for name, found in sorted(by_name.items())}
        times[kind] = {**usual, "": round(median(usual.values()))}
    learnt = {"torch": torch.__version__, "machine": platform.machine()}
    return {"times": times, "learnt_on": learnt}


def _low(values: list[int]) -> float:
    """The lower quartile: other processes only add time."""
    return sorted(values)[len(values) // 4]


def _events(step: Callable[[], object]) -> list[dict[str, Any]]:
    plan = schedule(wait=0, warmup=_WARMUP, active=_STEPS, repeat=1)
    with TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        with profile(
            activities=[ProfilerActivity.CPU],
            schedule=plan,
            on_trace_ready=lambda done: done.export_chrome_trace(str(file)),
        ) as profiler:
            for _ in range(_WARMUP + _STEPS):
                step()
                profiler.step()
        events = json.loads(file.read_text())["traceEvents"]
    return [e for e in events if e.get("cat") in ("cpu_op", "user_annotation")]


def _add(events: list[dict[str, Any]], samples: Samples) -> None:
    """Add each op's own time, and each gap between two top-level ops."""
    opened: list[dict[str, Any]] = []
    last_end: dict[int, float] = {}
    # Time between steps belongs to the program and the profiler.
    marks = sorted(e["ts"] for e in events if e["name"].startswith("ProfilerStep"))

    def close(event: dict[str, Any]) -> None:
        own = 1e3 * (event["dur"] - event["inner"]) - _EVENT_NS * (1 + event["count"])
        samples["own"][event["name"]].append(max(round(own), 0))

    ops = [e for e in events if e["cat"] == "cpu_op"]
    for event in sorted(ops, key=lambda e: (e["tid"], e["ts"], -e["dur"])):
        while opened and (
            opened[-1]["tid"] != event["tid"]
            or opened[-1]["ts"] + opened[-1]["dur"] <= event["ts"]
        ):
            close(opened.pop())
        event |= {"inner": 0.0, "count": 0}
        if opened:
            opened[-1]["inner"] += event["dur"]
            opened[-1]["count"] += 1
        else:
            begin = last_end.get(event["tid"], event["ts"])
            gap = 1e3 * (event["ts"] - begin)
            is_within = bisect(marks, begin) == bisect(marks, event["ts"])
            if is_within and 0 < gap < _PROGRAM_NS:
                samples["gap"][event["name"]].append(round(gap))
            last_end[event["tid"]] = event["ts"] + event["dur"]
        opened.append(event)
    for event in reversed(opened):
        close(event)


if __name__ == "__main__":
    main()
