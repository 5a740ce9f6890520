"""Notebooks show databases as tables and charts, with any names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support import SAMPLES, DatabaseOf, Ingested, rows
from test_efficiency import kernel
from test_report import HOSTILE, hostile_trace

import tracedb
from tracedb import plots
from tracedb.cli.main import tracedb as command
from tracedb.plots import PLOTS
from tracedb.report.colours import COLOURS
from tracedb.report.sections import SECTIONS
from tracedb.summary.words import WORDS

GPU = SAMPLES / "generated_gpu"

needs_altair = pytest.mark.skipif(
    find_spec("altair") is None, reason="the package altair is not installed"
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database in which everything has a hostile name."""
    made = tmp_path_factory.mktemp("hostile")
    with tracedb.open(made / "run.duckdb") as database:
        database.ingest([hostile_trace(made / "a.json")], run=HOSTILE[0])
    return made / "run.duckdb"


def test_a_summary_is_displayed_as_text(hostile: Path) -> None:
    """It is what the command prints; in HTML, names are text."""
    with tracedb.open(hostile, read_only=True) as database:
        found = database.summary()
    printed = CliRunner().invoke(command, ["summary", str(hostile)]).stdout
    assert repr(found).split("\n")[0] == printed.split("\n")[0]
    assert "What takes the time" in repr(found)
    html = found._repr_html_()
    assert html.startswith("<pre>")
    assert html.count("<") == html.count("</") * 2 == 2


def test_every_plot_has_a_section() -> None:
    """Plots have the names of a report's sections."""
    assert set(PLOTS) <= {section.name for section in SECTIONS}


@needs_altair
@pytest.mark.parametrize("name", PLOTS)
def test_plots_have_the_rows_of_their_section(
    database_of: DatabaseOf, name: str
) -> None:
    """Vega-Lite's schema is valid, and drawn fields are columns."""
    database = database_of(GPU)
    section = next(one for one in SECTIONS if one.name == name)
    run = rows(database, "SELECT run_id FROM graph.run_time")[0][0]
    if not rows(database, section.query.replace("$run", str(run))):
        with pytest.raises(tracedb.QueryError, match=re.escape(section.empty)):
            database.plot(name)
        return
    drawn = database.plot(name).to_dict()
    columns = {key for data in drawn["datasets"].values() for key in data[0]}
    fields = set(re.findall(r"'field': '(\w+)'", str(drawn)))
    assert fields
    assert fields <= columns


def drawn_rows(database: tracedb.Database, name: str) -> list[dict[str, Any]]:
    """The rows that a chart draws."""
    (data,) = database.plot(name).to_dict()["datasets"].values()
    return list(data)


@needs_altair
def test_bars_of_the_critical_path_are_as_long_as_it(database_of: DatabaseOf) -> None:
    """What bounds a step adds up to its period, the mean of ranks; names have all."""
    database = database_of(GPU)
    bars: Counter[int] = Counter()
    for row in drawn_rows(database, "bounds"):
        bars[row["step"]] += row["time_ms"]
    periods = rows(
        database,
        "SELECT step, avg(end_ns - start_ns) / 1e6 FROM graph.step_period "
        "GROUP BY step",
    )
    assert bars == {step: pytest.approx(time) for step, time in periods}
    named = rows(
        database,
        "SELECT coalesce(name, ''), sum(time_ns) / 1e6 FROM question.path_interval "
        "WHERE method = 'measured' AND critical_path.bounds_period(scope, trace_id) "
        "GROUP BY ALL",
    )
    lengths = {row["name"]: row["time_ms"] for row in drawn_rows(database, "path")}
    lasting = {name: time for name, time in named if name in lengths}
    assert len(lasting) > 5
    assert {name: lengths[name] for name in lasting} == pytest.approx(lasting)
    assert None not in lengths
    assert "host between ops" in lengths


@needs_altair
def test_labels_tell_rows_apart_and_no_more(database_of: DatabaseOf) -> None:
    """A rank needs no number of its trace; kinds are in words."""
    idle = drawn_rows(database_of(GPU), "idle")
    assert {row["of"] for row in idle} == {"rank 0, device 0", "rank 1, device 1"}
    assert "host between ops" in {row["kind"] for row in idle}


@needs_altair
def test_kinds_have_the_words_and_colors_of_reports(database_of: DatabaseOf) -> None:
    """A chart in a notebook and one in a report are read alike."""
    database = database_of(SAMPLES / "generated_gpu")
    drawn = database.plot("bounds").to_dict()
    scale = drawn["encoding"]["color"]["scale"]
    colors = dict(zip(scale["domain"], scale["range"], strict=True))
    kinds = database.critical_path(summary=True)["kind"].unique()
    assert colors == {WORDS.get(kind, kind): COLOURS[kind] for kind in kinds}


def test_different_names_have_different_bars() -> None:
    """Names that are cut alike, or differ in what is not shown, are numbered."""
    names = [f"{'a' * 90}{middle}{'b' * 90}" for middle in ("x", "y" * 20, "z")]
    names += ["one\x07", "one\x08", "run<Row<char>>(int)", "run<Row<char>>(float)"]
    texts = plots._texts(names)  # noqa: SLF001
    assert len(set(texts.values())) == len(names)
    assert texts["one\x08"] == "one\N{REPLACEMENT CHARACTER} [2]"
    assert texts["run<Row<char>>(int)"] == "run<Row<char>>(int)"


@needs_altair
def test_rooflines_have_roofs_where_the_gpu_is_known(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """An op of known work has a point, and a tick if the model of its GPU is known."""
    for number, gpu in enumerate(("NVIDIA A40", "Gaudi"), 1):
        trace = {"deviceProperties": [{"id": 0, "name": gpu}]}
        trace["traceEvents"] = kernel("aten::mm", 100 * number, 40, 1)
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(trace))
        database.ingest([file])
        chart = database.plot("roofline", run=number).to_dict()
        (point,) = next(iter(chart["datasets"].values()))
        assert point["tflops"] == pytest.approx(2 * 64 * 32 * 16 / 40e-6 / 1e12)
        assert ("layer" in chart) == (gpu == "NVIDIA A40")
        assert (point["roofline_ms"] is None) == (gpu == "Gaudi")


@needs_altair
@pytest.mark.parametrize("name", ["periods", "path", "kernels"])
def test_names_cannot_leave_the_script(hostile: Path, name: str) -> None:
    """Altair embeds data in a script: no name can end it."""
    with tracedb.open(hostile, read_only=True) as database:
        chart = database.plot(name)
        text = chart.to_html()
    assert "hacked" in text
    data = json.dumps(chart.to_dict(), ensure_ascii=False)
    assert "</" not in data
    assert "<!" not in data


def test_tables_show_names_as_text(hostile: Path) -> None:
    """Names are not markup in the tables of a database and of a difference."""
    with tracedb.open(hostile, read_only=True) as database:
        difference = database.diff(step=(1, 1))
        shown = [str(database._repr_html_()), difference._repr_html_()]
    for text in shown:
        assert "hacked" in text
        assert set(re.findall(r"<(/?\w+)", text)) <= {
            f"{slash}{tag}"
            for slash in ("", "/")
            for tag in ("p", "table", "tr", "td", "th")
        }
        assert "\u202e" not in text


def test_a_closed_database_has_no_table(ingested: Ingested) -> None:
    """A notebook then shows that it is a database, without an error."""
    with tracedb.open(ingested(GPU), read_only=True) as database:
        assert "2,411" in str(database._repr_html_())
    assert database._repr_html_() is None


def test_databases_open_in_jupyter_without_its_widgets(ingested: Ingested) -> None:
    """DuckDB's setting for progress bars needs the package ipywidgets there."""
    program = (
        "import sys, types\n"
        "shell = types.SimpleNamespace(config={'IPKernelApp': {}})\n"
        "sys.modules['ipywidgets'] = None\n"
        "sys.modules['IPython'] = types.ModuleType('IPython')\n"
        "sys.modules['IPython'].get_ipython = lambda: shell\n"
        "import tracedb\n"
        "with tracedb.open(sys.argv[1], read_only=True) as database:\n"
        "    print(database._repr_html_()[:3])"
    )
    done = subprocess.run(  # noqa: S603 (our own program)
        [sys.executable, "-Ic", program, str(ingested(GPU))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("<p>\n", "")


def test_unknown_plots_are_an_error(database_of: DatabaseOf) -> None:
    """The error lists the plots; so it does for an unknown run."""
    with pytest.raises(tracedb.QueryError, match="no plot pie; available: periods, "):
        database_of(GPU).plot("pie")


@needs_altair
def test_unknown_runs_are_an_error(database_of: DatabaseOf) -> None:
    """The error lists the runs."""
    with pytest.raises(tracedb.QueryError, match="no run 99"):
        database_of(GPU).plot("periods", 99)


def test_without_altair_one_line_says_how_to_install_it(ingested: Ingested) -> None:
    """The error names the extra that plots need."""
    program = (
        "import sys; sys.modules['altair'] = None\n"
        "import tracedb\n"
        "with tracedb.open(sys.argv[1], read_only=True) as database:\n"
        "    try:\n        database.plot('idle')\n"
        "    except tracedb.MissingPackageError as error:\n        print(error)"
    )
    done = subprocess.run(  # noqa: S603 (our own program)
        [sys.executable, "-Ic", program, str(ingested(GPU))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip().endswith("pip install 'tracedb[notebook]'")


def test_an_estimate_is_shown_as_a_table() -> None:
    """It has units, and hostile names do no harm."""
    estimation = pytest.importorskip("tracedb.from_code.estimation")
    memory = pytest.importorskip("tracedb.from_code.memory")
    estimate = estimation.Estimate(
        gpu="<b>H100",
        cpu=None,
        computing_ns=0,
        computing_count=0,
        error_sources=(),
        batch=2048,
        step_ns=1_500_000,
        low_ns=1_000_000,
        high_ns=2_000_000,
        gpu_active_ns=900_000,
        kernel_count=1234,
        memory=memory.Memory(12_500_000_000, {}, "aten::mm", ()),
        capacity_bytes=None,
        largest_batch=None,
        unmodelled={},
        source="",
        unsure=(),
        links=None,
        _layout=None,
        _path="",
    )
    shown = estimate._repr_html_()
    assert "A step on &lt;b&gt;H100, batch 2,048" in shown
    for cell in ("1.50 ms", "1,234", "12.5 GB"):
        assert f"<td>{cell}</td>" in shown
