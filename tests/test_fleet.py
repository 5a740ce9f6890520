"""Questions about a fleet find planted anomalies; Spark and DuckDB agree."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner
from lakes import needs_spark, values
from many_ranks import entry
from support import SAMPLES, Ingested

import tracedb
from tracedb import catalog, lake
from tracedb.cli.main import tracedb as command
from tracedb.lake import packing
from tracedb.lake.worker import contracted, contraction
from tracedb.synthetic.program import seeded

RUNS = ("monday", "tuesday", "wednesday")
RANKS = 4
SLOW = 2
"""The rank, and its host, that arrives last at every collective."""
GROWN = "gemm"
"""The kernel that takes a tenth longer from Tuesday on."""
ERROR = 1 / 128
"""[1] Largest relative error of percentiles."""
ODD = 3
"""The rank whose host takes twice as long on Wednesday."""

QUESTIONS = sorted(lake.questions())
PORTABLE = {
    *("count", "count_star", "sum", "min", "max", "quantile_cont", "row_number"),
    *("lag", "lead", "coalesce", "nullif", "abs", "round", "greatest"),
    *("+", "-", "*", "/", "%", "||", "is_null", "not"),
}
"""Functions and operators with the same meaning in DuckDB and Spark, by test."""


def rows_of(run: int, rank: int, trace_id: int) -> Kept:
    """A rank's rows in a lake, such that each question has one answer."""
    base = (run + 1) * 10**15
    late = 1 if rank == SLOW else 0
    is_odd = rank == ODD and run == 2
    steps = range(5)
    return {
        "step": [
            (
                *(trace_id * 100 + step, trace_id, step, base + step * 10**6),
                *(10**6 + step, 2 * 10**5 + rank if not is_odd else 4 * 10**5, None),
                *(90, 40 if step else 55),
            )
            for step in steps
        ],
        "sketch": [
            row
            for (subject, name, first_step), durations in timed(run, rank).items()
            for row in counted(trace_id, subject, name, first_step, durations)
        ],
        "collective": [
            (
                *(trace_id * 100 + step, trace_id, "world", RANKS, "all_reduce"),
                *(step + 1, base + step * 10**6),
                50_000 + 30_000 * (1 - late) + 100 * rank,
                *(base + step * 10**6, None, None),
            )
            for step in steps
        ],
    }


Timed = dict[tuple[str, str, int | None], list[int]]


def timed(run: int, rank: int) -> Timed:
    """[ns] Durations in a trace: one kernel grows, others have noise."""
    random = seeded("durations", run, rank)
    grown = (110_000 if run else 100_000) + rank
    return {
        ("kernel", GROWN, 0): [grown - 9] * 3 + [grown] * 4 + [grown + 9] * 3,
        ("kernel", "add", 0): [1_000 + 100 * rank] * 20,
        ("overhead", "T1", 0): [5_000 + 1_000 * run] * 50,
        ("overhead", "T4", 0): [4_000] * 50,
        **{
            ("op", "aten::mm", first): [
                round(random.lognormvariate(8, 2)) for _ in range(random.randrange(200))
            ]
            for first in (None, 0, 100)
        },
        ("op", "short", None): [0, 1, 1, 255, 256, 257, 511, 513, 1 << 40],
    }


def bucket(duration_ns: int) -> int:
    """The begin of a duration's bucket: only the first eight binary digits are kept."""
    digits = max(duration_ns.bit_length() - 8, 0)
    return duration_ns >> digits << digits


def counted(
    trace_id: int, subject: str, name: str, first: int | None, durations: list[int]
) -> list[tuple[Any, ...]]:
    """The rows of a sketch of durations."""
    found: dict[int, list[int]] = {}
    for duration in durations:
        found.setdefault(bucket(duration), []).append(duration)
    return [
        (trace_id, subject, name, first, at, len(own), sum(own))
        for at, own in sorted(found.items())
    ]


def test_questions_without_rows_name_what_they_need(
    fleet: lake.Place,
) -> None:
    """For a single rank, each question has rows or names what is missing."""
    alone = lake.place_of(f"{fleet.root}/run=monday/rank=1")
    for question in QUESTIONS:
        if lake.ask(alone, question).is_empty():
            assert lake.needs(question), question
    path = CliRunner().invoke(command, ["lake", "critical-path", str(alone)])
    assert "no run here has steps with several ranks" in path.stderr


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> lake.Place:
    """A lake of three runs of four ranks on four hosts."""
    ranks = {
        (name, rank): rows_of(run, rank, run * RANKS + rank + 1)
        for run, name in enumerate(RUNS)
        for rank in range(RANKS)
    }
    return planted(tmp_path_factory.mktemp("fleet"), ranks)


Kept = dict[str, list[tuple[Any, ...]]]
"""A rank's rows in a lake for fleet questions, by relation."""


def planted(root: Path, ranks: dict[tuple[str, int], Kept]) -> lake.Place:
    """A lake of ranks of runs, which are numbered from 1."""
    manifest = lake.Manifest(root)
    manifest.make()
    runs = [*dict.fromkeys(run for run, _ in ranks)]
    with tracedb.open() as empty:
        for number, ((run, rank), rows) in enumerate(ranks.items(), 1):
            place = f"run={run}/rank={rank}/trace={number}"
            (root / place).mkdir(parents=True)
            write(empty.connection, rows, root / place / packing.FLEET)
            source = f"/{run}/node{rank}_1.1.pt.trace.json.gz"
            named = (run, runs.index(run) + 1)
            manifest.commit(entry(number, named, rank, source, place))
    return lake.Place(root)


def write(connection: duckdb.DuckDBPyConnection, kept: Kept, path: Path) -> None:
    """Write rows like a worker: with the types of the relations."""
    with duckdb.connect() as own:
        own.execute("CREATE SCHEMA fleet")
        for one in contracted():
            described = connection.execute(f"DESCRIBE {contraction(one)}").fetchall()
            columns = ", ".join(f"{name} {type_}" for name, type_, *_ in described)
            own.execute(f"CREATE TABLE {one.full_name} ({columns})")
            marks = ", ".join("?" * len(described))
            query = f"INSERT INTO {one.full_name} VALUES ({marks})"
            if rows := kept.get(one.name):
                own.executemany(query, rows)
        queries = {one.full_name: f"FROM {one.full_name}" for one in contracted()}
        own.execute(f"COPY ({packing.packed(queries)}) TO '{path}' (FORMAT parquet)")


def test_the_straggling_rank_is_found(fleet: lake.Place) -> None:
    """The rank and host that arrive last at each collective cause all waiting.

    It arrives 30 us after the next one, whose lateness varies by rank.
    """
    found = lake.ask(fleet, "straggler").filter(pl.col("run") == "monday")
    worst = found.row(0, named=True)
    assert (worst["rank"], worst["host"]) == (SLOW, "node2")
    assert worst["collective_count"] == worst["last_count"] == 5
    assert worst["caused_ns"] == 5 * (30_000 - 100 * SLOW)
    assert worst["caused_share"] == 1
    assert found["caused_ns"].sum() == worst["caused_ns"]
    hosts = lake.ask(fleet, "slow_host")
    assert hosts.row(0)[:3] == ("node2", 3, 3)
    assert hosts["late_run_count"].sum() == 3


def test_changes_between_runs_are_found(fleet: lake.Place) -> None:
    """One kernel grew once; ranks have noise. T1 drifts, T4 does not."""
    grown = lake.ask(fleet, "kernel_regression")
    assert grown.height == 4
    clear = grown.filter("is_clear").row(0, named=True)
    assert grown["is_clear"].sum() == 1
    assert (clear["run"], clear["run_before"], clear["name"]) == (*RUNS[1::-1], GROWN)
    assert clear["change_share"] == pytest.approx(0.1, rel=1e-3)
    assert clear["effect_ns"] == 10_000 * 10 * RANKS
    drift = lake.ask(fleet, "overhead_drift")
    moved = drift.filter(pl.col("drift_share") != 0)
    assert set(moved["type"]) == {"T1"}
    assert moved.height == RANKS * 2
    assert set(moved["before_ns"]) == {5_000, 6_000}


def members(run: int, rank: int, first: int | None) -> Iterator[tuple[str, str]]:
    """The groups with percentiles to which a duration of a trace belongs."""
    yield "run", RUNS[run]
    yield "host", f"node{rank}"
    begin = datetime.fromtimestamp((run + 1) * 10**6, UTC)
    yield "week", str((begin - timedelta(begin.weekday())).date())
    if first is not None:
        yield "steps", f"{RUNS[run]} {first}"


def exact() -> dict[tuple[str, ...], list[int]]:
    """All durations, sorted, by scope, member, subject and name."""
    found: dict[tuple[str, ...], list[int]] = {}
    for run, rank in product(range(len(RUNS)), range(RANKS)):
        for (subject, name, first), durations in timed(run, rank).items():
            if durations:
                for member in members(run, rank, first):
                    found.setdefault((*member, subject, name), []).extend(durations)
    return {key: sorted(durations) for key, durations in found.items()}


def off(found: int, durations: list[int], percent: int) -> float:
    """The relative error of a percentile."""
    right = durations[-(-len(durations) * percent // 100) - 1]
    return abs(found - right) / max(right, 1)


def test_percentiles_of_merged_sketches(fleet: lake.Place) -> None:
    """For any set of traces they are within 0.8 %; counts and sums are exact."""
    rows = lake.ask(fleet, "percentile").rows()
    expected = exact()
    assert {row[:4] for row in rows} == {*expected}
    assert {scope for scope, *_ in expected} == {"run", "host", "week", "steps"}
    for row in rows:
        durations = expected[row[:4]]
        assert row[4:6] == (len(durations), sum(durations))
        for found, percent in zip(row[6:], (50, 90, 99), strict=True):
            assert off(found, durations, percent) < ERROR


DURATIONS = """
SELECT name, end_ns - start_ns FROM staging.gpu_op ORDER BY ALL
"""


def test_counts_of_traces_add_up(ingested: Ingested) -> None:
    """Sums of the traces' counts equal the counts over all traces."""
    paths = sorted((SAMPLES / "generated_gpu").glob("rank*"))
    (sketch,) = (one for one in contracted() if one.name == "sketch")
    with tracedb.open(ingested(*paths), read_only=True) as database:
        rows = database.connection.execute(contraction(sketch)).fetchall()
        durations: dict[str, list[int]] = {}
        for name, duration in database.connection.execute(DURATIONS).fetchall():
            durations.setdefault(name, []).append(duration)
    assert {"kernel", "op", "overhead", "step", "collective"} <= {
        row[1] for row in rows
    }
    assert {row[0] for row in rows} == {1, 2}
    for name, own in durations.items():
        found: dict[int, tuple[int, int]] = {}
        for _, subject, of, _, at, number, total in reversed(rows):
            if (subject, of) == ("kernel", name):
                before = found.get(at, (0, 0))
                found[at] = (before[0] + number, before[1] + total)
        expected = counted(0, "kernel", name, None, own)
        assert sorted(found.items()) == [(row[4], row[5:]) for row in expected]


def test_the_outlier_trace_is_first(fleet: lake.Place) -> None:
    """It is first by its anomalous measure; percentiles cover all steps of a run."""
    odd = lake.ask(fleet, "odd_trace").row(0, named=True)
    assert (odd["run"], odd["rank"], odd["measure"]) == (RUNS[2], ODD, "host")
    assert odd["distance"] > 10
    period = lake.ask(fleet, "period").row(0)
    assert period == (RUNS[0], RANKS, 5 * RANKS, 1_000_002, 1_000_004, 1_000_004)


def test_steps_of_different_kinds_are_separated(fleet: lake.Place) -> None:
    """The first step of each rank has more GPU work than the others, which repeat."""
    found = lake.ask(fleet, "repeated_step").filter(run=RUNS[1], rank=1)
    assert found.rows() == [
        (RUNS[1], 1, 90, 40, 4, 0.8, 1, 4, 1_000_003),
        (RUNS[1], 1, 90, 55, 1, 0.2, 0, 0, 1_000_000),
    ]


def test_steps_of_a_trace_count_their_work(ingested: Ingested) -> None:
    """Ops that begin in a step, and GPU work launched in it, by a plain loop."""
    path = SAMPLES / "generated_gpu" / "rank0.kineto.json.gz"
    (step,) = (one for one in contracted() if one.name == "step")
    with tracedb.open(ingested(path), read_only=True) as database:
        kept = database.connection.sql(contraction(step)).pl()
        spans = database.connection.execute(
            "SELECT step_id, start_ns, end_ns FROM staging.step"
        ).fetchall()
        ops = database.connection.execute("SELECT start_ns FROM staging.op").fetchall()
        launches = database.connection.execute(
            "SELECT call.start_ns FROM staging.gpu_op "
            "INNER JOIN staging.call USING (call_id)"
        ).fetchall()
    found = {row["step_id"]: row for row in kept.rows(named=True)}
    assert len(spans) == len(found) > 1
    for step_id, start, end in spans:
        for name, begins in (("op_count", ops), ("gpu_op_count", launches)):
            expected = sum(start <= begin < end for (begin,) in begins)
            assert found[step_id][name] == expected > 0


CLOCKS_NS = (0, 5_000_000, -80_000, 300)
"""By how much each rank's clock is ahead; the last agrees with the first."""


def test_skew_is_shown_with_clock_uncertainty(tmp_path: Path) -> None:
    """Clock offsets change nothing; the spread of ends is the uncertainty."""
    random = seeded("skew")
    arrivals, ends = [], []
    for at in range(200):
        came = [at * 10**6 + random.randrange(40_000) for _ in CLOCKS_NS]
        arrivals.append(came)
        ends.append([max(came) + 50_000 + random.randrange(2_000) for _ in CLOCKS_NS])
    ranks: dict[tuple[str, int], Kept] = {
        ("job", rank): {
            "collective": [
                (
                    *(rank * 1000 + at, rank + 1, "world", 4, "all_reduce", at),
                    *(came[rank] + ahead, end[rank] - came[rank], came[rank] + ahead),
                    *(None, None),
                )
                for at, (came, end) in enumerate(zip(arrivals, ends, strict=True))
            ]
        }
        for rank, ahead in enumerate(CLOCKS_NS)
    }
    (row,) = lake.ask(planted(tmp_path, ranks), "collective_skew").rows(named=True)
    assert (row["run"], row["kind"], row["trace_count"]) == ("job", "all_reduce", 4)
    assert row["collective_count"] == 200
    skews = sorted(max(came) - min(came) for came in arrivals)
    for name, share in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99)):
        assert abs(row[name] - skews[int(share * 199)]) < 2_000
    assert 1_000 < row["uncertainty_ns"] < 2_000
    certain = sum(skew > row["uncertainty_ns"] for skew in skews) / 200
    assert row["certain_share"] == pytest.approx(certain, abs=0.02)


def test_a_part_of_a_fleet_can_be_asked(fleet: lake.Place) -> None:
    """Select by a pattern on the command line; without a question, list them."""
    place = f"{fleet.root}/run=*day/rank=1"
    done = CliRunner().invoke(
        command, ["lake", "ask", place, "period", "--format", "json"]
    )
    assert done.exit_code == 0, done.stderr
    assert [row["trace_count"] for row in json.loads(done.stdout)] == [1, 1, 1]
    listed = CliRunner().invoke(
        command, ["lake", "ask", str(fleet.root), "--format", "csv"]
    )
    assert [line.partition(",")[0] for line in listed.stdout.splitlines()[1:]] == (
        QUESTIONS
    )
    alone = f"{fleet.root}/run=monday/rank=1"
    lacking = CliRunner().invoke(command, ["lake", "ask", alone, "kernel_regression"])
    assert lacking.exit_code == 0
    assert lacking.stderr == (
        "no rows\nkernel_regression needs two runs that have a kernel in common\n"
    )
    wrong = CliRunner().invoke(command, ["lake", "ask", place, "idle"])
    assert wrong.exit_code == 2
    assert "no question idle for a lake; available:" in wrong.stderr


@pytest.fixture(scope="module")
def spark() -> Iterator[lake.Spark]:
    """A Spark runner whose session serves all questions."""
    made = lake.Spark("local[2]")
    with made.opened() as session:

        @contextmanager
        def opened(_self: lake.Spark) -> Iterator[Any]:
            yield session

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lake.Spark, "opened", opened)
            yield made


@needs_spark
@pytest.mark.parametrize("question", QUESTIONS)
def test_spark_answers_as_duckdb_does(
    fleet: lake.Place, spark: lake.Spark, question: str
) -> None:
    """Values are equal in any order; floats to 12 digits."""
    ours, theirs = lake.ask(fleet, question), lake.ask(fleet, question, spark)
    assert ours.height > 0
    assert theirs.columns == ours.columns
    assert values(theirs) == values(ours)


@pytest.mark.parametrize(
    "relation", catalog.fleet(), ids=lambda relation: relation.name
)
def test_relations_of_a_fleet_are_documented(relation: catalog.Relation) -> None:
    """Grain, key, columns and units, as for all other relations."""
    assert "One row per " in relation.doc
    assert relation.layer == catalog.FLEET
    assert set(relation.key) <= set(relation.columns)
    assert all(relation.columns.values())
    for name, doc in relation.columns.items():
        unit = {"_ns": "[ns]", "_share": "[1]"}.get(f"_{name.rpartition('_')[2]}")
        assert (unit is not None) == doc.startswith("["), name
        assert doc.startswith(unit or ""), name


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_are_portable(question: str) -> None:
    """They use only what means the same in DuckDB and Spark."""
    (one,) = (r for r in catalog.fleet() if r.name == question)
    assert strange(one.query) == set()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT quantile_disc(period_ns, 0.5) FROM fleet.step",
        "SELECT period_ns::BIGINT FROM fleet.step",
        "SELECT a.step FROM fleet.step a ASOF JOIN fleet.step b ON a.step >= b.step",
        "SELECT [period_ns] FROM fleet.step",
        "SELECT CAST(avg(period_ns) AS BIGINT) FROM fleet.step",
        "SELECT CAST(period_ns / 2 AS BIGINT) FROM fleet.step",
        "SELECT step // 2 FROM fleet.step",
        "FROM fleet.step",
    ],
)
def test_constructs_that_are_not_portable_are_found(query: str) -> None:
    """Constructs that one engine lacks, or interprets differently."""
    assert strange(query) != set()


def strange(query: str) -> set[str]:
    """Parts of a query not known to mean the same in both engines."""
    text = duckdb.execute("SELECT json_serialize_sql(?)", [query]).fetchall()[0][0]
    tree = json.loads(text)
    found = {part for part in ("::", "//", "QUALIFY") if part in query}
    if not re.match(r"\s*(--.*\n\s*)*(WITH|SELECT)\b", query):
        found.add("FROM first")
    for part in parts(tree):
        if "function_name" in part and part["function_name"] not in PORTABLE:
            found.add(part["function_name"])
        if part.get("ref_type") == "ASOF":
            found.add("ASOF")
        # Casting a fraction to an integer rounds in one engine and truncates in the
        # other.
        if part.get("class") == "CAST" and part["type_expr"]["type_name"] == "BIGINT":
            inner = part["child"]
            called = {p.get("function_name") for p in parts(inner)}
            if called & {"/", "quantile_cont", "avg"} and (
                inner.get("function_name") != "round"
            ):
                found.add("a cast that rounds")
    return found


def parts(tree: object) -> Iterator[dict[str, Any]]:
    """All objects of a syntax tree."""
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from parts(part)
