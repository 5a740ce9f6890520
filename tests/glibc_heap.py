"""Allocate at random from the C library: `python glibc_heap.py SEED MOST`.

Prints the number of new pages. It is a process of its own, without other libraries,
whose freed memory would be used first.
"""

from __future__ import annotations

import ctypes
import math
import random
import sys
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = 4096
Change = tuple[int, int]
"""A block's number, and its size [B] if it is allocated, else 0."""


def changes(seed: int, most: float) -> list[Change]:
    """Random allocations of 64 B to `most`, of which half are freed in time."""
    chance = random.Random(seed)  # noqa: S311 (no secret)
    live: list[int] = []
    found: list[Change] = []
    for number in range(600):
        if live and chance.random() < 0.5:
            place = chance.randrange(len(live)) if chance.random() < 0.5 else -1
            found.append((live.pop(place), 0))
            continue
        size = math.exp(chance.uniform(math.log(64), math.log(most)))
        found.append((number, round(size)))
        live.append(number)
    return found


def new_pages(sequence: Sequence[Change]) -> int:
    """The pages that no block had since the heap grew to them, and of mappings all."""
    libc = ctypes.CDLL(None)
    libc.sbrk.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    pointer = ctypes.c_void_p()
    blocks = dict.fromkeys((number for number, _ in sequence), 0)
    # A byte per page of the heap; from here on Python allocates hardly anything itself.
    written = bytearray(1 << 18)
    bytes_at = ctypes.addressof(ctypes.c_char.from_buffer(written))
    first, new = libc.sbrk(0) // PAGE - 256, 0
    for number, size in sequence:
        if not size:
            libc.free(blocks[number])
            end = libc.sbrk(0) // PAGE + 1 - first
            ctypes.memset(bytes_at + end, 0, len(written) - end)
            continue
        libc.posix_memalign(ctypes.byref(pointer), 64, size)
        address = blocks[number] = cast("int", pointer.value)
        begin = address // PAGE - first
        pages = (address + size - 1) // PAGE + 1 - address // PAGE
        if 0 <= begin < len(written):
            new += written.count(0, begin, begin + pages)
            ctypes.memset(bytes_at + begin, 1, pages)
        else:
            new += pages
    return new


if __name__ == "__main__":
    sys.stdout.write(str(new_pages(changes(int(sys.argv[1]), float(sys.argv[2])))))
