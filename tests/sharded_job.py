"""A job of two real ranks: which collectives they run, and how much memory they hold.

`python sharded_job.py RANK FILE` is one of them, over Gloo on the CPU; rank 0 writes
measurements to FILE. Estimates run the same steps for GPUs.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

distributed: Any = torch.distributed
"""Its type stubs lack some exports."""
RANKS, WIDTH, BATCH, REPEATS = 2, 128, 64, 6
KINDS = ("replicated", "sharded", "tensors", "sequence", "tables")


class Exchange(torch.autograd.Function):
    """All-to-all: from a rank's tables for all examples to all tables for its own."""

    @staticmethod
    def forward(ctx: Any, sums: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        """Exchange embeddings."""
        del ctx
        made = torch.empty_like(sums)
        distributed.all_to_all_single(made, sums)
        return made

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:  # noqa: ANN401
        """Exchange gradients."""
        del ctx
        return Exchange.forward(None, gradients[0].contiguous())


class Tables(nn.Module):
    """A rank's own table, then linear layers over what all ranks looked up."""

    def __init__(self, device: str) -> None:
        """Create the table and the layers."""
        super().__init__()
        self.table = nn.EmbeddingBag(500, WIDTH, mode="sum", device=device)
        self.top = DistributedDataParallel(nn.Linear(WIDTH, WIDTH, device=device))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Look up the rows of all ranks' examples."""
        rows = torch.zeros(RANKS * len(inputs), 3, dtype=torch.long).to(inputs.device)
        looked_up = Exchange.apply(self.table(rows))  # type: ignore[no-untyped-call]
        found: torch.Tensor = self.top(looked_up)
        return found


def made(kind: str, device: str) -> nn.Module:
    """A model sharded in one of the supported ways."""
    if kind == "tables":
        return Tables(device)
    layers = [
        nn.Sequential(nn.Linear(WIDTH, 512), nn.ReLU(), nn.Linear(512, WIDTH))
        for _ in range(3)
    ]
    model = nn.Sequential(*layers).to(device)
    if kind == "replicated":
        return DistributedDataParallel(model)
    if kind == "sharded":
        for layer in layers:
            fully_shard(layer)
        fully_shard(model)
        return model
    mesh = init_device_mesh(device, (RANKS,))
    plan: dict[str, Any] = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    if kind == "sequence":
        plan["0"] = ColwiseParallel(input_layouts=Shard(0))
        plan["2"] = RowwiseParallel(output_layouts=Shard(0))
    for layer in layers:
        parallelize_module(layer, mesh, plan)
    return model


def step_of(kind: str, device: str) -> Callable[[], None]:
    """A training step."""
    model = made(kind, device)
    # By default, `foreach` is used on GPUs only.
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

    def step() -> None:
        inputs = torch.ones(BATCH, WIDTH, device=device)
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        torch.autograd.backward(loss)
        optimizer.step()

    return step


def collectives(step: Callable[[], None]) -> list[tuple[str, int]]:
    """The collectives of a step, with element counts, in order."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        step()
    called = [e for e in profiler.events() or () if e.name.startswith("gloo:")]
    called.sort(key=lambda event: event.time_range.start)
    return [
        (event.name.removeprefix("gloo:"), sum(map(prod, event.input_shapes)))
        for event in called
    ]


def made_again(kind: str) -> Callable[[int], Callable[[], None]]:
    """A step with fresh gradients at its default batch size, free of reference cycles.

    Cycles are collected between steps only.
    """
    gc.disable()

    def make(_batch: int) -> Callable[[], None]:
        step = step_of(kind, "cpu")

        def swept() -> None:
            gc.collect()
            step()

        return swept

    return make


def main(rank: int, file: Path) -> None:
    """Run one of the ranks."""
    from test_estimate import measured_peak

    torch.set_num_threads(1)
    os.environ |= {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(RANKS)}
    gloo = distributed.ProcessGroupGloo
    options = gloo._Options()  # noqa: SLF001 (it has no public name)
    # Two threads, as is usual, may begin collectives in another order.
    options._threads = 1  # noqa: SLF001
    options._devices = [gloo.create_default_device()]  # noqa: SLF001
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{file}.store",
        rank=rank,
        world_size=RANKS,
        pg_options=options,
    )
    found = {}
    for kind in KINDS:
        step = step_of(kind, "cpu")
        step()
        step()
        called = collectives(step)
        del step
        # Gloo's threads release tensors a while after sending them.
        peaks = [measured_peak(made_again(kind), BATCH) for _ in range(REPEATS)]
        found[kind] = {"called": called, "peaks": peaks}
    distributed.destroy_process_group()
    if rank == 0:
        file.write_text(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
