"""Launches that begin exactly when the op before them ends are not in that op.

Which op such a launch is linked to is a different matter (`staging.call`). Edits need
to know which span and which phase its time belongs to.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import composed
from executed import CUDA, Case, Edits, assert_foretold, case, predict, warm_up

from tracedb.synthetic import (
    Annotation,
    Await,
    Gap,
    Launch,
    Notify,
    Op,
    Program,
    Rank,
    Thread,
    change,
    step,
)
from tracedb.synthetic.program import Action

STEPS = 6
OPTIMIZER = "Optimizer.step#SGD.step"
BEHIND = Launch(7, 60_000)


def op(name: str, ns: int) -> Op:
    """An op that launches a kernel, and ends later."""
    return Op(name, (Gap(ns), Launch(7, 2 * ns), Gap(3_000)))


def one_case() -> Case:
    """Steps whose backward pass and optimizer end with such launches."""
    main: list[Action] = [step(0, *warm_up((7,)))]
    autograd: list[Action] = []
    for number in range(1, STEPS):
        ns = 20_000 + 4_000 * number
        fork, join = f"backward {number}", f"gradients {number}"
        optimizer = Annotation(OPTIMIZER, (op("aten::mul", ns), BEHIND))
        body = (op("aten::linear", ns), Notify(fork), Await(join, "join"), Gap(9_000))
        main.append(step(number, *body, optimizer))
        autograd += [Await(fork, "fork"), Gap(2_000), op("aten::mm", ns), BEHIND]
        autograd += [Notify(join)]
    threads = Thread("main", tuple(main)), Thread("autograd", tuple(autograd))
    return case("behind", Program((Rank(threads),)), CUDA, recorded=True)


def slow(_: int) -> int:
    """Longer GPU work."""
    return 400_000


IN_OPTIMIZER = composed.Where({}, lambda _, at: at.is_in(Annotation, OPTIMIZER))
SLOW = {"target": "gpu", "action": "set", "set_ns": slow(0)}
CHANGES: dict[str, tuple[change.Change, list[composed.Edit]]] = {
    "launches x 0.5": (
        change.launch_calls(0.5),
        [{"target": "host", "type": "T4", "factor": 0.5}],
    ),
    "launches x 4": (
        change.launch_calls(4),
        [{"target": "host", "type": "T4", "factor": 4}],
    ),
    "a slow optimizer": (
        composed.of_work("kernel", IN_OPTIMIZER, slow),
        [SLOW | {"phase": "optimizer"}],
    ),
}


def test_launches_after_ops(tmp_path: Path) -> None:
    """They are awaited, and belong to the phase around them.

    It makes no difference whether they begin at the end of the op, or later.
    """
    at_once = one_case()
    program, _ = composed.rewritten(
        lambda of, *_: (Gap(20), of) if of == BEHIND else (of,)
    )(at_once.program, CUDA)
    cases = [at_once, replace(at_once, name="later", program=program, known=program)]
    edits: Edits = {name: of for name, (_, of) in CHANGES.items()}
    predicted = predict(tmp_path, cases, edits)
    assert predicted.mistaken == {of.name for of in cases}, "no thread is seen to wait"
    for one in cases:
        for name, (changed, _) in CHANGES.items():
            assert_foretold(one, name, predicted, *changed(one.known, one.delays))
