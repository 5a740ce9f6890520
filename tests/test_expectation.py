"""Expected host times equal those of a plain loop over similar spans."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Sequence
from math import exp, log, sqrt
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from support import SAMPLES, Ingested, rows

import tracedb
from tracedb import catalog
from tracedb.synthetic import Delays, execute, random_program
from tracedb.whatif.scenario import BASELINE, Edit
from tracedb.whatif.simulation import simulated

ALIKE = ("ordinal", "shapes", "name", "type")
FIELDS = {
    "ordinal": ("type", "name", "role", "shapes", "ordinal", "ordinal_count"),
    "shapes": ("type", "name", "role", "shapes"),
    "name": ("type", "name"),
    "type": ("type",),
}
METHODS = {
    "statistics": "run",
    "other_steps": "other_steps",
    "other_ranks": "other_ranks",
    "shared": "other_runs",
    "by_name": "run_by_name",
}
ENOUGH = 2

Sample = dict[str, Any]
Expected = dict[tuple[int, int], tuple[str, float]]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """Two ranks of a generated job, and two generated traces, of three steps each."""
    folder = tmp_path_factory.mktemp("generated")
    for seed in (3, 4):
        program = random_program(seed, threads=2, streams=2, steps=3)
        generated = execute(program, Delays(jitter=0.3), seed)
        generated[0].write(folder / f"{seed}.json")
    with tracedb.open() as opened:
        opened.ingest([SAMPLES / "generated_gpu", folder])
        yield opened


def pool(sample: Sample, host_from: str) -> tuple[Any, Any]:
    """The samples that share a pool, and which of them a sample may not learn from."""
    if host_from == "other_steps":
        return sample["trace_id"], sample["step_id"]
    if host_from == "other_ranks":
        return sample["run_id"], sample["trace_id"]
    if host_from == "other_runs":
        return sample["gpu"], sample["run_id"]
    return sample["run_id"], None


def key(sample: Sample, alike: str) -> tuple[Any, ...]:
    """The properties in which samples are alike."""
    return (alike, *(sample[field] for field in FIELDS[alike]))


def expectations(samples: list[Sample], host_from: str) -> Expected:
    """Each span's matching level and expected duration."""
    pools = defaultdict(list)
    for sample in samples:
        pools[pool(sample, host_from)[0]].append(sample)
    found: Expected = {}
    for together in pools.values():
        for excluded in {pool(sample, host_from)[1] for sample in together}:
            found |= expected_of(together, host_from, excluded)
    return found


def expected_of(together: list[Sample], host_from: str, excluded: object) -> Expected:
    """The same for spans that may not learn from one step, trace or run."""
    units: dict[Any, list[Sample]] = defaultdict(list)
    for sample in together:
        units[pool(sample, host_from)[1]].append(sample)
    own = units[excluded]
    others = without(units, excluded)
    alike = {unit: Counter(all_keys(without(units, unit))) for unit in units}
    chosen = {id(s): finest(s, alike[excluded]) for s in own}
    times = defaultdict(list)
    for other in others:
        for level in ALIKE:
            times[key(other, level)].append(other["sample_ns"])
    wanted = {key(s, chosen[id(s)]) for s in own if chosen[id(s)]}
    typical = {group: median(times[group]) for group in wanted}
    sums: dict[Any, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for other in others:
        level = finest(other, alike[pool(other, host_from)[1]])
        if level and key(other, level) in typical:
            step = sums[*factor_group(other, level), other["step_id"]]
            step[0] += other["sample_ns"]
            step[1] += typical[key(other, level)]
    factors = defaultdict(list)
    for (*group, _), (time, usual) in sums.items():
        if usual > 0:
            factors[tuple(group)].append(time / usual)
    return {
        (s["thread_id"], s["position"]): (
            chosen[id(s)],
            typical[key(s, chosen[id(s)])]
            * median(factors.get(factor_group(s, chosen[id(s)]), [1.0])),
        )
        for s in own
        if chosen[id(s)]
    }


def factor_group(sample: Sample, level: str) -> tuple[str, ...]:
    """Samples that share a factor: gaps count as shapes too."""
    group = "shapes" if level == "ordinal" else level
    return sample["type"], sample["role"], group


def without(units: dict[Any, list[Sample]], excluded: object) -> list[Sample]:
    """All samples except those of the excluded unit, if any."""
    kept = (u for name, u in units.items() if name is None or name != excluded)
    return [sample for unit in kept for sample in unit]


def all_keys(samples: list[Sample]) -> Iterator[tuple[Any, ...]]:
    """Each sample's keys, at every level."""
    return (key(sample, alike) for sample in samples for alike in ALIKE)


def finest(sample: Sample, others: Counter[tuple[Any, ...]]) -> str:
    """The finest level at which enough other samples match."""
    for alike in ALIKE:
        if others[key(sample, alike)] >= ENOUGH:
            return alike
    return ""


@pytest.mark.parametrize(("method", "host_from"), METHODS.items())
def test_expectations_equal_the_plain_loop(
    method: str, host_from: str, database: tracedb.Database
) -> None:
    """The median of similar spans elsewhere, times the typical factor of the step."""
    samples = list(
        database.sql("""
            FROM overhead.sample
            LEFT JOIN (
                SELECT trace_id, any_value(name ORDER BY device) AS gpu
                FROM staging.device GROUP BY trace_id
            ) USING (trace_id)
        """).iter_rows(named=True)
    )
    if host_from == "other_runs":
        samples = [
            s
            for s in samples
            if s["type"].startswith("T")
            and (s["type"] != "T1" or s["sample_ns"] < 200_000)
        ]
    if host_from == "run_by_name":
        samples = [s | {"shapes": number} for number, s in enumerate(samples)]
    reference = expectations(samples, host_from)
    with simulated(database.connection, [method]) as connection:
        found = connection.execute(
            "SELECT thread_id, position, alike, expected_ns "
            "FROM prediction.host_expectation"
        ).fetchall()
    assert len(found) == len(reference) > 1_000
    for thread, position, alike, expected in found:
        assert reference[thread, position][0] == alike
        assert abs(reference[thread, position][1] - expected) <= 1


def test_the_factor_comes_from_repeated_spans_only(tmp_path: Path) -> None:
    """Repeated ops of 10 us stay 10 us beside ops of 5 ms without similar ones."""
    place = {"ph": "X", "pid": 1, "tid": 1}
    mark = {"name": "ProfilerStep#1", "cat": "user_annotation", "ts": 0, "dur": 40_000}
    ops = [("aten::add", 10)] * 40
    for number in range(4):
        ops[10 * number : 10 * number] = [(f"once::op{number}", 5_000)]
    events, at = [mark | place], 5
    for name, duration in ops:
        event = {"name": name, "cat": "cpu_op", "ts": at, "dur": duration}
        events.append(event | place)
        at += duration + 5
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    with tracedb.open() as opened:
        opened.ingest([path])
        found = rows(
            opened,
            """
            SELECT alike, min(expected_ns), max(expected_ns), sum(expected_ns)::BIGINT
            FROM prediction.host_expectation
            INNER JOIN overhead.timeline USING (thread_id, position)
            WHERE host_from = 'run' AND type = 'T5' GROUP BY alike ORDER BY alike
            """,
        )
    assert found == [
        ("shapes", 10_000, 10_000, 400_000),
        ("type", 5_000_000, 5_000_000, 20_000_000),
    ]


def test_methods_are_those_of_the_database(database: tracedb.Database) -> None:
    """Python and SQL name the same methods; the stored ones come first."""
    variants = "prediction.variant WHERE variant_id > 0"
    known = f"SELECT method FROM {variants} ORDER BY variant_id"
    stored = rows(database, known)
    assert [method for (method,) in stored] == list(tracedb.METHODS[: len(stored)])
    with simulated(database.connection, tracedb.METHODS) as connection:
        beside = connection.execute(known).fetchall()
    assert {method for (method,) in beside} == {*tracedb.METHODS}
    assert set(rows(database, "SELECT method FROM prediction.method")) == set(beside)


def test_simulating_a_method_does_not_change_the_database(
    database: tracedb.Database,
) -> None:
    """A method simulated on demand is not in the database afterwards."""
    before = rows(database, "FROM critical_path.step_time ORDER BY ALL")
    frame = database.predict("other_steps")
    assert set(frame["method"]) == {"other_steps"}
    assert len(frame) == len(rows(database, "FROM staging.step"))
    assert rows(database, "FROM critical_path.step_time ORDER BY ALL") == before


# Its ids are those of a variant, stored or simulated.
OUTCOME = (
    *("prediction.host_time", "prediction.gpu_time", "simulation.segment_time"),
    "critical_path.step_period",
)
SAME = Edit(scenario="same", target="gpu", factor=1)


def outcomes(connection: Any, method: str, scenario: str) -> list[Any]:  # noqa: ANN401
    """The stored relations of a variant, without its id."""
    query = (
        "SELECT * EXCLUDE (variant_id) FROM {} WHERE variant_id = ("
        "SELECT variant_id FROM prediction.variant WHERE method = $method "
        "AND scenario = $scenario) ORDER BY ALL"
    )
    chosen = {"method": method, "scenario": scenario}
    return [
        connection.execute(query.format(name), chosen).fetchall() for name in OUTCOME
    ]


@pytest.mark.parametrize("method", ["replay", "statistics", "full"])
def test_simulated_methods_equal_stored_ones(
    method: str, database: tracedb.Database
) -> None:
    """A method gives the same results stored, copied, or simulated again."""
    stored = outcomes(database.connection, method, BASELINE)
    with simulated(database.connection, [method], [SAME]) as connection:
        taken = outcomes(connection, method, BASELINE)
        again = outcomes(connection, method, "same")
    assert taken == stored
    assert again == stored
    assert all(stored)


def test_what_is_stored_is_not_simulated_again(
    database: tracedb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored methods are not recomputed; a scenario computes its own variants only."""
    computed: list[Any] = []

    def rows_of(connection: Any) -> list[Any]:  # noqa: ANN401
        query = "SELECT method, scenario FROM prediction.variant ORDER BY variant_id"
        return list(connection.execute(query).fetchall())

    def watched(
        connection: Any,  # noqa: ANN401
        trace_ids: Sequence[int],
        only: Container[str],
    ) -> Iterator[str]:
        for name in compute(connection, trace_ids, only):
            computed.append((name, *rows_of(connection)))
            yield name

    compute = catalog.compute
    monkeypatch.setattr(catalog, "compute", watched)
    stored = ["replay", "statistics", "full"]
    with simulated(database.connection, stored) as connection:
        assert [method for method, _ in rows_of(connection)] == ["measured", *stored]
    assert computed == []
    with simulated(database.connection, stored[:2], [SAME]) as connection:
        known = [("measured", BASELINE), *((method, BASELINE) for method in stored[:2])]
        new = [(method, "same") for method in stored[:2]]
        assert rows_of(connection) == [*known, *new]
    names = [name for name, *_ in computed]
    assert "simulation.segment_time" in names
    # What was learnt from the run is present too.
    assert "prediction.host_expectation" not in names
    simulated_ones = [
        one for one in computed if one[0] not in catalog.chosen_by_edits()
    ]
    assert all(variants == new for _, *variants in simulated_ones)


def test_a_read_only_file_can_be_evaluated(tmp_path: Path, ingested: Ingested) -> None:
    """Scoring needs no write access."""
    file = tmp_path / 'my "first" run.duckdb'
    shutil.copy(ingested(SAMPLES / "generated_gpu"), file)
    with tracedb.open(file, read_only=True) as opened:
        scores = opened.evaluate()
    methods = set(scores.filter(scores["grouping"] == "all")["method"])
    assert methods >= {"naive", "replay", "other_steps", "other_ranks", "lin2022"}


@pytest.mark.parametrize("method", ["statistics", *list(METHODS)[1:]])
def test_bands_come_from_errors_elsewhere(
    method: str, database: tracedb.Database
) -> None:
    """The trace's other steps, the other ranks, or the other runs."""
    with simulated(database.connection, [method]) as connection:
        steps = connection.execute("""
            SELECT step_id, trace_id, run_id, measured_ns, predicted_ns
            FROM critical_path.step_time WHERE as_measured_share < 0.5
        """).fetchall()
        found = connection.execute("""
            SELECT step_id, other_count, low_ns, high_ns, is_inside
            FROM question.prediction_band
        """).fetchall()
    of_step = {step[0]: step for step in steps}
    assert found
    for step_id, count, low, high, is_inside in found:
        _, trace, run, measured, predicted = of_step[step_id]
        others = [
            log(other[3] / other[4])
            for other in steps
            if (
                {
                    "other_ranks": other[2] == run and other[1] != trace,
                    "shared": other[2] != run,
                }.get(method, other[1] == trace and other[0] != step_id)
            )
        ]
        assert count == len(others)
        student = 1.2816 + 0.8467 / count + 0.5711 / count**2
        square = sum(other**2 for other in others) / count
        reach = student * sqrt(square) * sqrt(1 + 1 / count)
        assert low == pytest.approx(predicted * exp(-reach), abs=1)
        assert high == pytest.approx(predicted * exp(reach), abs=1)
        assert is_inside == (low <= measured <= high)


def test_without_other_ranks_nothing_is_learnt(database: tracedb.Database) -> None:
    """Host times are then as measured, and that is reported."""
    with simulated(database.connection, ["other_ranks"]) as connection:
        found = connection.execute("""
            SELECT count(*) OVER (PARTITION BY run_id, step) AS ranks, as_measured_share
            FROM critical_path.step_time
        """).fetchall()
    assert {share for ranks, share in found if ranks == 1} == {1.0}
    assert all(share < 0.2 for ranks, share in found if ranks > 1)
