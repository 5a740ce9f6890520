"""The selection of an edit: its target, and the fields that narrow it.

`prediction.chosen_span` and `prediction.chosen_work` apply it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import msgspec

from tracedb.duck import scalar
from tracedb.pattern import wrong_pattern
from tracedb.words import counted, shortened

if TYPE_CHECKING:
    import duckdb

Target = Literal["host", "gpu", "op", "wait", "delay", "profiler"]
Phase = Literal[
    "data_loading",
    "inference",
    "forward",
    "backward",
    "gradients",
    "optimizer",
    "other",
]
Part = Literal["self"]
Number = Annotated[int, msgspec.Meta(ge=0, le=10**18 - 1)] | str
"""A number, or several as text: `3..5`, or `1,3..5`."""

TYPES = {
    "host": ("T1", "T2", "T3", "T4", "T5", "idle", "wait_data"),
    "gpu": ("kernel", "memcpy", "memset", "collective", "other"),
    "op": (),
    "wait": ("host", "thread", "rank", "stream"),
    "delay": ("launch", "stream", "stream_wait", "return", "thread"),
    "profiler": (),
}
"""The targets, with their types."""

TEXTS = (
    *("name", "op", "annotation", "function", "shape", "module", "family"),
    *("process_group", "awaited", "awaited_op", "thread"),
)
"""The fields that select by a pattern."""
NUMBERS = (
    *("instance", "step", "rank", "stream", "device", "awaited_stream"),
    *("awaited_device", "node"),
)
"""The fields that select by numbers."""
FIELDS = (*TEXTS, "part", "phase", *NUMBERS, "sql")
"""All fields that select."""

_ON_STREAMS = ("stream", "device", "process_group")
_AWAITED = ("awaited", "awaited_op", "awaited_stream", "awaited_device")
"""The fields that select waits by what is awaited."""
_OF_STREAMS = {
    ("gpu", None),
    *(("gpu", type_) for type_ in TYPES["gpu"]),
    ("wait", "stream"),
    *(("delay", type_) for type_ in ("launch", "stream", "stream_wait")),
}
_WAITS_OF_STREAMS = (("wait", "stream"), ("delay", "stream_wait"))
_UNGROUPED = ("memcpy", "memset")
_UNNAMED = {
    ("host", "T1"),
    ("host", "idle"),
    ("wait", "thread"),
    ("wait", "rank"),
    ("delay", "thread"),
}
_NUMBERS = re.compile(r"\d{1,18}(\.\.\d{1,18})?(,\d{1,18}(\.\.\d{1,18})?)*")

_MOST_NODES = 1_000_000
_PHASES = """
SELECT phase FROM graph.phase UNION SELECT 'data_loading' FROM staging.data_loading
"""

A_PATTERN = (
    "a pattern: * matches any text, ? one character, /.../ is a regular expression"
)
_A_NUMBER = 'a whole number, or a text such as "3..5" or "1,3..5"'
WANTED = {
    "target": f"one of {', '.join(TYPES)}",
    "type": "a text",
    **dict.fromkeys(TEXTS, A_PATTERN),
    "part": "self: the time of ops without the ops in them",
    "phase": f"one of {', '.join(get_args(Phase))}",
    **dict.fromkeys(NUMBERS, _A_NUMBER),
    "sql": "a query whose first column holds numbers of graph.node",
}
"""What each field must be, for messages."""


class Selection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The selection of an edit; `prediction.scenario_edit` documents the fields."""

    target: Target
    type: str | None = None
    name: str | None = None
    op: str | None = None
    annotation: str | None = None
    function: str | None = None
    shape: str | None = None
    module: str | None = None
    family: str | None = None
    process_group: str | None = None
    awaited: str | None = None
    awaited_op: str | None = None
    awaited_stream: Number | None = None
    awaited_device: Number | None = None
    thread: str | None = None
    part: Part | None = None
    phase: Phase | None = None
    instance: Number | None = None
    step: Number | None = None
    rank: Number | None = None
    stream: Number | None = None
    device: Number | None = None
    node: Number | None = None
    sql: str | None = None


def is_expression(pattern: str) -> bool:
    """Whether a pattern is a regular expression, between slashes.

    >>> is_expression("/gemm|conv/"), is_expression("*gemm*")
    (True, False)
    """
    return len(pattern) > len("//") and pattern[0] == pattern[-1] == "/"


def used(selection: Selection) -> list[str]:
    """The given fields, without target and type."""
    return [field for field in FIELDS if getattr(selection, field) is not None]


def wrong_selection(selection: Selection) -> str | None:
    """What is wrong with a selection, if anything."""
    target, type_ = selection.target, selection.type
    known = TYPES[target]
    if type_ is not None and type_ not in known:
        listed = f"available: {', '.join(known)}" if known else "remove it"
        return f"no type {type_} of {target}; {listed}"
    return (
        _wrong_fields(selection)
        or next(
            filter(None, (wrong_expression(f, getattr(selection, f)) for f in TEXTS)),
            None,
        )
        or next(filter(None, (_wrong_numbers(selection, f) for f in NUMBERS)), None)
    )


def _wrong_fields(selection: Selection) -> str | None:
    """Which field does not apply to the target."""
    target, type_, fields = selection.target, selection.type, used(selection)
    what = target if type_ is None else f"{target} of type {type_}"
    if target == "profiler" and fields:
        return f"profiler is selected as a whole; remove {fields[0]}"
    if (target, type_) in _UNNAMED:
        for field in ("name", "op", "shape"):
            if field in fields:
                return f"{what} has no op and no name; remove {field}"
    wrong = _wrong_on_streams(selection, what)
    if wrong:
        return wrong
    if "family" in fields and target != "gpu":
        return f"{what} has no family of GPU work; remove family"
    return _wrong_together(selection)


def _wrong_on_streams(selection: Selection, what: str) -> str | None:
    """Which field applies only to work on streams."""
    target, type_, fields = selection.target, selection.type, used(selection)
    for field in _ON_STREAMS:
        if field in fields and (target, type_) not in _OF_STREAMS:
            return f"{what} is on no {_STREAMLIKE[field]}; remove {field}"
    if "process_group" in fields and target == "gpu" and type_ in _UNGROUPED:
        return f"{what} has no process group; remove process_group"
    awaited = next((field for field in _AWAITED if field in fields), None)
    if awaited and (target, type_) not in _WAITS_OF_STREAMS:
        return f"{awaited} is for wait:stream and delay:stream_wait; add the type"
    return None


def _wrong_together(selection: Selection) -> str | None:
    """Which fields do not go together."""
    if selection.target == "op" and selection.op is not None:
        return "ops are selected by name; remove op"
    if selection.node is not None and selection.sql is not None:
        return "node and sql both select nodes; remove one"
    if selection.part is not None and not _chooses_ops(selection):
        return "part applies to ops: select them by op or shape, or remove part"
    return None


def _chooses_ops(selection: Selection) -> bool:
    """Whether it selects ops, or by ops."""
    of_ops = selection.op, selection.shape
    return selection.target == "op" or any(field is not None for field in of_ops)


_STREAMLIKE = {
    "stream": "stream",
    "device": "device",
    "process_group": "device, and in no process group",
}


def wrong_expression(field: str, pattern: str | None) -> str | None:
    """What is wrong with a field's regular expression, if it is one."""
    if pattern is None or not is_expression(pattern):
        return None
    wrong = wrong_pattern(pattern[1:-1])
    return wrong and f"{field} {pattern} {wrong}"


def _wrong_numbers(selection: Selection, field: str) -> str | None:
    given = getattr(selection, field)
    if given is None:
        return None
    if not _NUMBERS.fullmatch(str(given)):
        return f'{field} is "{given}"; it must be {_A_NUMBER}'
    for low, high in ranges(given):
        if low > high:
            return f"{field} is {given}, but {low} is above {high}; swap them"
    nodes = sum(high - low + 1 for low, high in ranges(given))
    if field == "node" and nodes > _MOST_NODES:
        return (
            f"node has {nodes:,} numbers; to select more than {_MOST_NODES:,}, use sql"
        )
    return None


def ranges(given: Number) -> list[tuple[int, int]]:
    """The ranges of a numeric field.

    >>> ranges("1,3..5")
    [(1, 1), (3, 5)]
    """
    found = []
    for part in str(given).split(","):
        low, _, high = part.partition("..")
        found.append((int(low), int(high or low)))
    return found


_NOUNS = {
    "host": "host time",
    "gpu": "GPU work",
    "op": "op",
    "profiler": "event of the profiler",
    "wait": "wait",
    "delay": "delay",
}
_NUMBERS_THERE = {
    "step": "SELECT DISTINCT step FROM staging.step",
    "rank": "SELECT DISTINCT rank FROM staging.trace",
    "stream": "SELECT DISTINCT stream FROM staging.gpu_op",
    "device": "SELECT DISTINCT device FROM staging.gpu_op",
    "awaited_stream": "SELECT DISTINCT stream FROM graph.gpu_awaited "
    "INNER JOIN staging.gpu_op AS work ON awaited_gpu_op_id = work.gpu_op_id",
    "awaited_device": "SELECT DISTINCT device FROM graph.gpu_awaited "
    "INNER JOIN staging.gpu_op AS work ON awaited_gpu_op_id = work.gpu_op_id",
}
_NODES_THERE = """
SELECT count(*)
FROM (
    SELECT unnest(nodes) AS node_id
    FROM prediction.scenario_edit
    WHERE scenario = ? AND position = ?
)
SEMI JOIN graph.node USING (node_id)
"""
_NO_NODES = {
    "node": "; graph.node has no such number",
    "sql": "; it returns no number of graph.node",
}
_TYPES_THERE = {
    "host": "SELECT DISTINCT type FROM prediction.editable_span "
    f"WHERE type IN {TYPES['host']}",
    "gpu": "SELECT DISTINCT CASE WHEN is_collective THEN 'collective' ELSE kind END "
    "FROM staging.gpu_op",
}
_TEXTS_OF = {
    "host": ("op", "call"),
    "gpu": ("gpu_op",),
    "op": ("op",),
    "wait": ("call", "gpu_op"),
    "delay": ("call", "gpu_op"),
}
_ELSEWHERE = {
    "family": (
        "a family of kernels",
        "SELECT family AS text FROM prediction.kernel_roofline",
    ),
    "op": ("an op", "SELECT name AS text FROM staging.op WHERE NOT is_annotation"),
    "annotation": ("a range", "SELECT name AS text FROM staging.annotation"),
    "module": ("a module", "SELECT path AS text FROM staging.module_call"),
    "function": (
        "a Python function",
        "SELECT split_part(name, ' (', 1) AS text FROM staging.python_frame",
    ),
}
"""Other fields that a pattern may have been meant for, and their texts."""
_SELECTED = """
SELECT CASE WHEN text GLOB $pattern THEN $pattern ELSE text END
FROM ({known})
WHERE text GLOB $pattern OR contains(lower(text), $bare)
ORDER BY text GLOB $pattern DESC, length(text), text
LIMIT 1
"""
"""A pattern if it selects any text, otherwise the shortest text that contains it."""
_INNER_ALONE = """
SELECT bool_and(op_id <> top_op_id)
FROM staging.op
WHERE NOT is_annotation AND name IN (
    SELECT text FROM prediction.edit_text
    WHERE scenario = ? AND edit = ? AND field = 'name'
)
"""
_WITHOUT_FAMILY = (
    "SELECT count(*) FROM staging.gpu_op "
    "LEFT JOIN prediction.kernel_roofline USING (gpu_op_id) "
    "WHERE family IS NULL AND kind = 'kernel'"
)
_ANY_ON_GPUS = "SELECT count(*) > 0 FROM staging.collective WHERE NOT is_on_cpu"
_ON_CPU = """
SELECT min(split_part(op.name, ':', 1))
FROM staging.process_group_op
INNER JOIN staging.op AS op USING (op_id)
"""
_LATE_ON_GPUS = (
    "; on GPUs, kernels wait for late ranks, not threads: for a job without late "
    "ranks, use 'host ideal' and 'gpu ideal'"
)
_NONE_THERE = {
    "function": "; functions outside PyTorch are recorded with with_stack=True",
    "family": "; a family follows from the op that launches the work, and its shapes, "
    "which is known of none here (replayed CUDA graphs have no ops): record it with "
    "record_shapes=True, without graphs, or change times by name (gpu:NAME x0.5)",
}
"""Hints at fields of which a database has no text at all."""
_LISTED_AS = {"module": "module_class", "awaited": "gpu_op", "awaited_op": "op"}
"""Kinds of text that hints list for a field: of modules, equal ones together."""
_MOST_NEAR = 3
_MOST_READ = 50
_WIDEST = 60
_MOST_NUMBERS = 8
_LOOKS_LIKE_EXPRESSION = re.compile(r"\.[*+]|\(\?|[|\\^$]|\[.+\]")


def selected(selection: Selection) -> str:
    """A description of the selection."""
    of_type = "" if selection.type is None else f" of type {selection.type}"
    fields = [f"{field} {getattr(selection, field)}" for field in used(selection)]
    by = f" with {' and '.join(fields)}" if fields else ""
    return f"{_NOUNS[selection.target]}{of_type}{by}"


def near_misses(
    connection: duckdb.DuckDBPyConnection, edit: tuple[str, int], selection: Selection
) -> str:
    """A hint at what a selection without matches may have meant."""
    for field in used(selection):
        if field in TEXTS and not _matches_text(connection, edit, field):
            return _near_texts(connection, selection, field)
        near = _near(connection, edit, selection, field)
        if near:
            return near
    if selection.instance is not None:
        return "; in no step do so many match otherwise"
    if selection.name is not None and scalar(connection, _INNER_ALONE, [*edit]):
        hint = _elsewhere(connection, selection, "name")
        return f"; it runs only within other ops{hint}"
    if used(selection):
        return "; each of these exists, but not together"
    return _near_types(connection, selection)


def _near(
    connection: duckdb.DuckDBPyConnection,
    edit: tuple[str, int],
    selection: Selection,
    field: str,
) -> str:
    """A hint at the existing values of a field without a pattern, if none matches."""
    if field in _NUMBERS_THERE:
        return _near_numbers(connection, selection, field)
    if field in _NO_NODES and not scalar(connection, _NODES_THERE, [*edit]):
        return _NO_NODES[field]
    if field == "phase" and selection.phase == "data_loading":
        return "; fetching batches is host:wait_data"
    if field == "phase":
        rows = connection.execute(_PHASES).fetchall()
        there = sorted(phase for (phase,) in rows)
        if selection.phase not in there:
            return (
                f"; available: phase {', '.join(there)}"
                if there
                else "; there is no phase"
            )
    return ""


def _matches_text(
    connection: duckdb.DuckDBPyConnection, edit: tuple[str, int], field: str
) -> bool:
    """Whether a field's pattern matches any text in the database."""
    query = (
        "SELECT count(*) FROM prediction.edit_text "
        "WHERE scenario = ? AND edit = ? AND field = ?"
    )
    return bool(scalar(connection, query, [*edit, field]))


def _near_texts(
    connection: duckdb.DuckDBPyConnection, selection: Selection, field: str
) -> str:
    """A hint at texts that contain a pattern, or are spelt similarly."""
    pattern = getattr(selection, field)
    kinds = (
        _TEXTS_OF[selection.target]
        if field == "name"
        else (_LISTED_AS.get(field, field),)
    )
    value = {"kinds": [*kinds], "bare": _bare(pattern)}
    known = (
        "SELECT DISTINCT text FROM prediction.known_text "
        "WHERE list_contains($kinds::VARCHAR[], text_kind)"
    )
    within = f"{known} AND contains(lower(text), $bare) ORDER BY text"
    count = scalar(connection, f"SELECT count(*) FROM ({within})", value)
    alike = "jaro_winkler_similarity(lower(text), $bare)"
    query = within if count else f"FROM ({known}) ORDER BY {alike} DESC, text"
    rows = connection.execute(f"{query} LIMIT {_MOST_READ}", value).fetchall()
    # Instances of a template may be the same name when they are cut.
    near = [*dict.fromkeys(shortened(text, _WIDEST) for (text,) in rows)]
    if not near:
        none = "none at all" if field == "name" else f"there is no {field}"
        return _NONE_THERE.get(field, f"; {none}")
    listed = ", ".join(near[:_MOST_NEAR])
    verb = "contains" if count == 1 else "contain"
    reported = f"{count} {verb} it:" if count else "nearest:"
    return (
        f"; {reported} {listed}{_hint(connection, selection, field)}"
        f"{_of_no_family(connection) if field == 'family' else ''}"
    )


def _of_no_family(connection: duckdb.DuckDBPyConnection) -> str:
    """A hint at kernels whose family is unknown."""
    count = scalar(connection, _WITHOUT_FAMILY)
    if not count:
        return ""
    return (
        f"; the family of {counted(count, 'kernel')} is unknown, because it follows "
        "from the op that launches them, and its shapes: select these by name "
        "(`tracedb ask DB top_kernel` lists names)"
    )


def _hint(
    connection: duckdb.DuckDBPyConnection, selection: Selection, field: str
) -> str:
    """A hint at how to write a regular expression, or at another field."""
    pattern = getattr(selection, field)
    if not is_expression(pattern) and _LOOKS_LIKE_EXPRESSION.search(pattern):
        return f" (write a regular expression between slashes: /{pattern}/)"
    return _elsewhere(connection, selection, field)


def _elsewhere(
    connection: duckdb.DuckDBPyConnection, selection: Selection, field: str
) -> str:
    """A hint at another field for a pattern, if it may have been meant for that."""
    pattern = getattr(selection, field)
    for other, (thing, known) in ({} if field in _AWAITED else _ELSEWHERE).items():
        moved = msgspec.structs.replace(selection, **{field: None, other: pattern})
        is_free = getattr(selection, other) is None and wrong_selection(moved) is None
        value = {"pattern": pattern, "bare": _bare(pattern)}
        query = _SELECTED.format(known=known)
        found = connection.execute(query, value).fetchone() if is_free else None
        if found:
            written = f'"{found[0]}"' if " " in found[0] else found[0]
            return f" (for {thing}: {other}={written})"
    return ""


def _bare(pattern: str) -> str:
    """The text in a pattern that a near miss contains."""
    return pattern.strip("*/").lower()


def _near_numbers(
    connection: duckdb.DuckDBPyConnection, selection: Selection, field: str
) -> str:
    """A hint at the existing numbers, if none is selected."""
    wanted = ranges(getattr(selection, field))
    rows = connection.execute(f"{_NUMBERS_THERE[field]} ORDER BY ALL").fetchall()
    there = [int(number) for (number,) in rows if number is not None]
    if any(low <= number <= high for number in there for low, high in wanted):
        return ""
    if not there:
        return f"; no {field} is known"
    shown = [*map(str, there[:_MOST_NUMBERS])]
    more = [f"... {there[-1]}"] if len(there) > _MOST_NUMBERS else []
    return f"; available: {field} {', '.join([*shown, *more])}"


def _near_types(connection: duckdb.DuckDBPyConnection, selection: Selection) -> str:
    """A hint at the existing types of a target."""
    target = selection.target
    if (target, selection.type) == ("wait", "rank"):
        return _LATE_ON_GPUS if scalar(connection, _ANY_ON_GPUS) else ""
    if (target, selection.type) == ("gpu", "collective"):
        backend = scalar(connection, _ON_CPU)
        if backend is not None:
            return (
                "; collectives are on the CPU here, so their time is the host's: "
                f"'host name={backend}:* x0.5'"
            )
    if target not in _TYPES_THERE:
        return ""
    rows = connection.execute(_TYPES_THERE[target]).fetchall()
    listed = ", ".join(sorted(name for (name,) in rows))
    return f"; available: {listed}" if listed else ""
