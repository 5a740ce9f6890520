"""Answers of one step, rank, trace or device count only what belongs to it."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest
from plain_answers import ANSWERS, Recorded, Row, assert_answers
from support import SAMPLES, Ingested

import tracedb
from tracedb import catalog
from tracedb.catalog import Relation
from tracedb.emptiness import reading_instead
from tracedb.part import FINER, Part, choice

COUNTED = [one for one in catalog.relations() if one.counts]
PARTS: list[Part] = [
    {"rank": 1},
    {"step": 2},
    {"trace": 3},
    {"device": 0},
    {"rank": 1, "step": 2},
]
OF_DEVICES = ("top_kernel", "copy", "launch_bound", "exposed_communication")
TIMES = ("time_ns", "gpu_time_ns", "waited_ns", "measured_ns", "communication_ns")
"""Columns whose sums over all parts are those of the whole."""
SUMMED = [
    one
    for one in COUNTED
    if {*TIMES} & {*one.columns}
    and "run_id" in one.columns
    # One has work by name if a single one was late, the other also has maxima.
    and one.name not in ("launch_bound", "trust")
]


class Narrowed(Recorded):
    """What belongs to one step, rank, trace and device, found by plain loops."""

    def __init__(self, database: tracedb.Database, part: Part) -> None:
        """Read from this database, and keep what belongs to the part."""
        super().__init__(database)
        self._part = part
        self._whole = Recorded(database)
        self._calls = {row["call_id"]: row for row in self._whole.rows("staging.call")}
        work = self._whole.rows("staging.gpu_op")
        self._work = {row["gpu_op_id"]: row for row in work}

    def rows(self, relation: str) -> list[Row]:
        """The waits, periods and streams' work of the part; names of everything."""
        found = self._whole.rows(relation)
        if "_wait" in relation:
            return [row for row in found if self._keeps(row, self._begin(row))]
        if "stream_position" in relation:
            return [row for row in found if self._keeps_work(row["gpu_op_id"])]
        if "step_period" in relation:
            return [row for row in found if row["step_id"] in self.steps()]
        return found

    def steps(self) -> dict[int, Row]:
        """Steps of the part."""
        return {
            number: row
            for number, row in self._whole.steps().items()
            if self._keeps(row, row["start_ns"])
        }

    def work(self) -> dict[tuple[int, int], list[Row]]:
        """GPU work of the part."""
        return {
            place: [row for row in found if self._keeps_work(row["gpu_op_id"])]
            for place, found in self._whole.work().items()
        }

    def spans(self) -> Iterator[Row]:
        """Host time of the part: that of a step has its number."""
        for row in self._whole.spans():
            number = row.get("step_id")
            if number in self.steps() if number else self._keeps(row, None):
                yield row

    def _begin(self, row: Row) -> int:
        """When what waits begins: a call, a thread, or the launch of work."""
        if "call_id" in row:
            return int(self._calls[row["call_id"]]["start_ns"])
        if "gpu_op_id" in row:
            return int(self._calls[self._work[row["gpu_op_id"]]["call_id"]]["start_ns"])
        return int(row["start_ns"])

    def _keeps_work(self, number: int) -> bool:
        work = self._work[number]
        launch = self._calls.get(work["call_id"], {})
        device = self._part.get("device")
        return device in (None, work["device"]) and self._keeps(
            work, launch.get("start_ns")
        )

    def _keeps(self, row: Row, begin: int | None) -> bool:
        trace = self._whole.traces()[row["trace_id"]]
        return (
            self._part.get("rank") in (None, trace["rank"])
            and self._part.get("trace") in (None, trace["trace_id"])
            and (self._part.get("step") is None or self._is_in(row["trace_id"], begin))
        )

    def _is_in(self, trace: int, begin: int | None) -> bool:
        return begin is not None and any(
            step["trace_id"] == trace
            and step["step"] == self._part.get("step")
            and step["start_ns"] <= begin < step["end_ns"]
            for step in self._whole.steps().values()
        )


@pytest.fixture(scope="module")
def samples(ingested: Ingested) -> Iterator[tracedb.Database]:
    """The traces that come with tracedb."""
    with tracedb.open(ingested(SAMPLES), read_only=True) as opened:
        yield opened


@pytest.mark.parametrize("part", PARTS, ids=str)
@pytest.mark.parametrize("question", [o.name for o in COUNTED if o.name in ANSWERS])
def test_answers_of_a_part_are_those_of_plain_loops(
    samples: tracedb.Database, question: str, part: Part
) -> None:
    """Launches decide on the step of GPU work, begins on that of anything else."""
    relation = catalog.find(f"question.{question}")
    assert has_part(relation, "device") == (question in OF_DEVICES)
    if "device" not in part or question in OF_DEVICES:
        found = samples.ask(question, **part)
        assert_answers(question, found, Narrowed(samples, part))


@pytest.mark.parametrize("name", ["rank", "trace", "run"])
@pytest.mark.parametrize("relation", SUMMED, ids=lambda one: one.name)
def test_parts_add_up(samples: tracedb.Database, relation: Relation, name: str) -> None:
    """What all ranks, traces or runs take is what the whole answer takes."""
    column = next(one for one in TIMES if one in relation.columns)
    number = "rank" if name == "rank" else f"{name}_id"
    there = samples.sql(f"SELECT DISTINCT {number} AS n FROM staging.trace ORDER BY n")
    parts = [
        samples.ask(relation.name, **{name: n})
        for n in there["n"]
        if n not in (None, -1)
    ]
    ranked = samples.sql("SELECT run_id FROM staging.trace WHERE rank >= 0")["run_id"]
    whole = samples.ask(relation.name)
    if name == "rank":
        whole = whole.filter(whole["run_id"].is_in(ranked.implode()))
    assert sum(part[column].sum() for part in parts) == whole[column].sum()


def test_parts_that_an_answer_lacks_are_named(samples: tracedb.Database) -> None:
    """The error names what the answer has, and a question that has the part."""
    with pytest.raises(tracedb.QueryError) as error:
        samples.ask("device_time", step=2)
    assert str(error.value) == (
        "question.device_time has no steps to choose from; it has ranks, runs, traces, "
        "devices; question.idle_cause has steps"
    )


def test_comparisons_of_parts_are_a_command(samples: tracedb.Database) -> None:
    """Questions about two runs compare all of them; the error says what does not."""
    first, second, *_ = samples.relation("staging.run")["run_id"]
    with pytest.raises(tracedb.QueryError) as error:
        samples.ask("diff_period", first, second, rank=1)
    assert str(error.value) == (
        "question.diff_period has no ranks to choose from; "
        "`tracedb diff DB --rank A B` compares single ranks"
    )


@pytest.mark.parametrize("step", [2, 5])
def test_a_timeline_of_a_step_has_what_begins_in_it(
    samples: tracedb.Database, step: int
) -> None:
    """Ops, calls, ranges and modules by their start, GPU work by that of its launch."""
    marks = samples.relation("staging.step", step).rows(named=True)
    calls = dict(
        samples.sql(
            "SELECT gpu_op_id, call.start_ns "
            "FROM staging.gpu_op INNER JOIN staging.call USING (call_id)"
        ).iter_rows()
    )
    query = "SELECT trace_id, shift_ns FROM graph.run_time"
    shifts = dict(samples.sql(query).iter_rows())
    expected = set()
    for row in samples.relation("question.timeline").rows(named=True):
        own_ns = row["start_ns"] - shifts[row["trace_id"]]
        begin_ns = calls.get(row["node_id"], own_ns)
        if any(
            mark["trace_id"] == row["trace_id"]
            and mark["start_ns"] <= begin_ns < mark["end_ns"]
            for mark in marks
        ):
            expected.add((row["track"], row["node_id"]))
    found = samples.ask("timeline", step=step)
    assert {*found.select("track", "node_id").iter_rows()} == expected
    assert {"gpu" if step == 2 else "module", "host", "range"} <= {*found["track"]}


@pytest.mark.parametrize("relation", COUNTED, ids=lambda one: one.name)
def test_what_an_answer_counts_can_be_restricted(relation: Relation) -> None:
    """It reads the rows by name, so that a part of them can take their place."""
    for name in relation.counts:
        assert name in relation.reads
        assert f"(FROM {name})" in reading_instead(
            relation.query, {name: f"(FROM {name}){{alias}}"}
        )
        assert "trace_id" in catalog.find(name).columns


@pytest.mark.parametrize(("whole", "finer"), FINER.items())
def test_finer_questions_have_parts_that_others_lack(whole: str, finer: str) -> None:
    """Otherwise naming them would be no help."""
    asked, better = catalog.find(f"question.{whole}"), catalog.find(f"question.{finer}")
    assert better.is_public
    assert any(
        not has_part(asked, name) and has_part(better, name)
        for name in ("step", "rank", "device")
    )


def has_part(relation: Relation, name: str) -> bool:
    """Whether an answer, or what it counts, has a part."""
    try:
        choice(relation, {name: 0}, lambda _: pl.DataFrame({name: [0]}))
    except tracedb.QueryError:
        return False
    return True
