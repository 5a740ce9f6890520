"""Several edits in one scenario equal the program with all changes.

`tests/test_reexecution.py` makes one change at a time in more programs, and has the
comparison.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import composed
import pytest
from executed import Predicted, assert_foretold, case, one_thread, predict

from tracedb.synthetic import (
    Copy,
    Delays,
    Gap,
    Launch,
    Memset,
    Op,
    Program,
    Rank,
    Thread,
    change,
    step,
)

FREE_STREAM = 99
LINEAR = r"^aten::(linear|matmul)$"
NESTED = r"^aten::(addmm|bmm|copy_)$"
SOME = r"^aten::(linear|matmul|item)$"
OWN = {"op": f"/{SOME}/", "part": "self"}
REMOVED = {"action": "remove", "gaps": "all"}
"""Time between the ops of a generated program belongs to none of them."""
MOVE = {"target": "gpu", "type": "memcpy", "action": "move", "to_stream": FREE_STREAM}
BESIDE = {
    "target": "gpu",
    "type": "memcpy",
    "action": "overlap",
    "until": f"/{LINEAR}/",
}
AFTER = {
    "target": "gpu",
    "type": "kernel",
    "action": "insert",
    "place": "after",
    "gpu_ns": 6_000,
}
NO_MEMSETS = {"target": "gpu", "type": "memset", "action": "remove"}
NO_WAITS = {"target": "wait", "type": "host"}
LATE = {"target": "delay", "factor": 0.5}
move = change.move_copies(FREE_STREAM)
beside = change.overlap(Copy, LINEAR, FREE_STREAM)
after = change.insert_kernels("after", 6_000)
no_memsets = change.without_work(Memset)

CHANGES: dict[str, tuple[list[change.Change], list[dict[str, Any]]]] = {
    "own time x 3": (
        [change.own_host_time(3, SOME)],
        [
            {"target": "host", "type": type_, "factor": 3} | OWN
            for type_ in ("T2", "T3", "T5")
        ],
    ),
    "own kernels x 0.5, copies moved": (
        [change.own_kernels(0.5, SOME), move],
        [{"target": "gpu", "type": "kernel", "factor": 0.5} | OWN, MOVE],
    ),
    "nothing but the ops in them, copies moved": (
        [change.without_own(SOME), move],
        [{"target": "op", "name": f"/{SOME}/", "part": "self", **REMOVED}, MOVE],
    ),
    "delays x 0.5, copies moved": ([move, change.device_delays(0.5)], [MOVE, LATE]),
    "delays x 0.5, copies beside": (
        [beside, change.device_delays(0.5)],
        [BESIDE, LATE],
    ),
    "delays x 0.5, kernels beside": (
        [change.overlap(Launch, LINEAR, FREE_STREAM), change.device_delays(0.5)],
        [BESIDE | {"type": "kernel"}, LATE],
    ),
    "delays x 0.5, a kernel after each": (
        [after, change.device_delays(0.5)],
        [AFTER, LATE],
    ),
    "launches x 0.5, a kernel after each": (
        [after, change.launch_calls(0.5)],
        [AFTER, {"target": "host", "type": "T4", "factor": 0.5}],
    ),
    "no host waits, copies moved": ([move, change.no_host_waits], [MOVE, NO_WAITS]),
    "no host waits, copies beside": (
        [beside, change.no_host_waits],
        [BESIDE, NO_WAITS],
    ),
    "no memsets, copies moved": ([no_memsets, move], [NO_MEMSETS, MOVE]),
    "no memsets, copies beside": ([no_memsets, beside], [NO_MEMSETS, BESIDE]),
    "no memsets, a kernel after each": ([no_memsets, after], [NO_MEMSETS, AFTER]),
    "kernels of all streams moved to one": (
        [composed.moved("kernel", composed.EVERYWHERE).change],
        composed.moved("kernel", composed.EVERYWHERE).edits,
    ),
    "a kernel after each, copies moved": ([after, move], [AFTER, MOVE]),
    "no nested ops, one after each linear": (
        [change.without_ops(NESTED), change.insert_ops("after", LINEAR, 4_000)],
        [
            {"target": "op", "name": f"/{NESTED}/", **REMOVED},
            {
                "target": "op",
                "name": f"/{LINEAR}/",
                "action": "insert",
                "place": "after",
                "host_ns": 4_000,
            },
        ],
    ),
    "an op in the place of item": (
        [
            change.insert_ops("before", "^aten::item$", 4_000),
            change.without_ops("^aten::item$"),
        ],
        [
            {
                "target": "op",
                "name": "aten::item",
                "action": "insert",
                "place": "before",
                "host_ns": 4_000,
            },
            {"target": "op", "name": "aten::item", **REMOVED},
        ],
    ),
    "no kernels, copies x 0.1 and moved": (
        [change.without_work(Launch), change.copies(0.1), move],
        [
            {"target": "gpu", "type": "kernel", "action": "remove"},
            {"target": "gpu", "type": "memcpy", "factor": 0.1},
            MOVE,
        ],
    ),
}
CASES = [one_thread(seed, recorded=r) for seed in (1, 2, 3, 6) for r in (True, False)]


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Predicted:
    """Predictions for all cases."""
    edits = {name: of for name, (_, of) in CHANGES.items()}
    return predict(tmp_path_factory.mktemp("programs"), CASES, edits)


@pytest.mark.parametrize("name", CHANGES)
def test_several_edits_equal_their_changes(name: str, predicted: Predicted) -> None:
    """GPU ops, steps and periods agree to the nanosecond; each edit has an effect."""
    changes, _ = CHANGES[name]
    for one in CASES:
        program = change.all_of(*changes)(one.known, one.delays)
        assert_foretold(one, name, predicted, *program)
        foretold = predicted.times
        assert foretold[one.name, 0, name] != foretold[one.name, 0, "baseline"]


SLOW = {"target": "gpu", "factor": 20}
UNQUEUED: dict[str, tuple[list[change.Change], list[dict[str, Any]]]] = {
    "kernels x 20, copies moved": (
        [move, change.kernels(20)],
        [SLOW | {"type": "kernel"}, MOVE],
    ),
    "copies x 20 and beside": (
        [beside, change.copies(20)],
        [SLOW | {"type": "memcpy"}, BESIDE],
    ),
    "kernels x 20, a kernel after each": (
        [change.kernels(20), after],
        [SLOW | {"type": "kernel"}, AFTER],
    ),
}


def test_order_is_kept_where_no_work_was_queued(tmp_path: Path) -> None:
    """A trace without gaps on streams shows no delays: they count as none."""
    ops = [
        Op("aten::linear", (Gap(2_000), Launch(7, 3_000), Gap(40_000))),
        Op("aten::to", (Gap(2_000), Copy(7, 3_000), Gap(40_000))),
    ]
    main = Thread("main", tuple(step(number, *ops, *ops) for number in range(3)))
    delays = Delays(queue_gap_ns=0, stream_wait_ns=0)
    one = case("unqueued", Program((Rank((main,)),)), delays, recorded=True)
    edits = {name: of for name, (_, of) in UNQUEUED.items()}
    predicted = predict(tmp_path, [one], edits)
    for name, (changes, _) in UNQUEUED.items():
        program = change.all_of(*changes)(one.known, one.delays)
        assert_foretold(one, name, predicted, *program)
