"""`tracedb whatif`: edits as lines, sweeps, stored scenarios, answers, ranking."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from support import CORPUS, ROOT, SAMPLES, Ingested, needs_corpus, rewrite, rows

import tracedb
from tracedb import Edit
from tracedb.cli.main import tracedb as command
from tracedb.synthetic import Delays, Gap, Op, Program, Rank, Thread, execute, step
from tracedb.whatif.edit_line import parse, parse_setting
from tracedb.whatif.scenario import Change, file_schema, of_scenario, read_scenarios
from tracedb.whatif.sweep import swept

PAGE = ROOT / "docs" / "scenarios.md"
MOST_LINES = 20
EXAMPLE = re.compile(
    r"^```\n(?P<asked>tracedb whatif .*?)\n```\n(?:\n```text\n(?P<answer>.*?)\n```\n)?",
    re.DOTALL | re.MULTILINE,
)
EXAMPLES = [match["asked"] for match in EXAMPLE.finditer(PAGE.read_text())]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, ingested: Ingested) -> Path:
    """A folder with the database used on the page."""
    made = tmp_path_factory.mktemp("whatif")
    shutil.copy(ingested(SAMPLES / "generated_gpu"), made / "run.duckdb")
    return made


@pytest.fixture
def database(folder: Path) -> Iterator[tracedb.Database]:
    """The same, opened."""
    with tracedb.open(folder / "run.duckdb", read_only=True) as opened:
        yield opened


def run(*words: str) -> Result:
    """The result of the command."""
    return CliRunner().invoke(command, ["whatif", *words])


@pytest.mark.parametrize("asked", EXAMPLES)
def test_example(
    asked: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """An example of `docs/scenarios.md` gives the answer below it."""
    monkeypatch.chdir(folder)
    done = run(*shlex.split(asked)[2:])
    assert done.exit_code == 0, done.stderr
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    found = "\n".join(
        [*lines[:MOST_LINES], *(["..."] if len(lines) > MOST_LINES else [])]
    )
    examples = EXAMPLE.finditer(PAGE.read_text())
    example = next(m for m in examples if m["asked"] == asked)
    if request.config.getoption("--update-answers"):
        written = f"```\n{asked}\n```\n\n```text\n{found}\n```\n"
        rewrite(PAGE, lambda text: text.replace(example[0], written))
    elif example["answer"] != found:
        pytest.fail(f"review with --update-answers:\n{found}")


def test_every_example_of_the_page_is_run() -> None:
    """None is skipped."""
    assert len(EXAMPLES) >= 8


LINES: list[tuple[str, dict[str, Any]]] = [
    ("gpu:*gemm* x0.5", {"target": "gpu", "name": "*gemm*", "factor": 0.5}),
    ("host:T2 -2us", {"target": "host", "type": "T2", "add_ns": -2000}),
    (
        "op:aten::item remove",
        {"target": "op", "name": "aten::item", "action": "remove"},
    ),
    ("gpu:kernel =5us", {"target": "gpu", "type": "kernel", "set_ns": 5000}),
    ("gpu =rank_min", {"action": "set", "set_to": "rank_min"}),
    ("gpu graph gap_ns=1us", {"action": "graph", "gap_ns": 1000}),
    ("op ideal", {"target": "op", "action": "ideal"}),
    ("gpu set from_run=2", {"action": "set", "from_run": 2}),
    ('gpu:"a b" x0', {"name": "a b", "factor": 0}),
    (r'gpu:"a \"b\"" x0', {"name": 'a "b"'}),
    ("gpu:/a b|c/ x2 +1.5ms", {"name": "/a b|c/", "factor": 2, "add_ns": 1_500_000}),
    ("gpu op=/opt/lib process_group=/a b/ x0", {"op": "/opt/lib"}),
    ("gpu stream=7 step=1..3 x1e-1", {"stream": 7, "step": "1..3", "factor": 0.1}),
    ("host thread=19392 add_ns=-3us", {"thread": "19392", "add_ns": -3000}),
    ("wait:host", {"target": "wait", "type": "host"}),
    ('gpu sql="SELECT 1 AS n" x0', {"sql": "SELECT 1 AS n"}),
    ("delay:launch x0.5", {"target": "delay", "type": "launch", "factor": 0.5}),
]


@pytest.mark.parametrize(("line", "fields"), LINES)
def test_a_line_is_an_edit(line: str, fields: dict[str, Any]) -> None:
    """Target, type or name, fields, and changes."""
    found = parse(line)
    assert {name: getattr(found, name) for name in fields} == fields


BAD_LINES = [
    (
        "",
        "expected a target (host, gpu, op, wait, delay, profiler), found the end",
    ),
    (
        "gpux x1",
        'column 1: expected a target (host, gpu, op, wait, delay, profiler), found "g',
    ),
    ("name=x x1", "column 1: expected a target"),
    ("aten::mm x1", "; write op:aten::mm for an op of that name"),
    ("T1 x1", "; write host:T1"),
    ("stream x1", "; write wait:stream or delay:stream"),
    (
        "phase:backward x1",
        "; write a target before the field, as in host phase=backward",
    ),
    ("gpu: x0.5", 'column 5: expected a value, found "x0.5"'),
    ('gpu:"a x0.5', 'column 1: expected a word, or a text with a closing ", found'),
    (
        "gpu:a b x0",
        "column 7: expected a change (x0.5, +2us, -2us, =5us, =rank_min, set, ideal",
    ),
    ("gpu:a b x0", "write a text with spaces in double quotes"),
    (
        "gpu x0.5 x2",
        'column 10: expected another field (factor is already given), found "x2"',
    ),
    (
        "host:T2 -2",
        'column 9: expected a time with its unit (ns, us, ms, s), found "-2"',
    ),
    ("gpu stpe=1", 'expected a field, found "stpe=1"; did you mean type or step'),
    ("gpu zzz=1", "column 5: expected a field (type, name, op,"),
    ("gpu phase=up x1", "column 5: expected phase=one of data_loading, inference"),
    ("gpu rank=-1 x1", 'rank is "-1"; it must be a whole number'),
    ("gpu x1e99", "column 5: expected factor, which is a number from 0 to 1e9, found"),
]


@pytest.mark.parametrize(("line", "said"), BAD_LINES)
def test_a_bad_line_is_reported_with_its_column(line: str, said: str) -> None:
    """Exit code 2, before any database is opened."""
    done = run("none.duckdb", "--edit", line)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@given(
    st.sampled_from(["gpu", "host", "op"]),
    st.text("ab*?[]():<>, \"\\'", min_size=1, max_size=12),
    st.floats(0, 1e3, allow_subnormal=False),
)
def test_any_name_can_be_quoted(target: str, name: str, factor: float) -> None:
    """Names in double quotes, which backslashes escape, are read back exactly."""
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    found = parse(f'{target} name="{quoted}" x{factor!r}')
    assert (found.target, found.name, found.factor) == (target, name, factor)


def test_lines_in_files(tmp_path: Path) -> None:
    """JSON and TOML files may have lines or objects, with the same meaning."""
    (tmp_path / "a.json").write_text('{"a": ["gpu:*g* x0.5", {"target": "wait"}]}')
    (tmp_path / "a.toml").write_text(
        'a = ["gpu:*g* x0.5"]\n[["b c"]]\ntarget = "host"\nfactor = 0\nstep = "1..2"\n'
    )
    edits = read_scenarios(tmp_path / "a.json")
    assert [edit.target for edit in edits] == ["gpu", "wait"]
    first, second = read_scenarios(tmp_path / "a.toml")
    assert first == edits[0]
    assert (second.scenario, second.step, second.factor) == ("b c", "1..2", 0)


BAD_FILES = {
    "a.json": ('{"a": ["gpu y"]}', "scenario a, edit 1: edit 'gpu y', column 5"),
    "b.toml": ("a = [", "not TOML: "),
    "c.toml": ('[["a"]]\ntarget = "gpu"\nfactor = 2020-01-01\n', "factor is "),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_one_line(name: str, tmp_path: Path) -> None:
    """The line has file, scenario and edit."""
    text, said = BAD_FILES[name]
    (tmp_path / name).write_text(text)
    done = run("--scenario", str(tmp_path / name), "--check")
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{name}: " in done.stderr
    assert said in done.stderr


def test_check_needs_no_database(tmp_path: Path, folder: Path) -> None:
    """Without a database a file is checked alone; with one, each edit has to match."""
    path = tmp_path / "a.json"
    path.write_text('{"a": ["gpu:nothing_such x0.5"]}')
    alone = run("--scenario", str(path), "--check")
    assert (alone.exit_code, alone.stdout) == (0, "")
    assert "1 edit checked: valid" in alone.stderr
    matched = run(str(folder / "run.duckdb"), "--scenario", str(path), "--check")
    assert matched.exit_code == 2
    assert "no GPU work with name nothing_such" in matched.stderr


def test_the_schema_has_all_fields(database: tracedb.Database) -> None:
    """It has exactly the fields of an edit; so does the database's table."""
    kept = set(database.schema("reference.scenario")["column"])
    assert kept == {*Edit.__struct_fields__, "ordinal"} - {"bound"}
    schema = json.loads(file_schema())
    assert set(schema["$defs"]["Change"]["properties"]) == set(Change.__struct_fields__)
    assert run("--schema").stdout == file_schema().decode() + "\n"


def no_query(_query: str) -> list[Any]:
    """Runs nothing."""
    raise AssertionError


def test_a_sweep_is_a_scenario_for_each_value() -> None:
    """The value is in the scenario's name, and in edits with that field."""
    edits = [of_scenario("a", parse("gpu x1")), of_scenario("a", parse("host -1us"))]
    found = swept(edits, "factor=0.5..1:3", no_query)
    assert [(e.scenario, e.factor, e.add_ns) for e in found] == [
        (f"a factor={factor:g}", *values)
        for factor in (0.5, 0.75, 1)
        for values in ((factor, None), (None, -1000))
    ]
    bare = [of_scenario("a", parse(line)) for line in ("gpu", "wait:host", "host -1us")]
    found = swept(bare, "factor=0.5,2", no_query)
    assert [edit.factor for edit in found] == [0.5, None, None, 2, None, None]
    other = of_scenario("b", parse("wait:host"))
    found = swept([edits[0], other], "factor=0.5,2", no_query)
    assert [edit.scenario for edit in found] == ["b", "a factor=0.5", "a factor=2"]
    queried = swept(edits[1:], "add_ns=SELECT x", lambda _: [-5, 7])
    assert [edit.add_ns for edit in queried] == [-5, 7]
    alike = swept(edits[1:], "add_ns=-1000001,-1000002", no_query)
    assert [edit.scenario for edit in alike] == [
        "a add_ns=-1000001",
        "a add_ns=-1000002",
    ]


def test_a_sweep_of_a_setting_is_a_setting_for_each_value() -> None:
    """It takes the place of one that is there, also in the scenario's name."""
    alone = swept([], "ranks=8..64", no_query)
    assert [(e.scenario, e.to_ranks, e.type) for e in alone] == [
        (f"ranks={ranks}", ranks, "collective") for ranks in (8, 16, 32, 64)
    ]
    edits = [
        of_scenario("a", parse("gpu x0.5")),
        of_scenario("ranks=8 network=25", parse_setting("ranks=8 network=25")),
    ]
    found = swept(edits, "ranks=16,32", no_query)
    assert [(e.scenario, e.factor, e.to_ranks, e.network) for e in found] == [
        row
        for ranks in (16, 32)
        for row in (
            (f"a ranks={ranks}", 0.5, None, None),
            (f"a ranks={ranks}", None, ranks, None),
            (f"ranks={ranks} network=25", None, ranks, 25),
        )
    ]
    (_, changed) = swept(edits[:1], "gpu=H200", no_query)
    assert (changed.scenario, changed.to_gpu) == ("a gpu=H200", "H200")


def test_several_sweeps_give_all_combinations(folder: Path) -> None:
    """Each scenario of the first is one of the second for each of its values."""
    sweeps = ("--sweep", "gpu=A100,H200", "--sweep", "ranks=2,4")
    path = str(folder / "run.duckdb")
    assert "8 edits checked" in run(path, *sweeps, "--check").stderr
    found = run(path, *sweeps, "--format", "json")
    assert [row["scenario"] for row in json.loads(found.stdout)] == [
        f"gpu={gpu} ranks={ranks}" for ranks in (2, 4) for gpu in ("A100", "H200")
    ]


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ("ranks=1", "setting 'ranks=1': ranks must be a whole number from 2 to 1e6"),
        ("ranks=a..b", "sweep of ranks: a..b is neither a whole number"),
        ("batch=8,8", "a value occurs twice"),
        ("dtype=int3", "dtype must be one of fp32"),
        ("workers=1..2", "no edit has workers"),
        ("gpu=A100:conv*", "an edit of half has to_gpu, and selects what it is for"),
    ],
)
def test_wrong_sweeps_of_settings(sweep: str, said: str) -> None:
    """One line says what is wrong."""
    edits = [
        of_scenario("a", parse("host overlap")),
        of_scenario("half", parse_setting("gpu=H100:gemm*")),
    ]
    with pytest.raises(tracedb.ScenarioError, match=said):
        swept(edits, sweep, no_query)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--check"], "--check needs edits, and none are given"),
        (["--rows", "hit"], "--rows needs edits, and none are given"),
        (["--edit", "gpu x2", "--ranking"], "--ranking does not go with edits"),
        (
            ["--edit", "gpu x2", "--candidates", "3"],
            "--candidates does not go with edits",
        ),
    ],
)
def test_options_without_effect_are_refused(
    folder: Path, words: list[str], said: str
) -> None:
    """An option that would not change the answer is an error."""
    done = run(str(folder / "run.duckdb"), *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


BAD_SWEEPS = [
    ("facto=1", "expected a field and its values"),
    ("factor", "expected a field and its values"),
    ("set_ns=1,2", "no edit has set_ns"),
    ("factor=a", "a is neither a list (0.25,0.5,2) nor a range"),
    ("factor=-1", "-1.0 is not a valid factor; it must be a number from 0 to 1e9"),
    ("factor=0..1:99999", "99,999 values; the limit is 1 to 10,000"),
    ("factor=0.1..1:1000000", "1,000,000 values; the limit is 1 to 10,000"),
    ("factor=0..inf:3", "both ends of a range must be finite, such as 0.1..1"),
    ("factor=SELECT 1 WHERE false", "0 values"),
    ("factor=0.5,0.5", "a value occurs twice"),
    ("factor=SELECT 'x'", "x is not a valid factor"),
]


@pytest.mark.parametrize(("sweep", "said"), BAD_SWEEPS)
def test_a_bad_sweep_is_one_line(folder: Path, sweep: str, said: str) -> None:
    """Exit code 2, nothing on stdout."""
    done = run(str(folder / "run.duckdb"), "--edit", "gpu x1", "--sweep", sweep)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_times_beyond_nanoseconds_are_refused(folder: Path) -> None:
    """One line says what to do."""
    done = run(str(folder / "run.duckdb"), "--edit", "gpu x1e9", "--edit", "gpu x1e9")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "longer than 292 years" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("--edit", "gpu x1", "--ranking"),
        ("--edit", "gpu x1", "--name", "a", "--each"),
        ("--edit", "gpu x0.5", "--edit", "gpu x0.5", "--each"),
        ("--name", "a"),
    ],
)
def test_conflicting_options_are_refused(words: tuple[str, ...]) -> None:
    """Exit code 2, before anything is opened."""
    done = run("none.duckdb", *words)
    assert done.exit_code == 2
    assert "none.duckdb" not in done.stderr


def test_names_of_two_places_are_refused(tmp_path: Path) -> None:
    """Edits of a file do not join the scenario of the same name on the command line."""
    path = tmp_path / "a.json"
    path.write_text('{"fast": ["gpu x0.5"]}')
    done = run(
        *("none.duckdb", "--edit", "gpu x0.5", "--name", "fast"),
        *("--scenario", str(path)),
    )
    assert done.exit_code == 2
    assert f"{path} has a scenario fast, too; choose another name" in done.stderr


def test_scenarios_stored_in_the_database(folder: Path, tmp_path: Path) -> None:
    """Rows of `reference.scenario` work like a file; a bad row is reported."""
    path = tmp_path / "kept.duckdb"
    shutil.copy(folder / "run.duckdb", path)
    empty = run(str(path), "--stored")
    assert empty.exit_code == 2
    assert "reference.scenario is empty" in empty.stderr
    with tracedb.open(path) as database:
        database.connection.execute(
            "INSERT INTO reference.scenario BY NAME "
            "SELECT 'x' || f AS scenario, 'gpu' AS target, f / 10 AS factor "
            "FROM range(1, 4) AS t (f)"
        )
    kept = json.loads(run(str(path), "--stored", "--format", "json").stdout)
    with tracedb.open(path, read_only=True) as database:
        edits = [Edit(scenario=f"x{f}", target="gpu", factor=f / 10) for f in (1, 2, 3)]
        with database.simulate(["replay"], edits) as beside:
            said = beside.ask("scenario_summary").to_dicts()
    assert kept == said
    with tracedb.open(path) as database:
        database.connection.execute(
            "INSERT INTO reference.scenario BY NAME "
            "SELECT 'y' AS scenario, 'gpu' AS target, 'z' AS phase"
        )
    wrong = run(str(path), "--stored")
    assert wrong.exit_code == 2
    assert 'reference.scenario, row 4: phase is "z"' in wrong.stderr


def _check_bands(summary: list[dict[str, Any]]) -> None:
    """Each answer has a band; errors common to both simulations are not in it."""
    same, *edited = summary
    assert same["change_low_ns"] == same["change_high_ns"] == 0
    assert same["low_ns"] < same["predicted_ns"] < same["high_ns"]
    for row in edited:
        assert row["low_ns"] < row["predicted_ns"] < row["high_ns"]
        assert row["change_low_ns"] < row["change_ns"] < row["change_high_ns"]
        both = same["high_ns"] - same["low_ns"] + row["high_ns"] - row["low_ns"]
        assert row["change_high_ns"] - row["change_low_ns"] < 0.6 * both


def test_gains_and_losses(database: tracedb.Database) -> None:
    """Without edits nothing is lost; parts of a path sum to the whole."""
    edits = [
        Edit(scenario="same", target="gpu", factor=1),
        Edit(scenario="fast", target="gpu", factor=0.5),
        Edit(scenario="host", target="host", factor=0.5),
    ]
    with database.simulate(["replay"], edits) as beside:
        summary = beside.ask("scenario_summary").rows(named=True)
        saving = beside.ask("scenario_saving").rows(named=True)
        path = beside.ask("scenario_path")
        hits = {hit["scenario"]: hit for hit in beside.ask("scenario_hit").to_dicts()}
        matches = beside.ask("scenario_match").to_dicts()
    assert [row["change_ns"] == 0 for row in summary] == [True, False, False]
    _check_bands(summary)
    for row, one in zip(summary, saving, strict=True):
        assert one["saved_ns"] == -row["change_ns"]
        assert one["lost_ns"] == max(one["expected_ns"] - one["saved_ns"], 0)
        own = path.filter(path["scenario"] == row["scenario"])
        assert abs(own["baseline_ns"].sum() - row["baseline_ns"]) <= len(own)
        assert abs(own["predicted_ns"].sum() - row["predicted_ns"]) <= len(own)
        assert abs(own["expected_ns"].sum() - one["expected_ns"]) <= len(own)
        lost_ns = one["expected_ns"] - one["saved_ns"]
        assert abs(own["shifted_ns"].sum() - lost_ns) <= len(own)
    assert saving[0]["expected_ns"] == 0
    for match in matches:
        hit = hits[match["scenario"]]
        assert hit["match_count"] == match["match_count"]
        assert 0 < hit["path_ns"] <= match["matched_ns"]
    # All host time and delays on a path are host spans.
    assert hits["same"]["path_ns"] == hits["fast"]["path_ns"]


def test_paths_of_whole_steps_count(tmp_path: Path) -> None:
    """A last step that is empty is in no mean, and not in what bounds the steps."""
    marks = [step(n, Op("a", (Gap(1_000 * n),)), Gap(500)) for n in (3, 5)]
    program = Program((Rank((Thread("main", (*marks, step(6, Gap(90_000)))),)),))
    path = execute(program, Delays())[0].write(tmp_path / "trace.json")
    with tracedb.open() as opened:
        opened.ingest([path])
        edits = [Edit(scenario="half", target="host", factor=0.5)]
        with opened.simulate(["replay"], edits) as beside:
            (summary,) = beside.ask("scenario_summary").to_dicts()
            found = beside.ask("scenario_path").sum().to_dicts()[0]
            (saving,) = beside.ask("scenario_saving").to_dicts()
    assert summary["step_count"] == 2
    assert found["baseline_ns"] == summary["baseline_ns"]
    assert found["predicted_ns"] == summary["predicted_ns"]
    assert found["expected_ns"] == saving["expected_ns"]


def test_bands_of_a_rank_are_those_of_its_steps(database: tracedb.Database) -> None:
    """What kernels may be off by is added to how its steps differ, on both sides."""
    edits = [of_scenario("a", parse_setting("gpu=V100"))]
    bounds = """
        SELECT regexp_extract(bound, '\\d'), avg(bound.predicted_ns)
        FROM reference.scenario_bound AS bound
        INNER JOIN question.scenario_effect USING (scenario, method, step_id)
        WHERE rank = ?
        GROUP BY bound
    """
    with database.simulate(["replay"], edits) as beside:
        for rank in (0, 1):
            (row,) = beside.ask("scenario_summary", rank=rank).to_dicts()
            ends: dict[str, list[float]] = {}
            for part, ns in beside.connection.execute(bounds, [rank]).fetchall():
                ends.setdefault(part, []).append(ns - row["predicted_ns"])
            assert len(ends) > 1
            squares = {
                sign: sum(
                    max(0, *(sign * ns for ns in of)) ** 2 for of in ends.values()
                )
                for sign in (1, -1)
            }
            below = (row["predicted_ns"] - row["low_ns"]) ** 2 - squares[-1]
            above = (row["high_ns"] - row["predicted_ns"]) ** 2 - squares[1]
            reach = row["change_high_ns"] - row["change_ns"]
            assert below == pytest.approx(above, abs=1e-5 * squares[1])
            assert below > 0
            assert reach**2 > squares[1]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("gpu x1", "no change on the path, no change overall"),
        ("gpu x1", " ms, no change\n"),
        ("op:aten::linear insert place=before host_ns=20", "140 ns more overall"),
        ("op:aten::linear insert place=before host_ns=20", " ms, a change of 140 ns\n"),
    ],
)
def test_tiny_changes_are_said(folder: Path, edit: str, said: str) -> None:
    """No range begins and ends at the same time, and no change is 0.000 ms."""
    told = run(str(folder / "run.duckdb"), "--edit", edit).stdout
    about = told.partition("\nscenario ")[2]
    assert said in about
    assert "0.000 ms" not in about


ASSUMED = {
    "gpu graph": "takes 10 us to launch, and its work starts 1 us apart, because",
    "gpu graph gap_ns=2us": "10 us to launch, and its work starts 2 us apart, because",
    "gpu graph host_ns=1us gap_ns=0": None,
    "gpu:kernel fuse": "nothing else does, because no execution graph was recorded",
    "gpu:kernel fuse gpu_ns=9us": None,
    "host:wait_data overlap": "hands over what it has done in no time; set host_ns",
    "host:wait_data overlap host_ns=9us": "in the step, and each worker has its own",
    "gpu:collective overlap until=Optimizer*": "as long next to other work as it took",
    "gpu:memcpy move to_stream=99": None,
    "op:aten::linear remove": "the longest stays; gaps=all",
    "op:aten::linear remove gaps=all": None,
    "op:aten::addmm remove": "aten::linear, of which ops are removed, does the rest as",
    "gpu:memcpy remove": None,
    "wait:host": "what waited does not need what it waited for",
    "profiler x0": "costs 2.00 us, which is an estimate",
    "gpu x0.5": None,
}
"""Edits, and what their assumptions say."""
LOADED = "waits for data from worker processes stay as recorded, 0.111 ms per step: "
"""What edits assume where worker processes load, unless they change the waits."""
TOGETHER = "what ran next to it on the GPU takes as long as before: "
OF_ANY = (LOADED, TOGETHER, "rests of ", "what short waits ", "streams do not wait ")
"""What any edit may assume."""


def test_assumptions_are_stated(database: tracedb.Database) -> None:
    """Each edit states what it takes for granted, but not what the edit itself says."""
    edits = [of_scenario(line, parse(line)) for line in ASSUMED]
    with database.simulate(["replay"], edits) as beside:
        found = rows(
            beside, "SELECT scenario, assumption FROM question.scenario_assumption"
        )
        hits = rows(
            beside, "SELECT scenario FROM question.scenario_hit WHERE path_ns IS NULL"
        )
        changing = rows(
            beside,
            "SELECT DISTINCT scenario FROM question.scenario_effect "
            "WHERE abs(change_share) > 0.001",
        )
    loaded = {line for line, assumption in found if assumption.startswith(LOADED)}
    assert loaded == {line for (line,) in changing if "wait_data" not in line}
    assert len(loaded) == len(ASSUMED) - 4
    assert {line for line, of in found if of.startswith(TOGETHER)} == {
        line for line in ASSUMED if line.startswith(("gpu x", "gpu:kernel fuse", "op:"))
    }
    told = {line: of for line, of in found if not of.startswith(OF_ANY)}
    assert told.keys() == {line for line, said in ASSUMED.items() if said}
    for line, assumption in told.items():
        assert str(ASSUMED[line]) in assumption
    assert {line for (line,) in hits} == {"wait:host", "profiler x0"}


def test_work_that_all_delays_select_counts_once(database: tracedb.Database) -> None:
    """What ran next to it, whichever types of delays an edit has."""
    lines = "delay x0.2", "gpu x0.5"
    edits = [of_scenario(line, parse(line)) for line in lines]
    query = (
        "SELECT scenario, assumption FROM question.scenario_assumption "
        f"WHERE starts_with(assumption, '{TOGETHER}')"
    )
    with database.simulate(["replay"], edits) as beside:
        told = dict(rows(beside, query))
    assert told.keys() == {*lines}
    assert told[lines[0]] == told[lines[1]]


NAMED = """
SELECT
    count(*) FILTER (name GLOB '*elementwise*' AND is_family),
    count(*) FILTER (is_family),
    count(*) FILTER (name GLOB '*elementwise*' AND NOT is_family)
FROM (
    SELECT name, coalesce(family = 'elementwise', false) AS is_family
    FROM staging.gpu_op
    LEFT JOIN prediction.kernel_problem USING (gpu_op_id)
)
"""


def test_a_name_is_not_a_family(database: tracedb.Database) -> None:
    """An edit says what its name matches beside the family of that name, and misses."""
    lines = (
        *("gpu:*elementwise* x0.5", "gpu:*gemm* x0.5", "gpu family=elementwise x0.5"),
        *("gpu:*elementwise* rank=0 x0.5", "gpu x0.5"),
    )
    edits = [of_scenario(line, parse(line)) for line in lines]
    ((both, family, beside_it),) = rows(database, NAMED)
    assert 0 < both <= family
    assert beside_it
    with database.simulate(["replay"], edits, only_steps=True) as beside:
        told = rows(
            beside,
            "SELECT scenario, assumption FROM question.scenario_assumption "
            "WHERE contains(assumption, 'famil')",
        )
    ((line, assumption),) = told
    assert line == lines[0]
    assert f"matches {both} of {family} GPU ops of family elementwise" in assumption
    assert f"and {beside_it} of other or unknown families" in assumption


def test_ops_that_share_a_cpu_are_assumed_to_take_as_long(ingested: Ingested) -> None:
    """Said of edits of ops, not of Python between them or of the profiler."""
    lines = ("op:aten::linear remove", "host:T5 x0.5", "host:T1 x0.5", "profiler x0")
    edits = [of_scenario(line, parse(line)) for line in lines]
    with (
        tracedb.open(ingested(SAMPLES / "dlrm_cpu"), read_only=True) as cpu,
        cpu.simulate(["replay"], edits) as beside,
    ):
        said = rows(
            beside,
            "SELECT scenario FROM question.scenario_assumption "
            "WHERE assumption LIKE 'other ops on the CPU take as long as before%'",
        )
    assert said == [(line,) for line in lines[:2]]


def test_ranks_that_were_not_recorded_are_assumed_to_wait_as_long(
    ingested: Ingested,
) -> None:
    """The answer about one of two ranks says how long its collectives last."""
    path = ingested(SAMPLES / "generated_gpu" / "rank0.kineto.json.gz")
    with tracedb.open(path, read_only=True) as one_rank:
        edits = [of_scenario("slow", parse("gpu:kernel x3"))]
        with one_rank.simulate(["replay"], edits) as beside:
            said = rows(
                beside, "SELECT assumption FROM question.scenario_assumption ORDER BY 1"
            )
        (of_step,) = rows(
            one_rank,
            "SELECT avg(time_ns) / 1e6 FROM (SELECT sum(c.end_ns - c.start_ns) AS "
            "time_ns FROM staging.collective AS c INNER JOIN staging.step AS s "
            "ON c.start_ns BETWEEN s.start_ns AND s.end_ns - 1 GROUP BY step_id)",
        )
    assert said[0][0] == (
        "collectives with ranks that were not recorded last as recorded, "
        f"{of_step[0]:.3f} ms per step, however long they then wait for these"
    )


@settings(max_examples=3, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "gpu:*gemm* x0.5",
                "gpu:memcpy x3",
                "host:T2 -2us",
                "host:T4 x0.5",
                "host:idle +1us",
            ]
        ),
        min_size=2,
        max_size=4,
        unique=True,
    )
)
def test_disjoint_edits_commute(
    database_of: tracedb.Database, lines: list[str]
) -> None:
    """Step times do not depend on their order; an identity changes nothing."""
    edits = [of_scenario("there", parse(line)) for line in lines]
    edits += [of_scenario("back", parse(line)) for line in reversed(lines)]
    edits.append(of_scenario("same", parse("op x1")))
    rows = database_of.scenarios(edits).to_dicts()
    times = {
        name: [row["predicted_ns"] for row in rows if row["scenario"] == name]
        for name in ("there", "back", "same")
    }
    assert times["there"] == times["back"]
    assert times["same"] == [r["baseline_ns"] for r in rows if r["scenario"] == "same"]


@pytest.fixture(scope="module")
def database_of(folder: Path) -> Iterator[tracedb.Database]:
    """The database, opened once for hypothesis."""
    with tracedb.open(folder / "run.duckdb", read_only=True) as opened:
        yield opened


def test_the_ranking_equals_scenarios(database: tracedb.Database) -> None:
    """Each row has the gain of the steps in its own scenario."""
    ranked = database.ranking(candidates=2).to_dicts()
    named = [row for row in ranked if row["target"] == "host" and row["name"]]
    assert len(named) == 2
    edits = [
        Edit(scenario="0", target="host", name=named[0]["name"], factor=0),
        Edit(scenario="half", target="host", name=named[0]["name"], factor=0.5),
        Edit(scenario="T2", target="host", type="T2", factor=0),
    ]
    with database.simulate(["replay"], edits) as beside:
        gains = {
            row["scenario"]: -row["change_ns"]
            for row in beside.ask("scenario_summary").to_dicts()
        }
    t2 = next(row for row in ranked if row["type"] == "T2")
    assert (named[0]["gain_ns"], named[0]["half_gain_ns"]) == (
        gains["0"],
        gains["half"],
    )
    assert t2["gain_ns"] == gains["T2"]
    assert ranked == sorted(ranked, key=lambda row: -row["gain_ns"])
    assert {"gpu", "host", "wait"} <= {row["target"] for row in ranked}


ODD_NAMES = ("a*", "axx", "a?x", "/x/", "/(/", "//", "*", "T1", "\\*", "[a]")


def test_names_with_wildcards_are_ranked_literally(tmp_path: Path) -> None:
    """The ranking measures each name alone, even if it looks like a pattern.

    So does an edit with that name, copied from the ranking.
    """
    body = [Op(name, (Gap(1_000 << n),)) for n, name in enumerate(ODD_NAMES)]
    program = Program((Rank((Thread("main", (step(1, *body), step(2, *body))),)),))
    path = execute(program, Delays())[0].write(tmp_path / "trace.json")
    with tracedb.open() as opened:
        opened.ingest([path])
        ranked = opened.ranking(candidates=len(ODD_NAMES)).to_dicts()
        edits = [
            Edit(scenario=name, target="host", name=name, factor=0)
            for name in ODD_NAMES
            if name != "/(/"
        ]
        removed = opened.scenarios(edits).to_dicts()
    gains = {row["name"]: row["gain_ns"] for row in ranked if row["name"]}
    wanted = {name: 1_000 << n for n, name in enumerate(ODD_NAMES)}
    assert gains == {{"/(/": "?(/"}.get(n, n): ns for n, ns in wanted.items()}
    assert {
        row["scenario"]: row["baseline_ns"] - row["predicted_ns"] for row in removed
    } == {name: ns for name, ns in wanted.items() if name != "/(/"}


@needs_corpus
@pytest.mark.parametrize(
    "line", ["host:wait_data x0", "host:wait_data overlap workers=4"]
)
def test_loading_in_workers_predicts_a_recording(line: str, ingested: Ingested) -> None:
    """A ResNet-50 that loads in its steps, and one with four workers.

    A batch is ready in time if loading takes less than four steps.
    """
    traces = [f"resnet50_{name}.json.gz" for name in ("w0_2021a", "w4_2021b")]
    alone, beside = (ingested(CORPUS / "kineto" / trace) for trace in traces)
    edit = of_scenario("workers", parse(line))
    with tracedb.open(alone, read_only=True) as database:
        predicted = database.scenarios([edit])["predicted_ns"].median()
        match = "SELECT max(end_ns - start_ns) FROM staging.data_loading"
        longest = database.sql(match).item()
    assert isinstance(predicted, float)
    assert longest < 4 * predicted
    with tracedb.open(beside, read_only=True) as database:
        steady = database.ask("prediction_error")["measured_ns"].median()
    assert predicted == pytest.approx(steady, rel=0.1)


def test_an_empty_database_has_no_ranking() -> None:
    """There is nothing to change."""
    with tracedb.open() as opened:
        assert opened.ranking().is_empty()


def test_edits_are_typed() -> None:
    """Unknown fields of an edit are refused when it is created from data."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"target": "gpu", "scenario": "a", "steps": 1}, Edit)
