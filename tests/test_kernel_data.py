"""Measurements that cannot be used: one line says which file, where, and what to do."""

from __future__ import annotations

import gzip
import math
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from support import unbroken

from tracedb.cli.main import tracedb as command
from tracedb.kernels import harnesses
from tracedb.kernels.groups import groups_of
from tracedb.kernels.harnesses import compared, harness_error, harness_errors
from tracedb.kernels.predictor import fit_predictor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

ROWS = 60
VERSIONED = {"tracedb.measurements": "1"}
HEADER = "gpu,dtype,m,k,n,time(us)\n"


def products(**columns: pl.Series | pl.Expr) -> pl.DataFrame:
    """Products as a microbenchmark writes them, with some columns replaced."""
    random = np.random.default_rng(0)
    sizes = {name: 2 ** random.integers(5, 12, ROWS) for name in "mnk"}
    work = sizes["m"] * sizes["n"] * sizes["k"]
    texts = {
        "device": "Tesla V100-SXM2-16GB",
        "software": "made up",
        "source": "test",
        "measured": "kernel",
        "family": "gemm",
        "op": "mm",
        "dtype": "float16",
    }
    frame = pl.DataFrame(sizes | {"time_ns": 5e3 + work / 2e4, "batch": [1] * ROWS})
    named = frame.with_columns(**{name: pl.lit(text) for name, text in texts.items()})
    return named.with_columns(**columns)


def with_one(name: str, value: float) -> pl.DataFrame:
    """Products with one strange number in row 3."""
    time = pl.col("time_ns")
    frame = products(low_ns=time, high_ns=time, repeats=pl.lit(20.0))
    values = frame[name].cast(pl.Float64).to_list()
    values[2] = value
    return frame.with_columns(pl.Series(name, values))


def line(time: object = 12.5, m: object = 512, gpu: str = "V100") -> str:
    """A row of apex_plus' products."""
    return f"{gpu},half,{m},1024,2048,{time}\n"


def csv_of(third: str) -> str:
    """A table of apex_plus whose third row is this."""
    return HEADER + line() * 2 + third + line() * 20


FRAMES: dict[str, tuple[Callable[[], pl.DataFrame], str]] = {
    "a size that is no number": (
        lambda: with_one("m", math.nan),
        "row 3: m is nan; it must be a whole number",
    ),
    "an infinite size": (lambda: with_one("n", math.inf), "row 3: n is inf; it must"),
    "a part of a size": (lambda: with_one("k", 12.5), "row 3: k is 12.5; it must be"),
    "a size beyond 64 bits": (lambda: with_one("k", 1e30), "row 3: k is 1e+30; it mu"),
    "an unsigned size": (
        lambda: products(m=pl.lit(2**63 + 1, pl.UInt64)),
        f"row 1: m is {2**63 + 1}; it must be a whole number",
    ),
    "text as sizes": (lambda: products(m=pl.lit("many")), "m is String, and must be"),
    "no device": (
        lambda: products(device=pl.lit(" ")),
        "row 1: device is empty; it must name the GPU or CPU",
    ),
    "a type that nobody knows": (
        lambda: products(dtype=pl.lit("float17")),
        "row 1: dtype is 'float17'; it must be one of float64, float32, tf32, ",
    ),
    "no type": (
        lambda: products(dtype=pl.lit(None, pl.String)),
        "row 1: dtype is empty; it must be one of float64, ",
    ),
    "a band above its time": (
        lambda: with_one("low_ns", 1e9),
        "row 3: low_ns is 1000000000.0; it must be at most time_ns",
    ),
    "a band below its time": (
        lambda: with_one("high_ns", 2.0),
        "row 3: high_ns is 2.0; it must be at least time_ns",
    ),
    "fewer than no repeats": (
        lambda: with_one("repeats", -3),
        "row 3: repeats is -3; it must be at least 1",
    ),
    "impossible times": (
        lambda: products(time_ns=pl.lit(-5.0)),
        "60 rows of bad.parquet: no time, or none from 1 ns to 11 days",
    ),
}
TEXTS: dict[str, tuple[str | bytes, str]] = {
    "text as a time": (csv_of(line("fast")), "row 3: time(us) is 'fast', which is no"),
    "text as a size": (csv_of(line(m="big")), "row 3: m is 'big', which is no number"),
    "a huge size": (csv_of(line(m="9" * 23)), f"row 3: m is {'9' * 23}; it must be a"),
    "a long row": (csv_of("a,b,c,d,e,f,g\n"), "line 4 has 7 fields, the first line 6"),
    "no UTF-8": (csv_of("").encode() + b"V\xff,", "line 24 is not UTF-8 text"),
    "UTF-16": (csv_of("").encode("utf-16"), "its text is UTF-16; save it as UTF-8"),
    "a trace": ('{"traceEvents": [{"ph": "X"}]}', "it is JSON, not a table; `tracedb "),
    "nothing": ("", "cannot be read as CSV: empty CSV"),
    "a header alone": (HEADER, "a table without rows; docs/kernels.md lists the form"),
    "a cut file": (gzip.compress(HEADER.encode())[:-6], "cannot be read as CSV: Compr"),
}


def run(path: Path, *words: str) -> Result:
    """Run `tracedb kernels`."""
    return CliRunner().invoke(command, ["kernels", words[0], str(path), *words[1:]])


def refused(path: Path, message: str) -> None:
    """Training and evaluation give exit code 2 and one line; nothing is written."""
    models = path.with_name("models")
    for words in (("train", "-o", str(models)), ("evaluate",)):
        done = run(path, *words)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith(f"tracedb: error: {path}: ")
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
    assert not models.exists()


@pytest.mark.parametrize("name", FRAMES)
def test_strange_columns_are_refused(name: str, tmp_path: Path) -> None:
    """The first wrong row is named with its value."""
    make, message = FRAMES[name]
    make().write_parquet(tmp_path / "bad.parquet", metadata=VERSIONED)
    refused(tmp_path / "bad.parquet", message)


@pytest.mark.parametrize("name", TEXTS)
def test_strange_tables_are_refused(name: str, tmp_path: Path) -> None:
    """The first wrong row or line of a public table is named."""
    text, message = TEXTS[name]
    content = text.encode() if isinstance(text, str) else text
    (tmp_path / "bad.csv").write_bytes(content)
    refused(tmp_path / "bad.csv", message)


def test_contradicting_times_are_reported(tmp_path: Path) -> None:
    """Shapes measured in ns and in us are doubtful; repeats that scatter are not."""
    path = tmp_path / "twice.parquet"
    for factor, is_doubtful in ((1_000, True), (1.2, False)):
        again = products(time_ns=pl.col("time_ns") * factor)
        both = pl.concat([products(), again])
        both.write_parquet(path, metadata=VERSIONED)
        done = run(path, "train", "-o", str(tmp_path / "models"))
        assert done.exit_code == 0
        found = "shapes that were measured more than once" in unbroken(done.stderr)
        assert found is is_doubtful


def test_too_many_models_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column that differs in every row would make a model of each."""
    monkeypatch.setattr(import_module("tracedb.kernels.train"), "_MOST_KEYS", 3)
    software = pl.format("v{}", pl.int_range(pl.len()) % 4)
    path = tmp_path / "many.parquet"
    products(software=software).write_parquet(path, metadata=VERSIONED)
    done = run(path, "train", "-o", str(tmp_path / "models"))
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "many.parquet: 4 different combinations of device, family" in done.stderr
    assert not (tmp_path / "models").exists()


def test_campaigns_are_compared_with_some_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each with at most so many; what they say is the same for one family and type."""
    monkeypatch.setattr(harnesses, "_MOST_OTHERS", 2)
    monkeypatch.setattr(harnesses, "_LEAST_ROWS", 1)
    software = pl.format("v{}", pl.int_range(pl.len()) % 5)
    frame = products(software=software)
    groups = groups_of(frame.with_columns(low_ns=None, high_ns=None, file=pl.lit("")))
    predictors = {group.key: fit_predictor(group.rows, ("small",)) for group in groups}
    comparisons = compared(groups, predictors)
    ones = [each.one.software for each in comparisons]
    assert 0 < max(map(ones.count, ones)) <= 2
    errors = harness_errors(predictors, comparisons)
    assert len(errors) == 5
    for key, error in errors.items():
        assert error.error.tolist() == harness_error(key, comparisons).error.tolist()
