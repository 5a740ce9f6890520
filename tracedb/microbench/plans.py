"""Plans by name: sweeps, limited to cases that fit in memory and thinned.

`gemm` is the sweep of that name thinned, `gemm_whole` all of it that fits.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from . import cpu_sweeps, sweeps
from .case import Case
from .errors import MicrobenchError
from .run import Plan

MEMORY_BYTES = 16_777_000_000
"""[B] The memory limit of the paper's sweeps: a GPU of 16 GB."""
QUICK_BYTES = 128 * 2**20

WHOLE = "_whole"
CPU = "cpu"
"""The plan of `tracedb kernels cpu`, for estimates of steps on a CPU."""
_SEED = 2022

_Sweep = Callable[[], Iterable[Case]]


@dataclass(frozen=True)
class _Part:
    """A sweep, and the number of its cases in a plan."""

    sweep: _Sweep
    count: int
    memory_bytes: int = MEMORY_BYTES

    def fitting(self) -> list[Case]:
        """List the cases of the sweep that fit into memory."""
        return [c for c in self.sweep() if c.memory_bytes <= self.memory_bytes]

    def cases(self) -> list[Case]:
        """List the cases of the plan."""
        return thin(self.fitting(), self.count)


def _quick(sweep: _Sweep, count: int) -> _Part:
    return _Part(sweep, count, QUICK_BYTES)


_PLANS: Mapping[str, Sequence[_Part]] = {
    "quick": (
        _quick(sweeps.quick_gemm, 300),
        _quick(sweeps.quick_int8, 60),
        _quick(sweeps.quick_bags, 400),
        _quick(sweeps.quick_embedding, 160),
        _quick(sweeps.quick_elementwise, 60),
        _quick(sweeps.quick_rows, 120),
        _quick(sweeps.quick_movement, 120),
        _quick(sweeps.quick_layers, 80),
        _quick(sweeps.quick_optimizer, 40),
    ),
    "gemm": (_Part(sweeps.gemm, 1500),),
    "embedding_bag": (_Part(sweeps.embedding_bag, 500),),
    "embedding": (_Part(sweeps.embedding, 300),),
    "concat": (_Part(sweeps.concat, 300),),
    "transpose": (_Part(sweeps.transpose, 300),),
    "index": (_Part(sweeps.index, 300),),
    "memcpy": (_Part(sweeps.memcpy, 300),),
    "elementwise": (_Part(sweeps.elementwise, 300),),
    "reduction": (_Part(sweeps.reduction, 300),),
    "softmax": (_Part(sweeps.softmax, 300),),
    "layer_norm": (_Part(sweeps.layer_norm, 300),),
    "batch_norm": (_Part(sweeps.batch_norm, 300),),
    "scan": (_Part(sweeps.scan, 300),),
    "dropout": (_Part(sweeps.dropout, 300),),
    "convolution": (_Part(sweeps.convolution, 300),),
    "attention": (_Part(sweeps.attention, 300),),
    "optimizer": (_Part(sweeps.optimizer, 300),),
    CPU: tuple(_quick(sweep, count) for sweep, count in cpu_sweeps.PARTS.items()),
}
# How many cases each has, at most: some sweeps have fewer of an op.
COUNTS = {name: sum(part.count for part in parts) for name, parts in _PLANS.items()}
_MIXED = {
    "quick": "A few shapes of every family: ten minutes on a CPU, or longer.",
    CPU: "All that `tracedb kernels cpu` measures: one to two minutes.",
}
# Rounds of the plan for two noisy cores; an unshared GPU needs one.
_ROUNDS = {"quick": 3}


def plan(name: str) -> Plan:
    """Find a plan by its name; MicrobenchError lists the names."""
    sweep = name.removesuffix(WHOLE)
    if sweep not in _PLANS:
        raise MicrobenchError(
            f"{name}: unknown plan; available: {', '.join(COUNTS)}, each also with "
            f"{WHOLE}"
        )
    parts = _PLANS[sweep]
    found = [
        case
        for part in parts
        for case in (part.fitting() if name.endswith(WHOLE) else part.cases())
    ]
    return Plan(name, found, rounds=_ROUNDS.get(name, 1), is_cold=sweep == CPU)


def about(name: str) -> str:
    """The subject of a plan: the docstring of its sweep."""
    parts = _PLANS[name]
    return (
        _MIXED[name] if parts[1:] else (parts[0].sweep.__doc__ or "").partition("\n")[0]
    )


def thin(cases: Iterable[Case], count: int) -> list[Case]:
    """Choose `count` cases, evenly over their sizes; always the same ones.

    Cases of each op and dtype get an equal part of the number, as far as they go; among
    them one is drawn from each of as many equal groups by size.
    """
    kinds: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        kinds.setdefault((case.family, case.op, case.dtype), []).append(case)
    chance = random.Random(_SEED)  # noqa: S311 (no secret)
    return list(_thinned(sorted(kinds.values(), key=len), count, chance))


def _thinned(
    kinds: Sequence[list[Case]], count: int, chance: random.Random
) -> Iterator[Case]:
    """Yield the share of each kind; unused shares of small kinds go to others."""
    left = count
    for place, kind in enumerate(kinds):
        part = min(len(kind), left // (len(kinds) - place))
        left -= part
        ordered = sorted(kind, key=lambda case: (case.memory_bytes, case.key))
        for number in range(part):
            low, high = (len(kind) * n // part for n in (number, number + 1))
            yield ordered[chance.randrange(low, high)]
