"""Steps of four ranks: estimates do what real ranks do, collective by collective."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from rank_job import differences, estimated, peaks, real, said
from rank_steps import OF_GPUS, RANKS

from tracedb.errors import EstimateError
from tracedb.from_code.estimation import alone
from tracedb.from_code.job import Job
from tracedb.from_code.job_run import RankRecording, record_job
from tracedb.from_code.memory import peak
from tracedb.from_code.recordings import Recording, Source

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:When period is 1:UserWarning"),
]
"""Names of collectives that all versions have."""
KINDS = (
    *("half_hook", "power_sgd", "joined", "accumulated", "zero_optimizer", "sharded"),
    *("hybrid", "tensors_and_data", "sequence_parallel", "parallel_loss", "called"),
    *("functionally", "objects", "pipeline_and_data", "numbers_of_ranks", "meshes"),
)
OTHERS = ("numbers_of_ranks", "pipeline_and_data")
"""Steps of which all ranks run."""
HELD = (
    *("plain_buckets", "half_hook", "power_sgd", "accumulated", "zero_optimizer"),
    *("hybrid", "tensors_and_data", "sequence_parallel", "called", "functionally"),
)
"""Those whose memory is compared."""
EVERY = [*range(RANKS)]
WEIGHTS = 49_728
"""Weights of three layers."""
QUARTER = 2 * 4 * 16 * 32
"""Elements of a rank's keys."""
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
    "ring_attention": [
        # The load is balanced: each rank has keys and values of two parts.
        ["_allgather_base", EVERY, 2 * QUARTER, 8 * QUARTER],
        ["_allgather_base", EVERY, 2 * QUARTER, 8 * QUARTER],
        *([["all_to_all", EVERY, 2 * QUARTER, 2 * QUARTER]] * RANKS),
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
    assert len(steps) == (RANKS if kind in OTHERS else 1)
    for rank, step in enumerate(steps):
        assert differences(kind, ran[rank][kind], step) == []


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """[B] The peaks of a real rank, by the CPU's allocator."""
    return peaks(HELD, tmp_path_factory.mktemp("peaks"))


@pytest.mark.parametrize("kind", HELD)
def test_memory_is_that_of_a_real_rank(
    kind: str, held: dict[str, int], tmp_path: Path
) -> None:
    """The peak is within 2 % of a rank whose collectives take no memory."""
    (step,) = estimated([kind], tmp_path)
    found = peak(step.held, step.names, block=1).peak_bytes
    assert found == pytest.approx(held[kind], rel=0.021)


def test_sparse_gradients_are_reduced_on_the_host(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Gloo adds them up there, and the gradient of a copy to the GPU is copied back."""
    kind = "sparse_on_host"
    (ran, *_) = real([kind], tmp_path_factory.mktemp("job"))
    (step,) = estimated([kind], tmp_path)
    copies = [["aten::_to_copy", [[8, 8]]], ["aten::_to_copy", [[8, 8]]]]
    done = [*said(step)]
    assert [one for one in done if one[0] == "aten::_to_copy"] == copies
    on_host = {op.name for op in step.ops.values() if not op.is_on_gpu}
    assert {"aten::index_select", "aten::div_", "aten::add_"} <= on_host
    # A dispatch mode sees sparse tensors of real ranks, and their rows here.
    both = {"aten::addmm", "aten::mm", "aten::pow"}
    assert [o for o in done if o[0] in both] == [o for o in ran[kind] if o[0] in both]
    assert ["allreduce", EVERY, 800, 800] in ran[kind]
    (line,) = step.assumed
    assert line.startswith("80 of the 160 rows of a sparse gradient are distinct")


@pytest.mark.parametrize("kind", OF_GPUS)
def test_steps_that_need_gpus(kind: str, tmp_path: Path) -> None:
    """They ask NCCL for these collectives."""
    (step,) = estimated([kind], tmp_path)
    assert [one for one in said(step) if not one[0].startswith("aten")] == ASKED[kind]


def test_what_is_not_estimated_is_refused_with_its_line(tmp_path: Path) -> None:
    """NCCL adds up no sparse gradients; fake tensors would send nothing."""
    sparse = """
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(torch.nn.Embedding(9, 4, sparse=True).cuda())

def step():
    model(torch.zeros(3, dtype=torch.long, device="cuda")).sum().backward()
"""
    with pytest.raises(EstimateError, match=r"train\.py:13: ranks add up a sparse"):
        recorded(tmp_path, sparse)
    sent = """
def step():
    torch.ops._c10d_functional.isend(torch.ones(3).cuda(), 1, 0, "0")
"""
    with pytest.raises(EstimateError, match=r"train\.py:9: what _c10d_functional::ise"):
        recorded(tmp_path, sent)


def test_averages_that_a_step_lacks_are_told(tmp_path: Path) -> None:
    """Parameters are averaged every few steps, by any backend, after a warm-up."""
    code = """
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
averager = PeriodicModelAverager(period={period}, warmup_steps=100)

def step():
    model(torch.ones(4, 4, device="cuda")).sum().backward()
    averager.average_parameters(model.parameters())
"""
    every, rare = (
        recorded(tmp_path, code.format(period=period).replace("nccl", "gloo"))
        for period in (1, 8)
    )
    called = [[o[0] for o in said(one.fake) if len(o) > 2] for one in (every, rare)]
    assert called == [["allreduce", "allreduce"], ["allreduce"]]
    (line,) = rare.unsure
    assert re.search(r"train\.py:16: parameters are averaged every 8 steps", line)
    assert every.unsure == ()


def recorded(folder: Path, code: str, ranks: int = RANKS) -> Recording:
    """A step of rank 0."""
    path = folder / "train.py"
    path.write_text(START + code)
    source = Source(f"{path}:step", (), "NVIDIA H100", Job(ranks))
    try:
        found = alone(source, None)
        assert found is not None
        return found
    finally:
        source.close()


AGREED = (
    "x = ones(3); distributed.all_reduce(x)",
    "x = 4 * ones(2); distributed.all_reduce(x, distributed.ReduceOp.MAX)",
    "y = [zeros(1)] + 3 * [zeros(1)]; distributed.all_gather(y, 4 * ones(1)); x = y[3]",
    "x = zeros(4); distributed.all_gather_into_tensor(x, 4 * ones(1))",
    "x = zeros(8); distributed.all_to_all_single(x, torch.arange(8).cuda()); x=x%2+4",
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


def test_numbers_of_ranks_that_differ_are_told(tmp_path: Path) -> None:
    """All ranks run where they can; otherwise the answer tells what is assumed."""
    code = """
def step():
    x = torch.full((), 1 + rank // 32, device="cuda", dtype=torch.long)
    distributed.all_reduce(x)
    torch.ones(int(x), device="cuda")
"""
    many = recorded(tmp_path, code, ranks=64)
    (line,) = many.unsure
    assert line.endswith("train.py:10: all ranks are assumed to have the same numbers")
    assert recorded(tmp_path, code, ranks=32).unsure == ()


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
