"""Restrict answers to one step, rank, run, trace or device."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex, TypedDict, cast

from .errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl

    from .catalog import Relation


class Within(TypedDict, total=False):
    """Numbers that restrict an answer; None does not restrict it."""

    rank: int | None
    run: int | None
    trace: int | None
    device: int | None


class Part(Within, total=False):
    """The same, with the step."""

    step: int | None


_THERE = {
    "step": "SELECT DISTINCT step FROM staging.step ORDER BY step",
    "rank": "SELECT DISTINCT rank FROM staging.trace WHERE rank >= 0 ORDER BY rank",
    "run": "SELECT run_id FROM raw.run ORDER BY run_id",
    "trace": "SELECT trace_id FROM raw.trace ORDER BY trace_id",
    "device": "SELECT DISTINCT device FROM staging.stream ORDER BY device",
}
"""Queries for the existing numbers."""
_CONDITIONS = {
    "step": {
        "step_id": "step_id IN (SELECT step_id FROM staging.step WHERE step = {0})",
        "step": "step = {0}",
    },
    "rank": {
        "rank": "rank = {0}",
        "trace_id": "trace_id IN (SELECT trace_id FROM staging.trace WHERE rank = {0})",
    },
    "run": {
        "run_id": "run_id = {0}",
        "trace_id": "trace_id IN (SELECT trace_id FROM raw.trace WHERE run_id = {0})",
    },
    "trace": {"trace_id": "trace_id = {0}"},
    "device": {"device": "device = {0}"},
}
"""The condition on rows, for the first of these columns that a relation has."""
_STARTS_IN_STEP = (
    "EXISTS (FROM staging.step AS mark "
    "WHERE step = {0} AND mark.trace_id = {1}.trace_id "
    "AND {1}.start_ns >= mark.start_ns AND {1}.start_ns < mark.end_ns)"
)
_CONDITIONS_BY_KEY: dict[str, dict[tuple[str, ...], str]] = {
    "step": {
        ("gpu_op_id",): "gpu_op_id IN (SELECT gpu_op_id FROM staging.step_work "
        "INNER JOIN staging.step USING (step_id) WHERE step = {0})",
        ("call_id",): "call_id IN (SELECT node_id FROM graph.node_step "
        "INNER JOIN staging.step USING (step_id) WHERE step = {0})",
        ("op_id",): "op_id IN (SELECT node_id FROM graph.node_step "
        "INNER JOIN staging.step USING (step_id) WHERE step = {0})",
        ("thread_id", "start_ns"): _STARTS_IN_STEP,
        ("thread_id", "position"): _STARTS_IN_STEP,
        # Modules are no nodes.
        ("track", "node_id"): "node_id IN (SELECT node_id FROM graph.node_step "
        "INNER JOIN staging.step USING (step_id) WHERE step = {0} "
        "UNION ALL SELECT module_call_id FROM staging.module_call AS called "
        "INNER JOIN staging.step AS mark ON mark.trace_id = called.trace_id "
        "AND called.start_ns >= mark.start_ns AND called.start_ns < mark.end_ns "
        "WHERE step = {0})",
    },
    "device": {
        ("gpu_op_id",): "gpu_op_id IN "
        "(SELECT gpu_op_id FROM staging.gpu_op WHERE device = {0})",
    },
}
"""The condition for relations without such a column, by what a row of them is."""
FINER = {
    "device_time": "idle_cause",
    "job": "straggler_slowdown",
    "memory_at_peak": "memory_by_step",
    "module_class": "module",
    "module_tree": "module",
    "overhead_statistic": "overhead_by_op",
    "prediction_score": "prediction_error",
    "scenario_hit": "scenario_effect",
    "sharding": "sharding_rank",
    "straggler": "collective_kernel",
    "straggler_recovery": "straggler_slowdown",
    "stuck_collective": "last_collective",
}
"""Questions about the whole, and questions about parts of the same."""
_COMPARED = ("rank", "step")
"""The parts that `tracedb diff` compares, which no question about two runs has."""
_MOST = 12
NO_STEPS = (
    "the traces have no steps; staging.step_mark has what could mark them, for "
    "`tracedb ingest --step-mark`; `--one-step` takes each trace as one"
)


class Choice(NamedTuple):
    """What selects a part of a relation: conditions on it, and on what it counts."""

    where: str
    """The WHERE clause on the relation itself; empty for all of it."""
    counted: Mapping[str, str]
    """The condition on each relation whose rows it counts, if any."""


def choice(
    relation: Relation,
    part: Mapping[str, object],
    rows: Callable[[str], pl.DataFrame],
) -> Choice:
    """What selects a part of a relation.

    `rows` runs queries. Raises `QueryError` if neither the relation nor what it counts
    has such a column, or if the number does not exist.
    """
    own, counted = [], dict.fromkeys(relation.counts, "")
    for name, value in part.items():
        if value is None:
            continue
        number = whole_number(value)
        conditions = _conditions(relation, name)
        check(name, number, rows)
        for full_name, condition in conditions.items():
            if full_name == relation.full_name:
                own.append(condition.format(number))
            else:
                counted[full_name] = " AND ".join(
                    filter(None, (counted[full_name], condition.format(number)))
                )
    where = f"WHERE {' AND '.join(own)}" if own else ""
    return Choice(where, counted if any(counted.values()) else {})


def chosen(part: Part, rows: Callable[[str], pl.DataFrame] | None = None) -> Part:
    """The numbers of a part that are given.

    With `rows`, which runs queries, raises `QueryError` if one does not exist.
    """
    given = {n: whole_number(value) for n, value in part.items() if value is not None}
    if rows is not None:
        for name, number in given.items():
            check(name, number, rows)
    return cast("Part", given)


def has(relation: Relation, name: str) -> bool:
    """Whether a relation, or what it counts, has such a part."""
    return bool(_all_conditions(relation, name))


def in_words(part: Mapping[str, object]) -> str:
    """A part in words, the largest first.

    >>> in_words({"step": 12, "rank": 3, "run": None})
    'rank 3, step 12'
    """
    return ", ".join(f"{name} {n}" for name, n in _in_order(part))


def as_options(part: Mapping[str, object]) -> str:
    """The options of a command that select a part, each after a space.

    >>> as_options({"step": 12, "rank": 3})
    ' --rank 3 --step 12'
    """
    return "".join(f" --{name} {n}" for name, n in _in_order(part))


def _in_order(part: Mapping[str, object]) -> list[tuple[str, object]]:
    names = ("run", "rank", "trace", "device", "step")
    return [(name, part[name]) for name in names if part.get(name) is not None]


def check(name: str, number: int, rows: Callable[[str], pl.DataFrame]) -> None:
    """Raise `QueryError`, listing the existing numbers, if a number does not exist."""
    there = rows(_THERE[name]).to_series().to_list()
    if number not in there:
        why = NO_STEPS if name == "step" else f"the database has no {name}s"
        raise no_such_number(f"{name} {number}", there, why)


def no_such_number(
    what: str, there: Sequence[int], why: str = "there are none"
) -> QueryError:
    """The error for an unknown number, which lists the known ones, or says why.

    >>> no_such_number("step 9", [1, 2])
    QueryError('no step 9; available: 1, 2')
    >>> no_such_number("step 9", [6])
    QueryError('no step 9; there is only step 6')
    """
    if not there:
        return QueryError(f"no {what}: {why}")
    noun = what.partition(" ")[0]
    if len(there) == 1:
        return QueryError(f"no {what}; there is only {noun} {there[0]}")
    listed = ", ".join(map(str, there[:_MOST]))
    more = f", ... up to {there[-1]}" if len(there) > _MOST else ""
    return QueryError(f"no {what}; available: {listed}{more}")


def whole_number(value: object) -> int:
    """Convert to an integer; raises `QueryError` for anything else."""
    if not isinstance(value, SupportsIndex):
        raise QueryError(f"{value!r} is not a whole number")
    return index(value)


def _conditions(relation: Relation, name: str) -> dict[str, str]:
    """The condition on a relation, or those on all that it counts, by their names."""
    if name not in _CONDITIONS:
        known = ", ".join(_CONDITIONS)
        raise QueryError(f"answers have no part '{name}'; available: {known}")
    found = _all_conditions(relation, name)
    if not found:
        raise QueryError(_without(relation, name))
    return found


def _all_conditions(relation: Relation, name: str) -> dict[str, str]:
    from .catalog import find

    own = _condition(relation, name)
    # Where a row is a sum, its rank may only be that of an example.
    of_row = {name, f"{name}_id", *(("trace_id",) if name != "run" else ())}
    if own and (not relation.counts or of_row & {*relation.key}):
        return {relation.full_name: own}
    counted = {full: _condition(find(full), name) for full in relation.counts}
    return counted if all(counted.values()) else {}


def _condition(relation: Relation, name: str) -> str:
    """The condition on rows of a relation, with a place for the number; or empty."""
    for column, condition in _CONDITIONS[name].items():
        if column in relation.columns:
            return condition
    by_key = _CONDITIONS_BY_KEY.get(name, {})
    return by_key.get((*relation.key,), "").replace("{1}", relation.name)


def _without(relation: Relation, name: str) -> str:
    """Say that a relation has no such part, and which finer question has.

    >>> from tracedb.catalog import find
    >>> _without(find("question.stuck_collective"), "rank")
    'question.stuck_collective has no ranks to choose from; it has runs; \
question.last_collective has ranks'
    """
    own = [f"{part}s" for part in _CONDITIONS if _all_conditions(relation, part)]
    said = [f"{relation.full_name} has no {name}s to choose from"]
    said += [f"it has {', '.join(own)}"] * bool(own)
    from .catalog import find

    if relation.name.startswith("diff_") and name in _COMPARED:
        said.append(f"`tracedb diff DB --{name} A B` compares single {name}s")
    finer = FINER.get(relation.name)
    if finer and _all_conditions(find(f"question.{finer}"), name):
        said.append(f"question.{finer} has {name}s")
    return "; ".join(said)
