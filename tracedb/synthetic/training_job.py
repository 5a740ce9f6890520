"""A DLRM-like training job: embeddings split over ranks, the rest data-parallel.

Each step fetches and copies a batch, looks up embeddings, exchanges them (all-to-all)
while the bottom MLP runs, and trains on; the backward pass runs on the autograd
thread, gradients are reduced on the communication stream meanwhile. Ranks hold
different numbers of tables, so that they wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, pairwise
from typing import TYPE_CHECKING

from .operators import Message, Operators, Table
from .program import (
    Annotation,
    Await,
    EventRecord,
    Gap,
    Notify,
    Program,
    Rank,
    StreamWait,
    Thread,
    seeded,
    step,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random

    from .program import Action, Op

COMPUTE, COPY, COMMUNICATION = 7, 20, 40
"""Streams of the job."""

_DATA = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


@dataclass(frozen=True, slots=True)
class Model:
    """Sizes of a DLRM."""

    batch: int = 8_192
    """Samples of a step on one rank."""
    dense: int = 13
    bottom: tuple[int, ...] = (512, 256, 64)
    top: tuple[int, ...] = (1024, 512, 256, 1)
    tables: tuple[Table, ...] = tuple(
        Table(rows, 64, lookups)
        for rows, lookups in [(1_000_000, 20), (200_000, 10), (40_000, 30), (10_000, 1)]
    )
    """Tables of rank 0; each further rank holds one more, a copy of the first."""

    @property
    def dim(self) -> int:
        """The width of an embedding, which is that of the bottom MLP's output."""
        return self.bottom[-1]

    def tables_of(self, rank: int) -> tuple[Table, ...]:
        """Return the tables that a rank holds."""
        return self.tables + self.tables[:1] * rank

    def features(self, world_size: int) -> int:
        """The number of interacting vectors: all embeddings, and the dense one."""
        return 1 + sum(len(self.tables_of(rank)) for rank in range(world_size))

    def interactions(self, world_size: int) -> int:
        """Return the columns that enter the top MLP."""
        features = self.features(world_size)
        return self.dim + features * (features - 1) // 2

    def bottom_shapes(self) -> list[tuple[int, int]]:
        """Return (inputs, outputs) of the layers of the bottom MLP."""
        return list(pairwise((self.dense, *self.bottom)))

    def top_shapes(self, world_size: int) -> list[tuple[int, int]]:
        """Return (inputs, outputs) of the layers of the top MLP."""
        return list(pairwise((self.interactions(world_size), *self.top)))


def training_job(
    seed: int = 0, *, ranks: int = 2, steps: int = 3, model: Model | None = None
) -> Program:
    """Return the program of a training job; `seed` varies its host times."""
    return Program(
        tuple(
            _Process(model or Model(), rank, ranks, seeded(seed, rank)).rank(steps)
            for rank in range(ranks)
        )
    )


class _Process:
    """One rank of the job."""

    def __init__(
        self, model: Model, rank: int, world_size: int, random: Random
    ) -> None:
        self.model = model
        self.random = random
        self.make = Operators(random, COMPUTE, pace=1 + 0.1 * rank)
        self.tables = model.tables_of(rank)
        self.features = model.features(world_size)
        self.width = model.interactions(world_size)
        self.bottom = model.bottom_shapes()
        self.top = model.top_shapes(world_size)
        self.numbers = count(500)
        self.exchanged = model.batch * model.dim * (self.features - 1)

    def rank(self, steps: int) -> Rank:
        """Return both threads of the rank."""
        main: list[Action] = []
        autograd: list[Action] = []
        for number in range(1, steps + 1):
            sequences = self._sequences()
            main += [step(number, *self._main(number, sequences)), Gap(20_000)]
            autograd += [
                Await(f"backward {number}", "fork"),
                *self._paced(self._backward(sequences), 2_500),
                Notify(f"gradients {number}"),
            ]
        threads = Thread("main", tuple(main)), Thread("autograd", tuple(autograd))
        return Rank(threads)

    def _sequences(self) -> dict[str, int]:
        """Return the numbers that link the forward ops of a step to its backward."""
        names = [f"bottom {layer}" for layer in range(len(self.bottom))]
        names += [f"top {layer}" for layer in range(len(self.top))]
        names += [f"{name} relu" for name in names]
        names += [f"table {table}" for table in range(len(self.tables))]
        names += ["cat", "bmm", "index", "cat top", "loss"]
        return {name: next(self.numbers) for name in names}

    def _paced(self, actions: Iterable[Action], mean_ns: int) -> Iterator[Action]:
        """Insert time of the interpreter (or autograd engine) before each action."""
        for action in actions:
            yield self.make.gap(mean_ns)
            yield action
        yield self.make.gap(mean_ns)

    def _annotation(self, name: str, *actions: Action) -> Annotation:
        return Annotation(name, tuple(self._paced(actions, 7_000)))

    # The main thread

    def _main(self, number: int, sequences: dict[str, int]) -> Iterator[Action]:
        yield self.make.gap(15_000)
        yield self._annotation("## copy_batch_to_gpu ##", *self._batch())
        yield self.make.gap(5_000)
        yield self._annotation("## wait_for_batch ##", StreamWait(COMPUTE, "batch"))
        yield self.make.gap(5_000)
        yield self._annotation("## forward ##", *self._forward(sequences))
        yield self.make.gap(10_000)
        yield Notify(f"backward {number}")
        yield Await(f"gradients {number}", "join")
        yield self.make.gap(10_000)
        yield self._annotation("Optimizer.step#SGD.step", *self._optimizer())
        yield self.make.gap(8_000)
        yield self.make.item()
        yield self.make.gap(12_000)

    def _batch(self) -> Iterator[Action]:
        """Fetch a batch, sometimes late, and copy it on a separate stream."""
        batch = self.model.batch
        late = self.random.random() < 1 / 3
        yield Annotation(_DATA, (self.make.gap(900_000 if late else 120_000),))
        yield self.make.to_device((batch, self.model.dense), COPY)
        for table in self.tables:
            yield self.make.to_device((batch * table.lookups,), COPY)
        yield self.make.to_device((batch, 1), COPY)
        yield EventRecord("batch", COPY)

    def _forward(self, sequences: dict[str, int]) -> Iterator[Action]:
        model, make = self.model, self.make
        batch = model.batch
        for number, table in enumerate(self.tables):
            yield make.embedding_bag(batch, table, sequences[f"table {number}"])
        yield make.cat(batch * len(self.tables), model.dim, sequences["cat"])
        yield make.collective(self._exchange("embeddings"))
        yield from self._layers("bottom", self.bottom, sequences)
        yield StreamWait(COMPUTE, "embeddings")
        shape = self.features, model.dim, self.features
        yield make.bmm(batch, shape, sequences["bmm"])
        square = batch, self.features, self.features
        yield make.index(square, sequences["index"])
        yield make.cat(batch, self.width, sequences["cat top"])
        yield from self._layers("top", self.top, sequences)
        yield make.loss(batch, sequences["loss"])

    def _layers(
        self, name: str, shapes: list[tuple[int, int]], sequences: dict[str, int]
    ) -> Iterator[Op]:
        for layer, shape in enumerate(shapes):
            key = f"{name} {layer}"
            yield self.make.linear(self.model.batch, shape, sequences[key])
            if shape[1] > 1:
                dims = self.model.batch, shape[1]
                yield self.make.relu(dims, sequences[f"{key} relu"])

    def _exchange(self, done: str) -> Message:
        return Message("all_to_all", self.exchanged, COMMUNICATION, done)

    def _optimizer(self) -> Iterator[Op]:
        shapes = self.bottom + self.top
        elements = sum((inputs + 1) * outputs for inputs, outputs in shapes)
        yield self.make.foreach_add(2 * len(shapes), elements)
        for table in self.tables:
            touched = min(table.rows, self.model.batch * table.lookups) * table.dim
            yield self.make.foreach_add(1, touched)

    # The autograd thread

    def _backward(self, sequences: dict[str, int]) -> Iterator[Action]:
        model, make = self.model, self.make
        batch = model.batch
        yield make.loss_backward(batch, sequences["loss"])
        yield from self._layers_backward("top", self.top, sequences)
        yield make.collective(self._gradients(self.top, "top gradients"))
        yield make.cat_backward(batch, self.width, sequences["cat top"])
        square = batch, self.features, self.features
        yield make.index_backward(square, sequences["index"])
        shape = self.features, model.dim, self.features
        yield make.bmm_backward(batch, shape, sequences["bmm"])
        yield make.collective(self._exchange("embedding gradients"))
        yield from self._layers_backward("bottom", self.bottom, sequences)
        yield make.collective(self._gradients(self.bottom, "bottom gradients"))
        yield StreamWait(COMPUTE, "embedding gradients")
        yield make.cat_backward(batch, model.dim, sequences["cat"])
        for number, table in enumerate(self.tables):
            number_of = sequences[f"table {number}"]
            yield make.embedding_bag_backward(batch, table, number_of)
        yield StreamWait(COMPUTE, "bottom gradients")

    def _layers_backward(
        self, name: str, shapes: list[tuple[int, int]], sequences: dict[str, int]
    ) -> Iterator[Op]:
        for layer, shape in reversed(list(enumerate(shapes))):
            key = f"{name} {layer}"
            if shape[1] > 1:
                dims = self.model.batch, shape[1]
                yield self.make.relu_backward(dims, sequences[f"{key} relu"])
            yield from self.make.linear_backward(
                self.model.batch, shape, sequences[key]
            )

    def _gradients(self, shapes: list[tuple[int, int]], done: str) -> Message:
        elements = sum((inputs + 1) * outputs for inputs, outputs in shapes)
        return Message("allreduce", elements, COMMUNICATION, done)
