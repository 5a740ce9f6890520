"""The memory of a step that runs on nothing: what is held when, and for what."""

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
"""What memory is held for.

A `bucket` has gradients that ranks add up together; `other` is what lives within
backward or the optimizer.
"""

CUDA_BLOCK = 512
"""[B] CUDA's caching allocator gives out multiples of this."""


@dataclass(eq=False)
class Holding:
    """A storage: how large, from when to when, on which side, made by what."""

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
        """What it is held for: what it was found to be, else by its phase."""
        if self.kind is not None:
            return self.kind
        known = {"setup": "input", "forward": "activation", "bucket": "bucket"}
        return known.get(self.phase, "other")

    @property
    def words(self) -> str:
        """A line on it: its name or the op that made it, sizes, type, module."""
        source = self.name or f"result of {self.made_by}"
        where = f" in {self.module}" if self.module and not self.name else ""
        return f"{source}{where}, {self.dtype} {list(self.dims)}"


@dataclass
class Ledger:
    """All storages that a run made, in order; a clock that counts dispatched ops."""

    now: int = 0
    held: list[Holding] = field(default_factory=list)
    _known: dict[int, tuple[weakref.ref[object], Holding]] = field(default_factory=dict)

    def find(self, storage: torch.UntypedStorage) -> Holding | None:
        """The holding of a storage, if it is known."""
        known = self._known.get(id(storage))
        return known[1] if known else None

    def add(self, storage: torch.UntypedStorage, holding: Holding) -> Holding:
        """Enter a storage, which leaves by itself when the last tensor of it goes."""
        number = id(storage)

        def left(_: object) -> None:
            _, last = self._known.pop(number)
            last.end = self.now

        self._known[number] = (weakref.ref(storage, left), holding)
        self.held.append(holding)
        return holding

    def resize(self, storage: torch.UntypedStorage, size: int) -> None:
        """Go on with another size, of a storage that is known."""
        known = self._known.get(id(storage))
        if known is None or known[1].size_bytes == size:
            return
        reference, holding = known
        holding.end = self.now
        now = replace(holding, size_bytes=size, begin=self.now + 1, end=None)
        self._known[id(storage)] = (reference, now)
        self.held.append(now)

    def since(self, begin: int) -> list[Holding]:
        """What is held after some time, as it is now; times count from then.

        What was there before is in the order in which it goes, whenever it came.
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
    """What a step takes of the GPU's memory at its peak.

    `by_kind` says what holds it then (`KINDS`), `peak_op` during which op that is, and
    `largest` is what is held then, the largest first.
    """

    peak_bytes: int
    by_kind: dict[str, int]
    peak_op: str
    largest: tuple[tuple[str, str, int], ...]


def peak(
    held: Iterable[Holding], ops: Mapping[int, str], *, block: int = CUDA_BLOCK
) -> Memory:
    """The peak of what is on the GPU.

    Blocks are as large as CUDA's allocator makes them, unless said.
    """
    sized = [(h, -(-h.size_bytes // block) * block) for h in held if h.is_on_gpu]
    changes: defaultdict[int, int] = defaultdict(int)
    for holding, size in sized:
        changes[holding.begin] += size
        if holding.end is not None:
            # What an op frees it frees when it is done: the next one finds it gone.
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
