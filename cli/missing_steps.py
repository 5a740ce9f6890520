"""Tell the person why an answer has no rows: what the traces lack that it is of.

Most answers are of steps: which traces have none, and what could mark them, comes last.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from textwrap import wrap
from typing import TYPE_CHECKING

from tracedb.summary.words import KINDS, marks_in_words

from .terminal import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    import tracedb

    from .output import Output

_TOLD = KINDS.keys() - {
    *("compute", "communication", "copy", "data_loading", "unexplained", "idle"),
}
"""Kinds of time whose names alone do not say what they are."""
_WIDTH = 80
_NEEDS = {
    **dict.fromkeys(
        (
            *("top_kernel", "device_time", "gpu_active", "idle_share", "idle_cause"),
            *("launch_bound", "copy", "kernel_coverage", "kernel_error"),
            *("replayed_op", "exposed_communication", "straggler"),
            *("efficiency", "efficiency_by_op", "efficiency_by_step"),
        ),
        ("gpu_op_count", "no GPU work in this database"),
    ),
    **dict.fromkeys(
        ("memory", "memory_by_step", "memory_at_peak"),
        ("has_memory", "recorded without allocations (profile_memory=True)"),
    ),
    **dict.fromkeys(
        ("module", "module_tree", "efficiency_by_module"),
        ("has_stack", "recorded without Python stacks (with_stack=True)"),
    ),
}
"""What a question has no rows without, as `question.recording` counts it."""
_OF_COLLECTIVES = (
    *("exposed_communication", "straggler", "collective", "collective_kernel"),
)
_OF_RANGES = {
    **dict.fromkeys(
        ("compile_time", "compiled_region"),
        "no code of torch.compile, nor CUDA graphs, in this database",
    ),
    "last_collective": "no flight recorder's dump in this database (docs/howto.md)",
    "logged_collective": "no log of collectives that were timed in this database",
    **dict.fromkeys(
        ("sharding", "sharding_rank", "sharding_table"),
        "no plans in this database: `tracedb shard ... --db` puts them there",
    ),
    "embedding_table": "no lookups in embedding tables on a GPU in this database",
    "data_loading": "no ranges of a DataLoader in this database (staging.data_loading)",
}
"""What a question has no rows without that no count tells."""
_OF_OPERATIONS = ("straggler_slowdown", "straggler_recovery", "interleaved_step")


def write_rows(
    db: tracedb.Database,
    output: Output,
    rows: pl.DataFrame,
    brief: Sequence[str] = (),
    question: str = "",
) -> None:
    """Write the rows of an answer; if it has none, tell why, of a question by name.

    A table says what short names of kinds of time in it mean.
    """
    if output.format == "table":
        output.rows(rows.drop(_unseen(rows)), brief)
        _tell_kinds(rows)
    else:
        output.rows(rows, brief)
    if rows.is_empty():
        is_of_logs = question == "stuck_collective"
        recorded = db.relation("question.recording")
        reason = _why_none_is_stuck(db) if is_of_logs else _reason(recorded, question)
        if reason:
            tell(reason)
        else:
            tell_missing_steps(db)


def _unseen(rows: pl.DataFrame) -> set[str]:
    """Columns that a person does without: numbers of steps suffice, and measured is."""
    hidden = {"step_id"} if "step" in rows.columns else set()
    if "method" in rows.columns and set(rows["method"]) == {"measured"}:
        hidden |= {"scenario", "method", "measured_ns"}
    return hidden & {*rows.columns}


def _tell_kinds(rows: pl.DataFrame) -> None:
    """Say in words what the kinds of time are that a table has, in its order."""
    for column in ("kind", "type"):
        if column in rows.columns:
            found = dict.fromkeys(rows[column])
            said = [f"{kind}: {KINDS[kind]}" for kind in found if kind in _TOLD]
            for line in wrap("; ".join(said), _WIDTH, break_on_hyphens=False):
                tell(line)


def _reason(recorded: pl.DataFrame, question: str) -> str:
    """What the traces lack that a question is of; nothing where that is not known."""
    needed, words = _NEEDS.get(question, ("", ""))
    if question in _OF_OPERATIONS:
        return "no table of operations of ranks in this database (docs/stragglers.md)"
    if question.startswith("scenario_"):
        return "no scenario was given: --scenario, or `tracedb whatif`"
    if question in _OF_COLLECTIVES and not recorded["collective_count"].sum():
        return "no collectives in this database"
    if question == "straggler" and recorded.height == 1:
        return "one rank alone: nothing to compare it with"
    if question in _OF_RANGES:
        return _OF_RANGES[question]
    return words if needed and not recorded[needed].sum() else ""


def _why_none_is_stuck(db: tracedb.Database) -> str:
    if db.relation("question.last_collective").is_empty():
        return _OF_RANGES["last_collective"]
    return "none: every collective was called by all ranks of its group, and is over"


def tell_missing_steps(db: tracedb.Database, among: set[int] | None = None) -> None:
    """Tell so a line a trace, of all traces or of those whose numbers are given."""
    marks = db.ask("step_mark").rows(named=True)
    for trace_id, own in groupby(marks, key=itemgetter("trace_id")):
        if among is None or trace_id in among:
            rows = [*own]
            tell(f"{rows[0]['path']}: no steps: {marks_in_words(rows)}")
