"""A job of real ranks that send to one another: what they run and send, in order.

`python pipelined_job.py FOLDER` forks the ranks, which communicate over Gloo on the
CPU; each writes what it did to FOLDER. Estimates run the same steps for GPUs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from forked import run_ranks
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)
from torch.utils._python_dispatch import TorchDispatchMode

distributed: Any = torch.distributed
"""Its type stubs lack some exports."""
RANKS, WIDTH, BATCH, MICROBATCHES = 3, 32, 24, 6
KINDS = ("gpipe", "1f1b", "interleaved", "by_hand", "ring")
Event = tuple[Any, ...]
"""The name of an op; for a message also its sender, receiver and element count."""


def step_of(kind: str, device: str) -> Callable[[], None]:
    """A training step of this rank."""
    rank, world = distributed.get_rank(), distributed.get_world_size()
    if kind == "by_hand":
        return _by_hand(rank, world, device)
    if kind == "ring":
        return _ring(rank, world, device)
    chunks = 2 if kind == "interleaved" else 1
    stages = [
        PipelineStage(
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()).to(device),
            chunk * world + rank, chunks * world, torch.device(device),
        )
        for chunk in range(chunks)
    ]  # fmt: skip
    classes: dict[str, Any] = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}
    made = classes.get(kind, ScheduleInterleaved1F1B)
    loss = nn.functional.mse_loss
    schedule = made(stages if chunks > 1 else stages[0], MICROBATCHES, loss_fn=loss)
    parameters = [p for stage in stages for p in stage.submod.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1, foreach=False)

    def step() -> None:
        given = [torch.ones(BATCH, WIDTH, device=device)] if rank == 0 else []
        last = rank == world - 1
        target = {"target": torch.zeros(BATCH, WIDTH, device=device)} if last else {}
        optimizer.zero_grad()
        schedule.step(*given, **target)
        optimizer.step()

    return step


def _by_hand(rank: int, world: int, device: str) -> Callable[[], None]:
    """A pipeline of two directions without a schedule."""
    layer = nn.Linear(WIDTH, WIDTH).to(device)

    def step() -> None:
        given = torch.ones(BATCH, WIDTH, device=device)
        if rank:
            distributed.recv(given, src=rank - 1)
        given.requires_grad_()
        made = layer(given)
        if rank < world - 1:
            distributed.isend(made.detach(), rank + 1).wait()
            gradient = torch.empty_like(made)
            distributed.irecv(gradient, rank + 1).wait()
            made.backward(gradient)
        else:
            made.sum().backward()
        if rank:
            distributed.send(given.grad, dst=rank - 1)

    return step


def _ring(rank: int, world: int, device: str) -> Callable[[], None]:
    """Each rank sends to the next one and receives from the one before."""
    given = torch.ones(BATCH, WIDTH, device=device)
    into = torch.empty(BATCH, WIDTH, device=device)

    def step() -> None:
        for _ in range(2):
            calls = [
                distributed.P2POp(distributed.isend, given + 1, (rank + 1) % world),
                distributed.P2POp(distributed.irecv, into, (rank - 1) % world),
            ]
            for work in distributed.batch_isend_irecv(calls):
                work.wait()
            torch.mm(into, into.t())

    return step


class _Ops(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lists the ops that are dispatched, except views."""

    def __init__(self, done: list[Event]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._done = done

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 (whatever is dispatched)
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Note an op."""
        del types
        if func.namespace == "aten" and not func.is_view:
            self._done.append((func._schema.name,))  # noqa: SLF001
        return func(*args, **(kwargs or {}))


def _noting(done: list[Event]) -> None:
    """Note each message of this rank."""
    me = distributed.get_rank()
    group = type(distributed.group.WORLD)
    for kind in ("send", "recv"):
        real = getattr(group, kind)

        def noted(
            self: object,
            tensors: list[torch.Tensor],
            peer: int,
            *rest: object,
            kind: str = kind,
            real: Callable[..., object] = real,
        ) -> object:
            ends = (me, peer) if kind == "send" else (peer, me)
            done.append((kind, *ends, tensors[0].numel()))
            return real(self, tensors, peer, *rest)

        setattr(group, kind, noted)


def main(rank: int, folder: Path) -> None:
    """Run one of the ranks."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS
    )
    done: list[Event] = []
    _noting(done)
    found = {}
    for kind in KINDS:
        step = step_of(kind, "cpu")
        step()
        done.clear()
        with _Ops(done):
            step()
        found[kind] = [*done]
    distributed.barrier()
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    run_ranks(RANKS, lambda rank: main(rank, Path(sys.argv[1])))
