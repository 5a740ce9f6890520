"""Edits of ranks that send to one another are predicted to the nanosecond."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import messages
import pytest
from executed import Case
from support import rows
from test_chakra import assert_lawful, runs, shown
from test_run_slack import assert_equal_to_oracle
from test_simulation import assert_equal_to_reference

import tracedb
from tracedb.synthetic import execute

EAGER, QUEUE = messages.pipeline(7), messages.queue(2)
"""A pipeline some of whose sends do not wait, and a queue in which none does."""


@pytest.mark.parametrize("seed", [1, 3, 7])
def test_messages_are_waited_for_with_edits(seed: int, tmp_path: Path) -> None:
    """Each rank of a pipeline waits for what another one sends, or takes."""
    messages.check(messages.pipeline(seed), tmp_path)


def test_sends_ahead_of_their_receives_with_edits(tmp_path: Path) -> None:
    """Small sends do not wait: only their receives do, if at all."""
    messages.check(QUEUE, tmp_path)


def test_answers_say_if_sends_may_not_wait(tmp_path: Path) -> None:
    """No receive is late in the trace, and with some changes it is."""
    found = messages.judged(messages.unseen(2), tmp_path)
    wrong = {name for name, (is_wrong, _) in found.items() if is_wrong}
    told = {name for name, (_, is_told) in found.items() if is_told}
    assert {"receives later", "host of rank 1 x20"} <= wrong <= told
    assert {"sends later", "all kernels x2", "messages x3"}.isdisjoint(told)


@contextmanager
def recorded(one: Case, folder: Path, ahead_ns: int = 0) -> Iterator[tracedb.Database]:
    """The traces of a program; each rank's clock is ahead of that of the one before."""
    paths = []
    for rank, trace in enumerate(execute(one.program, one.delays)):
        path = trace.write(folder / f"{rank}.json", one.form)
        content = json.loads(path.read_text())
        content["baseTimeNanoseconds"] += rank * ahead_ns
        path.write_text(json.dumps(content))
        paths.append(path)
    with tracedb.open() as database:
        database.ingest(paths, run="job")
        yield database


MEETINGS = """
    SELECT rank, process_group, number, kind, element_count, is_eager, waiting_ns,
        moving_ns
    FROM graph.collective INNER JOIN staging.trace USING (trace_id)
    ORDER BY ALL
"""


@pytest.mark.parametrize("ahead_ns", [7_000_000, -90_000])
def test_clocks_are_compared_by_messages(ahead_ns: int, tmp_path: Path) -> None:
    """Whatever the clocks show, sends wait, or do not wait, for as long."""
    with recorded(EAGER, tmp_path) as database:
        expected = rows(database, MEETINGS)
    with recorded(EAGER, tmp_path, ahead_ns) as database:
        assert rows(database, MEETINGS) == expected
    assert {(row[4] <= 128, row[5]) for row in expected if row[3] == "send"} == {
        (True, True),
        (False, False),
    }


def test_receives_far_behind_their_sends_are_matched(tmp_path: Path) -> None:
    """Ends of a message may differ by milliseconds, and ever more."""
    with recorded(QUEUE, tmp_path) as database:
        query = (
            "SELECT kind, count(*), count_if(is_eager) FROM graph.collective GROUP BY 1"
        )
        count = len(messages.SIZES) + 2 * 19
        assert sorted(rows(database, query)) == [
            ("recv", count, 0),
            ("send", count, count),
        ]


@pytest.mark.parametrize("one", [EAGER, QUEUE], ids=lambda one: one.name)
def test_other_answers_know_sends_that_do_not_wait(one: Case, tmp_path: Path) -> None:
    """The plain loop, slack of runs, and graphs for Chakra agree."""
    with recorded(one, tmp_path) as database:
        assert_equal_to_reference(database, "replay")
        assert assert_equal_to_oracle(database) > 100
        for method in (None, "replay"):
            with shown(database, None, method) as beside:
                (run_id,) = runs(beside)
                assert_lawful(beside, tmp_path, run_id)
