"""Steps of four ranks: estimates do what real ranks do, collective by collective."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rank_job import differences, estimated, real, said
from rank_steps import OF_GPUS, RANKS

from tracedb.errors import EstimateError
from tracedb.from_code.job import Job
from tracedb.from_code.job_run import RankRecording, record_job
from tracedb.from_code.recordings import Recording, Source

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
"""Names of collectives that all versions have."""
KINDS = (
    *("half_hook", "power_sgd", "joined", "accumulated", "zero_optimizer", "sharded"),
    *("hybrid", "tensors_and_data", "sequence_parallel", "parallel_loss", "called"),
    *("functionally", "objects", "pipeline_and_data"),
)
EVERY = [*range(RANKS)]
WEIGHTS = 49_728
"""Weights of three layers."""
ASKED = {
    "differentiated": [
        ["allgather", EVERY, 128, 512],
        ["reduce_scatter", EVERY, 512, 128],
    ],
    "mixed_precision": [["allreduce", EVERY, WEIGHTS, WEIGHTS]],
    "bfloat_hook": [["allreduce", EVERY, WEIGHTS, WEIGHTS]],
    "optimized_in_backward": [["allreduce", EVERY, WEIGHTS, WEIGHTS]],
    "fully_sharded": [
        ["_allgather_base", EVERY, WEIGHTS // RANKS, WEIGHTS],
        ["_reduce_scatter_base", EVERY, WEIGHTS, WEIGHTS // RANKS],
    ],
    "coalesced": [["allreduce_coalesced", EVERY, 60, 60]],
}
"""What PyTorch's sources ask NCCL for in steps that need GPUs."""
START = """
import torch
from torch import distributed

distributed.init_process_group("nccl")
rank = distributed.get_rank()
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the real ranks did."""
    return real(KINDS, tmp_path_factory.mktemp("job"))


@pytest.mark.parametrize("kind", KINDS)
def test_ops_and_collectives_are_those_of_real_ranks(
    kind: str, ran: list[dict[str, Any]], tmp_path: Path
) -> None:
    """The same, in order: kinds, ranks and sizes of collectives, and all ops."""
    steps = estimated([kind], tmp_path)
    assert len(steps) == (RANKS if "pipeline" in kind else 1)
    for rank, step in enumerate(steps):
        assert differences(kind, ran[rank][kind], step) == []


@pytest.mark.parametrize("kind", OF_GPUS)
def test_steps_that_need_gpus(kind: str, tmp_path: Path) -> None:
    """They ask NCCL for these collectives."""
    (step,) = estimated([kind], tmp_path)
    assert [one for one in said(step) if not one[0].startswith("aten")] == ASKED[kind]


def recorded(folder: Path, code: str, ranks: int = RANKS) -> Recording:
    """A step of rank 0."""
    path = folder / "train.py"
    path.write_text(START + code)
    source = Source(f"{path}:step", (), "NVIDIA H100", Job(ranks))
    try:
        return source.at(None)
    finally:
        source.close()


AGREED = (
    "x = ones(3); distributed.all_reduce(x)",
    "x = 4 * ones(2); distributed.all_reduce(x, distributed.ReduceOp.MAX)",
    "y = [zeros(1)] + 3 * [zeros(1)]; distributed.all_gather(y, 4 * ones(1)); x = y[3]",
    "x = zeros(4); distributed.all_gather_into_tensor(x, 4 * ones(1))",
    "x = zeros(8); distributed.all_to_all_single(x, torch.arange(8).cuda()); x += 4",
    "y = ones(9); distributed.all_reduce(y[:3]); x = y[:2]",
)


@pytest.mark.parametrize("code", AGREED)
def test_known_numbers_are_known_after_collectives(code: str, tmp_path: Path) -> None:
    """All ranks give the same, so sizes may come from what they agree on."""
    made = """
def ones(count): return torch.ones(count, dtype=torch.long, device="cuda")
def zeros(count): return torch.zeros(count, dtype=torch.long, device="cuda")
"""
    check = "    assert all(one in (4, 5) for one in x.tolist()), x.tolist()\n"
    body = f"{made}def step():\n    {code}\n{check}"
    assert recorded(tmp_path, body).unsure == ()


def test_results_of_unknown_numbers_are_unknown(tmp_path: Path) -> None:
    """Zeros that are written over are not zeros."""
    code = """
def step():
    x = torch.zeros(2, dtype=torch.long, device="cuda")
    distributed.all_gather_into_tensor(x, torch.randn(4).cuda().argmax()[None])
    torch.empty(int(x[0]), 3)
"""
    with pytest.raises(EstimateError, match=r"train\.py:1\d: a size depends"):
        recorded(tmp_path, code, ranks=2)


def test_code_is_told_the_backend_that_it_names(tmp_path: Path) -> None:
    """A group of its own backend waits for nobody."""
    code = """
assert distributed.is_nccl_available() and distributed.get_backend() == "nccl"
own = distributed.new_group(backend="gloo")
assert distributed.get_backend(own) == "gloo" and torch.version.cuda

def step():
    x = torch.ones(4)
    distributed.all_reduce(x, group=own)
    distributed.barrier(own)
    distributed.all_reduce(x.cuda())
"""
    called = [one for one in said(recorded(tmp_path, code).fake) if len(one) > 2]
    assert called == [["allreduce", EVERY, 4, 4]]


def test_objects_of_another_rank_are_its_own(tmp_path: Path) -> None:
    """All ranks run, and sizes that one tells others are known there."""
    path = tmp_path / "train.py"
    path.write_text(
        START
        + """
def step():
    told = [8 * rank if rank else None]
    distributed.broadcast_object_list(told, src=1)
    every = [None] * 2
    distributed.all_gather_object(every, rank)
    x = torch.ones(told[0] + sum(every), device="cuda")
    distributed.all_reduce(x)
"""
    )
    job = record_job(f"{path}:step", (), "NVIDIA H100", Job(2), None)
    for rank in job.ranks:
        assert isinstance(rank, RankRecording)
        *_, last = (one for one in said(rank.fake) if len(one) > 2)
        assert last[0] == "allreduce"
        assert last[2:] == [9, 9]
