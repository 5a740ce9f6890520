"""Turn the execution graphs of several ranks into one job.

Collectives of the ranks meet: the n-th call of a group by each of its ranks is one
collective, and the n-th send to a rank meets the n-th receive there.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tracedb.errors import EstimateError
from tracedb.from_code.collectives import POINT_TO_POINT, Message
from tracedb.from_code.graph_collectives import (
    Groups,
    group_of,
    is_call,
    kind_of,
    members_of,
    rank_of,
    says_own_rank,
)
from tracedb.from_code.graph_program import program
from tracedb.from_code.graph_step import last_step
from tracedb.from_code.graph_values import shapes
from tracedb.from_code.job_recording import JobRecording

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracedb.from_code.graph import Graph, GraphNode
    from tracedb.from_code.graph_program import Program
    from tracedb.from_code.graph_step import GraphStep
    from tracedb.from_code.memory import Memory
    from tracedb.from_code.program import Node

_SAME_SIZE = ("allreduce", "broadcast", "reduce")
"""Kinds whose ranks all have the same number of elements."""
_LISTED = 8


@dataclass(frozen=True)
class GraphRank:
    """The step of one rank, from its graph."""

    rank: int
    program: Program
    takes_batch: bool = False

    @property
    def batch(self) -> int | None:
        """Its batch size, if known."""
        return self.program.batch

    @property
    def root(self) -> Node:
        """Its ops as a tree."""
        return self.program.root

    @property
    def memory(self) -> Memory:
        """Its peak memory."""
        return self.program.memory

    @property
    def source(self) -> str:
        """Which step of the graph it is."""
        return self.program.source

    @property
    def unsure(self) -> tuple[str, ...]:
        """What the graph leaves open, a line each."""
        return tuple(f"rank {self.rank}: {line}" for line in self.program.unsure)

    @property
    def tf32_products(self) -> bool:
        """Whether matrix products may use TF32."""
        return self.program.tf32_products

    @property
    def tf32_convolutions(self) -> bool:
        """Whether convolutions may use TF32."""
        return self.program.tf32_convolutions


class _Group(NamedTuple):
    """A process group, known alike in all graphs."""

    name: str
    members: tuple[int, ...]

    @property
    def words(self) -> str:
        """Its name, and its ranks if known."""
        of = f" of ranks {_listed(self.members)}" if self.members else ""
        return f"group {self.name}{of}"


class _Called(NamedTuple):
    """A collective that a rank calls in its step."""

    path: str
    node: int
    kind: str
    elements: int

    @classmethod
    def of(cls, path: str, node: GraphNode) -> _Called:
        """The call of a node."""
        count = sum(shape.elements for shape in shapes(node.inputs))
        return cls(path, node.id, kind_of(node), count)

    def is_met_by(self, other: _Called) -> bool:
        """Whether the calls of two ranks can be one collective."""
        is_sized = self.kind.replace("_", "").lower() in _SAME_SIZE
        return self.kind == other.kind and (
            not is_sized or self.elements == other.elements
        )

    @property
    def words(self) -> str:
        """The call, and where it is."""
        return f"{self.path}: node {self.node} ({self.kind}, {self.elements} elements)"


def _is_unnamed(given: GraphNode) -> bool:
    """Whether the group of a call is an address."""
    return group_of(given).isdigit() and not given.attributes.get("pg_name")


@dataclass(frozen=True)
class _Given:
    """The graph of one rank, its step, and its process groups.

    `calls` are in order; `numbers` has the groups that have no name.
    """

    graph: Graph
    step: GraphStep
    sizes: Groups
    calls: list[GraphNode]
    numbers: dict[str, int]

    @classmethod
    def of(cls, graph: Graph, ranks: int | None) -> _Given:
        """Number groups that are known by an address, those of the same ranks in order.

        An address differs from rank to rank.
        """
        calls = [graph.nodes[n] for n in sorted(graph.nodes) if is_call(graph.nodes[n])]
        sizes = Groups.of(graph.nodes.values(), ranks)
        found: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
        for node in calls:
            alike = found[members_of(node, sizes.ranks(node))]
            if _is_unnamed(node) and group_of(node) not in alike:
                alike.append(group_of(node))
        numbers = {name: n for alike in found.values() for n, name in enumerate(alike)}
        return cls(graph, last_step(graph), sizes, calls, numbers)

    def group(self, given: GraphNode) -> _Group:
        """The group of a call."""
        name = group_of(given)
        members = members_of(given, self.sizes.ranks(given))
        if _is_unnamed(given):
            name = f"{_listed(members)}#{self.numbers[name]}"
        return _Group(name, members)

    def size(self) -> int:
        """The largest number of ranks that it records, at least 1."""
        return max([*self.sizes.sizes.values(), self.sizes.world or 1])

    def rank(self, world: int) -> int | None:
        """The rank that the graph is of, if it records that."""
        for node in filter(says_own_rank, self.calls):
            own = rank_of(node)
            if own is None:
                continue
            members = self.group(node).members
            if own < len(members):
                return members[own]
            if self.sizes.ranks(node) == world and not members:
                return own
        return None

    def called(self) -> Iterator[tuple[_Group, GraphNode]]:
        """The collectives of the step and their groups; no sends and receives."""
        for top in self.step.nodes:
            for node in filter(is_call, top.walk()):
                if kind_of(node) not in POINT_TO_POINT:
                    yield self.group(node), node


@dataclass(frozen=True)
class _JobGroups:
    """Names the calls of one rank as the job knows them."""

    rank: int
    ranks: frozenset[int]
    own: _Given
    callers: dict[_Group, set[int]]

    def message(self, given: GraphNode) -> Message:
        """What a node calls."""
        kind, size = kind_of(given), self.own.sizes.ranks(given)
        if not is_call(given):
            return Message(kind, size)
        group = self.own.group(given)
        if kind not in POINT_TO_POINT:
            count = len(self.callers[group])
            return Message(kind, size, *group, simulated=count)
        peer = rank_of(given) or 0
        other = group.members[peer] if peer < len(group.members) else peer
        ends = (self.rank, other) if kind == "send" else (other, self.rank)
        count = 2 if other in self.ranks else 1
        return Message(
            kind, size, *group, sender=ends[0], receiver=ends[1], simulated=count
        )


def job_of(graphs: Sequence[Graph], ranks: int | None, gpu: str) -> JobRecording:
    """The steps of several ranks on GPUs of this name, by their graphs.

    Raises `EstimateError` where the graphs are not those of one step of one job.
    """
    given = [_Given.of(graph, ranks) for graph in graphs]
    world = max([ranks or len(graphs), *(one.size() for one in given)])
    numbers, assumed = _numbers(given, world)
    by_rank = dict(sorted(zip(numbers, given, strict=True)))
    callers = {group: set(calls) for group, calls in _checked(by_rank, world).items()}
    found = []
    for rank, one in by_rank.items():
        named = _JobGroups(rank, frozenset(by_rank), one, callers)
        found.append(GraphRank(rank, program(one.graph, one.step, named, gpu=gpu)))
    words = ", ".join(sorted({rank.source for rank in found}))
    shown = f"{len(found)} of {world} ranks, each from its graph: {words}"
    return JobRecording(found, world, shown, (*assumed, *_missing(numbers, world)))


def _numbers(given: Sequence[_Given], world: int) -> tuple[list[int], list[str]]:
    """The rank of each graph, and what is assumed of that."""
    known = {one.graph.path: one.rank(world) for one in given}
    paths: dict[int | None, str] = {}
    for path, rank in known.items():
        if rank is not None and rank in paths:
            raise EstimateError(
                f"{paths[rank]} and {path}: both are of rank {rank}; give each rank's "
                "graph once"
            )
        paths[rank] = path
    found = [rank for rank in known.values() if rank is not None]
    if len(found) == len(known):
        return found, []
    if found:
        raise EstimateError(
            f"{paths[None]}: it does not record its rank, as the other graphs do; "
            "graphs of different jobs?"
        )
    line = "the graphs do not record their ranks: numbered in the order of the files"
    return [*range(len(known))], [line]


def _missing(numbers: Sequence[int], world: int) -> list[str]:
    """What is assumed of ranks without a graph."""
    absent = [rank for rank in range(world) if rank not in numbers]
    if not absent:
        return []
    line = (
        f"no graph of ranks {_listed(absent)}: they are assumed to call no collective "
        "later than the last of the ranks with a graph"
    )
    return [line]


def _listed(ranks: Sequence[int]) -> str:
    """Some ranks as text.

    >>> _listed([1, 3])
    '1, 3'
    >>> _listed(range(9, 0, -1))
    '9, 8, 7, ..., 1'
    """
    if len(ranks) > _LISTED:
        return f"{_listed(ranks[:3])}, ..., {ranks[-1]}"
    return ", ".join(map(str, ranks))


_Calls = dict[int, list[_Called]]
"""The collectives of a group in the step, by rank."""


def _checked(by_rank: dict[int, _Given], world: int) -> dict[_Group, _Calls]:
    """The collectives of each group, which all of its ranks call in the same order."""
    found: defaultdict[_Group, _Calls] = defaultdict(dict)
    sizes: dict[_Group, int | None] = {}
    for rank, one in by_rank.items():
        for group, node in one.called():
            called = _Called.of(one.graph.path, node)
            found[group].setdefault(rank, []).append(called)
            size = one.sizes.ranks(node)
            if sizes.setdefault(group, size) != size:
                raise EstimateError(
                    f"{called.words}: {group.words} has {size} ranks, and "
                    f"{sizes[group]} in other graphs: not the same job"
                )
    for group, calls in found.items():
        expected = [r for r in by_rank if r in group.members]
        if not group.members and sizes[group] in {None, world}:
            expected = [*by_rank]
        _refuse_crowd(group, calls, sizes[group])
        _refuse_others(group, calls, expected)
    return found


def _refuse_crowd(group: _Group, calls: _Calls, size: int | None) -> None:
    """Raise `EstimateError` where more ranks call a group than it has."""
    if size is not None and len(calls) > size:
        one = next(iter(calls.values()))[0]
        raise EstimateError(
            f"{one.words}: {group.words} has {size} ranks, and {len(calls)} graphs "
            "call it, which do not record which ranks form a group; estimate each rank "
            "alone"
        )


def _refuse_others(group: _Group, calls: _Calls, expected: Sequence[int]) -> None:
    """Raise `EstimateError` where ranks do not call the same collectives in order."""
    of_each = {rank: calls.get(rank, []) for rank in sorted({*calls, *expected})}
    (rank, first), *others = of_each.items()
    for other, called in others:
        for number, (one, two) in enumerate(zip(first, called, strict=False), 1):
            if not one.is_met_by(two):
                raise EstimateError(
                    f"call {number} of {group.words} is {one.words} on rank {rank}, "
                    f"and {two.words} on rank {other}: not the same step of one job"
                )
        if len(first) != len(called):
            raise EstimateError(
                f"{group.words}: rank {rank} calls it {len(first)} times in its step, "
                f"rank {other} {len(called)} times: not the same step of one job"
            )
