"""Ops on sparse tensors, such as the update of an embedding table.

The profiler records the size of the table; an update touches the rows that were looked
up. Real steps are recorded on the CPU.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support import rows
from torch import nn, optim

import tracedb
from tracedb.errors import ScenarioError
from tracedb.whatif.edit_line import parse_setting
from tracedb.whatif.scenario import of_scenario

ROWS, WIDTH, LOOKUPS = 5_003, 34, 5
BATCH = 312
STEPS = 3
VALUES = f"[{BATCH * LOOKUPS},{WIDTH}]"
TO_BATCH = of_scenario("then", parse_setting(f"batch={4 * BATCH}"))
Make = Callable[[nn.Embedding], optim.Optimizer]


def recorded(path: Path, make: Make) -> Path:
    """A trace of steps that train a table with sparse gradients."""
    torch.manual_seed(0)
    table = nn.Embedding(ROWS, WIDTH, sparse=True)
    head = nn.Linear(WIDTH * LOOKUPS, 1)
    optimizers = make(table), optim.SGD(head.parameters(), lr=0.1)
    words, wanted = torch.randint(ROWS, (BATCH, LOOKUPS)), torch.rand(BATCH, 1)

    def step() -> None:
        for optimizer in optimizers:
            optimizer.zero_grad()
        found = nn.functional.mse_loss(head(table(words).flatten(1)), wanted)
        torch.autograd.backward(found)
        for optimizer in optimizers:
            optimizer.step()

    step()
    with torch.profiler.profile(record_shapes=True) as profiler:
        for number in range(STEPS):
            with torch.profiler.record_function(f"ProfilerStep#{number}"):
                step()
    profiler.export_chrome_trace(str(path))
    return path


def sgd(table: nn.Embedding) -> optim.Optimizer:
    """It adds a sparse gradient to the table."""
    return optim.SGD(table.parameters(), lr=0.1)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training by SGD."""
    return recorded(tmp_path_factory.mktemp("sparse") / "sgd.json", sgd)


@pytest.fixture(scope="module")
def database(path: Path) -> Iterator[tracedb.Database]:
    """The same, ingested."""
    with tracedb.open() as db:
        db.ingest([path])
        yield db


def test_an_update_has_the_size_of_the_values(database: tracedb.Database) -> None:
    """Both the op in place and the one within that does the work."""
    query = """
        SELECT name, value_dims, count(*)
        FROM prediction.sparse_op
        INNER JOIN staging.op USING (op_id)
        WHERE name LIKE 'aten::add%'
        GROUP BY ALL
        ORDER BY ALL
    """
    assert rows(database, query) == [
        ("aten::add", VALUES, STEPS),
        ("aten::add_", VALUES, STEPS),
    ]


def test_the_work_of_an_update_is_that_of_the_values(
    database: tracedb.Database,
) -> None:
    """At another batch size, it grows as these do; the model's parameters do not."""
    query = """
        SELECT op.name, flops, changed.family, basis, ratio
        FROM reference.op_estimate AS work
        INNER JOIN prediction.sparse_op USING (op_id)
        INNER JOIN staging.op AS op USING (op_id)
        INNER JOIN prediction.changed_op_time AS changed USING (op_id)
        WHERE work.change = '' AND op.name = 'aten::add'
        GROUP BY ALL
    """
    with database.simulate(["replay"], [TO_BATCH]) as beside:
        assert rows(beside, query) == [
            ("aten::add", BATCH * LOOKUPS * WIDTH, "elementwise", "roofline", 4.0)
        ]
        dense = rows(
            beside,
            "SELECT DISTINCT basis FROM prediction.changed_op_time INNER JOIN "
            "staging.op USING (op_id) ANTI JOIN prediction.sparse_op USING (op_id) "
            "WHERE name = 'aten::add_'",
        )
        assert dense == [("unchanged",)]


def without_casts(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Nothing records the size of the values."""
    return [event for event in events if event.get("name") != "aten::to"]


def without_tables(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ops do not say which of their arguments is sparse."""
    for event in events:
        if event.get("name") in ("aten::add", "aten::add_"):
            event["args"]["Input Dims"] = [[] for _ in event["args"]["Input Dims"]]
    return events


@pytest.mark.parametrize("change", [without_casts, without_tables])
def test_values_of_unknown_size_are_not_the_table(
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    path: Path,
    tmp_path: Path,
) -> None:
    """The work is unknown, and the edit is refused."""
    document = json.loads(path.read_text())
    document["traceEvents"] = change(document["traceEvents"])
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document))
    with tracedb.open() as db:
        db.ingest([other])
        found = rows(db, "SELECT DISTINCT value_dims FROM prediction.sparse_op")
        assert found == [(None,)]
        with pytest.raises(
            ScenarioError, match="aten::add: the size of a sparse tensor is not"
        ):
            db.scenarios([TO_BATCH])


def test_how_many_rows_differ_is_not_guessed(tmp_path: Path) -> None:
    """Adam adds up equal rows first; how many remain depends on the lookups."""
    adam = recorded(
        tmp_path / "adam.json", lambda table: optim.SparseAdam(table.parameters())
    )
    with tracedb.open() as db:
        db.ingest([adam])
        with pytest.raises(ScenarioError, match="is not known to follow the batch"):
            db.scenarios([TO_BATCH])
