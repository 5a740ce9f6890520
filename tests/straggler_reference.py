"""Reference implementation of the straggler what-if analysis: a plain loop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import floor
from statistics import fmean, median

TAIL = (
    "gc",
    "layernorm-grads-all-reduce",
    "embedding-grads-all-reduce",
    "grads-reduce-scatter",
    "separate-grads-all-reduce",
    "optimizer-clip-main-grad",
    "optimizer",
)
COMPUTE = ("forward-compute", "backward-compute")
SCATTER = "grads-reduce-scatter"
NOT_MOVING = (*COMPUTE, "gc", "optimizer")
WAYS = ("forward", "backward")
TOGETHER = {f"{w}-{end}": f"{w}-pp-comm" for w in WAYS for end in ("send", "recv")}
CLOCKS_NS = 50_000
EARLY_NS = -10_000_000

Node = tuple[int, str, int]
"""Stage, type and ordinal: the same in all steps and data-parallel ranks."""
Key = tuple[int, int, int, str, int]
"""Step and data-parallel rank, then the node."""
Times = dict[int, float]
"""[ns] By step."""


@dataclass(frozen=True)
class Row:
    """An operation."""

    dp_rank: int
    stage: int
    rank: int
    step: int
    type: str
    begin: int
    end: int
    duration: int
    chunk: int = 0


def keyed(rows: Iterable[Row]) -> dict[Key, Row]:
    """Operations by step, data-parallel rank, stage, type and ordinal."""
    alike = defaultdict(list)
    for row in rows:
        alike[row.step, row.dp_rank, row.stage, row.type].append(row)
    return {
        (*key, ordinal): row
        for key, some in alike.items()
        for ordinal, row in enumerate(sorted(some, key=lambda row: row.begin))
    }


class Model:
    """Dependencies, as in the first data-parallel rank of the first step."""

    def __init__(self, rows: dict[Key, Row]) -> None:
        """Find what each operation comes after, and which ones form a group."""
        first = min((key[0], key[1]) for key in rows)
        self.rows = {key[2:]: row for key, row in rows.items() if key[:2] == first}
        self.stages = sorted({node[0] for node in self.rows})
        self.chunks = 1 + max(row.chunk for row in self.rows.values())
        self.after: dict[Node, list[Node]] = defaultdict(list)
        self.group: dict[Node, tuple[bool, Hashable]] = {}
        """Whether the group spans data-parallel ranks, and what its members share."""
        for stage in self.stages:
            self._pipeline(stage)
            self._collectives(stage)

    def _of(self, stage: int, *types: str) -> list[Node]:
        some = [(r.begin, n) for n, r in self.rows.items() if n[0] == stage]
        return [node for _, node in sorted(some) if node[1] in types]

    def _chain(self, nodes: list[Node]) -> None:
        for one, other in pairwise(nodes):
            self.after[other].append(one)

    def _pipeline(self, stage: int) -> None:
        compute = self._of(stage, *COMPUTE)
        self._chain(compute)
        for way in WAYS:
            done = [node for node in compute if node[1] == f"{way}-compute"]
            for end in ("send", "recv"):
                self._chain(self._of(stage, f"{way}-{end}"))
                self._transfers(stage, way, end, done)
        first = next((i for i, n in enumerate(compute) if n[1] == COMPUTE[1]), 0)
        for type_ in ("backward-recv", "backward-send"):
            if first > 1 and (stage, type_, 0) in self.rows:
                self.after[stage, type_, 0].append(compute[first - 2])

    def _transfers(self, stage: int, way: str, end: str, done: list[Node]) -> None:
        nodes = self._of(stage, f"{way}-{end}")
        if not nodes or not done:
            return
        if end == "recv":
            latest = max(self.rows[node].begin for node in done) + CLOCKS_NS
            ran = [node for node in nodes if self.rows[node].begin <= latest]
        else:
            earliest = min(self.rows[node].end for node in done) - CLOCKS_NS
            ran = [node for node in nodes if self.rows[node].end >= earliest]
        way_up = (1 if way == "forward" else -1) * (1 if end == "send" else -1)
        count, real = len(self.stages), 0
        place = self.stages.index(stage)
        peers = [
            node
            for node in done
            if 0 <= self.rows[node].chunk * count + place + way_up < self.chunks * count
        ]
        of_ran = done
        if end == "recv" and len(ran) + 1 == len(done):
            of_ran = done[1:]
        elif len(ran) == len(peers):
            of_ran = peers
        for node, of in zip(ran, of_ran, strict=False):
            if end == "send":
                self.after[node].append(of)
            else:
                self.after[of].append(node)
                if done.index(of):
                    self.after[node].append(done[done.index(of) - 1])
            if of in peers:
                sender = place if end == "send" else (place + way_up) % count
                self.group[node] = False, (way, sender, real)
                real += 1

    def _collectives(self, stage: int) -> None:
        self._chain(self._of(stage, "params-all-gather", SCATTER))
        compute = self._of(stage, *COMPUTE)
        gathers = {self.rows[n].chunk: n for n in self._of(stage, "params-all-gather")}
        for chunk, node in gathers.items():
            for fed in self._chunk(compute, COMPUTE[0], chunk)[:1]:
                self.after[fed].append(node)
        overlaps = any(node[1] == "separate-grads-all-reduce" for node in self.rows)
        tail = self._tail(stage, overlaps=overlaps)
        self._chain([max(compute, key=lambda node: self.rows[node].end), *tail])
        scatters = self._of(stage, SCATTER)
        if overlaps and scatters:
            firsts = {self.rows[node].chunk: node for node in reversed(scatters)}
            for chunk, node in firsts.items():
                self.after[node] += self._chunk(compute, COMPUTE[1], chunk)[-1:]
            last = next(node for node in tail if node[1] != "gc")
            self.after[last].append(scatters[-1])
        self._group(stage, tail)

    def _tail(self, stage: int, *, overlaps: bool) -> list[Node]:
        """Operations after the last computation."""
        types = [type_ for type_ in TAIL if not (overlaps and type_ == SCATTER)]
        if stage not in (self.stages[0], self.stages[-1]):
            types.remove("embedding-grads-all-reduce")
        return [node for type_ in types for node in self._of(stage, type_)]

    def _group(self, stage: int, tail: list[Node]) -> None:
        for node in self._of(stage, *TAIL, "params-all-gather"):
            if node[1] in ("params-all-gather", SCATTER, "separate-grads-all-reduce"):
                self.group[node] = True, node
            elif node[1] == "optimizer-clip-main-grad":
                self.group[node] = True, node[1:]
            elif node[1] == "embedding-grads-all-reduce" and node in tail:
                self.group[node] = False, node[1:]

    def _chunk(self, nodes: list[Node], type_: str, chunk: int) -> list[Node]:
        return [n for n in nodes if n[1] == type_ and self.rows[n].chunk == chunk]

    def group_of(self, step: int, dp_rank: int, *node: int | str) -> Hashable:
        """The operations of a group; the operation alone if it has none."""
        if node not in self.group:
            return step, dp_rank, node
        is_of_all, common = self.group[node]
        return step, None if is_of_all else dp_rank, common


def own_times(model: Model, rows: dict[Key, Row]) -> dict[Key, int]:
    """[ns] Each operation's own time."""
    latest: dict[Hashable, int] = {}
    for key, row in rows.items():
        group = model.group_of(*key)
        latest[group] = max(latest.get(group, row.begin), row.begin)
    own = {}
    for key, row in rows.items():
        if key[2:] in model.group:
            time = row.end - latest[model.group_of(*key)]
            own[key] = time if time > EARLY_NS else 0
        else:
            own[key] = row.duration
    return own


def ideal_times(own: dict[Key, int]) -> dict[str, int]:
    """[ns] By type: the mean of computation, the median of communication."""
    by_type = defaultdict(list)
    for key, time in own.items():
        by_type[key[3]].append(time)
    return {
        type_: floor((fmean if type_ in NOT_MOVING else median)(times) + 0.5)
        for type_, times in by_type.items()
    }


def step_times(model: Model, rows: dict[Key, Row], time: dict[Key, int]) -> Times:
    """[ns] Step times for given durations of operations."""
    groups = defaultdict(list)
    for key in rows:
        groups[model.group_of(*key)].append(key)
    ends: dict[Key, int] = {}

    def before(key: Key) -> list[Key]:
        return [(*key[:2], *node) for node in model.after[key[2:]]]

    for group in groups:
        stack = [group]
        while stack:
            keys = groups[stack[-1]]
            missing = [one for key in keys for one in before(key) if one not in ends]
            if missing:
                stack.append(model.group_of(*missing[0]))
                continue
            awaited = [ends[one] for key in keys for one in before(key)]
            begin = max(awaited, default=0)
            for key in keys:
                ends[key] = begin + time[key]
            stack.pop()
    last = "optimizer" if any(key[3] == "optimizer" for key in rows) else None
    found: Times = {}
    for key, end in ends.items():
        if last in (None, key[3]):
            found[key[0]] = max(found.get(key[0], 0), end)
    return found


Figures = dict[tuple[str, str, int | None], float]


def analysis(rows: Iterable[Row]) -> tuple[Figures, dict[str, float]]:
    """All rows of `question.straggler_slowdown`, and those of `straggler_recovery`."""
    known = keyed(rows)
    model = Model(known)
    own = own_times(model, known)
    ideal = ideal_times(own)

    def simulated(keeps: Callable[[Key], bool]) -> Times:
        time = {key: own[key] if keeps(key) else ideal[key[3]] for key in known}
        return step_times(model, known, time)

    best = simulated(lambda _: False)
    job = simulated(lambda _: True)
    figures: Figures = {}

    def put(scope: str, name: str, times: Times) -> None:
        figures[scope, name, None] = fmean(times.values()) / fmean(best.values())
        for step in times:
            figures[scope, name, step] = times[step] / best[step]

    put("job", "job", job)
    for name in {TOGETHER.get(key[3], key[3]) for key in known}:
        put(
            "op_type",
            name,
            simulated(lambda k, n=name: TOGETHER.get(k[3], k[3]) == n),  # type: ignore[misc]
        )
    for scope, place in (("dp_rank", 1), ("stage", 2)):
        for value in {key[place] for key in known}:
            keeps = simulated(lambda k, p=place, v=value: k[p] == v)  # type: ignore[misc]
            put(scope, str(value), keeps)
    workers = {row.rank: (row.dp_rank, row.stage) for row in known.values()}
    for rank, (dp_rank, stage) in workers.items():
        for step in (None, *best):
            both = (
                figures["dp_rank", str(dp_rank), step],
                figures["stage", str(stage), step],
            )
            figures["worker", str(rank), step] = min(both)
    ranked = sorted(workers, key=lambda r: (-figures["worker", str(r), None], r))
    worst = {workers[rank] for rank in ranked[: -(-len(ranked) * 3 // 100)]}
    fixed = {
        "worst_workers": simulated(lambda key: key[1:3] not in worst),
        "last_stage": simulated(lambda key: key[2] != model.stages[-1]),
    }
    lost = fmean(job.values()) - fmean(best.values())
    recovered = {
        name: (fmean(job.values()) - fmean(times.values())) / lost
        for name, times in fixed.items()
        if lost
    }
    return figures, recovered
