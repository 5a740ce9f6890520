"""Estimates of a step at many batch sizes and on many GPUs, from three recordings."""

from __future__ import annotations

import warnings
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from math import gcd, isqrt
from typing import TYPE_CHECKING, Any

import tracedb
from tracedb.errors import EstimateError
from tracedb.from_code.batches import Batches
from tracedb.from_code.clock import Course
from tracedb.from_code.estimation import Courses, known
from tracedb.from_code.fitting import largest, room
from tracedb.from_code.job import Job
from tracedb.from_code.layout import STEPS
from tracedb.from_code.links import connected, refuse_alone
from tracedb.from_code.pricing import Device, price
from tracedb.from_code.program import Node, launch
from tracedb.from_code.recordings import Source
from tracedb.from_code.subject import is_graph
from tracedb.from_code.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import polars as pl

    from tracedb.from_code.batches import Template
    from tracedb.from_code.host_times import HostTimes
    from tracedb.from_code.launches import LaunchTable
    from tracedb.from_code.pricing import KernelTime
    from tracedb.from_code.recordings import Recording

_FURTHER = 4
"""For a single batch size, the second recording is this many times larger."""
_TRIES = 60
"""How many batch sizes the search for the largest one tries."""


def estimate_sweep(  # noqa: PLR0913 (the options of one command)
    step: Callable[..., object] | str | Path,
    *inputs: object,
    gpus: Sequence[str],
    batches: Sequence[int] = (),
    database: str | Path | None = None,
    library: str | Path | None = None,
    cuda_graph: bool = False,
    profiled: bool = False,
    ranks: int | None = None,
    ranks_per_node: int | None = None,
    network: float | None = None,
    tell: Callable[[str], object] = warnings.warn,
) -> pl.DataFrame:
    """Estimate a step at each batch size on each GPU: a row for each combination.

    The step is recorded at three batch sizes, and all others follow from these. Each
    size in it must be an affine function of the batch size; otherwise `EstimateError`
    names the op and the line. Without batch sizes, the step has its own one. `tell`
    receives lines about what limits the answer. All other arguments are those of
    `estimate`.
    """
    import polars as pl

    _check(gpus, batches)
    if is_graph(step):
        raise EstimateError(
            f"{step}: an execution graph; a sweep takes code: train.py:step (estimate "
            "a graph batch by batch: --batch)"
        )
    refuse_alone(ranks, ranks_per_node, network)
    with tracedb.open() as empty, ExitStack() as stack:
        devices = [
            connected(empty.connection, gpu, ranks, ranks_per_node, network)[0]
            for gpu in gpus
        ]
        steps: dict[Device, _Steps] = {}
        source: Source | None = None
        for device in devices:
            if source is not None and not source.is_gpu_asked:
                steps[device] = steps[devices[0]]
                continue
            source = stack.enter_context(
                closing(Source(step, inputs, device.name, Job(ranks, device.per_node)))
            )
            first = source.at(min(batches, default=None))
            first.refuse_empty()
            for line in first.unsure:
                tell(line)
            sizes = list(batches) or [first.batch or 0]
            host, table = known(empty, database, library, first, profiled=profiled)
            learnt = _learn(source, first, sizes, devices, tell)
            steps[device] = _Steps(learnt, host, table, is_captured=cuda_graph)
        asked = {
            device: [steps[device].program(batch) for batch in sizes]
            for device in devices
        }
        times = price(empty.connection, asked)
    rows = [
        steps[device].row(batch, device, times[device][number])
        for number, batch in enumerate(sizes)
        for device in devices
    ]
    return pl.DataFrame(rows, schema_overrides=dict.fromkeys(_COUNTS, pl.Int64))


_COUNTS = ("batch", "capacity_bytes", "largest_batch")
"""Columns that may be empty."""


def _check(gpus: Sequence[str], batches: Sequence[int]) -> None:
    for what, values in (("GPU", gpus), ("batch size", batches)):
        if len(set(values)) < len(values):
            raise EstimateError(f"a {what} occurs twice: {_listed(values)}")
    if not gpus or any(batch < 1 for batch in batches):
        raise EstimateError(
            "a sweep takes at least one GPU, and batch sizes of 1 or more"
        )


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))


@dataclass(frozen=True)
class _Learnt:
    """A step as a function of its batch size, checked up to `proved`.

    It holds for multiples of `multiple`, which is mostly 1.
    """

    function: Batches
    proved: int
    multiple: int = 1

    def peak_bytes(self, batch: int) -> int:
        """[B] Its peak memory."""
        return self.function.memory(batch).peak_bytes

    def largest(self, capacity_bytes: int) -> int | None:
        """The largest batch size that fits; None if unbounded."""
        found = largest(
            lambda number: self.peak_bytes(number * self.multiple),
            max((self.function.first.batch or 0) // self.multiple, 1),
            room(capacity_bytes),
            _TRIES,
        )
        return None if found is None else found * self.multiple


def _learn(
    source: Source,
    first: Recording,
    sizes: Sequence[int],
    devices: Sequence[Device],
    tell: Callable[[str], object],
) -> _Learnt:
    """Fit a step, recording two more batch sizes; `first` is the smallest one."""
    alone = _Learnt(Batches.of([first]), 0)
    if first.batch is None or not first.step.takes_batch:
        return alone
    try:
        return _proved_at_all(source, first, sizes, devices, tell)
    except EstimateError as error:
        if len(sizes) > 1:
            raise
        tell(f"the largest batch that fits is unknown: {error}")
        return alone


def _proved_at_all(
    source: Source,
    first: Recording,
    sizes: Sequence[int],
    devices: Sequence[Device],
    tell: Callable[[str], object],
) -> _Learnt:
    """Fit to recordings that continue after one another, which takes half as long.

    State left from other batch sizes may interfere: then each recording starts anew.
    """
    if source.can_go_on:
        with suppress(EstimateError):
            limits: list[str] = []
            learnt = _proved(
                partial(source.at, goes_on=True), first, sizes, devices, limits.append
            )
            if not limits:
                return learnt
    return _proved(source.at, first, sizes, devices, tell)


def _proved(
    record: Callable[[int], Recording],
    first: Recording,
    sizes: Sequence[int],
    devices: Sequence[Device],
    tell: Callable[[str], object],
) -> _Learnt:
    """Fit to two batch sizes, and check at a third one."""
    low, high = first.batch or 1, max(sizes)
    high = high if high > low else _FURTHER * low
    ends = [first, record(high)]
    full = _full(_Learnt(Batches.of(ends), high), devices)
    wrong: EstimateError | None = None
    for size, reach, multiple in _proofs(low, high, full, gcd(*sizes)):
        try:
            function = Batches.of([*ends, record(size)])
        except EstimateError as error:
            wrong = wrong or error
            continue
        if wrong is not None:
            only = f"multiples of {multiple:,}" if multiple > 1 else f"up to {reach:,}"
            tell(f"this holds only for batch sizes that are {only}: {wrong}")
        return _Learnt(function, reach, multiple)
    raise wrong or EstimateError(f"no batch size to check {low:,} to {high:,} with")


def _full(learnt: _Learnt, devices: Sequence[Device]) -> int | None:
    """The batch size that fills the memory of the largest GPU."""
    capacity = max((device.capacity_bytes or 0 for device in devices), default=0)
    try:
        return learnt.largest(capacity)
    except ValueError:
        # Some size is not an integer there: the check will say which.
        return None


def _proofs(
    low: int, high: int, full: int | None, multiple: int
) -> Iterator[tuple[int, int, int]]:
    """Batch sizes to check with, each with its reach and the multiples it holds for.

    Primes are not multiples of sizes that code pads to or divides by.
    """
    if full is not None:
        beyond = next((n for n in range(full, high, -1) if _is_prime(n)), None)
        if beyond is not None:
            yield beyond, full, 1
    yield _between(low, high), high, 1
    if multiple > 1:
        yield multiple * _between(low // multiple, high // multiple), high, multiple


def _between(low: int, high: int) -> int:
    """A prime near the middle of two sizes, or beyond them."""
    near = count(max(isqrt(low * high), 2))
    return next(n for n in near if _is_prime(n) and n not in {low, high})


def _is_prime(number: int) -> bool:
    """Tell whether a number is a prime.

    >>> [number for number in range(12) if _is_prime(number)]
    [2, 3, 5, 7, 11]
    """
    return number > 1 and all(number % n for n in range(2, isqrt(number) + 1))


@dataclass
class _Steps:
    """A step at several batch sizes: its launches and times."""

    learnt: _Learnt
    host: HostTimes
    table: LaunchTable
    is_captured: bool
    _programs: dict[int, list[Node]] = field(default_factory=dict)
    _constant: dict[int, Node] = field(default_factory=dict)
    _courses: dict[object, Courses] = field(default_factory=dict)
    _by_batch: dict[int, Courses] = field(default_factory=dict)
    _peaks: dict[int, int] = field(default_factory=dict)
    _largest: dict[int, int | None] = field(default_factory=dict)

    @cached_property
    def _order(self) -> list[int]:
        """The template indices of the ops, in launch order."""
        function = self.learnt.function
        places = {
            id(node): place
            for node, place in zip(function.first.nodes, function.places, strict=True)
        }
        found = (places[id(node)] for node in function.first.root.in_order())
        return [place for place in found if place is not None]

    def program(self, batch: int) -> list[Node]:
        """The nodes that launch at a batch size; equal ops share a node."""
        if batch in self._programs:
            return self._programs[batch]
        nodes = [self._node(n, batch) for n in range(len(self._templates))]
        self._by_batch[batch] = self._course(batch, nodes)
        launching = [bool(n.launching and n.launching.work) for n in nodes]
        program = [nodes[place] for place in self._order if launching[place]]
        return self._programs.setdefault(batch, program)

    @property
    def _templates(self) -> tuple[Template, ...]:
        return self.learnt.function.templates

    def _node(self, number: int, batch: int) -> Node:
        if number in self._constant:
            return self._constant[number]
        template = self._templates[number]
        op = template.at(batch)
        node = Node(op.name, "op", dispatched=op, launching=self.table.launching(op))
        if template.is_constant:
            self._constant[number] = node
        return node

    def _course(self, batch: int, nodes: Sequence[Node]) -> Courses:
        """The courses at a batch size, cached by what is launched."""
        launched = tuple(_launched(node) for node in nodes)
        if launched not in self._courses:
            root = self.learnt.function.at(batch)
            launch(root, self.table)
            timeline = Timeline(self.host, lambda _number: 0, self.is_captured)
            for number in range(STEPS):
                timeline.step(root, number)
            course = Course.of(timeline.clock.log, STEPS)
            self._courses[launched] = Courses.of(course)
        return self._courses[launched]

    def row(
        self, batch: int, device: Device, times: Sequence[KernelTime]
    ) -> dict[str, Any]:
        """The estimate of one batch size on one GPU."""
        low, expected, high = self._by_batch[batch].bounds(times)
        active = sum(time.expected for time in times)
        peak, capacity = self._peak(batch), device.capacity_bytes
        return {
            "batch": batch or None,
            "gpu": device.hardware,
            "step_ns": expected,
            "low_ns": low,
            "high_ns": high,
            "gpu_active_ns": active,
            "gpu_active_share": active / max(expected, 1),
            "samples_per_second": batch / max(expected, 1) * 1e9 if batch else None,
            "peak_bytes": peak,
            "capacity_bytes": capacity,
            "fits": None if capacity is None else peak <= room(capacity),
            "largest_batch": None if capacity is None else self._fitting(capacity),
            "kernel_count": len(times),
            "unmodelled_count": sum(not time.is_modelled for time in times),
        }

    def _peak(self, batch: int) -> int:
        if batch not in self._peaks:
            self._peaks[batch] = self.learnt.peak_bytes(batch)
        return self._peaks[batch]

    def _fitting(self, capacity: int) -> int | None:
        """The largest batch size, if the functions were checked that far."""
        if not self.learnt.proved:
            return None
        if capacity not in self._largest:
            found = self.learnt.largest(capacity)
            is_proved = found is not None and found <= self.learnt.proved
            self._largest[capacity] = found if is_proved else None
        return self._largest[capacity]


def _launched(node: Node) -> object:
    """What determines the host's path through an op."""
    launching = node.launching
    if launching is None:
        return None
    return launching.name, tuple((w.kind, w.is_waited_for) for w in launching.work)
