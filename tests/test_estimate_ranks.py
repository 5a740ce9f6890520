"""Estimates for several ranks: collectives, buckets and their overlap."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tracedb
from tracedb import kernels
from tracedb.cli.main import tracedb as command
from tracedb.errors import EstimateError
from tracedb.from_code.job import Job
from tracedb.from_code.program import Node
from tracedb.from_code.recordings import Recording, Source
from tracedb.kernels.relations import counted
from tracedb.kernels.shape_times import shape_times

distributed: Any = torch.distributed
"""Its type stubs lack some exports."""
SIZES = [600, 1500, 2500, 1000, 700, 9]
MODEL = f"""
import os
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

sizes = {SIZES}
layers = [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]
net = nn.Sequential(*layers, nn.BatchNorm1d(sizes[-1])).cuda()
"""
STEP = """
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def step(batch: int = 64):
    x = torch.randn(batch, sizes[0], device="cuda")
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()
"""
OWN = """
distributed.init_process_group("nccl")
place = int(os.environ.get("LOCAL_RANK", 0))
assert (distributed.get_rank(), distributed.get_world_size()) == (place, 8)
net = DistributedDataParallel(net, device_ids=[place])
"""
BATCH = """distributed.batch_isend_irecv(
        [distributed.P2POp(distributed.isend, given, 1)])"""
CALLS = """
import torch
from torch import distributed

distributed.init_process_group(backend="nccl", init_method="env://")
some = distributed.new_group([0, 2, 4])
others = distributed.new_group([1, 3])
assert distributed.get_rank(others) == -1
# Their names since PyTorch 2.13, and before.
gather = getattr(distributed, "all_gather_single", None)
gather = gather or distributed.all_gather_into_tensor
scatter = getattr(distributed, "reduce_scatter_single", None)
scatter = scatter or distributed.reduce_scatter_tensor
given, made = torch.randn(80, 3).cuda(), torch.zeros(80, 3).cuda()


def step(batch: int = 1):
    {calls}
"""


PIPELINE = """
import torch
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

distributed.init_process_group("nccl")
rank, world = distributed.get_rank(), distributed.get_world_size()
device = torch.device("cuda", rank)
net = nn.Linear(64, 64).to(device)
stage = PipelineStage(net, rank, world, device)
schedule = ScheduleGPipe(stage, 4, loss_fn=nn.functional.mse_loss)


def step(batch: int = 32):
    target = torch.randn(batch, 64, device=device)
    given = [torch.randn(batch, 64, device=device)] if rank == 0 else []
    # The last stage computes the loss.
    schedule.step(*given, **({"target": target} if rank == world - 1 else {}))
"""


def script(folder: Path, text: str) -> str:
    """Write a program to a file, and name its function."""
    path = folder / "train.py"
    path.write_text(text)
    return f"{path}:step"


@contextmanager
def recorded(folder: Path, text: str, ranks: int | None = 8) -> Iterator[Recording]:
    """A step, recorded on fake tensors."""
    source = Source(script(folder, text), (), "NVIDIA H100", Job(ranks))
    try:
        yield source.at(None)
    finally:
        source.close()


def messages(nodes: list[Node]) -> list[tuple[str, int | None, int | None]]:
    """Each collective's name, group size and element count."""
    return [
        (node.message["Collective name"],
         node.message.get("Group size"), node.message.get("In msg nelems"))
        for node in nodes if node.message
    ]  # fmt: skip


def real_buckets() -> list[int]:
    """Bucket sizes of a real model's third step, in order."""
    net = nn.Sequential(*(nn.Linear(a, b) for a, b in itertools.pairwise(SIZES)))
    sizes: list[int] = []

    def hook(_: object, bucket: Any) -> torch.futures.Future[Any]:  # noqa: ANN401
        sizes.append(bucket.buffer().numel())
        done: torch.futures.Future[Any] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    # PyTorch expects types there; here they are strings.
    hook.__annotations__.clear()
    distributed.init_process_group(
        "gloo", store=distributed.HashStore(), rank=0, world_size=1
    )
    try:
        model = DistributedDataParallel(net)
        model.register_comm_hook(None, hook)
        for _ in range(3):
            sizes.clear()
            model(torch.randn(2, SIZES[0])).sum().backward()
    finally:
        distributed.destroy_process_group()
    return sizes


def test_buckets_match_those_of_ddp(tmp_path: Path) -> None:
    """Bucket sizes equal those of a real DDP model after its first step."""
    text = MODEL.replace(", nn.BatchNorm1d(sizes[-1])", "") + STEP
    with recorded(tmp_path, text) as step:
        sent = [size for kind, _, size in messages(step.nodes) if kind == "allreduce"]
    assert sent == real_buckets()
    assert len(sent) > 1


def test_code_without_ranks_gets_ddp(tmp_path: Path) -> None:
    """Code without DDP gets the same ops as code that wraps its model itself."""
    with recorded(tmp_path, MODEL + OWN + STEP) as own:
        wrapped = [(op.name, op.arguments) for op in own.fake.ops.values()]
        assert own.source == "one of 8 ranks: its own collectives"
    with recorded(tmp_path, MODEL + STEP) as plain:
        averaged = [(op.name, op.arguments) for op in plain.fake.ops.values()]
    assert plain.source.startswith("one of 8 ranks: gradients are averaged")
    assert averaged == wrapped
    count = sum(a * b + b for a, b in itertools.pairwise(SIZES))
    sent = messages(plain.nodes)
    reduced = sum(size or 0 for kind, _, size in sent if kind == "allreduce")
    assert reduced == count + 2 * SIZES[-1]
    # The norm's buffers are broadcast.
    assert ("broadcast", 8, 2 * SIZES[-1]) in sent
    assert plain.memory.by_kind["bucket"] >= 4 * count


def test_collectives_overlap_the_backward_pass(tmp_path: Path) -> None:
    """Collectives start during the backward pass and end before the optimizer."""
    found = tracedb.estimate(
        script(tmp_path, MODEL + STEP), gpu="H100", batch=2048, ranks=8
    )
    with found.database as database:
        rows = database.sql(
            "SELECT name, start_ns, end_ns FROM staging.gpu_op ORDER BY gpu_op_id"
        ).rows()
        sizes = database.sql("FROM question.collective_kernel").rows(named=True)
    for step in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
        reduces = [row for row in step if "AllReduce" in row[0]]
        products = [row for row in step if "gemm" in row[0]]
        updates = [row for row in step if row[0].startswith("_foreach_add")]
        assert reduces[0][1] < products[-1][2]
        assert max(end for *_, end in reduces) <= updates[0][1]
        for one, following in itertools.pairwise(reduces):
            assert one[2] <= following[1]
    assert {row["group_size"] for row in sizes} == {8}
    assert found.source.startswith("one of 8 ranks")


def test_collectives_are_part_of_a_cuda_graph(tmp_path: Path) -> None:
    """The step is one launch, and collectives overlap the backward pass."""
    step = script(tmp_path, MODEL + STEP)
    found = tracedb.estimate(step, gpu="H100", batch=2048, ranks=8, cuda_graph=True)
    with found.database as database:
        works = database.sql(
            "SELECT name, start_ns, end_ns, is_collective FROM staging.gpu_op "
            "ORDER BY gpu_op_id"
        ).rows()
        launches = database.sql("SELECT name FROM staging.call").to_series()
    assert launches.to_list() == ["cudaGraphLaunch"] * 2
    works = works[: len(works) // 2]
    reduces = [work for work in works if "AllReduce" in work[0]]
    products = [work for work in works if "gemm" in work[0]]
    updates = [work for work in works if work[0].startswith("_foreach_add")]
    assert reduces[0][1] < products[-1][2]
    assert max(work[2] for work in reduces) <= updates[0][1]


def test_a_sweep_over_batches_with_ranks(tmp_path: Path) -> None:
    """Each row equals the estimate at that batch size."""
    step = script(tmp_path, MODEL + STEP)
    told: list[str] = []
    frame = tracedb.estimate_sweep(
        step, gpus=["H100"], batches=[64, 256, 1024], ranks=4, tell=told.append
    )
    alone = tracedb.estimate(step, gpu="H100", batch=256, ranks=4)
    assert frame["step_ns"].to_list()[1] == alone.step_ns
    assert frame["peak_bytes"].to_list()[1] == alone.memory.peak_bytes
    assert told == []


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ("distributed.all_reduce(given)", [("allreduce", 8, 240), ("wait",)]),
        (
            "distributed.all_reduce(given, group=some)",
            [("allreduce", 3, 240), ("wait",)],
        ),
        (
            "distributed.all_reduce(given, async_op=True).wait()",
            [("allreduce", 8, 240), ("wait",)],
        ),
        (
            "distributed.all_to_all_single(made, given)",
            [("all_to_all", 8, 240), ("wait",)],
        ),
        (
            "gather(made, given[:10])",
            [("_allgather_base", 8, 30), ("wait",)],
        ),
        (
            "distributed.all_gather([made[:8]] * 8, given[:8])",
            [("allgather", 8, 24), ("wait",)],
        ),
        (
            "scatter(made[:10], given)",
            [("_reduce_scatter_base", 8, 240), ("wait",)],
        ),
        ("distributed.broadcast(given, src=0)", [("broadcast", 8, 240), ("wait",)]),
        ("distributed.send(given, dst=1)", [("send", 8, 240), ("wait",)]),
        ("distributed.recv(made, src=1)", [("recv", 8, 240), ("wait",)]),
        ("distributed.all_reduce(torch.zeros(3))", []),
        ("distributed.barrier()", []),
        (
            "distributed.all_gather_object([None] * 8, 'text')",
            [("allgather", 8, 1), ("wait",), ("allgather", 8, 19), ("wait",)],
        ),
    ],
)
def test_collectives_called_by_code(
    calls: str, expected: list[tuple[str, ...]], tmp_path: Path
) -> None:
    """Kinds, group sizes and element counts are those of the call."""
    with recorded(tmp_path, CALLS.format(calls=calls)) as step:
        found = messages(step.nodes)
    assert [one if one[0] != "wait" else one[:1] for one in found] == expected


@pytest.mark.parametrize(
    "calls",
    [
        "distributed.send(given, dst=1)",
        "distributed.irecv(made, src=1).wait()",
        BATCH,
    ],
)
def test_messages_to_another_rank_are_unsure(calls: str, tmp_path: Path) -> None:
    """The answer names their line, because the other rank does not run."""
    with recorded(tmp_path, CALLS.format(calls=f"for _ in 1, 2: {calls}")) as step:
        (line,) = step.unsure
    assert re.match(rf"{tmp_path / 'train.py'}:1[89]: (send|recv): ", line)
    assert "idle time in a pipeline is missing" in line


def test_messages_from_any_rank_are_rejected(tmp_path: Path) -> None:
    """One line says what to write instead."""
    text = CALLS.format(calls="distributed.recv(made)")
    with (
        pytest.raises(EstimateError, match=r"train\.py:18: .* give its rank: src="),
        recorded(tmp_path, text),
    ):
        pass


def test_collectives_are_not_unsure(tmp_path: Path) -> None:
    """All ranks of a collective call it."""
    text = CALLS.format(calls="distributed.all_reduce(given)")
    with recorded(tmp_path, text) as step:
        assert step.unsure == ()


def test_pipeline_schedules_are_rejected(tmp_path: Path) -> None:
    """One line names the user's line and what is not supported."""
    with (
        pytest.raises(
            EstimateError, match=r"train\.py:18: .* not supported"
        ) as refused,
        recorded(tmp_path, PIPELINE),
    ):
        pass
    assert "\n" not in str(refused.value)
    assert not distributed.is_initialized()


def test_the_state_of_random_numbers_can_be_kept(tmp_path: Path) -> None:
    """`fork_rng` and `get_rng_state` work without a GPU."""
    calls = (
        "torch.cuda.set_rng_state(torch.cuda.get_rng_state())\n"
        "    with torch.random.fork_rng([0]): distributed.all_reduce(given)"
    )
    with recorded(tmp_path, CALLS.format(calls=calls)) as step:
        assert [kind for kind, *_ in messages(step.nodes)] == ["allreduce", "wait"]


def test_readers_wait_for_an_async_collective(tmp_path: Path) -> None:
    """Without `wait()`, the first op that reads the result waits; views do not."""
    calls = (
        "distributed.all_reduce(given, async_op=True); made + 1; given[:3]; given * 2"
    )
    with recorded(tmp_path, CALLS.format(calls=calls)) as step:
        waiting = [op.name for op in step.fake.ops.values() if op.awaits]
    assert waiting == ["aten::mul"]


def test_code_may_check_for_a_launcher(tmp_path: Path) -> None:
    """Launcher variables such as RANK are set only when ranks are given."""
    looking = (
        'if int(os.environ.get("RANK", -1)) >= 0:\n'
        '    distributed.init_process_group("nccl")\n'
        "    net = DistributedDataParallel(net)\n"
    )
    with recorded(tmp_path, MODEL + looking + STEP, ranks=None) as alone:
        assert alone.source == ""
        assert messages(alone.nodes) == []
    with recorded(tmp_path, MODEL + looking + STEP) as several:
        assert several.source == "one of 8 ranks: its own collectives"


def test_missing_ranks_are_reported(tmp_path: Path) -> None:
    """Code with collectives needs `--ranks`."""
    found = CliRunner().invoke(
        command, ["estimate", script(tmp_path, MODEL + OWN + STEP), "--gpu", "H100"]
    )
    assert found.exit_code == 2
    line = found.stderr.strip()
    assert "train.py:" in line
    assert "--ranks N" in line
    assert "\n" not in line


def test_the_output_has_the_number_of_ranks(tmp_path: Path) -> None:
    """Text and JSON give the number of ranks."""
    step = script(tmp_path, CALLS.format(calls="distributed.all_reduce(given)"))
    told = CliRunner().invoke(
        command, ["estimate", step, "--gpu", "A100", "--ranks", "8"]
    )
    assert told.exit_code == 0, told.output
    assert "one of 8 ranks: its own collectives" in told.stdout
    told = CliRunner().invoke(
        command,
        ["estimate", step, "--gpu", "A100", "--ranks", "8", "--format", "json"],
    )
    assert json.loads(told.stdout)["source"] == "one of 8 ranks: its own collectives"


def test_an_estimate_leaves_no_state(tmp_path: Path) -> None:
    """The process group, environment and patched classes are restored."""
    before = dict(os.environ)
    kept = (distributed.Reducer, distributed.init_process_group, sys.excepthook)
    made = DistributedDataParallel.__init__
    model = nn.Linear(4, 4)
    for _ in range(2):
        tracedb.estimate(
            lambda: model(torch.randn(2, 4)).sum().backward(), gpu="A100", ranks=2
        )
        tracedb.estimate(script(tmp_path, MODEL + OWN + STEP), gpu="A100", ranks=8)
    assert not distributed.is_initialized()
    assert dict(os.environ) == before
    assert kept == (distributed.Reducer, distributed.init_process_group, sys.excepthook)
    assert DistributedDataParallel.__init__ is made
    # The reducer's hooks are removed: a real step works.
    model(torch.randn(2, 4)).sum().backward()
    assert model.weight.grad is not None


def test_a_rank_alone_sends_nothing(tmp_path: Path) -> None:
    """In a group of one rank, NCCL has no kernels; a gather copies."""
    alone = """
distributed.init_process_group("nccl", rank=0, world_size=1)
net = DistributedDataParallel(net, device_ids=[0])
"""
    gathering = """
    distributed.all_gather([torch.empty_like(x)], x)
"""
    begin = MODEL + alone + STEP
    shared = tracedb.estimate(script(tmp_path, begin), gpu="A100")
    names = "SELECT name FROM staging.gpu_op WHERE name LIKE '%nccl%'"
    assert shared.database.connection.sql(names).fetchall() == []
    more = tracedb.estimate(script(tmp_path, begin + gathering), gpu="A100")
    assert more.kernel_count == shared.kernel_count + 1


def test_a_rank_of_a_real_job_is_left_alone() -> None:
    """An existing process group is an error, and stays initialized."""
    distributed.init_process_group(
        "gloo", store=distributed.HashStore(), rank=0, world_size=1
    )
    try:
        with pytest.raises(EstimateError, match="a rank of a job"):
            tracedb.estimate(lambda: torch.randn(3).sum(), gpu="A100", ranks=4)
        assert distributed.is_initialized()
    finally:
        distributed.destroy_process_group()


def leaving(op: str, ranks: int, per_node: int, size: int) -> float:
    """[B] Bytes per rank that leave a node, counted message by message."""
    piece, crossing = size / ranks, 0.0
    neighbours = [(rank, (rank + 1) % ranks) for rank in range(ranks)]
    pairs = list(itertools.permutations(range(ranks), 2))
    turns = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
    sent = turns[op] * (ranks - 1) * neighbours if op in turns else pairs
    for sender, receiver in sent:
        crossing += piece * (sender // per_node != receiver // per_node)
    return crossing / ranks


@pytest.mark.parametrize(
    "op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
)
def test_network_bytes_match_a_count_of_messages(op: str) -> None:
    """A ring crosses once per node; an all-to-all crosses for each pair."""
    layouts = [(2, 1), (4, 2), (16, 8), (24, 8), (64, 8), (8, 8)]
    asked = pl.DataFrame(
        [(op, n, g, 1 << 20) for n, g in layouts],
        ["op", "ranks", "ranks_per_node", "bytes"],
        orient="row",
    )
    found = counted("prediction.op_collective", asked)["network_bytes"].to_list()
    assert found == pytest.approx(
        [leaving(op, n, g, 1 << 20) for n, g in layouts], abs=1
    )


OVER_NODES = """
across = distributed.new_group([0, 8])
within = distributed.new_group([0, 1])


def every(batch: int = 1):
    distributed.all_reduce(given)
    distributed.all_reduce(given, group=across)
    distributed.all_reduce(given, group=within)
    distributed.all_to_all_single(made, given)


step = every
"""


def test_collectives_across_nodes(tmp_path: Path) -> None:
    """Each group's time and node count follow from the nodes of its ranks."""
    text = CALLS.format(calls="pass").replace("(80, 3)", "(1 << 20, 16)") + OVER_NODES
    step = script(tmp_path, text)
    found = tracedb.estimate(step, gpu="H100", ranks=16)
    with found.database as database:
        times = database.sql(
            "SELECT (end_ns - start_ns) FROM staging.gpu_op "
            "WHERE is_collective ORDER BY gpu_op_id LIMIT 4"
        ).to_series()
        nodes = database.sql(
            "SELECT node_count FROM question.collective_kernel "
            "ORDER BY gpu_op_id LIMIT 4"
        ).to_series()
        known = kernels.shipped(database.connection)
    layouts = [("all_reduce", 16, 8), ("all_reduce", 2, 1), ("all_reduce", 2, 2)]
    layouts.append(("all_to_all", 16, 8))
    asked = pl.DataFrame(
        [("H100", "collective", *of, "bytes", 64 << 20) for of in layouts],
        ["hardware", "family", "op", "ranks", "ranks_per_node", "dtype", "bytes"],
        orient="row",
    )
    assert times.to_list() == pytest.approx(
        shape_times(known, asked)["ns"].to_list(), rel=1e-3
    )
    assert nodes.to_list() == [2, 2, 1, 2]
    assert found.source == "one of 16 ranks on 2 nodes: its own collectives"
    slower = tracedb.estimate(step, gpu="H100", ranks=16, network=4.5)
    assert found.links is not None
    assert found.links.network_bytes_per_second == 45e9
    assert slower.links is not None
    assert slower.links.network_bytes_per_second == 4.5e9
    # Network time dominates.
    assert slower.step_ns > 5 * found.step_ns
    one = tracedb.estimate(step, gpu="H100", ranks=16, ranks_per_node=16)
    assert one.links is None
    assert one.step_ns < found.step_ns


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--ranks", "12"), "do not fill whole nodes of 8"),
        (("--ranks", "16", "--network", "0"), "network is 0.0"),
    ],
)
def test_layouts_that_do_not_fill_nodes_are_refused(
    words: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    """They give one line and exit code 2."""
    step = script(tmp_path, CALLS.format(calls="pass"))
    told = CliRunner().invoke(command, ["estimate", step, "--gpu", "A100", *words])
    assert told.exit_code == 2
    assert expected in told.stderr
    assert len(told.stderr.splitlines()) == 1
