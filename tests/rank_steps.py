"""Training steps of four ranks, written as people write them; see `rank_job.py`."""

# Steps are as people write them, without types.
# mypy: disable-error-code="no-untyped-call, no-any-return, no-untyped-def"
# mypy: disable-error-code="attr-defined, arg-type, assignment, index, call-overload"
# mypy: disable-error-code="misc, operator, union-attr, list-item, type-arg"
# ruff: noqa: ANN001, ANN201, ANN204, SLF001

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.distributed import _functional_collectives as functional
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.distributed.nn import functional as differentiable
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleInterleavedZeroBubble,
)
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.distributed.tensor.parallel.ddp import _pre_dp_module_transform
from torch.nn import functional as F  # noqa: N812 (as PyTorch's own pages have it)
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import _MixedPrecision

with warnings.catch_warnings():
    # It is made by what PyTorch itself has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch.distributed.optim import (
        ZeroRedundancyOptimizer,
        _apply_optimizer_in_backward,
    )

dist: Any = torch.distributed
Step = Callable[[], None]
RANKS, WIDTH = 4, 64
STEPS: dict[str, Callable[[str], Step]] = {}
"""They run on a CPU, too."""
OF_GPUS: dict[str, Callable[[str], Step]] = {}
"""They need GPUs, or ask the backend and then do something else with Gloo."""


def named(make: Callable[[str], Step]) -> Callable[[str], Step]:
    """Add a step by the name of the function that makes it."""
    STEPS[make.__name__] = make
    return make


def of_gpus(make: Callable[[str], Step]) -> Callable[[str], Step]:
    """Add a step that runs on GPUs only."""
    OF_GPUS[make.__name__] = make
    return make


def layers(device: str, depth: int = 3) -> nn.Sequential:
    """Blocks of two linear layers."""
    return nn.Sequential(
        *(
            nn.Sequential(
                nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH)
            )
            for _ in range(depth)
        )
    ).to(device)


def learn(model: nn.Module, device: str) -> None:
    """Forward and backward."""
    x = torch.ones(16, WIDTH, device=device)
    model(x).square().mean().backward()


def trained(model: nn.Module, device: str, optimizer: Any = None) -> Step:  # noqa: ANN401
    """The usual step."""
    # By default, `foreach` is used on GPUs only.
    own = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)

    def step() -> None:
        own.zero_grad()
        learn(model, device)
        own.step()

    return step


@named
def plain_buckets(device: str) -> Step:
    """Small buckets that gradients lie in, and a graph that stays."""
    model = DistributedDataParallel(
        layers(device), bucket_cap_mb=0.05, gradient_as_bucket_view=True,
        static_graph=True,
    )  # fmt: skip
    return trained(model, device)


@named
def half_hook(device: str) -> Step:
    """Gradients are sent in half precision."""
    model = DistributedDataParallel(layers(device))
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return trained(model, device)


@named
def power_sgd(device: str) -> Step:
    """Gradients are sent as two matrices each."""
    model = DistributedDataParallel(layers(device))
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=2, start_powerSGD_iter=2
    )
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return trained(model, device)


@named
def own_hook(device: str) -> Step:
    """A hook by hand, with a future."""

    def hook(group, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        flat = bucket.buffer().div_(dist.get_world_size())
        work = dist.all_reduce(flat, group=group, async_op=True)
        return work.get_future().then(lambda done: done.value()[0].mul(1))

    model = DistributedDataParallel(layers(device))
    model.register_comm_hook(dist.group.WORLD, hook)
    return trained(model, device)


@named
def joined(device: str) -> Step:
    """Ranks may have other numbers of batches."""
    model = DistributedDataParallel(layers(device, 1))
    inner = trained(model, device)

    def step() -> None:
        with Join([model]):
            for _ in range(2):
                inner()

    return step


@named
def accumulated(device: str) -> Step:
    """Gradients of the first of two batches stay on the rank; the rest is clipped."""
    model = DistributedDataParallel(layers(device), find_unused_parameters=True)
    own = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)

    def step() -> None:
        own.zero_grad()
        with model.no_sync():
            learn(model, device)
        learn(model, device)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        own.step()

    return step


@named
def zero_optimizer(device: str) -> Step:
    """Each rank has the optimizer's state of some parameters."""
    model = DistributedDataParallel(layers(device), gradient_as_bucket_view=True)
    own = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.Adam, parameters_as_bucket_view=True,
        foreach=False,
    )  # fmt: skip
    return trained(model, device, own)


@named
def local_sgd(device: str) -> Step:
    """Parameters are averaged now and then."""
    model = layers(device, 1)
    inner, averager = trained(model, device), PeriodicModelAverager(period=4)

    def step() -> None:
        inner()
        averager.average_parameters(model.parameters())

    return step


@named
def sharded(device: str) -> Step:
    """Shards of uneven layers, gradients of two batches, clipped."""
    model = nn.Sequential(nn.Linear(WIDTH, 50), nn.ReLU(), nn.Linear(50, 7)).to(device)
    policy = MixedPrecisionPolicy(reduce_dtype=torch.float64)
    for layer in (model[0], model[2], model):
        fully_shard(layer, mp_policy=policy, reshard_after_forward=False)
    own = torch.optim.Adam(model.parameters(), foreach=False)

    def step() -> None:
        own.zero_grad()
        for is_last in (False, True):
            model.set_requires_gradient_sync(is_last)
            learn(model, device)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        own.step()

    return step


@named
def hybrid(device: str) -> Step:
    """Shards within two ranks, which two others repeat."""
    mesh = init_device_mesh(device, (2, 2), mesh_dim_names=("replicate", "shard"))
    model = layers(device)
    for layer in (*model, model):
        fully_shard(layer, mesh=mesh)
    return trained(model, device)


@named
def tensors_and_data(device: str) -> Step:
    """Tensor parallel within two ranks, data parallel over two of these."""
    mesh = init_device_mesh(device, (2, 2), mesh_dim_names=("data", "tensor"))
    model = layers(device, 2)
    for layer in model:
        plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        parallelize_module(layer, mesh["tensor"], plan)
    _pre_dp_module_transform(model)
    group = mesh.get_group("data")
    return trained(DistributedDataParallel(model, process_group=group), device)


class Block(nn.Module):
    """Attention by hand; tensor parallel, it has some of the heads."""

    def __init__(self):
        """Make the layers."""
        super().__init__()
        self.embed = nn.Embedding(128, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 128, bias=False)

    def forward(self, tokens):
        """Attend."""
        h = self.norm(self.embed(tokens))
        q, k, v = (
            y.view(y.shape[0], y.shape[1], -1, 16).transpose(1, 2)
            for y in (self.q(h), self.k(h), self.v(h))
        )
        y = (q @ k.transpose(-1, -2)).softmax(-1) @ v
        return self.head(self.out(y.transpose(1, 2).flatten(2)))


@named
def sequence_parallel(device: str) -> Step:
    """Norms see a part of each sequence, attention some of the heads."""
    mesh = init_device_mesh(device, (RANKS,))
    parts = {name: ColwiseParallel(input_layouts=Shard(1)) for name in "qkv"}
    model = parallelize_module(
        Block().to(device),
        mesh,
        {
            "embed": RowwiseParallel(
                input_layouts=Replicate(), output_layouts=Shard(1)
            ),
            "norm": SequenceParallel(),
            **parts,
            "out": RowwiseParallel(output_layouts=Shard(1)),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    )
    own = torch.optim.AdamW(model.parameters(), foreach=False)

    def step() -> None:
        x = torch.zeros(2, 16, dtype=torch.long, device=device)
        own.zero_grad()
        F.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
        own.step()

    return step


@named
def parallel_loss(device: str) -> Step:
    """Each rank has the scores of some words."""
    mesh = init_device_mesh(device, (RANKS,))
    model = nn.Linear(WIDTH, 128).to(device)
    plan = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
    parallelize_module(model, mesh, plan)

    def step() -> None:
        y = torch.zeros(32, dtype=torch.long, device=device)
        with loss_parallel():
            F.cross_entropy(model(torch.ones(32, WIDTH, device=device)), y).backward()

    return step


@named
def called(device: str) -> Step:
    """Collectives by hand, in groups and without."""
    me = dist.get_rank()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    across, _ = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])

    def step() -> None:
        x, into = torch.ones(64, 16, device=device), torch.empty(16, 16, device=device)
        work = dist.all_reduce(x, async_op=True)
        y = into.t() + 1
        work.wait()
        dist.all_reduce(x[:9], group=pairs[me // 2])
        dist.broadcast(y, group=across, group_src=0)
        dist.reduce_scatter_tensor(into, x)
        dist.all_gather_into_tensor(x, into)
        parts = list(x.chunk(RANKS))
        dist.all_gather(parts, into)
        dist.all_to_all(parts, [one * 2 for one in parts])
        dist.all_to_all_single(x, x + 1)
        dist.reduce(into, dst=0)
        dist.gather(into, parts if me == 0 else None, dst=0)
        dist.scatter(into, parts if me == 0 else None, src=0)
        dist.barrier()

    return step


@named
def numbers_of_ranks(device: str) -> Step:
    """Numbers that differ from rank to rank, and sizes that depend on them."""
    me = dist.get_rank()

    def told(*numbers: int) -> torch.Tensor:
        return torch.empty(len(numbers), dtype=torch.long, device=device).copy_(
            torch.tensor(numbers)
        )

    def filled(*sizes: object) -> torch.Tensor:
        return torch.ones([int(size) for size in sizes], device=device) * 2

    def step() -> None:
        most = told(me + 1, 7 - me)
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        filled(*most)
        each = [told(0) for _ in range(RANKS)]
        dist.all_gather(each, told(3 * me + 1))
        filled(sum(int(one) for one in each))
        send, got = [me + to + 1 for to in range(RANKS)], told(*range(RANKS))
        dist.all_to_all_single(got, told(*send))
        into = filled(got.sum(), 4)
        dist.all_to_all_single(into, filled(sum(send), 4), got.tolist(), send)
        passed, part, rest = told(me * 5 + 2), told(0), told(0)
        dist.broadcast(passed, src=2)
        parts = [told(9 + to) for to in range(RANKS)]
        dist.scatter(part, parts if me == 1 else None, src=1)
        dist.reduce_scatter_tensor(rest, told(*range(RANKS)) + me)
        filled(passed, part, rest)

    return step


@named
def meshes(device: str) -> Step:
    """Meshes of given ranks; a tensor is sharded by another dimension."""
    mesh = DeviceMesh(device, torch.arange(RANKS).view(2, 2), mesh_dim_names=("a", "b"))
    other = DeviceMesh(device, mesh.mesh.t().contiguous().view(-1, 2))
    column = dist.new_group(mesh.mesh[:, 0].tolist())
    model = layers(device, 2)
    for layer in model:
        fully_shard(layer, reshard_after_forward=2)
    inner = trained(fully_shard(model), device)

    def step() -> None:
        x = torch.ones(8, 12, device=device)
        dist.all_reduce(x, group=mesh.get_group("b"))
        dist.all_reduce(x[: int(mesh.mesh[1, 0])], group=other.get_group(1))
        if dist.get_rank() in (0, 2):
            dist.all_reduce(x[:1], group=column)
        torch.ops._dtensor.shard_dim_alltoall(x, 0, 1, dist.group.WORLD)
        inner()

    return step


@named
def sparse_on_host(device: str) -> Step:
    """An embedding on the host, whose sparse gradients are reduced there."""
    top = DistributedDataParallel(nn.Linear(8, 4).to(device))
    table = DistributedDataParallel(
        nn.EmbeddingBag(100, 8, mode="sum", sparse=True),
        process_group=dist.new_group(backend="gloo") if device == "cuda" else None,
    )
    own = torch.optim.SGD([*table.parameters()], lr=0.1)

    def step() -> None:
        own.zero_grad()
        top(table(torch.arange(40).view(8, 5)).to(device)).square().mean().backward()
        own.step()

    return step


@named
def functionally(device: str) -> Step:
    """The functions that compilers see."""

    def step() -> None:
        world = dist.group.WORLD
        a = functional.all_reduce(torch.ones(16, 8, device=device), "sum", world)
        b = functional.all_to_all_single(a + 1, None, None, world)
        c = functional.broadcast(b, 0, world)
        one, other = functional.all_reduce_coalesced([c, b], "sum", world)
        (one + other).sum()

    return step


@named
def objects(device: str) -> Step:
    """Python objects; collectives alone are compared."""
    me = dist.get_rank()

    def step() -> None:
        found: list = [None] * RANKS
        dist.all_gather_object(found, {"n": 3})
        into = [None]
        dist.scatter_object_list(into, [1, 2, 3, 4] if me == 0 else None, src=0)
        dist.gather_object("a", [None] * RANKS if me == 0 else None, dst=0)
        shared = ["x", {"a": 1}] if me == 0 else [None, None]
        dist.broadcast_object_list(shared, src=0)
        x = torch.ones(8, device=device) * into[0] * shared[1]["a"] * found[1]["n"]
        dist.all_reduce(x)

    return step


@named
def zero_bubbles(device: str) -> Step:
    """Two stages a rank, in an order without bubbles."""
    me = dist.get_rank()
    stages = [
        PipelineStage(
            nn.Linear(32, 32).to(device), at * RANKS + me, 2 * RANKS,
            torch.device(device),
        )
        for at in range(2)
    ]  # fmt: skip
    schedule = ScheduleInterleavedZeroBubble(stages, RANKS, loss_fn=F.mse_loss)
    return piped(schedule, me, RANKS - 1, device)


@named
def pipeline_and_data(device: str) -> Step:
    """Two stages, of which two ranks have different batches."""
    mesh = init_device_mesh(device, (2, 2), mesh_dim_names=("stage", "data"))
    at = mesh.get_local_rank("stage")
    group = mesh.get_group("data")
    net = DistributedDataParallel(nn.Linear(32, 32).to(device), process_group=group)
    stage = PipelineStage(
        net, at, 2, torch.device(device), group=mesh.get_group("stage")
    )
    return piped(Schedule1F1B(stage, RANKS, loss_fn=F.mse_loss), at, 1, device)


def piped(schedule, at: int, last: int, device: str) -> Step:
    """A step of a pipeline."""

    def step() -> None:
        given = [torch.ones(16, 32, device=device)] if at == 0 else []
        target = {"target": torch.zeros(16, 32, device=device)} if at == last else {}
        schedule.step(*given, **target)

    return step


@of_gpus
def differentiated(device: str) -> Step:
    """The gradient of gathering is a reduce-scatter, where NCCL does it."""
    w = nn.Parameter(torch.ones(16, 16, device=device))

    def step() -> None:
        w.grad = None
        parts = differentiable.all_gather(torch.ones(8, 16, device=device) @ w)
        torch.cat(tuple(parts)).sum().backward()

    return step


@of_gpus
def mixed_precision(device: str) -> Step:
    """The wrapper casts parameters on a stream of its own."""
    how = _MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    return trained(DistributedDataParallel(layers(device), mixed_precision=how), device)


@of_gpus
def bfloat_hook(device: str) -> Step:
    """Gradients are sent as bfloat16, for which PyTorch asks NCCL's version."""
    model = DistributedDataParallel(layers(device))
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    return trained(model, device)


@of_gpus
def optimized_in_backward(device: str) -> Step:
    """Parameters are updated as soon as their bucket is there."""
    model = layers(device)
    _apply_optimizer_in_backward(torch.optim.SGD, model.parameters(), {"lr": 0.1})
    model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    return lambda: learn(model, device)


@of_gpus
def fully_sharded(device: str) -> Step:
    """The first generation of sharded training."""
    model = FullyShardedDataParallel(layers(device), use_orig_params=True)
    return trained(model, device)


@of_gpus
def ring_attention(device: str) -> Step:
    """Each rank has a part of the sequence; keys and values go around."""
    mesh = init_device_mesh(device, (RANKS,))

    def step() -> None:
        sizes = 2, 4, 64, 32
        given = [
            torch.ones(sizes, dtype=torch.bfloat16, device=device) for _ in range(3)
        ]
        with context_parallel(
            mesh, buffers=given, buffer_seq_dims=[2, 2, 2], no_restore_buffers={*given}
        ):
            for one in given:
                one.requires_grad_()
            F.scaled_dot_product_attention(*given, is_causal=True).sum().backward()

    return step


@of_gpus
def coalesced(device: str) -> Step:
    """Collectives that are launched together."""

    def step() -> None:
        xs = [torch.ones(10 * at, device=device) for at in range(1, 4)]
        with dist._coalescing_manager(
            device=torch.device(device), async_ops=True
        ) as by:
            for x in xs:
                dist.all_reduce(x)
        by.wait()
        list(itertools.accumulate(x.sum() for x in xs))

    return step
