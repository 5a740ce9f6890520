"""Training programs on the CPU before and after one change, with the change's edits.

A change has two step functions of one model on the same data, and the edits by which
the second is predicted from a recording of the first. No number in these is measured,
but for the time to take a batch from a worker process (`TAKEN`, `taking`).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn, optim
from torch.nn import functional
from torch.profiler import record_function
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

Step = Callable[[], object]
Batch = tuple[Tensor, Tensor]
ADAM = partial(optim.Adam, lr=1e-4, foreach=False)
SGD = partial(optim.SGD, lr=1e-4, foreach=False)


class Program(Protocol):
    """Creates the step function, before or after the change."""

    def __call__(self, *, after: bool) -> Step:
        """Create it."""


class Change(NamedTuple):
    """A change of a program."""

    about: str
    edits: tuple[str, ...]
    """The change as a scenario."""
    program: Program

    def step(self, *, after: bool) -> Step:
        """The step before or after; both start from the same random numbers."""
        torch.manual_seed(0)
        return self.program(after=after)


CHANGES: dict[str, Change] = {}
"""All changes by name."""


def _change(about: str, *edits: str) -> Callable[[Program], Program]:
    """Register a function as a change under its own name."""

    def known(program: Program) -> Program:
        name = getattr(program, "__name__", "").strip("_")
        CHANGES[name] = Change(about, edits, program)
        return program

    return known


@dataclass
class Training:
    """A training loop, in parts that changes replace."""

    model: nn.Module
    batches: Iterator[Batch]
    optimizer: Callable[..., optim.Optimizer] = SGD
    set_to_none: bool = True
    update_every: int = 1
    """Number of batches per weight update."""
    batches_of_step: int = 1
    before_update: Callable[[nn.Module], object] | None = None
    after_update: Callable[[nn.Module], object] | None = None

    def step(self) -> Step:
        """The function of one step."""
        weights = [p for p in self.model.parameters() if p.requires_grad]
        optimizer = self.optimizer(weights)

        def step() -> None:
            for number in range(1, self.batches_of_step + 1):
                inputs, target = next(self.batches)
                error = functional.mse_loss(self.model(inputs), target)
                torch.autograd.backward(error)
                if number % self.update_every == 0:
                    self._update(optimizer)

        return step

    def _update(self, optimizer: optim.Optimizer) -> None:
        if self.before_update:
            self.before_update(self.model)
        optimizer.step()
        optimizer.zero_grad(self.set_to_none)
        if self.after_update:
            self.after_update(self.model)


def _again(inputs: Tensor, target: Tensor) -> Iterator[Batch]:
    """The same batch again and again."""
    return cycle([(inputs, target)])


# Multilayer perceptrons.

_DEPTH = 12


def _layers(
    between: Callable[[], nn.Module] = nn.ReLU, width: int = 256
) -> nn.Sequential:
    pairs = [(nn.Linear(width, width), between()) for _ in range(_DEPTH)]
    return nn.Sequential(*(layer for pair in pairs for layer in pair))


def _perceptron(
    model: nn.Module | None = None,
    *,
    width: int = 256,
    rows: int = 32,
    **parts: Any,  # noqa: ANN401 (those of `Training`)
) -> Step:
    batches = _again(torch.randn(rows, width), torch.randn(rows, width))
    return Training(model or _layers(width=width), batches, **parts).step()


@_change(
    "dropout behind each layer of an MLP is removed",
    "op:aten::dropout remove",
    'op:"*: MulBackward0" remove',
)
def _dropout(*, after: bool) -> Step:
    def with_dropout() -> nn.Module:
        return nn.Sequential(nn.ReLU(), nn.Dropout(0.1))

    return _perceptron(_layers(nn.ReLU if after else with_dropout), rows=256)


@_change(
    "Adam works on lists (`foreach`) instead of in a loop: no Python between its ops",
    "host:T1 phase=optimizer x0",
)
def _foreach(*, after: bool) -> Step:
    return _perceptron(width=128, optimizer=partial(ADAM, foreach=after))


@_change(
    "norm, mean and maximum of gradients are not read by `.item()` any more",
    "op annotation=read remove",
)
def _item(*, after: bool) -> Step:
    def read(model: nn.Module) -> list[float]:
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        with record_function("read"):
            norms = [torch.linalg.vector_norm(each).item() for each in gradients]
            means = [each.mean().item() for each in gradients]
            return norms + means + [each.abs().max().item() for each in gradients]

    return _perceptron(width=128, before_update=None if after else read)


@_change("nothing: what is measured and predicted has to be 0", "host x1")
def _unchanged(*, after: bool) -> Step:
    del after
    return _perceptron()


@_change("gradients are not clipped any more", "op annotation=clip remove")
def _clip(*, after: bool) -> Step:
    def clip(model: nn.Module) -> None:
        with record_function("clip"):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)

    return _perceptron(before_update=None if after else clip)


@_change(
    "`zero_grad` drops gradients; before, it filled them with zeros, to be added to",
    "op:aten::zero_ annotation=Optimizer.zero_grad* remove",
    "host:T5 op=aten::add_ phase=backward x0",
)
def _drop_gradients(*, after: bool) -> Step:
    return _perceptron(set_to_none=after)


@_change(
    "weights are updated behind every other batch, by Adam",
    "host phase=optimizer x0.5",
)
def _accumulation(*, after: bool) -> Step:
    updates = 2 if after else 1
    return _perceptron(optimizer=ADAM, update_every=updates, batches_of_step=2)


@_change("no moving average of weights is kept", "op annotation=average remove")
def _average(*, after: bool) -> Step:
    model = _layers()
    average = copy.deepcopy(model)

    def follow(model: nn.Module) -> None:
        with record_function("average"), torch.no_grad():
            for old, new in zip(average.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 0.01)

    return _perceptron(model, after_update=None if after else follow)


@_change(
    "half as many numbers are logged in each step; ops that slice them stay",
    "host:T1 annotation=log x0.5",
)
def _log(*, after: bool) -> Step:
    def write(model: nn.Module) -> None:
        with record_function("log"):
            for p in model.parameters():
                json.dumps(p.detach().flatten()[: 128 if after else 256].tolist())

    return _perceptron(after_update=write)


_ADDED_TO_MOMENTUM = (
    "SELECT op_id FROM (SELECT op_id, name, lag(name) OVER "
    "(PARTITION BY thread_id ORDER BY start_ns) AS before "
    "FROM staging.op WHERE is_top_level) "
    "WHERE name = 'aten::add_' AND before = 'aten::mul_'"
)


@_change(
    "SGD without momentum: a multiplication and an addition less for each weight",
    "op:aten::mul_ phase=optimizer remove",
    f'op sql="{_ADDED_TO_MOMENTUM}" remove',
)
def _momentum(*, after: bool) -> Step:
    return _perceptron(optimizer=partial(SGD, momentum=0 if after else 0.9))


class _Checkpointed(nn.Module):
    """Layers whose activations are kept or recomputed."""

    def __init__(self, layers: nn.Sequential) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        """Run all layers."""
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=True)
        return x


@_change(
    "activations are kept; before, all but the layers' inputs were computed twice",
    "op:aten::linear phase=backward remove",
    "op:aten::relu phase=backward remove",
    "op:*CheckpointFunctionBackward* part=self remove",
)
def _checkpoint(*, after: bool) -> Step:
    pairs = [nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(_DEPTH)]
    layers = nn.Sequential(*pairs)
    x = torch.randn(256, 256, requires_grad=True)
    batches = _again(x, torch.randn(256, 256))
    return Training(layers if after else _Checkpointed(layers), batches).step()


# Networks with convolutions.


def _convolutions(*, normalises: bool = True) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs in (3, 16, 16, 16):
        layers.append(nn.Conv2d(inputs, 16, 3, padding=1, bias=False))
        if normalises:
            layers.append(nn.BatchNorm2d(16, affine=False))
        layers.append(nn.ReLU())
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten())


def _pictures() -> Iterator[Batch]:
    return _again(torch.rand(16, 3, 32, 32), torch.randn(16, 256))


@_change(
    "convolutions are not normalised any more",
    "op:aten::batch_norm remove",
    'op:"*: NativeBatchNormBackward0" remove',
    # It counts batches.
    "op:aten::add_ phase=forward remove",
)
def _normalisation(*, after: bool) -> Step:
    return Training(_convolutions(normalises=not after), _pictures()).step()


class _Stacked(nn.Module):
    """Layers on top of others, which have no gradients if frozen."""

    def __init__(self, *, is_frozen: bool) -> None:
        super().__init__()
        self.below = _convolutions().requires_grad_(requires_grad=not is_frozen)
        self.above = nn.Sequential(*(nn.Linear(256, 256) for _ in range(8)))
        self.is_frozen = is_frozen

    def forward(self, x: Tensor) -> Tensor:
        """Run both."""
        with torch.set_grad_enabled(not self.is_frozen), record_function("below"):
            x = self.below(x)
        return self.above(x)  # type: ignore[no-any-return] # a Module may give anything


_BACKWARD_OF_BELOW = (
    "SELECT backward.op_id FROM staging.annotation AS below "
    "INNER JOIN staging.op AS forward "
    "ON forward.start_ns BETWEEN below.start_ns AND below.end_ns "
    "INNER JOIN staging.op AS backward "
    "ON forward.trace_id = backward.trace_id "
    "AND forward.sequence_number = backward.sequence_number "
    "WHERE below.name = 'below' AND backward.name LIKE 'autograd::engine::%'"
)


@_change(
    "convolutions below are frozen, and run without gradients",
    f'op sql="{_BACKWARD_OF_BELOW}" remove',
    # Frozen weights have neither gradients nor updates.
    "op:torch::autograd::AccumulateGrad shape=*,3,3]* remove",
    "op:aten::add_ phase=optimizer shape=*,3,3]* remove",
)
def _frozen(*, after: bool) -> Step:
    return Training(_Stacked(is_frozen=after), _pictures()).step()


# Data loading.


class _Augmented(Dataset[Batch]):
    """Images that are generated on access."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, number: int) -> Batch:
        """An image."""
        x = torch.full((3, 32, 32), float(number % 7))
        with record_function("augment"):
            for _ in range(self.rounds):
                x = x.flip(-1).sin()
        return x, torch.zeros(256)


_ROUNDS, _WORKERS = 20, 2
TAKEN = "{taken}"
"""In edits: the time that the step of `taking` needs, if a batch is ready."""


def _batches(rounds: int, workers: int = 0) -> Iterator[Batch]:
    return iter(DataLoader(_Augmented(rounds), 16, num_workers=workers))


def _loaded(rounds: int, workers: int = 0) -> Step:
    batches = _batches(rounds, workers)
    return Training(_Stacked(is_frozen=False), batches).step()


def taking() -> Step:
    """A step that only takes a batch from the worker processes of `workers`."""
    return _batches(_ROUNDS, _WORKERS).__next__


@_change(
    "two processes load the data beside the training",
    f"host:wait_data overlap workers=2 host_ns={TAKEN}",
)
def _workers(*, after: bool) -> Step:
    return _loaded(_ROUNDS, _WORKERS if after else 0)


@_change(
    "pictures are augmented in ten rounds instead of forty",
    "host:wait_data annotation=augment x0.25",
)
def _transform(*, after: bool) -> Step:
    return _loaded(10 if after else 40)


# A recommendation model.


class _Recommender(nn.Module):
    """Embedding tables, with layers on top."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(rows, 32, mode="sum") for _ in range(4)
        )
        self.top = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, indices: Tensor) -> Tensor:
        """Look up, and score."""
        found = [table(part) for table, part in zip(self.tables, indices, strict=True)]
        return self.top(torch.cat(found, 1))  # type: ignore[no-any-return] # likewise


@_change(
    "tables have half as many rows, and dense gradients as many; lookups stay",
    "host op=aten::zero_ shape=*[40000,32]* x0.5",
    "host op=aten::add_ shape=*[40000,32]* x0.5",
)
def _table(*, after: bool) -> Step:
    rows = 20_000 if after else 40_000
    batches = _again(torch.randint(rows, (4, 512, 20)), torch.rand(512, 1))
    return Training(_Recommender(rows), batches).step()


# A transformer.


def _encoder(dropout: float, count: int = 3) -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout, batch_first=True)
    return nn.TransformerEncoder(layer, count, enable_nested_tensor=False)


@_change(
    "a transformer without dropout",
    "op:/^aten::(dropout|native_dropout)$/ remove",
    'op:"*: MulBackward0" remove',
)
def _transformer(*, after: bool) -> Step:
    batches = _again(torch.randn(8, 64, 64), torch.randn(8, 64, 64))
    return Training(_encoder(0.0 if after else 0.1), batches).step()
