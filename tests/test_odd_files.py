"""Other input files with any content give rows or one line."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from fuzz import ODD_VALUES
from support import SAMPLES, Ingested, rows
from test_kernel_models import EXAMPLES, measured

import tracedb
from tracedb import kernels, overhead_library
from tracedb.cli.main import tracedb as command
from tracedb.errors import HardwareError, LibraryError, MeasurementError, ScenarioError
from tracedb.kernels.groups import groups_of
from tracedb.kernels.measurements import TIMES
from tracedb.whatif.scenario import read_scenarios

SAMPLE = SAMPLES / "generated_gpu" / "rank0.kineto.json.gz"
LONGEST = 1_000
DEVICE = {
    "hardware": "X1",
    "peak_fp32_flops_per_second": 1e13,
    "dram_bytes_per_second": 1e12,
    "l2_bytes": 1 << 22,
    "sm_count": 80,
    "clocks_per_second": 1.5e9,
}
EDIT = {"target": "gpu", "factor": 0.5}


@cache
def hardware_database() -> tracedb.Database:
    """A database without traces, for all hardware files."""
    return tracedb.open()


def read_hardware(path: Path) -> list[str]:
    """Add a file's devices to the built-in ones."""
    hardware_database().connection.execute("DELETE FROM reference.hardware")
    return hardware_database().add_hardware(path)


READERS: dict[str, tuple[str, Callable[[Path], object], type[Exception]]] = {
    "library": (".parquet", overhead_library.gpus_of, LibraryError),
    "measurements": (
        ".parquet",
        lambda path: kernels.read_measurements([path]),
        MeasurementError,
    ),
    "public": (
        ".csv.gz",
        lambda path: kernels.read_measurements([path]),
        MeasurementError,
    ),
    "hardware": (".json", read_hardware, HardwareError),
    "hardware table": (".csv", read_hardware, HardwareError),
    "scenarios": (".json", read_scenarios, ScenarioError),
}
"""The reader of each kind of file, and its error."""


@pytest.fixture(scope="module")
def good(
    tmp_path_factory: pytest.TempPathFactory, ingested: Ingested
) -> dict[str, Path]:
    """A valid file of each kind."""
    folder = tmp_path_factory.mktemp("good")
    files = {kind: folder / f"{kind}{READERS[kind][0]}" for kind in READERS}
    overhead_library.learn([ingested(SAMPLE)], files["library"])
    table = measured("gemm", 30).to_arrow()
    known = {"tracedb.measurements": "1"}
    pq.write_table(
        table.replace_schema_metadata(known),
        files["measurements"],
        write_page_checksum=True,
    )
    public = "device,M,N,K,time_us\n" + "H100,64,64,64,5.5\n" * 9
    files["public"].write_bytes(gzip.compress(public.encode()))
    files["hardware"].write_text(json.dumps([DEVICE]))
    names, values = ",".join(DEVICE), ",".join(map(str, DEVICE.values()))
    files["hardware table"].write_text(f"{names}\n{values}\n")
    files["scenarios"].write_text(json.dumps({"a": [EDIT]}))
    return files


BYTES: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda _: b"",
    "a byte": lambda data: data[:1],
    "half": lambda data: data[: len(data) // 2],
    "without its end": lambda data: data[:-3],
    "its mark alone": lambda data: data[:4],
    "its mark, repeated": lambda data: data[:4] * 10,
    "zeros": lambda _: bytes(100),
    "no UTF-8": lambda _: b"\xff\xfe\x80" * 30,
    "UTF-16": lambda _: '{"a": 1}'.encode("utf-16"),
    "a list": lambda _: b"[]",
    "an object": lambda _: b"{}",
    "a number": lambda _: b"1",
    "a long number": lambda _: b"1" * 5_000,
    "a long word": lambda _: b'"' + b"x" * 200_000 + b'"',
    "nested": lambda _: b"[" * 100_000,
    "half a character": lambda _: b'{"\\ud800": [{"target": "wait"}]}',
    "another table": lambda _: b"a,b,c\n1,2,3\n",
    "lines": lambda _: b"\n\n\n",
    "a quote": lambda _: b'"\n"',
    "a trace": lambda _: SAMPLE.read_bytes(),
    "half a gzip": lambda data: gzip.compress(data)[:40],
    "a broken gzip": lambda data: gzip.compress(data)[:12] + b"\xff" * 40,
}


def refused(kind: str, path: Path) -> bool:
    """Whether a file is refused, by its own error, in one line that names it."""
    _, read, expected = READERS[kind]
    try:
        read(path)
    except expected as error:
        said = str(error)
        assert str(path)[:50] in said
        assert len(said) < LONGEST
        assert said.isprintable()
        return True
    return False


@pytest.mark.parametrize("kind", READERS)
def test_files_of_another_kind_are_refused(
    good: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    """Each kind of file is distinguished from all others, however it begins."""
    assert not refused(kind, good[kind])
    path = tmp_path / f"odd{READERS[kind][0]}"
    for how, change in BYTES.items():
        path.write_bytes(change(good[kind].read_bytes()))
        # A truncated number at the end of a table is still a number.
        is_table = (kind, how) == ("hardware table", "without its end")
        assert refused(kind, path) or is_table, how
    loop = tmp_path / f"loop{READERS[kind][0]}"
    loop.symlink_to(loop)
    for odd in (tmp_path, loop, path / "below", tmp_path / ("x" * 5_000)):
        assert refused(kind, odd), odd


@pytest.mark.parametrize("kind", ["library", "measurements", "public"])
def test_a_flipped_bit_changes_no_number(
    good: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    """Checksums detect it; what is read anyway equals what was written."""
    suffix, *_ = READERS[kind]
    path, data = tmp_path / f"flipped{suffix}", good[kind].read_bytes()
    whole, found = numbers_of(good[kind], kind), 0
    for seed in range(30):
        place = random.Random(seed).randrange(len(data))  # noqa: S311 (no secret)
        flipped = data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :]
        path.write_bytes(flipped)
        if refused(kind, path):
            found += 1
        else:
            assert numbers_of(path, kind) == whole, place
    assert found > 10


def numbers_of(path: Path, kind: str) -> list[tuple[Any, ...]]:
    """All rows of a file."""
    if kind == "library":
        return sorted(map(tuple, map(dict.values, pq.read_table(path).to_pylist())))
    return kernels.read_measurements([path]).frame.drop("file").rows()


def columns(size: int) -> dict[str, pa.Array]:
    """Values of the wrong kind for any column."""
    values: dict[str, Any] = {
        "null": None,
        "a list": [1],
        "an object": {"a": 1},
        "bytes": b"\xff",
        "a long text": "y\x1b[31m\n" * 200,
        "0": 0,
        "-1": -1,
        "2^62": 1 << 62,
        "-2^63": -(1 << 63),
        "NaN": float("nan"),
        "inf": float("inf"),
        "1e308": 1e308,
        "5e-324": 5e-324,
        "1.5": 1.5,
        "true": True,
    }
    made = {name: pa.array([value] * size) for name, value in values.items()}
    made["a date"] = pa.array([0] * size, pa.date32())
    made["2^64 - 1"] = pa.array([(1 << 64) - 1] * size, pa.uint64())
    made["no text"] = pa.array([b"\xff"] * size, pa.binary()).view(pa.string())
    return made


# Columns that stand for the others.
ALIKE = {"trace_sha256", "run_sha256", "name", "role", "shapes"} | {
    *("step", "position", "ordinal", "ordinal_count", "n", "k", "software", "source")
}


def odd_tables(path: Path) -> Iterator[tuple[str, str, pa.Table]]:
    """A table with each column replaced, dropped or repeated; and without rows."""
    table = pq.read_table(path)
    yield "", "no rows", table.slice(0, 0)
    yield "", "no columns", table.select([])
    for place, name in enumerate(table.column_names):
        if name in ALIKE:
            continue
        yield name, "dropped", table.drop_columns([name])
        yield name, "twice", table.append_column(name, table[name])
        for what, column in columns(len(table)).items():
            yield name, what, table.set_column(place, name, column)


# Texts and numbers that may replace any others.
FREE = {
    "library": {"gpu"},
    "measurements": {"device", "software", "source", "op", "dtype"},
}


@pytest.mark.parametrize("kind", FREE)
def test_columns_of_another_type(
    good: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    """No column is misread, and accepted rows can be used."""
    path, kept = tmp_path / "odd.parquet", []
    for name, what, table in odd_tables(good[kind]):
        known = pq.read_schema(good[kind]).metadata
        pq.write_table(table.replace_schema_metadata(known), path)
        if not refused(kind, path):
            kept.append((name, what))
            if kind == "measurements":
                frame = kernels.read_measurements([path]).frame
                assert not frame.select(pl.col(TIMES) < 1).to_numpy().any()
                assert sum(len(group.rows) for group in groups_of(frame)) > 0
    assert kept
    for name, what in kept:
        if name in FREE[kind]:
            assert what in {"null", "a long text"}
        elif kind == "library":
            assert (name, what) in {("thread", "2^62"), ("sample_ns", "0")}
        else:
            assert name == "repeats" or (name, what) == ("time_ns", "1.5")


def test_rows_without_a_shape_are_counted(tmp_path: Path) -> None:
    """Missing, negative and huge sizes, or sizes without any work."""
    good = measured("convolution", 20).with_row_index("row")
    odd = {0: ("height", None), 1: ("images", 0), 2: ("stride", 0), 3: ("groups", -1)}
    odd |= {4: ("channels_in", 1 << 60)}
    frame = good.with_columns(stride=pl.lit(1), groups=pl.lit(1))
    for row, (name, value) in odd.items():
        column = pl.when(pl.col("row") == row).then(pl.lit(value)).otherwise(name)
        frame = frame.with_columns(column.alias(name))
    path = tmp_path / "a.parquet"
    frame.drop("row").write_parquet(path, metadata={"tracedb.measurements": "1"})
    read = kernels.read_measurements([path])
    assert read.frame.height == good.height - len(odd)
    assert read.dropped == {"a.parquet: no shape, or an impossible one": len(odd)}


@pytest.mark.parametrize("family", EXAMPLES)
def test_valid_rows_are_kept(tmp_path: Path, family: str) -> None:
    """No row written by a microbenchmark is dropped, and the order stays."""
    path = tmp_path / "a.parquet"
    frame = measured(family, 20)
    frame.write_parquet(path, metadata={"tracedb.measurements": "1"})
    read = kernels.read_measurements([path])
    assert read.dropped == {}
    assert read.frame["time_ns"].equals(frame["time_ns"])


@pytest.mark.parametrize("field", ["hardware", "kind", "sm_count", "floor_ns"])
def test_odd_fields_of_hardware(tmp_path: Path, field: str) -> None:
    """A device's values are valid, or the field is refused."""
    path = tmp_path / "odd.json"
    for value in (*ODD_VALUES, b'"\\ud800"', b'"a\\nb"'):
        text = json.dumps([DEVICE | {field: "@"}]).encode()
        path.write_bytes(text.replace(b'"@"', value))
        if refused("hardware", path):
            continue
        ((name, kind, count, floor_ns),) = rows(
            hardware_database(),
            "SELECT hardware, kind, sm_count, floor_ns FROM reference.hardware",
        )
        assert name.isprintable()
        assert isinstance(json.loads(value), str) or field != "hardware"
        assert kind in {"gpu", "cpu"}
        assert 1 <= count <= 10**6
        assert floor_ns is None or floor_ns >= 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hardware,sm_count,sm_count\nX1,1,2", "column sm_count occurs twice"),
        ("hardware\nX1,5", "row 1: 2 cells for 1 columns"),
        ("hardware\n" + "x" * 200_000, "not CSV: field larger than field limit"),
        ("hardware\n", "no rows; a device needs hardware"),
    ],
)
def test_odd_tables_of_hardware(tmp_path: Path, text: str, said: str) -> None:
    """Repeated names and long rows give one line each."""
    path = tmp_path / "odd.csv"
    path.write_text(text)
    with pytest.raises(HardwareError, match=said):
        read_hardware(path)


@pytest.mark.parametrize("field", ["target", "type", "name", "factor", "add_ns"])
def test_odd_fields_of_scenarios(tmp_path: Path, field: str) -> None:
    """Edits are valid, or refused with file and position."""
    path = tmp_path / "odd.json"
    for value in (*ODD_VALUES, b'"\\ud800"', b'"("', b"1e9", b"1e10"):
        text = json.dumps({"a": [EDIT | {field: "@"}]}).encode()
        path.write_bytes(text.replace(b'"@"', value))
        if not refused("scenarios", path):
            (edit,) = read_scenarios(path)
            assert edit.factor is None or 0 <= edit.factor <= 1e9
            assert edit.type is None
            assert isinstance(edit.name, (str, type(None)))


def test_commands_report_one_line(
    good: dict[str, Path], tmp_path: Path, ingested: Ingested
) -> None:
    """Exit code 2 and one line, nothing on stdout, no file."""
    odd, out = tmp_path / "odd.parquet", tmp_path / "out"
    odd.write_bytes(good["library"].read_bytes()[:-20])
    database = str(ingested(SAMPLE))
    for words in (
        ["predict", database, "--library", str(odd)],
        ["predict", database, "--scenario", str(odd)],
        ["overheads", "learn", str(odd), "-o", str(out)],
        ["kernels", "train", str(odd), "-o", str(out)],
        ["kernels", "evaluate", str(odd)],
        ["kernels", "apply", database, str(odd)],
        ["kernels", "hardware", database, "--add", str(odd)],
    ):
        done = CliRunner().invoke(command, words)
        assert (done.exit_code, done.stdout) == (2, ""), words
        assert done.stderr.startswith("tracedb: error: ")
        assert done.stderr.count("\n") == 1
        assert not out.exists()
