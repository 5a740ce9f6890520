"""The simulation and the partition once more, as plain loops over plain rows.

They share no code with `sql/` and no idea beyond the definitions: a lane does one thing
after another, and some things end or begin only after something on another lane.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

from support import rows

import tracedb

Pair = tuple[int, int]
Span = tuple[int, int]


@dataclass
class Lane:
    """What a thread or a stream does, in order, and how far it has come."""

    work: list[Any]
    time_ns: int = 0
    done: int = 0


@dataclass
class Simulation:
    """Begins and ends of host spans and of GPU work, found one at a time."""

    host: dict[int, Lane]
    streams: dict[tuple[int, int, int], Lane]
    span_starts: dict[int, list[int]]
    origins: dict[int, tuple[int, int]]
    """Begin of each trace, by its own clock and by the run's."""
    parts: dict[int, set[int]]
    """Parts of each collective, which is named by its last one."""
    begun: dict[int, int] = field(default_factory=dict)
    """When parts of collectives began, by the run's clock."""
    awaited_work: Mapping[Span | int, list[Pair]] = field(default_factory=dict)
    """GPU work that spans and GPU work wait for, each with the delay after it."""
    longer: Mapping[Span | int, int] = field(default_factory=dict)
    """What to add to the durations of spans and of GPU work."""
    spans: dict[Span, Pair] = field(default_factory=dict)
    kernels: dict[int, Pair] = field(default_factory=dict)

    def run(self) -> None:
        """Advance any lane that can, until all are done."""
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

    def host_span(self, lane: Lane, span: tuple[Any, ...]) -> bool:
        """Let a thread live through a span, unless what it awaits is not over yet."""
        thread, position, duration, other_thread, other_position, delay = span
        end = lane.time_ns + duration + self.longer.get((thread, position), 0)
        awaited = self.awaited_ns((thread, position))
        if awaited is None:
            return False
        end = max(end, awaited)
        if other_thread is not None:
            if (other_thread, other_position) not in self.spans:
                return False
            end = max(end, self.spans[other_thread, other_position][1] + delay)
        self.spans[thread, position] = (lane.time_ns, end)
        lane.time_ns = end
        return True

    def awaited_ns(self, waiting: Span | int) -> int | None:
        """When all is over that something waits for; None while that is not known."""
        awaited = self.awaited_work.get(waiting, [])
        if not all(kernel in self.kernels for kernel, _ in awaited):
            return None
        ends = [self.kernels[kernel][1] + delay for kernel, delay in awaited]
        return max(ends, default=-(2**63))

    def gpu_work(self, lane: Lane, work: tuple[Any, ...]) -> bool:
        """Run work on a stream, unless what it waits for is not over yet."""
        kernel, duration, thread, launch_ns, start_ns, launch_delay, *rest = work
        stream_delay, trace, meeting = rest
        origin_ns, run_origin_ns = self.origins[trace]
        duration += self.longer.get(kernel, 0)
        ready = start_ns - origin_ns
        if thread is not None:
            span = (thread, bisect_right(self.span_starts[thread], launch_ns))
            if span not in self.spans:
                return False
            ready = self.spans[span][0] + launch_delay
        awaited = self.awaited_ns(kernel)
        if awaited is None:
            return False
        ready = max(ready, awaited)
        start = max(ready, lane.time_ns + stream_delay) if lane.done else ready
        complete = start
        if meeting is not None:
            self.begun[kernel] = start + run_origin_ns
            if not self.parts[meeting] <= self.begun.keys():
                return False
            complete = max(self.begun[part] for part in self.parts[meeting])
            complete -= run_origin_ns
        self.kernels[kernel] = (start, complete + duration)
        lane.time_ns = complete + duration
        return True


def simulate(
    database: tracedb.Database,
    method: str,
    scenario: str = "baseline",
    longer: Mapping[Span | int, int] | None = None,
) -> Simulation:
    """Simulate all runs from the relations that say how long everything takes."""
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
            last_gpu_op_id
        FROM graph.stream_position
        INNER JOIN prediction.gpu_time USING (trace_id, gpu_op_id)
        INNER JOIN prediction.variant USING (variant_id)
        LEFT JOIN (SELECT gpu_op_id, last_gpu_op_id FROM graph.collective)
            USING (gpu_op_id)
        WHERE scenario = '{scenario}' AND method = '{method}'
        ORDER BY device, stream, start_ns, end_ns, gpu_op_id
        """,
    ):
        streams[work[-2], device, stream].append(tuple(work))
        if work[-1] is not None:
            parts[work[-1]].add(work[0])
    awaited: dict[Span | int, list[Pair]] = defaultdict(list)
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
            AND work.awaited_gpu_op_id IS NOT NULL
        """,
    ):
        awaited[waiting].append((kernel, delay))
    awaited = _without_removed(
        database, awaited, {w[0] for s in streams.values() for w in s}
    )
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
    simulation = Simulation(
        host={thread: Lane(work) for thread, work in host.items()},
        streams={stream: Lane(work) for stream, work in streams.items()},
        span_starts=starts,
        origins={trace: (own, run) for trace, own, run in origins},
        parts=parts,
        awaited_work=awaited,
        longer=longer or {},
    )
    simulation.run()
    return simulation


def _without_removed(
    database: tracedb.Database, awaited: dict[Span | int, list[Pair]], present: set[int]
) -> dict[Span | int, list[Pair]]:
    """What is waited for where some GPU work is removed: what that came after.

    The first work behind removed work waits for what that waited for, too.
    """
    lane, before = _stream_order(database)
    own: dict[int, list[Pair]] = defaultdict(list)
    for waiting, kernel, delay in rows(
        database,
        "SELECT gpu_op_id, awaited_gpu_op_id, delay_ns FROM prediction.gpu_awaited",
    ):
        own[waiting].append((kernel, delay))

    @cache
    def instead(kernel: int) -> frozenset[int]:
        if kernel in present:
            return frozenset([kernel])
        causes = [cause for cause, _ in own[kernel]]
        causes += [before[kernel]] if kernel in before else []
        return frozenset().union(*map(instead, causes))

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


Times = tuple[int, int, int | None]
"""Begin of a step's period and its end, and the end of the step's GPU work."""


def _launched(database: tracedb.Database) -> dict[int, list[int]]:
    """The GPU work of each step: what was launched in its time, on any thread."""
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
    """The periods that follow from the marks of steps and the ends of GPU work."""
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
    """Sum the overhead types of a step on a thread, nanosecond range by range.

    Every boundary of an op, a call, a wait or the step cuts the time; a range between
    two boundaries is judged on its own by what covers it.
    """
    query = f"""
        SELECT start_ns, end_ns, thread_id = {thread_id} FROM staging.step
        WHERE step_id = {step_id}
    """
    ((start, end, is_step_thread),) = rows(database, query)
    facts = _facts(database, thread_id)
    covers = [*facts.ops, *facts.calls, *facts.loading, *facts.thread_waits]
    bounds = {time for cover in covers for time in cover[:2] if start < time < end}
    bounds |= {time for call in facts.calls for time in call[4:5] if start < time < end}
    cuts = sorted(bounds | {start, end})
    judged = [(a, b, facts.judge(a)) for a, b in pairwise(cuts)]
    active = [(a, b) for a, b, (_, is_active) in judged if is_active]
    totals: dict[str, int] = defaultdict(int)
    # Before it is woken, and when it is done, another thread than the step's is idle.
    idle = {"T1"} if is_step_thread else {"T1", "wait_thread"}
    for a, b, (type_, _) in judged:
        outside = not active or a < active[0][0] or b > active[-1][1]
        totals["idle" if type_ in idle and outside else type_] += b - a
    return dict(totals)


@dataclass
class _Facts:
    """What covers the time of one thread."""

    ops: list[tuple[Any, ...]]
    calls: list[tuple[Any, ...]]
    loading: list[tuple[Any, ...]]
    thread_waits: list[tuple[Any, ...]]

    def judge(self, time: int) -> tuple[str, bool]:
        """Name the overhead type at a time, and whether the thread is active then."""
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
    """The latest-begun found_range that covers a time."""
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
        WHERE thread_id = {thread_id} AND name LIKE 'enumerate(Data%)%'
        """,
    )
    waits = rows(
        database,
        f"SELECT start_ns, end_ns FROM graph.thread_wait WHERE thread_id = {thread_id}",
    )
    return _Facts(ops, calls, loading, waits)


def _outermost(calls: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Calls that lie in no other call."""
    found: list[tuple[Any, ...]] = []
    for call in sorted(calls, key=lambda call: (call[0], -call[1])):
        if not found or call[1] > found[-1][1]:
            found.append(call)
    return found
