"""Steps of several real ranks: the ops and collectives that they run, and estimates.

    python tests/rank_job.py [STEP ...]

compares the steps of `rank_steps.py`. Four ranks run on the CPU, where Gloo moves their
data; each notes what its groups are asked for, which NCCL is asked for just as well.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from difflib import unified_diff
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from allocator import real_peak
from forked import run_ranks
from rank_steps import OF_GPUS, RANKS, STEPS
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from whole_ops import computes

from tracedb.errors import EstimateError
from tracedb.from_code.estimation import alone
from tracedb.from_code.fake_run import FakeStep
from tracedb.from_code.job import Job
from tracedb.from_code.job_run import record_job
from tracedb.from_code.ops import Shape
from tracedb.from_code.recordings import Source
from tracedb.from_code.tensors import tensors_of

distributed: Any = torch.distributed
"""Its type stubs lack some exports."""
LATE = timedelta(seconds=120)
IN_PLACE = ("allreduce", "allreduce_coalesced", "broadcast", "reduce")
INTO_ANOTHER = {
    "allgather": "allgather",
    "_allgather_base": "_allgather_base",
    "all_gather_single": "_allgather_base",
    "allgather_into_tensor_coalesced": "_allgather_base",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "_reduce_scatter_base",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced": "_reduce_scatter_base",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "all_to_all_single": "all_to_all",
    "gather": "gather",
    "scatter": "scatter",
}
"""Methods of process groups, and what a profiler calls them."""
COPYING = {
    f"_c10d_functional::{kind}"
    for kind in ("all_reduce", "all_reduce_coalesced", "broadcast")
}
"""Ops that copy their tensors, which nothing tells a dispatch mode."""
_KEYS = {
    "fsdp": torch._C.DispatchKey.CPU,  # noqa: SLF001 (it has no public name)
    "_dtensor": torch._C.DispatchKey.CompositeExplicitAutograd,  # noqa: SLF001
}
"""Namespaces of ops that consist of others, and where these are called."""
LEFT_OUT = {
    # Objects become tensors, and sizes are looked at, by other ops on a GPU.
    "objects": ("aten::zeros", "aten::gt", "aten::cat"),
    # A dispatch mode sees no cast within an op of a wrapper.
    "parallel_loss": ("aten::_to_copy",),
    # Nor does it see how a tensor becomes contiguous below autograd.
    "meshes": ("aten::clone",),
    # Lists are copied from the GPU.
    "numbers_of_ranks": ("aten::_to_copy",),
}
"""Ops of steps that are not compared."""
SCRIPT = """
import rank_steps
from torch import distributed

distributed.init_process_group("nccl")
every = rank_steps.STEPS | rank_steps.OF_GPUS
steps = [every[kind]("cuda") for kind in {kinds!r}]


def step():
    for one in steps:
        one()
"""


class _Over(distributed.Work):  # type: ignore[misc]
    """A collective that is over, as NCCL's are for the host."""

    def __init__(self, made: object) -> None:
        super().__init__()
        self._made: list[torch.Tensor] = [*tensors_of(made)]

    def wait(self, *_: object) -> bool:
        # Autograd adds in place to what nobody else holds.
        self._made = []
        return True

    def get_future(self) -> torch.futures.Future[Any]:
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(self._made)
        return future


class _Noting(distributed.ProcessGroup):  # type: ignore[misc]
    """A process group of Gloo that notes what it is asked for."""

    # Each message of a batch is noted.
    supports_coalescing = supports_splitting = False

    def __init__(self, asked: Any) -> None:  # noqa: ANN401 (it has no public name)
        super().__init__(asked.group_rank, asked.group_size)
        self._name = str(asked.group_id)
        self.ranks = [*asked.global_ranks_in_group] or [*range(RANKS)]
        store, *place = asked.store, asked.group_rank, asked.group_size
        gloo = distributed.ProcessGroupGloo(store, *place, LATE)
        kind = distributed.ProcessGroup.BackendType.GLOO
        self._real = distributed.ProcessGroup(store, *place)
        self._real._register_backend(torch.device("cpu"), kind, gloo)  # noqa: SLF001
        self._real._set_default_backend(kind)  # noqa: SLF001 (they have no public name)
        self._last: object = None

    @property
    def group_name(self) -> str:
        return self._name

    def getBackendName(self) -> str:  # noqa: N802 (as PyTorch has it)
        return "noting"

    def _get_backend(self, _device: object) -> _Noting:
        return self

    def asked(self, noted: list[Any], name: str, made: object, *args: object) -> object:
        """Note a collective, and run it."""
        _Ops.done.append(noted)
        with _disable_current_modes():
            # C++ calls without owning what is returned.
            self._last = getattr(self._real, name)(made, *args)
            if name not in ("send", "recv"):
                self._last.wait()  # type: ignore[attr-defined]
                self._last = _Over(made)
        return self._last

    def barrier(self, opts: object) -> object:
        return self._real.barrier(opts)


class _Silent(_Noting):
    """A process group that sends nothing, and so holds nothing, as NCCL's."""

    def __init__(self, asked: Any) -> None:  # noqa: ANN401
        distributed.ProcessGroup.__init__(self, asked.group_rank, asked.group_size)
        self._name = str(asked.group_id)
        self.ranks = [*asked.global_ranks_in_group] or [*range(RANKS)]

    def asked(self, noted: list[Any], name: str, made: object, *args: object) -> object:
        """Let results have the values that they happen to have."""
        del noted, name, args
        self._last = _Over(made)
        return self._last

    def barrier(self, opts: object) -> object:
        """Wait for nobody."""
        del opts
        return _Over([])


def _elements(tensors: object) -> int:
    return sum(one.numel() for one in tensors_of(tensors))


def _noting(name: str, kind: str, *, is_in_place: bool) -> Callable[..., object]:
    def call(group: _Noting, made: Any, *args: Any) -> object:  # noqa: ANN401
        given = made if is_in_place else args[0]
        noted = [kind, group.ranks, _elements(given), _elements(made)]
        return group.asked(noted, name, made, *args)

    return call


def _passing(name: str) -> Callable[..., object]:
    def call(group: _Noting, tensors: Any, peer: int, *args: Any) -> object:  # noqa: ANN401
        ends = [group.ranks[group.rank()], group.ranks[peer]]
        ends = ends if name == "send" else ends[::-1]
        noted = [name, ends, _elements(tensors), _elements(tensors)]
        return group.asked(noted, name, tensors, peer, *args)

    return call


for _name in IN_PLACE:
    setattr(_Noting, _name, _noting(_name, _name, is_in_place=True))
for _name, _kind in INTO_ANOTHER.items():
    setattr(_Noting, _name, _noting(_name, _kind, is_in_place=False))
for _name in ("send", "recv"):
    setattr(_Noting, _name, _passing(_name))


class _Ops(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lists the ops that compute, and the collectives among them."""

    done: list[list[Any]] = []  # noqa: RUF012 (of a process)

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 (whatever is dispatched)
        types: Iterable[type],
        args: Any = (),  # noqa: ANN401
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Note an op, or those that it consists of."""
        kwargs = kwargs or {}
        if any(hasattr(kind, "__tensor_flatten__") for kind in types):
            return NotImplemented
        name = func._schema.name  # noqa: SLF001 (it has no public name)
        if func.namespace in {"fsdp", "_dtensor"}:
            with self:
                return func._op_dk(_KEYS[func.namespace], *args, **kwargs)  # noqa: SLF001
        if name in COPYING:
            copied = tensors_of(args[0])
            self.done.extend(["aten::clone", [list(one.shape)]] for one in copied)
        if func.namespace == "aten" and computes(name):
            shapes = (list(t.shape) for t in args if isinstance(t, torch.Tensor))
            self.done.append([name, _sizes(shapes)])
        return func(*args, **kwargs)


def _sizes(shapes: Iterable[list[int]]) -> list[list[int]]:
    """Sizes that differ from those before, but for numbers."""
    return [shape for shape, _ in groupby(shapes) if shape]


def _begin(rank: int, folder: Path, kind: type[_Noting]) -> None:
    """Become one of the ranks, by groups of a kind."""
    torch.set_num_threads(1)
    os.environ |= {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(RANKS)}
    distributed.Backend.register_backend(
        "noting",
        lambda asked, _options: kind(asked),
        extended_api=True,
        devices=["cpu"],
    )
    store = distributed.FileStore(f"{folder}/{kind.__name__}", RANKS)
    distributed.init_process_group("noting", store=store, rank=rank, world_size=RANKS)


def _hold(folder: Path, kinds: list[str]) -> None:
    """Run the steps as rank 0, without the others, and note the peaks of memory."""
    _begin(0, folder, _Silent)
    # They would wait for the others.
    distributed._verify_params_across_processes = lambda *_: None  # noqa: SLF001
    # Some hooks leave reference cycles, which are collected between steps only.
    gc.disable()
    found = {}
    for kind in kinds:
        gc.collect()
        found[kind] = real_peak(partial(STEPS[kind], "cpu"), folder, before=3)
    Path(folder, "peaks.json").write_text(json.dumps(found))


def _rank(rank: int, folder: Path, kinds: list[str]) -> None:
    """Run the steps as one of the ranks."""
    _begin(rank, folder, _Noting)
    found = {}
    for kind in kinds:
        step = STEPS[kind]("cpu")
        for _ in range(3):
            step()
        _Ops.done.clear()
        with _Ops():  # type: ignore[no-untyped-call]
            step()
        found[kind] = [*_Ops.done]
    distributed.barrier()
    Path(folder, f"{rank}.json").write_text(json.dumps(found))


def real(kinds: Iterable[str], folder: Path) -> list[dict[str, list[list[Any]]]]:
    """What each of the real ranks did in each step."""
    _run("--real", folder, kinds)
    return [
        json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(RANKS)
    ]


def peaks(kinds: Iterable[str], folder: Path) -> dict[str, int]:
    """[B] What the CPU's allocator holds at most in each step of rank 0."""
    _run("--peaks", folder, kinds)
    found: dict[str, int] = json.loads(Path(folder, "peaks.json").read_text())
    return found


def _run(how: str, folder: Path, kinds: Iterable[str]) -> None:
    program = [sys.executable, __file__, how, str(folder), *kinds]
    ran = subprocess.run(  # noqa: S603 (this program)
        program, check=False, timeout=500, capture_output=True, text=True
    )
    if ran.returncode:
        raise RuntimeError(ran.stderr)


def estimated(kinds: Iterable[str], folder: Path) -> list[FakeStep]:
    """The same steps of rank 0, or of all ranks if they send to one another."""
    path = folder / "train.py"
    path.write_text(SCRIPT.format(kinds=[*kinds]))
    job = Job(RANKS)
    source = Source(f"{path}:step", (), "NVIDIA H100", job)
    try:
        first = alone(source, None)
        if first is not None:
            return [first.fake]
    finally:
        source.close()
    ranks: Any = record_job(f"{path}:step", (), "NVIDIA H100", job, None).ranks
    return [rank.fake for rank in ranks]


def said(step: FakeStep) -> Iterator[list[Any]]:
    """The ops and collectives of an estimate."""
    for op in step.ops.values():
        called = op.called
        if called is None:
            if op.name.startswith("aten::") and computes(op.name):
                shapes = (one for one in op.arguments if isinstance(one, Shape))
                yield [op.name, _sizes([*one.dims] for one in shapes)]
        elif called.kind != "wait":
            ranks: list[Any] = [*called.members] or [*range(RANKS)]
            if called.is_between_two:
                ranks = [called.sender, called.receiver]
            given: Any = op.arguments[0] if op.arguments else []
            yield [
                called.kind,
                ranks,
                *(sum(shape.elements for shape in of) for of in (given, op.results)),
            ]


def listed(kind: str, done: Iterable[list[Any]]) -> list[str]:
    """What a rank did, as lines; indices that are a mask fill by it."""
    lines: list[str] = []
    for name, *more in done:
        if name in {"aten::index_put_", "aten::masked_fill_"}:
            lines.append(f"filled {more[0][0]}")
        elif name not in LEFT_OUT.get(kind, ()):
            lines.append(json.dumps([name, *more]))
    # Some schedules of pipelines have sets of parameters, whose order is any.
    runs = groupby(lines, key=lambda line: line.startswith('["aten::add_"'))
    return [one for is_any, run in runs for one in (sorted(run) if is_any else run)]


def differences(kind: str, ran: list[list[Any]], step: FakeStep) -> list[str]:
    """The ops of a real rank that an estimate has not (-), and the other way (+)."""
    found = unified_diff(listed(kind, ran), listed(kind, said(step)), lineterm="", n=0)
    return [line for line in found if not line.startswith(("---", "+++", "@@"))]


def main() -> None:
    """Compare the steps named, or all."""
    names = sys.argv[1:] or [*STEPS, *OF_GPUS]
    with tempfile.TemporaryDirectory() as folder:
        ran = real([name for name in names if name in STEPS], Path(folder))
        for name in names:
            try:
                steps = estimated([name], Path(folder))
            except EstimateError as error:
                sys.stdout.write(f"{name}: refused: {error}\n")
                continue
            if name in OF_GPUS:
                collectives = [one for one in said(steps[0]) if "aten" not in one[0]]
                sys.stdout.write(f"{name}: {collectives}\n")
                continue
            for rank, step in enumerate(steps):
                lines = differences(name, ran[rank][name], step)
                told = f"{name}, rank {rank}: {len(lines)} of {len(ran[rank][name])}"
                sys.stdout.write(f"{told} differ\n")
                sys.stdout.writelines(f"  {line}\n" for line in lines)
            sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--real"]:
        where, *asked = sys.argv[2:]
        run_ranks(RANKS, lambda rank: _rank(rank, Path(where), asked))
    elif sys.argv[1:2] == ["--peaks"]:
        where, *asked = sys.argv[2:]
        _hold(Path(where), asked)
    else:
        main()
