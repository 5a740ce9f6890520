"""Programs that say what a step takes beside its ops: Python, modules, autograd.

They are small, differ in what they are made of, and none is a model of anyone's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median

import torch
from torch import nn, optim

from tracedb.microbench.timing import ColdTimer, Effort
from tracedb.microbench.torch_backend import other_work

Step = Callable[[], object]

_SEED = 2026
_EFFORT = Effort(repeats=40, most=40, most_ns=1e9, warmup=10)


Part = tuple[nn.Module, Callable[[], torch.Tensor]]
"""What is learnt, and its error."""
_SIZE = 4


def _layers() -> Part:
    """Products with activations between, one module after another."""
    parts = [part for _ in range(2) for part in (nn.Linear(_SIZE, _SIZE), nn.Tanh())]
    model, inputs = nn.Sequential(*parts), torch.ones(_SIZE, _SIZE)
    return model, lambda: model(inputs).sum()


def _functions() -> Part:
    """Functions of Python's alone, of one parameter."""
    model = nn.Linear(_SIZE, _SIZE)
    return model, lambda: torch.sigmoid(model.weight.exp() * 2.0 + 1.0).sum()


def _views() -> Part:
    """Views that are taken, joined and cut again."""
    model = nn.Linear(_SIZE, _SIZE)

    def error() -> torch.Tensor:
        pairs = model.weight.view(2, -1).transpose(0, 1).unsqueeze(0)
        left, right = pairs.chunk(2, 1)
        return torch.cat([left, right], 1).squeeze(0).reshape(_SIZE, _SIZE).sum()

    return model, error


def _pixels() -> Part:
    """A convolution of single pixels, with its norm."""
    model = nn.Sequential(
        nn.Conv2d(_SIZE, _SIZE, 1, bias=False), nn.BatchNorm2d(_SIZE), nn.ReLU()
    )
    images = torch.ones(2, _SIZE, 4, 4)
    return model, lambda: model(images).mean()


def _tables() -> Part:
    """Rows of tables that are multiplied with each other."""
    model = nn.ModuleList([nn.Embedding(8 * _SIZE, _SIZE) for _ in range(2)])
    rows = torch.arange(_SIZE)
    return model, lambda: (model[0](rows) * model[1](rows)).square().mean()


def _mixing() -> Part:
    """Products of three dimensions, norms, and what is dropped by chance."""
    model = nn.Sequential(
        *(nn.LayerNorm(_SIZE), nn.Linear(_SIZE, _SIZE), nn.GELU(), nn.Dropout(0.1))
    )
    inputs = torch.ones(2, _SIZE, _SIZE)
    return model, lambda: model(inputs).sum()


def _products() -> Part:
    """Batched products and softmax of functions, as of a hand-written mixer."""
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
    """A step that learns some parts by the sum of their errors."""
    parts = [make() for make in makes]
    chosen = optimizer([p for model, _ in parts for p in model.parameters()])

    def step() -> None:
        chosen.zero_grad()
        errors = [error() for _, error in parts]
        torch.autograd.backward(torch.stack(errors).sum())
        chosen.step()

    return step


def _programs() -> Iterator[Callable[[], Step]]:
    """Each part alone, and several together: ops of real steps seldom repeat."""
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
    """[ns] A step behind other work, as ops are measured: what a real one is like.

    In a loop of itself a small program finds all that it needs in the core's caches.
    """
    timer = ColdTimer(other_work())
    return median(timer.samples(step, _EFFORT))
