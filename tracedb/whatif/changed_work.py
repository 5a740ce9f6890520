"""Predict work on another GPU, of another type, batch size or number of ranks.

The relations that describe GPU work and its roofline are computed again, in memory,
over the changed devices, types, sizes (`tracedb.whatif.batch_change`) and ranks. Kernel
models predict them as in any trace. `reference.changed_estimate` holds the predictions
for the recorded and the changed work; `prediction.changed_time` turns them into
factors. In traces without GPU work, ops that compute on the host get the other batch
size: `reference.op_estimate` holds their work, and `prediction.changed_op_time` their
times.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, product
from typing import TYPE_CHECKING

from msgspec import structs

from tracedb import catalog, estimates
from tracedb.duck import literal, one_thread, quoted, registered, scalar
from tracedb.errors import ScenarioError
from tracedb.near import alike, meant
from tracedb.whatif import batch_change
from tracedb.whatif.action import ELSEWHERE

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    import duckdb

    from tracedb.whatif.scenario import Edit

TABLE = "reference.changed_estimate"
OPS = "reference.op_estimate"
TABLES = frozenset({TABLE, OPS, batch_change.TABLE})
"""The tables that are filled for one simulation."""
_PARTS = "SELECT instance FROM prediction.gpu_instance"
_WORKING = "prediction.working_op"
_ARGUMENTS = "prediction.op_argument"
_PROBLEMS = "prediction.kernel_problem"
_ROOFLINE = "prediction.kernel_roofline"
_WORK = "prediction.kernel_work"
_OP_WORK = "prediction.op_work"
_SHAPES = "prediction.op_shape"
_DEVICES = "prediction.kernel_device"
_COPIES = "prediction.gpu_copy"
_MESSAGES = "prediction.op_collective"
_HARDWARE = "prediction.hardware"

_TYPES = {
    "fp32": "float",
    "tf32": "float",
    "bf16": "c10::BFloat16",
    "fp16": "c10::Half",
    "fp8": "c10::Float8_e4m3fn",
}
"""The profiler's types by short name."""
_UNITS = ("fp32", "tf32")
"""Four-byte types, which differ in the unit that multiplies them."""
# An element type between quotes, in brackets, or in a list. It is replaced twice,
# because a separator belongs to two neighbours.
_TYPED = r'(["(\[,])(?:float|c10::(?:Half|BFloat16|Float8_\w+))([")\],])'

_CHANGES = """
SELECT DISTINCT change, to_gpu, to_dtype, to_batch, from_batch, to_ranks, network
FROM prediction.work_change
WHERE value_count = 1
UNION
SELECT DISTINCT change, NULL, NULL, to_batch, from_batch, NULL, NULL
FROM prediction.op_change
WHERE value_count = 1
UNION
SELECT DISTINCT recorded, NULL, NULL, NULL, 0, NULL, network
FROM prediction.work_change
WHERE value_count = 1 AND recorded <> ''
ORDER BY ALL
"""
# All kernels of an op, because models predict whole ops.
_STORED = f"""
INSERT INTO {TABLE}
SELECT
    $change,
    roofline.gpu_op_id,
    roofline.trace_id,
    roofline_ns,
    roofline.in_range,
    estimate.predicted_ns,
    estimate.low_ns,
    estimate.high_ns,
    estimate.in_range,
    estimate.model
FROM {{roofline}} AS roofline
LEFT JOIN estimate
    ON roofline.gpu_op_id = estimate.gpu_op_id AND likeness IN ('alike', 'transferred')
WHERE
    roofline.gpu_op_id IN (SELECT gpu_op_id FROM prediction.work_change)
    OR roofline.op_id IN (SELECT op_id FROM prediction.work_change)
"""
_STORED_OPS = f"""
INSERT INTO {OPS}
SELECT
    $change,
    op_id,
    trace_id,
    coalesce(family, 'unknown'),
    flops,
    read_bytes + written_bytes,
    input_bytes
FROM {{work}} AS work
FULL JOIN (SELECT op_id, trace_id, input_bytes FROM {{shape}}) AS shape
    USING (op_id, trace_id)
WHERE trace_id IN (SELECT trace_id FROM prediction.op_change)
"""
_PARTS_OF_BANDS = """
SELECT scenario, max(part)
FROM prediction.band_part
WHERE width_ns > 0
GROUP BY scenario
ORDER BY scenario
"""
_TRACES = "SELECT DISTINCT trace_id FROM {} ORDER BY trace_id"
_GPU_WORK, _HOST_WORK = "prediction.work_change", "prediction.op_change"
_STORED_NAME = "{stored}"
"""Placeholder for the name of the stored database in a query."""
_HERE = "{here}"
"""Placeholder for the name of the simulation's database in a query."""
_WITH_COMPUTING = (
    f"FROM {_STORED_NAME}.{_WORKING} UNION ALL "
    f"SELECT op_id, trace_id FROM {_STORED_NAME}.prediction.computing_op"
)
_numbers = count(1)


@dataclass(frozen=True)
class Elsewhere:
    """The GPU, type, batch size and number of ranks that work is changed to."""

    change: str = ""
    """The change as text, as in `prediction.work_change`."""
    to_gpu: str | None = None
    to_dtype: str | None = None
    to_batch: int | None = None
    from_batch: int = 0
    to_ranks: int | None = None
    network: float | None = None
    """What messages of a GPU reach between nodes, in GB/s; None: as listed."""
    on_host: bool = False
    """Whether ops that compute on the host are included."""

    @property
    def replaced(self) -> dict[str, str]:
        """The relations that differ, each with its replacement query."""
        found = {}
        if self.on_host:
            found[_WORKING] = _WITH_COMPUTING
        if self.to_gpu is not None:
            found[_DEVICES] = _on_gpu(self.to_gpu)
        if self.to_batch is not None:
            scaled = _scaled_arguments(self.to_batch, self.from_batch)
            found |= _sized(scaled)
        if self.to_ranks is not None:
            messages = found.get(_MESSAGES, f"FROM {_STORED_NAME}.{_MESSAGES}")
            found[_MESSAGES] = _among(messages, self.change)
        if self.network is not None:
            found[_HARDWARE] = _over_network(self.network)
        if self.to_dtype is not None:
            arguments = found.get(_ARGUMENTS, f"FROM {_STORED_NAME}.{_ARGUMENTS}")
            found[_ARGUMENTS] = _retyped(self.to_dtype, arguments)
        if self.to_dtype in _UNITS:
            found[_WORK] = _in_units(self.to_dtype)
        return found


def named(connection: duckdb.DuckDBPyConnection, edits: Sequence[Edit]) -> list[Edit]:
    """The edits, with GPU names as in `prediction.hardware`.

    Raises `ScenarioError` for an unknown GPU.
    """
    if not any(edit.to_gpu for edit in edits):
        return [*edits]
    from tracedb.kernels.hardware import hardware_table

    table = hardware_table(connection)
    known = [r.name for r in table.rows if r.kind == "gpu" and not r.is_generic]
    found = []
    for edit in edits:
        row = table.find(edit.to_gpu) if edit.to_gpu else None
        if row is not None and row.name not in known:
            parts = connection.execute(_PARTS).fetchall()
            whole = [name for name in known if (name,) not in parts]
            near = meant(alike(str(edit.to_gpu), whole)) or (
                f"; known: {', '.join(whole)}; add others with `tracedb kernels "
                "hardware --add`"
            )
            raise ScenarioError(
                f"scenario {edit.scenario}: unknown GPU {edit.to_gpu}{near}"
            )
        found.append(structs.replace(edit, to_gpu=row.name) if row else edit)
    return found


def are_changed(edits: Sequence[Edit]) -> bool:
    """Whether edits change the GPU, type, batch size or ranks of work."""
    return any(getattr(edit, value) for edit in edits for value in ELSEWHERE)


def bounded(cursor: duckdb.DuckDBPyConnection, edits: Sequence[Edit]) -> list[Edit]:
    """The scenarios with changed work, once for each end of each part's band.

    The names of these scenarios begin with that of the end (`prediction.scenario_end`).
    """
    if not are_changed(edits):
        return []
    found = []
    for scenario, parts in cursor.execute(_PARTS_OF_BANDS).fetchall():
        own = [e for e in edits if e.scenario == scenario and e.bound is None]
        for number, end in product(range(1, parts + 1), ("low", "high")):
            bound = f"{end} {number}"
            found += [
                structs.replace(edit, scenario=f"{bound} {scenario}", bound=bound)
                for edit in own
            ]
    return found


def estimate(cursor: duckdb.DuckDBPyConnection, stored: str) -> None:
    """Fill `reference.changed_estimate` and `op_estimate` for a simulation's edits.

    The cursor uses the simulation's database; `stored` is the quoted name of the other.
    """
    rows = cursor.execute(_CHANGES).fetchall()
    if not rows:
        return
    batch_change.fill(cursor)
    from tracedb import kernels

    on_gpu, on_host = (_traces(cursor, name) for name in (_GPU_WORK, _HOST_WORK))
    traces = sorted({*on_gpu, *on_host})
    models = kernels.shipped(cursor).serving() if on_gpu else None
    for elsewhere in (Elsewhere(), *(Elsewhere(*row) for row in rows)):
        there = replace(elsewhere, on_host=bool(on_host))
        with _changed(cursor, stored, traces, there) as database:
            if models is not None:
                with _using(cursor, database):
                    estimate = estimates.model_estimates(cursor, on_gpu, models)
                query = _STORED.format(roofline=f"{database}.{_ROOFLINE}")
                with registered(cursor, "estimate", estimate):
                    cursor.execute(query, {"change": elsewhere.change})
            if on_host:
                query = _STORED_OPS.format(
                    work=f"{database}.{_OP_WORK}", shape=f"{database}.{_SHAPES}"
                )
                cursor.execute(query, {"change": elsewhere.change})


def _traces(cursor: duckdb.DuckDBPyConnection, name: str) -> list[int]:
    """The traces with changed work."""
    return [int(row[0]) for row in cursor.execute(_TRACES.format(name)).fetchall()]


@contextmanager
def _changed(
    cursor: duckdb.DuckDBPyConnection,
    stored: str,
    traces: Sequence[int],
    elsewhere: Elsewhere,
) -> Iterator[str]:
    """Attach a database with the changed work within the block; yield its name."""
    replaced = elsewhere.replaced
    if not replaced:
        yield stored
        return
    here = quoted(str(scalar(cursor, "SELECT current_database()")))
    replaced = {k: query.replace(_HERE, here) for k, query in replaced.items()}
    name = f"elsewhere_{next(_numbers)}"
    cursor.execute(f"ATTACH ':memory:' AS {name} (READ_WRITE)")
    try:
        with _using(cursor, name):
            _create(cursor, stored, replaced)
            _compute(cursor, traces, replaced)
        yield name
    finally:
        cursor.execute(f"DETACH {name}")


@contextmanager
def _using(cursor: duckdb.DuckDBPyConnection, database: str) -> Iterator[None]:
    """Use a database within the block."""
    home = quoted(str(scalar(cursor, "SELECT current_database()")))
    cursor.execute(f"USE {database}")
    try:
        yield
    finally:
        cursor.execute(f"USE {home}")


def _depending(replaced: Container[str]) -> list[catalog.Relation]:
    """The relations between the replaced ones and the models' input, in order."""
    wanted = catalog.sources(_PROBLEMS) | {_PROBLEMS}
    return [
        relation
        for relation in catalog.relations()
        if relation.full_name in wanted
        and any(name in replaced for name in catalog.sources(relation.full_name))
    ]


def _create(
    cursor: duckdb.DuckDBPyConnection, stored: str, replaced: Mapping[str, str]
) -> None:
    """Create relations in a new database, over views of the stored database."""
    own = {relation.full_name: relation for relation in _depending(replaced)}
    read = {name for relation in own.values() for name in relation.reads}
    functions = {function.full_name for function in catalog.functions()}
    given = frozenset(read - functions - own.keys())
    for layer in sorted({name.partition(".")[0] for name in read | own.keys()}):
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {layer}")
    for name in sorted(given):
        query = replaced.get(name, f"FROM {_STORED_NAME}.{name}")
        cursor.execute(f"CREATE VIEW {name} AS {_over(stored, query)}")
    catalog.create_only(cursor, *own, given=given, are_documented=False)
    for name in replaced.keys() - given:
        query = _over(stored, replaced[name])
        cursor.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")


def _over(stored: str, query: str) -> str:
    return query.replace(_STORED_NAME, stored)


def _compute(
    cursor: duckdb.DuckDBPyConnection, traces: Sequence[int], replaced: Container[str]
) -> None:
    """Compute the stored relations that depend on replaced ones."""
    cursor.execute("SET VARIABLE computing = $traces", {"traces": [*traces]})
    with one_thread(cursor):
        for relation in _depending(replaced):
            if relation.is_computed_on_ingest:
                cursor.execute(f"INSERT INTO {relation.full_name} {relation.query}")
    cursor.execute("RESET VARIABLE computing")


def _on_gpu(gpu: str) -> str:
    """A query for the devices of traces, all replaced by one GPU."""
    columns = f"* REPLACE ({literal(gpu)} AS hardware, true AS is_known)"
    return f"SELECT {columns} FROM {_STORED_NAME}.{_DEVICES}"


def _scaled_arguments(to_batch: int, from_batch: int) -> str:
    """A subquery for the arguments of ops at a batch size."""
    return (
        f"(FROM {_HERE}.{batch_change.TABLE} "
        f"WHERE to_batch = {to_batch} AND from_batch = {from_batch})"
    )


def _sized(scaled: str) -> dict[str, str]:
    """Queries for arguments, copies and collectives at a batch size.

    Recorded bytes (of copies, fills and collectives) scale like the op's tensors.
    """
    texts = ", ".join(
        f"coalesce(scaled.{name}, own.{name}) AS {name}"
        for name in ("input_dims", "output_dims", "concrete_inputs")
    )
    size = "coalesce(scaled.size_share, 1)"
    is_filled = "op <> 'memset' OR regexp_matches(staging_op.name, 'zero|fill')"
    by_size = f"CASE WHEN {is_filled} THEN {size} ELSE 1 END"
    moved = ("bytes", "read_bytes", "written_bytes")
    copied = ", ".join(f"(own.{name} * {by_size})::BIGINT AS {name}" for name in moved)
    sent = ", ".join(f"(own.{name} * {size})::BIGINT AS {name}" for name in moved)
    joined = f"LEFT JOIN {scaled} AS scaled ON own.op_id = scaled.op_id"
    return {
        _ARGUMENTS: f"SELECT own.* REPLACE ({texts}) "
        f"FROM {_STORED_NAME}.{_ARGUMENTS} AS own {joined}",
        _COPIES: f"SELECT own.* REPLACE ({copied}) "
        f"FROM {_STORED_NAME}.{_COPIES} AS own {joined} "
        f"LEFT JOIN {_STORED_NAME}.staging.op AS staging_op "
        "ON own.op_id = staging_op.op_id",
        _MESSAGES: f"SELECT own.* REPLACE ({sent}) "
        f"FROM {_STORED_NAME}.{_MESSAGES} AS own {joined}",
    }


def _among(messages: str, change: str) -> str:
    """A query for collectives among other ranks, with what each rank then sends.

    Sizes stay: gradients, a model's parameters, what a rank has for all others.
    """
    return f"""
        WITH problem AS (
            SELECT own.* REPLACE (
                coalesce(message.to_ranks, ranks) AS ranks,
                coalesce(to_ranks_per_node, ranks_per_node) AS ranks_per_node
            )
            FROM ({messages}) AS own
            LEFT JOIN (
                SELECT DISTINCT op_id, to_ranks, to_ranks_per_node
                FROM {_HERE}.prediction.collective_change
                WHERE change = {literal(change)}
            ) AS message
                USING (op_id)
        )

        {catalog.find(_MESSAGES).counting}
    """


def _over_network(gigabytes_per_second: float) -> str:
    """A query for the hardware, with another network between nodes."""
    return (
        f"SELECT * REPLACE ({1e9 * gigabytes_per_second}::DOUBLE "
        f"AS network_bytes_per_second) FROM {_STORED_NAME}.{_HARDWARE}"
    )


def _retyped(dtype: str, arguments: str) -> str:
    """A query for the arguments of ops, with all elements of one type."""
    columns = ", ".join(
        f"{_replaced(_replaced(column, dtype), dtype)} AS {column}"
        for column in ("input_types", "output_types")
    )
    return f"SELECT * REPLACE ({columns}) FROM ({arguments})"


def _replaced(text: str, dtype: str) -> str:
    to = literal(rf"\1{_TYPES[dtype]}\2")
    return f"regexp_replace({text}, {literal(_TYPED)}, {to}, 'g')"


def _in_units(dtype: str) -> str:
    """A query for the work of kernels, with four-byte products on one kind of unit."""
    relation = catalog.find(_WORK)
    to = literal(dtype)
    unit = f"CASE WHEN is_main AND unit IN {_UNITS} THEN {to} ELSE unit END"
    columns = ", ".join(relation.columns)
    return (
        f"WITH work ({columns}) AS (\n{relation.query}\n) "
        f"SELECT * REPLACE ({unit} AS unit) FROM work"
    )
