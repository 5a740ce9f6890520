"""Constants from a trace's own kernels, and devices that a user adds."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launched import Op, tensors, write
from support import rows
from test_cli import ask
from test_cli import run as run_command

import tracedb
from tracedb import calibration

V100 = "Tesla V100-SXM2-32GB"
TIMES = np.geomspace(2_000, 5_000_000, 20)
LEAST = 1_500.0
ADDITIONS = 40


@pytest.mark.parametrize(
    ("scale", "offset_ns"), [(1.0, 0.0), (1.3, 0.0), (0.8, 4_000.0), (1.5, -600.0)]
)
def test_constants_are_found_again(scale: float, offset_ns: float) -> None:
    """Times that are off by two constants lead to these, to a tenth or so."""
    measured = scale * TIMES + offset_ns
    found = calibration.fit(TIMES, measured, LEAST)
    assert found.scale == pytest.approx(scale, rel=0.1)
    assert found.of(TIMES) == pytest.approx(measured, rel=0.15)


def test_outliers_do_not_count() -> None:
    """A third of the kernels may take ten times as long."""
    measured = 1.3 * TIMES
    measured[::3] *= 10
    found = calibration.fit(TIMES, measured, LEAST)
    assert found.scale == pytest.approx(1.3, rel=0.15)


def test_little_evidence_changes_little() -> None:
    """Noise of a factor of three around what was predicted leaves it nearly there."""
    noise = np.random.default_rng(1).normal(0, 1, len(TIMES))
    found = calibration.fit(TIMES, TIMES * np.exp(noise), LEAST)
    assert found.scale == pytest.approx(1, rel=0.35)


def test_calibrated_times_are_positive() -> None:
    """However short the measured times are, no time becomes negative."""
    found = calibration.fit(TIMES, TIMES / 50, LEAST)
    assert found.scale > 0
    assert found.of(np.array([LEAST])).min() > 0


def test_chosen_kernels_span_the_range() -> None:
    """Of a sorted range each twentieth gives one; the same every time."""
    predicted = np.random.default_rng(2).permutation(np.geomspace(1e3, 1e7, 400))
    chosen = calibration.choose(predicted, 20)
    ranks = np.sort(np.argsort(np.argsort(predicted))[chosen])
    assert list(ranks // 20) == list(range(20))
    assert list(chosen) == list(calibration.choose(predicted, 20))


def slow(path: Path, factor: float, device: str = V100) -> Path:
    """A trace of additions that take so many times what the roofline says, and 3 us.

    An exchange with a rank that comes late, and a slow copy, are no measure.
    """
    with tracedb.open() as database:
        database.ingest([write(path, additions(), device)])
        query = "SELECT predicted_ns FROM prediction.kernel_time ORDER BY gpu_op_id"
        times = [time for (time,) in rows(database, query)]
    page = json.loads(path.read_text())
    kernels = [e for e in page["traceEvents"] if e["cat"] == "kernel"]
    for kernel, time in zip(kernels, times, strict=True):
        kernel["dur"] = (factor * time + 3000) / 1000
    page["traceEvents"] += late()
    path.write_text(json.dumps(page))
    return path


def additions() -> list[Op]:
    """Additions of a thousand to a hundred million elements."""
    sizes = [int(size) for size in np.geomspace(1e3, 1e8, ADDITIONS)]
    return [Op("aten::add", **tensors((size,), (size,))) for size in sizes]


def late() -> list[dict[str, Any]]:
    """A copy and a collective that took a second each."""
    op = Op(
        "record_param_comms",
        **tensors((10,)),
        kernels=["ncclKernel_AllReduce", "Memcpy HtoD (Pinned -> Device)"],
        copied_bytes=100,
        more=(("Collective name", "allreduce"), ("Group size", 4)),
    )
    return list(op.events(ADDITIONS + 1, 1e6))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of two traces: 1.4 times as slow as the roofline, and twice."""
    folder = tmp_path_factory.mktemp("made")
    paths = [slow(folder / "1.json", 1.4), slow(folder / "2.json", 2)]
    with tracedb.open(folder / "run.duckdb") as database:
        database.ingest(paths)
    return folder / "run.duckdb"


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Iterator[tracedb.Database]:
    """A copy of that database."""
    with tracedb.open(shutil.copy(made, tmp_path)) as database:
        yield database


CALIBRATED = """
    SELECT trace_id, family, bool_and(is_calibrated), bool_or(is_calibrated)
    FROM prediction.kernel_time GROUP BY ALL ORDER BY ALL
"""
STORED = """
    SELECT sum(stored.predicted_ns)::BIGINT
    FROM prediction.gpu_time AS stored
    INNER JOIN prediction.kernel_time USING (gpu_op_id)
    INNER JOIN prediction.variant USING (variant_id)
    WHERE method = 'full' AND family = 'elementwise'
"""


def test_a_trace_is_calibrated_alone(run: tracedb.Database) -> None:
    """Its constants are found, and count for the trace that they are of.

    Collectives and copies are neither fitted on nor calibrated.
    """
    [found] = run.calibrate(trace=1).iter_rows(named=True)
    assert (found["hardware"], found["basis"], found["trace_id"]) == (
        "V100",
        "roofline",
        1,
    )
    assert (found["kernel_count"], found["other_count"]) == (20, ADDITIONS - 20)
    assert found["scale"] == pytest.approx(1.4, rel=0.05)
    assert found["offset_ns"] == pytest.approx(3000, rel=0.2)
    assert found["mape_before_share"] > 0.3
    assert found["mape_after_share"] < 0.05
    assert found["is_applied"]
    assert rows(run, CALIBRATED) == [
        (trace, family, *[trace == 1 and family == "elementwise"] * 2)
        for trace in (1, 2)
        for family in ("collective", "elementwise", "memcpy")
    ]


def test_predictions_follow_the_constants(run: tracedb.Database) -> None:
    """Times and bands are scaled; what is stored and reads them is computed anew."""
    [(before,)] = rows(run, STORED)
    [found] = run.calibrate(trace=1).iter_rows(named=True)
    [(after,)] = rows(run, STORED)
    assert after > before * 1.05
    query = f"""
        SELECT
            max(abs(predicted_ns - {found["scale"]} * uncalibrated_ns
                - {found["offset_ns"]})),
            bool_and(low_ns < predicted_ns AND predicted_ns < high_ns)
        FROM prediction.kernel_time WHERE is_calibrated
    """
    [(difference, is_between)] = rows(run, query)
    assert difference <= 1
    assert is_between


def test_all_traces_are_calibrated_together(run: tracedb.Database) -> None:
    """Without a trace the constants are for all; those of one trace count before."""
    run.calibrate()
    query = """
        SELECT trace_id, round(sum(predicted_ns) / sum(uncalibrated_ns), 2)
        FROM prediction.kernel_time WHERE family = 'elementwise'
        GROUP BY trace_id ORDER BY trace_id
    """
    [(_, first), (_, second)] = rows(run, query)
    assert first == second
    run.calibrate(trace=2)
    [(_, first_again), (_, second)] = rows(run, query)
    assert first_again == first
    assert second == pytest.approx(2, abs=0.1)


def test_calibrating_again_starts_from_the_prediction(run: tracedb.Database) -> None:
    """The second time finds the same constants, not those of what is left."""
    first = run.calibrate(trace=1)
    assert run.calibrate(trace=1).equals(first)


@pytest.mark.parametrize(
    ("kernels", "trace", "message"),
    [
        (20, 7, "no trace 7; `tracedb info` lists them"),
        (4, None, "4 kernels are too few to fit two constants"),
        (40, 1, "40 different kernels of known shape are too few: 40 to fit on and 5"),
    ],
)
def test_what_cannot_be_calibrated_is_reported(
    run: tracedb.Database, kernels: int, trace: int | None, message: str
) -> None:
    """One line says what is missing; nothing is stored."""
    with pytest.raises(tracedb.QueryError, match=message):
        run.calibrate(kernels, trace)
    assert rows(run, "FROM reference.calibration") == []


def test_constants_that_do_not_help_do_not_count(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Where an error of the other kernels becomes more, nothing is applied."""
    rng = np.random.default_rng(3)
    path = write(tmp_path / "trace.json", additions(), V100)
    page = json.loads(path.read_text())
    for entry in page["traceEvents"]:
        if entry["cat"] == "kernel":
            entry["dur"] = float(np.exp(rng.normal(4, 3)))
    path.write_text(json.dumps(page))
    database.ingest([path])
    [found] = database.calibrate().iter_rows(named=True)
    is_less = (
        found["gmae_after_share"] < found["gmae_before_share"]
        and found["mape_after_share"] <= found["mape_before_share"]
    )
    assert found["is_applied"] == is_less
    query = "SELECT bool_or(is_calibrated) FROM prediction.kernel_time"
    assert rows(database, query) == [(is_less,)]


@pytest.fixture(scope="module")
def empty() -> Iterator[tracedb.Database]:
    """A database in memory into which nothing gets."""
    with tracedb.open() as database:
        yield database


MINE: dict[str, Any] = {
    "hardware": "Mine",
    "name_pattern": "V100",
    "peak_fp32_flops_per_second": 1e12,
    "dram_bytes_per_second": 1e11,
    "l2_bytes": 1 << 20,
    "sm_count": 10,
    "clocks_per_second": 1e9,
}


def file(folder: Path, *devices: dict[str, Any]) -> Path:
    """A JSON file of devices."""
    path = folder / "devices.json"
    path.write_text(json.dumps(devices))
    return path


def test_an_added_device_wins(run: tracedb.Database, tmp_path: Path) -> None:
    """A row of the user's comes before the built-in ones; what follows is computed."""
    [(before,)] = rows(run, STORED)
    assert run.add_hardware(file(tmp_path, MINE)) == ["Mine"]
    query_device = "SELECT DISTINCT hardware, is_known FROM prediction.kernel_device"
    assert rows(run, query_device) == [("Mine", True)]
    [(after,)] = rows(run, STORED)
    assert after > 2 * before


def test_an_added_device_replaces_one_of_its_name(
    run: tracedb.Database, tmp_path: Path
) -> None:
    """CSV is read as well; what is not given has a stated default."""
    path = tmp_path / "mine.csv"
    row = MINE | {"hardware": "V100", "floor_ns": ""}
    path.write_text(f"{','.join(row)}\n{','.join(map(str, row.values()))}\n")
    run.add_hardware(path)
    query = """
        SELECT source, peak_half_flops_per_second, l2_bytes_per_second, floor_ns
        FROM prediction.hardware WHERE hardware = 'V100'
    """
    assert rows(run, query) == [("user", 1e12, 3e11, 2000)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hardware": None}, "row 2: hardware is missing"),
        ({"hardware": " "}, "row 2: hardware '' is no name"),
        ({"dram_bytes_per_second": None}, "dram_bytes_per_second is missing"),
        ({"dram_gbps": 900}, "no column dram_gbps"),
        ({"sm_cout": 3}, "no column sm_cout; did you mean sm_count?"),
        ({"sm_count": "many"}, "sm_count 'many' is not a number"),
        ({"sm_count": 1.5}, "sm_count 1.5 is not a whole number"),
        ({"clocks_per_second": -1}, "clocks_per_second -1 is out of"),
        ({"dram_bytes_per_second": 900}, "900 is out of .*; the unit is B/s"),
        ({"floor_ns": 1e30}, "floor_ns 1e\\+30 is out of"),
        ({"kind": "tpu"}, "kind 'tpu' is neither gpu nor cpu"),
        ({"name_pattern": "("}, r"name_pattern .\(. is not a regular expression"),
        ({"name_pattern": "x?"}, "matches any name"),
    ],
)
def test_a_wrong_row_is_reported_in_a_line(
    empty: tracedb.Database, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    """File, row, column, what is wrong; none of the file is stored."""
    path = file(tmp_path, MINE | {"hardware": "Other"}, MINE | change)
    with pytest.raises(tracedb.HardwareError, match=message) as error:
        empty.add_hardware(path)
    assert str(error.value).startswith(f"{path}, row 2: ")
    assert "\n" not in str(error.value)
    assert rows(empty, "FROM reference.hardware") == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "not JSON"),
        ("a.json", "[1]", "no object, nor a list of objects"),
        ("a.json", '{"floor_ns": NaN}', "NaN is not a JSON number"),
        ("a.json", "[]", "no rows; a device has hardware, peak_fp32"),
        ("a.csv", "hardware\n", "no rows"),
        ("absent.json", None, "cannot be read: No such file"),
    ],
)
def test_a_wrong_file_is_reported_in_a_line(
    empty: tracedb.Database, tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    """The file's name, and what it should hold."""
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(tracedb.HardwareError, match=message) as error:
        empty.add_hardware(path)
    assert str(error.value).startswith(f"{path}: ")


def test_a_device_is_added_once(run: tracedb.Database, tmp_path: Path) -> None:
    """The same name again is refused, in a file and in the database."""
    with pytest.raises(tracedb.HardwareError, match="row 2: Mine was added before"):
        run.add_hardware(file(tmp_path, MINE, MINE))
    run.add_hardware(file(tmp_path, MINE))
    with pytest.raises(tracedb.HardwareError, match="row 1: Mine was added before"):
        run.add_hardware(file(tmp_path, MINE))


def test_commands_tell_what_was_done(made: Path, tmp_path: Path) -> None:
    """`tracedb kernels` adds a device, lists it first, and calibrates."""
    database = shutil.copy(made, tmp_path)
    added = ask("kernels", "hardware", database, "--add", file(tmp_path, MINE))
    assert [row["hardware"] for row in added if row["source"] == "user"] == ["Mine"]
    assert ask("kernels", "hardware", database) == added
    assert len(ask("kernels", "hardware")) == len(added) - 1
    [constants] = ask("kernels", "calibrate", database, "--trace", 1)
    assert constants["hardware"] == "Mine"
    assert run_command("kernels", "hardware", "--add", "x.json").exit_code == 2
    refused = run_command("kernels", "calibrate", database, "--kernels", 400)
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "words",
    [("apply", "none.duckdb", "models"), ("calibrate", "none.duckdb")],
    ids=lambda words: words[0],
)
def test_a_missing_database_is_not_made(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changes a database does not make one."""
    monkeypatch.chdir(tmp_path)
    done = run_command("kernels", *words)
    assert done.exit_code == 2
    assert "none.duckdb: no such database" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_listed_device_can_be_added_under_another_name(
    run: tracedb.Database, tmp_path: Path
) -> None:
    """What the list says of a device can be added; what follows is passed over."""
    row = run.sql("FROM prediction.hardware WHERE hardware = 'V100'").to_dicts()[0]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(row | {"hardware": "Mine", "name_pattern": "Mine"}))
    assert run.add_hardware(path) == ["Mine"]
