"""Python objects that ranks exchange: collectives, and messages from rank to rank.

If the other ranks run, too, objects are theirs; otherwise all ranks have the same.
What PyTorch sends for them by a group of GPUs is recorded: their sizes, then pickles.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from tracedb.errors import EstimateError
from tracedb.from_code import fake_cuda, place
from tracedb.from_code.tensors import tensors_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracedb.from_code.fake_ranks import FakeRanks
    from tracedb.from_code.mailbox import Mailbox

_C10D: Any = distributed
"""It exports more than it says."""


class FakeObjects:
    """The functions of `torch.distributed` that take Python objects."""

    def __init__(self, ranks: FakeRanks) -> None:
        """Take the ranks, of which one or all run."""
        self._ranks = ranks

    @property
    def functions(self) -> dict[str, object]:
        """The replacements for functions of `torch.distributed`."""
        return {
            "broadcast_object_list": self._broadcast,
            "scatter_object_list": self._scatter,
            "gather_object": self._gather,
            "all_gather_object": self._all_gather,
            "send_object_list": self._send,
            "recv_object_list": self._receive,
        }

    def _broadcast(
        self,
        object_list: list[Any],
        src: int | None = None,
        group: Any = None,  # noqa: ANN401
        device: object = None,
        group_src: int | None = None,
    ) -> None:
        del device
        if self._is_outside(group):
            return
        source = _of_job(group, src, group_src, usual=0)
        object_list[:] = self._from_one(group, source, [object_list] * _size(group))
        sizes = [*map(_pickled_bytes, object_list)]
        self._record(group, ("broadcast", len(sizes)), ("broadcast", sum(sizes)))

    def _scatter(
        self,
        scatter_object_output_list: list[Any],
        scatter_object_input_list: list[Any] | None = None,
        src: int | None = None,
        group: Any = None,  # noqa: ANN401
        group_src: int | None = None,
    ) -> None:
        if self._is_outside(group):
            return
        source = _of_job(group, src, group_src, usual=0)
        found = self._from_one(group, source, scatter_object_input_list)
        scatter_object_output_list[0] = found
        size = _pickled_bytes(found)
        self._record(group, ("broadcast", 1), ("scatter", size), ("scatter", 1))

    def _from_one(self, group: Any, source: int, objects: Sequence[Any] | None) -> Any:  # noqa: ANN401
        """What a rank has for this one; `objects` are those that it has for each."""
        me = self._ranks.job.rank
        if me != source:
            return self._post.receive(source)
        own = None
        for to, one in zip(_members(group), objects or (), strict=False):
            if to == me:
                own = one
            elif self._ranks.job.mailbox is not None:
                self._post.send(to, one)
        return own

    def _gather(
        self,
        obj: object,
        object_gather_list: list[Any] | None = None,
        dst: int | None = None,
        group: Any = None,  # noqa: ANN401
        group_dst: int | None = None,
    ) -> None:
        if self._is_outside(group):
            return
        to = _of_job(group, dst, group_dst, usual=0)
        if self._ranks.job.rank != to:
            if self._ranks.job.mailbox is not None:
                self._post.send(to, obj)
        elif object_gather_list is not None:
            object_gather_list[:] = self._of_all(group, obj)
        self._record(group, ("allgather", 1), ("gather", _pickled_bytes(obj)))

    def _all_gather(
        self,
        object_list: list[Any],
        obj: object,
        group: Any = None,  # noqa: ANN401
    ) -> None:
        if self._is_outside(group):
            return
        if self._ranks.job.mailbox is not None:
            for other in self._others(group):
                self._post.send(other, obj)
        object_list[:] = self._of_all(group, obj)
        self._record(group, ("allgather", 1), ("allgather", _pickled_bytes(obj)))

    def _of_all(self, group: Any, own: object) -> list[Any]:  # noqa: ANN401
        """The object of each rank of a group: the own one, if only this rank runs."""
        me, members = self._ranks.job.rank, _members(group)
        if self._ranks.job.mailbox is None:
            return [own] * len(members)
        return [own if one == me else self._post.receive(one) for one in members]

    def _send(
        self,
        object_list: list[Any],
        dst: int | None = None,
        group: Any = None,  # noqa: ANN401
        _device: object = None,
        group_dst: int | None = None,
        **_: object,
    ) -> None:
        """Send Python objects to another rank."""
        self._post.send(_of_job(group, dst, group_dst), object_list)

    def _receive(
        self,
        object_list: list[Any],
        src: int | None = None,
        group: Any = None,  # noqa: ANN401
        _device: object = None,
        group_src: int | None = None,
        **_: object,
    ) -> int:
        """Receive Python objects from another rank."""
        sender = _of_job(group, src, group_src)
        object_list[:] = self._post.receive(sender)
        return sender

    @property
    def _post(self) -> Mailbox:
        return self._ranks.post

    def _others(self, group: Any) -> list[int]:  # noqa: ANN401
        return [one for one in _members(group) if one != self._ranks.job.rank]

    def _is_outside(self, group: Any) -> bool:  # noqa: ANN401
        """Whether this rank is not of the group, so that PyTorch does nothing."""
        return group is not None and group == _C10D.GroupMember.NON_GROUP_MEMBER

    def _record(self, group: Any, *sent: tuple[str, int]) -> None:  # noqa: ANN401
        """Record collectives of sizes, of bytes, and of a size; the host waits."""
        own = group or _C10D.group.WORLD
        if not own.is_of_gpus:
            return
        types = (torch.long, torch.uint8, torch.long)
        with self._ranks.recorder.side.placing(on_gpu=True, is_given=True):
            for dtype, (kind, count) in zip(types, sent, strict=False):
                whole = count * _size(own)
                given = torch.empty(whole if kind == "scatter" else count, dtype=dtype)
                is_gathered = kind in ("allgather", "gather")
                made = torch.empty(whole if is_gathered else count, dtype=dtype)
                own.done(kind, [given], [made]).wait()
                fake_cuda.synchronize()


def _pickled_bytes(objects: object) -> int:
    """[B] The size of a pickle; without one, that of the tensors in it."""
    try:
        return len(pickle.dumps(objects))
    except Exception:  # noqa: BLE001 (fake tensors, and whatever the code has)
        return 1 + sum(one.nbytes for one in tensors_of(objects))


def _members(group: Any) -> list[int]:  # noqa: ANN401
    found: list[int] = distributed.get_process_group_ranks(group)
    return found


def _size(group: Any) -> int:  # noqa: ANN401
    return len(_members(group))


def _of_job(
    group: Any,  # noqa: ANN401
    rank: int | None,
    of_group: int | None,
    usual: int | None = None,
) -> int:
    """The number in the job of a rank that is given by it, or by that in its group."""
    if of_group is not None:
        return int(_C10D.get_global_rank(group or _C10D.group.WORLD, of_group))
    found = usual if rank is None else rank
    if found is None:
        raise EstimateError(f"{place.of_caller()}: give the other rank")
    return found
