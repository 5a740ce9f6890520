"""Simple baselines for step times, by plain loops, and the best one per method."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import fmean, median
from typing import Any

import pytest
from support import SAMPLES

import tracedb
from tracedb.synthetic import Delays, execute, random_program

KNOWN = {
    "replay": {
        *("other_steps", "step_before", "gpu_scaled", "other_ranks", "common_end"),
        *("gpu_active", "busiest"),
    },
    "other_steps": {"other_steps", "step_before", "gpu_scaled", "gpu_active"},
    "other_ranks": {"other_ranks", "common_end", "gpu_active"},
    "shared": {"gpu_active"},
}
KNOWN["statistics"] = KNOWN["full"] = KNOWN["by_name"] = KNOWN["replay"] - {"busiest"}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """Two ranks of three steps, and a run of a single step."""
    folder = tmp_path_factory.mktemp("alone")
    program = random_program(3, threads=2, streams=2, steps=1)
    execute(program, Delays(jitter=0.3), 3)[0].write(folder / "alone.json")
    with tracedb.open() as opened:
        opened.ingest([SAMPLES / "generated_gpu", folder])
        yield opened


def dicts(database: tracedb.Database, query: str) -> list[dict[str, Any]]:
    """The rows of a query as dictionaries."""
    return list(database.sql(query).iter_rows(named=True))


def expected(database: tracedb.Database) -> dict[tuple[str, int], float]:
    """Each baseline for each step, except those by device and thread."""
    steps = dicts(
        database,
        """
        SELECT run_id, trace_id, step_id, step, thread_id,
            period.start_ns + origin_ns + coalesce(shift_ns, 0) AS begin,
            period.end_ns + origin_ns + coalesce(shift_ns, 0) AS done
        FROM critical_path.step_period AS period
        INNER JOIN (SELECT step_id, step, thread_id FROM staging.step) USING (step_id)
        INNER JOIN (FROM simulation.origin) USING (trace_id)
        LEFT JOIN (SELECT trace_id, shift_ns FROM graph.clock) USING (trace_id)
        WHERE variant_id = 0 ORDER BY begin
        """,
    )
    found: dict[tuple[str, int], float] = {}
    last: dict[int, float] = {}
    for own in steps:
        number, lasts = own["step_id"], own["done"] - own["begin"]
        near = [s for s in steps if s["thread_id"] == own["thread_id"] and s is not own]
        if near:
            times = [s["done"] - s["begin"] for s in near]
            found["other_steps", number] = median(times)
        if own["thread_id"] in last:
            found["step_before", number] = last[own["thread_id"]]
        last[own["thread_id"]] = lasts
        ranks = [
            s
            for s in steps
            if s["run_id"] == own["run_id"]
            and s["trace_id"] != own["trace_id"]
            and s["step"] == own["step"]
        ]
        if ranks:
            found["other_ranks", number] = fmean(s["done"] - s["begin"] for s in ranks)
            found["common_end", number] = fmean(s["done"] - own["begin"] for s in ranks)
    return found


def test_baselines_equal_plain_loops(database: tracedb.Database) -> None:
    """Each one that other steps and ranks allow, and no others."""
    found = {
        (row["guess"], row["step_id"]): row["guess_ns"]
        for row in dicts(database, "FROM question.prediction_guess")
        if row["guess"] not in {"gpu_active", "gpu_scaled", "busiest"}
    }
    reference = expected(database)
    assert found.keys() == reference.keys()
    assert len(found) > 20
    assert all(abs(found[key] - reference[key]) <= 1 for key in found)


def test_baselines_from_the_work_of_a_step(database: tracedb.Database) -> None:
    """GPU active time, scaled by other steps or not, or the busier of host and GPU."""
    guesses: dict[int, dict[str, float]] = defaultdict(dict)
    measured, thread = {}, {}
    for row in dicts(
        database,
        "FROM question.prediction_guess INNER JOIN "
        "(SELECT step_id, thread_id FROM staging.step) USING (step_id)",
    ):
        guesses[row["step_id"]][row["guess"]] = row["guess_ns"]
        measured[row["step_id"]] = row["measured_ns"]
        thread[row["step_id"]] = row["thread_id"]
    active = {
        row["step_id"]: row["active"]
        for row in dicts(
            database,
            "SELECT step_id, max(measured_ns) AS active FROM question.gpu_active "
            "WHERE method = 'replay' GROUP BY step_id",
        )
    }
    for step, made in guesses.items():
        assert made["gpu_active"] == active[step]
        assert made["busiest"] >= active[step]
        others = [
            measured[other] / active[other]
            for other in guesses
            if thread[other] == thread[step] and other != step
        ]
        if others:
            scaled = active[step] * median(others)
            assert made["gpu_scaled"] == pytest.approx(scaled, abs=1)
        else:
            assert "gpu_scaled" not in made


def test_the_best_baseline_is_beside_a_method(database: tracedb.Database) -> None:
    """The least mean error among baselines available for all of its steps."""
    methods = list(KNOWN)
    with database.simulate(methods) as beside:
        errors = dicts(beside, "FROM question.prediction_error")
        guesses = {
            (row["guess"], row["step_id"]): abs(row["error_share"])
            for row in dicts(beside, "FROM question.prediction_guess")
        }
        scores = dicts(
            beside, "FROM question.prediction_score WHERE grouping = 'trace'"
        )
    checked = 0
    for score in scores:
        if score["method"] not in KNOWN:
            continue
        steps = [
            row["step_id"]
            for row in errors
            if (row["method"], row["trace_id"]) == (score["method"], score["trace_id"])
        ]
        has_seen_all = score["has_others"] is False
        means = {
            guess: fmean(guesses[guess, step] for step in steps)
            for guess in KNOWN["replay" if has_seen_all else score["method"]]
            if all((guess, step) in guesses for step in steps)
        }
        if len(steps) == score["step_count"]:
            assert score["guess_mape_share"] == pytest.approx(
                min(means.values()), abs=2e-6
            )
            assert means[score["guess"]] == pytest.approx(min(means.values()))
            checked += 1
    assert checked > 8


def test_methods_that_saw_the_step_are_scored_separately(
    database: tracedb.Database,
) -> None:
    """For a run of one step, methods that learn from it have rows of their own."""
    found = {
        (row["method"], row["has_others"]): row["step_count"]
        for row in dicts(
            database, "FROM question.prediction_score WHERE grouping = 'all'"
        )
    }
    assert found["statistics", True] == found["full", True] == 6
    assert found["statistics", False] == found["full", False] == 1
    assert found["replay", None] == 7
