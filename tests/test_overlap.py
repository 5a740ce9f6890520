"""Work that edits overlap with other work, compared with programs that do so.

Loading moves to workers that prefetch, and collectives are awaited by their consumers:
equal to the nanosecond. `tests/test_reexecution.py` has more programs of both.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from executed import (
    CUDA,
    Case,
    Predicted,
    assert_foretold,
    case,
    fetched_ahead,
    predict,
    rounded,
    warm_up,
)

from tracedb.synthetic import (
    Annotation,
    Collective,
    Gap,
    Memset,
    Program,
    change,
    random_program,
    step,
)
from tracedb.synthetic.program import DATA_PREFIX, Action
from tracedb.synthetic.random_program import STREAMS, Weights

LOADING = {"target": "host", "type": "wait_data", "action": "overlap"}
FETCHING: dict[str, tuple[change.Change, list[dict[str, Any]]]] = {
    "one, as PyTorch does": (fetched_ahead(1, 2), [LOADING]),
    "three, one ahead": (
        fetched_ahead(3, 1, 600),
        [LOADING | {"workers": 3, "ahead": 1, "host_ns": 600}],
    ),
    "two of half the time": (
        fetched_ahead(2, 1, before=change.loading(0.5)),
        [
            LOADING | {"workers": 2, "ahead": 1},
            {"target": "host", "type": "wait_data", "factor": 0.5},
        ],
    ),
}
BESIDE = {"target": "gpu", "type": "collective", "action": "overlap"}
LINEAR = r"^aten::(linear|matmul)$"
FREE = 99
COLLECTIVES: dict[str, tuple[change.Change, list[dict[str, Any]]]] = {
    "until linear": (
        change.overlap(Collective, LINEAR, FREE),
        [BESIDE | {"until": f"/{LINEAR}/"}],
    ),
    "until the optimizer": (
        change.overlap(Collective, "^Optimizer", FREE),
        [BESIDE | {"until": "Optimizer.step*"}],
    ),
}


def loading(seed: int, *, recorded: bool) -> Case:
    """A thread that loads one batch in each of eight steps."""
    streams = STREAMS[: 1 + seed % 2]
    weights = Weights(data_wait=1)
    program = random_program(
        seed, threads=1, streams=len(streams), steps=8, ops=2, weights=weights
    )
    begin = (loads(2_000_000),) if seed else ()
    name = f"loading {seed} {recorded}"
    return warm(name, program, streams, recorded=recorded, begin=begin)


def loads(ns: int) -> Annotation:
    """Loading a batch, as PyTorch's loader does it."""
    return Annotation(f"{DATA_PREFIX}#_Single.__next__", (Gap(ns),))


def collective(seed: int, *, recorded: bool) -> Case:
    """Two ranks with one thread each, and collectives."""
    streams = STREAMS[:2]
    weights = Weights(collective=0.5)
    program = random_program(
        seed, threads=1, streams=2, steps=2, ops=10, ranks=2, weights=weights
    )
    return warm(f"collective {seed} {recorded}", program, streams, recorded=recorded)


def warm(
    name: str,
    program: Program,
    streams: tuple[int, ...],
    *,
    recorded: bool,
    begin: tuple[Action, ...] = (),
) -> Case:
    """The program after a step that shows all delays."""
    ranks = []
    for rank in program.ranks:
        (thread,) = rank.threads
        body = (step(0, *begin, *warm_up(streams)), *thread.body)
        ranks.append(replace(rank, threads=(replace(thread, body=body),)))
    return case(name, rounded(Program(tuple(ranks)), CUDA), CUDA, recorded=recorded)


CASES = [
    *(loading(seed, recorded=r) for seed in range(3) for r in (True, False)),
    *(collective(seed, recorded=r) for seed in range(3) for r in (True, False)),
]


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Predicted:
    """Predictions for all of them."""
    changes = FETCHING | COLLECTIVES
    edits = {name: of for name, (_, of) in changes.items()}
    return predict(tmp_path_factory.mktemp("programs"), CASES, edits)


@pytest.mark.parametrize("name", [*FETCHING, *COLLECTIVES])
def test_overlap_is_predicted_to_the_nanosecond(
    name: str, predicted: Predicted
) -> None:
    """Workers wait for requests, threads for batches; all GPU ops and steps agree."""
    change_program, _ = (FETCHING | COLLECTIVES)[name]
    differ = 0
    for one in CASES:
        assert_foretold(one, name, predicted, *change_program(one.known, one.delays))
        times = (predicted.times[one.name, 0, of] for of in (name, "baseline"))
        differ += next(times) != next(times)
    assert differ >= len(CASES) / 4


EDGES = f"""
    INSERT INTO graph.data_edge
    SELECT DISTINCT given.run_id, given.trace_id, given.op_id, taking.op_id, 1
    FROM (
        SELECT run_id, trace_id, op_id, start_ns
        FROM staging.call
        WHERE call_id IN (SELECT call_id FROM staging.gpu_op WHERE kind = 'memset')
    ) AS given
    ASOF INNER JOIN (
        SELECT DISTINCT op.trace_id, op.start_ns, op.end_ns
        FROM staging.op AS op
        INNER JOIN staging.call AS call
            ON op.thread_id = call.thread_id
            AND call.start_ns BETWEEN op.start_ns AND op.end_ns
        SEMI JOIN staging.gpu_op AS work ON call.call_id = work.call_id
        WHERE regexp_matches(op.name, '{LINEAR}')
    ) AS linear
        ON given.trace_id = linear.trace_id AND {{nearest}}
    INNER JOIN staging.call AS taking
        ON
            linear.trace_id = taking.trace_id
            AND taking.start_ns BETWEEN linear.start_ns AND linear.end_ns
"""
SIDES = ("given.start_ns < linear.start_ns", "given.start_ns > linear.end_ns")
TAKEN = "; ".join(EDGES.format(nearest=side) for side in SIDES)
"""The ops in the next linear take what the op of a memset gives, as a graph says it.

So do those in the linear before it, of what was there then: that waits for nothing.
"""


def test_consumers_of_a_tensor_wait_for_it(tmp_path: Path) -> None:
    """If the edit names none, data edges of an execution graph give the consumers."""
    weights = Weights(bare=0, memset=4)
    cases = []
    for seed in range(6):
        streams = STREAMS[: 2 + seed % 2]
        program = random_program(
            seed, threads=1, streams=len(streams), steps=2, ops=12, weights=weights
        )
        recorded = seed % 2 == 0
        cases.append(warm(f"data {seed}", program, streams, recorded=recorded))
    edit = {"target": "gpu", "type": "memset", "action": "overlap"}
    predicted = predict(tmp_path, cases, {"beside": [edit]}, known_besides=TAKEN)
    for one in cases:
        changed = change.overlap(Memset, LINEAR, FREE)(one.known, one.delays)
        assert_foretold(one, "beside", predicted, *changed)
        times = predicted.times
        assert times[one.name, 0, "beside"] != times[one.name, 0, "baseline"]
