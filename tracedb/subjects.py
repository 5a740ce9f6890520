"""Everyday words for what questions answer, for guesses that are no question.

A name of a question, such as `memory_at_peak`, is easily missed: people ask for `oom`.
"""

from __future__ import annotations

_LONGEST_PLURAL = 3
_FILLERS = """
    a and are at by do does for how in is it long much my of on per share the time to
    total top what where which who why with
"""
ANSWERS = {
    "allocation allocator allocations fragmentation oom peak memory vram leak": (
        *("memory", "memory_at_peak", "memory_by_step"),
    ),
    "bandwidth busbw bus nvlink": ("collective", "efficiency", "copy"),
    "batch dataloader dataloading loader starvation starved input data fetch": (
        "data_loading",
    ),
    "bottleneck bounds limiter limit hotspot slowest hot": (
        *("lever", "critical_path", "top_kernel"),
    ),
    "bubble": ("pipeline_bubble", "idle_cause", "exposed_communication"),
    "phase forward backward optimizer training": ("phase", "phase_by_step"),
    "pipeline stage": ("pipeline_bubble", "job", "interleaved_step"),
    "capture graph cudagraph replay": ("replayed_op", "launch_bound"),
    "comm communication overlap hidden": ("exposed_communication", "collective"),
    "nccl rccl gloo allreduce collectives": ("collective", "straggler"),
    "break graph_break graph_breaks": ("compiled_region", "compile_time"),
    "compile dynamo inductor recompile recompilation": (
        *("compile_time", "compiled_region"),
    ),
    "dtoh dtod htod h2d d2h d2d memcpy memset pcie pinned transfer": ("copy",),
    "flop flops tflops mfu hfu utilization utilisation": (
        *("efficiency_by_step", "efficiency"),
    ),
    "compute bound memory_bound compute_bound occupancy roofline": (
        *("efficiency", "efficiency_by_op", "launch_bound"),
    ),
    "gap gaps idle idleness bubble busy": ("idle_cause", "device_time"),
    "gpu device": ("device_time", "idle_cause"),
    "gemm matmul conv attention kernels": ("top_kernel", "efficiency"),
    "imbalance balance lag lagging late rank skew slow straggling": (
        *("straggler", "rank_slack"),
    ),
    "hang hung stuck deadlock timeout": ("stuck_collective", "last_collective"),
    "latency throughput step steps iteration period tokens duration": (
        *("period", "efficiency_by_step"),
    ),
    "launch launches overhead": ("launch_bound", "overhead", "overhead_by_op"),
    "attention layer layers module": (
        "module_class",
        "module_tree",
        "efficiency_by_module",
    ),
    "line python source stack frame code function": (
        *("host_gap", "overhead_by_op", "module_tree"),
    ),
    "op ops operator cpu": ("overhead_by_op", "efficiency_by_op", "host_time"),
    "sync synchronize synchronization synchronise wait waits waiting blocked": (
        *("wait", "host_time", "collective"),
    ),
    "trust quality reliable accuracy error": ("trust", "prediction_error"),
    "if whatif scenario speedup faster gain improve": (
        "`tracedb whatif DB`",
        "ranking",
    ),
    "compare difference regression slower": ("`tracedb diff A B`", "`tracedb check`"),
}
_BY_WORD: dict[str, list[str]] = {}
for _words, _names in ANSWERS.items():
    for _word in _words.split():
        _BY_WORD.setdefault(_word, []).extend(_names)


def answers_to(name: str) -> tuple[list[str], bool]:
    """Questions or commands about the words of a name, and whether all are known."""
    whole = name.lower()
    words = [whole] if whole in _BY_WORD else whole.split("_")
    fillers = _FILLERS.split()
    given = [word for word in words if word not in fillers]
    found = [_of_word(word) for word in given]
    votes: dict[str, float] = {}
    for answers in found:
        for place, answer in enumerate(dict.fromkeys(answers)):
            votes[answer] = votes.get(answer, 0) + 1 / (1 + place)
    best = sorted(votes, key=lambda answer: -votes[answer])
    return best[:3], bool(found) and all(found)


def _of_word(word: str) -> list[str]:
    """What a word, or its singular, asks for."""
    is_plural = word.endswith("s") and len(word) > _LONGEST_PLURAL
    return _BY_WORD.get(word) or (_BY_WORD.get(word[:-1], []) if is_plural else [])
