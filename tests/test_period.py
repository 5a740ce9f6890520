"""Times of a step: host, GPU, and period; measured and predicted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from reference import Times, periods, predicted_periods, simulate
from support import SAMPLES, Ingested, rows, write_ahead
from support import STEPS_AHEAD as STEPS

import tracedb
from tracedb import Edit
from tracedb.synthetic import (
    Delays,
    Gap,
    Launch,
    Op,
    Program,
    Rank,
    Thread,
    execute,
    step,
)

MS = 1_000_000
METHODS = ("replay", "statistics", "full")


@pytest.fixture(scope="module")
def ranks(ingested: Ingested) -> Iterator[tracedb.Database]:
    """A generated job with two GPUs."""
    path = ingested(SAMPLES / "generated_gpu")
    with tracedb.open(path, read_only=True) as opened:
        yield opened


def expected_times(database: tracedb.Database, method: str | None) -> dict[int, Times]:
    """What a plain loop computes, as measured or by a method."""
    if method is None:
        marks = {
            step: (start, end)
            for step, start, end in rows(
                database, "SELECT step_id, start_ns, end_ns FROM staging.step"
            )
        }
        ends = dict(rows(database, "SELECT gpu_op_id, end_ns FROM staging.gpu_op"))
        return periods(database, marks, ends)
    return predicted_periods(database, simulate(database, method))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("jobs", ["behind", "generated", "ranks", "dlrm8"])
def test_three_times_equal_the_plain_loop(
    jobs: str, method: str, request: pytest.FixtureRequest
) -> None:
    """Period, host time and GPU end agree to the nanosecond, measured and predicted."""
    database = request.getfixturevalue(jobs)
    measured = expected_times(database, None)
    predicted = expected_times(database, method)
    found = database.sql(
        f"FROM critical_path.step_time WHERE method = '{method}' ORDER BY step_id"
    )
    assert sorted(found["step_id"]) == sorted(measured) == sorted(predicted)
    starts = dict(rows(database, "SELECT step_id, start_ns FROM staging.step"))
    begins = dict(
        rows(
            database,
            "SELECT step_id, host_start_ns FROM critical_path.step_period "
            "INNER JOIN prediction.variant USING (variant_id) "
            f"WHERE method = '{method}' AND scenario = 'baseline'",
        )
    )
    for row in found.iter_rows(named=True):
        number = row["step_id"]
        for name, times, begin in (
            ("measured", measured[number], starts[number]),
            ("predicted", predicted[number], begins[number]),
        ):
            assert row[f"{name}_ns"] == times[1] - times[0]
            gpu_end = None if times[2] is None else times[2] - begin
            assert row[f"{name}_gpu_end_ns"] == gpu_end


@pytest.mark.parametrize("jobs", ["behind", "generated", "ranks", "dlrm8"])
def test_periods_sum_to_the_time_of_all_steps(
    jobs: str, request: pytest.FixtureRequest
) -> None:
    """They cover the first mark's begin until host and GPU finish all steps."""
    database = request.getfixturevalue(jobs)
    differing = rows(
        database,
        """
        SELECT variant_id, thread_id
        FROM critical_path.step_period INNER JOIN staging.step USING (step_id)
        GROUP BY ALL
        HAVING
            sum(step_period.end_ns - step_period.start_ns)
            <> max(greatest(host_end_ns, step_period.gpu_end_ns)) - min(host_start_ns)
            OR min(step_period.end_ns - step_period.start_ns) < 0
        """,
    )
    assert differing == []


def test_a_gpu_behind_sets_the_period(behind: tracedb.Database) -> None:
    """Where the host does not wait, a step's mark says little about its time."""
    found = behind.sql(
        "FROM critical_path.step_time WHERE method = 'replay' AND step > 0"
    )
    assert found.height == 8 * (STEPS - 1)
    assert (found["measured_ns"] > 3 * found["measured_host_ns"]).all()
    assert (found["measured_gpu_end_ns"] > found["measured_ns"]).all()
    assert (found["error_share"].abs() < 0.01).all()


def test_where_steps_wait_the_period_equals_the_mark(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Each step waits for its GPU work, and begins when the previous one ends."""
    write_ahead(tmp_path, waits=True)
    database.ingest([tmp_path])
    found = rows(
        database,
        "SELECT measured_ns, measured_host_ns, predicted_ns, predicted_host_ns "
        "FROM critical_path.step_time WHERE method = 'replay'",
    )
    assert len(found) == 8 * STEPS
    for measured, host, predicted, predicted_host in found:
        assert measured == host
        assert predicted == predicted_host


@pytest.mark.parametrize("method", ["replay", "statistics"])
def test_without_host_time_the_gpu_time_remains(
    behind: tracedb.Database, method: str
) -> None:
    """A server with no host time still takes as long as its GPU."""
    free = [
        Edit(scenario="host free", target="host", type=type_, factor=0)
        for type_ in (None, "idle")
    ]
    (busy_ns,) = rows(
        behind,
        """
        SELECT max(busy_ns) FROM (
            SELECT trace_id, sum(end_ns - start_ns) AS busy_ns FROM staging.gpu_op
            GROUP BY trace_id, stream
        )
        """,
    )[0]
    effects = behind.scenarios(free, method)
    assert (effects["predicted_ns"] > 0).all()
    periods_ns: dict[int, int] = defaultdict(int)
    for trace, period in effects.select("trace_id", "predicted_ns").iter_rows():
        periods_ns[trace] += period
    assert max(periods_ns.values()) >= busy_ns
    assert (effects["predicted_host_ns"] < effects["baseline_host_ns"] / 10).all()
    assert (effects["change_share"] <= 0).all()


def test_gaps_between_steps_and_steps_without_gpu_work(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Time between two marks belongs to the period of the later step."""
    quiet = Op("aten::add", (Gap(50_000),))
    busy = Op("aten::mm", (Gap(5_000), Launch(7, 2 * MS), Gap(5_000)))
    body = (step(3, quiet), Gap(3 * MS), step(9, busy), Gap(MS), step(10, quiet))
    program = Program((Rank((Thread("main", body),)),))
    execute(program, Delays(), 0)[0].write(tmp_path / "trace.json")
    database.ingest([tmp_path])
    found = rows(
        database,
        "SELECT step, measured_ns, measured_host_ns, measured_gpu_end_ns, predicted_ns "
        "FROM critical_path.step_time WHERE method = 'replay' ORDER BY step",
    )
    (_, first, host, gpu_end, _), second, third = found
    assert (first, gpu_end) == (host, None)
    # The second period includes the gap between steps, and ends with its GPU work.
    assert second[1] == 3 * MS + second[3]
    # The third step ends before the GPU has finished the second.
    assert third[1] == 0
    assert third[3] is None
    assert [row[1] for row in found] == [row[4] for row in found]


@pytest.mark.parametrize("jobs", ["behind", "generated", "ranks", "dlrm8"])
def test_a_path_tiles_its_period(jobs: str, request: pytest.FixtureRequest) -> None:
    """Measured and predicted, the path of a period takes exactly its time."""
    database = request.getfixturevalue(jobs)
    query = """
        SELECT period.variant_id, period.step_id
        FROM critical_path.step_period AS period
        LEFT JOIN critical_path.interval AS tile
            ON
                period.variant_id = tile.variant_id
                AND scope = 'period' AND period.step_id = path_id
        WHERE period.end_ns > period.start_ns
        GROUP BY ALL
        HAVING
            coalesce(sum(tile.end_ns - tile.start_ns), 0)
            <> any_value(period.end_ns - period.start_ns)
            OR max(tile.end_ns) - min(tile.start_ns) <> sum(tile.end_ns - tile.start_ns)
    """
    with database.simulate(["replay", "statistics", "full"]) as asked:
        assert rows(asked, query) == []


def test_a_gpu_bound_path_has_kernels_only(
    behind: tracedb.Database,
) -> None:
    """Where the GPU runs behind, its kernels are on the path, and the host is not."""
    for method in (None, "replay"):
        path = behind.critical_path(3, summary=True, method=method)
        kernels = sum(path.filter(path["kind"] == "kernel")["time_ns"])
        assert kernels > 0.95 * sum(path["time_ns"])
        host = behind.critical_path(3, scope="step", summary=True, method=method)
        assert (host.filter(host["time_ns"] > 0)["kind"] != "kernel").all()
