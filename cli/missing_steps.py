"""Tell the person why an answer has no rows: what the traces lack that it is of.

Most answers are of steps: which traces have none, and what could mark them, comes last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .terminal import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    import tracedb

    from .output import Output

_MOST_MARKS = 3
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
_QUERY = """
SELECT
    trace_id,
    path,
    list(mark ORDER BY total_ns DESC, mark) FILTER (suits = 'mark') AS marks,
    list(mark ORDER BY occurrences, total_ns DESC, mark) FILTER (suits = 'from')
    AS begins
FROM staging.trace
LEFT JOIN staging.step_mark USING (trace_id)
WHERE
    format = 'kineto'
    AND trace_id NOT IN (SELECT trace_id FROM staging.step)
    AND trace_id NOT IN (SELECT trace_id FROM staging.operation)
    AND trace_id NOT IN (SELECT trace_id FROM staging.logged_collective)
GROUP BY trace_id, path
ORDER BY trace_id
"""


def write_rows(
    db: tracedb.Database,
    output: Output,
    rows: pl.DataFrame,
    brief: Sequence[str] = (),
    question: str = "",
) -> None:
    """Write the rows of an answer; if it has none, tell why, of a question by name."""
    output.rows(rows, brief)
    if rows.is_empty():
        is_of_logs = question == "stuck_collective"
        recorded = db.relation("question.recording")
        reason = _why_none_is_stuck(db) if is_of_logs else _reason(recorded, question)
        if reason:
            tell(reason)
        else:
            tell_missing_steps(db)


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
    for trace_id, path, marks, begins in db.connection.execute(_QUERY).fetchall():
        if among is not None and trace_id not in among:
            continue
        # Ranges that cover steps say more than those that they begin with.
        option, names = ("mark", marks) if marks else ("from", begins or [])
        found = ", ".join(f"'{name}'" for name in names[:_MOST_MARKS])
        hint = (
            f"for --step-{option} there is {found}" if found else "nothing marks them"
        )
        tell(f"{path}: no steps: {hint}")
