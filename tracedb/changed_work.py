"""GPU work elsewhere: on another GPU, or with elements of another type.

The relations that say what GPU work there is and what the roofline makes of it are
computed once more, in memory, over the changed devices and types; kernel models are
asked as for any trace. What they say of the work as recorded and as changed is put
beside each other in `reference.changed_estimate`, of which `prediction.changed_time`
makes factors.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from msgspec import structs

from tracedb import catalog, estimates
from tracedb.duck import literal, one_thread, quoted, registered, scalar
from tracedb.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    import duckdb

    from tracedb.scenario import Edit

TABLE = "reference.changed_estimate"
_ARGUMENTS = "prediction.op_argument"
_PROBLEMS = "prediction.kernel_problem"
_ROOFLINE = "prediction.kernel_roofline"
_WORK = "prediction.kernel_work"
_DEVICES = "prediction.kernel_device"

_TYPES = {
    "fp32": "float",
    "tf32": "float",
    "bf16": "c10::BFloat16",
    "fp16": "c10::Half",
    "fp8": "c10::Float8_e4m3fn",
}
"""Types by their short names, as the profiler writes them."""
_UNITS = ("fp32", "tf32")
"""Types of four bytes, by the units that multiply them."""
# A type of elements between quotes, in brackets, or in a list; twice, since what
# closes one opens the next.
_TYPED = r'(["(\[,])(?:float|c10::(?:Half|BFloat16|Float8_\w+))([")\],])'

_CHANGES = """
SELECT DISTINCT change, to_gpu, to_dtype
FROM prediction.work_change
WHERE value_count = 1
ORDER BY change
"""
# Of ops, all kernels: models tell the time of whole ops.
_STORED = f"""
INSERT INTO {TABLE}
SELECT
    $change,
    roofline.gpu_op_id,
    roofline.trace_id,
    roofline_ns,
    roofline.low_ns,
    roofline.high_ns,
    roofline.in_range,
    told.predicted_ns,
    told.low_ns,
    told.high_ns,
    told.in_range,
    told.model
FROM {{roofline}} AS roofline
LEFT JOIN told ON roofline.gpu_op_id = told.gpu_op_id AND likeness = 'alike'
WHERE
    roofline.gpu_op_id IN (SELECT gpu_op_id FROM prediction.work_change)
    OR roofline.op_id IN (SELECT op_id FROM prediction.work_change)
"""
_TRACES = "SELECT DISTINCT trace_id FROM prediction.work_change ORDER BY trace_id"
_STORED_NAME = "{stored}"
"""Stands for the name of the database in a query."""
_numbers = count(1)


@dataclass(frozen=True)
class Elsewhere:
    """What some GPU work is changed to."""

    change: str = ""
    """All of it as one text, as in `prediction.work_change`."""
    to_gpu: str | None = None
    to_dtype: str | None = None

    @property
    def replaced(self) -> dict[str, str]:
        """The relations that differ there, each with the query that it has instead."""
        found = {}
        if self.to_gpu is not None:
            found[_DEVICES] = _on_gpu(self.to_gpu)
        if self.to_dtype is not None:
            found[_ARGUMENTS] = _retyped(self.to_dtype)
        if self.to_dtype in _UNITS:
            found[_WORK] = _in_units(self.to_dtype)
        return found


def named(connection: duckdb.DuckDBPyConnection, edits: Sequence[Edit]) -> list[Edit]:
    """The edits with GPUs by their names in `prediction.hardware`.

    Raises `ScenarioError` for one that is not there.
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
            raise ScenarioError(
                f"scenario {edit.scenario}: no GPU {edit.to_gpu} is known; there is "
                f"{', '.join(known)}, and `tracedb kernels hardware --add` takes others"
            )
        found.append(structs.replace(edit, to_gpu=row.name) if row else edit)
    return found


def are_changed(edits: Sequence[Edit]) -> bool:
    """Whether edits put GPU work elsewhere."""
    return any(edit.to_gpu or edit.to_dtype for edit in edits)


def estimate(cursor: duckdb.DuckDBPyConnection, stored: str) -> None:
    """Fill `reference.changed_estimate` for the edits of a simulation.

    The cursor is on the database of the simulation; `stored` is the name of the other,
    in quotes.
    """
    rows = cursor.execute(_CHANGES).fetchall()
    if not rows:
        return
    from tracedb import kernels

    models = kernels.shipped(cursor).serving()
    found = cursor.execute(_TRACES).fetchall()
    traces = [int(trace_id) for (trace_id,) in found]
    for elsewhere in (Elsewhere(), *(Elsewhere(*row) for row in rows)):
        with _changed(cursor, stored, traces, elsewhere) as database:
            with _using(cursor, database):
                told = estimates.told(cursor, traces, models)
            query = _STORED.format(roofline=f"{database}.{_ROOFLINE}")
            with registered(cursor, "told", told):
                cursor.execute(query, {"change": elsewhere.change})


@contextmanager
def _changed(
    cursor: duckdb.DuckDBPyConnection,
    stored: str,
    traces: Sequence[int],
    elsewhere: Elsewhere,
) -> Iterator[str]:
    """The name of a database in which GPU work is elsewhere, while the block lasts."""
    replaced = elsewhere.replaced
    if not replaced:
        yield stored
        return
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
    """Have names be those of a database while the block lasts."""
    home = quoted(str(scalar(cursor, "SELECT current_database()")))
    cursor.execute(f"USE {database}")
    try:
        yield
    finally:
        cursor.execute(f"USE {home}")


def _depending(replaced: Container[str]) -> list[catalog.Relation]:
    """The relations between what is replaced and what models are asked, in order."""
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
    """Create relations in a new database; what they read is the other's."""
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
    """Compute the stored relations of a database where some are replaced."""
    cursor.execute("SET VARIABLE computing = $traces", {"traces": [*traces]})
    with one_thread(cursor):
        for relation in _depending(replaced):
            if relation.is_computed_on_ingest:
                cursor.execute(f"INSERT INTO {relation.full_name} {relation.query}")
    cursor.execute("RESET VARIABLE computing")


def _on_gpu(gpu: str) -> str:
    """The devices of traces where all are one GPU."""
    columns = f"* REPLACE ({literal(gpu)} AS hardware, true AS is_known)"
    return f"SELECT {columns} FROM {_STORED_NAME}.{_DEVICES}"


def _retyped(dtype: str) -> str:
    """The arguments of ops where all elements are of one type."""
    columns = ", ".join(
        f"{_replaced(_replaced(column, dtype), dtype)} AS {column}"
        for column in ("input_types", "output_types")
    )
    return f"SELECT * REPLACE ({columns}) FROM {_STORED_NAME}.{_ARGUMENTS}"


def _replaced(text: str, dtype: str) -> str:
    to = literal(rf"\1{_TYPES[dtype]}\2")
    return f"regexp_replace({text}, {literal(_TYPED)}, {to}, 'g')"


def _in_units(dtype: str) -> str:
    """The work of kernels where products of four bytes are made by one kind of unit."""
    relation = catalog.find(_WORK)
    unit = f"CASE WHEN is_main AND unit <> 'half' THEN {literal(dtype)} ELSE unit END"
    columns = ", ".join(relation.columns)
    return (
        f"WITH work ({columns}) AS (\n{relation.query}\n) "
        f"SELECT * REPLACE ({unit} AS unit) FROM work"
    )
