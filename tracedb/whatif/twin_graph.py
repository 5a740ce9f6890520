"""Compute the step times of many scenarios at once, with arrays.

The graph is that of `simulation`, with its segments; `twin` reads it. Matrices have a
row per scenario where nodes are summed, and a column per scenario where the begins of
segments are computed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Columns = dict[str, Numbers]
"""The columns of a relation, by name."""

_CELLS = 2**17
"""Nodes times scenarios that are summed at once, to fit in the cache."""
_MOST = 2**61
"""[ns] Upper limit of the sum of all times of a scenario: 73 years."""


class Changes(NamedTuple):
    """Durations that scenarios change, ordered by scenario."""

    row: Numbers
    """The index of the scenario."""
    number: Numbers
    """The index of the node."""
    lasting: Numbers
    """[ns] The new duration."""

    def of(self, rows: range, usual: Numbers) -> Numbers:
        """[ns] The durations of all nodes, with a row for each of some scenarios."""
        first, last = np.searchsorted(self.row, [rows.start, rows.stop])
        durations = np.tile(usual, (len(rows), 1))
        there = self.row[first:last] - rows.start, self.number[first:last]
        durations[there] = self.lasting[first:last]
        return durations


class Periods(NamedTuple):
    """[ns] Step times as in `critical_path.step_period`, with a column per scenario."""

    host_start: Numbers
    host_end: Numbers
    gpu_end: Numbers
    has_work: Flags
    """Whether a step has GPU work; the same in all scenarios."""
    start: Numbers
    done: Numbers


class _Weights(NamedTuple):
    """The weights between and after segments, with a column per scenario."""

    edges: Numbers
    """[ns] The weight of each edge, in the order of `_Levels`."""
    groups: Numbers
    """[ns] From a segment's begin to the last end of a step's GPU work after it."""
    starts: Numbers
    """[ns] From a segment's begin to the begin of a step."""
    ends: Numbers
    """[ns] From a segment's begin to the end of a step on the host."""


class Graph:
    """The graph of a baseline, whose scenarios differ only in durations."""

    def __init__(self, columns: dict[str, Columns]) -> None:
        """Take the relations, and prepare what is the same in all scenarios."""
        self._span, self._work = columns["span"], columns["work"]
        self._step, self._step_work = columns["step"], columns["step_work"]
        self._host_edge, self._work_edge = columns["host_edge"], columns["work_edge"]
        self._submissions = _by_ordinal(columns["submission"])
        self._span_first = _first(_is_new(self._span["segment"]))
        self._groups = np.flatnonzero(
            _is_new(self._step_work["step"]) | _is_new(self._step_work["source"])
        )
        self._levels = _Levels(
            int(columns["segment"]["count"][0]),
            np.concatenate((self._host_edge["source"], self._work_edge["source"])),
            np.concatenate((self._host_edge["target"], self._work_edge["target"])),
        )

    @property
    def nodes(self) -> int:
        """The number of host spans and pieces of GPU work."""
        return len(self._span["segment"]) + len(self._work["span"])

    def periods(
        self, spans: Changes, work: Changes, delays: Changes, count: int
    ) -> Periods:
        """The step times in `count` scenarios.

        Spans, GPU work and the delays of edges after host time change.
        Raises `OverflowError` if the times of a scenario add up to `_MOST` or more.
        """
        weights = self._weights(spans, work, delays, count)
        begins = self._levels.begins(weights.edges)
        first, last = self._step["first_span"], self._step["last_span"]
        host_start = begins[self._span["segment"][first]] + weights.starts
        host_end = begins[self._span["end_segment"][last]] + weights.ends
        ends = begins[self._step_work["source"][self._groups]] + weights.groups
        steps = self._step_work["step"][self._groups]
        of_steps = np.flatnonzero(_is_new(steps))
        gpu_end = np.full_like(host_end, -_MOST)
        gpu_end[steps[of_steps]] = np.maximum.reduceat(ends, of_steps, axis=0)
        has_work = np.zeros(len(first), dtype=bool)
        has_work[steps] = True
        done = np.maximum(host_end, gpu_end)
        start = host_start.copy()
        for thread in _runs(_is_new(self._step["thread_id"])):
            done[thread] = np.maximum.accumulate(done[thread], axis=0)
            start[thread][1:] = done[thread][:-1]
        return Periods(host_start, host_end, gpu_end, has_work, start, done)

    def _weights(
        self, spans: Changes, work: Changes, delays: Changes, count: int
    ) -> _Weights:
        """The weights, computed in blocks of scenarios."""
        shapes = (
            len(self._levels.order),
            len(self._groups),
            len(self._step["first_span"]),
            len(self._step["last_span"]),
        )
        found = _Weights(*(np.empty((rows, count), dtype=np.int64) for rows in shapes))
        size = max(_CELLS // (self.nodes + 1), 1)
        for first in range(0, count, size):
            block = range(first, min(first + size, count))
            nodes = _Nodes(
                self._span_first,
                spans.of(block, self._span["predicted_ns"]),
                self._work,
                work.of(block, self._work["predicted_ns"]),
                self._submissions,
            )
            late = delays.of(block, self._host_edge["delay_ns"])
            for whole, part in zip(found, self._parts(nodes, late), strict=True):
                whole[:, first : first + size] = part.T
        return found

    def _parts(self, nodes: _Nodes, delays: Numbers) -> Iterator[Numbers]:
        """The fields of `_Weights` for some scenarios, with a row each.

        The delays are those of the edges after host time.
        """
        edges = np.concatenate(
            (
                nodes.host_weights(self._host_edge, delays),
                nodes.work_weights(self._work_edge),
            ),
            axis=1,
        )
        yield edges[:, self._levels.order]
        work = nodes.work_weights(self._step_work)
        yield np.maximum.reduceat(work, self._groups, axis=1)
        first, last = self._step["first_span"], self._step["last_span"]
        yield nodes.starts(first)
        yield np.where(self._span["waits"][last], 0, nodes.ends(last))


class _Nodes:
    """Ends of spans and work, relative to segments, with a row per scenario."""

    def __init__(
        self,
        span_first: Numbers,
        spans: Numbers,
        work: Columns,
        lasting: Numbers,
        submissions: list[Columns],
    ) -> None:
        """Sum the durations of the spans and the GPU work of each segment."""
        _check_sums(
            *(spans, lasting),
            *(work[name] for name in ("stream_delay_ns", "ready_ns", "submit_ns")),
        )
        self._span_first = span_first
        self._before = _before(spans)
        self._lasting = lasting
        first = _first(work["is_first"].astype(bool))
        total = _before(lasting + work["stream_delay_ns"])
        self._after_stream = total[:, 1:] - total[:, first]
        late = work["ready_ns"] + _submitted(work["submit_ns"], spans, submissions)
        launched = np.flatnonzero(work["span"] >= 0)
        late[:, launched] += self.starts(work["span"][launched])
        late += lasting
        late -= self._after_stream
        self._after_host = self._after_stream + _running_max(late, first)

    def starts(self, spans: Numbers) -> Numbers:
        """[ns] The begins of spans, relative to their segments' begins."""
        return self._before[:, spans] - self._before[:, self._span_first[spans]]

    def ends(self, spans: Numbers) -> Numbers:
        """[ns] The ends of spans, relative to their segments' begins."""
        return self._before[:, spans + 1] - self._before[:, self._span_first[spans]]

    def host_weights(self, edges: Columns, delays: Numbers) -> Numbers:
        """[ns] The weights of edges after host time, with their delays."""
        weights = delays.copy()
        timed = np.flatnonzero(edges["span"] >= 0)
        weights[:, timed] += self.ends(edges["span"][timed])
        return weights

    def work_weights(self, terms: Columns) -> Numbers:
        """[ns] From segments' begins to ends of work, as in `simulation.work_end`."""
        weights = np.tile(terms["later_ns"], (len(self._before), 1))
        part = terms["part"]
        by_host = np.flatnonzero(terms["is_host"])
        by_stream = np.flatnonzero(~terms["is_host"].astype(bool))
        weights[:, by_host] += self._after_host[:, part[by_host]]
        weights[:, by_stream] += self._after_stream[:, part[by_stream]]
        met = np.flatnonzero(part != terms["work"])
        weights[:, met] += self._lasting[:, terms["work"][met]]
        weights[:, met] -= self._lasting[:, part[met]]
        return weights


def _by_ordinal(submissions: Columns) -> list[Columns]:
    """The first spans of all launches, then the second ones, and so on."""
    return [
        {name: values[part] for name, values in submissions.items()}
        for part in _runs(_is_new(submissions["ordinal"]))
    ]


def _submitted(submit: Numbers, spans: Numbers, submissions: list[Columns]) -> Numbers:
    """[ns] From the starts of launches until work is submitted, a row per scenario."""
    submitted = np.tile(submit, (len(spans), 1))
    for part in submissions:
        later = (spans[:, part["span"]] - part["span_ns"]) * part["submit_share"]
        submitted[:, part["work"]] += np.floor(later + 0.5).astype(np.int64)
    return np.maximum(submitted, 0, out=submitted)


class _Levels:
    """Segments in topological order."""

    def __init__(self, count: int, source: Numbers, target: Numbers) -> None:
        """Order the edges by the level of their targets."""
        self._count = count
        level = _levels(count, source, target)
        self.order = np.lexsort((target, level[target]))
        self._source = source[self.order]
        ordered = target[self.order]
        self._levels = []
        for edges in _runs(_is_new(level[ordered])):
            targets = np.flatnonzero(_is_new(ordered[edges]))
            self._levels.append((edges, targets, ordered[edges][targets]))

    def begins(self, weights: Numbers) -> Numbers:
        """[ns] The begin of each segment in all scenarios, level by level."""
        begins = np.zeros((self._count, weights.shape[1]), dtype=np.int64)
        for edges, first, targets in self._levels:
            reached = begins[self._source[edges]] + weights[edges]
            begins[targets] = np.maximum.reduceat(reached, first, axis=0)
        return begins


def _levels(count: int, source: Numbers, target: Numbers) -> Numbers:
    """The number of edges on the longest path to each segment."""
    leading: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for from_, to in zip(source.tolist(), target.tolist(), strict=True):
        leading[from_].append(to)
        missing[to] += 1
    level = [0] * count
    known = [segment for segment in range(count) if not missing[segment]]
    for segment in known:
        for to in leading[segment]:
            level[to] = max(level[to], level[segment] + 1)
            missing[to] -= 1
            if not missing[to]:
                known.append(to)
    return np.array(level, dtype=np.int64)


def _check_sums(*times: Numbers) -> None:
    """Raise `OverflowError` if the times of a scenario add up to `_MOST` or more."""
    sums = [np.abs(part).sum(axis=-1, dtype=float) for part in times]
    if np.max(sum(sums), initial=0) >= _MOST:
        raise OverflowError


def _before(times: Numbers) -> Numbers:
    """The exclusive cumulative sums of each row, with the total at the end."""
    before = np.zeros((times.shape[0], times.shape[1] + 1), dtype=np.int64)
    np.cumsum(times, axis=1, out=before[:, 1:])
    return before


def _running_max(values: Numbers, first: Numbers) -> Numbers:
    """The running maximum of each row within groups; `first` is each group's start.

    Each group is offset by more than any value; if the offsets would overflow, groups
    are processed in parts.
    """
    offset = 2 * int(np.abs(values).max(initial=0)) + 1
    group = np.cumsum(_is_new(first)) - 1
    found = np.empty_like(values)
    for part in _runs(_is_new(group // max(_MOST // offset, 1))):
        above = (group[part] - group[part.start]) * offset
        raised = values[:, part] + above
        found[:, part] = np.maximum.accumulate(raised, axis=1, out=raised) - above
    return found


def _is_new(values: Numbers) -> Flags:
    """Whether each value differs from the previous one."""
    is_new = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=is_new[1:])
    return is_new


def _first(is_first: Flags) -> Numbers:
    """For each row, the index of the first row of its group."""
    return np.maximum.accumulate(np.where(is_first, np.arange(len(is_first)), 0))


def _runs(is_first: Flags) -> list[slice]:
    """The slices of the groups."""
    bounds = [*np.flatnonzero(is_first).tolist(), len(is_first)]
    return [slice(*bound) for bound in pairwise(bounds)]
