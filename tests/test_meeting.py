"""Edits of the same nodes, or of neighbors, equal the program with all changes.

`python tests/meeting.py 1..20` searches further, in random programs.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from executed import warm_up
from marks import FREE_STREAM, Case, Scenario, Sites
from meeting import distinct
from remade import Outcome, compare

from tracedb.synthetic import (
    Copy,
    EventRecord,
    Gap,
    GraphLaunch,
    Launch,
    Op,
    OtherCall,
    Program,
    Rank,
    StreamSync,
    StreamWait,
    Thread,
    step,
)
from tracedb.synthetic.program import seeded
from tracedb.synthetic.random_program import STREAMS

FIRST, SECOND = STREAMS[:2]
INNER = Op("aten::inner", (Gap(1_000), Launch(FIRST, 5_000), Gap(600)))
STEP = step(
    1,
    Gap(1_000),
    Op("aten::outer", (Gap(2_000), INNER, Gap(400))),
    Gap(3_000),
    Op("aten::three", tuple(Launch(FIRST, 2_000 * n) for n in (1, 2, 3))),
    Gap(700),
    Op("aten::to", (Gap(500), Copy(FIRST, 30_000), Gap(500))),
    Gap(900),
    Op("aten::empty"),
    Op("aten::last", (Gap(500), Launch(FIRST, 7_000))),
    EventRecord("done", FIRST),
    Gap(400_000),
    StreamWait(SECOND, "done"),
    GraphLaunch((Launch(SECOND, 4_000), Launch(SECOND, 4_000)), 8_000, 600),
    StreamSync(SECOND),
    Op("aten::end", (Gap(800), OtherCall(ns=400))),
)
WARM = step(0, *warm_up((FIRST, SECOND)))
CASE = Case(
    "meeting",
    distinct(Program((Rank((Thread("main", (WARM, STEP)),)),))),
    None,
)


def op(name: str) -> Sites:
    """The op of a name."""
    return [
        of
        for of in CASE.sites
        if isinstance(of.action, Op) and of.action.name.startswith(f"aten::{name}.")
    ]


def works(name: str) -> Sites:
    """What an op launches, in order."""
    (outer,) = op(name)
    return [of for of in CASE.within(outer) if isinstance(of.action, Launch | Copy)]


def a_removed_op_that_is_slower(of: Scenario) -> None:
    """It takes no time, however slow."""
    of.op_gone(op("inner"))
    of.slower(op("inner"))


def an_op_removed_twice(of: Scenario) -> None:
    """It is gone once."""
    of.op_gone(op("inner"))
    of.op_gone(op("inner"))


def an_addition_to_a_removed_op(of: Scenario) -> None:
    """Nothing is added."""
    of.op_gone(op("inner"))
    name = of.edits[0]["name"]
    of.add("T2", target="host", type="T2", op=name, add_ns=2_000)


def a_slower_op_in_a_slower_op(of: Scenario) -> None:
    """Both factors multiply the time of the inner one."""
    of.slower(op("outer"))
    of.slower(op("inner"))


def an_op_in_place_of_another(of: Scenario) -> None:
    """The gaps on its sides stay."""
    of.op_gone(op("to"), "longest")
    of.op_new(op("to"))


def an_op_behind_one_without_time(of: Scenario) -> None:
    """It is where that op is."""
    of.op_new(op("empty"))


def a_removed_op_without_time(of: Scenario) -> None:
    """Nothing changes, and the edit still selects something."""
    of.op_gone(op("empty"), "all")


def fused_work_that_moves_in_part(of: Scenario) -> None:
    """What stays is fused, and what moves is not."""
    of.joined(works("three"), "fuse")
    of.moved(works("three")[2:])


def fused_work_that_is_overlapped_in_part(of: Scenario) -> None:
    """What stays is fused, and what is overlapped is not."""
    of.joined(works("three"), "fuse")
    of.overlapped(works("three")[2:], op("last")[0])


def fused_work_with_other_work_in_it(of: Scenario) -> None:
    """Inserted work parts it."""
    of.joined([*works("inner"), *works("three")], "fuse")
    of.gpu_new(works("three")[1:2], "before")


def work_behind_fused_work(of: Scenario) -> None:
    """It follows the fused kernel, with a launch where the last one was."""
    of.joined(works("three"), "fuse")
    of.gpu_new(works("three")[2:], "after")


def work_behind_fused_work_that_moves(of: Scenario) -> None:
    """It moves, too."""
    of.joined(works("three"), "fuse")
    of.gpu_new(works("three")[2:], "after")
    of.moved(works("three"), FREE_STREAM)


def a_graph_with_other_work_in_it(of: Scenario) -> None:
    """Inserted work is launched between two graphs, in the time of a launch."""
    of.joined([*works("inner"), *works("three"), *works("to")], "graph")
    of.gpu_new(works("three")[1:2], "after")


def captured_ops_with_other_work_in_them(of: Scenario) -> None:
    """What inserted work separates from the rest has its own launch."""
    of.op_graph(op("three"))
    of.gpu_new(works("three")[:1], "after")


def captured_ops_without_some_of_their_work(of: Scenario) -> None:
    """The launch of removed work goes with the ops."""
    of.op_graph(op("three"))
    of.gpu_gone(works("three")[1:2])


def a_graph_whose_work_moves_in_part(of: Scenario) -> None:
    """Work of the graph keeps its gap where it follows other work of it."""
    of.joined([*works("three"), *works("to"), *works("last")], "graph")
    of.moved([works("three")[1], *works("to")], FREE_STREAM)


def work_before_a_graph(of: Scenario) -> None:
    """It has a launch of its own."""
    of.joined(works("three"), "graph")
    of.gpu_new(works("three")[:1], "before")


def work_that_moves_to_two_streams(of: Scenario) -> None:
    """It keeps its order."""
    of.moved(works("to"), FREE_STREAM)
    of.moved(works("last"), FREE_STREAM + 1)


def overlapped_work_behind_moved_work(of: Scenario) -> None:
    """It waits for what was before it."""
    of.moved(works("three")[2:], FREE_STREAM)
    of.overlapped(works("to"), op("last")[0])


def a_late_event_before_a_graph(of: Scenario) -> None:
    """The first work of the graph waits for it, and the rest follows."""
    of.add("longer", target="gpu", sql=CASE.works(works("last")), add_ns=700_000)
    of.of(works("last")[0]).add_ns = 700_000


SCENARIOS: dict[str, Callable[[Scenario], None]] = {
    make.__name__: make
    for make in (
        a_removed_op_that_is_slower,
        an_op_removed_twice,
        an_addition_to_a_removed_op,
        a_slower_op_in_a_slower_op,
        an_op_in_place_of_another,
        an_op_behind_one_without_time,
        a_removed_op_without_time,
        fused_work_that_moves_in_part,
        fused_work_that_is_overlapped_in_part,
        fused_work_with_other_work_in_it,
        work_behind_fused_work,
        work_behind_fused_work_that_moves,
        a_graph_with_other_work_in_it,
        captured_ops_with_other_work_in_them,
        captured_ops_without_some_of_their_work,
        a_graph_whose_work_moves_in_part,
        work_before_a_graph,
        work_that_moves_to_two_streams,
        overlapped_work_behind_moved_work,
        a_late_event_before_a_graph,
    )
}


@pytest.fixture(scope="module")
def made() -> dict[str, Scenario]:
    """The scenarios by name."""
    found = {}
    for name, make in SCENARIOS.items():
        found[name] = Scenario(CASE, seeded(name))
        make(found[name])
    return found


@pytest.fixture(scope="module")
def outcome(
    made: dict[str, Scenario], tmp_path_factory: pytest.TempPathFactory
) -> Outcome:
    """What becomes of them."""
    return compare(CASE, [*made.values()], tmp_path_factory.mktemp("meeting"))


@pytest.mark.parametrize("name", SCENARIOS)
def test_edits_that_meet_equal_their_changes(
    name: str, made: dict[str, Scenario], outcome: Outcome
) -> None:
    """All GPU work, steps and periods are as predicted."""
    assert [of.times for of in outcome.wrong if of.scenario is made[name]] == []
    assert made[name] in outcome.exact


def test_the_program_itself_is_predicted(outcome: Outcome) -> None:
    """Without edits, everything is as executed."""
    assert [of.times for of in outcome.wrong if not of.scenario.edits] == []
