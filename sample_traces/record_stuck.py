"""Record `stuck_gloo/` anew: three ranks, one of which leaves out an all-reduce.

Each rank dumps its flight recorder while the others wait: what PyTorch writes, but for
the folders in the stacks, which are taken out.
"""

import os
import pickle
import sys
import threading
from pathlib import Path

import torch
import torch.distributed as dist
from torch import multiprocessing

FOLDER = Path(__file__).parent / "stuck_gloo"
RANKS = 3
STEPS = 3
LATE = 2
PORT = "29517"


def train(rank: int, barrier: threading.Barrier) -> None:
    """Run a rank: some steps with all others, and one that the last does not take."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=PORT)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    pair = dist.new_group([0, 1], group_desc="pair")
    gradients = torch.ones(1000)
    for _ in range(STEPS):
        reduce_gradients(gradients)
        if rank in (0, 1):
            dist.broadcast(gradients, 0, group=pair)
    work = None if rank == LATE else dist.all_reduce(gradients, async_op=True)
    barrier.wait()
    # The types that PyTorch ships do not have it.
    dump = vars(torch._C._distributed_c10d)["_dump_fr_trace"]()  # noqa: SLF001
    (FOLDER / f"nccl_trace_rank_{rank}").write_bytes(without_folders(dump))
    barrier.wait()
    del work
    os._exit(0)


def reduce_gradients(gradients: torch.Tensor) -> None:
    """Add up the gradients of all ranks."""
    dist.all_reduce(gradients)


def without_folders(dump: bytes) -> bytes:
    """Leave of each file's name what lies below this folder, or in the package."""
    content = pickle.loads(dump)  # noqa: S301 (our own)
    for entry in content["entries"]:
        for frame in entry["frames"]:
            parts = Path(frame["filename"]).parts
            start = parts.index("torch") if "torch" in parts else -1
            frame["filename"] = str(Path(*parts[start:]))
    return pickle.dumps(content, protocol=2)


def main() -> None:
    """Run all ranks, and say what they wrote."""
    FOLDER.mkdir(exist_ok=True)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(RANKS)
    ranks = [context.Process(target=train, args=(n, barrier)) for n in range(RANKS)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    print(*sorted(path.name for path in FOLDER.iterdir()), file=sys.stderr)


if __name__ == "__main__":
    main()
