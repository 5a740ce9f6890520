"""The pages of memory that a step takes from the system anew, as glibc's malloc would.

PyTorch's CPU allocator is the C library's. glibc gives memory back to the system when
much of it is free at the end of the heap, and keeps no tensor of more than 32 MiB. What
is allocated next there has new pages, each of which costs a page fault when it is first
written. `Heap` follows glibc's rules for large blocks ("The GNU allocator" in its
manual; `M_MMAP_THRESHOLD` and `M_TRIM_THRESHOLD` in mallopt(3)).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tracedb.from_code.memory import Holding

PAGE = 4096
"""[B] A page."""
_KIB, _MIB = 1 << 10, 1 << 20
_ALIGNED, _HEADER, _LEAST = 64, 16, 32
"""[B] PyTorch's alignment, what precedes a block, and the smallest block."""
_SMALL, _SMALL_KEPT = 1040, 7
"""[B] Freed blocks up to this size wait for the next of their size, so many each."""
_TRIMMING = 64 * _KIB
"""[B] Only blocks of this size, with free neighbours, shorten the heap."""
_PAD = 128 * _KIB
"""[B] The heap grows by this more than needed, and keeps it."""
_MAPPED, _MOST_MAPPED = 128 * _KIB, 32 * _MIB
"""[B] Blocks from this size have a mapping of their own where the heap has no room. A
freed one raises this to its size, up to the most."""
_WARM, _COUNTED = 4, 4
"""Steps until memory is as usual, and those of which the mean is taken."""


@dataclass(frozen=True)
class NewPages:
    """The new pages of one op: of mappings of their own, and of the heap."""

    mapped: float = 0.0
    heap: float = 0.0


@dataclass(frozen=True)
class _Block:
    """An allocated block."""

    address: int
    size: int
    is_mapped: bool = False


@dataclass
class Heap:
    """A heap without threads, which begins at address 0, and its mappings."""

    mapped_pages: int = 0
    """New pages of mappings so far."""
    heap_pages: int = 0
    """New pages of the heap so far."""
    _top: int = 0
    """Where the free rest of the heap begins."""
    _end: int = 0
    _written: int = 0
    """What lies above was never written since the heap grew to it."""
    _mapped: int = _MAPPED
    _trimmed: int = _PAD
    _free: list[tuple[int, int]] = field(default_factory=list)
    """Sizes and addresses of free blocks, sorted."""
    _from: dict[int, int] = field(default_factory=dict)
    """The size of the free block that begins at an address."""
    _until: dict[int, int] = field(default_factory=dict)
    """The same, by where the block ends."""
    _small: defaultdict[int, list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def take(self, size: int) -> _Block:
        """Allocate a tensor of so many bytes, all of which are written."""
        size = max(-(-(size + _HEADER) // _ALIGNED) * _ALIGNED, _LEAST)
        if self._small[size]:
            return _Block(self._small[size].pop(), size)
        address = self._best(size)
        if address is None and self._end - self._top < size + _LEAST:
            if size >= self._mapped:
                pages = -(-size // PAGE)
                self.mapped_pages += pages
                return _Block(0, pages * PAGE, is_mapped=True)
            missing = size + _PAD + _LEAST - (self._end - self._top)
            self._end += -(-missing // PAGE) * PAGE
        if address is None:
            address, self._top = self._top, self._top + size
        last = -(-(address + size) // PAGE)
        self.heap_pages += max(last - self._written, 0)
        self._written = max(last, self._written)
        return _Block(address, size)

    def leave(self, block: _Block) -> None:
        """Free a block."""
        if block.is_mapped:
            if self._mapped < block.size <= _MOST_MAPPED:
                self._mapped, self._trimmed = block.size, 2 * block.size
            return
        kept = self._small[block.size]
        if block.size <= _SMALL and len(kept) < _SMALL_KEPT:
            kept.append(block.address)
            return
        first, last = block.address, block.address + block.size
        if first in self._until:
            first -= self._without(first - self._until[first])
        if last in self._from:
            last += self._without(last)
        if last == self._top:
            self._top = first
        else:
            self._add(first, last - first)
        if last - first >= _TRIMMING and self._end - self._top >= self._trimmed:
            self._trim()

    def _trim(self) -> None:
        """Give the end of the heap back, but for the pad."""
        free = self._end - self._top - _LEAST - 1 - _PAD
        self._end -= max(free // PAGE, 0) * PAGE
        self._written = min(self._written, self._end // PAGE)

    def _best(self, size: int) -> int | None:
        """Take the smallest free block that is large enough; its rest stays free."""
        at = bisect_left(self._free, (size, -1))
        if at == len(self._free):
            return None
        found, address = self._free[at]
        self._without(address)
        if found - size >= _LEAST:
            self._add(address + size, found - size)
        return address

    def _add(self, address: int, size: int) -> None:
        insort(self._free, (size, address))
        self._from[address] = self._until[address + size] = size

    def _without(self, address: int) -> int:
        """Take a free block out of the lists; return its size."""
        size = self._from.pop(address)
        del self._until[address + size]
        del self._free[bisect_left(self._free, (size, address))]
        return size


def new_pages(held: Sequence[Holding]) -> dict[int, NewPages]:
    """The new pages of each op of a step, by its number: the mean of several steps.

    `held` are the step's allocations, with times in ops from its start.
    """
    heap = Heap()
    blocks = {
        number: heap.take(holding.size_bytes)
        for number, holding in enumerate(held)
        if holding.begin == 0
    }
    mapped: defaultdict[int, int] = defaultdict(int)
    grown: defaultdict[int, int] = defaultdict(int)
    for step in range(_WARM + _COUNTED):
        for at, is_end, number in _changes(held):
            if is_end:
                heap.leave(blocks.pop(number))
                continue
            before = heap.mapped_pages, heap.heap_pages
            blocks[number] = heap.take(held[number].size_bytes)
            if step >= _WARM:
                mapped[at] += heap.mapped_pages - before[0]
                grown[at] += heap.heap_pages - before[1]
        blocks = _handed_on(held, blocks, heap)
    return {
        at: NewPages(mapped[at] / _COUNTED, grown[at] / _COUNTED)
        for at in sorted({*mapped, *grown})
        if mapped[at] + grown[at]
    }


def _changes(held: Sequence[Holding]) -> list[tuple[int, bool, int]]:
    """When what is allocated and freed in a step: op, whether it is freed, which."""
    return sorted(_each_change(held))


def _each_change(held: Iterable[Holding]) -> Iterator[tuple[int, bool, int]]:
    for number, holding in enumerate(held):
        if holding.begin > 0:
            yield holding.begin, False, number
        if holding.end is not None:
            yield holding.end, True, number


def _handed_on(
    held: Sequence[Holding], blocks: dict[int, _Block], heap: Heap
) -> dict[int, _Block]:
    """The blocks with which the next step begins: gradients are those of this one."""
    left: defaultdict[int, list[_Block]] = defaultdict(list)
    for number in list(blocks):
        if held[number].begin > 0:
            left[held[number].size_bytes].append(blocks.pop(number))
    for number, holding in enumerate(held):
        if holding.begin == 0 and number not in blocks:
            same = left[holding.size_bytes]
            blocks[number] = same.pop(0) if same else heap.take(holding.size_bytes)
    for block in (one for several in left.values() for one in several):
        heap.leave(block)
    return blocks
