"""Reference implementations of simulation and partition: plain loops over plain rows.

They share no code with `sql/`, only the definitions: a lane runs one thing after
another, and some things begin or end only after something on another lane.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from math import floor
from typing import Any

from support import rows

import tracedb

Pair = tuple[int, int]
Span = tuple[int, int]
Insert = tuple[int | None, int]
"""GPU work that is launched, or None, and its host time."""
Streams = dict[tuple[int, int, int], list[tuple[Any, ...]]]
Awaited = dict[Span | int, list[Pair]]


@dataclass
class Lane:
    """What a thread or a stream runs, in order, and how far it has come."""

    work: list[Any]
    time_ns: int = 0
    done: int = 0


@dataclass
class Simulation:
    """Begin and end of host spans and GPU work, computed one at a time."""

    host: dict[int, Lane]
    streams: dict[tuple[int, int, int], Lane]
    span_starts: dict[int, list[int]]
    origins: dict[int, tuple[int, int]]
    """Begin of each trace, by its own clock and by the run's."""
    parts: dict[int, set[int]]
    """Parts of each collective, keyed by its last one."""
    traces: Mapping[int, int] = field(default_factory=dict)
    """The trace of each thread."""
    arrivals: Mapping[Span, int] = field(default_factory=dict)
    """Spans at whose end ranks arrive at collectives on the CPU, and their ops."""
    meetings: Mapping[Span, set[int]] = field(default_factory=dict)
    """Spans at whose end ranks go on after them, and the ops of all ranks."""
    begun: dict[int, int] = field(default_factory=dict)
    """When parts of collectives began, by the run's clock."""
    awaited_work: Mapping[Span | int, list[Pair]] = field(default_factory=dict)
    """GPU work that spans and GPU work wait for, each with the delay after it."""
    shares: Mapping[Span, float] = field(default_factory=dict)
    """The share of a launch that passes before its work is submitted."""
    longer: Mapping[Span | int, int] = field(default_factory=dict)
    """Time added to spans and GPU work."""
    inserts: Mapping[tuple[Span, bool], list[Insert]] = field(default_factory=dict)
    """What is inserted before spans (False) and after them (True), in order."""
    launched: dict[int, int] = field(default_factory=dict)
    """When inserted GPU work was launched."""
    own_begin: dict[Span, int] = field(default_factory=dict)
    """When spans began, after what is inserted before them."""
    spans: dict[Span, Pair] = field(default_factory=dict)
    kernels: dict[int, Pair] = field(default_factory=dict)

    def run(self) -> None:
        """Advance any lane that can continue, until all are done."""
        lanes: list[tuple[Lane, Callable[[Lane, Any], bool]]] = [
            *((lane, self.host_span) for lane in self.host.values()),
            *((lane, self.gpu_work) for lane in self.streams.values()),
        ]
        progress = True
        while progress:
            progress = False
            for lane, advance in lanes:
                while lane.done < len(lane.work) and advance(
                    lane, lane.work[lane.done]
                ):
                    lane.done += 1
                    progress = True
        assert all(lane.done == len(lane.work) for lane, _ in lanes), "a lane is stuck"

    def again(self, longer: Mapping[Span | int, int]) -> Simulation:
        """A new simulation in which some spans and GPU work take longer."""
        other = replace(
            self,
            host={thread: Lane(lane.work) for thread, lane in self.host.items()},
            streams={place: Lane(lane.work) for place, lane in self.streams.items()},
            longer=longer,
            begun={},
            launched={},
            own_begin={},
            spans={},
            kernels={},
        )
        other.run()
        return other

    def host_span(self, lane: Lane, span: tuple[Any, ...]) -> bool:
        """Run a span on a thread, unless what it awaits is not over yet."""
        thread, position, duration, other_thread, other_position, delay = span
        begin = self.insert((thread, position), False, lane.time_ns)
        self.own_begin[thread, position] = begin
        end = begin + duration + self.longer.get((thread, position), 0)
        end = self.insert((thread, position), True, end)
        awaited = self.awaited_ns((thread, position))
        if awaited is None:
            return False
        end = max(end, awaited)
        if other_thread is not None:
            if (other_thread, other_position) not in self.spans:
                return False
            end = max(end, self.spans[other_thread, other_position][1] + delay)
        if (thread, position) in self.arrivals:
            self.begun[self.arrivals[thread, position]] = end + self.run_origin(thread)
        if (thread, position) in self.meetings and not self.is_woken(span):
            ranks = self.meetings[thread, position]
            if not ranks <= self.begun.keys():
                return False
            complete = max(self.begun[rank] for rank in ranks)
            end = max(end, complete - self.run_origin(thread))
        self.spans[thread, position] = (lane.time_ns, end)
        lane.time_ns = end
        return True

    def insert(self, span: Span, is_behind: bool, now_ns: int) -> int:  # noqa: FBT001 (a side)
        """Run what is inserted on one side of a span; returns its end."""
        for kernel, host_ns in self.inserts.get((span, is_behind), []):
            if kernel is not None:
                self.launched[kernel] = now_ns
            now_ns += host_ns
        return now_ns

    def is_woken(self, span: tuple[Any, ...]) -> bool:
        """Whether a thread arrives when it is woken: then it waits for that alone."""
        thread, position, _, other_thread, *_ = span
        return (thread, position) in self.arrivals and other_thread is not None

    def run_origin(self, thread: int) -> int:
        """When the trace of a thread begins, by the run's clock."""
        return self.origins[self.traces[thread]][1]

    def awaited_ns(self, waiting: Span | int) -> int | None:
        """When everything awaited is over; None while that is unknown."""
        awaited = self.awaited_work.get(waiting, [])
        if not all(kernel in self.kernels for kernel, _ in awaited):
            return None
        ends = [self.kernels[kernel][1] + delay for kernel, delay in awaited]
        return max(ends, default=-(2**63))

    def gpu_work(self, lane: Lane, work: tuple[Any, ...]) -> bool:
        """Run GPU work on a stream, unless what it waits for is not over yet."""
        kernel, duration, thread, launch_ns, start_ns, launch_delay, *rest = work
        stream_delay, trace, meeting, is_eager = rest
        origin_ns, run_origin_ns = self.origins[trace]
        duration += self.longer.get(kernel, 0)
        ready = start_ns - origin_ns
        if kernel < 0:
            if kernel not in self.launched:
                return False
            ready = self.launched[kernel] + launch_delay
        elif thread is not None:
            span = (thread, bisect_right(self.span_starts[thread], launch_ns))
            if span not in self.spans:
                return False
            late = self.longer.get(span, 0) * self.shares.get(span, 0)
            ready = self.own_begin[span] + launch_delay + floor(late + 0.5)
        awaited = self.awaited_ns(kernel)
        if awaited is None:
            return False
        ready = max(ready, awaited)
        start = max(ready, lane.time_ns + stream_delay) if lane.done else ready
        complete = start
        if meeting is not None:
            self.begun[kernel] = start + run_origin_ns
            parts = {kernel} if is_eager else self.parts[meeting]
            if not parts <= self.begun.keys():
                return False
            complete = max(self.begun[part] for part in parts)
            complete -= run_origin_ns
        self.kernels[kernel] = (start, complete + duration)
        lane.time_ns = complete + duration
        return True


def simulate(
    database: tracedb.Database,
    method: str,
    scenario: str = "baseline",
) -> Simulation:
    """Simulate all runs from the relations that hold durations."""
    host, streams, parts = defaultdict(list), defaultdict(list), defaultdict(set)
    for span in rows(
        database,
        f"""
        SELECT thread_id, position, predicted_ns, awaited_thread_id, awaited_position,
            delay_ns
        FROM prediction.host_time INNER JOIN prediction.variant USING (variant_id)
        WHERE scenario = '{scenario}' AND method = '{method}'
        ORDER BY thread_id, position
        """,
    ):
        host[span[0]].append(span)
    for device, stream, *work in rows(
        database,
        f"""
        SELECT device, stream, gpu_op_id, predicted_ns, launch_thread_id,
            launch_start_ns, start_ns, launch_delay_ns, stream_delay_ns, trace_id,
            last_gpu_op_id, is_eager
        FROM graph.stream_position
        INNER JOIN prediction.gpu_time USING (trace_id, gpu_op_id)
        INNER JOIN prediction.variant USING (variant_id)
        LEFT JOIN (SELECT node_id AS gpu_op_id, last_node_id AS last_gpu_op_id, is_eager
            FROM graph.collective)
            USING (gpu_op_id)
        WHERE scenario = '{scenario}' AND method = '{method}'
        ORDER BY device, stream, start_ns, end_ns, gpu_op_id
        """,
    ):
        streams[work[-3], device, stream].append(tuple(work))
        if work[-2] is not None:
            parts[work[-2]].add(work[0])
    awaited: Awaited = defaultdict(list)
    for thread, position, kernel, delay in rows(
        database,
        f"""
        SELECT thread_id, position, gpu_op_id, delay_ns
        FROM prediction.host_time INNER JOIN prediction.variant USING (variant_id)
        INNER JOIN overhead.timeline USING (thread_id, position)
        INNER JOIN (SELECT call_id, gpu_op_id FROM graph.host_awaited)
            USING (call_id)
        WHERE scenario = '{scenario}' AND method = '{method}'
            AND awaited_gpu_op_id IS NOT NULL
        """,
    ):
        awaited[thread, position].append((kernel, delay))
    for waiting, kernel, delay in rows(
        database,
        f"""
        SELECT gpu_op_id, awaited.awaited_gpu_op_id, delay_ns + kept_ns
        FROM prediction.gpu_time AS work
        INNER JOIN prediction.variant USING (variant_id)
        INNER JOIN prediction.gpu_awaited AS awaited USING (gpu_op_id)
        WHERE scenario = '{scenario}' AND method = '{method}'
            AND (scenario, gpu_op_id, awaited.awaited_gpu_op_id) NOT IN (
                SELECT (scenario, gpu_op_id, awaited_gpu_op_id)
                FROM prediction.removed_stream_wait
            )
        """,
    ):
        awaited[waiting].append((kernel, delay))
    present = {w[0] for s in streams.values() for w in s}
    beside = {
        row[2]: -row[1] if row[-3] is None else row[-3]
        for row in _edits(database, scenario, "overlap")
        if row[2] in present
    }
    known = {waiting: list(of) for waiting, of in awaited.items()}
    awaited = _without_removed(database, awaited, present - beside.keys())
    if beside:
        _overlap(database, (scenario, beside), streams, (known, awaited))
    _move(database, scenario, streams, awaited)
    inserts = _insert(database, scenario, method, streams, awaited)
    _no_waits_for_itself(streams, awaited)
    starts = defaultdict(list)
    for thread, start in rows(
        database,
        "SELECT thread_id, start_ns FROM overhead.timeline ORDER BY ALL",
    ):
        starts[thread].append(start)
    origins = rows(
        database,
        """
        SELECT trace_id, min(start_ns), min(start_ns) + coalesce(any_value(shift_ns), 0)
        FROM overhead.timeline LEFT JOIN graph.clock USING (trace_id)
        GROUP BY trace_id
        """,
    )
    arrivals, meetings = _meetings(database)
    simulation = Simulation(
        host={thread: Lane(work) for thread, work in host.items()},
        streams={stream: Lane(work) for stream, work in streams.items()},
        span_starts=starts,
        origins={trace: (own, run) for trace, own, run in origins},
        parts=parts,
        traces=dict(rows(database, "SELECT thread_id, trace_id FROM staging.thread")),
        arrivals=arrivals,
        meetings=meetings,
        shares={
            (thread, position): share
            for thread, position, share in rows(
                database,
                "SELECT thread_id, position, submit_share FROM prediction.launch_span",
            )
        },
        awaited_work=awaited,
        inserts=inserts,
    )
    simulation.run()
    return simulation


_MESSAGES = """
    SELECT
        node_id, last_node_id, wait.thread_id, posted_ns,
        coalesce(
            max(position) FILTER (type = 'wait_rank' AND span.end_ns > wait.start_ns),
            max(position) FILTER (
                span.end_ns
                = CASE WHEN is_recorded THEN wait.start_ns ELSE wait.end_ns END
            )
        )
    FROM graph.collective
    INNER JOIN graph.message_wait AS wait ON node_id = annotation_id
    INNER JOIN overhead.timeline AS span
        ON
            wait.thread_id = span.thread_id
            AND span.end_ns BETWEEN wait.start_ns AND wait.end_ns
    GROUP BY ALL
"""


def _meetings(
    database: tracedb.Database,
) -> tuple[dict[Span, int], dict[Span, set[int]]]:
    """Spans at whose end ranks arrive at collectives on the CPU, and go on."""
    ended = {
        (thread, end): position
        for thread, end, position in rows(
            database, "SELECT thread_id, end_ns, position FROM overhead.timeline"
        )
    }
    waiting = dict(
        rows(
            database,
            "SELECT op_id, position FROM overhead.timeline WHERE type = 'wait_rank' "
            "ORDER BY thread_id, position",
        )
    )
    arrivals: dict[Span, int] = {}
    members: dict[int, dict[int, Span]] = defaultdict(dict)
    for op, last, thread, start in rows(
        database,
        "SELECT op_id, last_node_id, thread_id, start_ns FROM graph.collective "
        "INNER JOIN staging.op ON node_id = op_id",
    ):
        position = ended[thread, start]
        arrivals[thread, position] = op
        members[last][op] = (thread, waiting.get(op, position))
    # A message is posted at one place, and awaited at another.
    for op, last, thread, posted, position in rows(database, _MESSAGES):
        arrivals[thread, ended[thread, posted]] = op
        members[last][op] = (thread, position)
    meetings = {span: set(of) for of in members.values() for span in of.values()}
    return arrivals, meetings


def _own_waits(database: tracedb.Database) -> dict[int, list[Pair]]:
    """GPU work that each GPU op waits for, with the delays."""
    own: dict[int, list[Pair]] = defaultdict(list)
    for waiting, kernel, delay in rows(
        database,
        "SELECT gpu_op_id, awaited_gpu_op_id, delay_ns FROM prediction.gpu_awaited",
    ):
        own[waiting].append((kernel, delay))
    return own


def _in_place_of(
    own: dict[int, list[Pair]], before: dict[int, int], there: AbstractSet[int]
) -> Callable[[int], frozenset[int]]:
    """What replaces GPU work: itself if it remains, else all that it came after."""

    @cache
    def instead(kernel: int) -> frozenset[int]:
        if kernel in there:
            return frozenset([kernel])
        causes = [cause for cause, _ in own[kernel]]
        causes += [before[kernel]] if kernel in before else []
        return frozenset().union(*map(instead, causes))

    return instead


def _without_removed(
    database: tracedb.Database, awaited: dict[Span | int, list[Pair]], present: set[int]
) -> dict[Span | int, list[Pair]]:
    """Waits after GPU work was removed: for what the removed work came after.

    The first work after removed work also inherits its waits.
    """
    lane, before = _stream_order(database)
    own = _own_waits(database)
    instead = _in_place_of(own, before, present)
    waits = list(awaited.items())
    for kernel in present:
        removed = before.get(kernel)
        while removed is not None and removed not in present:
            waits.append((kernel, own[removed]))
            removed = before.get(removed)
    found: dict[Span | int, list[Pair]] = defaultdict(list)
    for waiting, of in waits:
        found[waiting] += [
            (cause, delay)
            for kernel, delay in of
            for cause in instead(kernel)
            # Work of its own stream is before it anyway.
            if isinstance(waiting, tuple) or lane[cause] != lane[waiting]
        ]
    return found


def _overlap(
    database: tracedb.Database,
    chosen: tuple[str, dict[int, int]],
    streams: Streams,
    awaited: tuple[Awaited, Awaited],
) -> None:
    """Put overlapped work on its own stream; its consumers wait for it."""
    scenario, beside = chosen
    _, found = awaited
    delays = _wait_delays(database, scenario)
    works = {w[0]: (lane, w) for lane, of in streams.items() for w in of}
    causes = _came_after(database, works.keys() - beside.keys(), delays)
    for stream, of in list(streams.items()):
        streams[stream] = [work for work in of if work[0] not in beside]
    for kernel in sorted(beside, key=lambda kernel: works[kernel][1][3]):
        (trace, device, _), work = works[kernel]
        lane = streams[trace, device, beside[kernel]]
        earlier = [n for n, w in enumerate(lane, 1) if (w[3] or 0) < work[3]]
        lane.insert(max(earlier, default=0), work)
        found[kernel] = causes(kernel)
    for kernel, taking in rows(
        database,
        "SELECT gpu_op_id, consumer_gpu_op_id FROM prediction.overlap_consumer "
        f"WHERE scenario = '{scenario}'",
    ):
        found[taking].append((kernel, delays[taking]))
    _await_devices(database, {kernel: works[kernel][1] for kernel in beside}, awaited)


def _came_after(
    database: tracedb.Database, staying: AbstractSet[int], delays: dict[int, int]
) -> Callable[[int], list[Pair]]:
    """What overlapped work came after on its original stream: the last remaining work.

    And what it, and removed work in between, waited for.
    """
    _, before = _stream_order(database)
    own = _own_waits(database)
    instead = _in_place_of(own, before, staying)

    def causes(kernel: int) -> list[Pair]:
        waits = list(own[kernel])
        last = before.get(kernel)
        while last is not None and last not in staying:
            waits += own[last]
            last = before.get(last)
        waits += [(last, delays[kernel])] if last is not None else []
        return [(cause, delay) for of, delay in waits for cause in instead(of)]

    return causes


def _await_devices(
    database: tracedb.Database,
    beside: dict[int, tuple[Any, ...]],
    awaited: tuple[Awaited, Awaited],
) -> None:
    """Calls wait for overlapped work of their own stream or device."""
    known, found = awaited
    spans = {
        (thread, position): (trace, call, start, target)
        for trace, thread, position, call, start, target in rows(
            database,
            "SELECT span.trace_id, span.thread_id, position, call_id, call.start_ns, "
            "target FROM overhead.timeline AS span "
            "INNER JOIN staging.call AS call USING (call_id)",
        )
    }
    work = {
        kernel: (call, device)
        for kernel, call, device in rows(
            database, "SELECT gpu_op_id, call_id, device FROM staging.gpu_op"
        )
    }
    for waiting, of in known.items():
        if waiting not in spans:
            continue
        trace, call, start, target = spans[waiting]
        found[waiting] += [(k, d) for k, d in of if k in beside and work[k][0] == call]
        if target == "device":
            devices = {work[kernel][1]: delay for kernel, delay in of}
            found[waiting] += [
                (kernel, devices[work[kernel][1]])
                for kernel, (*_, launch, _, _, _, of_trace, _, _) in beside.items()
                if of_trace == trace and work[kernel][1] in devices and launch < start
            ]


def _no_waits_for_itself(streams: Streams, awaited: Awaited) -> None:
    """A stream that is told to wait for itself does not."""
    lanes = {work[0]: stream for stream, works in streams.items() for work in works}
    for waiting, of in awaited.items():
        if waiting in lanes:
            of[:] = [pair for pair in of if lanes[pair[0]] != lanes[waiting]]


def _stream_order(
    database: tracedb.Database,
) -> tuple[dict[int, tuple[int, ...]], dict[int, int]]:
    """The stream of all recorded GPU work, and the work before it there."""
    lane: dict[int, tuple[int, ...]] = {}
    before: dict[int, int] = {}
    last: dict[tuple[int, ...], int] = {}
    for kernel, *place in rows(
        database,
        "SELECT gpu_op_id, trace_id, device, stream FROM graph.stream_position "
        "ORDER BY start_ns, end_ns, gpu_op_id",
    ):
        lane[kernel] = tuple(place)
        if lane[kernel] in last:
            before[kernel] = last[lane[kernel]]
        last[lane[kernel]] = kernel
    return lane, before


def _edits(
    database: tracedb.Database, scenario: str, action: str, target: str = "gpu"
) -> list[tuple[Any, ...]]:
    """GPU work or ops chosen by the edits of an action, with the values of each."""
    relation = {"gpu": "prediction.edited_work", "op": "prediction.edited_op"}[target]
    return rows(
        database,
        f"""
        SELECT chosen.*, to_stream, place, host_ns
        FROM {relation} AS chosen
        INNER JOIN prediction.scenario_edit AS edit
            ON chosen.scenario = edit.scenario AND chosen.edit = edit.position
        WHERE chosen.scenario = '{scenario}' AND action = '{action}'
            AND target = '{target}'
        """,
    )


def _move(
    database: tracedb.Database, scenario: str, streams: Streams, awaited: Awaited
) -> None:
    """Put moved work on its new stream, after all work launched there before.

    It waits for what stays before it on its old stream; what stays after it waits for
    it.
    """
    chosen = {row[2]: row[-3] for row in _edits(database, scenario, "move")}
    delays = _wait_delays(database, scenario)
    found = []
    for stream, works in list(streams.items()):
        moved = {w[0] for w in works if chosen.get(w[0], stream[2]) != stream[2]}
        for number, work in enumerate(works):
            if work[0] not in moved:
                continue
            before = [w for w in works[:number] if w[0] not in moved]
            behind = [w for w in works[number:] if w[0] not in moved]
            if before:
                awaited[work[0]].append((before[-1][0], delays[work[0]]))
            if behind:
                awaited[behind[0][0]].append((work[0], delays[behind[0][0]]))
            found.append((work, (*stream[:2], chosen[work[0]])))
        streams[stream] = [w for w in works if w[0] not in moved]
    for work, stream in sorted(found, key=lambda item: item[0][3]):
        lane = streams[stream]
        earlier = [n for n, w in enumerate(lane, 1) if (w[3] or 0) < work[3]]
        lane.insert(max(earlier, default=0), work)


def _wait_delays(database: tracedb.Database, scenario: str) -> dict[int, int]:
    """The delay between work of another stream and each work that waits for it."""
    query = (
        "SELECT gpu_op_id, delay_ns FROM graph.stream_position "
        "INNER JOIN prediction.added_delay USING (trace_id, kind) "
        "INNER JOIN prediction.variant USING (variant_id) "
        f"WHERE scenario = '{scenario}' AND cause = 'stream_wait'"
    )
    return dict(rows(database, query))


def _insert(
    database: tracedb.Database,
    scenario: str,
    method: str,
    streams: Streams,
    awaited: Awaited,
) -> dict[tuple[Span, bool], list[Insert]]:
    """Insert GPU work on its stream; returns where it is launched, and inserted ops."""
    spans: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for thread, *span in rows(
        database,
        "SELECT thread_id, position, start_ns, end_ns, type, call_id "
        "FROM overhead.timeline ORDER BY ALL",
    ):
        spans[thread].append(tuple(span))
    found: dict[tuple[Span, bool], list[Insert]] = defaultdict(list)

    def place(thread: int, at_ns: int, insert: Insert, *, is_after: bool) -> None:
        """Insert at a time: within the span there, or on one side of it."""
        for position, start, end, type_, call in spans[thread]:
            if is_after and start < at_ns <= end:
                if type_.startswith("wait_") and call and at_ns == end:
                    found[(thread, position + 1), False].append(insert)
                else:
                    found[(thread, position), True].append(insert)
            elif not is_after and start <= at_ns < end:
                found[(thread, position), start < at_ns].append(insert)

    for work in _edits(database, scenario, "insert"):
        _put(database, (scenario, method), work, (streams, awaited), place)
    for op in _edits(database, scenario, "insert", "op"):
        *_, thread, start, end, _, side, host_ns = op
        at_ns = end if side == "after" else start
        place(thread, at_ns, (None, host_ns), is_after=side == "after")
    return found


def _put(
    database: tracedb.Database,
    variant: tuple[str, str],
    edited: tuple[Any, ...],
    graph: tuple[Streams, Awaited],
    place: Callable[..., None],
) -> None:
    """Insert one GPU op beside another, with a launch beside that one's call."""
    _, edit, beside, *_, side, host_ns = edited
    streams, awaited = graph
    ((kernel, duration, launch_delay, stream_delay),) = rows(
        database,
        f"""
        SELECT gpu_op_id, predicted_ns, launch_delay_ns, stream_delay_ns
        FROM prediction.gpu_time INNER JOIN prediction.variant USING (variant_id)
        WHERE (scenario, method) = {variant}
            AND -gpu_op_id % 10_000_000_000_000 = {edit} * 10_000_000_000 + {beside}
        """,
    )
    ((thread, start, end, call),) = rows(
        database,
        "SELECT call.thread_id, call.start_ns, call.end_ns, call.call_id "
        "FROM staging.gpu_op INNER JOIN staging.call AS call USING (call_id) "
        f"WHERE gpu_op_id = {beside}",
    )
    lane, number = next(
        (works, number)
        for works in streams.values()
        for number, work in enumerate(works)
        if work[0] == beside
    )
    new = (kernel, duration, thread, start, 0, launch_delay, stream_delay)
    lane.insert(number + (side == "after"), (*new, *lane[number][7:8], None, None))
    at_ns = end if side == "after" else start
    place(thread, at_ns, (kernel, host_ns), is_after=side == "after")
    if side == "before":
        awaited[kernel] += awaited[beside]
        return
    own = {
        (thread, position)
        for (position,) in rows(
            database,
            f"SELECT position FROM overhead.timeline WHERE call_id = {call}",
        )
    }
    for waiting, of in awaited.items():
        if waiting not in own:
            of += [(kernel, delay) for work, delay in of if work == beside]


Times = tuple[int, int, int | None]
"""Begin and end of a step's period, and the end of the step's GPU work."""


def _launched(database: tracedb.Database) -> dict[int, list[int]]:
    """The GPU work of each step: all that was launched within it, on any thread."""
    calls = rows(
        database,
        "SELECT gpu_op_id, work.trace_id, call.start_ns FROM staging.gpu_op AS work "
        "INNER JOIN staging.call AS call USING (call_id)",
    )
    steps = rows(
        database, "SELECT step_id, trace_id, start_ns, end_ns FROM staging.step"
    )
    return {
        step: [k for k, on, at in calls if on == trace and start <= at < end]
        for step, trace, start, end in steps
    }


def periods(
    database: tracedb.Database,
    marks: dict[int, tuple[int, int]],
    ends: dict[int, int],
) -> dict[int, Times]:
    """Periods that follow from step marks and ends of GPU work."""
    work = _launched(database)
    threads = defaultdict(list)
    for step_id, thread in rows(
        database, "SELECT step_id, thread_id FROM staging.step ORDER BY start_ns"
    ):
        threads[thread].append(step_id)
    found: dict[int, Times] = {}
    for steps in threads.values():
        done = marks[steps[0]][0]
        for step_id in steps:
            gpu = max((ends[kernel] for kernel in work[step_id]), default=None)
            before = done
            done = max(done, marks[step_id][1], gpu or 0)
            found[step_id] = (before, done, gpu)
    return found


def predicted_periods(
    database: tracedb.Database, simulation: Simulation
) -> dict[int, Times]:
    """The periods of a simulation."""
    marks = {
        step: (
            simulation.spans[thread, first][0],
            simulation.spans[thread, last][1],
        )
        for step, thread, first, last in rows(
            database,
            "SELECT step_id, thread_id, first_position, last_position "
            "FROM simulation.step_span",
        )
    }
    ends = {kernel: end for kernel, (_, end) in simulation.kernels.items()}
    return periods(database, marks, ends)


def partition(
    database: tracedb.Database, step_id: int, thread_id: int
) -> dict[str, int]:
    """Sum a step's overhead types on a thread, one elementary interval at a time.

    Boundaries of ops, calls, waits and the step cut the time; each interval is
    classified by what covers it.
    """
    query = f"""
        SELECT start_ns, end_ns, thread_id = {thread_id} FROM staging.step
        WHERE step_id = {step_id}
    """
    ((start, end, is_step_thread),) = rows(database, query)
    facts = _facts(database, thread_id).within(start, end)
    covers = [*facts.ops, *facts.calls, *facts.loading, *facts.thread_waits]
    bounds = {time for cover in covers for time in cover[:2] if start < time < end}
    bounds |= {time for call in facts.calls for time in call[4:5] if start < time < end}
    cuts = sorted(bounds | {start, end})
    judged = [(a, b, facts.judge(a)) for a, b in pairwise(cuts)]
    active = [(a, b) for a, b, (_, is_active) in judged if is_active]
    totals: dict[str, int] = defaultdict(int)
    # Before its first wake-up and after its last work, a thread other than the step's
    # is idle.
    idle = {"T1"} if is_step_thread else {"T1", "wait_thread"}
    for a, b, (type_, _) in judged:
        outside = not active or a < active[0][0] or b > active[-1][1]
        totals["idle" if type_ in idle and outside else type_] += b - a
    return dict(totals)


@dataclass
class _Facts:
    """Everything that covers the time of one thread."""

    ops: list[tuple[Any, ...]]
    calls: list[tuple[Any, ...]]
    loading: list[tuple[Any, ...]]
    thread_waits: list[tuple[Any, ...]]

    def within(self, start: int, end: int) -> _Facts:
        """What overlaps a step."""
        return _Facts(
            *(
                [cover for cover in covers if cover[0] < end and cover[1] > start]
                for covers in (self.ops, self.calls, self.loading, self.thread_waits)
            )
        )

    def judge(self, time: int) -> tuple[str, bool]:
        """The overhead type at a time, and whether the thread is active then."""
        call = _covering(self.calls, time)
        if call:
            _, _, _, awaits, wait_start = call
            return ("T4" if time < wait_start else f"wait_{awaits}"), True
        op = _covering(self.ops, time)
        if _covering(self.loading, time):
            return "wait_data", op is not None
        if op:
            return _within_op(op, time), True
        if _covering(self.thread_waits, time):
            return "wait_thread", False
        return "T1", False


def _within_op(op: tuple[Any, ...], time: int) -> str:
    launches = [launch for launch in op[2] if launch[0] < op[1]]
    if not launches:
        return "T5"
    if time < min(start for start, _ in launches):
        return "T2"
    return "T3" if time >= max(end for _, end in launches) else "T5"


def _covering(ranges: list[tuple[Any, ...]], time: int) -> tuple[Any, ...] | None:
    """The range that covers a time and began last."""
    found = [
        found_range for found_range in ranges if found_range[0] <= time < found_range[1]
    ]
    return (
        max(found, key=lambda found_range: (found_range[0], -found_range[1]))
        if found
        else None
    )


def _facts(database: tracedb.Database, thread_id: int) -> _Facts:
    launches = defaultdict(list)
    for op, start, end in rows(
        database,
        f"""
        SELECT top_op_id, start_ns, end_ns FROM staging.call
        WHERE thread_id = {thread_id} AND kind = 'launch' AND top_op_id IS NOT NULL
        """,
    ):
        launches[op].append((start, end))
    ops = [
        (start, end, launches[op])
        for op, start, end in rows(
            database,
            f"""
            SELECT op_id, start_ns, end_ns FROM staging.op
            WHERE thread_id = {thread_id} AND is_top_level
            """,
        )
    ]
    calls = _outermost(
        rows(
            database,
            f"""
            SELECT call.start_ns, call.end_ns, call.kind, awaits, wait_start_ns
            FROM staging.call LEFT JOIN graph.host_call USING (call_id)
            WHERE call.thread_id = {thread_id} AND call.kind IN ('launch', 'wait')
            """,
        )
    )
    loading = rows(
        database,
        f"""
        SELECT start_ns, end_ns FROM staging.annotation
        WHERE
            thread_id = {thread_id}
            AND (name LIKE 'enumerate(Data%)%' OR name = '## load_batch ##')
        """,
    )
    waits = rows(
        database,
        f"SELECT start_ns, end_ns FROM graph.thread_wait WHERE thread_id = {thread_id}",
    )
    return _Facts(ops, calls, loading, waits)


def _outermost(calls: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Calls that are in no other call."""
    found: list[tuple[Any, ...]] = []
    for call in sorted(calls, key=lambda call: (call[0], -call[1])):
        if not found or call[1] > found[-1][1]:
            found.append(call)
    return found
