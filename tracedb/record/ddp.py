"""Record DistributedDataParallel training: one process, one trace, per rank."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from .dlrm import (
    DLRM_SAMPLE,
    DLRMConfig,
    loss_function,
    random_loader,
    random_model,
)
from .recording import Counts, Recording, record
from .training import training_step


@dataclass(frozen=True)
class _Job:
    """The parameters of a rank's process, which are pickled."""

    out_dir: str
    store: str
    config: DLRMConfig
    batch_size: int
    world_size: int
    bucket_cap_mb: float
    counts: Counts

    def name(self, rank: int) -> str:
        """The name of a rank's files."""
        return f"rank{rank}"


def record_ddp(
    out_dir: str | Path,
    config: DLRMConfig = DLRM_SAMPLE,
    *,
    batch_size: int = 128,
    world_size: int = 2,
    bucket_cap_mb: float = 0.05,
    **counts: Unpack[Counts],
) -> list[Recording]:
    """Record data-parallel training of a DLRM on CPU processes that talk over gloo.

    Every rank holds the whole model, tables included, and all gradients are dense.
    The small buckets give several all-reduces a step.
    """
    with tempfile.TemporaryDirectory() as folder:
        job = _Job(
            str(out_dir),
            str(Path(folder, "store")),
            replace(config, sparse_gradients=False),
            batch_size,
            world_size,
            bucket_cap_mb,
            counts,
        )
        spawn(_record_rank, (job,), nprocs=world_size)  # type: ignore[no-untyped-call]
    return [Recording.named(out_dir, job.name(rank)) for rank in range(world_size)]


def _record_rank(rank: int, job: _Job) -> Recording:
    """Train and record one rank, in a process of its own."""
    torch.set_num_threads(1)
    with _process_group(rank, job):
        model = DistributedDataParallel(
            random_model(job.config), bucket_cap_mb=job.bucket_cap_mb
        )
        loader = random_loader(
            job.config, job.batch_size, rank=rank, world_size=job.world_size
        )
        step = training_step(model, loss_function(job.config), iter(loader))
        return record(step, job.out_dir, name=job.name(rank), **job.counts)


@contextmanager
def _process_group(rank: int, job: _Job) -> Iterator[None]:
    """Join the ranks over gloo on the loopback interface, and leave afterwards."""
    if sys.platform == "linux":  # a container's host name often does not resolve
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo", init_method=f"file://{job.store}", rank=rank, world_size=job.world_size
    )
    try:
        yield
    finally:
        dist.destroy_process_group()
