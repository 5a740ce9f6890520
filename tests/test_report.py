"""Reports are self-contained files, safe for any names in a trace."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from browser import CHROMIUM, Page, browser
from click.testing import CliRunner
from pipeline_job import Job, randomly
from pipeline_job import rows as job_rows
from support import SAMPLES, DatabaseOf, Ingested, rows

import tracedb
from tracedb.cli.main import tracedb as command
from tracedb.report import MOST_BYTES, places
from tracedb.report.names import Names
from tracedb.report.sections import SECTIONS, with_rows
from tracedb.report.timeline import timeline
from tracedb.synthetic import Delays, execute, random_program

HOSTILE = (
    "</script><script>hacked = 1</script>",
    "<img src=x onerror='hacked = 2'>",
    "\"><svg onload=alert(3)>' & &lt;b&gt;",
    '=HYPERLINK("http://evil.example")',
    "\u202egnitirw desrever\u2069 שלום العربية",
    "line\u2028separators\u2029 and \u0000 nothing \U0001f600",
    "a very long name " * 400,
    "${hacked = 4} {{hacked}} %s @CONTENT@ @SCRIPT@ constructor __proto__",
)
GPU = SAMPLES / "generated_gpu"
REPORTS = ("gpu", "eight", "cpu", "memory", "beside", "hostile", "job")

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium; Debian has it: chromium-headless-shell"
)


def hostile_trace(path: Path) -> Path:
    """A trace of one step in which everything has a hostile name."""
    main = {"pid": 1, "tid": 1, "ph": "X"}
    events: list[dict[str, Any]] = [
        {
            **main,
            "cat": "user_annotation",
            "name": "ProfilerStep#1",
            "ts": 0,
            "dur": 999,
        }
    ]
    for number, name in enumerate(HOSTILE):
        begin, link = 10 + 100 * number, {"correlation": number + 1}
        events += [
            {**main, "cat": "cpu_op", "name": name, "ts": begin, "dur": 60},
            {**main, "cat": "user_annotation", "name": name, "ts": begin, "dur": 70},
            {**main, "cat": "cuda_runtime", "name": "cudaLaunchKernel"}
            | {"ts": begin + 5, "dur": 5, "args": link},
            {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7}
            | {"ts": begin + 15, "dur": 40, "args": {**link, "device": 0, "stream": 7}},
        ]
    thread = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1}
    events.append({**thread, "args": {"name": HOSTILE[0]}})
    path.write_text(json.dumps({"traceEvents": events, "schemaVersion": 1}))
    return path


def reported(database: tracedb.Database, path: Path) -> tuple[str, dict[str, Any]]:
    """The text of a report, and its data."""
    database.report(path)
    text = path.read_text()
    return text, data_of(text)


def data_of(text: str) -> dict[str, Any]:
    """The data of a report, with whole names in its cells."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    for part in data["sections"]:
        part["rows"] = [
            [data["names"][one[0]] if isinstance(one, list) else one for one in row]
            for row in part["rows"]
        ]
    return data


SCENARIOS = {
    "half the kernels": ["gpu:kernel x0.5"],
    HOSTILE[1]: ["host:T4 x0.1"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, ingested: Ingested) -> Path:
    """Reports of two GPUs, of eight, of a CPU, of a job, and of hostile names."""
    made = tmp_path_factory.mktemp("reports")
    (made / "ranks").mkdir()
    kinds = {"gpu": GPU, "cpu": SAMPLES / "dlrm_cpu", "memory": SAMPLES / "loop_cpu"}
    for name, traces in kinds.items():
        with tracedb.open(ingested(traces), read_only=True) as database:
            database.report(made / f"{name}.html")
    with tracedb.open() as database:
        executed = execute(random_program(5, steps=3, ranks=8), Delays(jitter=0.2), 5)
        for rank, trace in enumerate(executed):
            trace.write(made / "ranks" / f"rank{rank}.json")
        database.ingest([made / "ranks"])
        database.report(made / "eight.html")
    with tracedb.open() as database:
        job = made / "job.parquet"
        pl.DataFrame(job_rows(Job(), randomly(6))).write_parquet(job)
        database.ingest([job])
        database.report(made / "job.html")
    (made / "scenarios.json").write_text(json.dumps(SCENARIOS))
    with (
        tracedb.open(ingested(GPU), read_only=True) as database,
        tracedb.open(ingested(GPU / "rank0.kineto.json.gz"), read_only=True) as against,
    ):
        path = made / "scenarios.json"
        database.report(made / "beside.html", against=against, scenarios=path)
    with tracedb.open() as database:
        run = HOSTILE[1].replace("/", "")
        database.ingest([hostile_trace(made / "hostile.json")], run=run)
        database.report(made / "hostile.html")
    return made


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """A browser page."""
    with browser() as opened:
        yield opened


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_loads_nothing(folder: Path, name: str) -> None:
    """No attribute refers to another file; the policy allows inline content only."""
    text = (folder / f"{name}.html").read_text()
    outside = text.partition('id="data">')[0]
    assert not re.search(
        r"\b(src|href)=(?![\"']?#)",
        re.sub(r"<style>.*?</style>", "", outside, flags=re.DOTALL),
    )
    assert "@import" not in text
    assert "default-src 'none'; script-src 'sha256-" in text
    assert "unsafe" not in outside


def test_names_are_in_the_data_only(folder: Path) -> None:
    """Strings of a trace are in the data block only, without angle brackets."""
    text = (folder / "hostile.html").read_text()
    before, _, rest = text.partition('id="data">')
    block, _, after = rest.partition("</script>")
    assert "hacked" in block
    assert not {"<", ">", "&", "\u2028", "\u2029"} & set(block)
    assert "hacked" not in before + after


def test_long_names_are_whole_and_there_once(folder: Path) -> None:
    """A name is in many rows of many sections; the file has it once for all of them."""
    text = (folder / "hostile.html").read_text()
    long = max(HOSTILE, key=len)
    shown = sections_of(folder / "hostile.html")
    for section in ("kernels", "path"):
        assert long in of_column(shown[section], "name")
    assert long in data_of(text)["timeline"]["names"]
    assert text.count(long) == 2


def test_names_that_are_too_long_together_are_cut() -> None:
    """The longest are cut first, and stay different from each other."""
    names = [f"{number}{'x' * 50_000}" for number in range(40)]
    numbered = Names()
    numbers = [numbered.number(name) for name in (*names, "short")]
    cut = [numbered.all[number] for number in numbers]
    assert cut[-1] == "short"
    assert sum(map(len, cut)) < 1_000_000
    assert len({*cut}) == len(cut)


def test_another_run_and_scenarios(folder: Path, database_of: DatabaseOf) -> None:
    """The page has the answers of `diff` and `whatif`."""
    shown = sections_of(folder / "beside.html")
    database, against = database_of(GPU), database_of(GPU / "rank0.kineto.json.gz")
    difference = against.diff(database)
    (period,) = difference["period"].iter_rows(named=True)
    part = shown["difference_period"]
    told = dict(zip(part["columns"], part["rows"][0], strict=True))
    assert told["here_mean_ns"] == period["b_mean_ns"]
    assert told["against_mean_ns"] == period["a_mean_ns"]
    kinds = difference["kind"]
    assert len(shown["difference_kind"]["rows"]) == (kinds["change_ns"] != 0).sum()
    names = {row[0] for row in shown["scenarios"]["rows"]}
    assert names == set(SCENARIOS)
    plain = (folder / "gpu.html").read_text()
    assert "difference_kind" not in re.sub(r"<script>.*", "", plain, flags=re.DOTALL)


def test_a_job_has_its_operations(tmp_path: Path) -> None:
    """Each operation is on the lane of its worker; the sections have the answers."""
    job = tmp_path / "job.parquet"
    recorded = pl.DataFrame(job_rows(Job(), randomly(6)))
    recorded.write_parquet(job)
    with tracedb.open() as database:
        database.ingest([job])
        _, data = reported(database, tmp_path / "job.html")
        answers = database.ask("straggler_slowdown").filter(pl.col("step").is_null())
        ideal = database.ask("job")["ideal_ns"][0]
        operations = rows(
            database,
            "SELECT rank, stage, type, sum(end_ns - start_ns)::BIGINT "
            "FROM staging.operation GROUP BY ALL",
        )
    drawn = data["timeline"]
    names = drawn["names"]
    found: Counter[tuple[str, str]] = Counter()
    for row in drawn["rows"]:
        for kind, time_ns in zip(row["k"], row["d"], strict=True):
            found[drawn["lanes"][row["lane"]]["label"], names[kind]] += time_ns
    assert found == {
        (f"rank {rank}, stage {stage}", type_): time_ns
        for rank, stage, type_, time_ns in operations
    }
    assert drawn["steps"]["step"] == sorted(recorded["step"].unique())
    (costs,) = (part for part in data["sections"] if part["name"] == "slowdown")
    told = {row[0]: row[1] for row in costs["rows"]}
    stages = answers.filter(pl.col("scope") == "stage")
    assert stages.height > 1
    for name, slowdown in stages.select("name", "slowdown").iter_rows():
        assert told[f"stage {name}"] == pytest.approx((slowdown - 1) * ideal, abs=1)


@pytest.mark.parametrize("name", ["idle", "efficiency", "bounds", "path"])
def test_traces_without_a_rank_have_rows(folder: Path, name: str) -> None:
    """A single GPU has no rank, and the same sections."""
    sections = sections_of(folder / "hostile.html")
    assert sections["files"]["rows"][0][0] is None
    assert sections[name]["rows"]


def test_gpu_times_are_left_out_of_runs_without_a_gpu(folder: Path) -> None:
    """Nothing says that a GPU was busy for 0 ns; columns without values are hidden."""
    for name, is_there in (("cpu", False), ("gpu", True)):
        sections = sections_of(folder / f"{name}.html")
        for section, column in (
            ("levers", "gpu_busy_meanwhile_ns"),
            ("phases", "gpu_ns"),
        ):
            assert any(of_column(sections[section], column)) == is_there
            assert (None in of_column(sections[section], column)) != is_there


def sections_of(path: Path) -> dict[str, dict[str, Any]]:
    """The sections of a report by name."""
    return {part["name"]: part for part in data_of(path.read_text())["sections"]}


def of_column(section: dict[str, Any], name: str) -> list[Any]:
    """The values of a column of a section."""
    place = section["columns"].index(name)
    return [row[place] for row in section["rows"]]


def test_memory_and_loading_are_shown(folder: Path, database_of: DatabaseOf) -> None:
    """The peak equals the question's, live blocks sum to it or a reason is given."""
    shown = sections_of(folder / "memory.html")
    database = database_of(SAMPLES / "loop_cpu")
    ((peak, held),) = rows(
        database,
        "SELECT (SELECT max(peak_bytes) FROM question.memory), "
        "(SELECT sum(live_bytes)::BIGINT FROM question.memory_at_peak)",
    )
    assert max(of_column(shown["memory"], "allocated_bytes")) == peak == held
    assert sum(of_column(shown["memory_held"], "live_bytes")) == held
    assert of_column(shown["memory_peak"], "peak_bytes") == [peak]
    without = sections_of(folder / "gpu.html")
    assert without["memory"]["rows"] == []
    assert "profile_memory=True" in without["memory"]["empty"]
    assert not {"memory_held", "memory_peak"} & without.keys()
    for name, sample in (("gpu", GPU), ("memory", SAMPLES / "loop_cpu")):
        query = "SELECT sum(time_ns)::BIGINT FROM question.data_loading WHERE step > 0"
        ((expected,),) = rows(database_of(sample), query)
        loading = sections_of(folder / f"{name}.html")["loading"]
        assert sum(of_column(loading, "time_ns")) == expected > 0


def test_a_page_without_gpu_work_says_so_once(folder: Path) -> None:
    """Sections about GPUs have no place there; the summary says that there is none."""
    of_gpu = {"idle", "kernels", "waits", "roofline", "efficiency", "collectives"}
    of_gpu.add("communication")
    shown = {name: sections_of(folder / f"{name}.html") for name in ("gpu", "cpu")}
    assert of_gpu <= shown["gpu"].keys()
    assert not of_gpu & shown["cpu"].keys()
    assert {"levers", "overheads", "modules", "loading"} <= shown["cpu"].keys()
    words = data_of((folder / "cpu.html").read_text())["words"]
    assert words["dispatch"] == "ops on the CPU"


def test_every_slice_is_drawn_or_counted(database_of: DatabaseOf) -> None:
    """At any resolution, drawn and counted slices sum to the timeline's."""
    database = database_of(GPU)
    expected = rows(
        database,
        "SELECT count(*), sum(time_ns)::BIGINT, min(start_ns), max(start_ns + time_ns) "
        "FROM question.timeline",
    )[0]
    run = rows(database, "SELECT run_id FROM graph.run_time")[0][0]
    places.put(database.connection)
    for most in (60_000, 900, 0):
        drawn = timeline(database.connection, run, most)
        counted, lasts, begins, ends = 0, 0, [], []
        for row in drawn["rows"]:
            counts = row.get("c", [1] * len(row["s"]))
            summed = row.get("b", [0] * len(row["s"]))
            counted += sum(counts)
            lasts += sum(b or d for b, d in zip(summed, row["d"], strict=True))
            at = 0
            for difference, length in zip(row["s"], row["d"], strict=True):
                at += difference
                begins.append(at)
                ends.append(at + length)
        assert (counted, lasts, min(begins), max(ends)) == expected
        assert bool(drawn["notes"]) == (most < 60_000)
        if most == 900:
            assert 300 < len(begins) < 1_300


def test_the_first_of_equally_long_slices_names_them(tmp_path: Path) -> None:
    """Also if a merged slice has thousands, which several threads aggregate."""
    count = 150_000
    ops = [
        {"ph": "X", "cat": "cpu_op", "name": f"op {i}", "pid": 1, "tid": 1}
        | {"ts": 2 * i, "dur": 1}
        for i in range(count)
    ]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": ops}))
    with tracedb.open() as database:
        database.ingest([tmp_path / "trace.json"])
        places.put(database.connection)
        drawn = timeline(database.connection, 1, 60)
    (row,) = drawn["rows"]
    numbers = [int(drawn["names"][name].removeprefix("op ")) for name in row["n"]]
    assert len(numbers) < 1_000
    assert numbers == [0, *accumulate(row["c"][:-1])]


def test_depth_is_the_number_of_open_ops(database_of: DatabaseOf) -> None:
    """Depth from nesting equals that of a loop over begins and ends."""
    for sample in ("generated_gpu", "dlrm_cpu"):
        database = database_of(SAMPLES / sample)
        query = (
            "SELECT thread_id, start_ns, start_ns + time_ns, depth, kind = 'op' "
            "FROM question.timeline WHERE track = 'host' AND time_ns > 0 "
            "ORDER BY thread_id, start_ns, time_ns DESC, kind <> 'op'"
        )
        thread, opened = None, list[int]()
        for lane, start, end, depth, is_op in rows(database, query):
            opened = [] if lane != thread else [e for e in opened if e > start]
            thread = lane
            assert depth == len(opened)
            if is_op:
                opened.append(end)


def test_reports_are_reproducible(database_of: DatabaseOf, tmp_path: Path) -> None:
    """Two reports of a database are byte-identical, and overwrite each other."""
    database = database_of(GPU)
    first, data = reported(database, tmp_path / "a.html")
    again, _ = reported(database, tmp_path / "a.html")
    assert first == again
    assert len(first) < MOST_BYTES
    shown = {section["name"]: section for section in data["sections"]}
    assert shown["periods"]["rows"]
    for section in shown.values():
        assert database.sql(section["query"]).height >= len(section["rows"])


def test_runs_are_chosen(tmp_path: Path) -> None:
    """By default the run with the most events; others by number."""
    with tracedb.open(tmp_path / "all.duckdb") as database:
        database.ingest([GPU, SAMPLES / "dlrm_cpu"])
        known = dict(rows(database, "SELECT name, run_id FROM raw.run"))
        largest = database.report(tmp_path / "x.html")
        assert largest["other_runs"] == 1
        for run in known.values():
            assert database.report(tmp_path / "x.html", run)["run_id"] == run
        with pytest.raises(tracedb.QueryError, match="no run 99; available:"):
            database.report(tmp_path / "x.html", 99)
    line = ["report", str(tmp_path / "all.duckdb"), "-o", str(tmp_path / "y.html")]
    done = CliRunner().invoke(command, line)
    assert done.exit_code == 0
    assert done.stdout == ""
    assert "--run" in done.stderr
    assert (tmp_path / "y.html").stat().st_size > 100_000


def test_a_database_without_threads_has_no_report(tmp_path: Path) -> None:
    """It may have a table of operations, so advice to ingest a trace would mislead."""
    with (
        tracedb.open() as database,
        pytest.raises(tracedb.QueryError, match="`tracedb summary` tells what"),
    ):
        database.report(tmp_path / "a.html")


def test_bad_output_paths_are_refused(database_of: DatabaseOf, tmp_path: Path) -> None:
    """Only a report is overwritten, and errors leave no file."""
    other = tmp_path / "notes.html"
    other.write_text("<!doctype html>my notes")
    with pytest.raises(tracedb.ReportError, match="not a report; choose another name"):
        database_of(GPU).report(other)
    with pytest.raises(tracedb.ReportError, match="a folder"):
        database_of(GPU).report(tmp_path)
    with pytest.raises(tracedb.ReportError):
        database_of(GPU).report(other / "x.html")
    assert other.read_text() == "<!doctype html>my notes"
    with (
        tracedb.open() as empty,
        pytest.raises(tracedb.QueryError, match="no trace with"),
    ):
        empty.report(tmp_path / "none.html")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.html"]


@needs_chromium
@pytest.mark.parametrize("name", REPORTS)
def test_a_page_has_no_errors_or_requests(folder: Path, page: Page, name: str) -> None:
    """In both themes it is drawn without errors, dialogs or requests."""
    page.errors.clear()
    page.requests.clear()
    backgrounds = set()
    for theme in ("light", "dark"):
        page.theme(theme)
        page.open(folder / f"{name}.html")
        script = "getComputedStyle(document.body).backgroundColor"
        backgrounds.add(page.run(script))
        page.run("document.getElementById('theme').click()")
        backgrounds.add(page.run(script))
        assert page.run("document.querySelectorAll('section').length") > 7
        # Overflow would make the page scroll sideways.
        assert page.run("document.documentElement.scrollWidth") <= 1440
    assert len(backgrounds) == 2
    assert page.errors == []
    assert set(page.requests) == {(folder / f"{name}.html").as_uri()}


@needs_chromium
def test_figures_equal_those_of_the_summary(folder: Path, page: Page) -> None:
    """The step time is the summary's, not a second one; small shares are not 0 %."""
    for name in ("gpu", "eight", "cpu"):
        page.open(folder / f"{name}.html")
        told = page.run("[...document.querySelectorAll('.facts div')].at(-1).innerText")
        step = page.run("data.summary.find(one => one.mark === 'Step').text")
        value, words = re.fullmatch(r"(\S+ \w+) \((.*)\)", step).groups()  # type: ignore[union-attr]
        assert told.split("\n") == [value, f"step: {words}"]
    assert page.run("[quantile([1, 2, 3, 10], 0.5), quantile([7], 0.1)]") == [2.5, 7]
    shares = page.run("[0, 1e-5, -1e-5, 0.1234].map(share)")
    assert shares == ["0.0 %", "<0.1 %", ">-0.1 %", "12.3 %"]
    values = page.run("[3e-5, 0.0123].map(value => valued('p_value', value))")
    assert values == ["<0.001", "0.012"]
    colours = page.run("Array.from({length: 40}, (_, i) => colour('family ' + i))")
    assert len({*colours}) == 40


@needs_chromium
@pytest.mark.parametrize("name", ["gpu", "cpu"])
def test_the_page_begins_with_the_summary(
    folder: Path, page: Page, name: str, ingested: Ingested
) -> None:
    """It has all that `tracedb summary` prints, in order, with marks and commands."""
    page.open(folder / f"{name}.html")
    found = page.run("document.getElementById('summary').innerText")
    traces = {"gpu": GPU, "cpu": SAMPLES / "dlrm_cpu"}[name]
    done = CliRunner().invoke(command, ["summary", str(ingested(traces))])
    assert done.exit_code == 0
    # The page numbers items by itself, and marks commands otherwise.
    plain = re.sub(r"^ +(\d\.|->) ", "", done.stdout, flags=re.MULTILINE)
    assert "".join(found.split()) == "Summary" + "".join(plain.split())


@needs_chromium
def test_kinds_have_readable_names(folder: Path, page: Page) -> None:
    """Pictures use readable names; tables also have the relation's."""
    for name in ("gpu", "cpu", "eight", "beside"):
        page.open(folder / f"{name}.html")
        legends = page.run(
            "[...document.querySelectorAll('.legend li, .bar span, "
            "#difference_kind svg text:not(.soft)')]"
            ".map(one => one.textContent)"
        )
        assert legends
        # The roofline uses the family names of answers.
        families = page.run(
            "data.sections.filter(s => s.name === 'roofline').flatMap(objects)"
            ".map(r => r.family)"
        )
        assert not {one for one in legends if "_" in one} - {*families}
        for section in ("levers", "trust"):
            first = page.run(
                f"[...document.querySelectorAll('#{section} td:first-child')]"
                ".map(one => [one.firstChild.textContent, one.lastChild.textContent])"
            )
            assert first
            assert all("_" not in words and words for words, _ in first)


def test_ranks_stand_for_traces(folder: Path, page: Page) -> None:
    """Only the list of files numbers traces, if each has a rank or there is one."""
    numbered = (
        "data.sections.filter(s => s.columns.includes('trace_id') && "
        "[...document.querySelectorAll(`#${s.name} th`)]"
        ".some(one => one.textContent === 'trace id')).map(s => s.name)"
    )
    for name in ("gpu", "eight", "cpu"):
        page.open(folder / f"{name}.html")
        assert page.run(numbered) == ["files"]


def test_pictures_get_all_ranks_and_steps() -> None:
    """Rows that a table could leave out are there where a picture would miss them."""
    rows = [(rank, step, 9, 9, rank) for rank in range(8) for step in range(100)]
    columns = ["rank", "step", "period_ns", "host_ns", "trace_id"]
    whole = {"periods": 800, "trust": 500}
    for section in SECTIONS:
        if section.name in whole:
            made = with_rows(section, "", columns, rows)
            assert len(made["rows"]) == whole[section.name]
            assert made["is_cut"] == (section.name == "trust")


@needs_chromium
@pytest.mark.parametrize("name", ["gpu", "eight", "cpu", "memory", "job"])
def test_phases_are_drawn_as_long_as_they_take(
    folder: Path, page: Page, name: str
) -> None:
    """On the host, the GPU and the path, on one scale; of many ranks, the first 4."""
    section = sections_of(folder / f"{name}.html").get("phases")
    page.open(folder / f"{name}.html")
    drawn = page.run(
        "[...document.querySelectorAll('#phases svg')].map(one => "
        "[...one.querySelectorAll('rect')].map(box => box.height.baseVal.value))"
    )
    if section is None:
        assert drawn == []
        return
    traces = [*dict.fromkeys(of_column(section, "trace_id"))][:4]
    columns = ("host_ns", "gpu_ns", "path_ns")
    expected = [
        [
            time_ns
            for trace, time_ns in zip(
                of_column(section, "trace_id"), of_column(section, column), strict=True
            )
            if trace == own and time_ns > 0
        ]
        for column in columns
        if any(of_column(section, column))
        for own in traces
    ]
    # Columns are drawn step by step, and phases in the order of the rows.
    scale = max(map(max, drawn)) / max(map(max, expected))
    assert drawn == [
        [pytest.approx(scale * ns, abs=0.01) for ns in own] for own in expected
    ]
    words = page.run("document.querySelector('#phases').textContent")
    assert ("The first 4 of 8 ranks" in words) is (name == "eight")


@needs_chromium
def test_pictures_are_as_wide_as_the_window(folder: Path, page: Page) -> None:
    """A narrow window does not cut them off; what is left out is stated."""
    page.size(1000, 800)
    for name in ("eight", "beside"):
        page.open(folder / f"{name}.html")
        beyond = (
            "[...document.querySelectorAll('.picture')]"
            ".filter(one => one.scrollWidth > one.clientWidth)"
            ".map(one => one.parentElement.id)"
        )
        assert page.run(beyond) == []
    page.size(1440, 900)
    part = "const part = data.sections.find(s => s.name === 'bounds')"
    notes = page.run(
        f"(() => {{{part}; return [false, true].map(is_cut => "
        "cut({...part, is_cut}).textContent ?? '')})()"
    )
    assert notes[0] == ""
    assert notes[1].startswith("The picture shows the first ")


@needs_chromium
@pytest.mark.parametrize("width", [1024, 1280, 1440])
def test_tables_with_names_are_not_wider_than_the_window(
    folder: Path, page: Page, width: int
) -> None:
    """Names share the room that numbers leave; kinds of time stay whole."""
    page.size(width, 900)
    page.open(folder / "eight.html")
    beyond = (
        "['levers', 'path', 'waits', 'collectives'].filter(name => "
        "document.querySelector(`#${name} .table`)?.scrollWidth > "
        "document.querySelector(`#${name} .table`)?.clientWidth)"
    )
    assert page.run("document.querySelectorAll('#levers td.worded').length") > 0
    assert page.run(beyond) == []
    cut = "[...document.querySelectorAll('#levers td.worded')]"
    assert not page.run(f"{cut}.some(cell => cell.scrollWidth > cell.clientWidth)")


@needs_chromium
@pytest.mark.parametrize("name", REPORTS)
def test_narrow_windows_scroll_parts_only(folder: Path, page: Page, name: str) -> None:
    """On small screens the page is as wide as the window; its head leaves room."""
    for width in (1024, 800, 390):
        page.size(width, 900)
        page.open(folder / f"{name}.html")
        assert page.run("document.documentElement.scrollWidth") == width
        assert page.run("document.querySelector('header').offsetHeight") < 130
        assert page.run("document.querySelector('nav').scrollWidth") > width / 2
    page.size(1440, 900)


@needs_chromium
def test_a_backtick_of_a_name_is_shown(folder: Path, page: Page) -> None:
    """Only what stands between two of them is code."""
    page.open(folder / "gpu.html")
    said = json.dumps("`tracedb info` shows back`tick")
    shown = f"withCode({said}).map(one => one.outerHTML ?? one).join('')"
    assert page.run(shown) == "<code>tracedb info</code> shows back`tick"


@needs_chromium
def test_places_that_differ_have_different_labels(folder: Path, page: Page) -> None:
    """A bar of what changed names the module, too: ops repeat in many modules."""
    page.open(folder / "gpu.html")
    op = "autograd::engine::evaluate_function: AddmmBackward0"
    rows = [["host_op", f"Net_0/Block_{i}/Linear_{i}", op, 9 - i] for i in range(3)]
    section = {"columns": ["kind", "module", "place", "change_ns"], "rows": rows}
    labels = page.run(
        f"(() => {{const [host] = changes({json.dumps({**section, 'title': ''})}); "
        "redrawn.at(-1)(); return [...host.querySelectorAll('text:not(.soft)')]"
        ".map(one => one.textContent)})()"
    )
    assert labels == [
        f"host in ops: AddmmBackward0, Net_0/Block_{i}/Linear_{i}" for i in range(3)
    ]


def test_a_database_in_memory_is_called_db(tmp_path: Path) -> None:
    """Suggested commands need a database name; in memory it is DB."""
    with tracedb.open() as database:
        database.ingest([hostile_trace(tmp_path / "trace.json")])
        _, data = reported(database, tmp_path / "a.html")
    commands = [one["text"] for one in data["summary"] if one["kind"] == "command"]
    assert commands
    assert all(re.match("tracedb (ask|whatif) DB", one) for one in commands)


@needs_chromium
def test_hostile_names_are_text(folder: Path, page: Page) -> None:
    """Escapes show names that could turn or hide text."""
    page.open(folder / "hostile.html")
    assert page.run("typeof hacked") == "undefined"
    assert (
        page.run("document.querySelectorAll('img, iframe, section svg[onload]').length")
        == 0
    )
    cells = page.run("[...document.querySelectorAll('td bdi')].map(c => c.textContent)")
    assert HOSTILE[0] in cells
    assert HOSTILE[1] in cells
    assert "\\u202egnitirw desrever\\u2069 שלום العربية" in cells
    assert max(map(len, cells)) < 1_000
    emoji = "'a\\u{1f600}'.repeat(9)"
    assert page.run(f"[5, 6, 7, 8].every(n => shorter({emoji}, n).isWellFormed())")
    made = page.run("csv(['name'], [['=1+1'], ['a,\"b\"'], [null], [-2]])")
    assert made == 'name\n\'=1+1\n"a,""b"""\n\n-2\n'


@needs_chromium
def test_search_equals_sql(folder: Path, page: Page, database_of: DatabaseOf) -> None:
    """Found slices equal those of the timeline; Enter visits each in turn."""
    page.open(folder / "gpu.html")
    query = "SELECT count(*) FROM question.timeline WHERE name ILIKE '%embedding_bag%'"
    expected = rows(database_of(GPU), query)[0][0]
    page.press("/")
    for letter in "Embedding_Bag":
        page.press(letter)
    assert page.run("timeline.found.length") == expected > 0
    page.press("Enter")
    page.press("Enter")
    assert page.run("timeline.at") == 1
    text = page.run("document.querySelector('.detail').textContent")
    assert "embedding_bag" in text
    assert "--node" in text


@needs_chromium
def test_keys_move_and_zoom(folder: Path, page: Page) -> None:
    """Keys move and zoom the timeline, and a click selects a slice."""
    page.open(folder / "gpu.html")
    page.run("timeline.box.focus()")
    whole = page.run("timeline.view[1] - timeline.view[0]")
    page.press("w")
    assert page.run("timeline.view[1] - timeline.view[0]") == pytest.approx(whole * 0.6)
    begin = page.run("timeline.view[0]")
    page.press("d")
    assert page.run("timeline.view[0]") > begin
    page.press("0")
    page.press("p")
    assert page.run("timeline.chosen.row.l.length") > 0
    page.press("Escape")
    assert page.run("timeline.chosen") is None
    page.run("timeline.box.scrollIntoView(); timeline.show(0, timeline.end)")
    page.settle()
    place = page.run(
        "(() => { const b = timeline.canvas.getBoundingClientRect();"
        " const item = timeline.items.find(i => i.lane && i.lane.rows.length);"
        " const [row, at] = [...item.lane.place][0];"
        " return [b.x + timeline.x(row.s[0] + row.d[0] / 2),"
        "  b.y + item.y - timeline.box.scrollTop + (at + 0.5) * 15]; })()"
    )
    page.click(*place)
    assert page.run("timeline.chosen.i") == 0


@needs_chromium
def test_tables_sort(folder: Path, page: Page) -> None:
    """A click on a heading sorts numbers descending, then ascending."""
    page.open(folder / "gpu.html")
    head = "document.querySelectorAll('#kernels th button')[3]"
    cells = (
        "[...document.querySelectorAll('#kernels td:nth-child(4)')]"
        ".map(c => c.textContent)"
    )
    assert page.run(f"{head}.textContent") == "time"
    first = page.run(cells)
    page.run(f"{head}.click()")
    page.run(f"{head}.click()")
    head_cell = "document.querySelector('#kernels th:nth-child(4)')"
    assert page.run(f"{head_cell}.getAttribute('aria-sort')") == "ascending"
    assert page.run(cells) == first[::-1]


@needs_chromium
def test_times_of_a_column_have_one_unit(folder: Path, page: Page) -> None:
    """They compare by eye; what is too short for it is not written as nothing."""
    page.open(folder / "gpu.html")
    times = "[2e6, 50e6, 4e5, 100, -100, 0]"
    written = page.run(f"{times}.map(columnTime([2e6, 50e6, 100]))")
    long = ["2.000 ms", "50.000 ms", "0.400 ms"]
    assert written == [*long, "<0.001 ms", ">-0.001 ms", "0.000 ms"]
    assert page.run("[1900000, 3094].map(columnTime([1900000, 3094, 3591]))") == [
        "1,900.000 us",
        "3.094 us",
    ]
    units = page.run(
        "[...document.querySelectorAll('main table')].flatMap(table => {"
        " const rows = [...table.rows].slice(1).map(row => [...row.cells]);"
        " return rows[0].map((_, i) => [...new Set(rows.flatMap("
        "  cells => cells[i].textContent.match(/ (s|ms|us|ns)$/)?.[1] ?? []))]); })"
    )
    assert any(units)
    assert all(len(of) <= 1 for of in units)


@needs_chromium
def test_headings_are_those_of_the_command_line(folder: Path, page: Page) -> None:
    """Known counts have plural headings; users' own names stay."""
    page.open(folder / "gpu.html")
    names = ["gpu_op_count", "match_count", "late_count", "by_count", "toString_count"]
    assert page.run(f"{names}.map(heading)") == [
        *("gpu ops", "matches", "late"),
        *("by count", "toString count"),
    ]


@needs_chromium
def test_a_report_can_be_printed(folder: Path, page: Page) -> None:
    """The print is in light colours, even on a dark system."""
    page.theme("dark")
    page.open(folder / "gpu.html")
    printed = page.printed()
    assert printed.startswith(b"%PDF")
    assert page.run("document.documentElement.dataset.theme") is None


@needs_chromium
@pytest.mark.parametrize("name", ["gpu", "eight", "memory", "beside", "hostile", "job"])
def test_nothing_is_cut_off_on_paper(folder: Path, page: Page, name: str) -> None:
    """Pictures and tables fit the sheet, and omissions are stated."""
    page.open(folder / f"{name}.html")
    page.send("Emulation.setEmulatedMedia", media="print")
    page.size(718, 1000)
    page.run("dispatchEvent(new Event('beforeprint'))")
    wide = page.run(
        "[...document.querySelectorAll('main canvas, main svg, main table, .icicle')]"
        ".map(one => one.getBoundingClientRect().right)"
    )
    assert max(wide) <= 719
    lanes = page.run("timeline.lanes.filter(l => l.y + 15 > timeline.tall).length")
    said = page.run("timeline.printed.textContent")
    assert said.startswith(f"{lanes} of " if lanes else "")
    assert bool(said) == (lanes > 0) == (name == "eight")
    long = "workers" if name == "job" else "bounds"
    rows = page.run(f"data.sections.find(s => s.name === '{long}').rows.length")
    notes = page.run(f"document.querySelector('#{long} .printed').textContent")
    assert notes.startswith(f"The first 20 of {rows}" if rows > 20 else "")
    page.send("Emulation.setEmulatedMedia", media="")
    page.size(1440, 900)
    page.run("dispatchEvent(new Event('afterprint'))")
    assert page.run("timeline.wide") > 1000


@needs_chromium
def test_names_that_differ_look_different(folder: Path, page: Page) -> None:
    """Tables shorten names where they agree; copying gives whole names."""
    page.open(folder / "gpu.html")
    cells = "[...document.querySelectorAll('#kernels td:first-child')]"
    shown = page.run(f"{cells}.map(one => one.innerText)")
    names = page.run(
        "data.sections.find(s => s.name === 'kernels').rows.map(r => r[0])"
    )
    assert max(map(len, names)) > 48 >= max(map(len, shown))
    assert len({*shown}) == len({*names}) == len(names)
    assert page.run(f"{cells}.map(one => one.title)") == names
