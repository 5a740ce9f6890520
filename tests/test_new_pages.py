"""Memory that steps take anew: by glibc's rules, and in a real program."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import glibc_heap
import pytest
import torch
from torch import nn

from tracedb.from_code.cpu.pages import PAGE, Heap, new_pages
from tracedb.from_code.cpu.programs import page_ns
from tracedb.from_code.fake_run import FakeRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from glibc_heap import Change

    from tracedb.from_code.memory import Holding

KIB, MIB = 1 << 10, 1 << 20
ON_GLIBC = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="the C library is not glibc"
)
GLIBC = Path(glibc_heap.__file__)


def told(sequence: Sequence[Change]) -> int:
    """The new pages by our heap."""
    heap, blocks = Heap(), {}
    for number, size in sequence:
        if size:
            blocks[number] = heap.take(size)
        else:
            heap.leave(blocks.pop(number))
    return heap.heap_pages + heap.mapped_pages


def elsewhere(file: str | Path, *words: object) -> float:
    """What a file prints in a process with the C library's usual settings."""
    usual = {
        name: value
        for name, value in os.environ.items()
        if name not in {"LD_PRELOAD", "GLIBC_TUNABLES"} and "MALLOC" not in name
    }
    done = subprocess.run(  # noqa: S603 (our own files)
        [sys.executable, str(file), *map(str, words)],
        check=True, capture_output=True, text=True, env=usual,
    )  # fmt: skip
    return float(done.stdout.splitlines()[-1])


@ON_GLIBC
@pytest.mark.parametrize("most", [1e6, 1e7, 1e8])
def test_the_heap_is_that_of_glibc(most: float) -> None:
    """Random allocations take as many new pages as in glibc, in the middle."""
    ratios = [
        told(glibc_heap.changes(seed, most)) / elsewhere(GLIBC, seed, most)
        for seed in range(12)
    ]
    assert median(ratios) == pytest.approx(1, abs=0.1)


def test_memory_that_is_used_again_has_no_new_pages() -> None:
    """A block takes the place of a freed one; the heap keeps up to a threshold."""
    heap = Heap()
    below, first = heap.take(64 * KIB), heap.take(96 * KIB)
    heap.take(64 * KIB)
    taken = heap.heap_pages
    heap.leave(first)
    assert heap.take(96 * KIB) == first
    assert heap.heap_pages == taken
    heap.leave(below)
    assert heap.take(48 * KIB).address == below.address
    assert heap.heap_pages == taken


def test_the_end_of_the_heap_is_given_back() -> None:
    """What is freed there and larger than the threshold has new pages again."""
    heap = Heap()
    for _ in range(2):
        blocks = [heap.take(100 * KIB) for _ in range(10)]
        pages = heap.heap_pages
        for block in reversed(blocks):
            heap.leave(block)
    assert pages == pytest.approx(2 * 10 * 100 * KIB / PAGE, rel=0.2)


@pytest.mark.parametrize(("mib", "mapped"), [(16, 1), (31, 1), (33, 3)])
def test_large_blocks_are_mapped(mib: int, mapped: int) -> None:
    """The first large block is; later ones only if they are of more than 32 MiB."""
    heap = Heap()
    for _ in range(3):
        heap.leave(heap.take(mib * MIB))
    assert heap.mapped_pages == pytest.approx(mapped * mib * MIB / PAGE, abs=mapped)
    assert (heap.heap_pages > 0) == (mapped == 1)


def large() -> Callable[[], None]:
    """A training step with gradients and activations of more than 32 MiB."""
    table, layer = nn.Embedding(200_000, 64), nn.Linear(64, 4_000)
    model = nn.ModuleList([table, layer])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = torch.arange(3_000)

    def step() -> None:
        optimizer.zero_grad()
        torch.autograd.backward(layer(table(rows)).relu().sum())
        optimizer.step()

    return step


def faults() -> float:
    """The page faults of a real step, in the mean of five."""
    step = large()
    for _ in range(4):
        step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        step()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 5


def held() -> list[Holding]:
    """The allocations of that step, on fake tensors."""
    run = FakeRun(None)
    with run.inside():
        step = large()
    return run.step(step).held


@ON_GLIBC
def test_large_tensors_of_a_real_step_have_new_pages() -> None:
    """A real step has as many page faults as are told from code."""
    found = new_pages(held()).values()
    mapped, grown = sum(p.mapped for p in found), sum(p.heap for p in found)
    assert mapped > 20_000
    assert 0.97 * mapped < elsewhere(__file__) < 1.03 * (mapped + grown)


def test_pages_are_those_of_the_ops_that_allocate() -> None:
    """Each large tensor's pages go to the op that makes it, in each step the same."""
    memory = [
        SimpleNamespace(begin=0, end=None, size_bytes=64 * MIB),
        SimpleNamespace(begin=3, end=5, size_bytes=40 * MIB),
        SimpleNamespace(begin=4, end=4, size_bytes=1_000),
        SimpleNamespace(begin=5, end=None, size_bytes=48 * MIB),
        SimpleNamespace(begin=0, end=2, size_bytes=48 * MIB),
    ]
    found = new_pages(cast("list[Holding]", memory))
    assert {at: round(new.mapped * PAGE / MIB) for at, new in found.items()} == {
        3: 40,
        5: 48,
    }


def test_gradients_of_a_step_are_those_that_the_next_frees() -> None:
    """A gradient that takes the place of the last but one has no new pages."""
    memory = [
        SimpleNamespace(begin=0, end=2, size_bytes=MIB),
        SimpleNamespace(begin=1, end=None, size_bytes=MIB),
    ]
    assert new_pages(cast("list[Holding]", memory)) == {}


def test_page_cost_is_measured() -> None:
    """A new page takes some of the time that a machine needs to clear it."""
    assert 0 <= page_ns() < 1e6


if __name__ == "__main__":
    sys.stdout.write(str(faults()))
