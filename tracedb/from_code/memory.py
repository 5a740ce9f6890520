"""The memory of a step on fake tensors: allocations, their times and purposes."""

from __future__ import annotations

import weakref
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import torch

KINDS = (
    *("parameter", "gradient", "optimizer", "buffer", "input", "activation"),
    *("bucket", "other"),
)
"""Purposes of allocations.

A `bucket` holds gradients that ranks reduce together; `other` is temporary memory of
the backward pass or the optimizer.
"""

CALLER = "the caller"
"""What made storages that existed before the run."""
CUDA_BLOCK = 512
"""[B] PyTorch's caching allocator rounds sizes up to a multiple of this."""


@dataclass(eq=False)
class Holding:
    """An allocated storage: its size, lifetime, device, and the op that made it."""

    size_bytes: int
    begin: int
    is_on_gpu: bool
    made_by: str
    module: str
    phase: str
    dims: tuple[int, ...] = ()
    dtype: str = ""
    kind: str | None = None
    name: str = ""
    end: int | None = None

    @property
    def purpose(self) -> str:
        """Its purpose (`KINDS`): as detected, else by its phase."""
        if self.kind is not None:
            return self.kind
        known = {"setup": "input", "forward": "activation", "bucket": "bucket"}
        return known.get(self.phase, "other")

    @property
    def words(self) -> str:
        """A description: its name, or its op and module; type; shape."""
        source = self.name or f"result of {self.made_by}"
        where = f" in {self.module}" if self.module and not self.name else ""
        return f"{source}{where}, {self.dtype} {list(self.dims)}"


def workspace_of(
    name: str, size: int, number: int, *, is_on_gpu: bool = True
) -> Holding:
    """What an op, by its number, holds [B] beside its arguments and results."""
    return Holding(
        size, number, is_on_gpu, name, "", "workspace", (size,), "byte",
        kind="other", name=f"workspace of {name}", end=number,
    )  # fmt: skip


@dataclass
class Ledger:
    """All storages of a run, in order; `now` counts dispatched ops."""

    now: int = 0
    held: list[Holding] = field(default_factory=list)
    _known: dict[int, tuple[weakref.ref[object], Holding]] = field(default_factory=dict)

    def find(self, storage: torch.UntypedStorage) -> Holding | None:
        """The holding of a storage, if there is one."""
        known = self._known.get(id(storage))
        return known[1] if known else None

    def add(self, storage: torch.UntypedStorage, holding: Holding) -> Holding:
        """Add a storage; its end is set when its last tensor is freed."""
        number = id(storage)

        def left(_: object) -> None:
            _, last = self._known.pop(number)
            last.end = self.now

        self._known[number] = (weakref.ref(storage, left), holding)
        self.held.append(holding)
        return holding

    def leave_gpu(self) -> None:
        """Place on the host what was made so far; the caller's tensors stay."""
        for holding in self.held:
            if holding.made_by != CALLER:
                holding.is_on_gpu = False

    def resize(self, storage: torch.UntypedStorage, size: int) -> None:
        """Change the size of a known storage."""
        known = self._known.get(id(storage))
        if known is None or known[1].size_bytes == size:
            return
        reference, holding = known
        holding.end = self.now
        now = replace(holding, size_bytes=size, begin=self.now + 1, end=None)
        self._known[id(storage)] = (reference, now)
        self.held.append(now)

    def since(self, begin: int) -> list[Holding]:
        """Copies of the holdings that live after `begin`, with times relative to it.

        Holdings from before `begin` are ordered by their end.
        """
        found = [
            replace(
                holding,
                begin=max(holding.begin - begin, 0),
                end=None if holding.end is None else holding.end - begin,
            )
            for holding in self.held
            if holding.end is None or holding.end > begin
        ]
        return sorted(found, key=lambda h: (h.begin, inf if h.end is None else h.end))


@dataclass(frozen=True)
class Memory:
    """The GPU memory of a step at its peak.

    `by_kind` splits it by purpose (`KINDS`), `peak_op` is the op at the peak, and
    `largest` lists the 20 largest allocations then: purpose, description, size [B].
    """

    peak_bytes: int
    by_kind: dict[str, int]
    peak_op: str
    largest: tuple[tuple[str, str, int], ...]


def peak(
    held: Iterable[Holding], ops: Mapping[int, str], *, block: int = CUDA_BLOCK
) -> Memory:
    """The peak of allocations on the GPU, in multiples of `block` bytes."""
    sized = [(h, -(-h.size_bytes // block) * block) for h in held if h.is_on_gpu]
    changes: defaultdict[int, int] = defaultdict(int)
    for holding, size in sized:
        changes[holding.begin] += size
        if holding.end is not None:
            # An op frees memory when it is done: the next op finds it free.
            changes[holding.end + 1] -= size
    times = sorted(changes)
    totals = list(accumulate(changes[time] for time in times))
    if not totals:
        return Memory(0, dict.fromkeys(KINDS, 0), "", ())
    most = max(totals)
    at = times[totals.index(most)]
    there = [
        (holding, size)
        for holding, size in sized
        if holding.begin <= at and (holding.end is None or holding.end + 1 > at)
    ]
    by_kind = dict.fromkeys(KINDS, 0)
    for holding, size in there:
        by_kind[holding.purpose] += size
    there.sort(key=lambda pair: -pair[1])
    largest = tuple((h.purpose, h.words, size) for h, size in there[:20])
    return Memory(most, by_kind, ops.get(at, ""), largest)
