"""Overhead libraries: what is learnt in some databases predicts another."""

from __future__ import annotations

import json
import os
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result
from support import SAMPLES, Ingested, unbroken

import tracedb
from tracedb import overhead_library
from tracedb.cli.main import tracedb as command
from tracedb.from_code.host_times import HostTimes
from tracedb.synthetic import Delays, execute, random_program
from tracedb.whatif.simulation import simulated

SPANS = """
WITH
measured AS (
    SELECT *, dense_rank() OVER (ORDER BY thread_id) AS thread
    FROM overhead.sample
    WHERE type LIKE 'T_'
),

copied AS (
    SELECT call_id, predicted_ns AS held_ns
    FROM staging.gpu_op
    INNER JOIN prediction.kernel_time USING (gpu_op_id)
    INNER JOIN prediction.kernel_roofline USING (gpu_op_id)
    WHERE link = 'pageable'
)

SELECT
    told.type, span.start_ns, span.end_ns, span.op_id, call.target, told.name,
    told.sample_ns - coalesce(held_ns, 0)
FROM reference.library_sample AS told
INNER JOIN measured USING (thread, position)
INNER JOIN overhead.timeline AS span USING (thread_id, position)
LEFT JOIN staging.call AS call ON span.call_id = call.call_id
LEFT JOIN copied ON span.call_id = copied.call_id
WHERE told.trace_sha256 = 'one'
"""
OPS = """
SELECT op_id, top_op_id, name, start_ns, end_ns, op_id IN (
    SELECT op_id FROM staging.call WHERE kind = 'launch'
) AS launches
FROM staging.op
WHERE NOT is_annotation
"""
EXPECTED = """
SELECT
    dense_rank() OVER (ORDER BY thread_id) AS thread, position, alike, sample_count,
    median_ns, expected_ns
FROM prediction.host_expectation
WHERE trace_id IN (SELECT trace_id FROM staging.trace WHERE path LIKE '%5.json')
ORDER BY ALL
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three generated traces of three steps each, on one GPU model."""
    made = tmp_path_factory.mktemp("traces")
    for seed in (3, 4, 5):
        program = random_program(seed, threads=2, streams=2, steps=3)
        generated = execute(program, Delays(jitter=0.3), seed)
        generated[0].write(made / f"{seed}.json")
    return made


@pytest.fixture(scope="module")
def database(folder: Path) -> Path:
    """The first two of them."""
    path = folder / "first.duckdb"
    with tracedb.open(path) as opened:
        opened.ingest([folder / "3.json", folder / "4.json"])
    return path


@pytest.fixture(scope="module")
def library(database: Path, folder: Path) -> Path:
    """A library learnt from these."""
    path = folder / "library.parquet"
    overhead_library.learn([database], path)
    return path


def expected(
    paths: list[Path], method: str, library: Path | None = None
) -> list[tuple[object, ...]]:
    """Expected durations of the third trace's spans."""
    with tracedb.open() as opened:
        opened.ingest(paths)
        with simulated(opened.connection, [method], library=library) as connection:
            found: list[tuple[object, ...]] = connection.execute(EXPECTED).fetchall()
    return found


def test_a_library_equals_learning_from_the_traces(folder: Path, library: Path) -> None:
    """Learning from a file equals learning from its runs in one database."""
    together = expected([folder / f"{seed}.json" for seed in (3, 4, 5)], "shared")
    alone = expected([folder / "5.json"], "library", library)
    assert len(alone) > 100
    assert alone == together


def test_a_trace_does_not_learn_from_itself(database: Path, library: Path) -> None:
    """A library's samples of a trace in the database are ignored."""
    with tracedb.open(database, read_only=True) as opened:
        with simulated(opened.connection, ["shared"]) as connection:
            query = "FROM prediction.host_expectation SELECT * EXCLUDE (host_from)"
            shared = connection.execute(f"{query} ORDER BY ALL").fetchall()
        with simulated(opened.connection, ["library"], library=library) as connection:
            learnt = connection.execute(f"{query} ORDER BY ALL").fetchall()
    assert learnt == shared


def test_libraries_can_be_merged(
    database: Path, library: Path, tmp_path: Path, ingested: Ingested
) -> None:
    """A library can be learnt from, and each trace counts once."""
    other = ingested(SAMPLES / "generated_gpu")
    path = tmp_path / "more.parquet"
    frame = overhead_library.learn([library, database, other, library], path)
    assert frame["trace_count"].sum() == 4
    assert frame["run_count"].sum() == 3
    samples = frame["sample_count"].sum()
    assert duckdb.read_parquet(str(path)).shape[0] == samples
    assert overhead_library.learn([path], path).equals(frame)


def test_an_unknown_gpu_learns_from_all(library: Path, ingested: Ingested) -> None:
    """Overheads depend on the host: those of other GPUs are better than none."""
    with tracedb.open(ingested(SAMPLES / "generated_gpu"), read_only=True) as opened:
        assert set(opened.predict("library", library=library)["method"]) == {"library"}
        with simulated(opened.connection, ["library"], library=library) as connection:
            query = "SELECT count(*) FROM prediction.host_expectation"
            (count,) = connection.execute(query).fetchone() or (0,)
    assert count > 100


def test_without_a_file_spans_take_what_ships(database: Path) -> None:
    """Ops share their self time among the spans in which they are open."""
    times = HostTimes.shipped(recorded=True)
    with (
        tracedb.open(database, read_only=True) as opened,
        simulated(opened.connection, ["library"]) as connection,
    ):
        spans = connection.execute(SPANS).fetchall()
        ops = connection.execute(OPS).fetchall()
    inside = dict.fromkeys(spans, 0.0)
    for op, top, name, start, end, launches in ops:
        held = [
            span
            for span in spans
            if span[0] in ("T2", "T3", "T5")
            and span[3] == (op if top is None else top)
            and start < span[2]
            and end > span[1]
        ]
        for span in held:
            inside[span] += times.own_ns(name, launches=launches) / len(held)
    calls = {"kernel": times.launch, "memset": times.launch, "memcpy": times.copy}
    wrong = [
        span
        for span in spans
        if span[-1] != pytest.approx(
            times.gap_ns(span[5]) if span[0] == "T1"
            else calls[span[4]] if span[0] == "T4"
            else inside[span],
            abs=1,
        )
    ]  # fmt: skip
    assert len(spans) > 100
    assert {"T1", "T2", "T3", "T4", "T5"} == {span[0] for span in spans}
    assert wrong == []


def test_the_commands_need_no_file(database: Path) -> None:
    """Both predict steps with what ships, and not as measured."""
    rows = json.loads(
        predicted(database, "--method", "library", "--format", "json").stdout
    )
    assert len(rows) == 6
    assert all(row["predicted_ns"] != row["measured_ns"] for row in rows)
    words = ["critical-path", str(database), "--method", "library"]
    assert CliRunner().invoke(command, words).exit_code == 0


def test_a_library_has_overheads_only(library: Path) -> None:
    """It has no waits, no idle time, and no gap of 200 us or more."""
    query = """
        SELECT DISTINCT type, max(sample_ns) FILTER (type = 'T1') < 200_000
        FROM read_parquet(?) GROUP BY type
    """
    found = dict(duckdb.execute(query, [str(library)]).fetchall())
    assert found == {"T1": True, "T2": None, "T3": None, "T4": None, "T5": None}


def test_a_library_is_written_atomically(
    library: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it cannot be moved into place, the existing file stays."""
    before = library.read_bytes()

    def fail(*_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(tracedb.LibraryError, match=r"cannot be written: .*No space"):
        overhead_library.learn([database], library)
    assert library.read_bytes() == before
    assert not list(library.parent.glob(f".*{os.getpid()}"))


def test_only_a_library_is_overwritten(database: Path) -> None:
    """A database given as the output stays."""
    before = database.read_bytes()
    with pytest.raises(tracedb.LibraryError, match="exists and is not a library"):
        overhead_library.learn([database], database)
    assert database.read_bytes() == before


def test_nothing_to_learn_is_an_error(tmp_path: Path) -> None:
    """A database without steps has no overheads, and no file is written."""
    empty = tmp_path / "empty.duckdb"
    file = tmp_path / "trace.json"
    event = '{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1}'
    file.write_text(f'{{"traceEvents": [{event[:-1]}, "pid": 1, "tid": 1}}]}}')
    with tracedb.open(empty) as opened:
        opened.ingest([file])
    with pytest.raises(tracedb.LibraryError, match=r"no steps .* nothing to learn"):
        overhead_library.learn([empty], tmp_path / "library.parquet")
    assert not (tmp_path / "library.parquet").exists()


def test_bad_libraries_are_refused(tmp_path: Path) -> None:
    """Another Parquet file, another version, a missing file: one line each."""
    foreign, old = tmp_path / "foreign.parquet", tmp_path / "old.parquet"
    duckdb.execute(f"COPY (SELECT 1 AS x) TO '{foreign}' (FORMAT parquet)")
    duckdb.execute(
        f"COPY (SELECT 1 AS x) TO '{old}' "
        "(FORMAT parquet, KV_METADATA {'tracedb.overhead_library': '0'})"
    )
    with pytest.raises(tracedb.LibraryError, match="not a library of overheads; `tra"):
        overhead_library.check(foreign)
    with pytest.raises(tracedb.LibraryError, match="a library of format 0, not 1"):
        overhead_library.check(old)
    with pytest.raises(tracedb.LibraryError, match="no such file"):
        overhead_library.check(tmp_path / "none.parquet")
    cut, text = tmp_path / "cut.parquet", tmp_path / "text.parquet"
    cut.write_bytes(foreign.read_bytes()[:-9])
    text.write_text("a library")
    with pytest.raises(
        tracedb.LibraryError, match="broken or truncated Parquet file; copy it"
    ):
        overhead_library.check(cut)
    with pytest.raises(tracedb.LibraryError, match="not a library of overheads; `tra"):
        overhead_library.check(text)


def test_the_commands_write_and_read_a_library(database: Path, tmp_path: Path) -> None:
    """One command writes what the other reads."""
    path = tmp_path / "library.parquet"
    run = CliRunner().invoke
    done = run(command, ["overheads", "learn", str(database), "-o", str(path)])
    assert done.exit_code == 0, done.stderr
    assert "written" in done.stderr
    predict = ["predict", str(database), "--method", "library"]
    done = run(command, [*predict, "--library", str(path), "--format", "json"])
    assert done.exit_code == 0, done.stderr
    assert [row["method"] for row in json.loads(done.stdout)] == ["library"] * 6
    assert run(command, ["overheads", str(database)]).exit_code == 0


def predicted(*words: object) -> Result:
    """The output of `tracedb predict`."""
    return CliRunner().invoke(command, ["predict", *map(str, words)])


def test_a_library_implies_its_method(database: Path, library: Path) -> None:
    """`--library` is enough; with a different method it is an error."""
    both = predicted(database, "--method", "library", "--library", library)
    assert predicted(database, "--library", library).stdout == both.stdout
    done = predicted(database, "--library", library, "--method", "replay")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert f"the library {library} is for the method library, not replay" in done.stderr
    done = predicted(database, "--library", "absent.parquet")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "absent.parquet: no such file; `tracedb overheads learn`" in done.stderr


def test_scenarios_from_a_library(database: Path, library: Path) -> None:
    """Edits change what a library predicts; a different method is an error."""
    words = ["--library", str(library), "--format", "json"]
    steps = json.loads(predicted(database, *words).stdout)
    done = CliRunner().invoke(
        command, ["whatif", str(database), "--edit", "host x0.5", *words]
    )
    runs = json.loads(done.stdout)
    assert {run["method"] for run in runs} == {"library"}
    assert all(run["predicted_ns"] < run["baseline_ns"] for run in runs)
    total_ns = sum(run["baseline_ns"] * run["step_count"] for run in runs)
    assert abs(total_ns - sum(step["predicted_ns"] for step in steps)) < len(steps)
    edits = [tracedb.Edit(scenario="fast", target="host", factor=0.5)]
    with tracedb.open(database, read_only=True) as opened:
        rows = opened.scenarios(edits, library=library)
        assert set(rows["method"]) == {"library"}
        ranked = opened.ranking(candidates=1, library=library)
        assert set(ranked["method"]) == {"library"}
        with pytest.raises(tracedb.QueryError, match="for the method library, not re"):
            opened.scenarios(edits, "replay", library=library)
    done = predicted(database, "--without-profiler", *words)
    assert {row["method"] for row in json.loads(done.stdout)} == {"library"}


def test_a_library_of_other_gpus_is_reported(
    database: Path, library: Path, ingested: Ingested
) -> None:
    """A line names the traces' GPU and those in the library."""
    assert "several times off" not in predicted(database, "--library", library).stderr
    other = ingested(SAMPLES / "dlrm_cpu" / "dlrm.kineto.json.gz")
    done = predicted(other, "--library", library)
    assert done.exit_code == 0
    (gpu,) = overhead_library.gpus_of(library)
    assert gpu
    assert unbroken(done.stderr) == (
        "empty in all rows: measured_gpu_end_ns, predicted_gpu_end_ns\n"
        f"1 trace from a host with no GPU, but {library} is from hosts with {gpu}; "
        "host times may be several times off\n"
    )


def test_a_run_that_learns_nothing_is_reported(
    database: Path, ingested: Ingested
) -> None:
    """Steps left as measured, for lack of others, are reported as no prediction."""
    other = ingested(SAMPLES / "dlrm_cpu" / "dlrm.kineto.json.gz")
    done = predicted(other, "--method", "shared")
    assert (
        "method shared: nothing to learn from for the steps of trace 1; they"
        in done.stderr
    )
    assert "nothing to learn" not in predicted(database, "--method", "shared").stderr


@pytest.mark.parametrize(
    ("method", "elsewhere"),
    [("library", "other runs of this database"), ("other_ranks", "other ranks of")],
)
def test_missing_bands_are_explained(
    library: Path, ingested: Ingested, method: str, elsewhere: str
) -> None:
    """A band needs steps elsewhere; the output says which, and what to do."""
    alone = ingested(SAMPLES / "dlrm_cpu" / "dlrm.kineto.json.gz")
    words = ["--library", library] if method == "library" else []
    done = predicted(alone, "--bands", "--method", method, *words)
    assert done.exit_code == 0
    assert f"a band needs at least two steps in {elsewhere}" in done.stderr
    assert "ingest more traces, or leave --bands out" in done.stderr
