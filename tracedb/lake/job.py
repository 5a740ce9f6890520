"""The critical path of whole jobs, from the collectives that a lake keeps per rank.

Between collectives, a rank depends on no other rank. Its work there is one segment,
from the end of the collective on which it depends to its arrival at the next one; the
worker computes both (`critical_path.collective_arrival`). So a rank with a million
events has one row per collective (`fleet.collective`). The path of the job leads from a
collective to the rank that arrived last, along its segment to the previous collective,
and so on. It equals `critical_path.path` for the run (scope `run`), for collectives on
GPUs and CPUs, and no trace is opened.

The time of the job with other segments is (max, +) over the same rows: a collective
begins when its last rank has arrived; a rank arrives a segment after the end of what it
depends on, but not before the previous collective on its stream is over. Arrays
evaluate all collectives of a level at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tracedb.duck import own_errors, registered
from tracedb.lake.questions import connected
from tracedb.lake.reading import chosen
from tracedb.stragglers import levels, starts

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import polars as pl
    from numpy.typing import NDArray

    from tracedb.lake.manifest import Entry
    from tracedb.lake.place import Place

    Numbers = NDArray[np.int64]

_NOT_YET = -(1 << 62)
_CLOCKS_AGREE_NS = 10_000
"""As in `graph.clock`."""
_TRACES = """
SELECT trace_id, coalesce(rank, -1) AS rank, host
FROM fleet.trace
ORDER BY trace_id
"""
_PARTS = """
SELECT
    node_id,
    trace_id,
    process_group,
    coalesce(group_size, 0) AS group_size,
    number,
    start_ns,
    start_ns + duration_ns AS end_ns,
    ready_ns,
    coalesce(source_node_id, -1) AS source,
    coalesce(previous_node_id, -1) AS previous
FROM fleet.collective
"""
_STEPS = """
SELECT
    step_id,
    trace_id,
    step,
    start_ns,
    start_ns + host_ns AS end_ns,
    coalesce(last_collective_id, -1) AS source
FROM fleet.step
"""
_LATE = """
WITH
median AS (
    SELECT trace, reference, quantile_disc(late_ns, 0.5) AS offset_ns
    FROM late
    GROUP BY trace, reference
)

SELECT
    trace,
    reference,
    any_value(offset_ns) AS offset_ns,
    quantile_disc(abs(late_ns - offset_ns), 0.95) AS uncertainty_ns
FROM late
INNER JOIN median USING (trace, reference)
GROUP BY trace, reference
ORDER BY uncertainty_ns, trace, reference
"""


class Stretch(NamedTuple):
    """A stretch of the job's path on one rank."""

    step: int
    start_ns: int
    """[ns] On the run's clock."""
    end_ns: int
    trace: int
    """Index among the traces of the run."""


@own_errors()
def critical_path(place: Place, *, most: int = 3) -> pl.DataFrame:
    """The time of each run's critical path on each rank, longest first.

    Only runs with steps of several ranks have rows. The first row of a run is the whole
    job. `slowdown` is its time divided by the time with typical segments. For the
    `most` ranks with the longest share of the path, it is the time with their own and
    all others' typical segments, divided by the same.

    Raises `LakeError` as `ask` does.
    """
    import polars as pl

    rows = [row for run, job in _jobs(place) for row in _ranks(run, job, most)]
    return pl.DataFrame(rows, _SHARES, orient="row", infer_schema_length=None)


@own_errors()
def path_stretches(place: Place) -> pl.DataFrame:
    """The critical path of each run by step: when it is on which rank.

    Raises `LakeError` as `ask` does.
    """
    import polars as pl

    rows = [
        (run, at.step, *job.who(at.trace), at.start_ns, at.end_ns)
        for run, job in _jobs(place)
        for at in job.path()
    ]
    return pl.DataFrame(rows, _STRETCHES, orient="row", infer_schema_length=None)


_SHARES = ["run", "rank", "host", "path_ns", "path_share", "slowdown"]
_STRETCHES = ["run", "step", "rank", "host", "start_ns", "end_ns"]


def _jobs(place: Place) -> Iterator[tuple[str, Job]]:
    """The runs of a place, by name."""
    by_run: dict[str, list[Entry]] = {}
    for entry in chosen(place):
        by_run.setdefault(entry.run, []).append(entry)
    for run, entries in sorted(by_run.items()):
        with connected(place, entries) as connection:
            yield run, read(connection)


def _ranks(run: str, job: Job, most: int) -> Iterator[tuple[Any, ...]]:
    """The rows of a run."""
    spent = np.zeros(len(job.trace_ids), np.int64)
    for at in job.path():
        spent[at.trace] += at.end_ns - at.start_ns
    whole = int(spent.sum())
    if not whole:
        return
    ideal = job.span_ns(np.zeros(len(job.trace_ids), np.bool_))
    yield run, None, None, whole, 1.0, job.span_ns() / max(ideal, 1)
    for place, trace in enumerate(np.argsort(-spent, kind="stable").tolist()):
        if not spent[trace]:
            return
        slowdown = None
        if place < most:
            own = np.arange(len(spent)) == trace
            slowdown = job.span_ns(own) / max(ideal, 1)
        share = int(spent[trace]) / whole
        yield run, *job.who(trace), int(spent[trace]), share, slowdown


@dataclass(frozen=True)
class Parts:
    """The collectives of all ranks, by `node_id`; indices instead of ids."""

    trace: Numbers
    group: Numbers
    group_size: Numbers
    number: Numbers
    start_ns: Numbers
    end_ns: Numbers
    ready_ns: Numbers
    """[ns] When it was ready; before its begin if it waited for its stream."""
    source: Numbers
    """The part of the same rank at whose end its segment begins; -1 if none."""
    previous: Numbers
    """The previous part on its stream; -1 if none."""


@dataclass(frozen=True)
class Steps:
    """The steps of all ranks, by `step_id`."""

    trace: Numbers
    step: Numbers
    start_ns: Numbers
    end_ns: Numbers
    source: Numbers
    """The collective on which its end depends; -1 if none."""


def read(connection: duckdb.DuckDBPyConnection) -> Job:
    """Read the job of a run from the relations that a lake keeps."""
    import polars as pl

    traces = connection.sql(_TRACES).pl()
    ids = traces["trace_id"].to_numpy()
    # Read once, because with thousands of ranks reading takes most of the time.
    collectives = connection.sql(_PARTS).pl()
    group = collectives.drop_in_place("process_group")
    number = group.cast(pl.Enum(group.unique().sort())).to_physical().cast(pl.Int64)
    columns = [*collectives, number.alias("group")]
    parts = _ordered({one.name: one.to_numpy() for one in columns}, "node_id")
    steps = _ordered(connection.sql(_STEPS).fetchnumpy(), "step_id")
    node = parts.pop("node_id")
    steps.pop("step_id")
    for rows in (parts, steps):
        rows["trace"] = np.searchsorted(ids, rows.pop("trace_id"))
        rows["source"] = _places(node, rows["source"])
    parts["previous"] = _places(node, parts["previous"])
    return Job(
        connection,
        ids,
        traces["rank"].to_numpy(),
        traces["host"].to_list(),
        Parts(**parts),
        Steps(**steps),
    )


def _ordered(rows: dict[str, Numbers], by: str) -> dict[str, Numbers]:
    """Rows sorted by a column, as they are in files of a lake."""
    if (np.diff(rows[by]) > 0).all():
        return rows
    order = np.argsort(rows[by], kind="stable")
    return {name: values[order] for name, values in rows.items()}


def _places(all_ids: Numbers, ids: Numbers) -> Numbers:
    """The indices of ids among all ids; -1 if missing."""
    if not len(all_ids):
        return np.full(len(ids), -1, np.int64)
    places = np.searchsorted(all_ids, ids)
    places[places == len(all_ids)] = 0
    return np.where(all_ids[places] == ids, places, -1)


class Job:
    """The matched collectives of a run's ranks: the path, and other times."""

    def __init__(  # noqa: PLR0913, PLR0917 (what a run consists of)
        self,
        connection: duckdb.DuckDBPyConnection,
        trace_ids: Numbers,
        ranks: Numbers,
        hosts: list[str | None],
        parts: Parts,
        steps: Steps,
    ) -> None:
        """Match collectives of a group by their numbers, and align the clocks."""
        self.trace_ids, self._ranks, self._hosts = trace_ids, ranks, hosts
        self._parts, self._steps = parts, steps
        # Parts of a collective are adjacent, in the order of traces.
        key = parts.group * (int(parts.number.max(initial=0)) + 1) + parts.number
        self._order = np.argsort(key, kind="stable")
        self._bounds = starts(key[self._order])
        lengths = np.diff(self._bounds)
        self._meeting = np.empty(len(key), np.int64)
        self._meeting[self._order] = np.repeat(np.arange(len(lengths)), lengths)
        shift = self._shifts(connection)
        self._start = parts.start_ns + shift[parts.trace]
        self._end = parts.end_ns + shift[parts.trace]
        self._step_start = steps.start_ns + shift[steps.trace]
        self._step_end = steps.end_ns + shift[steps.trace]
        self._arrived = self._over_meetings(np.maximum, self._start)
        self.measured_ns = self._over_meetings(np.maximum, self._end)

    def who(self, trace: int) -> tuple[int | None, str | None]:
        """The rank and the host of a trace."""
        rank = int(self._ranks[trace])
        return (None if rank < 0 else rank), self._hosts[trace]

    def _over_meetings(self, take: np.ufunc, values: Numbers) -> Numbers:
        if not len(values):
            return values
        taken: Numbers = take.reduceat(values[self._order], self._bounds[:-1])
        return taken

    # Clocks

    def _shifts(self, connection: duckdb.DuckDBPyConnection) -> Numbers:
        """[ns] The offset of each trace to the run's clock, as in `graph.clock`."""
        import polars as pl

        shift = np.zeros(len(self.trace_ids), np.int64)
        if not len(self._order):
            return shift
        parts = self._parts
        groups = int(parts.group.max()) + 1
        of_group = np.full(groups, len(self.trace_ids))
        np.minimum.at(of_group, parts.group, parts.trace)
        first = self._order[self._bounds[:-1]][self._meeting]
        reference = of_group[parts.group]
        there = parts.trace[first] == reference
        late = pl.DataFrame(
            {
                "trace": parts.trace[there],
                "reference": reference[there],
                "late_ns": (parts.end_ns - parts.end_ns[first])[there],
            }
        )
        with registered(connection, "late", late):
            pairs = connection.execute(_LATE).fetchall()
        for trace, (offset_ns, uncertainty_ns) in _reached(pairs).items():
            if abs(offset_ns) > uncertainty_ns + _CLOCKS_AGREE_NS:
                shift[trace] = -offset_ns
        return shift

    # The path as it was

    @cached_property
    def _last(self) -> Numbers:
        """The part of each collective whose rank arrived last."""
        latest = np.flatnonzero(self._start == self._arrived[self._meeting])
        ranks = self._ranks[self._parts.trace[latest]]
        ordered = latest[np.lexsort((latest, ranks, self._meeting[latest]))]
        return ordered[starts(self._meeting[ordered])[1:] - 1]

    def path(self) -> Iterator[Stretch]:
        """The critical path of each step of several ranks."""
        by_step = np.lexsort((self._step_end, self._steps.step))
        bounds = starts(self._steps.step[by_step])
        for first, after in pairwise(bounds.tolist()):
            rows = by_step[first:after]
            if len(np.unique(self._steps.trace[rows])) > 1:
                latest = rows[self._step_end[rows] == self._step_end[rows[-1]]].min()
                begin_ns = int(self._step_start[rows].min())
                yield from reversed([*self._walk(int(latest), begin_ns)])

    def _walk(self, step: int, begin_ns: int) -> Iterator[Stretch]:
        """The path of a step, from its end backwards."""
        number = int(self._steps.step[step])
        trace = int(self._steps.trace[step])
        until_ns = int(self._step_end[step])
        part = int(self._steps.source[step])
        while part >= 0:
            last = int(self._last[self._meeting[part]])
            from_ns = int(self._start[last])
            if from_ns <= begin_ns:
                break
            # Ranks that arrived at the same time did not wait for each other.
            if from_ns > self._start[part]:
                yield Stretch(number, from_ns, until_ns, trace)
                trace, until_ns, part = int(self._parts.trace[last]), from_ns, last
            part = self._cause(part)
        yield Stretch(number, begin_ns, until_ns, trace)

    def _cause(self, part: int) -> int:
        """The part of the same rank on which a part depended in the measurement."""
        parts = self._parts
        is_queued = parts.ready_ns[part] < parts.start_ns[part]
        return int((parts.previous if is_queued else parts.source)[part])

    # The path as it would be

    def span_ns(self, own: NDArray[np.bool_] | None = None) -> int:
        """[ns] The time of the job from the begin of its first step.

        The traces in `own` keep their segments, and all others take typical ones. By
        default all keep theirs, which gives the measured time.
        """
        typical, typical_ends = self._typical
        weights, ends = self.weights
        if own is not None:
            weights = np.where(own[self._parts.trace], weights, typical)
            ends = np.where(own[self._steps.trace], ends, typical_ends)
        over = self.over_ns(weights)
        return int((over[self._after(self._steps.source)] + ends).max(initial=0))

    @cached_property
    def begin_ns(self) -> int:
        """[ns] When the job begins: the first step of any rank, on the run's clock."""
        begins = self._step_start if len(self._step_start) else self._start
        return int(begins.min()) if len(begins) else 0

    @cached_property
    def weights(self) -> tuple[Numbers, Numbers]:
        """[ns] The segments before parts, and before ends of steps."""
        over = np.append(self.measured_ns, self.begin_ns)
        return (
            self._start
            - (self._parts.start_ns - self._parts.ready_ns)
            - over[self._after(self._parts.source)],
            self._step_end - over[self._after(self._steps.source)],
        )

    def _after(self, source: Numbers) -> Numbers:
        """The collectives of some parts; for none, the index after the last."""
        if not len(self._meeting):
            return np.zeros(len(source), np.int64)
        return np.where(source < 0, len(self.measured_ns), self._meeting[source])

    @cached_property
    def _typical(self) -> tuple[Numbers, Numbers]:
        """[ns] Medians of matching segments over ranks.

        Segments match if the collectives at both ends have the same numbers and equally
        large groups.
        """
        parts, steps = self._parts, self._steps
        weights, ends = self.weights
        number = np.append(parts.number, -1)
        of_parts = (parts.group_size, parts.number, number[parts.source])
        of_steps = (steps.step, number[steps.source])
        return _medians(weights, of_parts), _medians(ends, of_steps)

    def over_ns(self, weights: Numbers) -> Numbers:
        """[ns] The ends of collectives, given the segment of each part.

        The last element is the begin of the job, 0.
        """
        plan = self._plan
        count = len(self.measured_ns)
        # After the begin: an element that is over before everything.
        over = np.full(count + 2, _NOT_YET)
        over[count] = 0
        weights = weights[plan.order]
        for (low, high), (first, after) in zip(
            pairwise(plan.parts.tolist()), pairwise(plan.meetings.tolist()), strict=True
        ):
            arrivals = over[plan.source[low:high]] + weights[low:high]
            free = over[plan.previous[low:high]] + plan.gap_ns[low:high]
            np.maximum(arrivals, free, out=arrivals)
            latest = np.maximum.reduceat(arrivals, plan.begins[first:after] - low)
            ids = plan.ids[first:after]
            over[ids] = latest + plan.moving_ns[ids]
        return over[: count + 1]

    @cached_property
    def _plan(self) -> _Plan:
        parts, count = self._parts, len(self.measured_ns)
        source, previous = self._after(parts.source), self._after(parts.previous)
        level = levels(*self._edges(source, previous), count)
        ids = np.argsort(level, kind="stable")
        place = np.empty(count, np.int64)
        place[ids] = np.arange(count)
        own_place = place[self._meeting]
        order = np.argsort(own_place, kind="stable")
        begins = starts(own_place[order])
        meetings = starts(level[ids])
        over = np.append(self.measured_ns, self._start.max(initial=0))
        return _Plan(
            order=order,
            source=source[order],
            previous=np.where(previous == count, count + 1, previous)[order],
            gap_ns=np.where(
                parts.ready_ns < parts.start_ns,
                self._start - over[previous],
                # With imprecise clocks, it may have begun earlier.
                np.minimum(self._start - over[previous], 0),
            )[order],
            begins=begins[:-1],
            ids=ids,
            meetings=meetings,
            parts=begins[meetings],
            moving_ns=self.measured_ns - self._arrived,
        )

    def _edges(self, *sources: Numbers) -> tuple[Numbers, Numbers]:
        """The distinct dependencies of collectives; most parts of one share them."""
        found = []
        target = self._meeting[self._order]
        for source in sources:
            ordered = source[self._order]
            is_new = np.diff(ordered, prepend=-1) != 0
            is_new |= np.diff(target, prepend=-1) != 0
            is_new &= ordered < len(self.measured_ns)
            found.append((ordered[is_new], target[is_new]))
        ways = zip(*found, strict=True)
        source, target = (np.concatenate(way) for way in ways)
        return source, target


@dataclass(frozen=True)
class _Plan:
    """Parts in topological order."""

    order: Numbers
    source: Numbers
    previous: Numbers
    gap_ns: Numbers
    """[ns] The least time from that end to the begin."""
    begins: Numbers
    """The begins of collectives, in order."""
    ids: Numbers
    """The collectives, in order."""
    meetings: Numbers
    """The bounds of levels among collectives."""
    parts: Numbers
    """The bounds of levels among parts."""
    moving_ns: Numbers
    """[ns] From the last arrival to the end of each collective."""


def _medians(values: Numbers, keys: tuple[Numbers, ...]) -> Numbers:
    """For each value, the median of all values with the same keys."""
    import polars as pl

    names = [f"key{n}" for n in range(len(keys))]
    frame = pl.DataFrame({"value": values, **dict(zip(names, keys, strict=True))})
    middle = pl.col("value").quantile(0.5, "lower").over(names)
    found: Numbers = frame.select(middle.cast(pl.Int64)).to_series().to_numpy()
    return found


def _reached(pairs: list[tuple[int, int, int, int]]) -> dict[int, tuple[int, int]]:
    """The offset and uncertainty of each trace to the first, over the fewest groups.

    A pair is a trace, the reference trace of its group, and their offset with its
    uncertainty; the most certain come first.
    """
    found = {min((reference for _, reference, *_ in pairs), default=0): (0, 0)}
    frontier = set(found)
    while frontier:
        new: dict[int, tuple[int, int]] = {}
        for trace, reference, offset_ns, uncertainty_ns in pairs:
            for one, other, sign in ((reference, trace, 1), (trace, reference, -1)):
                if one in frontier and other not in found and other not in new:
                    base_ns, before_ns = found[one]
                    offset = base_ns + sign * offset_ns
                    new[other] = (offset, before_ns + uncertainty_ns)
        found |= new
        frontier = set(new)
    return found
