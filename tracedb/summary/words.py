"""The words of a summary for each kind of time, and for each doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tracedb.words import counted, duration, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Row = dict[str, Any]


@dataclass(frozen=True)
class Lever:
    """The meaning of a part of the critical path, and the command that shows more."""

    on_gpu: str
    on_cpu: str
    command: str


LEVERS = {
    "compute": Lever(
        "is GPU kernels running",
        "is GPU kernels running",
        "tracedb ask {db} top_kernel",
    ),
    "communication": Lever(
        "is data moving between ranks",
        "is data moving between ranks",
        "tracedb ask {db} exposed_communication",
    ),
    "rank_wait": Lever(
        "is waiting for late ranks",
        "is waiting for late ranks",
        "tracedb ask {db} straggler",
    ),
    "copy": Lever(
        "is copies and memsets",
        "is copies and memsets",
        "tracedb ask {db} copy",
    ),
    "dispatch": Lever(
        "is the host running ops and launching their work",
        "is ops on the CPU",
        "tracedb ask {db} overhead_by_op",
    ),
    "python": Lever(
        "is the host between ops",
        "is the host between ops",
        "tracedb ask {db} host_gap",
    ),
    "data_loading": Lever(
        "is data loading",
        "is data loading",
        "tracedb ask {db} data_loading",
    ),
    "sync": Lever(
        "is the host waiting for the GPU, and returning from waits",
        "is the host waiting",
        "tracedb ask {db} wait",
    ),
    "gpu_wait": Lever(
        "is gaps between GPU work that was launched in time",
        "is gaps between GPU work that was launched in time",
        "tracedb ask {db} idle_cause",
    ),
    "unexplained": Lever(
        "has no cause in the trace: it started earlier, or was not recorded",
        "has no cause in the trace: it started earlier, or was not recorded",
        "tracedb critical-path {db} --intervals",
    ),
}

EARLIER_WORK = (
    " GPUs still ran work that was launched before the recording: record some more "
    "steps, and look at a later one (`--step`)."
)
"""Why work at the start of a recording has no cause, and what to do."""

_OF_HOST = ("dispatch", "python")
_WAITS, _IS_BUSY = 0.1, 0.9
"""Shares of host time up to which the GPU waits, and from which it is busy."""


class Known(NamedTuple):
    """What is known of a run, which decides on the words for its levers."""

    on_gpu: bool
    """Whether it ran work on a GPU."""
    has_ops: bool
    has_stacks: bool
    """Whether Python functions were recorded: only then is it known to be in Python."""


def lever_words(row: Row, known: Known) -> str:
    """A lever in words; for host time, also what the GPU does meanwhile.

    >>> row = dict(lever="python", time_ns=100, busy_ns=40)
    >>> lever_words(row, Known(on_gpu=True, has_ops=True, has_stacks=True))
    'is the host between ops, in Python; the GPU is busy 40.0 % of that time'
    >>> lever_words(row, Known(on_gpu=False, has_ops=True, has_stacks=False))
    'is the host between ops, in code that was not recorded'
    >>> lever_words(row | {"place": None}, Known(False, has_ops=True, has_stacks=True))
    'is the host between ops, in code that was not recorded'
    >>> lever_words(row, Known(on_gpu=False, has_ops=False, has_stacks=False))
    'is the host between calls'
    """
    name, on_gpu = row["lever"], known.on_gpu
    words = LEVERS[name].on_gpu if on_gpu else LEVERS[name].on_cpu
    if not known.has_ops:
        words = _WITHOUT_OPS.get(name, words)
    elif name == "python":
        # Even with stacks, a thread may have no Python functions.
        is_known = known.has_stacks and row.get("place", "") is not None
        inside = "Python" if is_known else "code that was not recorded"
        words = f"{words}, in {inside}"
    if not on_gpu or name not in _OF_HOST:
        return words
    busy = busy_share(row)
    if busy <= _WAITS:
        return f"{words}, while the GPU waits"
    text = f"{words}; the GPU is busy {share(busy)} of that time"
    if name == "python" and busy >= _IS_BUSY:
        text += ", so the host may be waiting for the GPU without a record of it"
    return text


def lever_command(row: Row, known: Known, *, has_gaps: bool) -> str:
    """The command to run next; if the GPU is busy throughout, the one about the GPU.

    Without ops on the threads of the steps, there are no gaps between them. What is
    exposed is a question about GPUs.
    """
    if row["lever"] == "communication" and not known.on_gpu:
        return LEVERS["unexplained"].command
    if row["lever"] == "dispatch" and not known.has_ops:
        return "tracedb overheads {db}"
    if row["lever"] == "python" and not has_gaps:
        return "tracedb ask {db} timeline"
    hides = row["lever"] in _OF_HOST and busy_share(row) >= _IS_BUSY
    return LEVERS["compute" if hides else row["lever"]].command


def busy_share(row: Row) -> float:
    """The share of a lever's time in which a device was busy."""
    return float(row["busy_ns"] / row["time_ns"]) if row["time_ns"] else 0.0


_WITHOUT_OPS = {
    "dispatch": "is the host launching work",
    "python": "is the host between calls",
}

KINDS = {
    "compute": "kernels",
    "communication": "collectives only",
    "copy": "copies only",
    "host_op": "host in ops",
    "launch": "launch calls",
    "host_gap": "host between ops",
    "data_loading": "data loading",
    "wait": "host waiting",
    "launch_delay": "launch latency",
    "stream_gap": "gaps between kernels",
    "stream_wait": "waiting for another stream",
    "occupancy": "GPU fully occupied",
    "unexplained": "no cause found",
    "before_trace": "cause before the trace",
    "return": "returning from a wait",
    "rank_wait": "waiting for late ranks",
    "absent_rank_wait": "waiting for ranks not in the run",
    "T1": "between ops",
    "T2": "ops before a launch",
    "T3": "ops after launches",
    "T4": "launch calls",
    "T5": "ops between or without launches",
    "wait_stream": "stream sync",
    "wait_device": "device sync",
    "wait_event": "event sync",
    "wait_copy": "blocking copies",
    "wait_queue": "full queue",
    "wait_thread": "waiting for other threads",
    "wait_rank": "waiting for other ranks",
    "wait_data": "data loading",
    "idle": "idle",
    "idle_python": "in Python before or after ops",
}
WAITS = {
    "sync_stream": "stream sync",
    "sync_device": "device sync",
    "sync_event": "event sync",
    "copy": "blocking copy",
    "queue": "full queue",
    "stream_wait": "another stream",
    "occupancy": "no room on the device",
    "join": "another thread",
    "collective": "another rank",
}
"""The names of waits, by the kind of edge (`graph.edge`)."""
WORDS = {
    **KINDS,
    "communication": "data moving between ranks",
    "copy": "copies and memsets",
    "dispatch": "host running ops and launching their work",
    "python": "host between ops",
    "sync": "host waiting for the GPU",
    "gpu_wait": "gaps between GPU work",
    "estimated": "estimated, never ran",
    "repaired": "repaired or left out",
    "lost_work": "launches without GPU work",
    "lost_launch": "GPU ops without a launch",
    "overlapping": "overlaps on a stream",
    "overrun": "ends after later work",
    "gpu_clock": "clock differences of GPUs",
    "early_work": "work before its launch",
    "early_return": "waits that return early",
    "untimed": "GPU ops without a duration",
    "untimed_op": "ops without a duration",
    "cut_step": "steps that are cut off",
    "lost_step": "steps without a mark",
    "inferred_wait": "waits inferred",
    "profiler": "profiling overhead",
    "overflow": "profiler pauses",
    "clock": "clock differences between ranks",
    "absent_rank": "ranks not in the run",
    "assumed_rank": "assumed ranks",
    "repeated_rank": "ranks that occur twice",
    "assumed_gpu": "GPUs without a name",
    "before": "allocated before the recording",
    "outside": "outside of ops",
    "unknown": "not known",
}
"""Names of kinds of time, levers, aspects of trust, and origins of memory that no op
allocated, in tables and charts."""


def kind_words(kind: str) -> str:
    """The name of a kind of time or of an overhead type in a sentence."""
    return KINDS.get(kind, kind)


def _repaired(row: Row) -> str:
    return (
        f"{counted(row['occurrences'], 'place')} in the files repaired or left out "
        "(`tracedb info` lists them)"
    )


def _lost_work(row: Row) -> str:
    return f"{_of(row)} launches lack GPU work in the trace: it was dropped or cut off"


def _lost_launch(row: Row) -> str:
    return (
        f"{_of(row)} GPU ops ({share(row['time_share'] or 0)} of GPU time) have no "
        "launch in the trace: that was before the trace or dropped, so their op is "
        "unknown, unless their External ids name it"
    )


def _overlapping(row: Row) -> str:
    return (
        f"{_of(row)} GPU ops start before the previous one on their stream ends "
        f"({duration(row['time_ns'])})"
    )


def _overrun(row: Row) -> str:
    return (
        f"{_of(row)} GPU ops are recorded to end after later work of their stream, by "
        f"{duration(row['time_ns'])} in all: they are taken to end where the next one "
        "starts"
    )


def _gpu_clock(row: Row) -> str:
    return (
        f"the clocks of {_of(row)} GPUs differ from the host's, by up to "
        f"{duration(row['time_ns'])}: corrected, as far as launches and waits tell"
    )


def _early_work(row: Row) -> str:
    return (
        f"{_of(row)} GPU ops start before their launch, by up to "
        f"{duration(row['time_ns'])}: the clocks of host and GPU differ, or a step "
        "of the host's clock lies between"
    )


def _untimed(row: Row) -> str:
    return (
        f"{_of(row)} GPU ops are recorded to take no time: their ends were lost, so "
        "the GPU seems idle while they run"
    )


def _early_return(row: Row) -> str:
    return (
        f"{_of(row)} waits return before the GPU work that they wait for ends, by up "
        f"to {duration(row['time_ns'])}: the clocks of host and GPU drift apart, so "
        "times between a launch and its work are wrong"
    )


def _untimed_op(row: Row) -> str:
    return (
        f"{_of(row)} ops are recorded to take no time, unlike others of their name: "
        "their ends were lost, so what they ran seems to be outside of them"
    )


def _cut_step(row: Row) -> str:
    return (
        f"the recording ended within {_of(row)} steps, the last one of its trace: "
        "periods and means leave it out"
    )


def _lost_step(row: Row) -> str:
    return (
        f"{counted(row['occurrences'], 'step')} between others, several in a row, have "
        "no mark: their time is in the period of the step after them"
    )


def _inferred_wait(row: Row) -> str:
    return f"{_of(row)} synchronising calls do not say what they wait for: inferred"


def _unexplained(row: Row) -> str:
    part = share(row["time_share"] or 0)
    return f"{part} of the critical paths has no cause in the trace"


def _profiler(row: Row) -> str:
    return (
        f"recording {counted(row['occurrences'], 'event')} may have taken up to "
        f"{share(min(row['time_share'] or 0, 1))} of the time"
    )


def _overflow(row: Row) -> str:
    return (
        f"the profiler paused {counted(row['occurrences'], 'time')} "
        f"({duration(row['time_ns'])}), because of full buffers or its own setup"
    )


def _clock(row: Row) -> str:
    unsure = (
        f"; the order of {row['occurrences']} is uncertain"
        if row["occurrences"]
        else ""
    )
    return (
        f"the clocks of ranks differ by up to {duration(row['time_ns'])}; their "
        f"collectives correct this{unsure}"
    )


def _absent_rank(row: Row) -> str:
    return f"{_of(row)} ranks are not in the run, so what they do is unknown"


def _repeated_rank(row: Row) -> str:
    return (
        f"{_of(row)} traces have a rank that another trace of the run has; ingest "
        "recordings of different times as runs of their own"
    )


def _assumed_gpu(row: Row) -> str:
    return (
        f"the model of {_of(row)} GPUs is not recorded: inferred from the number of "
        "their processors and their memory"
    )


def _assumed_rank(row: Row) -> str:
    if row["all_count"] == 1:
        return (
            "the rank is assumed: the file has the processes but not their ranks, so "
            "it follows the order of GPUs or processes"
        )
    return (
        f"{_of(row)} ranks are assumed: their file has the processes but not their "
        "ranks, so these follow the order of GPUs or processes"
    )


def _of(row: Row) -> str:
    return f"{row['occurrences']:,} of {row['all_count']:,}"


def _estimated(row: Row) -> str:
    return f"{_of(row)} traces were estimated from code and never ran"


_DOUBTS: dict[str, Callable[[Row], str]] = {
    "estimated": _estimated,
    "repaired": _repaired,
    "lost_work": _lost_work,
    "lost_launch": _lost_launch,
    "overlapping": _overlapping,
    "overrun": _overrun,
    "gpu_clock": _gpu_clock,
    "early_work": _early_work,
    "early_return": _early_return,
    "untimed": _untimed,
    "untimed_op": _untimed_op,
    "cut_step": _cut_step,
    "lost_step": _lost_step,
    "inferred_wait": _inferred_wait,
    "unexplained": _unexplained,
    "profiler": _profiler,
    "overflow": _overflow,
    "clock": _clock,
    "absent_rank": _absent_rank,
    "assumed_rank": _assumed_rank,
    "repeated_rank": _repeated_rank,
    "assumed_gpu": _assumed_gpu,
}
_MOST_MARKS = 3
_MOST_STEPS = 5
_WHOLE = "takes the whole trace as one step"
_AS_ONE = f"`tracedb ingest --one-step` {_WHOLE}"
_UNSUITED = "its user ranges (staging.step_mark) do not divide it into similar steps"
_UNMARKED = (
    "no user range marks them (PyTorch: prof.step() after each; JAX: "
    "StepTraceAnnotation; Nsight Systems, rocprofv3: NVTX or roctx ranges)"
)
NO_STEPS = "no steps: neither ops nor user ranges nor GPU work were recorded"
NOTHING_MARKS = "only GPU work was recorded, so nothing on the host can mark them"
"""Why a trace of kernels alone has no steps."""
_LIMITS = {
    "overlapping": ("time_share", 0.005),
    "early_work": ("time_ns", 10_000),
    "unexplained": ("time_share", 0.01),
    "profiler": ("time_share", 0.05),
    "clock": ("time_ns", 10_000),
}
"""The limits up to which aspects raise no doubt; others have the limit 0."""


OF_LOGS = ("repaired", "clock", "absent_rank")
"""The aspects that apply to a log of collectives."""


def partial_steps(losses: list[Row]) -> str:
    """Which steps lack more GPU work than the others, by `question.lost_work`.

    >>> row = dict(step=3, lost_launch_count=90, launch_count=99, is_partial=True)
    >>> partial_steps([row])
    '; in step 3, 90 of 99 do, so its GPU time is too short, and so are sums and means \
over steps'
    >>> partial_steps([row | {"is_partial": False}])
    ''
    """
    partial = [row for row in losses if row["is_partial"]]
    if not partial:
        return ""
    steps = [f"{step}" for step in dict.fromkeys(row["step"] for row in partial)]
    lost, whole = (
        sum(row[name] for row in partial)
        for name in ("lost_launch_count", "launch_count")
    )
    others = len(steps) - _MOST_STEPS
    named = ", ".join(steps[:_MOST_STEPS]) + (f" and {others} more" * (others > 0))
    several, whose = ("s", "their") if len(steps) > 1 else ("", "its")
    return (
        f"; in step{several} {named}, {lost:,} of {whole:,} do, so {whose} GPU time is "
        "too short, and so are sums and means over steps"
    )


def doubts(
    aspects: list[Row],
    traces: list[Row] | None = None,
    losses: list[Row] | None = None,
) -> Iterator[tuple[str, str]]:
    """The doubts, each with a mark; then what is in order.

    With `traces`, also how they were recorded; with `losses`, which steps lack work.
    """
    certain = []
    for row in aspects:
        aspect = row["aspect"]
        measure, most = _LIMITS.get(aspect, ("occurrences", 0))
        if (row[measure] or 0) > most:
            remedy = _REMEDIES.get(aspect, "")
            can_be = remedy and all(map(_is_of_cuda, traces or [{}]))
            where = partial_steps(losses or []) if aspect == "lost_work" else ""
            yield "!", _DOUBTS[aspect](row) + where + (remedy if can_be else "")
        else:
            certain.append(_NO_DOUBT[aspect])
    if traces and not any(row["has_stack"] for row in traces):
        yield "-", "recorded without Python stacks: no modules, no source lines"
    if certain:
        yield "+", f"OK: {', '.join(certain)}"


_REMEDIES = {"inferred_wait": " (enable_cuda_sync_events=True records it)"}
"""Remedies that PyTorch's profiler offers with CUDA."""


def _is_of_cuda(trace: Row) -> bool:
    """Whether PyTorch's profiler recorded a trace with CUPTI, if known.

    >>> _is_of_cuda(dict(profiler="PyTorch profiler", runtime="HIP 6.4", gpu=None))
    False
    """
    if trace.get("profiler") != "PyTorch profiler":
        return False
    runtime, gpu = trace["runtime"] or "CUDA", trace["gpu"] or ""
    return runtime.startswith("CUDA") and not gpu.startswith("AMD")


_NO_DOUBT = {
    "repaired": "all files complete",
    "lost_work": "every launch has its GPU work",
    "lost_launch": "all GPU work has its launch",
    "overlapping": "almost no overlaps on a stream",
    "early_work": "almost no work before its launch",
    "inferred_wait": "waits recorded",
    "unexplained": "causes known",
    "profiler": "low profiling overhead",
    "overflow": "no profiler pauses",
    "clock": "clocks agree",
    "absent_rank": "all ranks present",
}


def stuck(row: Row) -> str:
    """Which ranks have not called a collective, in words.

    >>> row = dict(name="gloo:all_reduce", sequence=5, pair="", process_group="0 dp")
    >>> row |= dict(called_ranks="0, 1", missing_ranks="2", absent_ranks="")
    >>> stuck(row | dict(odd_ranks="", place="a.py(3): f", missing_place=None))
    "gloo:all_reduce number 5 of '0 dp': called by 0, 1 (a.py(3): f), not by 2"
    """
    number = "" if row["sequence"] is None else f" number {row['sequence']}"
    parts = [f"called by {row['called_ranks']}{_at(row['place'])}"]
    if row["missing_ranks"]:
        parts.append(f"not by {row['missing_ranks']}{_at(row['missing_place'])}")
    if row["absent_ranks"]:
        parts.append(f"no log of {row['absent_ranks']}")
    if row["odd_ranks"]:
        parts.append(f"{row['odd_ranks']} called something else or another size")
    if len(parts) == 1:
        parts.append("still running")
    return f"{row['name']}{number} of '{row['process_group']}': {', '.join(parts)}"


def _at(place: str | None) -> str:
    return f" ({place})" if place else ""


def marks_in_words(marks: Sequence[dict[str, Any]]) -> str:
    """What could mark the steps of a trace, by its rows of `question.step_mark`.

    >>> marks_in_words([dict(option="--step-mark", mark="step")])
    "`tracedb ingest --step-mark` could use 'step'"
    >>> marks_in_words([dict(option=None, mark=None, range_count=0)])
    'no user range marks them (PyTorch: prof.step() after each; JAX: \
StepTraceAnnotation; Nsight Systems, rocprofv3: NVTX or roctx ranges); \
`tracedb ingest --one-step` takes the whole trace as one step, --step-mark takes \
functions or launches'

    Ops are less certain to start steps than what a user named.

    >>> marks = [dict(option="--step-from", mark="a", range_count=0, kind="op")]
    >>> marks_in_words(marks).partition("; `")[2]
    "tracedb ingest --step-from` could use ops: 'a'; --one-step takes the whole trace \
as one step"

    If no ranges are suited, it names the relation that has all of them.

    >>> marks_in_words([dict(option=None, mark=None, range_count=1)])[:15]
    'its user ranges'
    """
    # Prefer ranges that cover steps over those that start them.
    option, kind = marks[0]["option"], marks[0].get("kind")
    names = [f"'{row['mark']}'" for row in marks if row["option"] == option]
    several = ", ".join(names[:_MOST_MARKS])
    if option is not None and kind != "op":
        return f"`tracedb ingest {option}` could use {several}"
    if option is not None:
        others = (
            f"`tracedb ingest {option}` could use ops: {several}; --one-step {_WHOLE}"
        )
    elif marks[0]["range_count"]:
        others = (
            f"{_AS_ONE}, --step-mark and --step-from choose ranges, Python "
            "functions or launches"
        )
    else:
        others = f"{_AS_ONE}, --step-mark takes functions or launches"
    return f"{_UNSUITED if marks[0]['range_count'] else _UNMARKED}; {others}"
