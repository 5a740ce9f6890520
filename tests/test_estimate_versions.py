"""Estimates with other versions of PyTorch, whose classes differ a little."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import FunctionType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch", reason="estimates need tracedb[record]")

from torch import Tensor, distributed, nn  # noqa: E402  only where PyTorch is
from torch.distributed import device_mesh  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from tracedb.from_code import fake_mesh  # noqa: E402
from tracedb.from_code.composed import parts  # noqa: E402
from tracedb.from_code.fake_cuda import Stream  # noqa: E402
from tracedb.from_code.fake_run import FakeRun  # noqa: E402
from tracedb.from_code.job import Job  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

GPU = "NVIDIA H100"


class OlderMesh:
    """A mesh of PyTorch 2.6: the numbers of its ranks are an attribute."""

    def __init__(self, mesh: Tensor) -> None:
        """Keep the numbers."""
        if mesh.device.type != "cpu":
            raise ValueError("`mesh` must be a CPU tensor")
        self.mesh = mesh.detach().to(dtype=torch.int)


def older_mesh(count: int) -> OlderMesh:
    """Make a mesh as PyTorch 2.6 does: one op on the numbers is its own."""
    with torch.device("cpu"):
        numbers = torch.arange(count, dtype=torch.int).view(2, -1)
    return OlderMesh(numbers)


@contextmanager
def one_of_two_ranks() -> Iterator[None]:
    """Run the block on fake tensors, in a process group of NCCL."""
    run = FakeRun(GPU, Job(2))
    try:
        with run.inside():
            distributed.init_process_group("nccl")
            yield
    finally:
        run.end()


def test_ranks_of_a_mesh_may_be_an_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are known on the host, and the attribute is restored."""
    monkeypatch.setattr(fake_mesh, "DeviceMesh", OlderMesh)
    before = OlderMesh(torch.tensor([3, 5]))
    with FakeRun(GPU).inside():
        made = OlderMesh(torch.tensor([7, 9]))
        assert (before.mesh.tolist(), made.mesh.tolist()) == ([3, 5], [7, 9])
    assert (before.mesh.tolist(), made.mesh.tolist()) == ([3, 5], [7, 9])
    assert "mesh" not in vars(OlderMesh)


def test_a_mesh_is_made_of_real_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ops PyTorch numbers the ranks with: they are on no GPU."""
    monkeypatch.setattr(fake_mesh, "DeviceMesh", OlderMesh)
    # Its code looks up `torch` where PyTorch's own does.
    made_there: dict[str, Any] = vars(device_mesh)
    code = older_mesh.__code__
    monkeypatch.setitem(made_there, "OlderMesh", OlderMesh)
    older = FunctionType(code, made_there)
    monkeypatch.setattr(device_mesh, "init_device_mesh", older)
    monkeypatch.setattr(distributed, "init_device_mesh", older)
    importing = ModuleType("importing")  # as PyTorch's sharded models do
    monkeypatch.setitem(sys.modules, "importing", importing)
    monkeypatch.setattr(importing, "init_device_mesh", older, raising=False)
    with FakeRun(GPU).inside():
        for module in (device_mesh, distributed, importing):
            made: Any = module.init_device_mesh
            assert made(4).mesh.tolist() == [[0, 1], [2, 3]]


def test_a_group_is_asked_for_hooks_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch 2.6 asks each group that is called NCCL's, which needs a real one."""
    real: Any = distributed.ProcessGroup
    monkeypatch.setattr(real, "_has_hooks", lambda _: pytest.fail("not a real one"))
    with one_of_two_ranks():
        group: Any = distributed.group.WORLD
        assert group.name() == "nccl"
        assert not group._has_hooks()  # noqa: SLF001 (as PyTorch asks)


def test_models_need_no_argument_to_skip_their_first_broadcast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`init_sync` came after PyTorch 2.6."""
    usual: Any = DistributedDataParallel.__init__

    def older(model: DistributedDataParallel, module: nn.Module) -> None:
        """Take only what older versions take."""
        usual(model, module)

    monkeypatch.setattr(DistributedDataParallel, "__init__", older)
    with one_of_two_ranks():
        assert isinstance(DistributedDataParallel(nn.Linear(4, 2)), nn.Module)


def called(name: str) -> Any:  # noqa: ANN401 (a function)
    """What is called in place of an op of sharded models."""
    schema = SimpleNamespace(name=f"fsdp::{name}")
    op = SimpleNamespace(namespace="fsdp", _schema=schema)
    recorder: Any = None
    return parts(op, recorder)


def test_sharded_models_put_gradients_of_several_types_side_by_side() -> None:
    """The ops that PyTorch 2.15 has for that."""
    given = [torch.ones(4, 3), torch.full((2,), 2.0)]
    for last in (torch.float32, torch.bfloat16):
        out = torch.empty(2, 7)
        called("chunk_cat_mixed_dtype")([given[0], given[1].to(last)], 0, 2, out=out)
        assert out.tolist() == [[1.0] * 6 + [2.0]] * 2
    stream = Stream()
    told = (stream.stream_id, stream.device_index, stream.device_type)
    assert called("record_grad_output_stream")(given[0], *told) is None
