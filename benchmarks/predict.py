"""Measure the simulation of a job beside other ways to evaluate the same graph.

    python benchmarks/predict.py --write docs/benchmarks.md

Generated jobs of one host thread and four streams (`waiting_job.py`), of up to a
million nodes and 100,000 waits. All ways read what the simulation reads, and have to
come to the same end, to the nanosecond.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from critical_path import generated
from measure import (
    Clock,
    Outcome,
    Task,
    add_bounds,
    bounds,
    ingest_until,
    measure,
    medians,
    tell,
    work_if_asked,
)
from pages import (
    filled,
    goal,
    goal_table,
    machine,
    middle_of,
    parser,
    publish_section,
    ratio,
    table,
    written_by,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    import duckdb
    import numpy as np
    from numpy.typing import NDArray

    from tracedb import Edit

    Numbers = NDArray[np.int64]
    Awaited = list[tuple[int, int]]
    """GPU work, by number, and the delay after it."""
    Launch = tuple[int, int, int, int, Awaited]
    """A launch: stream, duration, delays after launch and stream, awaited work."""

SIZES = (
    (10_000, 10),
    (10_000, 1_000),
    (100_000, 10),
    (100_000, 1_000),
    (100_000, 10_000),
    (1_000_000, 10),
    (1_000_000, 1_000),
    (1_000_000, 100_000),
)
QUICK = ((10_000, 10), (10_000, 1_000))
HISTORY = 8
"""Previous ends per stream that the naive query keeps."""
MANY = 100
"""Scenarios evaluated together, for jobs of `MANY_EVENTS`."""
MANY_EVENTS = 10_000
PLACES = ("simulation.gpu_placement",)
"""Computed once per trace for all scenarios: where work is launched."""
DURATIONS = ("prediction.host_time", "prediction.gpu_time")
RELATIONS = (
    "simulation.host_offset",
    "simulation.gpu_offset",
    "simulation.segment_edge",
    "simulation.segment_time",
)

SLOWER = 0.001
"""Relative slowdown of the host from each scenario to the next."""
ENDS = """
SELECT sum(end_ns)::BIGINT
FROM (
    SELECT variant_id, max(end_ns) AS end_ns
    FROM (
        SELECT variant_id, end_ns FROM simulation.host_span_time
        UNION ALL
        SELECT variant_id, end_ns FROM simulation.gpu_work_time
    )
    GROUP BY variant_id
)
"""
# The minimum that an answer per node takes in SQL: nodes sorted by lane, a running sum,
# and a stored result.
FLOOR = """
CREATE TABLE node AS
SELECT
    *,
    sum(predicted_ns) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS sum_ns
FROM (
    SELECT variant_id, thread_id AS lane, position, predicted_ns
    FROM prediction.host_time
    UNION ALL
    SELECT variant_id, lane, position, predicted_ns
    FROM prediction.gpu_time
    INNER JOIN simulation.gpu_placement USING (gpu_op_id)
    ORDER BY variant_id, lane, position
)
"""
SPANS = """
SELECT
    row_number() OVER (ORDER BY position) - 1 AS span,
    predicted_ns,
    (position IN (SELECT position FROM prediction.edited_span))::BIGINT AS is_overhead,
    (awaited_gpu_op_id IS NOT NULL)::BIGINT AS waits
FROM prediction.host_time AS time
INNER JOIN prediction.variant USING (variant_id)
INNER JOIN overhead.timeline USING (thread_id, position)
WHERE method = 'replay' AND scenario = 'baseline'
ORDER BY position
"""
WORK = """
CREATE TEMP TABLE numbered AS
SELECT
    place.gpu_op_id,
    row_number() OVER (ORDER BY launch_start_ns) - 1 AS number,
    dense_rank() OVER (ORDER BY device, stream) - 1 AS stream,
    timeline.position - 1 AS span
FROM graph.stream_position AS place
ASOF INNER JOIN overhead.timeline
    ON
        place.launch_thread_id = timeline.thread_id
        AND place.launch_start_ns >= timeline.start_ns
"""
# Launches of these jobs submit their work at their end.
LAUNCHED = """
SELECT
    number, span, stream, predicted_ns, launch_delay_ns - submit_ns AS launch_delay_ns,
    stream_delay_ns,
    (awaited_gpu_op_id IS NOT NULL)::BIGINT AS waits
FROM prediction.gpu_time AS time
INNER JOIN prediction.variant USING (variant_id)
INNER JOIN numbered USING (gpu_op_id)
WHERE method = 'replay'
ORDER BY number
"""
# All GPU work that a host span or GPU op waits for, and the delay after it.
RETURNS = """
SELECT time.position - 1 AS waiting, work.number AS awaited, delay_ns
FROM prediction.host_time AS time
INNER JOIN prediction.variant USING (variant_id)
INNER JOIN overhead.timeline USING (thread_id, position)
INNER JOIN (SELECT call_id, gpu_op_id FROM graph.host_awaited) USING (call_id)
INNER JOIN numbered AS work USING (gpu_op_id)
WHERE method = 'replay' AND awaited_gpu_op_id IS NOT NULL
ORDER BY waiting, awaited
"""
STREAM_WAITS = """
SELECT work.number AS waiting, source.number AS awaited, delay_ns + kept_ns AS delay_ns
FROM prediction.gpu_time AS time
INNER JOIN prediction.variant USING (variant_id)
INNER JOIN prediction.gpu_awaited AS edge USING (gpu_op_id)
INNER JOIN numbered AS work USING (gpu_op_id)
INNER JOIN numbered AS source ON edge.awaited_gpu_op_id = source.gpu_op_id
WHERE method = 'replay' AND time.awaited_gpu_op_id IS NOT NULL
ORDER BY waiting, awaited
"""

# One row per host span: the host's time, and the last ends of each stream, latest
# first. What is awaited is one of these, found by counting the launches after it.
NAIVE_INPUT = """
CREATE TEMP TABLE node AS
SELECT
    span.span,
    scenario,
    round(
        span.predicted_ns * (1 + $slower * is_overhead * scenario)
    )::BIGINT AS predicted_ns,
    coalesce(returns.awaited, []) AS awaited,
    work.stream + 1 AS stream,
    work.predicted_ns AS work_ns,
    work.launch_delay_ns,
    work.stream_delay_ns,
    coalesce(waits.awaited, []) AS work_awaited
FROM spans AS span
CROSS JOIN range($count) AS known (scenario)
LEFT JOIN launched AS work ON span.span = work.span
LEFT JOIN (
    SELECT
        waiting,
        list({
            'stream': source.stream + 1, 'place': later + 1, 'delay_ns': delay_ns
        }) AS awaited
    FROM host_edges
    INNER JOIN launched AS source ON awaited = source.number
    GROUP BY waiting
) AS returns ON span.span = returns.waiting
LEFT JOIN (
    SELECT
        waiting,
        list({
            'stream': source.stream + 1, 'place': later + 1, 'delay_ns': delay_ns
        }) AS awaited
    FROM gpu_edges
    INNER JOIN launched AS source ON awaited = source.number
    GROUP BY waiting
) AS waits ON work.number = waits.waiting
"""
NAIVE = """
WITH RECURSIVE walk AS (
    SELECT
        number AS scenario,
        0::BIGINT AS span,
        0::BIGINT AS host_ns,
        [[], [], [], []]::BIGINT[][] AS ends_ns
    FROM range($count) AS scenario (number)
    UNION ALL
    SELECT
        scenario,
        span + 1,
        greatest(
            host_ns + predicted_ns,
            list_max(list_transform(
                awaited,
                lambda edge: ends_ns[edge.stream][edge.place] + edge.delay_ns
            ))
        ),
        CASE
            WHEN stream IS NULL THEN ends_ns
            ELSE list_transform(
                ends_ns,
                lambda ns, number: CASE
                    WHEN number = stream
                        THEN [
                            work_ns + greatest(
                                host_ns + predicted_ns + launch_delay_ns,
                                ns[1] + stream_delay_ns,
                                list_max(list_transform(
                                    work_awaited,
                                    lambda edge: ends_ns[edge.stream][edge.place]
                                    + edge.delay_ns
                                ))
                            )
                        ] || ns[1:7]
                    ELSE ns
                END
            )
        END
    FROM walk
    INNER JOIN node USING (scenario, span)
)

SELECT sum(end_ns)::BIGINT
FROM (
    SELECT max(greatest(host_ns, list_max(flatten(ends_ns)))) AS end_ns
    FROM walk
    GROUP BY scenario
)
"""


# The measured work, each in a process of its own.


@dataclass(frozen=True)
class Job(Task):
    """A trace, the number of evaluations, and files passed between processes."""

    scenarios: int
    folder: Path

    @property
    def database(self) -> Path:
        """The job's database, with all that the simulation reads."""
        return self.folder / "job.duckdb"

    @property
    def arrays(self) -> Path:
        """The same as arrays."""
        return self.folder / "job.npz"


def ingest(task: Job) -> Iterator[Outcome]:
    """Create the input of all others."""
    import numpy as np

    import tracedb
    from tracedb import catalog
    from tracedb.whatif.simulation import beside

    clock = Clock()
    with clock, tracedb.open(task.database) as database:
        connection = database.connection
        ingest_until("prediction", connection, task.path)
        for _ in catalog.compute(connection, [1], PLACES):
            pass
        connection.execute(WORK)
        launched = connection.sql(LAUNCHED).fetchnumpy()
        # Host spans that an edit of the host changes; idle time is not among them.
        with beside(connection, ["replay"], edits(replace(task, scenarios=2))) as given:
            edited, _ = given
            for _ in catalog.compute(edited, [1], DURATIONS):
                pass
            spans = edited.sql(SPANS).fetchnumpy()
        returns = connection.sql(RETURNS).fetchnumpy()
        stream_waits = connection.sql(STREAM_WAITS).fetchnumpy()
    parts = {"span": spans, "work": launched, "return": returns, "wait": stream_waits}
    found = {
        f"{part}_{name}": values
        for part, columns in parts.items()
        for name, values in columns.items()
    }
    np.savez(
        task.arrays, **{name: values.astype("i8") for name, values in found.items()}
    )
    yield Outcome.of(clock, len(spans["span"]) + len(launched["number"]))


def query(task: Job) -> Iterator[Outcome]:
    """The simulation: its relations, and the ends of all nodes."""
    from tracedb import catalog
    from tracedb.duck import scalar

    with timed(task) as connection:
        clock = Clock()
        with clock:
            for _ in catalog.compute(connection, [1], RELATIONS):
                pass
            end = scalar(connection, ENDS)
    yield Outcome.of(clock, end)


def floor(task: Job) -> Iterator[Outcome]:
    """One sort of the nodes, one sum, and one table."""
    from tracedb.duck import one_thread

    with timed(task) as connection:
        clock = Clock()
        with clock, one_thread(connection):
            connection.execute(FLOOR)
    yield Outcome.of(clock)


@contextmanager
def timed(task: Job) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the durations of all nodes in each scenario."""
    import tracedb
    from tracedb import catalog
    from tracedb.whatif.simulation import beside

    with (
        tracedb.open(task.database) as database,
        beside(database.connection, ["replay"], edits(task)) as (connection, _),
    ):
        for _ in catalog.compute(connection, [1], DURATIONS):
            pass
        yield connection


def edits(task: Job) -> list[Edit]:
    """The scenarios after the baseline."""
    from tracedb import Edit

    return [
        Edit(scenario=f"{number}", target="host", factor=1 + SLOWER * number)
        for number in range(1, task.scenarios)
    ]


def naive(task: Job) -> Iterator[Outcome]:
    """A recursive query that goes row by row."""
    import duckdb
    import pyarrow as pa

    from tracedb.duck import scalar

    arrays = _arrays(task) | later(_arrays(task))
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    for name, prefix in (
        ("spans", "span_"),
        ("launched", "work_"),
        ("host_edges", "return_"),
        ("gpu_edges", "wait_"),
    ):
        columns = {
            column.removeprefix(prefix): values
            for column, values in arrays.items()
            if column.startswith(prefix)
        }
        connection.register(name, pa.table(columns))
    given = {"count": task.scenarios, "slower": SLOWER}
    connection.execute(NAIVE_INPUT, given)
    clock = Clock()
    with clock:
        end = scalar(connection, NAIVE, {"count": task.scenarios})
    yield Outcome.of(clock, end)


def later(arrays: dict[str, Numbers]) -> dict[str, Numbers]:
    """How many launches on the stream lie between the awaited work and the wait."""
    import numpy as np

    streams, spans = arrays["work_stream"], arrays["work_span"]
    launched = [
        np.flatnonzero(streams == stream) for stream in range(streams.max() + 1)
    ]

    def count(awaited: Numbers, before: Numbers) -> Numbers:
        found = np.zeros(len(awaited), dtype="i8")
        for at in range(len(awaited)):
            same = launched[streams[awaited[at]]]
            ends = np.searchsorted(same, [awaited[at], before[at]], side="left")
            found[at] = ends[1] - ends[0] - 1
        if found.max(initial=0) >= HISTORY:
            raise ValueError("what is awaited lies too far back for the naive query")
        return found

    of_spans = np.searchsorted(spans, np.arange(len(arrays["span_span"])))
    return {
        "return_later": count(
            arrays["return_awaited"], of_spans[arrays["return_waiting"]]
        ),
        "wait_later": count(arrays["wait_awaited"], arrays["wait_waiting"]),
    }


def host_times(arrays: dict[str, Numbers], count: int) -> list[Numbers]:
    """The duration of each host span in each scenario."""
    import numpy as np

    usual, is_overhead = arrays["span_predicted_ns"], arrays["span_is_overhead"]
    return [
        np.floor(usual * (1 + SLOWER * is_overhead * number) + 0.5).astype("i8")
        for number in range(count)
    ]


def loop(task: Job) -> Iterator[Outcome]:
    """A loop over all nodes, in plain Python."""
    arrays = _arrays(task)
    awaited = awaits_of(arrays, "return", len(arrays["span_span"]))
    waits = awaits_of(arrays, "wait", len(arrays["work_number"]))
    scenarios = [times.tolist() for times in host_times(arrays, task.scenarios)]
    work: list[list[Launch]] = [[] for _ in awaited]
    names = ("span", "stream", "predicted_ns", "launch_delay_ns", "stream_delay_ns")
    columns = [arrays[f"work_{name}"].tolist() for name in names]
    for span, *launched in zip(*columns, waits, strict=True):
        work[span].append(tuple(launched))
    clock = Clock()
    with clock:
        end = sum(walk(times, awaited, work) for times in scenarios)
    yield Outcome.of(clock, end)


def awaits_of(arrays: dict[str, Numbers], part: str, count: int) -> list[Awaited]:
    """What each of `count` nodes waits for, and the delays after it."""
    found: list[Awaited] = [[] for _ in range(count)]
    names = ("waiting", "awaited", "delay_ns")
    columns = [arrays[f"{part}_{name}"].tolist() for name in names]
    for waiting, *edge in zip(*columns, strict=True):
        found[waiting].append((edge[0], edge[1]))
    return found


def walk(times: list[int], awaited: list[Awaited], work: list[list[Launch]]) -> int:
    """When the job ends, node by node.

    >>> launch = [(0, 50, 5, 1, [])]
    >>> walk([10, 20, 3], [[], [], [(0, 2)]], [[], launch, []])
    87
    """
    host, free = 0, [-(10**9)] * 64
    ends: list[int] = []
    for time, awaits, launched in zip(times, awaited, work, strict=True):
        for stream, lasting, late, gap, waits in launched:
            start = max(host + time + late, free[stream] + gap)
            for after, wait in waits:
                start = max(start, ends[after] + wait)
            free[stream] = start + lasting
            ends.append(start + lasting)
        host += time
        for after, delay in awaits:
            host = max(host, ends[after] + delay)
    return max(host, *ends)


def vectorised(task: Job) -> Iterator[Outcome]:
    """The simulation's relations as arrays, and a loop over segments."""
    arrays = _arrays(task)
    scenarios = host_times(arrays, task.scenarios)
    job = structure(arrays)
    clock = Clock()
    with clock:
        end = sum(segmented(job, times) for times in scenarios)
    yield Outcome.of(clock, end)


class Structure(NamedTuple):
    """A job divided into segments, independent of times; GPU work by stream."""

    waits: Numbers
    """Host spans that wait."""
    begins: Numbers
    """The first span of each host segment."""
    launching: Numbers
    """The span in which each GPU op is launched."""
    launching_begins: Numbers
    """The first span of that span's segment."""
    number: Numbers
    """The segment of each GPU op."""
    first: Numbers
    """The first GPU op of each segment."""
    times: Numbers
    """The duration of each GPU op."""
    steps: Numbers
    """The same plus the delay after the previous GPU op of the segment."""
    delays: Numbers
    """The delay of each GPU op after the end of its launch."""
    needed: Numbers
    """GPU work whose end is needed: the last of each segment, and awaited work."""
    needed_in: list[tuple[int, int]]
    """The stream and host segments that contain these."""
    awaited: list[Awaited]
    """For each host wait: the awaited GPU work, as index into these, and the delays."""
    segments: list[tuple[int, int, int, int, Awaited, int]]
    """Segments in launch order: number, host segment, stream, delay, awaited, last."""


def structure(arrays: dict[str, Numbers]) -> Structure:
    """Find the segments of `simulation.host_offset` and `gpu_offset`."""
    import numpy as np

    waits = np.flatnonzero(arrays["span_waits"])
    begins = np.append(0, waits + 1)
    order = np.lexsort((arrays["work_number"], arrays["work_stream"]))
    place = np.argsort(order)
    work = {name[5:]: v[order] for name, v in arrays.items() if name[:5] == "work_"}
    host = np.searchsorted(waits, work["span"], side="left")
    is_first = work["waits"] > 0
    is_first[0] = True
    is_first[1:] |= (np.diff(host) != 0) | (np.diff(work["stream"]) != 0)
    number, first = np.cumsum(is_first) - 1, np.flatnonzero(is_first)
    last = np.append(first[1:], len(order)) - 1
    by_host, by_work = place[arrays["return_awaited"]], place[arrays["wait_awaited"]]
    needed = np.unique(np.concatenate((last, by_host, by_work)))
    at = np.full(len(order), -1)
    at[needed] = np.arange(len(needed))
    of = arrays | {"return_awaited": at[by_host], "wait_awaited": at[by_work]}
    returns = awaits_of(of, "return", len(arrays["span_span"]))
    stream_waits = awaits_of(of, "wait", len(order))
    launched = np.argsort(work["number"][first], kind="stable")
    head = first[launched]
    columns = (
        column.tolist()
        for column in (
            *(launched, host[head], work["stream"][head]),
            *(work["stream_delay_ns"][head], work["number"][head], at[last[launched]]),
        )
    )
    return Structure(
        waits=waits,
        begins=begins,
        launching=work["span"],
        launching_begins=begins[host],
        number=number,
        first=first,
        times=work["predicted_ns"],
        steps=work["predicted_ns"] + np.where(is_first, 0, work["stream_delay_ns"]),
        delays=work["launch_delay_ns"],
        needed=needed,
        needed_in=[*zip(number[needed].tolist(), host[needed].tolist(), strict=True)],
        awaited=[returns[wait] for wait in waits.tolist()],
        segments=[
            (segment, at_host, stream, gap, stream_waits[work_number], end)
            for segment, at_host, stream, gap, work_number, end in zip(
                *columns, strict=True
            )
        ],
    )


def segmented(job: Structure, times: Numbers) -> int:
    """When the job ends: closed forms within segments, and a loop over segments."""
    import numpy as np

    before = np.append(0, np.cumsum(times))
    lasting = before[job.waits + 1] - before[job.begins[:-1]]
    rest = before[-1] - before[job.begins[-1]]
    ready = before[job.launching + 1] - before[job.launching_begins] + job.delays
    total = np.cumsum(job.steps)
    after_stream = total - (total - job.times)[job.first][job.number]
    free = ready - (after_stream - job.times)
    apart = job.number * (2 * (int(np.abs(free).max()) + 1))
    after_host = after_stream + np.maximum.accumulate(free + apart) - apart
    return _joined(
        job,
        after_stream[job.needed].tolist(),
        after_host[job.needed].tolist(),
        lasting.tolist(),
        int(rest),
    )


def _joined(
    job: Structure,
    after_stream: list[int],
    after_host: list[int],
    lasting: list[int],
    rest: int,
) -> int:
    """Place the segments one after another, in launch order."""
    begins = [0] * len(job.first)
    hosts, free = [0], [-(10**9)] * 64
    end = 0

    def end_of(at: int) -> int:
        segment, host = job.needed_in[at]
        return max(begins[segment] + after_stream[at], hosts[host] + after_host[at])

    def advance(until: int) -> None:
        while len(hosts) <= until:
            resumed = hosts[-1] + lasting[len(hosts) - 1]
            for after, delay in job.awaited[len(hosts) - 1]:
                resumed = max(resumed, end_of(after) + delay)
            hosts.append(resumed)

    for segment, host, stream, gap, awaits, last in job.segments:
        advance(host)
        begin = free[stream] + gap
        for after, wait in awaits:
            begin = max(begin, end_of(after) + wait)
        begins[segment] = begin
        free[stream] = end_of(last)
        end = max(end, free[stream])
    advance(len(job.awaited))
    return max(end, hosts[-1] + rest)


def _arrays(task: Job) -> dict[str, Numbers]:
    import numpy as np

    with np.load(task.arrays) as found:
        return dict(found)


TOOLS: dict[str, Callable[[Job], Iterator[Outcome]]] = {
    "ingest": ingest,
    "query": query,
    "floor": floor,
    "naive": naive,
    "loop": loop,
    "vectorised": vectorised,
}
NAMES = {
    "query": "**tracedb, the query**",
    "floor": "one order, one sum, one table",
    "naive": "recursive query, one row a step",
    "loop": "Python, a loop over nodes",
    "vectorised": "NumPy, and a loop over segments",
}


# All measurements, and the page.


class Results(NamedTuple):
    """Results for a job, by tool."""

    title: str
    nodes: int
    found: dict[str, Outcome]

    def ratio(self, tool: str, other: str) -> float:
        """The ratio of two tools' CPU times."""
        return self.found[tool].cpu_s / self.found[other].cpu_s


def measured(events: int, waits: int, count: int, given: argparse.Namespace) -> Results:
    """Run all tools on a job, and compare their results."""
    trace = generated(events, waits)
    title = f"{events:,} events, {waits:,} waits"
    title += f", {count} scenarios" if count > 1 else ""
    limits = bounds(given)
    runs: dict[str, list[Outcome]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        task = Job(trace, limits.memory_bytes, count, Path(folder))
        for tool in TOOLS:
            is_long = tool == "ingest" or (tool == "naive" and events * count > 10**5)
            for _ in range(1 if is_long or given.quick else given.runs):
                [outcome] = measure(__file__, tool, task, limits.timeout_s)
                if outcome.failure:
                    raise RuntimeError(f"{title}, {tool}: {outcome.failure}")
                tell(f"{title}, {tool}: {outcome.cpu_s:.3f} s of CPU")
                runs[tool].append(outcome)
    found = {tool: medians(same) for tool, same in runs.items()}
    nodes = found.pop("ingest").result
    ends = {tool: outcome.result for tool, outcome in found.items() if tool != "floor"}
    if len(set(ends.values())) != 1:
        raise ValueError(f"{title}: ends differ: {ends}")
    return Results(title, nodes, found)


PAGE = """\
## Simulation

Cost of simulating a job, in several ways. {written_by}

{about}

- the query: `simulation.host_offset`, `gpu_offset`, `segment_edge` and `segment_time`
  are computed in memory, and the ends of all nodes read. All ways get from the ingest
  which span of host time launches what (`gpu_placement`).
- one order, one sum, one table: the same rows in the order of their lanes, a window
  that sums their durations, and the result stored. No query with a row per node can
  take much less.
- recursive query, one row per step: the time of the host and of each stream goes from
  row to row of one recursive query.
- a loop over nodes: plain Python over lists.
- NumPy: the query's offsets as arrays, and a Python loop over segments, which were
  found before, like the lists of the loop.

All but that sum reach the same end, to the nanosecond, or the program fails. A node is
a span of host time, or GPU work. The queries evaluate all scenarios at once, the other
ways one after another.
"""
ABOUT = (
    "The machine has {machine}. Each figure is {middle} (of the longest one run), "
    "each in a separate process; inputs are in memory beforehand. The machine was "
    "shared: compare CPU seconds (user and system)."
)


def section(jobs: list[Results], given: argparse.Namespace) -> str:
    """All jobs, and what was aimed at."""
    runs = 1 if given.quick else given.runs
    about = filled(ABOUT, machine=machine(None), middle=middle_of(runs))
    head = ["job", "way", "CPU s", "wall s", "peak MB", "÷ the query"]
    cells = (
        [
            job.title if tool == "query" else "",
            NAMES[tool],
            f"{outcome.cpu_s:.3f}",
            f"{outcome.wall_s:.3f}",
            f"{outcome.peak_bytes / 10**6:,.0f}",
            ratio(outcome.cpu_s, job.found["query"].cpu_s),
        ]
        for job in jobs
        for tool, outcome in job.found.items()
    )
    rows = [row for job in jobs for row in goals(job)]
    parts = [
        PAGE.format(written_by=written_by(), about=about),
        "\n".join([*table(head, cells, left=2), ""]),
        goal_table(rows).replace("### Goals", "### Goals of the simulation"),
    ]
    return "\n".join(parts)


def goals(job: Results) -> Iterator[list[str]]:
    """The goals for a job."""
    loop_share = job.ratio("query", "loop")
    text = "the query: CPU s over those of the loop"
    yield [job.title, *goal(text, loop_share, 4)]
    text = "NumPy: CPU s over those of the loop"
    yield [job.title, *goal(text, job.ratio("vectorised", "loop"), 1 / 5)]
    if job.nodes > 10**5 * 5:
        text = "the query: CPU s over those of the recursive query"
        yield [job.title, *goal(text, job.ratio("query", "naive"), 1 / 60)]


def arguments() -> argparse.Namespace:
    """What is asked for."""
    asked = parser(__doc__)
    say = asked.add_argument
    say("--quick", action="store_true", help="small jobs, one run each")
    say("--runs", type=int, default=3, help="how often each tool works")
    add_bounds(asked)
    return asked.parse_args()


def main() -> None:
    """Measure and write the section, or work as a child process."""
    work_if_asked(Job, TOOLS)
    given = arguments()
    sizes = [(*size, 1) for size in (QUICK if given.quick else SIZES)]
    sizes.append((MANY_EVENTS, 1_000, 3 if given.quick else MANY))
    jobs: list[Results] = []
    for events, waits, count in sizes:
        jobs.append(measured(events, waits, count, given))
        if given.write:
            publish_section(section(jobs, given), given.write)
    publish_section(section(jobs, given), given.write)


if __name__ == "__main__":
    main()
