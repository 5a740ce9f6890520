"""Tables of operations: reading them, and what stragglers cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from pipeline_job import Job, randomly
from pipeline_job import rows as job_rows
from straggler_reference import Figures, Row, analysis
from support import CORPUS, needs_corpus, rows

import tracedb
from tracedb.cli.main import tracedb as main
from tracedb.errors import ForeignFileError, IngestError
from tracedb.ingest.foreign.operations import FIELDS, TYPES
from tracedb.stragglers import CIRCLE, OTHER_STEPS, CircleError, OperationGraph
from tracedb.summary.statements import statements

PUBLISHED = CORPUS / "stragglers"
PIPELINE = CORPUS / "pipeline"
JOBS = ("ST", "SE")
SHAPES = [
    Job(),
    Job(stages=1, dp_ranks=3, microbatches=2),
    Job(stages=4, dp_ranks=1, microbatches=6),
    Job(stages=3, dp_ranks=2, microbatches=5, unrun=True),
    Job(stages=2, dp_ranks=2, microbatches=4, chunks=2),
    Job(stages=4, dp_ranks=2, microbatches=8, chunks=3),
    Job(stages=3, dp_ranks=1, microbatches=6, chunks=2, unrun=True),
]
DELAYED = range(2)
"""Seeds of the jobs with random durations."""


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """Writes a table of operations."""

    def write(
        frame: list[dict[str, Any]] | pl.DataFrame, name: str = "job.parquet"
    ) -> Path:
        path = tmp_path / name
        frame = pl.DataFrame(frame)
        (frame.write_csv if name.endswith(".csv") else frame.write_parquet)(path)
        return path

    return write


def figures(database: tracedb.Database, run: int = 1) -> Figures:
    """All of `question.straggler_slowdown` for a run."""
    query = f"""
        SELECT scope, name, step, slowdown FROM question.straggler_slowdown
        WHERE run_id = {run}
    """
    found = rows(database, query)
    assert len({row[:3] for row in found}) == len(found)
    return {row[:3]: row[3] for row in found}


def recovered(database: tracedb.Database, run: int = 1) -> dict[str, float]:
    """All of `question.straggler_recovery` for a run."""
    query = f"""
        SELECT name, recovered_share FROM question.straggler_recovery
        WHERE run_id = {run}
    """
    return dict(rows(database, query))


def read(database: tracedb.Database, run: int) -> list[Row]:
    """The operations of a run, as input of the reference."""
    query = f"""
        SELECT dp_rank, stage, rank, step, type, start_ns, end_ns, duration_ns, chunk
        FROM staging.operation WHERE run_id = {run}
    """
    return [Row(*row) for row in rows(database, query)]


def assert_is_the_reference(database: tracedb.Database, run: int = 1) -> None:
    """The relations equal the plain loop."""
    expected, shares = analysis(read(database, run))
    assert figures(database, run) == pytest.approx(expected, rel=1e-12)
    assert recovered(database, run) == pytest.approx(shares, rel=1e-6)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """A run of each shape with random durations, and one of each without delays.

    Run ids follow the shapes from 1, first those with random durations.
    """
    folder = tmp_path_factory.mktemp("jobs")
    with tracedb.open() as database:
        paths: list[Path] = []
        for seed in (*DELAYED, None):
            for job in SHAPES:
                found = job_rows(job, randomly(7))
                if seed is not None:
                    found = job_rows(job, randomly(seed), seed)
                paths.append(folder / f"{len(paths)}.parquet")
                pl.DataFrame(found).write_parquet(paths[-1])
        database.ingest(paths)
        yield database


@pytest.mark.parametrize("job", SHAPES, ids=str)
@pytest.mark.parametrize("seed", DELAYED)
def test_analysis_equals_the_plain_loop(
    job: Job, seed: int, jobs: tracedb.Database
) -> None:
    """For any number of stages, chunks, microbatches and ranks."""
    assert rows(jobs, "FROM raw.ingest_issue") == []
    assert_is_the_reference(jobs, 1 + seed * len(SHAPES) + SHAPES.index(job))


def test_the_first_receive_is_optional(
    table: Callable[..., Path], database: tracedb.Database
) -> None:
    """The first stage's first receive moves nothing; without it, results are equal."""
    found = job_rows(SHAPES[6], randomly(1))
    for step in SHAPES[6].steps:
        first = [r for r in found if (r["step"], r["stage"]) == (step, 0)]
        first = [r for r in first if r["optype"] == "forward-recv"]
        found.remove(min(first, key=lambda row: row["start_ns"]))
    whole = table(job_rows(SHAPES[6], randomly(1)), "whole.parquet")
    database.ingest([table(found), whole])
    assert_is_the_reference(database)
    assert figures(database, 1)["job", "job", 3] == pytest.approx(
        figures(database, 2)["job", "job", 3], rel=1e-3
    )


def test_an_undelayed_job_is_simulated_exactly(jobs: tracedb.Database) -> None:
    """A job without delays is simulated to the nanosecond."""
    alone = f"run_id > {len(DELAYED) * len(SHAPES)}"
    measured = rows(
        jobs,
        f"""
        SELECT run_id, step, max(end_ns) - min(start_ns) FROM staging.operation
        WHERE type IN ('optimizer', 'params-all-gather') AND {alone}
        GROUP BY ALL ORDER BY ALL
        """,
    )
    query = f"""
        SELECT run_id, step, simulated_ns FROM reference.straggler_time
        WHERE scope = 'job' AND {alone} ORDER BY ALL
    """
    assert len(measured) == sum(len(job.steps) for job in SHAPES)
    assert rows(jobs, query) == measured


def test_equal_peers_cost_nothing(
    table: Callable[..., Path], database: tracedb.Database
) -> None:
    """If operations of a type take equal times, the slowdown is 1."""
    database.ingest([table(job_rows(SHAPES[4], lambda *_: 1000))])
    assert {*figures(database).values()} == {1.0}
    assert set(recovered(database).values()) == {None}
    (said,) = statements(database.summary(), "job.duckdb")
    told = " ".join(one.text for one in said)
    assert "x from" not in told
    assert "no op type, stage or rank slows them by 1 %" in told


def test_one_slow_rank_by_hand(
    table: Callable[..., Path], database: tracedb.Database
) -> None:
    """One stage, two ranks, two microbatches; the second rank takes twice as long."""
    job = Job(stages=1, dp_ranks=2, microbatches=2, steps=(1,))

    def duration(dp_rank: int, stage: int, step: int, type_: str) -> int:
        del stage, step
        return 100 * (1 + dp_rank) if type_.endswith("compute") else 10

    database.ingest([table(job_rows(job, duration))])
    # All-gather, two forward, two backward, and five more (gc is one of six).
    rest = 10 + 6 * 10
    ideal = rest + 4 * 150
    found = figures(database)
    assert found["job", "job", None] == (rest + 4 * 200) / ideal
    assert found["dp_rank", "1", 1] == (rest + 4 * 200) / ideal
    assert found["dp_rank", "0", 1] == 1
    assert found["op_type", "forward-compute", 1] == (rest + 2 * 200 + 2 * 150) / ideal
    assert found["op_type", "optimizer", 1] == 1
    assert recovered(database)["worst_workers"] == 1


def test_the_summary_names_the_slow_rank(
    table: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second rank takes twice as long; the steps' slowdown is computed by hand."""
    job = Job(stages=1, dp_ranks=2, microbatches=2, steps=(1,))

    def duration(dp_rank: int, stage: int, step: int, type_: str) -> int:
        del stage, step
        return 10**6 * (1 + dp_rank) if type_.endswith("compute") else 10**5

    monkeypatch.chdir(tmp_path)
    words = ["ingest", str(table(job_rows(job, duration))), "--db", "job.duckdb"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.stderr
    times = "8.70 ms on average; 6.70 ms if nothing were slower than its peers"
    assert f"1 step of {times}" in done.stderr
    told = CliRunner().invoke(main, ["summary", "job.duckdb"])
    assert told.exit_code == 0, told.stderr
    text = " ".join(told.stdout.split())
    assert times in text
    assert "2 data-parallel ranks x 1 pipeline stage; 1 step (1 to 1)" in text
    assert f"{8.7 / 6.7:.2f}x from data-parallel rank 1 in all stages" in text
    # One stage is the whole job, and its workers are the ranks: neither is mentioned.
    assert "stage 0" not in text
    assert "the worker of" not in text
    assert max(map(len, told.stdout.splitlines())) <= 80


def test_optional_operations(
    table: Callable[..., Path], database: tracedb.Database
) -> None:
    """Without optimizer operations, a step ends with its last operation."""
    kept = ("forward-compute", "backward-compute", "grads-reduce-scatter")
    some = [row for row in job_rows(SHAPES[0], randomly(3)) if row["optype"] in kept]
    database.ingest([table(some)])
    kinds = {
        kind for (kind,) in rows(database, "SELECT kind FROM graph.operation_edge")
    }
    assert kinds == {"order", "pipeline", "finish"}
    assert ("op_type", "grads-reduce-scatter", None) in figures(database)
    assert all(value > 0 for value in figures(database).values())


def test_overlapped_gradient_reduction(
    table: Callable[..., Path], database: tracedb.Database
) -> None:
    """Separate reductions of gradients follow their chunk's computation."""
    found = job_rows(SHAPES[4], randomly(5))
    for row in [row for row in found if row["optype"] == "optimizer-clip-main-grad"]:
        found.append({**row, "optype": "separate-grads-all-reduce"})
    for row in [row for row in found if row["optype"] == "grads-reduce-scatter"]:
        row["mc"] = 1
        found.append({**row, "mc": 0, "start_ns": row["start_ns"] + 1})
    database.ingest([table(found)])
    assert_is_the_reference(database)


def test_odd_rows_and_numbers(
    table: Callable[..., Path], database: tracedb.Database
) -> None:
    """Only the order of sequence numbers counts, and stages need not start at 0."""
    found = job_rows(SHAPES[3], randomly(1))
    plain = table(found, "plain.parquet")
    odd = [
        {**r, "stage": 10 * r["stage"] + 4, "seq_id": r["start_ns"] * 3} for r in found
    ]
    database.ingest([plain], run="plain")
    database.ingest([table(odd, "odd.csv")], run="odd")
    query = """
        SELECT scope, step, slowdown FROM question.straggler_slowdown
        WHERE run_id = {} ORDER BY ALL
    """
    assert rows(database, query.format(1)) == rows(database, query.format(2))


def test_different_steps_are_left_out_and_reported(
    table: Callable[..., Path], database: tracedb.Database
) -> None:
    """A step that lacks an operation is compared with none."""
    found = job_rows(Job(steps=(1, 2, 3)), randomly(2))
    found.remove(next(r for r in found if r["step"] == 1 and r["optype"] == "gc"))
    database.ingest([table(found)])
    assert {key[2] for key in figures(database)} == {None, 2, 3}
    query = "SELECT kind, occurrences FROM raw.ingest_issue"
    assert rows(database, query) == [(OTHER_STEPS, 1)]


def test_a_cycle_is_reported(
    table: Callable[..., Path], database: tracedb.Database
) -> None:
    """Two stages that would wait for each other are not simulated."""
    found = job_rows(Job(dp_ranks=1, steps=(1,)), randomly(2))
    for row in found:
        if row["stage"] == 0 and row["optype"].startswith("backward"):
            row["start_ns"] -= 10**9
    database.ingest([table(found)])
    assert figures(database) == {}
    assert rows(database, "SELECT kind FROM raw.ingest_issue") == [(CIRCLE,)]
    with pytest.raises(CircleError):
        OperationGraph(*(np.array(n) for n in ([1, 2], [1, 2], [1, 2], [2, 1])))


def test_edges_equal_those_of_the_graph(
    table: Callable[..., Path], database: tracedb.Database
) -> None:
    """Operations are nodes, and dependencies are found by walking back."""
    database.ingest([table(job_rows(Job(steps=(1,)), randomly(2)))])
    ((last,),) = rows(
        database,
        "SELECT max_by(node_id, end_ns) FROM graph.node WHERE kind = 'operation'",
    )
    found = rows(database, f"FROM question.ancestor({last})")
    assert len(found) > 40
    kinds = rows(database, "SELECT DISTINCT kind FROM graph.edge ORDER BY ALL")
    assert kinds == [("collective",), ("schedule",)]


def test_a_second_table_of_a_run_is_analysed_with_the_first(
    table: Callable[..., Path], database: tracedb.Database
) -> None:
    """A job may have one log file per stage."""
    found = job_rows(SHAPES[0], randomly(6))
    for stage in (0, 1):
        part = [row for row in found if row["stage"] == stage]
        database.ingest([table(part, f"{stage}.parquet")], run="job")
    parts = figures(database)
    with tracedb.open() as whole:
        whole.ingest([table(found)])
        assert figures(whole) == parts


# Names of columns and operations


def test_operation_types_agree(database: tracedb.Database) -> None:
    """Reader and relation have the same types."""
    known = rows(database, "SELECT type FROM staging.operation_type")
    assert sorted(type_ for (type_,) in known) == sorted(TYPES)


UNITS = {"s": 1e-9, "ms": 1e-6, "us": 1e-3, "ns": 1}


@pytest.fixture(scope="module")
def in_units(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """A job's table, and the same with other column names and in each unit."""
    folder = tmp_path_factory.mktemp("units")
    plain = pl.DataFrame(job_rows(SHAPES[0], randomly(4)))
    plain.write_parquet(folder / "0.parquet")
    for number, (unit, factor) in enumerate(UNITS.items(), 1):
        plain.select(
            pl.col("optype").alias("operation"),
            pl.col("step").alias("iteration"),
            pl.col("stage").alias("pp_rank"),
            pl.col("dp_rank").alias("data_parallel_rank"),
            (pl.col("start_ns") * factor).alias(f"start_{unit}"),
            ((pl.col("start_ns") + pl.col("duration_ns")) * factor).alias(
                f"end_{unit}"
            ),
        ).write_parquet(folder / f"{number}.parquet")
    with tracedb.open() as database:
        database.ingest(sorted(folder.iterdir()))
        yield database


@pytest.mark.parametrize("unit", UNITS)
def test_units_and_names_of_columns(unit: str, in_units: tracedb.Database) -> None:
    """The unit is part of the name; an end may replace a duration."""
    run = 2 + list(UNITS).index(unit)
    assert len(figures(in_units)) > 0
    assert figures(in_units, run) == figures(in_units)


def test_custom_names_are_mapped(
    table: Callable[..., Path], tmp_path: Path, in_units: tracedb.Database
) -> None:
    """Columns and operations, on the command line and in Python."""
    names = {"optype": "what", "stage": "s", "start_ns": "t0", "duration_ns": "took"}
    frame = pl.DataFrame(job_rows(SHAPES[0], randomly(4))).rename(names)
    frame = frame.with_columns(pl.col("what").replace({"forward-compute": "FWD"}))
    path = table(frame, "job.csv")
    pairs = ["what=type", "s=stage", "t0=start_ns", "took=duration_ns"]
    options = [text for p in [*pairs, "FWD=forward-compute"] for text in ("--map", p)]
    database = str(tmp_path / "run.duckdb")
    result = CliRunner().invoke(main, ["ingest", str(path), "--db", database, *options])
    assert result.exit_code == 0, result.output
    assert "no steps" not in result.output
    with tracedb.open(database) as opened:
        assert figures(opened) == figures(in_units)


def test_times_may_be_texts(
    table: Callable[..., Path], database: tracedb.Database
) -> None:
    """As tables from spreadsheets have them."""
    texts = pl.DataFrame([{**GOOD, "start_s": "0.5", "duration_s": "0.1"}])
    database.ingest([table(texts)])
    query = "SELECT ts_ns, dur_ns FROM raw.event WHERE ph = 'X'"
    assert rows(database, query) == [(500_000_000, 100_000_000)]


def test_columns_of_lists_are_refused(
    table: Callable[..., Path], database: tracedb.Database
) -> None:
    """The error names the file and the column."""
    lists = table(pl.DataFrame([{**GOOD, "stage": [1]}]))
    with pytest.raises(IngestError, match=f"{lists}: column 'stage' has the type List"):
        database.ingest([lists])


def test_a_part_of_a_log_may_have_no_whole_step(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Then there is no step whose time could be simulated."""
    log = pl.DataFrame(job_rows(Job(steps=(3,)), randomly(6)))
    log[: log.height // 2].write_parquet(tmp_path / "part.parquet")
    database.ingest([tmp_path / "part.parquet"])
    assert rows(database, "FROM reference.straggler_time") == []
    assert rows(database, "SELECT kind FROM raw.ingest_issue") == [(OTHER_STEPS,)]


def test_known_names_are_unambiguous() -> None:
    """Each name belongs to one field."""
    names = [name for field, others in FIELDS.items() for name in (field, *others)]
    assert len(names) == len(set(names))
    assert not set(names) & set(TYPES)


# Refusals


GOOD = {"optype": "optimizer", "step": 1, "stage": 0, "start_s": 0.5, "duration_s": 0.1}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"duration_s": -0.1}, r"row 2: the duration is negative \(1 such"),
        ({"duration_s": float("nan")}, "row 2: column 'duration_s' is not a time"),
        ({"start_s": None}, "row 2: column 'start_s' is not a time"),
        ({"start_s": 1e300}, "row 2: column 'start_s' is not a time"),
        ({"optype": "adam"}, "unknown type of operation: 'adam'; known are forward"),
        ({"optype": None}, "unknown type of operation: an empty one"),
        ({"step": None}, "row 2: column 'step' is not a whole number"),
        ({"stage": 0.5}, "row 2: column 'stage' is not a whole number"),
        ({"start_s": 0.5}, r"row 2: the operation occurs twice \(same step, stage"),
    ],
)
def test_a_bad_row_is_refused(
    change: dict[str, Any],
    says: str,
    table: Callable[..., Path],
    database: tracedb.Database,
) -> None:
    """One line gives place, reason and remedy; nothing is stored."""
    path = table(pl.DataFrame([GOOD, {**GOOD, "start_s": 2.0, **change}], strict=False))
    with pytest.raises(IngestError, match=says):
        database.ingest([path])
    assert rows(database, "FROM raw.trace") == []


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("optype", "no column type; the columns are step, stage"),
        ("step", "no column step;"),
        ("start_s", r"no column start_s \(or _ms, _us, _ns\)"),
        ("duration_s", r"no column duration_s \(or _ms, _us, _ns\)"),
    ],
)
def test_a_missing_column_is_refused(
    missing: str, says: str, table: Callable[..., Path], database: tracedb.Database
) -> None:
    """The error lists missing and existing columns, and how to map them."""
    path = table([{k: v for k, v in GOOD.items() if k != missing}], "job.csv")
    with pytest.raises(IngestError, match=f"{says}.*--map COLUMN=FIELD"):
        database.ingest([path])


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ({"kind": "type"}, "no column 'kind'; the columns are optype, step"),
        ({"optype": "color"}, "'color' is not a field; the fields are type, step"),
    ],
)
def test_a_bad_mapping_is_refused(
    mapping: dict[str, str],
    says: str,
    table: Callable[..., Path],
    database: tracedb.Database,
) -> None:
    """Both sides of a mapping have to exist."""
    with pytest.raises(IngestError, match=says):
        database.ingest([table([GOOD])], mapping=mapping)


def test_other_tables_are_refused(tmp_path: Path, database: tracedb.Database) -> None:
    """A broken file, another table, and a mapping for a trace."""
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and no more")
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    trace = tmp_path / "trace.json"
    trace.write_text('{"traceEvents": []}')
    for path in (broken, other):
        with pytest.raises(ForeignFileError, match=r"not a .*table"):
            database.ingest([path])
    with pytest.raises(IngestError, match="nothing to map"):
        database.ingest([trace], mapping={"a": "type"})
    result = CliRunner().invoke(
        main, ["ingest", str(other), "--db", str(tmp_path / "d.duckdb"), "--map", "a"]
    )
    assert result.exit_code == 2
    assert "'a' is not COLUMN=FIELD" in result.output


def test_a_run_has_each_step_of_a_worker_once(
    table: Callable[..., Path], database: tracedb.Database
) -> None:
    """Two jobs under one run name are refused."""
    found = job_rows(SHAPES[0], randomly(6))
    database.ingest([table(found)], run="job")
    other = [{**row, "start_ns": row["start_ns"] + 1} for row in found]
    with pytest.raises(IngestError, match="step 3 of data-parallel rank 0, stage 0"):
        database.ingest([table(other, "other.parquet")], run="job")


# Other schedules


def computed(job: Job, part: int) -> list[dict[str, Any]]:
    """A job whose computation is divided among chunks; moving data takes no time."""

    def duration(dp_rank: int, stage: int, step: int, type_: str) -> int:
        if not type_.endswith("compute"):
            return 0
        return 600 * (10 + 3 * stage + step + dp_rank + type_.startswith("b")) // part

    found = job_rows(job, duration)
    return [row for row in found if row["optype"].endswith("compute")]


def lengths(found: list[dict[str, Any]]) -> dict[int, int]:
    """[ns] By step."""
    frame = pl.DataFrame(found).group_by("step")
    end = pl.col("start_ns") + pl.col("duration_ns")
    return dict(frame.agg(end.max() - pl.col("start_ns").min()).rows())


INTERLEAVED = [
    (1, 2, 2),
    (2, 2, 2),
    (2, 6, 3),
    (4, 8, 2),
    (4, 8, 1),
    (4, 6, 1),
    (4, 6, 2),
    (4, 3, 2),
]
"""Stages, microbatches and chunks."""
OF_ONE_CHUNK = list(dict.fromkeys((stages, of) for stages, of, _ in INTERLEAVED))
"""Stages and microbatches, without duplicates: those are not ingested twice."""


@pytest.fixture(scope="module")
def of_one_chunk(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tracedb.Database]:
    """A run of each of these jobs, numbered from 1."""
    folder = tmp_path_factory.mktemp("one_chunk")
    for number, (stages, microbatches) in enumerate(OF_ONE_CHUNK):
        job = Job(stages=stages, microbatches=microbatches)
        frame = pl.DataFrame(computed(job, 1))
        frame.write_parquet(folder / f"{number}.parquet")
    with tracedb.open() as database:
        database.ingest(sorted(folder.iterdir()))
        yield database


@pytest.mark.parametrize(("stages", "microbatches", "chunks"), INTERLEAVED)
def test_an_interleaved_schedule_is_predicted(
    stages: int, microbatches: int, chunks: int, of_one_chunk: tracedb.Database
) -> None:
    """A job of one chunk predicts the same job executed with several chunks."""
    run = 1 + OF_ONE_CHUNK.index((stages, microbatches))
    query = f"""
        SELECT step, predicted_ns FROM question.interleaved_step({chunks})
        WHERE run_id = {run}
    """
    job = Job(stages=stages, microbatches=microbatches, chunks=chunks)
    assert dict(rows(of_one_chunk, query)) == lengths(computed(job, chunks))
    as_it_is = f"""
        SELECT measured_ns = predicted_ns FROM question.interleaved_step(1)
        WHERE run_id = {run}
    """
    assert {*rows(of_one_chunk, as_it_is)} == {(True,)}


# Real jobs


def published(job: str) -> Figures:
    """The paper authors' results for a job, by tracedb's names."""
    result = json.loads((PUBLISHED / f"result-{job}.json").read_text())
    found: Figures = {("job", "job", None): result["blocking_slowdown"]}
    for step, value in result["blocking_step_slowdown"].items():
        found["job", "job", int(step)] = value
    for scope, name in (("op_type", "optype"), ("dp_rank",) * 2, ("stage",) * 2):
        of_all = result[f"blocking_decompose_by_{name}"]
        by_step = result[f"blocking_decompose_by_{name}_per_step"]
        found |= {(scope, key, None): value for key, value in of_all.items()}
        for step, values in by_step.items():
            found |= {(scope, key, int(step)): value for key, value in values.items()}
    return found


@needs_corpus
@pytest.mark.parametrize("job", JOBS)
def test_published_results(job: str, database: tracedb.Database) -> None:
    """All published results of the analysis agree to a millionth."""
    database.ingest([PUBLISHED / f"trace-{job}.parquet"])
    expected = published(job)
    found = figures(database)
    assert {key: found[key] for key in expected} == pytest.approx(expected, abs=1e-6)
    shares = [
        json.loads((PUBLISHED / f"{name}-{job}.json").read_text())[key]
        for name, key in (("mw", "Mw"), ("ms", "Ms"))
    ]
    of = recovered(database)
    assert [of["worst_workers"], of["last_stage"]] == pytest.approx(shares, abs=1e-6)


@needs_corpus
def test_a_folder_of_primus_logs_is_a_job(database: tracedb.Database) -> None:
    """Eight stages, twenty steps, sixteen microbatches; also if its files are named."""
    database.ingest(sorted(PIPELINE.glob("pp_rank_*.json")))
    query = """
        SELECT count(DISTINCT stage), count(DISTINCT step), max(ordinal) + 1, count(*)
        FROM staging.operation
        GROUP BY trace_id
    """
    assert rows(database, query) == [(8, 20, 16, 8 * 20 * 2 * 16)]


@needs_corpus
def test_interleaving_a_real_job_is_predicted(database: tracedb.Database) -> None:
    """Two virtual stages on each of eight GPUs took about 2,880 ms per step."""
    database.ingest([PIPELINE])
    query = """
        SELECT median(measured_ns) / 1e6, median(predicted_ns) / 1e6
        FROM question.interleaved_step({})
    """
    ((measured, predicted),) = rows(database, query.format(1))
    assert predicted == pytest.approx(measured, rel=0.002)
    ((_, predicted),) = rows(database, query.format(2))
    assert predicted == pytest.approx(2880, rel=0.05)
