"""Small programs to measure host time with: Python, modules, autograd.

They differ in their composition, and none is a real model.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from time import perf_counter_ns

import torch
from torch import nn, optim

from tracedb.from_code.cpu.pages import PAGE
from tracedb.microbench.timing import ColdTimer, Effort
from tracedb.microbench.torch_backend import other_work

Step = Callable[[], object]

_SEED = 2026
_EFFORT = Effort(repeats=40, most=40, most_ns=1e9, warmup=10)
_FILLED_BYTES, _FILLS = 64 << 20, 9
"""[B] The C library gives memory of this size back as soon as it is freed."""


Part = tuple[nn.Module, Callable[[], torch.Tensor]]
"""A module with parameters, and its loss function."""
_SIZE = 4


def _layers() -> Part:
    """Linear layers with activations in a `Sequential`."""
    parts = [part for _ in range(2) for part in (nn.Linear(_SIZE, _SIZE), nn.Tanh())]
    model, inputs = nn.Sequential(*parts), torch.ones(_SIZE, _SIZE)
    return model, lambda: model(inputs).sum()


def _functions() -> Part:
    """Elementwise functions of one parameter, without modules."""
    model = nn.Linear(_SIZE, _SIZE)
    return model, lambda: torch.sigmoid(model.weight.exp() * 2.0 + 1.0).sum()


def _views() -> Part:
    """Views, a split and a concatenation."""
    model = nn.Linear(_SIZE, _SIZE)

    def error() -> torch.Tensor:
        pairs = model.weight.view(2, -1).transpose(0, 1).unsqueeze(0)
        left, right = pairs.chunk(2, 1)
        return torch.cat([left, right], 1).squeeze(0).reshape(_SIZE, _SIZE).sum()

    return model, error


def _pixels() -> Part:
    """A 1x1 convolution with batch norm."""
    model = nn.Sequential(
        nn.Conv2d(_SIZE, _SIZE, 1, bias=False), nn.BatchNorm2d(_SIZE), nn.ReLU()
    )
    images = torch.ones(2, _SIZE, 4, 4)
    return model, lambda: model(images).mean()


def _tables() -> Part:
    """Products of embedding rows."""
    model = nn.ModuleList([nn.Embedding(8 * _SIZE, _SIZE) for _ in range(2)])
    rows = torch.arange(_SIZE)
    return model, lambda: (model[0](rows) * model[1](rows)).square().mean()


def _mixing() -> Part:
    """A linear layer on 3-D inputs, with layer norm and dropout."""
    model = nn.Sequential(
        *(nn.LayerNorm(_SIZE), nn.Linear(_SIZE, _SIZE), nn.GELU(), nn.Dropout(0.1))
    )
    inputs = torch.ones(2, _SIZE, _SIZE)
    return model, lambda: model(inputs).sum()


def _products() -> Part:
    """Batched matrix products and softmax, as in hand-written attention."""
    model = nn.Linear(_SIZE, _SIZE)

    def error() -> torch.Tensor:
        x = model.weight.unsqueeze(0)
        return torch.bmm(torch.softmax(torch.bmm(x, x.transpose(1, 2)), -1), x).sum()

    return model, error


_PARTS = (_layers, _functions, _views, _pixels, _tables, _mixing, _products)
_OPTIMIZERS: tuple[Callable[..., optim.Optimizer], ...] = (
    partial(optim.SGD, lr=1e-3),
    partial(optim.SGD, lr=1e-3, momentum=0.9),
    partial(optim.AdamW, lr=1e-3),
)


def _program(
    makes: Sequence[Callable[[], Part]], optimizer: Callable[..., optim.Optimizer]
) -> Step:
    """A training step of several parts, on the sum of their losses."""
    parts = [make() for make in makes]
    chosen = optimizer([p for model, _ in parts for p in model.parameters()])

    def step() -> None:
        chosen.zero_grad()
        errors = [error() for _, error in parts]
        torch.autograd.backward(torch.stack(errors).sum())
        chosen.step()

    return step


def _programs() -> Iterator[Callable[[], Step]]:
    """Each part alone, and random combinations: ops of real steps seldom repeat."""
    chance = random.Random(_SEED)  # noqa: S311 (no secret)
    for count in (1, 2, 4, 6):
        for number in range(len(_PARTS)):
            makes = [_PARTS[number]] if count == 1 else chance.sample(_PARTS, count)
            optimizer = _OPTIMIZERS[number % len(_OPTIMIZERS)]
            yield partial(_program, makes, optimizer)


PROGRAMS: Mapping[str, Callable[[], Step]] = {
    str(number): make for number, make in enumerate(_programs())
}
"""The programs by their numbers."""


def time_ns(step: Step) -> float:
    """[ns] The time of a step after other work, with cold caches as in a real step.

    Repeated back to back, a small program would find everything in the core's caches.
    """
    timer = ColdTimer(other_work())
    return median(timer.samples(step, _EFFORT))


def page_ns() -> float:
    """[ns] The time of a new page: filling a new tensor, less filling one again.

    None where freed memory is kept. All threads write, as those of an op do.
    """
    again = torch.empty(_FILLED_BYTES, dtype=torch.uint8)
    with torch.no_grad():
        pairs = [
            (_took_ns(lambda: again.fill_(0)), _took_ns(_filled)) for _ in range(_FILLS)
        ]
    added = median(new - old for old, new in pairs)
    return max(added, 0.0) / (_FILLED_BYTES / PAGE)


def _filled() -> torch.Tensor:
    return torch.empty(_FILLED_BYTES, dtype=torch.uint8).fill_(0)


def _took_ns(work: Callable[[], object]) -> int:
    start = perf_counter_ns()
    work()
    return perf_counter_ns() - start
