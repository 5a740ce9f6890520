"""Explains why an answer has no rows: what the traces lack.

Most answers are about steps. Which traces have none, and what could mark them, is
printed last.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from tracedb.summary.words import KINDS, WAITS, marks_in_words
from tracedb.words import counted

from .terminal import tell

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    import tracedb

    from .output import Output

_EXPLAINED = KINDS.keys() - {
    *("compute", "communication", "copy", "data_loading", "unexplained", "idle"),
}
"""Kinds of time whose names are not self-explanatory."""
_WIDTH = 80
_RECORDS = "PyTorch's profiler records them"
_NO_STACKS = f"the traces have no Python stacks; {_RECORDS} (with_stack=True)"
_NO_SHAPES = f"the traces have no shapes; {_RECORDS} (record_shapes=True)"
_NO_ALLOCATIONS = f"the traces have no allocations; {_RECORDS} (profile_memory=True)"
_WRITES_SHAPES = (
    "the traces have no shapes; torch.autograd.profiler.emit_nvtx(record_shapes=True) "
    "writes them to the ranges of ops"
)
_OF_RANGES = {"Nsight Systems", "rocprofv3"}
"""Profilers that record PyTorch's ops as ranges."""
_ESTIMATED = (
    "estimated steps have no single allocations; `tracedb estimate` prints the peak "
    "memory, and what is in it"
)
_NO_ADDRESSES = (
    "the allocations have no addresses, as of old versions of PyTorch, so it is "
    "unknown which remain"
)
_NO_NAME = "the traces do not name the GPU, so its peaks are unknown"
_UNLISTED = "no known GPU has this name; `tracedb kernels hardware --add` adds one"
_NEEDS = {
    **dict.fromkeys(
        (
            *("top_kernel", "device_time", "gpu_active", "idle_share", "idle_cause"),
            *("launch_bound", "copy", "kernel_coverage", "kernel_error"),
            *("replayed_op", "exposed_communication", "straggler"),
            *("efficiency", "efficiency_by_op", "efficiency_by_step"),
        ),
        ("gpu_op_count", "this database has no GPU work"),
    ),
    **dict.fromkeys(
        ("memory", "memory_by_step", "memory_at_peak"),
        ("has_memory", _NO_ALLOCATIONS),
    ),
    "overhead_by_op": ("op_count", "this database has no ops, only calls and GPU work"),
    **dict.fromkeys(
        ("module", "module_class", "module_tree", "efficiency_by_module"),
        ("has_stack", _NO_STACKS),
    ),
}
"""What each question needs to have rows, as counted by `question.recording`."""
_OF_COLLECTIVES = (
    *("exposed_communication", "straggler", "collective", "collective_kernel"),
)
_NO_OPERATIONS = "this database has no table of operations (docs/stragglers.md)"
_NO_PLANS = "this database has no sharding plans; `tracedb shard ... --db` writes them"
_OF_NO_TRACE = ("sharding", "sharding_rank", "sharding_table")
"""Questions that need no trace."""
_ON_CPU = (
    "the collectives ran on the CPU, without kernels to time; with several ranks, "
    "`tracedb ask DB straggler` compares them"
)
_OTHER_NEEDS = {
    "compile_time": "this database has no torch.compile regions and no CUDA graphs",
    "compiled_region": "this database has no torch.compile regions",
    "last_collective": "this database has no flight recorder dump (docs/howto.md)",
    "logged_collective": "this database has no log with collective times",
    **dict.fromkeys(
        ("efficiency", "efficiency_by_op", "efficiency_by_step"),
        "this database has no kernels that compute",
    ),
    "kernel_error": "no kernel's time is predicted; `tracedb ask DB kernel_coverage` "
    "has how many are, by family",
    "embedding_table": "this database has no embedding lookups on a GPU",
    "data_loading": "this database has no DataLoader ranges (staging.data_loading)",
    "wait": "no call, thread or GPU work is known to have waited for another",
    "replayed_op": "this database has no launches of CUDA graphs",
    "copy": "this database has no copies on a GPU",
    "launch_bound": "no GPU work started late because of its launch",
    "rank_slack": "no ranks of one run meet in collectives on GPUs",
    "collective": _ON_CPU,
    "collective_kernel": _ON_CPU,
    "ranking": "`tracedb whatif DB` ranks the candidates",
    "job": _NO_OPERATIONS,
}
"""What each question needs to have rows, where no count shows it."""
_OF_STEPS = {
    "host_gap": "the threads of the steps have no ops in them to lie between; "
    "`tracedb ask DB timeline` lists what ran on all threads",
    "prediction_band": "a band takes three steps or more of a trace",
    "step_mark": "the traces have steps: `tracedb ask DB period`",
}
"""What questions about steps lack if there are steps."""
_OF_TRACES = {"overhead": "host_time"}
"""Questions about steps, and the ones that answer the same for traces without steps."""
_OF_OPERATIONS = ("straggler_slowdown", "straggler_recovery", "interleaved_step")
_ONLY_OPERATIONS = (
    "a table of operations has neither ops nor kernels; use `tracedb summary`, or the "
    f"questions {', '.join(_OF_OPERATIONS)}"
)
_OF_LOGS = ("last_collective", "logged_collective")
_ONLY_LOGS = (
    "a log of collectives has neither ops nor kernels; use `tracedb summary`, or the "
    f"questions {', '.join(_OF_LOGS)}, stuck_collective"
)

_ONLY_GRAPHS = (
    "this database has only execution graphs, which have no times: `tracedb estimate "
    "GRAPH.json --gpu A100` estimates a step, and ingest adds the trace of the same run"
)
_NO_TRACES = "this database has no traces: `tracedb ingest` adds them"

_TRACES = """
SELECT trace_id, run_id, CASE WHEN rank >= 0 THEN rank END AS rank
FROM staging.trace
WHERE format <> 'et'
"""
_THREADS = """
SELECT
    thread_id,
    CASE
        WHEN count(*) OVER (PARTITION BY trace_id, role) = 1 THEN role
        -- Kineto's names begin with the number.
        WHEN contains(name, tid) THEN name
        ELSE concat_ws(' ', role, 'thread', tid, '(' || nullif(name, '') || ')')
    END
FROM staging.thread
"""


def write_rows(
    db: tracedb.Database,
    output: Output,
    rows: pl.DataFrame,
    brief: Sequence[str] = (),
    question: str = "",
) -> None:
    """Write the rows of an answer; if it has none, explain why.

    A table has threads by name and traces by rank, no column that is empty throughout,
    and explains the kinds of time.
    """
    if output.format == "table":
        shown = _with_thread_names(db, rows.drop(_hidden_columns(rows)))
        shown = _with_ranks(db, shown)
        empty = [] if rows.is_empty() else _empty_columns(shown, brief)
        output.rows(shown.drop(empty), brief)
        _tell_empty_columns(db, rows, empty)
        _tell_kinds(rows, WAITS if question == "wait" else KINDS)
    else:
        output.rows(rows, brief)
    if rows.is_empty():
        is_of_logs = question == "stuck_collective"
        reason = _why_none_is_stuck(db) if is_of_logs else _reason(db, question)
        if reason:
            tell(reason)
        else:
            tell_missing_steps(db)
            if question in _OF_TRACES:
                tell(f"`tracedb ask DB {_OF_TRACES[question]}` covers whole traces")


def _hidden_columns(rows: pl.DataFrame) -> set[str]:
    """Columns that a table leaves out: redundant ids, and the method `measured`."""
    hidden = {"step_id"} if "step" in rows.columns else set()
    if "method" in rows.columns and set(rows["method"]) == {"measured"}:
        hidden |= {"scenario", "method", "measured_ns"}
    return hidden & {*rows.columns}


def _empty_columns(rows: pl.DataFrame, brief: Sequence[str]) -> list[str]:
    """Columns without a value in any row, among those that a table shows."""
    shown = [name for name in brief if name in rows.columns] or rows.columns
    return [name for name in shown if rows[name].null_count() == rows.height]


def _tell_empty_columns(
    db: tracedb.Database, rows: pl.DataFrame, empty: list[str]
) -> None:
    """Name columns that were left out, and what the traces lack for them."""
    if empty:
        told = (f"empty in all rows: {', '.join(empty)}", *_lacking(db, rows, {*empty}))
        tell("; ".join(told))


def _lacking(
    db: tracedb.Database, rows: pl.DataFrame, empty: set[str]
) -> Iterator[str]:
    """What the traces lack to fill columns."""
    recorded = db.relation("question.recording")
    if "step" in empty and not recorded["step_count"].sum():
        yield "the traces have no steps, so each is shown as a whole"
    if "origin" in rows.columns and set(rows["origin"]) == {"unknown"}:
        yield _NO_ADDRESSES
    elif {"module", "frame"} & empty and not recorded["has_stack"].any():
        yield _by_profiler(_NO_STACKS, recorded)
    if "compute_share" in empty and not recorded["has_shapes"].any():
        yield _by_profiler(_NO_SHAPES, recorded)
    if "hardware" in empty:
        yield _UNLISTED if recorded["gpu"].is_not_null().any() else _NO_NAME


def _with_thread_names(db: tracedb.Database, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the roles, names or numbers of threads instead of their ids."""
    import polars as pl

    if "thread_id" not in rows.columns or rows.is_empty():
        return rows
    named = dict(db.sql(_THREADS).iter_rows())
    threads = [named.get(number) for number in rows["thread_id"]]
    place = rows.columns.index("thread_id")
    column = pl.Series("thread", threads, dtype=pl.String)
    return rows.insert_column(place, column).drop("thread_id", "role", strict=False)


def _with_ranks(db: tracedb.Database, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with ranks instead of traces, where ranks tell these apart.

    The number of the only run, trace or rank is left out.
    """
    import polars as pl

    traces = db.sql(_TRACES)
    hidden = {"run_id"} if traces["run_id"].n_unique() <= 1 else set()
    if traces.height <= 1:
        hidden |= {"trace_id", "rank"}
    elif _is_told_by_rank(traces, of_runs="run_id" in rows.columns):
        hidden |= {"trace_id"}
        if "trace_id" in rows.columns and "rank" not in rows.columns:
            named = dict(traces.select("trace_id", "rank").iter_rows())
            ranks = [named.get(number) for number in rows["trace_id"]]
            place = rows.columns.index("trace_id")
            rows = rows.insert_column(place, pl.Series("rank", ranks, dtype=pl.Int64))
    return rows.drop(hidden, strict=False)


def _is_told_by_rank(traces: pl.DataFrame, *, of_runs: bool) -> bool:
    """Whether each trace has a rank of its own, in its run if `of_runs`."""
    keys = traces.select("run_id", "rank") if of_runs else traces.select("rank")
    return not traces["rank"].null_count() and keys.n_unique() == traces.height


def _tell_kinds(rows: pl.DataFrame, words: dict[str, str]) -> None:
    """Explain the kinds of time in a table, in the table's order."""
    for column in ("kind", "type"):
        if column in rows.columns:
            found = dict.fromkeys(rows[column])
            explained = _EXPLAINED if words is KINDS else words
            said = [f"{kind}: {words[kind]}" for kind in found if kind in explained]
            for line in wrap("; ".join(said), _WIDTH, break_on_hyphens=False):
                tell(line)


def _reason(db: tracedb.Database, question: str) -> str:
    """What the traces lack for a question; empty if that is unknown."""
    recorded = db.relation("question.recording")
    if (of_others := _other_kind(db, recorded, question)) is not None:
        return of_others
    needed, words = _NEEDS.get(question, ("", ""))
    if question.startswith("scenario_"):
        return "no scenario given; use --scenario, or `tracedb whatif`"
    if question in _OF_COLLECTIVES and not recorded["collective_count"].sum():
        return "this database has no collectives"
    if question == "straggler" and recorded.height == 1:
        return "the run has only one rank, so there is nothing to compare"
    if needed and not recorded[needed].sum():
        is_estimated = needed == "has_memory" and _all_estimated(db)
        return _ESTIMATED if is_estimated else _by_profiler(words, recorded)
    known = _OTHER_NEEDS | (_OF_STEPS if recorded["step_count"].sum() else {})
    return known.get(question, "")


def _by_profiler(words: str, recorded: pl.DataFrame) -> str:
    """What is missing, with advice for those who used another profiler."""
    used = set(recorded["profiler"])
    if "PyTorch profiler" in used:
        return words
    if words == _NO_SHAPES and used <= _OF_RANGES:
        return _WRITES_SHAPES
    none = f"files of {' and '.join(sorted(used))} have none that tracedb reads"
    return words.replace(_RECORDS, f"{none}, traces of PyTorch's profiler do")


def _all_estimated(db: tracedb.Database) -> bool:
    return bool(db.relation("staging.recording")["is_estimated"].all())


def _other_kind(
    db: tracedb.Database, recorded: pl.DataFrame, question: str
) -> str | None:
    """What a database without traces of ops has instead; None if it has such traces."""
    if question in _OF_NO_TRACE:
        return _NO_PLANS
    if recorded.is_empty():
        graphs = db.sql("SELECT 1 FROM staging.trace LIMIT 1")
        return _NO_TRACES if graphs.is_empty() else _ONLY_GRAPHS
    if (question in _OF_OPERATIONS) != (set(recorded["profiler"]) == {"operations"}):
        return _NO_OPERATIONS if question in _OF_OPERATIONS else _ONLY_OPERATIONS
    kept = recorded.sum().row(0, named=True)
    if not (kept["op_count"] or kept["gpu_op_count"]) and kept["collective_count"]:
        return _OTHER_NEEDS[question] if question in _OF_LOGS else _ONLY_LOGS
    return None


def _why_none_is_stuck(db: tracedb.Database) -> str:
    if db.relation("question.last_collective").is_empty():
        return _OTHER_NEEDS["last_collective"]
    return (
        "none stuck: all ranks of each group called every collective, and all have "
        "finished"
    )


def tell_missing_steps(db: tracedb.Database, among: set[int] | None = None) -> None:
    """Write which traces have no steps; with `among`, only of these traces.

    Traces that the same could mark, such as the ranks of a run, take one line. So do
    traces without events, for which there is nothing to mark.
    """
    marks = db.ask("step_mark").rows(named=True)
    empty = set(db.info().filter(event_count=0)["trace_id"])
    advice: dict[str, list[str]] = {}
    for trace_id, own in groupby(marks, key=itemgetter("trace_id")):
        if among is None or trace_id in among:
            rows = [*own]
            said = "no events" if trace_id in empty else _no_steps(rows)
            advice.setdefault(said, []).append(rows[0]["path"])
    for said, (first, *more) in advice.items():
        others = f" and {counted(len(more), 'more trace')}" if more else ""
        tell(f"{first}{others}: {said}")


def _no_steps(marks: list[dict[str, Any]]) -> str:
    return f"no steps: {marks_in_words(marks)}"
