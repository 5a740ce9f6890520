"""Recorded ops at another batch size: the dimensions that their arguments then have.

If other runs in the database execute the same ops at other batch sizes, each size is
fitted as an affine function of the batch size, as `tracedb estimate --sweep` does
(`tracedb.from_code.sizes`). Otherwise the batch dimensions are inferred from the ops of
the recording (`tracedb.batch`). Unknown sizes are stored with the reason; if they
concern much of the GPU time (without GPU work, of the op time), the edit is refused.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tracedb.batch.calls import UPDATES, Call, shapes
from tracedb.batch.recorded import recorded_batch
from tracedb.batch.rules import inferred_dimensions
from tracedb.duck import registered
from tracedb.errors import ScenarioError
from tracedb.from_code.sizes import evaluate, fitted, join_text, split_text
from tracedb.words import share, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import duckdb

    from tracedb.batch.dimensions import Dimensions

TABLE = "reference.scaled_argument"
_MOST = 0.05
"""Largest accepted share of time whose new sizes are unknown."""
_MOST_REASONS = 3
"""An error lists at most this many ops with unknown sizes."""
_NAME = 80

_CHANGES = """
SELECT to_batch, from_batch, trace_id
FROM prediction.work_change
WHERE to_batch IS NOT NULL AND value_count = 1
UNION
SELECT to_batch, from_batch, trace_id
FROM prediction.op_change
WHERE value_count = 1
ORDER BY ALL
"""
# Ops of optimizers and gradient accumulation have sizes of the model only.
_UPDATING = f"""
op.name LIKE '%AccumulateGrad%'
    OR regexp_matches(op.name, '{UPDATES}')
    OR coalesce(op.start_ns < optimizer.end_ns, false)
"""
_OPTIMIZER = """
ASOF LEFT JOIN (
    SELECT thread_id, start_ns, end_ns
    FROM staging.annotation
    WHERE name LIKE 'Optimizer.%'
) AS optimizer
    ON op.thread_id = optimizer.thread_id AND op.start_ns >= optimizer.start_ns
"""
_CALLS = f"""
SELECT
    op.name,
    coalesce(et.input_dims, op.input_dims)::VARCHAR AS dims,
    op.concrete_inputs::VARCHAR AS given,
    {_UPDATING} AS is_update,
    copied.op_id IS NOT NULL AS is_copied,
    max(coalesce(collective.kind, '')) AS kind,
    et.output_dims::VARCHAR AS results
FROM staging.op AS op
LEFT JOIN staging.op_et AS et ON op.op_id = et.op_id
LEFT JOIN (
    SELECT DISTINCT op_id
    FROM staging.gpu_op
    WHERE kind = 'memcpy' AND starts_with(staging.copy_direction(name), 'h2d')
) AS copied
    ON op.op_id = copied.op_id
LEFT JOIN staging.gpu_op AS gpu_op
    ON op.op_id = gpu_op.op_id AND gpu_op.is_collective
LEFT JOIN staging.collective AS collective ON gpu_op.gpu_op_id = collective.node_id
{_OPTIMIZER}
WHERE op.trace_id = $trace AND dims IS NOT NULL AND NOT op.is_annotation
GROUP BY ALL
ORDER BY ALL
"""
_OPS = f"""
SELECT
    op.op_id,
    step_id,
    op.name,
    {_UPDATING},
    coalesce(
        sparse.op_id IS NOT NULL
        AND sparse.value_dims IS NULL
        AND op.name NOT LIKE '%AccumulateGrad%',
        false
    ),
    argument.input_dims,
    argument.output_dims,
    argument.concrete_inputs::VARCHAR,
    list_has_any(
        from_json(argument.input_types, '["VARCHAR"]'),
        (SELECT list(dtype) FROM prediction.op_dtype)
    )
FROM prediction.op_argument AS argument
INNER JOIN staging.op AS op USING (op_id)
INNER JOIN (
    SELECT op_id, min(step_id) AS step_id, min(gpu_op.start_ns) AS begun_ns
    FROM staging.gpu_op AS gpu_op
    LEFT JOIN staging.step_work USING (gpu_op_id)
    GROUP BY op_id
    UNION ALL
    SELECT op_id, step_id, start_ns
    FROM prediction.computing_op
) USING (op_id)
LEFT JOIN prediction.sparse_op AS sparse USING (op_id)
{_OPTIMIZER}
WHERE argument.trace_id = $trace
ORDER BY begun_ns, op.op_id
"""
_OTHERS = """
SELECT other.trace_id, other.run_id
FROM staging.trace AS trace
INNER JOIN staging.trace AS other
    ON trace.run_id <> other.run_id AND trace.rank IS NOT DISTINCT FROM other.rank
WHERE trace.trace_id = $trace
ORDER BY ALL
"""
_LEFT_OF_OPS = f"""
SELECT
    scenario,
    CASE
        WHEN basis = 'unknown'
            THEN coalesce(scaled.unknown, op.name || ': no shapes of it')
    END AS problem,
    sum(own_ns - floor_ns)::BIGINT AS problem_ns
FROM prediction.changed_op_time AS time
INNER JOIN prediction.op_change AS change USING (scenario, op_id)
INNER JOIN staging.op AS op USING (op_id)
LEFT JOIN {TABLE} AS scaled USING (to_batch, from_batch, op_id)
WHERE value_count = 1
GROUP BY ALL
ORDER BY scenario, problem_ns DESC, problem
"""
_LEFT = f"""
WITH
work AS (
    SELECT
        scenario,
        scaled.recorded_batch,
        gpu_op.end_ns - gpu_op.start_ns AS time_ns,
        CASE
            WHEN scaled.op_id IS NULL THEN gpu_op.name || ': no shapes of it'
            ELSE scaled.unknown
        END AS problem
    FROM prediction.work_change AS work
    INNER JOIN staging.gpu_op AS gpu_op USING (gpu_op_id)
    LEFT JOIN staging.step_work USING (gpu_op_id)
    LEFT JOIN {TABLE} AS scaled
        ON
            work.to_batch = scaled.to_batch
            AND work.from_batch = scaled.from_batch
            AND work.op_id = scaled.op_id
    -- What was launched before the recording began concerns no recorded step.
    WHERE
        work.to_batch IS NOT NULL
        AND value_count = 1
        AND (gpu_op.call_id IS NOT NULL OR step_id IS NOT NULL)
)

SELECT scenario, problem, sum(time_ns)::BIGINT AS problem_ns
FROM work
GROUP BY ALL
ORDER BY scenario, problem_ns DESC, problem
"""


@dataclass(frozen=True)
class _Op:
    """A recorded op that launches GPU work."""

    op_id: int
    step_id: int | None
    name: str
    is_update: bool
    is_sparse: bool
    """Whether it has sparse tensors of unknown size."""
    texts: tuple[str | None, str | None, str | None]
    """JSON of the arguments' dimensions, the results' dimensions and the values."""
    has_tensors: bool
    """Whether a type of its arguments is that of a tensor."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for ops with equal records."""
        return self.name, self.is_update, self.is_sparse, *self.texts, self.has_tensors

    @cached_property
    def words(self) -> str:
        """The op with the shapes of its arguments."""
        dims = [list(one) for argument in shapes(self.texts[0]) for one in argument]
        return shortened(f"{self.name} of {json.dumps(dims)}", _NAME)


@dataclass(frozen=True)
class _Scaled:
    """An op at another batch size, or the reason why it is unknown."""

    input_dims: str | None = None
    output_dims: str | None = None
    concrete_inputs: str | None = None
    size_share: float = 1.0
    unknown: str | None = None


@dataclass
class RecordedTrace:
    """A trace, and what its ops tell about the batch size."""

    connection: duckdb.DuckDBPyConnection
    trace_id: int
    run_id: int | None = None
    _dimensions: dict[int, Dimensions] = field(default_factory=dict)

    @cached_property
    def calls(self) -> list[Call]:
        """All distinct ops with shapes."""
        rows = self.connection.execute(_CALLS, {"trace": self.trace_id}).fetchall()
        return [
            Call(
                name,
                shapes(dims),
                tuple(map(str, json.loads(given or "[]"))),
                *(is_update, is_copied, collective),
                tuple(one for tensors in shapes(results) for one in tensors if one),
            )
            for name, dims, given, is_update, is_copied, collective, results in rows
        ]

    @cached_property
    def ops(self) -> list[_Op]:
        """The ops that launch GPU work, in order."""
        rows = self.connection.execute(_OPS, {"trace": self.trace_id}).fetchall()
        return [
            _Op(op, step, name, is_update, is_sparse, (dims, results, given), typed)
            for (op, step, name, is_update, is_sparse, *texts, typed) in rows
            for dims, results, given in [texts]
        ]

    @cached_property
    def steps(self) -> list[list[_Op]]:
        """The ops of each step."""
        found: defaultdict[int, list[_Op]] = defaultdict(list)
        for op in self.ops:
            if op.step_id is not None:
                found[op.step_id].append(op)
        return list(found.values())

    @cached_property
    def typical(self) -> list[_Op]:
        """The ops of the last step with the most common number of ops."""
        counts = Counter(map(len, self.steps))
        most = max(counts, key=lambda count: (counts[count], count), default=0)
        return next((s for s in reversed(self.steps) if len(s) == most), [])

    @cached_property
    def recorded_batch(self) -> int | None:
        """The batch size, if the inputs agree on one."""
        return recorded_batch(self.calls)

    def dimensions(self, batch: int) -> Dimensions:
        """The inferred dimensions for a batch size; cached."""
        if batch not in self._dimensions:
            self._dimensions[batch] = inferred_dimensions(self.calls, batch)
        return self._dimensions[batch]


@dataclass(frozen=True)
class _Others:
    """Steps of other runs with the same ops at other batch sizes."""

    steps: list[list[_Op]]
    ratios: list[Fraction]
    """Their batch sizes, relative to this run's."""
    least: int
    """The smallest size that grows with the batch size."""

    @classmethod
    def of(cls, trace: RecordedTrace) -> _Others | None:
        """The steps with the same ops as the typical one; `None` if there are none."""
        rows = trace.connection.execute(_OTHERS, {"trace": trace.trace_id}).fetchall()
        steps, ratios, sizes = [], [], set()
        for trace_id, run_id in rows:
            step = RecordedTrace(trace.connection, trace_id, run_id).typical
            if not step or _forms(step) != _forms(trace.typical):
                continue
            grown = _grown(trace.typical, step)
            if not grown:
                continue
            ratio = Counter(Fraction(b, a) for a, b in grown).most_common(1)[0][0]
            steps.append(step)
            ratios.append(ratio)
            sizes |= {a for a, b in grown if Fraction(b, a) == ratio}
        return cls(steps, ratios, min(sizes)) if steps else None

    def scaled(
        self, trace: RecordedTrace, batch: int, to_batch: int
    ) -> dict[int, _Scaled]:
        """The scaled ops of steps equal to the typical one, by op id."""
        sizes = [Fraction(batch), *(batch * ratio for ratio in self.ratios)]
        if any(size.denominator > 1 for size in sizes):
            return {}
        batches = [int(size) for size in sizes]
        made = [
            _fitted(op, others, batches, to_batch)
            for op, *others in zip(trace.typical, *self.steps, strict=True)
        ]
        keys = [op.key for op in trace.typical]
        return {
            op.op_id: one
            for step in trace.steps
            if [op.key for op in step] == keys
            for op, one in zip(step, made, strict=True)
        }


def _forms(step: Iterable[_Op]) -> list[tuple[Any, ...]]:
    """What must be equal at all batch sizes."""
    return [
        (
            op.name,
            *(None if text is None else split_text(text, []) for text in op.texts),
        )
        for op in step
    ]


def _grown(step: Sequence[_Op], other: Sequence[_Op]) -> list[tuple[int, int]]:
    """The pairs of dimensions that differ between two steps with the same ops."""
    found = []
    for one, twin in zip(step, other, strict=True):
        numbers: tuple[list[Any], list[Any]] = ([], [])
        split_text(one.texts[0] or "", numbers[0])
        split_text(twin.texts[0] or "", numbers[1])
        pairs = zip(*numbers, strict=True)
        found += [(a, b) for a, b in pairs if a != b and a > 0 and b > 0]
    return found


def _fitted(
    op: _Op, others: Sequence[_Op], batches: Sequence[int], to_batch: int
) -> _Scaled:
    """Scale an op by fitting its numbers as affine functions of the batch size."""
    if op.is_sparse:
        return _unsized(op)
    columns = zip(op.texts, *(other.texts for other in others), strict=True)
    try:
        texts = [_text_fitted(several, batches, to_batch) for several in columns]
    except ValueError:
        return _Scaled(
            unknown=f"{op.words}: a size is not an affine function of the batch size"
        )
    return _scaled(op, texts[0], texts[1], texts[2] or "")


def _text_fitted(
    texts: Sequence[str | None], batches: Sequence[int], to_batch: int
) -> str | None:
    if texts[0] is None:
        return None
    rows: list[list[Any]] = [[] for _ in texts]
    for text, row in zip(texts, rows, strict=True):
        split_text(text or "", row)
    functions = [fitted(batches, values) for values in zip(*rows, strict=True)]
    numbers = [evaluate(function, to_batch) for function in functions]
    return join_text(texts[0], iter(numbers))


def _scaled(op: _Op, dims: str | None, results: str | None, values: str) -> _Scaled:
    """An op with other dimensions; unchanged ones are None."""
    before, after = (_elements(text) for text in (op.texts[0], dims))
    return _Scaled(
        None if shapes(dims) == shapes(op.texts[0]) else dims,
        None if shapes(results) == shapes(op.texts[1]) else results,
        None if values in ("", op.texts[2]) else values,
        after / before if before else 1.0,
    )


def _unsized(op: _Op) -> _Scaled:
    return _Scaled(unknown=f"{op.name}: the size of a sparse tensor is not recorded")


def _elements(text: str | None) -> int:
    """The number of elements of all tensors."""
    found = 0
    for argument in shapes(text):
        for dims in argument:
            count = 1
            for size in dims:
                count *= size
            found += count
    return found


def _inferred(op: _Op, dimensions: Dimensions, to_batch: int) -> _Scaled:
    """Scale an op's batch dimensions in proportion to the batch size."""
    tensors = [dims for argument in shapes(op.texts[0]) for dims in argument if dims]
    if op.is_sparse:
        return _unsized(op)
    if op.is_update and dimensions.are_of_model(tensors):
        return _Scaled()
    if not tensors and op.has_tensors and shapes(op.texts[0]):
        return _Scaled()  # Tensors without dimensions have one element.
    if not tensors:
        return _Scaled(unknown=f"{op.name}: no tensors with recorded shapes")
    texts: list[str | None] = []
    for text in op.texts[:2]:
        made, problem = _text_inferred(text, dimensions, to_batch)
        if problem:
            return _Scaled(unknown=f"{op.words}: {problem}")
        texts.append(made)
    return _scaled(op, texts[0], texts[1], "")


def _text_inferred(
    text: str | None, dimensions: Dimensions, to_batch: int
) -> tuple[str | None, str]:
    given = shapes(text)
    if text is None or not given:
        return None, ""
    found: list[Any] = []
    for argument, shown in zip(given, json.loads(text), strict=True):
        made = []
        for dims in argument:
            sizes, problem = dimensions.scaled(dims, to_batch)
            if problem:
                return None, problem
            made.append(list(sizes))
        is_list = bool(shown) and isinstance(shown[0], list)
        found.append(made if is_list else made[0] if made else [])
    return json.dumps(found), ""


def fill(cursor: duckdb.DuckDBPyConnection) -> None:
    """Fill `reference.scaled_argument` for the edits of a simulation.

    Raises `ScenarioError` if the recorded batch size is unknown, or if for much of the
    GPU time it is unknown how it follows the batch size.
    """
    traces: dict[int, RecordedTrace] = {}
    rows: list[tuple[Any, ...]] = []
    for to_batch, from_batch, trace_id in cursor.execute(_CHANGES).fetchall():
        trace = traces.setdefault(trace_id, RecordedTrace(cursor, trace_id))
        rows += scaled_rows(trace, to_batch, from_batch)
    if not traces:
        return
    _store(cursor, rows)
    _check(cursor, _LEFT, "the GPU's time")


def check_ops(cursor: duckdb.DuckDBPyConnection) -> None:
    """Check the same for the time of ops on the CPU.

    Raises `ScenarioError` as `fill` does.
    """
    _check(cursor, _LEFT_OF_OPS, "the time of ops on the CPU")


def scaled_rows(
    trace: RecordedTrace, to_batch: int, from_batch: int
) -> list[tuple[Any, ...]]:
    """The rows of `reference.scaled_argument` for one requested batch size.

    Raises `ScenarioError` if the recorded batch size (`from_batch`; 0: not given) is
    unknown, or no op has shapes.
    """
    others = _Others.of(trace)
    batch = from_batch or trace.recorded_batch or (others.least if others else None)
    if not any(call.tensors for call in trace.calls):
        raise ScenarioError(
            f"batch={to_batch}: no op of trace {trace.trace_id} has shapes; record "
            "with profile(record_shapes=True), or ingest its execution graph as well"
        )
    if batch is None:
        raise ScenarioError(
            f"batch={to_batch}: the recorded batch size is unknown, because the inputs "
            f"do not agree on one; give it: 'batch={to_batch} from_batch=512'"
        )
    scaled = others.scaled(trace, batch, to_batch) if others else {}
    alike: defaultdict[tuple[Any, ...], set[_Scaled]] = defaultdict(set)
    for op in trace.ops:
        if op.op_id in scaled:
            alike[op.key].add(scaled[op.op_id])
    source = "runs" if scaled else "given" if from_batch else "inferred"
    made: dict[tuple[Any, ...], _Scaled] = {}
    found = []
    for op in trace.ops:
        if op.key not in made:
            made[op.key] = _scaled_like(trace, op, alike[op.key], batch, to_batch)
        one = _Scaled() if batch == to_batch else scaled.get(op.op_id, made[op.key])
        found.append(
            (to_batch, from_batch, op.op_id, trace.trace_id, batch, source,
             one.unknown, one.input_dims, one.output_dims, one.concrete_inputs,
             one.size_share)
        )  # fmt: skip
    return found


def _scaled_like(
    trace: RecordedTrace, op: _Op, alike: set[_Scaled], batch: int, to_batch: int
) -> _Scaled:
    """Scale an op outside typical steps like ops with equal records in them."""
    if len(alike) == 1:
        return next(iter(alike))
    if alike:
        return _Scaled(
            unknown=f"{op.words}: ops with equal records grow in different ways"
        )
    return _inferred(op, trace.dimensions(batch), to_batch)


def _store(cursor: duckdb.DuckDBPyConnection, rows: list[tuple[Any, ...]]) -> None:
    import polars as pl

    numbers, text = pl.Int64, pl.String
    kinds = [*[numbers] * 5, *[text] * 5, pl.Float64]
    names = [f"column_{n}" for n in range(len(kinds))]
    frame = pl.DataFrame(
        rows, schema=dict(zip(names, kinds, strict=True)), orient="row"
    )
    with registered(cursor, "scaled", frame):
        cursor.execute(f"INSERT INTO {TABLE} FROM scaled")


def _check(cursor: duckdb.DuckDBPyConnection, left: str, whole: str) -> None:
    """Raise `ScenarioError` if for much of the time the new sizes are unknown."""
    found: defaultdict[str, dict[str | None, int]] = defaultdict(dict)
    for scenario, problem, time_ns in cursor.execute(left).fetchall():
        found[scenario][problem] = time_ns
    for scenario, problems in found.items():
        unknown = {problem: ns for problem, ns in problems.items() if problem}
        part = sum(unknown.values()) / max(sum(problems.values()), 1)
        if part > _MOST:
            reasons = "; ".join(list(unknown)[:_MOST_REASONS])
            raise ScenarioError(
                f"scenario {scenario}: for {share(part)} of {whole} it is unknown how "
                f"it follows the batch size ({reasons}); ingest a recording of the "
                "same program at another batch size as well"
            )
