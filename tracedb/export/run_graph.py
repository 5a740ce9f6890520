"""Read the graph of a run, measured or predicted by a variant, as timed work.

Both have the same parts: spans of host threads, at whose ends threads may wait; GPU
work, which follows its launch, the previous work on its stream, and awaited work on
other streams; and meetings of ranks. The queries below read them from the measured
causes, with measured delays, or from the simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tracedb.export.timed_graph import Work

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    Row = tuple[Any, ...]
    Span = tuple[int, int]
    """A thread, and the position of a span on it."""

_ORIGINS = """
SELECT
    trace_id,
    coalesce(run_origin_ns - min(run_origin_ns) OVER (), 0)
FROM simulation.origin
WHERE trace_id IN (SELECT trace_id FROM export_trace)
"""
# If a rank left a collective before the last rank arrived, by their clocks, the ranks
# do not meet: it keeps its measured duration.
_MEETING = """
meeting AS (
    SELECT node_id, last_node_id, last_arrival_ns, is_eager
    FROM graph.collective
    INNER JOIN (SELECT node_id, end_ns FROM graph.node) USING (node_id)
    QUALIFY bool_and(last_arrival_ns <= end_ns) OVER (PARTITION BY last_node_id)
)
"""
_MEASURED = {
    "spans": f"""
WITH {_MEETING}
SELECT
    span.trace_id, span.thread_id, position,
    CASE
        WHEN type = 'wait_rank' AND node_id IS NOT NULL THEN 0
        WHEN cause IN ('return', 'join', 'fork') AND starts_with(type, 'wait_')
            AND type <> 'wait_data' THEN 0
        ELSE end_ns - start_ns
    END,
    coalesce(cause <> 'arrival' OR node_id IS NOT NULL, false),
    type, coalesce(span.call_id, op_id)
FROM overhead.timeline AS span
LEFT JOIN graph.host_cause AS cause
    ON span.thread_id = cause.thread_id AND end_ns = resume_ns
LEFT JOIN meeting ON op_id = node_id AND type = 'wait_rank'
WHERE span.trace_id IN (SELECT trace_id FROM export_trace)
ORDER BY span.thread_id, position
""",
    "threads": """
SELECT
    waiting.thread_id, waiting.position, working.thread_id, working.position,
    waiting.end_ns - working.end_ns
FROM graph.host_cause AS cause
INNER JOIN overhead.timeline AS waiting
    ON cause.thread_id = waiting.thread_id AND resume_ns = waiting.end_ns
ASOF INNER JOIN overhead.timeline AS working
    ON cause_thread_id = working.thread_id AND cause_ns <= working.end_ns
WHERE cause IN ('join', 'fork')
""",
    "returns": """
SELECT
    span.thread_id, position, awaited.gpu_op_id,
    CASE
        WHEN awaited.gpu_op_id = cause_gpu_op_id THEN resume_ns - gpu_op_end_ns
        ELSE least(resume_ns - gpu_op_end_ns, 0)
    END
FROM graph.host_cause AS cause
INNER JOIN overhead.timeline AS span
    ON cause.thread_id = span.thread_id AND resume_ns = span.end_ns
INNER JOIN graph.host_awaited AS awaited ON cause.call_id = awaited.call_id
WHERE cause = 'return'
""",
    "gpu": f"""
WITH {_MEETING}
SELECT
    work.trace_id, work.gpu_op_id, lane,
    work.end_ns - greatest(work.start_ns, last_arrival_ns),
    placement.launch_thread_id, launch_position,
    least(
        CASE WHEN cause <> 'launch' THEN after_launch_ns ELSE work.start_ns END,
        work.start_ns
    ) - span.start_ns,
    least(
        CASE WHEN cause <> 'stream' THEN after_stream_ns ELSE work.start_ns END,
        work.start_ns
    ) - previous_end_ns,
    placement.start_ns, last_node_id, is_eager
FROM graph.stream_position AS work
INNER JOIN graph.gpu_cause AS cause USING (gpu_op_id)
INNER JOIN graph.typical_start USING (gpu_op_id)
INNER JOIN simulation.gpu_placement AS placement ON work.gpu_op_id = placement.gpu_op_id
LEFT JOIN overhead.timeline AS span
    ON
        placement.launch_thread_id = span.thread_id
        AND placement.launch_position = span.position
LEFT JOIN meeting ON work.gpu_op_id = node_id
WHERE work.trace_id IN (SELECT trace_id FROM export_trace)
ORDER BY work.trace_id, lane, placement.position
""",
    "stream_waits": """
SELECT
    work.gpu_op_id, awaited.awaited_gpu_op_id,
    CASE
        WHEN cause_gpu_op_id = awaited.awaited_gpu_op_id
            THEN work.start_ns - before.end_ns
        ELSE least(work.start_ns - before.end_ns, 0)
    END
FROM graph.gpu_awaited AS awaited
INNER JOIN graph.stream_position AS work USING (gpu_op_id)
INNER JOIN graph.stream_position AS before
    ON awaited.awaited_gpu_op_id = before.gpu_op_id
INNER JOIN graph.gpu_cause AS cause ON work.gpu_op_id = cause.gpu_op_id
""",
    "arrivals": f"""
WITH {_MEETING}
SELECT op_id, trace_id, thread_id, arrival_position, true, last_node_id
FROM prediction.rank_meeting
INNER JOIN meeting ON op_id = node_id
""",
    "meetings": f"""
WITH {_MEETING}
SELECT rank.op_id, rank.thread_id, rank.position, end_ns - last_arrival_ns
FROM prediction.rank_meeting AS rank
INNER JOIN meeting ON rank.op_id = node_id
INNER JOIN overhead.timeline AS span USING (thread_id, position)
WHERE type = 'wait_rank'
""",
}
_SIMULATED = {
    "spans": """
SELECT
    host.trace_id, host.thread_id, host.position, before_ns + predicted_ns, waits,
    coalesce(type, 'wait_data'), coalesce(call_id, op_id)
FROM simulation.host_offset AS host
LEFT JOIN overhead.timeline USING (thread_id, position)
WHERE
    variant_id = $variant
    AND host.trace_id IN (SELECT trace_id FROM export_trace)
ORDER BY host.thread_id, host.position
""",
    "threads": """
SELECT thread_id, position, awaited_thread_id, awaited_position, delay_ns
FROM prediction.awaited_thread
WHERE variant_id = $variant
""",
    "returns": """
SELECT thread_id, position, gpu_op_id, delay_ns
FROM simulation.awaited_work AS awaited
INNER JOIN simulation.host_offset AS host
    ON
        awaited.variant_id = host.variant_id
        AND target_lane = thread_id
        AND target_segment = segment + 1
WHERE awaited.variant_id = $variant AND kind = 'return' AND waits
""",
    "gpu": """
SELECT
    work.trace_id, work.gpu_op_id, work.lane, gpu.predicted_ns, host.thread_id,
    host.position, before_ns - coalesce(launch_back_ns, 0) + launch_delay_ns,
    work.stream_delay_ns, coalesce(edited.start_ns, placement.start_ns), last_node_id,
    is_eager
FROM simulation.gpu_offset AS work
INNER JOIN prediction.gpu_time AS gpu USING (variant_id, gpu_op_id)
LEFT JOIN simulation.gpu_placement AS placement ON work.gpu_op_id = placement.gpu_op_id
LEFT JOIN simulation.edited_placement AS edited
    ON work.variant_id = edited.variant_id AND work.gpu_op_id = edited.gpu_op_id
LEFT JOIN simulation.host_offset AS host
    ON
        work.variant_id = host.variant_id
        AND coalesce(edited.launch_thread_id, placement.launch_thread_id)
        = host.thread_id
        AND coalesce(edited.launch_position, placement.launch_position) = host.position
LEFT JOIN graph.collective ON work.gpu_op_id = node_id
WHERE
    variant_id = $variant
    AND work.trace_id IN (SELECT trace_id FROM export_trace)
ORDER BY
    work.trace_id, work.lane, coalesce(edited.position, placement.position),
    work.gpu_op_id
""",
    "stream_waits": """
SELECT work.gpu_op_id, awaited.gpu_op_id, delay_ns
FROM simulation.awaited_work AS awaited
INNER JOIN simulation.gpu_offset AS work
    ON
        awaited.variant_id = work.variant_id
        AND target_lane = lane
        AND target_segment = segment
WHERE awaited.variant_id = $variant AND kind = 'stream_wait' AND is_first
""",
    "arrivals": """
SELECT op_id, trace_id, thread_id, position, is_woken, last_op_id
FROM simulation.rank_arrival
WHERE variant_id = $variant
""",
    "meetings": """
SELECT op_id, thread_id, position, 0
FROM simulation.meeting_wait
WHERE variant_id = $variant
""",
}
_STEPS = """
SELECT
    period.trace_id, period.step_id, mark.step, mark.thread_id, first_position,
    last_position,
    list(DISTINCT gpu_op_id) FILTER (gpu_op_id IS NOT NULL)
FROM critical_path.step_period AS period
INNER JOIN simulation.step_span AS span USING (step_id)
LEFT JOIN (
    SELECT step_id, gpu_op_id FROM staging.step_work
    UNION ALL
    SELECT step_id, inserted.gpu_op_id
    FROM prediction.inserted_work AS inserted
    INNER JOIN staging.step_work AS work ON beside_gpu_op_id = work.gpu_op_id
    WHERE variant_id = $variant
) AS work USING (step_id)
INNER JOIN staging.step AS mark USING (step_id)
WHERE
    variant_id = $variant
    AND period.trace_id IN (SELECT trace_id FROM export_trace)
GROUP BY ALL
ORDER BY mark.thread_id, any_value(mark.start_ns), period.step_id
"""


class About(NamedTuple):
    """The lane, type and node (if any) of a piece of work."""

    lane: tuple[str, int]
    kind: str
    node_id: int | None


class RunGraph:
    """The work of a run, read from the relations; `export_trace` has its traces."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, variant: int) -> None:
        """Read the measured graph (variant 0), or that of a simulated variant."""
        self._connection = connection
        self._variant = variant
        self._queries = _SIMULATED if variant else _MEASURED
        self.origins = {
            trace: Work(trace, 0, at_ns=base) for trace, base in self._rows(_ORIGINS)
        }
        self._spans: dict[Span, Work] = {}
        self._points: dict[Span, Work] = {}
        self._gpu: dict[int, Work] = {}
        self._marks: list[Work] = []
        self._arrivals: dict[int, Work] = {}
        self._read_spans()
        self._read_gpu()
        self._read_waits()
        self._read_meetings()
        self._read_steps()

    @property
    def works(self) -> list[Work]:
        """All work, with the ends of waits, and begins and ends of steps."""
        return [
            *self.origins.values(),
            *self._spans.values(),
            *self._points.values(),
            *self._gpu.values(),
            *self._arrivals.values(),
            *self._marks,
        ]

    def _rows(self, query: str) -> Iterator[Row]:
        values = {"variant": self._variant} if "$variant" in query else {}
        yield from self._connection.execute(query, values).fetchall()

    def _read_spans(self) -> None:
        """Spans follow each other; where a thread waits, a point follows the span."""
        last: dict[int, Work] = {}
        for row in self._rows(self._queries["spans"]):
            trace, thread, position, lasts, waits, kind, node = row
            before = last.get(thread, self.origins[trace])
            about = About(("thread", thread), kind, node)
            span = Work(trace, lasts, [before.end], about=about)
            self._spans[thread, position] = last[thread] = span
            if waits:
                point = Work(trace, 0, [span.end], about=about)
                self._points[thread, position] = last[thread] = point

    def _after(self, thread: int, position: int) -> Work:
        """The work whose end lets a thread continue after a span."""
        span = thread, position
        return self._points.get(span) or self._spans[span]

    def _read_gpu(self) -> None:
        """GPU work; a send that does not wait arrives at its meeting beside it."""
        last: dict[tuple[int, int], Work] = {}
        for row in self._rows(self._queries["gpu"]):
            trace, work_id, lane, lasts, *launch, gap, start, meeting, is_eager = row
            thread, position, later = launch
            after = [(self.origins[trace], start)]
            if thread is not None:
                after = [(self._spans[thread, position], later)]
            before = last.get((trace, lane))
            if before is not None and gap is not None:
                after.append((before, before.lasts_ns + gap))
            about = About(("stream", lane), "sent" if is_eager else "gpu", work_id)
            key = None if meeting is None else ("gpu", meeting)
            own_key = None if is_eager else key
            work = Work(trace, lasts, after, own_key, is_kept=True, about=about)
            self._gpu[work_id] = last[trace, lane] = work
            if is_eager:
                about = about._replace(kind="meeting")
                self._arrivals[work_id] = Work(
                    trace, 0, [(work, 0)], key, is_kept=True, about=about
                )

    def _read_waits(self) -> None:
        """The other dependencies of waiting threads and of GPU work."""
        for thread, position, other, place, delay in self._rows(
            self._queries["threads"]
        ):
            if (thread, position) in self._points and (other, place) in self._spans:
                source = self._after(other, place)
                self._points[thread, position].after.append(
                    (source, source.lasts_ns + delay)
                )
        for thread, position, awaited, delay in self._rows(self._queries["returns"]):
            if (thread, position) in self._points and awaited in self._gpu:
                source = self._gpu[awaited]
                self._points[thread, position].after.append(
                    (source, source.lasts_ns + delay)
                )
        for waiting, awaited, delay in self._rows(self._queries["stream_waits"]):
            if waiting in self._gpu and awaited in self._gpu:
                source = self._gpu[awaited]
                self._gpu[waiting].after.append((source, source.lasts_ns + delay))

    def _read_meetings(self) -> None:
        """Collectives on the CPU: each rank arrives, and continues when all have."""
        for op, trace, thread, position, is_woken, last in self._rows(
            self._queries["arrivals"]
        ):
            if (thread, position) in self._spans:
                source = self._spans[thread, position]
                before = self._after(thread, position) if is_woken else source
                about = About(("thread", thread), "meeting", op)
                self._arrivals[op] = Work(
                    trace, 0, [before.end], ("op", last), is_kept=True, about=about
                )
        for op, thread, position, delay in self._rows(self._queries["meetings"]):
            if op in self._arrivals and (thread, position) in self._points:
                self._points[thread, position].after.append((self._arrivals[op], delay))

    def _read_steps(self) -> None:
        """A step begins when the previous one is over, the first with its mark."""
        last: dict[int, Work] = {}
        for trace, step_id, step, thread, first, until, gpu in self._rows(_STEPS):
            marked = self._spans[thread, first]
            begin = self._mark(trace, thread, f"step {step} begins", step_id)
            begin.after = [last[thread].end] if thread in last else marked.after[:]
            end = self._mark(trace, thread, f"step {step} ends", step_id)
            ends = [self._gpu[one] for one in gpu or () if one in self._gpu]
            end.after = [begin.end, self._after(thread, until).end]
            end.after += [work.end for work in ends]
            last[thread] = end

    def _mark(self, trace: int, thread: int, name: str, step_id: int) -> Work:
        about = About(("mark", thread), name, step_id)
        self._marks.append(Work(trace, 0, is_kept=True, about=about))
        return self._marks[-1]
