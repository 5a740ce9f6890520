"""Why an answer has no rows, or no values in a column: what the traces lack.

Most answers are about steps. Which traces have none, and what could mark them, is
the last reason.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tracedb.summary.words import NO_STEPS, NOTHING_MARKS, marks_in_words
from tracedb.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from tracedb.database import Database

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
    **dict.fromkeys(
        ("overhead_by_op", "phase", "phase_by_step"),
        ("op_count", "this database has no ops, only calls and GPU work"),
    ),
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
_NO_PIPELINE = (
    "no ranks send to each other on GPUs in steps, and no table of operations has "
    "several stages"
)
_NO_PLANS = "this database has no sharding plans; `tracedb shard ... --db` writes them"
_OF_NO_TRACE = ("sharding", "sharding_rank", "sharding_table")
"""Questions that need no trace."""
_ON_CPU = (
    "the collectives ran on the CPU, without kernels to time; with several ranks, "
    "`tracedb ask DB straggler` compares them"
)
_ONE_RANK = "the run has only one rank, so there is nothing to compare"
_NO_PEERS = (
    "which ranks sends and receives on the CPU reach is not known; PyTorch's profiler "
    "records it with shapes (record_shapes=True)"
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


def why_empty(db: Database, question: str) -> Iterator[str]:
    """Why a question has no rows, in sentences for people."""
    is_of_logs = question == "stuck_collective"
    reason = _why_none_is_stuck(db) if is_of_logs else _reason(db, question)
    if reason:
        yield reason
        return
    yield from without_steps(db)
    if question in _OF_TRACES:
        yield f"`tracedb ask DB {_OF_TRACES[question]}` covers whole traces"


def elsewhere(rows: int) -> str:
    """Why a part of an answer that has rows has none."""
    return f"the answer has {counted(rows, 'row')} in all, none of this part"


def lacking(db: Database, rows: pl.DataFrame, empty: set[str]) -> Iterator[str]:
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


def _reason(db: Database, question: str) -> str:
    """What the traces lack for a question; empty if that is unknown."""
    recorded = db.relation("question.recording")
    if (of_others := _other_kind(db, recorded, question)) is not None:
        return of_others
    needed, words = _NEEDS.get(question, ("", ""))
    if question.startswith("scenario_"):
        return "no scenario given; `tracedb whatif` takes some"
    if question in _OF_COLLECTIVES and not recorded["collective_count"].sum():
        return "this database has no collectives"
    if question == "straggler" and (alone := _alone(db, recorded)):
        return alone
    if needed and not recorded[needed].sum():
        is_estimated = needed == "has_memory" and _all_estimated(db)
        return _ESTIMATED if is_estimated else _by_profiler(words, recorded)
    known = _OTHER_NEEDS | (_OF_STEPS if recorded["step_count"].sum() else {})
    return known.get(question, "")


def _alone(db: Database, recorded: pl.DataFrame) -> str:
    """Why no rank is known to meet another; empty if that is unknown."""
    if recorded.height == 1:
        return _ONE_RANK
    lost = db.sql("SELECT 1 FROM staging.posted_message WHERE sender IS NULL LIMIT 1")
    return _NO_PEERS if lost.height else ""


def _by_profiler(words: str, recorded: pl.DataFrame) -> str:
    """What is missing, with advice for those who used another profiler."""
    used = set(recorded["profiler"])
    if "PyTorch profiler" in used:
        return words
    if words == _NO_SHAPES and used <= _OF_RANGES:
        return _WRITES_SHAPES
    none = f"files of {' and '.join(sorted(used))} have none that tracedb reads"
    return words.replace(_RECORDS, f"{none}, traces of PyTorch's profiler do")


def _all_estimated(db: Database) -> bool:
    return bool(db.relation("staging.recording")["is_estimated"].all())


def _other_kind(db: Database, recorded: pl.DataFrame, question: str) -> str | None:
    """What a database without traces of ops has instead; None if it has such traces."""
    if question in _OF_NO_TRACE:
        return _NO_PLANS
    if recorded.is_empty():
        graphs = db.sql("SELECT 1 FROM staging.trace LIMIT 1")
        return _NO_TRACES if graphs.is_empty() else _ONLY_GRAPHS
    if question == "pipeline_bubble":
        return _NO_PIPELINE
    if (question in _OF_OPERATIONS) != (set(recorded["profiler"]) == {"operations"}):
        return _NO_OPERATIONS if question in _OF_OPERATIONS else _ONLY_OPERATIONS
    kept = recorded.sum().row(0, named=True)
    if not (kept["op_count"] or kept["gpu_op_count"]) and kept["collective_count"]:
        return _OTHER_NEEDS[question] if question in _OF_LOGS else _ONLY_LOGS
    return None


def _why_none_is_stuck(db: Database) -> str:
    if db.relation("question.last_collective").is_empty():
        return _OTHER_NEEDS["last_collective"]
    return (
        "none stuck: all ranks of each group called every collective, and all have "
        "finished"
    )


def without_steps(db: Database, among: set[int] | None = None) -> Iterator[str]:
    """Which traces have no steps; with `among`, only of these traces.

    Traces that the same could mark, such as the ranks of a run, take one line. So do
    traces without events, and without any that could mark steps.
    """
    marks = db.ask("step_mark").rows(named=True)
    said_of = dict.fromkeys(_without_work(db), NO_STEPS)
    said_of |= dict.fromkeys(_of_devices_alone(db), f"no steps: {NOTHING_MARKS}")
    empty = db.info().filter(event_count=0)["trace_id"]
    said_of |= dict.fromkeys(empty, "no events")
    advice: dict[str, list[str]] = {}
    for trace_id, own in groupby(marks, key=itemgetter("trace_id")):
        if among is None or trace_id in among:
            rows = [*own]
            said = said_of.get(trace_id) or _no_steps(rows)
            advice.setdefault(said, []).append(rows[0]["path"])
    for said, (first, *more) in advice.items():
        others = f" and {counted(len(more), 'more trace')}" if more else ""
        yield f"{first}{others}: {said}"


def _without_work(db: Database) -> list[int]:
    """Traces without ops, user ranges and GPU work: there is nothing to mark."""
    none = dict.fromkeys(("op_count", "range_count", "gpu_op_count"), 0)
    recorded = db.relation("question.recording")
    return recorded.filter(other_task_count=0, **none)["trace_id"].to_list()


def _of_devices_alone(db: Database) -> list[int]:
    """Traces of GPU work without any host thread."""
    recorded = db.relation("question.recording").filter(thread_count=0)
    return recorded.remove(gpu_op_count=0)["trace_id"].to_list()


def _no_steps(marks: list[dict[str, Any]]) -> str:
    return f"no steps: {marks_in_words(marks)}"
