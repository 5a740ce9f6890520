"""Help is fast: nothing heavy is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import polars as pl
import pytest

import tracedb
from tracedb import kernels
from tracedb.cli.ask import ask

HEAVY = {"duckdb", "msgspec", "numpy", "polars", "pyarrow", "rich", "sklearn", "torch"}
PROGRAM = """
import sys
from tracedb.cli.main import tracedb

try:
    tracedb({arguments!r})
except SystemExit as stop:
    assert stop.code == {code}, stop.code
print(*sorted({{name.partition(".")[0] for name in sys.modules}}), file=sys.stderr)
"""
MEASURED = {
    "software": "made up",
    "source": "test",
    "measured": "kernel",
    "family": "memset",
    "op": "memset",
    "dtype": "float32",
}
SLOW = {"scipy", "sklearn", "torch"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two models of one family, on two GPUs."""
    made = tmp_path_factory.mktemp("models")
    sizes = [2**place for place in range(16, 28)]
    rows = [
        {**MEASURED, "device": device, "bytes": size, "time_ns": 2000 + size / 800}
        for device in ("Tesla V100-SXM2-16GB", "NVIDIA A100-SXM4-80GB")
        for size in sizes
    ]
    path = made / "sets.parquet"
    pl.DataFrame(rows).write_parquet(path, metadata={"tracedb.measurements": "1"})
    kernels.train([path], made)
    return made


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["predict", "--help"]]
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    """Help needs click and the standard library only."""
    found = imported(arguments)
    assert "click" in found
    assert not found & HEAVY


def test_a_shell_completes_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that `ask` lists, without a database and heavy imports."""
    monkeypatch.setenv("_TRACEDB_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "tracedb ask absent.duckdb idle")
    monkeypatch.setenv("COMP_CWORD", "3")
    program = f"{PROGRAM.format(arguments=[], code=0)}\n"
    program = program.replace("tracedb([])", "tracedb([], prog_name='tracedb')")
    command = [sys.executable, "-Ic", program]
    done = subprocess.run(  # noqa: S603 (our own program)
        command, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["plain,idle_share", "plain,idle_cause"]
    assert not {*done.stderr.splitlines()[-1].split()} & HEAVY
    context = click.Context(ask)
    completed = ask.params[1].shell_complete(context, "")
    with tracedb.open() as db:
        listed = db.questions()["question"]
    assert [one.value for one in completed] == [
        name.partition("(")[0] for name in listed
    ]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["kernels", "hardware"], 0),
        (["kernels", "list", "{}"], 0),
        (["kernels", "show", "{}"], 2),
        (["kernels", "train", "absent.parquet", "-o", "absent"], 2),
        (["schema", "prediction.hardware"], 0),
        (["microbench", "--list"], 0),
    ],
)
def test_only_training_imports_scikit_learn(
    arguments: list[str], code: int, models: Path
) -> None:
    """Reading models and listing devices works without it."""
    words = [word.replace("{}", str(models)) for word in arguments]
    assert not imported(words, code) & SLOW


def test_ingest_imports_no_more_than_it_needs(tmp_path: Path) -> None:
    """NumPy and pyarrow import as slowly as polars; a small trace needs neither."""
    path = tmp_path / "one.json"
    path.write_text('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2}]}')
    found = imported(["ingest", str(path), "--db", str(tmp_path / "one.duckdb")])
    assert "polars" in found
    assert not found & {"numpy", "pyarrow", *SLOW}


def imported(arguments: list[str], code: int = 0) -> set[str]:
    """Packages imported by a command that ends with the given exit code."""
    program = PROGRAM.format(arguments=arguments, code=code)
    command = [sys.executable, "-Ic", program]
    done = subprocess.run(  # noqa: S603 (our own program)
        command, capture_output=True, text=True, check=True
    )
    return set(done.stderr.splitlines()[-1].split())
