"""Process groups that are not recorded: streams and ends tell them apart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support import rows, sampled

import tracedb
from tracedb.synthetic import (
    Collective,
    Delays,
    DeviceSync,
    Gap,
    GeneratedTrace,
    Launch,
    Op,
    Program,
    Rank,
    StreamSync,
    Thread,
    execute,
    step,
)
from tracedb.synthetic.program import Action

RANKS = 4
PAIRS = ((0, 1), (2, 3))
ACROSS = ((0, 2), (1, 3))
ALL = (tuple(range(RANKS)),)
LAYOUTS: dict[str, Sequence[tuple[int, Sequence[tuple[int, ...]]]]] = {
    "pairs, and pairs across": ((20, PAIRS), (24, ACROSS)),
    "pairs alone": ((20, PAIRS),),
    "pairs and all": ((20, PAIRS), (24, ALL)),
    "all, on two streams": ((20, ALL), (24, ALL)),
}
"""By stream: the groups that the ranks form."""


def job(layout: str, seed: int) -> list[GeneratedTrace]:
    """Ranks that compute, and reduce in one of their groups after the other."""
    chance = Random(seed)  # noqa: S311
    slow = chance.randrange(RANKS)

    def actions(rank: int) -> list[Action]:
        found: list[Action] = []
        for stream, groups in LAYOUTS[layout]:
            group = next(ranks for ranks in groups if rank in ranks)
            name = f"{stream} {group}"
            for _ in range(3):
                work = chance.randint(100, 300) * (1_500 if rank == slow else 1_000)
                reduce = Collective(stream, 50_000, group=name, ranks=group)
                found += [
                    Op("aten::mm", (Launch(7, work), StreamSync(7))),
                    Gap(5_000),
                    Op("c10d::allreduce_", (reduce,)),
                    Gap(3_000),
                ]
        return [*found, DeviceSync()]

    ranks = [
        Rank((Thread("main", tuple(step(n, *actions(rank)) for n in range(4))),))
        for rank in range(RANKS)
    ]
    return execute(Program(tuple(ranks)), Delays(jitter=0.2), seed)


def waits(
    folder: Path, traces: list[GeneratedTrace], *, named: bool
) -> list[tuple[Any, ...]]:
    """Waits for other ranks, by rank and time; older versions record no groups."""
    folder.mkdir()
    for rank, trace in enumerate(traces):
        document = json.loads(trace.json_text())
        for event in document["traceEvents"]:
            if "Collective name" in event.get("args", {}) and not named:
                event["args"] = {
                    name: value
                    for name, value in event["args"].items()
                    if name[:2] not in {"Co", "In", "Ou", "Gr", "dt", "Pr", "Se"}
                }
        (folder / f"rank{rank}.json").write_text(json.dumps(document))
    with tracedb.open() as database:
        database.ingest([folder], run="job")
        query = """
            SELECT rank, collective.start_ns, present_count, waiting_ns,
                absent_waiting_ns, moving_ns, offset_ns
            FROM graph.collective AS found
            INNER JOIN staging.collective AS collective USING (node_id)
            INNER JOIN staging.trace AS trace ON found.trace_id = trace.trace_id
            INNER JOIN graph.clock AS clock ON found.trace_id = clock.trace_id
            ORDER BY ALL
        """
        return rows(database, query)


@pytest.mark.parametrize("seed", sampled(range(8), 2))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_groups_are_those_that_newer_versions_record(
    layout: str, seed: int, tmp_path: Path
) -> None:
    """Each rank waits for those of its group, and clocks agree."""
    traces = job(layout, seed)
    told = waits(tmp_path / "named", traces, named=True)
    assert len(told) == sum(len(rank.truth.kernels) for rank in traces) // 2
    assert waits(tmp_path / "unnamed", traces, named=False) == told
