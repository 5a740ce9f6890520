"""The sections of a report: charts and tables, each with its query.

Users can run the queries themselves (`tracedb sql`); they select the run from public
relations. The page shows each query next to its rows.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import duckdb

from tracedb import catalog
from tracedb import part as parts
from tracedb.duck import frame, registered, scalar
from tracedb.emptiness import reading_instead
from tracedb.report import places
from tracedb.summary import OF_ALL_RANKS
from tracedb.words import cut_distinct, path_end, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl

    from tracedb.part import Part

    Shown = dict[str, Any]
    """A section as data for the page."""

MOST_ROWS = 500
_MOST_DRAWN = 10_000
"""Most rows of a section whose picture needs all of them."""
_DRAWN_WHOLE = frozenset(
    {"bars", "heat", "icicle", "memory", "periods", "phases", "stack"}
)
"""Pictures that would leave out ranks, steps or modules if rows were missing."""
_KNOWN = "known_answer_"
"""Prefix of the names of known answers."""
_NOTHING: Mapping[str, str] = MappingProxyType({})
_TIMES, _BANDS = "critical_path.step_time", "question.prediction_band"
_GPU_WORK = (
    "SELECT 1 FROM staging.gpu_op "
    "SEMI JOIN (FROM staging.trace WHERE run_id = ?) USING (trace_id) LIMIT 1"
)
_IN_A_TABLE = 48
"""Longest name in a table, in characters."""
_SHORTENED = {"module": (36, path_end)}
"""For columns of which the end matters: shorter, so that cells do not cut it."""


@dataclass(frozen=True)
class Section:
    """A section: its texts, its query, and its chart."""

    name: str
    title: str
    words: str
    query: str
    picture: str = "none"
    """The chart above the table (`charts.js`)."""
    empty: str = "This run has nothing of this kind."
    """The text if there are no rows."""
    follows: bool = False
    """Whether it is left out without rows, because the previous section explains it."""
    of_gpu: bool = False
    """Whether it is left out if the run has no GPU work and it has no rows."""


SECTIONS = (
    Section(
        "levers",
        "What takes the time",
        "The critical paths of all steps by what could be done about them, with the "
        "largest place of each.",
        """
SELECT lever, time_ns, time_share, mean_ns, busy_ns AS gpu_busy_meanwhile_ns, place,
    place_ns AS at_place_ns, rank, step, op, module, frame
FROM question.lever
WHERE run_id = $run
ORDER BY time_ns DESC, lever""",
    ),
    Section(
        "trust",
        "How far to trust this",
        "What may be missing from the recording, what ingest repaired, and what was "
        "inferred rather than recorded.",
        """
SELECT * EXCLUDE (run_id)
FROM question.trust
WHERE run_id = $run
ORDER BY aspect""",
    ),
    Section(
        "files",
        "Files",
        "The traces of the run: one file per rank.",
        """
SELECT
    rank, trace.trace_id, trace.path, gpu, trace.event_count, count(step_id) AS steps,
    backend, world_size
FROM staging.trace AS trace
LEFT JOIN staging.trace_gpu USING (trace_id)
LEFT JOIN staging.step AS step ON trace.trace_id = step.trace_id
WHERE trace.run_id = $run AND format <> 'et'
GROUP BY ALL
ORDER BY rank, trace.trace_id""",
    ),
    Section(
        "periods",
        "Steps",
        "The period of a step: from when the host and the GPU have finished the "
        "previous step to when both have finished this one.",
        """
SELECT
    rank, step, period.end_ns - period.start_ns AS period_ns,
    host_end_ns - host_start_ns AS host_ns, period.trace_id
FROM critical_path.step_period AS period
INNER JOIN staging.step USING (step_id)
INNER JOIN staging.trace AS trace ON period.trace_id = trace.trace_id
WHERE variant_id = 0 AND period.run_id = $run
ORDER BY rank, period.trace_id, period.start_ns""",
        picture="periods",
        empty="The trace has no steps: `tracedb ingest --step-mark` defines what marks "
        "them, and `--one-step` takes the whole trace as one.",
    ),
    Section(
        "bounds",
        "What bounds each step",
        "The critical path of each step (of the trace, if it has no steps) by kind of "
        "time: what must become shorter for the step to become shorter.",
        """
SELECT rank, step, kind, interval_count, time_ns, time_share, trace_id
FROM question.critical_path
WHERE
    method = 'measured' AND critical_path.bounds_period(scope, trace_id)
    AND trace_id IN (SELECT trace_id FROM staging.trace WHERE run_id = $run)
ORDER BY rank, trace_id, step, time_ns DESC""",
        picture="stack",
    ),
    Section(
        "phases",
        "Phases of the steps",
        "How much of each step (of the trace, if it has no steps) is forward, "
        "backward, optimizer and data loading: on the host thread of the steps, of the "
        "GPU work that they launch, and on the critical path.",
        """
SELECT
    rank, step, phase, host_ns, host_share, gpu_ns, path_ns, path_share, trace_id
FROM question.phase_by_step
WHERE run_id = $run
ORDER BY
    rank, trace_id, step_id,
    graph.ordinal_of_phase(phase)""",
        picture="phases",
        empty="Phases follow from ops, and none were recorded.",
    ),
    Section(
        "path",
        "On the critical path",
        "What is on the critical paths of all steps (of the trace, if it has no "
        "steps), and where.",
        """
SELECT
    rank, kind, sum(time_ns)::BIGINT AS time_ns,
    sum(time_ns) / sum(sum(time_ns)) OVER (PARTITION BY rank) AS time_share,
    count(*) AS intervals, name, op, module, frame
FROM question.path_interval
INNER JOIN (SELECT trace_id, run_id FROM staging.trace) USING (trace_id)
WHERE
    method = 'measured' AND run_id = $run
    AND critical_path.bounds_period(scope, trace_id)
GROUP BY rank, kind, name, op, module, frame
ORDER BY time_ns DESC, rank, kind, name, op, module, frame""",
    ),
    Section(
        "idle",
        "Why the GPU is idle",
        "Idle time of each device, by what kept its next work from starting earlier: "
        "from the start of the first step to the end of the last, or in the whole "
        "trace if it has no steps.",
        """
SELECT rank, device, kind, time_ns AS idle_ns, time_share AS idle_share, trace_id
FROM question.device_time
WHERE run_id = $run AND NOT is_busy
ORDER BY rank, trace_id, device, idle_ns DESC, kind""",
        picture="bars",
        empty="No device ran work in this run, or none was idle.",
        of_gpu=True,
    ),
    Section(
        "overheads",
        "Where the host time goes",
        "Host time of the steps (of the main thread, if a trace has no steps). T1: "
        "gaps between ops. T2: start of an op to its first launch. "
        "T3: its last launch to its end. T4: launch calls. T5: between "
        "launches, and ops without launches. Waits by what is waited for.",
        """
WITH
span AS (
    SELECT trace_id, role, thread_id, type, span_count, time_ns
    FROM question.overhead
    UNION ALL
    SELECT trace_id, 'main', NULL, type, NULL, time_ns
    FROM question.host_time
    WHERE trace_id NOT IN (SELECT trace_id FROM staging.step)
)

SELECT
    rank, role, thread_id, type, sum(span_count)::BIGINT AS spans,
    sum(time_ns)::BIGINT AS time_ns,
    sum(time_ns) / sum(sum(time_ns)) OVER (PARTITION BY trace_id, thread_id)
    AS time_share, trace_id
FROM span
INNER JOIN staging.trace USING (trace_id)
WHERE run_id = $run
GROUP BY rank, trace_id, role, thread_id, type
ORDER BY rank, trace_id, thread_id, time_ns DESC, type""",
        picture="bars",
        empty="This run has no ops or calls on a host thread.",
    ),
    Section(
        "kernels",
        "GPU work",
        "Kernels, copies and memsets by name, with the op that launches most of them.",
        """
SELECT name, op, gpu_op_count, time_ns, mean_ns, time_share
FROM question.top_kernel
WHERE run_id = $run
ORDER BY time_ns DESC, name""",
        empty="No GPU work was recorded.",
        of_gpu=True,
    ),
    Section(
        "modules",
        "Modules",
        "GPU time of modules, and their time on the critical path. Equal modules are "
        "together; `*` stands for the number of each.",
        """
SELECT
    staging.module_class(module) AS module,
    CASE WHEN is_backward THEN 'backward' ELSE 'forward' END AS pass,
    count(DISTINCT module) AS modules, sum(call_count)::BIGINT AS calls,
    sum(op_count)::BIGINT AS ops,
    sum(gpu_time_ns)::BIGINT AS gpu_time_ns, sum(path_time_ns)::BIGINT AS path_time_ns
FROM question.module
INNER JOIN staging.trace USING (trace_id)
WHERE run_id = $run
GROUP BY ALL
ORDER BY gpu_time_ns DESC, path_time_ns DESC, module, pass""",
        picture="icicle",
        empty="Modules are unknown without Python stacks, which PyTorch's profiler "
        "records (`with_stack=True`).",
    ),
    Section(
        "waits",
        "Waits",
        "What waited for what, and where; the longest waits first.",
        """
SELECT
    kind AS wait, wait_count, waited_ns, op, frame, waiting_name, awaited_name
FROM question.wait
WHERE run_id = $run
ORDER BY waited_ns DESC, wait, waiting_name, awaited_name, op, frame""",
        empty="Nothing waited for GPU work.",
        of_gpu=True,
    ),
    Section(
        "memory",
        "Memory over time",
        "Memory allocated on each device, and reserved by its allocator: the maximum "
        "in each of 120 intervals of the recording. With several ranks, the four with "
        "the highest peaks are shown.",
        """
WITH
placed AS (
    SELECT
        rank, memory.trace_id, device_type, device, allocated_bytes, reserved_bytes,
        at_ns + shift_ns AS offset_ns,
        min(offset_ns) OVER () AS first_ns,
        greatest(max(offset_ns) OVER () - first_ns, 1) AS lasts_ns,
        max(allocated_bytes) OVER (
            PARTITION BY memory.trace_id, device_type, device
        ) AS peak_bytes
    FROM staging.memory_event AS memory
    INNER JOIN graph.run_time USING (trace_id)
    INNER JOIN staging.trace AS trace ON memory.trace_id = trace.trace_id
    WHERE trace.run_id = $run
),

chosen AS (
    SELECT
        *, least(120 * (offset_ns - first_ns) // lasts_ns, 119) AS stretch,
        first_ns + stretch * lasts_ns // 120 AS begin_ns
    FROM placed
    QUALIFY dense_rank() OVER (
        ORDER BY peak_bytes DESC, trace_id, device_type, device
    ) <= 4
)

SELECT
    rank, device_type, device, begin_ns AS offset_ns,
    max(allocated_bytes) AS allocated_bytes, max(reserved_bytes) AS reserved_bytes,
    trace_id
FROM chosen
GROUP BY rank, trace_id, device_type, device, begin_ns
ORDER BY rank, trace_id, device_type, device, begin_ns""",
        picture="memory",
        empty="No allocations were recorded; PyTorch's profiler records them "
        "(`profile_memory=True`).",
    ),
    Section(
        "memory_peak",
        "Memory at its peak",
        "The peak allocation of each device, its time, and the memory that the "
        "allocator then holds in reserve without using it.",
        """
SELECT
    rank, device_type, device, peak_bytes, step, offset_ns, reserved_bytes,
    unused_bytes, unused_share, capacity_bytes, allocation_count, turnover_bytes
FROM question.memory
WHERE run_id = $run
ORDER BY rank, trace_id, device_type, device""",
        follows=True,
    ),
    Section(
        "memory_held",
        "What holds the memory at its peak",
        "By the op that allocated it, its module, and the current Python function.",
        """
SELECT
    rank, device_type, device, coalesce(op, origin) AS kind, module,
    CASE WHEN is_backward THEN 'backward' WHEN NOT is_backward THEN 'forward' END
    AS pass,
    frame, live_bytes, live_share, block_count, trace_id
FROM question.memory_at_peak
WHERE trace_id IN (SELECT trace_id FROM staging.trace WHERE run_id = $run)
ORDER BY
    rank, trace_id, device_type, device, live_bytes DESC, kind, module, pass, frame""",
        picture="bars",
        follows=True,
    ),
    Section(
        "loading",
        "Data loading",
        "Time of each step in a data loader, what the GPUs did meanwhile, and how much "
        "of it is on the critical path of the period.",
        """
WITH
part AS (
    SELECT
        trace_id, rank, step, fetched_by, batch_count, path_ns, time_share, time_ns,
        unnest([
            {'kind': 'GPU busy', 'part_ns': busy_ns},
            {
                'kind': CASE
                    WHEN trace_id IN (SELECT trace_id FROM staging.gpu_op)
                        THEN 'GPU idle'
                    ELSE 'no GPU in the trace'
                END,
                'part_ns': idle_ns
            }
        ]) AS own
    FROM question.data_loading
    WHERE
        trace_id IN (SELECT trace_id FROM staging.trace WHERE run_id = $run)
        AND (step IS NOT NULL OR trace_id NOT IN (SELECT trace_id FROM staging.step))
)

SELECT
    rank, step, own.kind, sum(own.part_ns)::BIGINT AS time_ns,
    sum(time_share * own.part_ns / nullif(time_ns, 0)) AS time_share,
    sum(path_ns)::BIGINT AS path_ns, sum(batch_count)::BIGINT AS batches,
    string_agg(DISTINCT fetched_by, ', ' ORDER BY fetched_by) AS fetched_by, trace_id
FROM part
WHERE own.part_ns > 0
GROUP BY rank, trace_id, step, own.kind
ORDER BY rank, trace_id, step, own.kind""",
        picture="stack",
        empty="No DataLoader ranges in this run (`staging.data_loading`): batches are "
        "loaded in another way, or outside the recording.",
    ),
    Section(
        "stragglers",
        "Ranks that others wait for",
        "For each rank: how long others waited for it in collectives, and it for "
        "others.",
        """
SELECT
    rank, collective_count, last_count, delayed_ns, waiting_ns, absent_waiting_ns,
    moving_ns, clock_offset_ns, clock_uncertainty_ns, is_ambiguous
FROM question.straggler
WHERE run_id = $run
ORDER BY delayed_ns DESC, rank""",
        empty="No collectives are matched between ranks of this run.",
    ),
    Section(
        "communication",
        "Exposed communication",
        "Time in which a device communicated, and nothing else ran on it.",
        """
SELECT rank, device, communication_ns, exposed_ns, exposed_share
FROM question.exposed_communication
WHERE run_id = $run
ORDER BY rank, device""",
        empty="No collectives ran on a device in this run.",
        of_gpu=True,
    ),
    Section(
        "roofline",
        "Roofline",
        "Kernels whose work is known from shapes, compared with the peak of the "
        "device, if its model is known. Kernels without recorded sizes are left out.",
        """
SELECT
    coalesce(op.name, work.family) AS op, work.family, count(*) AS kernels,
    sum(work.flops)::BIGINT AS flops, sum(work.traffic_bytes)::BIGINT AS traffic_bytes,
    sum(kernel.end_ns - kernel.start_ns)::BIGINT AS time_ns,
    (sum(roofline_ns) FILTER (is_known))::BIGINT AS roofline_ns,
    any_value(device.hardware) FILTER (is_known) AS hardware
FROM prediction.kernel_work AS work
INNER JOIN prediction.kernel_roofline USING (gpu_op_id)
INNER JOIN staging.gpu_op AS kernel USING (gpu_op_id)
LEFT JOIN prediction.kernel_device AS device
    ON kernel.trace_id = device.trace_id AND kernel.device = device.device
LEFT JOIN staging.op AS op ON work.op_id = op.op_id
WHERE work.run_id = $run AND work.link = 'dram'
GROUP BY ALL
HAVING sum(kernel.end_ns - kernel.start_ns) > 0
ORDER BY time_ns DESC, op, family""",
        picture="roofline",
        empty="No kernel in this run has known work; it follows from shapes "
        "(`record_shapes=True`).",
        of_gpu=True,
    ),
    Section(
        "efficiency",
        "Hardware utilization of steps",
        "Model FLOPs utilization (MFU): the FLOPs of matrix products, convolutions and "
        "attention, as a share of the device's peak over the period. Also all FLOPs "
        "over kernel time, and bytes over the period, as shares of the peaks.",
        """
SELECT
    rank, step, device, hardware, period_ns, mfu_share, compute_share, memory_share,
    unknown_share, flops, flops_per_second
FROM question.efficiency_by_step
WHERE trace_id IN (SELECT trace_id FROM staging.trace WHERE run_id = $run)
ORDER BY rank, trace_id, step, device""",
        empty="No GPU work was recorded.",
        of_gpu=True,
    ),
    Section(
        "collectives",
        "Collectives",
        "Bus bandwidth of collectives, as in nccl-tests, and how long ranks wait for "
        "each other first.",
        """
SELECT
    kind, process_group, message_bytes, group_size, kernel_count, time_ns, waiting_ns,
    moving_ns, bus_bytes_per_second, best_bus_bytes_per_second, link_share
FROM question.collective
WHERE run_id = $run
ORDER BY time_ns DESC, kind, message_bytes, process_group""",
        empty="No collectives ran on a device in this run.",
        of_gpu=True,
    ),
    Section(
        "predictions",
        "Predicted steps",
        "The period of each step as predicted by each stored method, the error, and "
        "the interval in which four of five steps are expected.",
        """
SELECT
    trace.rank, time.step, time.method, time.measured_ns, time.predicted_ns, low_ns,
    high_ns, error_share, unexplained_ns, kept_ns
FROM critical_path.step_time AS time
INNER JOIN staging.trace USING (run_id, trace_id)
LEFT JOIN question.prediction_band AS band
    ON time.step_id = band.step_id AND time.method = band.method
WHERE run_id = $run AND scenario = 'baseline'
ORDER BY trace.rank, time.step, time.method""",
        picture="ranges",
        empty="The trace has no steps.",
    ),
    Section(
        "issues",
        "What was repaired or left out",
        "Problems that ingest found in the files.",
        """
SELECT rank, path, kind, occurrences, detail
FROM raw.ingest_issue
INNER JOIN staging.trace USING (trace_id)
WHERE run_id = $run
ORDER BY rank, trace_id, kind""",
        empty="Nothing: all events were read as the profiler wrote them.",
    ),
)


def sections(
    connection: duckdb.DuckDBPyConnection,
    run: int,
    known: Mapping[str, pl.DataFrame],
    part: Part,
) -> list[Shown]:
    """The sections of a run, or of a part of it, with their rows, as data for the page.

    Questions whose answers are `known` are not computed again, nor the places of the
    critical paths, which must be stored (`places.put`).
    """
    rows_of = {f"question.{name}": rows for name, rows in known.items()}
    traces = known["recording"]["trace_id"].implode()
    rows_of |= {
        name: rows.filter(rows["trace_id"].is_in(traces))
        for name, rows in _predicted(connection).items()
    }
    known_as = {name: places.stored(name) for name in places.READERS}
    with ExitStack() as stack:
        for name, rows in rows_of.items():
            known_as[name] = _KNOWN + name.replace(".", "_")
            stack.enter_context(registered(connection, known_as[name], rows))
        return shown_in_order(connection, SECTIONS, run, known_as, part)


def shown_in_order(
    connection: duckdb.DuckDBPyConnection,
    chosen: Iterable[Section],
    run: int,
    known_as: Mapping[str, str] = _NOTHING,
    part: Part | None = None,
) -> list[Shown]:
    """Sections of a run; some are left out without rows."""
    has_gpu = bool(scalar(connection, _GPU_WORK, [run]))
    made = [
        (section, shown(connection, section, run, known_as, part)) for section in chosen
    ]
    return [
        part
        for section, part in made
        if part["rows"] or not (section.follows or (section.of_gpu and not has_gpu))
    ]


def _predicted(connection: duckdb.DuckDBPyConnection) -> dict[str, pl.DataFrame]:
    """The times of predicted steps, and the bands that follow from them.

    The bands read all of the times; in one query, these would be computed twice.
    """
    times = frame(connection.sql(f"FROM {_TIMES} WHERE scenario = 'baseline'"))
    with duckdb.connect() as own, registered(own, "rows", times):
        own.execute("CREATE SCHEMA critical_path")
        own.execute(f"CREATE TABLE {_TIMES} AS FROM rows")
        catalog.create_only(
            own, _BANDS, given=frozenset([_TIMES]), are_documented=False
        )
        return {_TIMES: times, _BANDS: frame(own.sql(f"FROM {_BANDS}"))}


def shown(
    connection: duckdb.DuckDBPyConnection,
    section: Section,
    run: int,
    known_as: Mapping[str, str] = _NOTHING,
    part: Part | None = None,
) -> Shown:
    """A section of a run, or of a part of it, with its rows, as data for the page.

    It reads relations that are known by the names in `known_as`.
    """
    whole = section.query.strip().replace("$run", str(run))
    query = _of_part(connection, whole, part or {}) if part else whole
    source = _of_part(connection, whole, part or {}, known_as)
    cursor = connection.execute(f"FROM ({source})")
    columns = [column[0] for column in cursor.description or ()]
    rows = cursor.fetchmany(_most(section) + 1)
    if any(map(_is_of_gpu, columns)) and not scalar(connection, _GPU_WORK, [run]):
        rows = [_without_gpu(columns, row) for row in rows]
    return with_rows(section, query, columns, rows)


def _is_of_gpu(column: str) -> bool:
    return column.startswith("gpu_")


def _without_gpu(columns: list[str], row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row of a run without GPU work: the page leaves out columns without values."""
    named = zip(columns, row, strict=True)
    return tuple(None if _is_of_gpu(name) else value for name, value in named)


def _of_part(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    part: Part,
    known_as: Mapping[str, str] = _NOTHING,
) -> str:
    """The query with the known rows, or those of a part, of relations that it reads.

    Known answers are of the part.
    """
    instead = {}
    for relation in catalog.read_by(query):
        known = known_as.get(relation.full_name, "")
        is_of_all = relation.name in OF_ALL_RANKS
        own = {
            n: v for n, v in part.items() if parts.has(relation, n) and not is_of_all
        }
        if known and (not own or known.startswith(_KNOWN)):
            instead[relation.full_name] = f"{known}{{alias}}"
        elif own:
            chosen = parts.choice(
                relation, own, lambda text: frame(connection.sql(text))
            )
            rows = (
                f"FROM {known}"
                if known
                else catalog.rows(
                    connection, relation, chosen.counted, is_planned_whole=True
                )
            )
            instead[relation.full_name] = f"({rows} {chosen.where}){{alias}}"
    return reading_instead(query, instead) if instead else query


def with_rows(
    section: Section, query: str, columns: list[str], rows: list[tuple[Any, ...]]
) -> Shown:
    """A section with given rows, and shortened names for tables."""
    most = _most(section)
    shown_rows = [[_value(value) for value in row] for row in rows[:most]]
    return {
        "name": section.name,
        "title": section.title,
        "words": section.words,
        "picture": section.picture,
        "empty": section.empty,
        "query": query,
        "columns": columns,
        "rows": shown_rows,
        "short": {
            name: _short(name, values)
            for name, *values in zip(columns, *shown_rows, strict=True)
        },
        "is_cut": len(rows) > most,
    }


def _most(section: Section) -> int:
    """How many rows of a section the page holds."""
    return _MOST_DRAWN if section.picture in _DRAWN_WHOLE else MOST_ROWS


def _value(value: object) -> object:
    """A value for JSON."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if value is None or isinstance(value, (bool, int)):
        return value
    return str(value)


def _short(column: str, values: list[object]) -> dict[str, str]:
    """The shortened long names of a column."""
    names = [*dict.fromkeys(value for value in values if isinstance(value, str))]
    width, way = _SHORTENED.get(column, (_IN_A_TABLE, shortened))
    short = zip(names, cut_distinct(names, width, way), strict=True)
    return {name: cut for name, cut in short if name != cut}
