"""Random programs that always end, for property tests.

Structure and durations differ between ranks, but collectives have the same order on all
ranks, because main and autograd threads never launch at the same time and the
free-running third thread launches none. Events are recorded before they are awaited, on
the waiting thread or on one that ran before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .operators import Message, Operators, Table
from .program import (
    Annotation,
    Await,
    Copy,
    DeviceSync,
    EventRecord,
    EventSync,
    Gap,
    Launch,
    Memset,
    Notify,
    Op,
    OtherCall,
    Program,
    Rank,
    StreamSync,
    StreamWait,
    Thread,
    seeded,
    step,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from random import Random

    from .program import Action, Call, Dims, Direction

STREAMS = (7, 20, 24, 28)
THREADS = ("main", "autograd", "worker")

_NAMES: tuple[tuple[str, str, Dims], ...] = (
    ("aten::linear", "aten::addmm", ((64, 32), (16, 32), (16,))),
    ("aten::embedding_bag", "aten::_embedding_bag", ((1000, 16), (128,), (64,))),
    ("aten::matmul", "aten::bmm", ((8, 4, 16), (8, 16, 4))),
    ("aten::to", "aten::copy_", ((64, 16), (), ())),
    ("aten::item", "aten::_local_scalar_dense", ((1,),)),
    ("aten::softmax", "aten::_softmax", ((64, 10), (), ())),
    ("aten::mul", "aten::_foreach_add_", ((), (), ())),
)
_BLOCKING: tuple[Direction, ...] = ("HtoD", "DtoH")
_DIRECTIONS: tuple[Direction, ...] = (*_BLOCKING, "DtoD")


@dataclass(frozen=True, slots=True)
class Weights:
    """Frequencies; relative within each of the three groups."""

    # What a thread does next
    operator: float = 4
    """A PyTorch op (`Operators`)."""
    composed: float = 6
    """An op of random calls, flat or nested, with gaps."""
    bare: float = 2
    """A call outside ops."""
    # Which call
    launch: float = 8
    copy: float = 1
    blocking_copy: float = 0.5
    memset: float = 0.7
    stream_sync: float = 0.5
    device_sync: float = 0.2
    event_record: float = 1.5
    stream_wait: float = 1.5
    event_sync: float = 0.4
    other: float = 1
    # Shares, of 1
    collective: float = 0.1
    """Collectives per op, where there is more than one rank."""
    annotation: float = 0.5
    """Phases of a step that are annotated."""
    data_wait: float = 0.5
    """Steps that fetch a batch."""


@dataclass(frozen=True, slots=True)
class _Size:
    threads: int
    streams: int
    steps: int
    ops: int


def random_program(  # noqa: PLR0913 - the size of a program has five names
    seed: int,
    *,
    threads: int = 2,
    streams: int = 2,
    steps: int = 2,
    ops: int = 20,
    ranks: int = 1,
    weights: Weights | None = None,
) -> Program:
    """Return a random program: `ops` ops or bare calls a step on the main thread.

    The second thread is autograd (half as many ops, while main waits), the third runs
    free, beside the steps. With two or more streams collectives use the last one.
    """
    size = _Size(threads, streams, steps, ops)
    weights = weights or Weights()
    share = weights.collective if ranks > 1 else 0.0
    plan = _collectives(seeded(seed, "collectives"), size, share)
    return Program(
        tuple(
            _Process(seeded(seed, rank), size, weights, plan).rank()
            for rank in range(ranks)
        )
    )


def _collectives(random: Random, size: _Size, share: float) -> list[list[Message]]:
    """Return the collectives of each phase of each step, alike on all ranks."""
    stream = STREAMS[size.streams - 1]
    counts = [
        sum(random.random() < share for _ in range(size.ops // 2))
        for _ in range(size.steps * _PHASES)
    ]
    return [
        [
            Message(
                random.choice(["allreduce", "all_to_all"]),
                random.randrange(1, 100_000),
                stream,
                f"done {number}",
            )
            for number in range(count)
        ]
        for count in counts
    ]


_PHASES = 3
"""Phases of a step: forward and optimizer on main, backward on autograd's thread."""


class _Process:
    """One rank: each of its threads in turn."""

    def __init__(
        self,
        random: Random,
        size: _Size,
        weights: Weights,
        collectives: list[list[Message]],
    ) -> None:
        self.random = random
        self.size = size
        self.weights = weights
        self.collectives = iter(collectives)

    def rank(self) -> Rank:
        """Return the threads of the rank."""
        maker = _Maker(self.random, self.size.streams, self.weights, "main")
        main: list[Action] = []
        autograd: list[Action] = []
        for number in range(1, self.size.steps + 1):
            forward = self._fetch(maker) + self._phase(maker, "## forward ##")
            backward = self._phase(maker, "")
            optimizer = self._phase(maker, "Optimizer.step#SGD.step")
            if self.size.threads > 1:
                autograd += self._handed_over(number, backward)
                backward = self._hand_over(maker, number)
            main.append(step(number, *forward, *backward, *optimizer))
            main += maker.maybe_gap()
        bodies = [main, autograd, self._free_running()]
        pairs = list(zip(THREADS, bodies, strict=True))[: self.size.threads]
        return Rank(tuple(Thread(name, tuple(body)) for name, body in pairs))

    def _fetch(self, maker: _Maker) -> list[Action]:
        """Return the wait for a batch, or nothing."""
        if self.random.random() >= self.weights.data_wait:
            return maker.maybe_gap()
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        body: list[Action] = [maker.gap(50_000)]
        if self.random.random() < 1 / 2:
            body += [*maker.slot(), maker.gap(5_000)]
        return [Annotation(name, tuple(body)), *maker.maybe_gap()]

    def _phase(self, maker: _Maker, name: str) -> list[Action]:
        """Return some ops, with the next collectives among them."""
        count = max(1, self.size.ops // 2)
        slots = [maker.slot() for _ in range(count)]
        messages = next(self.collectives)
        places = sorted(self.random.randrange(count) for _ in messages)
        for place, message in zip(places, messages, strict=True):
            slots[place] += [maker.collective(message), *maker.maybe_gap()]
        actions = [action for slot in slots for action in slot]
        if name and self.random.random() < self.weights.annotation:
            return [Annotation(name, tuple(actions))]
        return actions

    def _hand_over(self, maker: _Maker, number: int) -> list[Action]:
        """Return the main thread's start of a backward pass and its wait for it."""
        fork, join = Notify(f"backward {number}"), Await(f"gradients {number}", "join")
        return [*maker.maybe_gap(), fork, *maker.maybe_gap(), join, *maker.maybe_gap()]

    def _handed_over(self, number: int, backward: list[Action]) -> list[Action]:
        fork, join = Await(f"backward {number}", "fork"), Notify(f"gradients {number}")
        return [fork, *backward, join]

    def _free_running(self) -> list[Action]:
        """Return a thread that launches and waits on its own."""
        maker = _Maker(self.random, self.size.streams, self.weights, "worker")
        count = self.size.steps * self.size.ops // 2
        return [action for _ in range(count) for action in maker.slot()]


class _Maker:
    """Makes the next thing that a thread does; remembers the events it recorded."""

    def __init__(
        self, random: Random, streams: int, weights: Weights, name: str
    ) -> None:
        self.random = random
        self.streams = STREAMS[:streams]
        self.name = name
        self.recorded: list[str] = []
        self.sequence = 0
        self.slots = _table(weights, _SLOTS)
        self.calls = _table(weights, _CALLS)

    # Time and choice

    def gap(self, mean_ns: int = 2_000) -> Gap:
        """Return a gap of 1 ns or more, rarely a long one."""
        return Gap(1 + round(self.random.expovariate(1 / mean_ns)))

    def maybe_gap(self) -> list[Action]:
        """Return a gap, or nothing."""
        return [self.gap()] if self.random.random() < 4 / 5 else []

    def _pick(self, table: tuple[list[str], list[float]]) -> str:
        return self.random.choices(table[0], table[1])[0]

    def stream(self) -> int:
        """Return one of the streams, more often the first."""
        return min(self.random.choice(self.streams), self.random.choice(self.streams))

    def kernel_ns(self) -> int:
        """Return the duration of a kernel; some are long enough to queue behind."""
        return 1_000 + round(self.random.expovariate(1 / 12_000))

    # Slots

    def slot(self) -> list[Action]:
        """Return an op or a bare call, with or without a gap behind."""
        make = _SLOTS[self._pick(self.slots)]
        return [*make(self), *self.maybe_gap()]

    def operator(self) -> Sequence[Action]:
        """Return a PyTorch op."""
        self.sequence += 1
        make = Operators(self.random, self.stream(), pace=self.random.uniform(0.5, 2))
        return [self.random.choice(_OPERATORS)(make, self.sequence)]

    def composed(self) -> Sequence[Action]:
        """Return an op of zero to four calls, some of them in a nested op."""
        calls = [self.call() for _ in range(self.random.randrange(5))]
        outer, inner, dims = self.random.choice(_NAMES)
        cut = self.random.randint(0, len(calls))
        last = self._body(calls[cut:])
        if self.random.random() < 1 / 2:
            last = (self.gap(), Op(inner, last, dims), *self.maybe_gap())
        return [Op(outer, self._body(calls[:cut]) + last, dims)]

    def _body(self, calls: Sequence[Call]) -> tuple[Action, ...]:
        body: list[Action] = [self.gap()]
        for call in calls:
            body += [call, *self.maybe_gap()]
        return tuple(body)

    def bare(self) -> Sequence[Action]:
        """Return a call outside ops."""
        return [self.call()]

    def collective(self, message: Message) -> Op:
        """Return a collective, whose end may be awaited from now on."""
        self._remember(message.done)
        return Operators(self.random, self.stream()).collective(message)

    # Calls

    def call(self) -> Call:
        """Return a call of any kind."""
        return _CALLS[self._pick(self.calls)](self)

    def launch(self) -> Call:
        """Return a kernel; some by the driver, as Triton launches them."""
        name = "cuLaunchKernel" if self.random.random() < 1 / 8 else "cudaLaunchKernel"
        kernel = "triton_poi_fused_add_0"
        if name == "cuLaunchKernel":
            return Launch(self.stream(), self.kernel_ns(), kernel, name)
        return Launch(self.stream(), self.kernel_ns())

    def copy(self, *, blocking: bool = False) -> Call:
        """Return a copy of some bytes in some direction."""
        directions = _BLOCKING if blocking else _DIRECTIONS
        direction = self.random.choice(directions)
        size_bytes = self.random.randrange(4, 1_000_000)
        return Copy(self.stream(), self.kernel_ns(), direction, size_bytes, blocking)

    def blocking_copy(self) -> Call:
        """Return a copy that the host waits for."""
        return self.copy(blocking=True)

    def memset(self) -> Call:
        """Return a memset."""
        return Memset(self.stream(), self.kernel_ns())

    def stream_sync(self) -> Call:
        """Return a wait for a stream."""
        return StreamSync(self.stream())

    def device_sync(self) -> Call:
        """Return a wait for all streams."""
        return DeviceSync()

    def event_record(self) -> Call:
        """Record one of few events, so that events are recorded again."""
        event = f"{self.name} {self.random.randrange(4)}"
        self._remember(event)
        return EventRecord(event, self.stream())

    def _remember(self, event: str) -> None:
        if event not in self.recorded:
            self.recorded.append(event)

    def stream_wait(self) -> Call:
        """Let a stream wait for an event, if any was recorded."""
        if not self.recorded:
            return self.event_record()
        return StreamWait(self.stream(), self.random.choice(self.recorded))

    def event_sync(self) -> Call:
        """Wait for an event, if any was recorded."""
        if not self.recorded:
            return self.event_record()
        return EventSync(self.random.choice(self.recorded))

    def other(self) -> Call:
        """Return a call that does not matter."""
        name = self.random.choice(["cudaGetDevice", "cudaStreamIsCapturing"])
        return OtherCall(name, self.random.randint(1, 800))


def _table(weights: Weights, names: Iterable[str]) -> tuple[list[str], list[float]]:
    """Return the names to pick from, and their weights."""
    return list(names), [getattr(weights, name) for name in names]


_SLOTS: dict[str, Callable[[_Maker], Sequence[Action]]] = {
    "operator": _Maker.operator,
    "composed": _Maker.composed,
    "bare": _Maker.bare,
}
_CALLS: dict[str, Callable[[_Maker], Call]] = {
    "launch": _Maker.launch,
    "copy": _Maker.copy,
    "blocking_copy": _Maker.blocking_copy,
    "memset": _Maker.memset,
    "stream_sync": _Maker.stream_sync,
    "device_sync": _Maker.device_sync,
    "event_record": _Maker.event_record,
    "stream_wait": _Maker.stream_wait,
    "event_sync": _Maker.event_sync,
    "other": _Maker.other,
}
_OPERATORS: tuple[Callable[[Operators, int], Op], ...] = (
    lambda make, sequence: make.linear(64, (128, 32), sequence),
    lambda make, sequence: make.relu((64, 128), sequence),
    lambda make, sequence: make.embedding_bag(64, Table(1_000, 16, 4), sequence),
    lambda make, sequence: make.bmm(64, (4, 16, 4), sequence),
    lambda make, sequence: make.cat(64, 256, sequence),
    lambda make, sequence: make.relu_backward((64, 128), sequence),
    lambda make, sequence: make.linear_backward(64, (128, 32), sequence)[0],
    lambda make, _: make.to_device((64, 16), make.stream),
    lambda make, _: make.item(),
    lambda make, _: make.foreach_add(8, 10_000),
)
