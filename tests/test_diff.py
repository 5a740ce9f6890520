"""Differences between two runs: steps, paths, ops and kernels."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from contextlib import contextmanager
from statistics import median, stdev
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import click.testing
import duckdb
import polars as pl
import pytest
from scipy.stats import mannwhitneyu
from support import SAMPLES, Ingested, rows, unbroken

import tracedb
from tracedb import catalog
from tracedb.cli.main import tracedb as command
from tracedb.diff import PARTS, checked, checked_by_starts, choose

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

STEPS = 5
COMPARED = "critical_path.compared_path"
MM, LONG_MM = "[[8,8],[8,8]]", "[[64,8],[8,8]]"


def event(cat: str, name: str, at: int, lasts: int, **args: object) -> dict[str, Any]:
    """An event on the main thread."""
    fields = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1}
    return fields | {"ts": at, "dur": lasts, "args": args}


def launched(name: str, at: int, lasts: int, number: int) -> list[dict[str, Any]]:
    """A launch, and a kernel that begins when the launch returns."""
    linked = {"correlation": number, "External id": number}
    kernel = event("kernel", name, at + 10, lasts, device=0, stream=7, **linked)
    return [
        event("cuda_runtime", "cudaLaunchKernel", at, 10, **linked),
        kernel | {"pid": 0, "tid": 7},
    ]


def trace(
    ops: Sequence[tuple[str, str, str, list[tuple[str, int]]]], jitter: int
) -> dict[str, Any]:
    """Steps of ops, each with module, shape, kernels and kernel times."""
    events = []
    at = 1000
    for step in range(STEPS):
        begin = at
        for module, name, shape, kernels in ops:
            own = [event("python_function", f"nn.Module: {module}", at, 0)]
            inner: list[dict[str, Any]] = []
            lasts = 20
            for kernel, time in kernels:
                inner += launched(kernel, at + lasts, time, at + lasts)
                lasts += 10 + time + jitter * step
            own.append(
                event("cpu_op", name, at, lasts, **{"Input Dims": json.loads(shape)})
            )
            own[0]["dur"] = lasts
            events += own + inner
            at += lasts + 5
        events.append(event("cuda_runtime", "cudaDeviceSynchronize", at, 10))
        number = f"ProfilerStep#{step + 1}"
        at += 20
        events.append(event("user_annotation", number, begin, at - begin))
    return {"traceEvents": events}


BEFORE = trace(
    [
        ("A_0", "aten::mm", MM, [("volta_gemm", 100)]),
        ("A_0", "aten::mm", MM, [("volta_gemm", 100)]),
        ("B_0", "aten::mm", MM, [("volta_gemm", 100)]),
        ("B_0", "aten::mm", LONG_MM, [("volta_gemm", 300), ("reduce", 50)]),
        ("B_0", "aten::relu", "[[8,8]]", [("clamp", 30)]),
    ],
    jitter=1,
)
AFTER = trace(
    [
        ("A_0", "aten::mm", MM, [("volta_gemm", 100)]),
        ("A_0", "aten::mm", MM, [("ampere_gemm", 200)]),
        ("B_0", "aten::mm", MM, [("volta_gemm", 100)]),
        ("B_0", "aten::mm", LONG_MM, [("volta_gemm", 250), ("reduce", 50)]),
        ("B_0", "aten::gelu", "[[8,8]]", [("gelu", 40)]),
    ],
    jitter=1,
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """Both runs in one database."""
    folder = tmp_path_factory.mktemp("pair")
    for name, content in (("before", BEFORE), ("after", AFTER)):
        (folder / f"{name}.json").write_text(json.dumps(content))
    path = folder / "pair.duckdb"
    with tracedb.open(path) as database:
        database.ingest([folder / "before.json", folder / "after.json"])
    with tracedb.open(path, read_only=True) as database:
        yield database


def run(*words: object) -> click.testing.Result:
    """Run `tracedb` in this process."""
    return click.testing.CliRunner().invoke(command, [*map(str, words)])


def test_kernels_are_matched_by_module_op_shape_and_order(
    pair: tracedb.Database,
) -> None:
    """One module's second product has another kernel; other modules are unchanged."""
    found = pair.diff()["work"]
    gpu = {
        (r["module"], r["op"], r["shape"], r["a_name"], r["b_name"]): (
            *(r["outcome"], r["a_ns"], r["b_ns"], r["is_significant"]),
        )
        for r in found.filter(found["device"] == "gpu").iter_rows(named=True)
    }
    kept, replaced = ("volta_gemm",) * 2, ("volta_gemm", "ampere_gemm")
    shape = json.dumps([[8, 8]], separators=(",", ":"))
    assert gpu == {
        ("A_0", "aten::mm", MM, *kept): ("same", 100_000, 100_000, False),
        ("A_0", "aten::mm", MM, *replaced): ("slower", 100_000, 200_000, True),
        ("B_0", "aten::mm", MM, *kept): ("same", 100_000, 100_000, False),
        ("B_0", "aten::mm", LONG_MM, *kept): ("faster", 300_000, 250_000, True),
        ("B_0", "aten::mm", LONG_MM, "reduce", "reduce"): (
            *("same", 50_000, 50_000, False),
        ),
        ("B_0", "aten::relu", shape, "clamp", None): ("removed", 30_000, 0, None),
        ("B_0", "aten::gelu", shape, None, "gelu"): ("added", 0, 40_000, None),
    }


@pytest.mark.parametrize(("shift", "is_significant"), [(10, False), (60, True)])
def test_work_may_differ_as_starts_do(
    tmp_path: Path, *, shift: int, is_significant: bool
) -> None:
    """A kernel whose times vary by 12 us may take 10 us longer in another start."""
    op = ("A_0", "aten::mm", MM, [("gemm", 200)])
    for name, more in (("a", 0), ("b", shift)):
        whole = trace([op], jitter=0)
        kernels = [e for e in whole["traceEvents"] if e.get("cat") == "kernel"]
        for step, kernel in enumerate(kernels):
            kernel["dur"] = 100 + 12 * step / len(kernels) + more
        (tmp_path / f"{name}.json").write_text(json.dumps(whole))
    with tracedb.open() as database:
        database.ingest(sorted(tmp_path.glob("*.json")))
        work = database.diff(run=(1, 2))["work"]
        (row,) = work.filter(work["device"] == "gpu").iter_rows(named=True)
        assert row["p_value"] < 0.05
        assert row["is_significant"] is is_significant


def test_the_path_explains_the_change(pair: tracedb.Database) -> None:
    """The period is 60 us longer; kinds and places sum to that within rounding."""
    found = pair.diff()
    (period,) = found["period"].iter_rows(named=True)
    assert (period["a_step_count"], period["b_step_count"]) == (STEPS, STEPS)
    assert period["change_ns"] == 60_000
    assert period["is_significant"] is True
    for part in ("kind", "path"):
        assert found[part]["change_ns"].sum() == pytest.approx(60_000, abs=10)
        assert found[part]["a_ns"].sum() == pytest.approx(period["a_mean_ns"], abs=10)
    assert found["kind"].row(0)[0] == "host_op"
    assert found["path"].row(0)[1:3] == ("A_0", "aten::mm")


def test_a_run_equals_itself(pair: tracedb.Database) -> None:
    """The same in SQL, where a question takes two runs."""
    for part in PARTS:
        found = pair.ask(f"diff_{part}", 1, 1)
        assert found["change_ns"].to_list() == [0] * found.height
        assert not found.is_empty()
    assert pair.ask("diff_work", 1, 2).equals(pair.diff()["work"])


def plain_work(db: tracedb.Database, rank: int) -> dict[tuple[Any, ...], list[Any]]:
    """GPU work of a rank by matching key, with names and summed time."""
    ops: Counter[tuple[Any, ...]] = Counter()
    known: dict[int, tuple[Any, ...]] = {}
    query = f"""
        SELECT op_id, op.name, input_dims::VARCHAR, step
        FROM staging.op INNER JOIN staging.trace USING (trace_id)
        INNER JOIN graph.node_step ON op_id = node_id
        INNER JOIN staging.step USING (step_id)
        WHERE rank = {rank} AND NOT is_annotation ORDER BY op.start_ns, op_id
    """
    for op_id, name, shape, step in rows(db, query):
        ops[name, shape, step] += 1
        known[op_id] = (name, shape, ops[name, shape, step])
    work: Counter[int] = Counter()
    found: dict[tuple[Any, ...], list[Any]] = defaultdict(lambda: [None, 0])
    query = """
        SELECT op_id, name, end_ns - start_ns FROM staging.gpu_op
        ORDER BY start_ns, gpu_op_id
    """
    for op_id, name, time_ns in rows(db, query):
        if op_id in known:
            work[op_id] += 1
            own = found[*known[op_id], work[op_id]]
            own[:] = min(own[0] or name, name), own[1] + time_ns
    return found


def test_matched_work_equals_a_plain_loop(ingested: Ingested) -> None:
    """For two ranks of a sample, all times and names agree op by op."""
    with tracedb.open(ingested(SAMPLES / "generated_gpu"), read_only=True) as db:
        found = db.diff(rank=(0, 1))["work"]
        one, other = plain_work(db, 0), plain_work(db, 1)
    expected: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    for key in one.keys() | other.keys():
        (a_name, a_ns), (b_name, b_ns) = (s.get(key, (None, 0)) for s in (one, other))
        times = expected[(*key[:2], a_name, b_name)]
        times[0] += a_ns
        times[1] += b_ns
    gpu = found.filter((found["device"] == "gpu") & found["op"].is_not_null())
    assert len(expected) == gpu.height
    for row in gpu.iter_rows(named=True):
        times = expected[row["op"], row["shape"], row["a_name"], row["b_name"]]
        assert [row["a_ns"], row["b_ns"]] == [round(time / 3) for time in times]


def test_the_rank_test_equals_scipy(database: tracedb.Database) -> None:
    """Mann-Whitney U with the normal approximation; too few steps give no answer."""
    chance = random.Random(1)  # noqa: S311 (numbers to test with)
    for one, other in [(4, 4), (3, 5), (8, 9), (5, 30), (20, 20)]:
        a = [chance.randint(0, 9) for _ in range(one)]
        b = [chance.randint(0, 9) + chance.choice((0, 4)) for _ in range(other)]
        query = f"SELECT question.rank_test_p({a}, {b}), question.rank_test_p({b}, {a})"
        expected = mannwhitneyu(a, b, method="asymptotic").pvalue
        assert rows(database, query)[0] == pytest.approx((expected, expected), abs=1e-6)
    query = "SELECT question.rank_test_p([1, 2, 3], [4, 5, 6])"
    assert rows(database, query) == [(None,)]
    query = "SELECT question.rank_test_p([5, 5, 5, 5], [5, 5, 5, 5])"
    assert rows(database, query)[0][0] == pytest.approx(1)


def test_output_of_the_command(pair: tracedb.Database) -> None:
    """Both sides, the difference and its significance; then tables, largest first."""
    done = run("diff", pair.path)
    lines = done.stdout.splitlines()
    assert done.exit_code == 0, done.stderr
    assert lines[0].startswith("A  ")
    assert "(before.json)" in lines[0]
    assert "Steps of B are 60.0 us (" in lines[4]
    assert lines[5].startswith("significant (p = 0.0")
    assert "volta_gemm -> ampere_gemm" in done.stdout
    one = run("diff", pair.path, pair.path, "--run", 2, 2, "--step", 1, 3, "--top", 2)
    assert "too few steps for a significance test" in one.stdout
    same = run("diff", pair.path, "--run", 1, 1)
    assert "Steps of B are as long on average:" in same.stdout
    rows_ = run("diff", pair.path, "--rows", "work", "--format", "json")
    assert json.loads(rows_.stdout) == pair.diff()["work"].to_dicts()


def test_other_reasons_for_a_difference_are_told(
    pair: tracedb.Database, tmp_path: Path
) -> None:
    """Where and how both sides were recorded, and that starts differ."""
    kept = [one for one in AFTER["traceEvents"] if one["cat"] != "python_function"]
    path = tmp_path / "plain.duckdb"
    with tracedb.open(path) as database:
        for gpu, ranks in (("H100", 4), ("MI300X", 8)):
            trace = {
                "deviceProperties": [{"id": 0, "name": gpu}],
                "distributedInfo": {"rank": 0, "world_size": ranks},
                "traceEvents": kept,
            }
            (tmp_path / f"{gpu}.json").write_text(json.dumps(trace))
            database.ingest([tmp_path / f"{gpu}.json"], run=gpu)
    done = run("diff", pair.path, path, "--run", 1, 1)
    frames, starts = unbroken(done.stderr).splitlines()
    assert frames.startswith("only A was recorded with Python stacks, which takes")
    assert "starts of one program are taken to differ" in starts
    assert unbroken(run("diff", path, "--run", 1, 2).stderr).splitlines() == [
        "A ran on H100, B ran on MI300X",
        "A is of a job of 4 ranks, B is of a job of 8 ranks",
        starts,
    ]
    # Within one run.
    assert run("diff", pair.path, "--run", 1, 1, "--step", 1, 2).stderr == ""


def test_two_databases_are_compared(ingested: Ingested) -> None:
    """Their contents do not matter, and neither is changed."""
    paths = [ingested(SAMPLES / name) for name in ("dlrm_cpu", "generated_gpu")]
    before = [path.read_bytes() for path in paths]
    done = run("diff", *paths, "--rows", "period", "--format", "json")
    (period,) = json.loads(done.stdout)
    assert period["a_step_count"] > 0
    assert (period["a_rank_count"], period["b_rank_count"]) == (0, 2)
    assert period["b_step_count"] == 3
    assert [path.read_bytes() for path in paths] == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--run", 1, 1, "--step", 1, 9], "no step 9; available: 1, 2, 3, 4, 5"),
        (["--run", 1, 7], "no run 7; available: 1 (before.json), 2 (after.json)"),
        (["--rank", 0, 0], "has runs 1 (before.json), 2 (after.json); choose one"),
        (["--run", 1, 2, "--rank", 0, 0], "no rank 0; available: none"),
        (["--format", "csv"], "--format csv needs --rows: it prints one part"),
        (["absent.duckdb"], "absent.duckdb: no such database"),
    ],
)
def test_wrong_usage_is_one_line(
    pair: tracedb.Database, words: list[Any], said: str
) -> None:
    """The error lists what there is to choose from."""
    done = run("diff", pair.path, *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def suite_of(report: Path) -> ET.Element:
    """The JUnit report."""
    return ET.fromstring(report.read_text())  # noqa: S314 (our own)


def test_a_slower_run_fails_the_check(pair: tracedb.Database, tmp_path: Path) -> None:
    """Exit code 1, a failed test case and an annotation; a faster run passes."""
    report = tmp_path / "check.xml"
    words = ("check", pair.path, "--baseline", pair.path, "--junit", report, "--github")
    slower = run(*words, "--baseline-run", 1, "--run", 2, "--format", "json")
    assert slower.exit_code == 1
    (period, *kinds) = json.loads(slower.stdout)
    assert (period["measure"], period["is_within"]) == ("period", False)
    assert period["change_ns"] == 60_000 > period["limit_ns"]
    assert {row["measure"] for row in kinds} > {"host_op"}
    suite = suite_of(report)
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert "longer" in str(suite[0][0].get("message"))
    assert "\n::error title=tracedb check: period::period: " in slower.stderr
    limit, whole = period["limit_ns"], period["a_ns"]
    said = f"up to {limit / 1e3:.1f} us ({100 * limit / whole:.1f} %) pass: the base"
    assert f"slowdowns of the period {said}" in slower.stderr
    faster = run(*words, "--baseline-run", 2, "--run", 1)
    assert (faster.exit_code, "::error" in faster.stderr) == (0, False)
    assert suite_of(report).get("failures") == "0"
    each = run(*words, "--baseline-run", 1, "--run", 1, "--each")
    assert each.exit_code == 0
    assert len(suite_of(report)) == len(kinds) + 1


@pytest.mark.parametrize(
    "wrong",
    [
        *(["--baseline", "missing.duckdb"], ["--baseline", "check.xml"]),
        *(["--tolerance", "-1"], ["--baselin", "a.duckdb"], ["--baseline"], []),
    ],
    ids=" ".join,
)
def test_a_check_that_cannot_run_leaves_no_old_report(
    pair: tracedb.Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wrong: list[str],
) -> None:
    """CI would read the earlier success."""
    report = tmp_path / "check.xml"
    monkeypatch.chdir(tmp_path)
    words = ("check", pair.path, "--run", 1, "--junit", "check.xml")
    right = ("--baseline", pair.path, "--baseline-run", 1)
    assert run(*words, *right).exit_code == 0
    assert run(*words, "--help").exit_code == 0
    assert suite_of(report).get("failures") == "0"
    done = run(*words, *wrong)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert not report.exists()


def test_a_check_needs_enough_steps_or_a_tolerance(
    pair: tracedb.Database, tmp_path: Path
) -> None:
    """Noise is estimated from four steps; a report overwrites no other file."""
    few = choose(pair.connection, "a.duckdb", run=1, step=2)
    whole = choose(pair.connection, "a.duckdb", run=2)
    with pytest.raises(
        tracedb.QueryError, match="estimating the noise takes 4 or more"
    ):
        checked(few, whole, None)
    assert checked(few, whole, 0.5)["is_within"].all()
    (tmp_path / "notes.xml").write_text("<notes/>")
    words = ("check", pair.path, "--baseline", pair.path, "--run", 1)
    done = run(*words, "--baseline-run", 1, "--junit", tmp_path / "notes.xml")
    assert (done.exit_code, "choose another name" in done.stderr) == (2, True)
    assert (tmp_path / "notes.xml").read_text() == "<notes/>"


@contextmanager
def noise_of(
    steps: Sequence[tuple[int, int]], ranks: int = 1
) -> Iterator[duckdb.DuckDBPyConnection]:
    """The relations of noise, over steps of ranks given as runs and times."""
    part = "critical_path.compared_part"
    with duckdb.connect() as own:
        own.execute("CREATE SCHEMA critical_path")
        own.execute(
            f"CREATE TABLE {COMPARED} AS SELECT unnest(?) AS run_id, rank AS trace_id, "
            "unnest(range(?)) AS path_id, rank, path_id AS step, "
            "unnest(?) + rank AS time_ns FROM range(?) AS rank(rank)",
            [
                [run for run, _ in steps],
                len(steps),
                [time for _, time in steps],
                ranks,
            ],
        )
        own.execute(
            f"CREATE TABLE {part} AS SELECT *, '' AS kind FROM {COMPARED} LIMIT 0"
        )
        noise = ("question.diff_noise", "question.start_noise")
        catalog.create_only(own, *noise, given=frozenset({COMPARED, part}))
        yield own


def test_noise_is_rarely_reported_as_a_change() -> None:
    """Equal runs hardly ever fail; one that is a quarter slower nearly always does.

    Starts of the program differ as much as its steps do.
    """
    chance = random.Random(4)  # noqa: S311 (numbers to test with)
    pairs, steps = 200, 8

    def times(mean: float) -> list[int]:
        mean *= chance.lognormvariate(0, 0.03)
        return [round(chance.lognormvariate(0, 0.03) * mean) for _ in range(steps)]

    samples = [
        (number, time)
        for number in range(pairs)
        for time in times(1e6 if number % 2 else 1.25e6)
    ]
    with noise_of(samples) as own:
        seen = "change_ns > noise_ns AND p_value < 0.05"
        query = f"SELECT {seen} FROM question.diff_noise(?, ?)"
        alarms = Counter(
            (step, own.execute(query, [number, number + step]).fetchall()[0][0])
            for number in range(1, pairs - 2, 2)
            for step in (1, 2)
        )
    assert alarms[1, True] >= 96
    assert alarms[2, True] <= 5


def test_ranks_of_a_step_are_no_further_proof() -> None:
    """Equal runs of many ranks, which take their steps together, hardly ever differ."""
    chance = random.Random(5)  # noqa: S311 (numbers to test with)
    pairs, steps = 60, 4
    samples = [
        (number, round(1e6 * chance.lognormvariate(0, 0.05)))
        for number in range(2 * pairs)
        for _ in range(steps)
    ]
    found: dict[int, list[float]] = {}
    for ranks in (1, 16):
        with noise_of(samples, ranks) as own:
            query = "FROM question.diff_noise(?, ?) SELECT p_value, noise_ns"
            found[ranks] = [
                value
                for number in range(0, 2 * pairs, 2)
                for value in own.execute(query, [number, number + 1]).fetchall()[0]
            ]
    assert found[16] == pytest.approx(found[1], abs=1)
    assert sum(p < 0.05 for p in found[16][::2]) <= 0.1 * pairs


def starts_of(count: int, chance: random.Random) -> list[tuple[int, int]]:
    """Six steps of each of so many starts, which differ by 4 %, their steps by 1 %."""
    made = []
    for number in range(1, count + 1):
        mean = 1e6 * chance.lognormvariate(0, 0.04)
        made += [
            (number, round(mean * chance.lognormvariate(0, 0.01))) for _ in range(6)
        ]
    return made


def test_differences_between_starts_are_noise() -> None:
    """Equal starts hardly ever fail against five others; a third slower always does.

    Against one other start, whose steps hardly differ, every fifth start fails.
    """
    chance = random.Random(4)  # noqa: S311 (numbers to test with)
    alarms: Counter[str] = Counter()
    for _ in range(60):
        made = starts_of(6, chance)
        slower = [(7, round(time * 1.33)) for run, time in made if run == 6]
        with noise_of(made) as own:
            (row,) = own.sql("FROM question.start_noise(6)").fetchall()
            medians = [
                median(time for run, time in made if run == number)
                for number in range(1, 7)
            ]
            noise = 3 * stdev(medians[:5]) * (1 + 1 / 5) ** 0.5
            expected = (5, median(medians[:5]), medians[5], noise)
            assert (row[1], *row[2:4], row[5]) == pytest.approx(expected, abs=2)
            alarms["equal"] += row[4] > row[5]
            one = own.sql("FROM question.diff_noise(1, 6) SELECT change_ns > noise_ns")
            alarms["one"] += one.fetchall()[0][0]
            own.execute(f"DELETE FROM {COMPARED} WHERE run_id = 6")
            own.executemany(
                f"INSERT INTO {COMPARED} SELECT ?, 0, max(path_id) + 1, 0, "
                f"max(step) + 1, ? FROM {COMPARED}",
                slower,
            )
            (row,) = own.sql("FROM question.start_noise(7)").fetchall()
            alarms["slower"] += row[4] > row[5]
    assert alarms["equal"] <= 3
    assert alarms["one"] >= 10
    assert alarms["slower"] >= 55


def test_all_runs_of_a_baseline_are_its_starts(pair: tracedb.Database) -> None:
    """Two are too few without a tolerance; the checked run is none of them."""
    done = run("check", pair.path, "--baseline", pair.path, "--run", 1)
    assert done.exit_code == 0
    one, two = (choose(pair.connection, "a.duckdb", run=number) for number in (1, 2))
    with pytest.raises(tracedb.QueryError, match="2 runs, but learning how much"):
        checked_by_starts([one, one], two, None)
    for baseline, checks, is_within in (
        ([one, one, one], two, False),
        ([one, one, one], one, True),
        ([one, two, two], two, True),
        ([one, one], two, False),
    ):
        rows = checked_by_starts(baseline, checks, 0.01)
        assert rows.filter(pl.col("measure") == "period")["is_within"].item() == (
            is_within
        )


@pytest.fixture
def without_steps(tmp_path: Path) -> Path:
    """The first run without its steps, ingested under another name."""
    events = [one for one in BEFORE["traceEvents"] if "ProfilerStep" not in one["name"]]
    (tmp_path / "whole.json").write_text(json.dumps({"traceEvents": events}))
    path = tmp_path / "whole.duckdb"
    with tracedb.open(path) as database:
        database.ingest([tmp_path / "whole.json"])
    return path


def test_whole_traces_do_not_compare_with_steps(
    pair: tracedb.Database, without_steps: Path
) -> None:
    """The line names the run without steps, on either side."""
    for words in ((pair.path, without_steps), (without_steps, pair.path)):
        done = run("diff", *words, "--run", 1, 1)
        assert done.exit_code == 2
        (line,) = done.stderr.splitlines()
        assert "whole.json" in line
        assert "has no steps" in line


def test_whole_traces_compare_with_whole_traces(without_steps: Path) -> None:
    """The answer does not call them steps."""
    done = run("diff", without_steps, without_steps)
    assert done.exit_code == 0, done.stderr
    assert "1 whole trace" in done.stdout
    assert "Traces of B are" in done.stdout


def test_totals_cover_traces_without_steps(without_steps: Path) -> None:
    """Ops and gaps count there, too, as a plain sum over the spans tells."""
    with tracedb.open(without_steps, read_only=True) as database:
        spans = rows(
            database, "SELECT type, op_id, end_ns - start_ns FROM overhead.timeline"
        )
        ops = database.ask("overhead_by_op")["time_ns"].sum()
        gaps = database.ask("host_gap")["time_ns"].sum()
    assert ops == sum(ns for _, op_id, ns in spans if op_id is not None) > 0
    assert gaps == sum(ns for type_, _, ns in spans if type_ == "T1") > 0
