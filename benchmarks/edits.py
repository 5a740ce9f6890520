"""Measure what edits do to steps, and whether effects add up: `docs/edits.md`.

    python benchmarks/edits.py --write docs/edits.md

Replays with every type of op removed, the time of every thread and loading halved.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from measure import CORPUS, tell
from pages import parser, publish, table

import tracedb
from tracedb import Edit, catalog
from tracedb.whatif.simulation import beside

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

AT_ONCE = 25
"""Edits simulated together: memory grows with them."""
_VARIANTS = "prediction.variant"
_HOST, _GPU = "prediction.host_time", "prediction.gpu_time"
SAMPLES = Path(__file__).parent.parent / "sample_traces"
TRACES = (
    SAMPLES / "generated_gpu",
    CORPUS / "kineto" / "resnet50_w0_2021a.json.gz",
    CORPUS / "kineto" / "resnet50_w4_2021b.json.gz",
    CORPUS / "kineto" / "resnet50_w4_2020list.json.gz",
    CORPUS / "param" / "dlrm8" / "kineto",
    CORPUS / "hta" / "nccl_data.json.gz",
    CORPUS / "hta" / "trace_diff_control.json.gz",
    CORPUS / "hta" / "amd_trace" / "mi250_minitoy_train_ROCm6_2_kineto.json.gz",
)

OP_TYPES = """
SELECT op.name, sum(span.end_ns - span.start_ns) AS time_ns
FROM overhead.timeline AS span
INNER JOIN staging.op AS op USING (op_id)
GROUP BY op.name
ORDER BY time_ns DESC, op.name
"""
# What is changed: host spans other than waits, and GPU work launched by ops.
SPANS = """
SELECT variant_id, span.thread_id, span.position, change.factor
FROM overhead.timeline AS span
LEFT JOIN staging.op AS op USING (op_id)
INNER JOIN change
    ON
        CASE change.kind
            WHEN 'op' THEN op.name = change.name
            WHEN 'ops' THEN op.op_id IS NOT NULL
            WHEN 'thread' THEN span.thread_id = change.thread_id
            WHEN 'loading' THEN span.type = 'wait_data'
        END
WHERE span.type LIKE 'T_' OR span.type = 'wait_data'
"""
WORK = """
SELECT variant_id, work.gpu_op_id, change.factor
FROM staging.gpu_op AS work
INNER JOIN staging.call AS call ON work.call_id = call.call_id
INNER JOIN staging.op AS op ON call.top_op_id = op.op_id
INNER JOIN change
    ON change.kind = 'ops' OR (change.kind = 'op' AND op.name = change.name)
"""
STEPS = """
SELECT
    variant.scenario, period.step_id, period.start_ns, period.end_ns,
    period.host_end_ns, coalesce(period.gpu_end_ns, period.host_end_ns)
FROM critical_path.step_period AS period
INNER JOIN prediction.variant AS variant USING (variant_id)
WHERE is_simulated
ORDER BY ALL
"""


class Change(NamedTuple):
    """What is scaled: ops of a type, all ops, a thread, or data loading."""

    kind: str
    factor: float
    name: str | None = None
    thread_id: int | None = None

    @property
    def scenario(self) -> str:
        """The scenario's name."""
        return f"{self.kind} {self.name or self.thread_id or ''} x {self.factor:g}"


class StepTime(NamedTuple):
    """Begin and end of a step's period, and the ends of its mark and its GPU work."""

    start_ns: int
    end_ns: int
    host_end_ns: int
    gpu_end_ns: int

    @property
    def time_ns(self) -> int:
        """Duration."""
        return self.end_ns - self.start_ns


Steps = dict[int, StepTime]


def op_types(database: tracedb.Database) -> list[str]:
    """Names of top-level ops, most time first."""
    return [name for name, _ in database.sql(OP_TYPES).rows()]


def threads(database: tracedb.Database) -> list[int]:
    """Host threads with any activity."""
    query = "SELECT thread_id FROM graph.thread_order ORDER BY ordinal, thread_id"
    return [thread for (thread,) in database.sql(query).rows()]


def simulated_steps(
    database: tracedb.Database, changes: Sequence[Change]
) -> dict[str, Steps]:
    """Steps of the `baseline`, and with each change alone."""
    found: dict[str, Steps] = {}
    for first in range(0, len(changes), AT_ONCE):
        with _simulated(database, changes[first : first + AT_ONCE]) as cursor:
            for scenario, step_id, *times in cursor.execute(STEPS).fetchall():
                found.setdefault(scenario, {})[step_id] = StepTime(*times)
    return found


@contextmanager
def _simulated(
    database: tracedb.Database, changes: Sequence[Change]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Run the simulation, with changes applied in between."""
    # Edits without effect reserve the rows that are then edited.
    edits = [
        Edit(scenario=change.scenario, target="host", name="", factor=1)
        for change in changes
    ]
    of_host, of_gpu = catalog.readers(_HOST), catalog.readers(_GPU)
    before = catalog.readers(_VARIANTS) - of_host - of_gpu
    traces = [
        trace for (trace,) in database.sql("SELECT trace_id FROM staging.trace").rows()
    ]
    with beside(database.connection, ["replay"], edits) as (cursor, _):
        list(catalog.compute(cursor, traces, before))
        _name(cursor, changes)
        _scale(cursor, _HOST, SPANS, "thread_id", "position")
        # When launches submit GPU work follows from host times.
        list(catalog.compute(cursor, traces, of_host - of_gpu))
        _scale(cursor, _GPU, WORK, "gpu_op_id")
        list(catalog.compute(cursor, traces, of_gpu))
        yield cursor


def _name(cursor: duckdb.DuckDBPyConnection, changes: Sequence[Change]) -> None:
    """Store the changes, with their variants."""
    cursor.execute(
        "CREATE TEMP TABLE named (scenario VARCHAR, kind VARCHAR, factor DOUBLE, "
        "name VARCHAR, thread_id BIGINT)"
    )
    rows = [(change.scenario, *change) for change in changes]
    cursor.executemany("INSERT INTO named VALUES (?, ?, ?, ?, ?)", rows)
    cursor.execute(
        "CREATE TEMP TABLE change AS FROM named "
        "INNER JOIN prediction.variant AS variant USING (scenario)"
    )


def _scale(
    cursor: duckdb.DuckDBPyConnection, relation: str, edited: str, *key: str
) -> None:
    """Multiply the times that are changed."""
    same = " AND ".join(f"time.{name} = edited.{name}" for name in ("variant_id", *key))
    has_rows = cursor.execute(f"FROM {relation} LIMIT 1").fetchall()
    if not has_rows and cursor.execute(f"FROM ({edited}) LIMIT 1").fetchall():
        raise RuntimeError(f"{relation} is not computed yet")
    cursor.execute(
        f"UPDATE {relation} AS time "
        "SET predicted_ns = round(predicted_ns * edited.factor)::BIGINT "
        f"FROM ({edited}) AS edited WHERE {same}"
    )


class Effect(NamedTuple):
    """The effect of one change."""

    gain_ns: int
    """How much earlier the last step ends."""
    slowest_share: float
    """The largest increase of a step's time, relative to it."""
    latest_ns: int
    """How much later any step ends: its mark, its GPU work, or its period."""


def effect(before: Steps, after: Steps) -> Effect:
    """Compare the steps of a change with those of the baseline."""
    longer = [
        after[step].time_ns / time.time_ns - 1
        for step, time in before.items()
        if time.time_ns
    ]
    later = [
        one - other
        for step, time in before.items()
        for one, other in zip(after[step][1:], time[1:], strict=True)
    ]
    ends = (max(time.end_ns for time in steps.values()) for steps in (before, after))
    first, second = ends
    return Effect(first - second, max(longer), max(later))


def changes_of(database: tracedb.Database) -> list[Change]:
    """All changes tried on a database."""
    return [
        *(Change("op", 0, name) for name in op_types(database)),
        Change("ops", 0),
        *(Change("thread", 0.5, thread_id=thread) for thread in threads(database)),
        Change("loading", 0.5),
        Change("loading", 0),
    ]


ABOUT = """# What edits do to steps

Written by `python benchmarks/edits.py`: replay with one change at a time. Every type of
top-level op is removed, together with the GPU work that it launches; the time of every
host thread is halved, and so is the time of data loading.

No step ends later: `latest` is the largest delay of the end of any step's mark on the
host, of its GPU work, or of its period. `longest` is the largest growth of any step's
period: if something else determines when a step ends, and the previous step ends
earlier, the period grows by that.

Effects add up if the summed gains of removing each type of op separately equal the gain
of removing all of them: `sum` versus `all ops`. They add up where one chain of ops
bounds the step. If two chains take about as long, such as the host's and the GPU's,
neither gains without the other, and the whole is more than its parts. If what remains
waits for something else, the whole is less.
"""
HEAD = (
    *("trace", "steps", "edits", "latest, ns", "longest, %", "sum, ms", "all ops, ms"),
    *("halved threads, ms", "halved loading, ms"),
)


def summary(database: tracedb.Database, name: str) -> list[str]:
    """The row of a trace."""
    changes = changes_of(database)
    steps = simulated_steps(database, changes)
    before = steps["baseline"]
    effects = {change: effect(before, steps[change.scenario]) for change in changes}
    gains = {change: found.gain_ns / 1e6 for change, found in effects.items()}

    def reported(kind: str, factor: float = 0.5) -> str:
        return ", ".join(
            f"{gain:.3f}"
            for change, gain in gains.items()
            if change.kind == kind and change.factor == factor
        )

    return [
        name,
        str(len(before)),
        str(len(changes)),
        f"{max(found.latest_ns for found in effects.values()):,}",
        f"{100 * max(found.slowest_share for found in effects.values()):+.2f}",
        f"{sum(gain for change, gain in gains.items() if change.kind == 'op'):.3f}",
        reported("ops", 0),
        reported("thread"),
        reported("loading"),
    ]


def rows() -> Iterator[list[str]]:
    """The table, trace by trace."""
    for path in TRACES:
        if path.exists():
            name = path.name.partition(".")[0]
            tell(name if name != "kineto" else path.parent.name)
            with tracedb.open() as database:
                database.ingest([path])
                yield summary(database, name if name != "kineto" else path.parent.name)


def main() -> None:
    """Print the page, or write it."""
    asked = parser(__doc__).parse_args()
    publish("\n".join([ABOUT, *table(list(HEAD), rows())]) + "\n", asked.write)


if __name__ == "__main__":
    main()
