"""Fake process groups, so that code of one rank runs without the others.

The code is one rank of a group of as many ranks as are asked for, by default rank 0.
Collectives are recorded and complete at once: with fake tensors there is nothing to
send. All ranks are assumed to do the same at the same time, unless they run, too: then
a `mailbox` takes objects from one to another.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import distributed
from torch.distributed import device_mesh, distributed_c10d
from torch.profiler import record_function

from tracedb.errors import EstimateError
from tracedb.from_code import place
from tracedb.from_code.changed import changed
from tracedb.from_code.collectives import Message
from tracedb.from_code.data_parallel import Averaging, in_later_steps
from tracedb.from_code.fake_mesh import is_real, real_meshes, unseen_forms
from tracedb.from_code.fake_objects import FakeObjects
from tracedb.from_code.fake_stages import real_votes
from tracedb.from_code.known import learn
from tracedb.from_code.local_sgd import between_averages
from tracedb.from_code.mailbox import NeedsRanksError
from tracedb.from_code.ops import SYNCHRONIZE
from tracedb.from_code.passed_on import Given, Place, given_to, pass_on, root_of
from tracedb.from_code.shared import Shared
from tracedb.from_code.sparse import is_sparse
from tracedb.from_code.tensors import tensors_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from tracedb.from_code.job import Job
    from tracedb.from_code.mailbox import Mailbox
    from tracedb.from_code.recorder import Recorder

_C10D: Any = distributed
"""It exports more than it says."""
_BACKEND, _USUAL = "tracedb", "nccl"
"""The backend of all groups, and what code is told that names none."""


class FakeRanks:
    """Stands in for the other ranks of a job."""

    def __init__(self, recorder: Recorder, job: Job) -> None:
        """Take the recorder of ops, and the job with its number of ranks, if given."""
        self.recorder = recorder
        self.job = job
        self.is_begun = False
        self.backend = _USUAL
        self._averaging = Averaging(self._for_models)
        self.is_averaging = False
        self.shared = Shared()
        self._batches = 0

    @contextmanager
    def present(self) -> Iterator[None]:
        """Make PyTorch find the other ranks within the block."""
        if distributed.is_initialized() and not self.is_begun:
            raise EstimateError(
                "this process has a process group, so it is a rank of a job; estimate "
                "in another process"
            )
        with ExitStack() as stack:
            stack.enter_context(self._launched())
            own = {"init_process_group": self.begin, "new_group": self._new_group}
            for module in (distributed, distributed_c10d, device_mesh):
                stack.enter_context(changed(module, own))
            told = {"get_backend": _backend}
            stack.enter_context(changed(distributed_c10d, told))
            functions = {
                **told,
                **FakeObjects(self).functions,
                "is_nccl_available": lambda: True,
                "destroy_process_group": _nothing,
                "monitored_barrier": _nothing,
            }
            stack.enter_context(changed(distributed, functions))
            # Each batch calls it, by whatever name the code has imported batches.
            checking = {"_check_p2p_op_list": self._begin_batch}
            stack.enter_context(changed(distributed_c10d, checking))
            stack.enter_context(in_later_steps(self.recorder))
            stack.enter_context(between_averages(self.recorder.assumptions))
            stack.enter_context(real_meshes(self.recorder))
            stack.enter_context(unseen_forms(self.recorder))
            stack.enter_context(real_votes())
            if (self.job.ranks or 1) > 1:
                stack.enter_context(self._averaging.watching())
            yield

    @contextmanager
    def _launched(self) -> Iterator[None]:
        """Set the environment variables that launchers such as `torchrun` set."""
        # DDP copies inputs of models without a side stream.
        settings: dict[str, object] = {"PYTORCH_DDP_USE_SIDE_STREAM": 0}
        if self.job.ranks is not None:
            # Code reads these to find out whether it is one of several ranks.
            settings |= {
                "RANK": self.job.rank,
                "LOCAL_RANK": self.job.rank % self.job.per_node,
                "GROUP_RANK": self.job.rank // self.job.per_node,
                "WORLD_SIZE": self.job.ranks,
                "LOCAL_WORLD_SIZE": self.job.on_this_node,
                "MASTER_ADDR": "localhost",
                "MASTER_PORT": 0,
            }
        before = dict(os.environ)
        os.environ.update({name: str(value) for name, value in settings.items()})
        try:
            yield
        finally:
            for name in settings:
                os.environ.pop(name, None)
            os.environ.update({n: v for n, v in before.items() if n in settings})

    def begin(self, backend: str | None = None, *_: object, **given: Any) -> None:  # noqa: ANN401
        """Make the process group, in place of `init_process_group`."""
        count = self.job.ranks or given.get("world_size", -1)
        if count < 1:
            raise EstimateError(
                f"{place.of_caller()}: the step is one of several ranks; give "
                "their number: --ranks N (`ranks=`)"
            )
        self.job = replace(self.job, ranks=count)
        if not hasattr(distributed.Backend, _BACKEND.upper()):
            distributed.Backend.register_backend(
                _BACKEND, _group, extended_api=True, devices=["cpu", "cuda"]
            )
        hook = sys.excepthook
        _begun.append(self)
        self.backend = (backend or _USUAL).lower()
        store = _C10D.HashStore()
        _initialize(_BACKEND, rank=self.job.rank, world_size=count, store=store)
        sys.excepthook = hook
        self.is_begun = True

    @property
    def words(self) -> str:
        """The number of ranks and how they communicate; empty without a group."""
        if not self.is_begun:
            return ""
        averaged = "gradients are averaged as DistributedDataParallel does"
        own = "its own collectives"
        done = averaged if self.is_averaging else own
        return f"one of {self.job.words}: {done}"

    def _for_models(self) -> bool:
        """Make a group for code that has none; return False where it has its own."""
        if not self.is_begun:
            self.begin()
            self.is_averaging = True
        return self.is_averaging

    def end(self) -> None:
        """Destroy the process group, if there is one."""
        self._averaging.end()
        if self.is_begun:
            distributed.destroy_process_group()
            _begun.remove(self)
            self.is_begun = False

    def _begin_batch(self, calls: list[Any]) -> None:
        _check_batch(calls)
        self._batches += 1

    @property
    def batch(self) -> int | None:
        """The batch of sends and receives that is being called: they run together."""
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 (without files)
        while frame is not None and frame.f_code is not _BATCH:
            frame = frame.f_back
        return None if frame is None else self._batches

    def _new_group(
        self,
        ranks: list[int] | None = None,
        timeout: object = None,
        backend: str | None = None,
        *rest: Any,  # noqa: ANN401
        **more: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401 (a group, or that this rank is in none)
        """Make a group without its own backend, which would wait for real ranks."""
        before, self.backend = self.backend, (backend or self.backend).lower()
        try:
            return _make_group(ranks, timeout, None, *rest, **more)
        finally:
            self.backend = before

    @property
    def post(self) -> Mailbox:
        """The mailbox; raises `NeedsRanksError` where the other ranks do not run."""
        if self.job.mailbox is None:
            raise NeedsRanksError(
                f"{place.of_caller()}: sends Python objects between ranks, as pipeline "
                "stages (torch.distributed.pipelining) do; not supported here, where "
                "one rank runs"
            )
        return self.job.mailbox


_initialize, _make_group = distributed.init_process_group, distributed.new_group
_BATCH: Any = _C10D.batch_isend_irecv.__code__
_check_batch: Any = distributed_c10d._check_p2p_op_list  # noqa: SLF001
_begun: list[FakeRanks] = []
"""Those whose process group is open; the last one is in use."""


def _nothing(*_: object, **__: object) -> None:
    """Do nothing: all ranks have the same objects."""


def _backend(group: Any = None) -> Any:  # noqa: ANN401 (a text of a kind of its own)
    """The backend that the code has named for a group, in place of `get_backend`."""
    found = group or _C10D.group.WORLD
    if not isinstance(found, _Group):
        raise ValueError("Invalid process group specified")  # noqa: TRY004 (as PyTorch)
    return distributed.Backend(found.backend)


def _refuse_of_another() -> NoReturn:
    raise NeedsRanksError(
        f"{place.of_caller()}: a number that another rank scatters is not known here, "
        "where one rank runs"
    )


def _may_be_sizes(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether tensors have whole numbers, on every rank alike."""
    return any(not (t.is_floating_point() or t.is_complex()) for t in tensors)


class _Work(distributed.Work):
    """A completed collective, whose results are available."""

    def __init__(
        self,
        recorder: Recorder,
        number: int | None,
        results: Sequence[torch.Tensor],
        *,
        is_between_two: bool = False,
    ) -> None:
        super().__init__()
        self._is_between_two = is_between_two
        self._recorder = recorder
        self._number = number
        self._results = [*results]

    def wait(self, *_: object, **__: object) -> bool:
        """Record that the current stream waits for it, if it runs on the GPU."""
        if self._number is not None:
            self._recorder.wait(self._number, is_between_two=self._is_between_two)
        self.release()
        return True

    def release(self) -> None:
        """Release the results: its group may keep it for longer than the code does."""
        self._results = []

    def get_future(self) -> torch.futures.Future[Any]:
        """Return a future of its results."""
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(self._results)
        return future

    def is_completed(self) -> bool:
        """Return True: it is complete."""
        return True


class _Group(_C10D.ProcessGroup):  # type: ignore[misc]
    """A process group that this rank belongs to."""

    # As its own backend, it records each message of a batch, and creates new groups.
    supports_coalescing = False
    supports_splitting = False

    def __init__(self, ranks: FakeRanks, group: Any) -> None:  # noqa: ANN401
        super().__init__(group.group_rank, group.group_size)
        self._ranks = ranks
        self._recorder = ranks.recorder
        self._count = group.group_size
        self._name = str(group.group_id)
        self._members = tuple(group.global_ranks_in_group)
        self._last: _Work | None = None
        self.backend = ranks.backend

    @property
    def is_of_gpus(self) -> bool:
        """Whether it can only pass on what is on GPUs."""
        return self.backend == _USUAL and self._recorder.has_gpu

    @property
    def group_name(self) -> str:
        """The name by which PyTorch finds it."""
        return self._name

    def done(
        self,
        kind: str,
        given: Sequence[torch.Tensor],
        made: Sequence[torch.Tensor],
        options: Sequence[object] = (),
    ) -> _Work:
        """Record a collective, and return it as completed."""
        if any(map(is_sparse, made)):
            for one in made:
                self._recorder.sparse.reduced(one, self._count)
            return self._over(None, made)
        message = Message(kind, self._count, self._name, self._members)
        number = self._recorder.collective(message, list(given), list(made))
        self._pass_on(kind, given, made, options)
        return self._over(number, made)

    def _pass_on(
        self,
        kind: str,
        given: Sequence[torch.Tensor],
        made: Sequence[torch.Tensor],
        options: Sequence[object],
    ) -> None:
        """Let results have the values that follow from those of all ranks."""
        own, here = given_to(given, options), Place(self.rank(), self._count)
        if self._ranks.job.mailbox is not None and _may_be_sizes([*given, *made]):
            pass_on(kind, self._of_all(own), made, options, here)
            return
        is_known = pass_on(kind, [own], made, options, here)
        root = root_of(kind, options)
        if kind == "scatter" and root != here.rank:
            for one in made:
                self._recorder.draws.assume(one, _refuse_of_another)
        if own is None or not is_known or root == here.rank:
            return
        # What another rank alone gives is never the same as this one's.
        self._ranks.shared.note(kind if root is None else f"{kind} to {here}", own)
        for one in made:
            self._recorder.draws.assume(one, self._ranks.shared.reading())

    def _of_all(self, own: Given | None) -> list[Given | None]:
        """What each rank of the group gives, in order."""
        post, members = self._ranks.post, [*map(self._of_job, range(self._count))]
        for other in members:
            if other != self._own:
                post.send(other, own)
        return [own if one == self._own else post.receive(one) for one in members]

    def _over(self, number: int | None, made: Sequence[torch.Tensor]) -> _Work:
        # C++ calls its methods without owning it.
        self._last = _Work(self._recorder, number, made)
        return self._last

    def send(self, tensors: list[torch.Tensor], to: int, *_: object) -> _Work:
        """Record a send to a rank of the group."""
        if is_real():
            self._ranks.post.send(self._of_job(to), tensors[0].tolist())
            return _Work(self._recorder, None, tensors)
        return self._passed("send", tensors, (self._own, self._of_job(to)))

    def recv(self, tensors: list[torch.Tensor], source: int, *_: object) -> _Work:
        """Record a receive from a rank of the group."""
        if is_real():
            sent = self._ranks.post.receive(self._of_job(source))
            tensors[0].copy_(torch.tensor(sent))
            return _Work(self._recorder, None, tensors)
        return self._passed("recv", tensors, (self._of_job(source), self._own))

    @property
    def _own(self) -> int:
        """The number of this rank in the job."""
        return self._of_job(self.rank())

    def _of_job(self, rank: int) -> int:
        """The number in the job of a rank of the group; that of all has no list."""
        return self._members[rank] if self._members else rank

    def _passed(
        self, kind: str, tensors: list[torch.Tensor], ends: tuple[int, int]
    ) -> _Work:
        """Record a message with its sender and receiver."""
        message = Message(
            kind, self._count, self._name, self._members, *ends, self._ranks.batch
        )
        number = self._recorder.collective(message, tensors, tensors)
        if kind == "recv":
            learn(tensors[0], None)
        self._last = _Work(self._recorder, number, tensors, is_between_two=True)
        return self._last

    def _start_coalescing(self, _device: object) -> None:
        """Begin collectives that are launched together."""
        self._last = _Work(self._recorder, None, [])

    def _end_coalescing(self, _device: object) -> _Work | None:
        """The last of them, which the others precede on the group's stream."""
        return self._last

    def barrier(self, *_: object, **__: object) -> _Work:
        """Record that the host waits for the GPU."""
        with record_function(SYNCHRONIZE):
            pass
        self._last = _Work(self._recorder, None, [])
        return self._last

    def recv_anysource(self, *_: object, **__: object) -> _Work:
        """Raise `EstimateError`: NCCL has no such receive."""
        raise EstimateError(
            f"{place.of_caller()}: receives from any rank, which NCCL does not "
            "support; give its rank: src="
        )

    def _has_hooks(self) -> bool:
        """Return False: PyTorch before 2.7 asks groups of NCCL when they end."""
        return False

    def getBackendName(self) -> str:  # noqa: N802 (as PyTorch has it)
        """The name of the backend."""
        return self.backend

    def _get_backend(self, _device: object) -> _Group:
        """Itself: it does what a backend does, on any device."""
        return self


_IN_PLACE = (*("allreduce", "allreduce_coalesced", "broadcast", "reduce"),)
"""Methods of process groups that change their tensors in place.

The profiler records them under the same names.
"""
_INTO_ANOTHER = {
    "allgather": "allgather",
    "allgather_coalesced": "allgather",
    "_allgather_base": "_allgather_base",
    "all_gather_single": "_allgather_base",
    "allgather_into_tensor_coalesced": "_allgather_base",
    "all_gather_single_coalesced": "_allgather_base",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "_reduce_scatter_base",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced": "_reduce_scatter_base",
    "reduce_scatter_single_coalesced": "_reduce_scatter_base",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "all_to_all_single": "all_to_all",
    "gather": "gather",
    "scatter": "scatter",
}
"""Methods that take outputs, then inputs, with the names that the profiler records."""


def _method(kind: str, *, is_in_place: bool) -> Any:  # noqa: ANN401 (a method)
    def method(
        group: _Group,
        made: object,
        given: object = None,
        *rest: Any,  # noqa: ANN401
        **more: Any,  # noqa: ANN401
    ) -> _Work:
        sent = made if is_in_place else given
        options = (given, *rest, *more.values())
        return group.done(kind, [*tensors_of(sent)], [*tensors_of(made)], options)

    return method


for _name in _IN_PLACE:
    setattr(_Group, _name, _method(_name, is_in_place=True))
for _name, _kind in _INTO_ANOTHER.items():
    setattr(_Group, _name, _method(_kind, is_in_place=False))


def _group(group: Any, _options: object) -> _Group:  # noqa: ANN401 (it has no public name)
    """Make the group that PyTorch requests from the backend."""
    return _Group(_begun[-1], group)
