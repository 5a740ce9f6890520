"""The memory of an execution graph's step: storages live until their last use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracedb.from_code.graph_values import recorded_tensors, tensors
from tracedb.from_code.memory import Holding, Memory, peak

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tracedb.from_code.graph import GraphNode, Values
    from tracedb.from_code.ops import Shape


@dataclass
class _Held:
    holding: Holding
    is_there_before: bool
    is_counted: bool = True
    phases: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Storage:
    """A storage, the extent of a tensor in it, and the tensor's shape."""

    storage: object
    size_bytes: int
    shape: Shape

    def held(self, begin: int, by: str, phase: str, *, is_on_gpu: bool) -> Holding:
        """The allocation, which op `by` makes at time `begin`."""
        return Holding(
            self.size_bytes, begin, is_on_gpu, by, "", phase, self.shape.dims,
            self.shape.dtype,
        )  # fmt: skip


@dataclass
class GraphMemory:
    """Storages, in the order of dispatched ops.

    Graphs do not record when tensors are freed: a storage is assumed to be freed after
    its last use. Gradients and what existed before the step stay.
    """

    now: int = 0
    _held: list[_Held] = field(default_factory=list)
    _known: dict[object, _Held] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)

    def op(
        self, given: GraphNode, phase: str, *, is_on_gpu: bool, is_view: bool
    ) -> None:
        """Record the storages that an op reads and makes."""
        self.now += 1
        self._names[self.now] = given.name
        read = set()
        for one in _storages(given.inputs):
            read.add(one.storage)
            if one.storage not in self._known or self._is_another(one):
                made = one.held(0, "the caller", "setup", is_on_gpu=is_on_gpu)
                self._enter(one.storage, made, is_there_before=True)
            self._count(one.storage)
            self._use(one, phase)
        self._make(given, phase, read, is_on_gpu=is_on_gpu, is_view=is_view)

    def made(self, given: GraphNode, phase: str, *, is_view: bool) -> None:
        """Record the results of an op that a GPU replaces by another one."""
        self.now += 1
        self._names[self.now] = given.name
        read = {storage for storage, _ in tensors(given.inputs)}
        self._make(given, phase, read, is_on_gpu=True, is_view=is_view)

    def within(self, given: GraphNode, phase: str) -> None:
        """Record what an op within a replaced one makes: a GPU has none of it.

        It may have the address of a storage that was freed before, and be read again
        in the backward pass. It counts if an op that is not replaced reads it.
        """
        read = {storage for storage, _ in tensors(given.inputs)}
        for one in _storages(given.outputs):
            if one.storage not in read:
                made = one.held(self.now, given.name, phase, is_on_gpu=True)
                unseen = _Held(made, is_there_before=False, is_counted=False)
                self._known[one.storage] = unseen

    def _make(
        self, given: GraphNode, phase: str, read: set[object], *,
        is_on_gpu: bool, is_view: bool,
    ) -> None:  # fmt: skip
        for one in _storages(given.outputs):
            if not is_view and one.storage not in read:
                made = one.held(self.now, given.name, phase, is_on_gpu=is_on_gpu)
                self._enter(one.storage, made, is_there_before=False)
            if one.storage in self._known:
                self._use(one, phase)

    def gradient(self, given: GraphNode) -> None:
        """Mark the inputs of an `AccumulateGrad` node as gradients."""
        for storage, _ in tensors(given.inputs):
            if storage in self._known:
                self._known[storage].phases.add("leaf")

    def _is_another(self, one: _Storage) -> bool:
        """Whether a scalar reuses the address of another storage."""
        there = self._known[one.storage].holding
        return not one.shape.dims and one.shape.dtype != there.dtype

    def _count(self, storage: object) -> None:
        """Count a storage from now on."""
        held = self._known[storage]
        if not held.is_counted:
            held.is_counted = True
            self._held.append(held)

    def _enter(self, storage: object, made: Holding, *, is_there_before: bool) -> None:
        held = _Held(made, is_there_before)
        self._known[storage] = held
        self._held.append(held)

    def _use(self, one: _Storage, phase: str) -> None:
        held = self._known[one.storage]
        holding = held.holding
        if one.size_bytes > holding.size_bytes:
            holding.size_bytes = one.size_bytes
            holding.dims, holding.dtype = one.shape.dims, one.shape.dtype
        holding.end = self.now
        held.phases.add(phase)

    def peak(self) -> Memory:
        """The step's memory at its peak."""
        for held in self._held:
            held.holding.kind = _kind(held)
            if held.is_there_before or held.holding.kind == "gradient":
                held.holding.end = None
        return peak([held.holding for held in self._held], self._names)


def _kind(held: _Held) -> str | None:
    """The kind of a storage, as far as its uses tell."""
    if not held.is_there_before:
        is_kept = "leaf" in held.phases or "optimizer" in held.phases
        is_made_backward = held.holding.phase == "backward"
        return "gradient" if is_kept and is_made_backward else None
    if "optimizer" in held.phases:
        return "parameter" if "forward" in held.phases else "optimizer"
    return None


def _storages(values: Iterable[Values]) -> Iterator[_Storage]:
    for value in values:
        recorded = recorded_tensors([value])
        for tensor, (storage, shape) in zip(recorded, tensors([value]), strict=True):
            reach = (int(tensor[2]) + int(tensor[3])) * int(tensor[4])
            yield _Storage(storage, reach, shape)
