"""Kernel times learnt from a trace, and devices added by the user."""

from __future__ import annotations

import json
import math
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from launched import Op, event, tensors, write
from support import assert_nothing_written, ingests_until, rows
from test_cli import ask
from test_cli import run as run_command

import tracedb
from tracedb.estimates import recompute
from tracedb.kernels.dtypes import matrix_peak, vector_peak
from tracedb.kernels.hardware import hardware_table

V100 = "Tesla V100-SXM2-32GB"
SIZES = (1_000, 30_000, 1_000_000, 1_100_000, 1_200_000, 40_000_000)
OPS = [
    *(Op("aten::add", **tensors((size,), (size,))) for size in SIZES),
    *(Op("aten::mul", **tensors((size,), (size,))) for size in SIZES),
    *(Op("aten::mm", **tensors((n, 512), (512, n))) for n in (64, 512, 513, 4096)),
    *(Op("aten::add", **tensors((size,), (size,))) for size in SIZES[:3]),
]
ODD = Op("aten::_softmax", **tensors((64, 3000)))
"""Takes 30 times as long as its roofline, each time."""


def timed(
    path: Path, factors: Callable[[int], float], *, ops: list[Op] = OPS, steps: int = 0
) -> Path:
    """A trace of ops, each slower than its roofline by the given factor.

    A kernel starts when the one before has ended. With several steps, it is divided
    into steps of equal numbers of ops.
    """
    with tracedb.open() as database, ingests_until("prediction"):
        database.ingest([write(path, ops, V100)])
        query = "SELECT roofline_ns FROM prediction.kernel_roofline ORDER BY gpu_op_id"
        times = [time for (time,) in rows(database, query)]
    page = json.loads(path.read_text())
    kernels = [e for e in page["traceEvents"] if e["cat"] == "kernel"]
    for number, (kernel, time) in enumerate(zip(kernels, times, strict=True)):
        kernel["dur"] = factors(number) * time / 1000
    for before, kernel in pairwise(kernels):
        kernel["ts"] = max(kernel["ts"], before["ts"] + before["dur"])
    each = len(ops) // steps if steps else 0
    page["traceEvents"] += [
        event(
            "user_annotation",
            f"ProfilerStep#{number}",
            1000 * (1 + number * each),
            1000 * each - 20,
            {},
        )
        for number in range(steps)
    ]
    page["traceEvents"] += late()
    path.write_text(json.dumps(page))
    return path


def late() -> list[dict[str, Any]]:
    """A copy and a collective that took a second each."""
    op = Op(
        "record_param_comms",
        **tensors((10,)),
        kernels=["ncclKernel_AllReduce", "Memcpy HtoD (Pinned -> Device)"],
        copied_bytes=100,
        more=(("Collective name", "allreduce"), ("Group size", 4)),
    )
    return list(op.events(100, 1e6))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of two traces: one is 1.6 times as slow as the roofline.

    The other has two steps of the same ops. One op is odd, and each step is a tenth
    slower than the one before.
    """
    folder = tmp_path_factory.mktemp("made")
    even = timed(folder / "1.json", lambda _number: 1.6)
    ops = [*OPS[:7], ODD]
    stepped = timed(
        folder / "2.json",
        lambda number: (30 if number % 8 == 7 else 2) * 1.1 ** (number // 8),
        ops=ops * 2,
        steps=2,
    )
    with tracedb.open(folder / "run.duckdb") as database:
        database.ingest([even, stepped])
    return folder / "run.duckdb"


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Iterator[tracedb.Database]:
    """A copy of that database."""
    with tracedb.open(shutil.copy(made, tmp_path)) as database:
        yield database


@pytest.fixture(scope="module")
def still(made: Path) -> Iterator[tracedb.Database]:
    """That database, read only."""
    with tracedb.open(made, read_only=True) as database:
        yield database


STORED = """
    SELECT sum(stored.predicted_ns)::BIGINT
    FROM prediction.gpu_time AS stored
    INNER JOIN prediction.kernel_time USING (gpu_op_id)
    INNER JOIN prediction.variant USING (variant_id)
    WHERE method = 'full' AND family = 'elementwise'
"""


TOTAL = """
    SELECT sum(predicted_ns)::BIGINT FROM prediction.kernel_time
    WHERE family = 'elementwise'
"""
FACTORS = """
    SELECT trace_id, problem_id, factor
    FROM prediction.kernel_factor ORDER BY problem_id
"""


def test_times_are_learnt_from_the_trace(still: tracedb.Database) -> None:
    """If everything takes 1.6 times as long, predictions do so too.

    Collectives are not calibrated; a copy without others like it learns from all.
    """
    query = """
        SELECT family, learnt_from, predicted_ns / uncalibrated_ns
        FROM prediction.kernel_time WHERE trace_id = 1
    """
    found = rows(still, query)
    kernels = [row for row in found if row[0] in {"elementwise", "gemm"}]
    assert len(kernels) == len(OPS)
    assert all(factor == pytest.approx(1.6, rel=0.12) for *_, factor in kernels)
    assert {where for _, where, _ in kernels} == {"shape", "size", "op"}
    assert ("collective", "none", 1) in found
    errors = still.ask("kernel_error").filter(family="elementwise", trace_id=1)
    [error] = errors.iter_rows(named=True)
    assert error["uncalibrated_bias_share"] == pytest.approx(1 / 1.6 - 1, rel=0.01)
    assert error["bias_share"] > -0.1
    assert error["recurring_share"] == pytest.approx(6 / 15)


def test_a_repeated_shape_is_learnt(still: tracedb.Database) -> None:
    """An op 30 times slower than its roofline is predicted from the other step."""
    query = """
        SELECT learnt_from, (work.end_ns - work.start_ns) / predicted_ns
        FROM prediction.kernel_time INNER JOIN staging.gpu_op AS work USING (gpu_op_id)
        WHERE family = 'softmax' ORDER BY gpu_op_id
    """
    (first, early), (second, late_one) = rows(still, query)
    assert first == second == "shape"
    # Of 31.5 logarithms, one other has a third of a vote against it.
    assert 0.9 < early < late_one < 2.3


SAMPLE = "FROM prediction.kernel_sample WHERE trace_id = {trace} ORDER BY problem_id"
LEVELS = (
    (4, ("is_short",)),
    (4, ("family",)),
    (2, ("family", "op")),
    (1, ("family", "op", "octave")),
)


def factor(sample: list[dict[str, Any]], own: dict[str, Any]) -> float:
    """The factor of a problem, by a plain loop over everything it may learn from."""
    others = [one for one in sample if one["left_out_id"] != own["left_out_id"]]
    recurs: dict[Any, int] = defaultdict(int)
    for one in sample:
        recurs[one["shape_key"], one["octave"]] += 1
    mean = 0.0
    for strength, names in LEVELS:
        votes = said = 0.0
        for one in others:
            if all(one[name] == own[name] for name in names):
                vote = 1 / recurs[one["shape_key"], one["octave"]]
                votes += vote
                said += vote * max(min(one["log_ratio"], 2.5), -2.5)
        mean = (said + strength * mean) / (votes + strength)
    same = [
        one["log_ratio"]
        for one in others
        if (one["shape_key"], one["octave"]) == (own["shape_key"], own["octave"])
    ]
    return math.exp((sum(same) + mean / 3) / (len(same) + 1 / 3))


@pytest.mark.parametrize("trace", [1, 2])
def test_factors_match_a_plain_loop(still: tracedb.Database, trace: int) -> None:
    """They match at each level, and use nothing of the same step or op."""
    sample = [
        row | {"is_short": row["octave"] <= 13}
        for row in still.sql(SAMPLE.format(trace=trace)).iter_rows(named=True)
    ]
    query = f"""
        SELECT factor FROM prediction.kernel_factor
        WHERE trace_id = {trace} ORDER BY problem_id
    """
    found = [value for (value,) in rows(still, query)]
    assert found == pytest.approx([factor(sample, own) for own in sample], rel=1e-5)


@pytest.mark.until("prediction")
def test_no_time_is_learnt_from_itself(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """With one op, or one step, ten times longer, its own predictions do not change."""
    ops = [*OPS[:7], ODD]
    paths = [
        timed(tmp_path / "1.json", lambda _number: 2),
        timed(tmp_path / "2.json", lambda number: 20 if number == 3 else 2),
        timed(tmp_path / "3.json", lambda _number: 2, ops=ops * 2, steps=2),
        timed(
            tmp_path / "4.json",
            lambda number: 20 if number < 8 else 2,
            ops=ops * 2,
            steps=2,
        ),
    ]
    database.ingest(paths)
    query = """
        SELECT list(predicted_ns ORDER BY gpu_op_id)
        FROM prediction.kernel_time WHERE family NOT IN ('collective', 'memcpy')
        GROUP BY trace_id ORDER BY trace_id
    """
    even, slow, steps, slow_step = (times for (times,) in rows(database, query))
    assert even[3] == slow[3]
    assert even[4] < slow[4]
    assert steps[:8] == slow_step[:8]
    assert steps[8:] != slow_step[8:]


class Noisy:
    """A model that is off by a different factor for each shape, or exact."""

    def __init__(self, most: float) -> None:
        """Set the largest error."""
        self.most = most

    def predict(self, shapes: pl.DataFrame) -> pl.DataFrame:
        """A row per shape: microseconds from its elements."""
        size = pl.coalesce(pl.col("elements"), 1000 * pl.col("m"))
        off = pl.lit(self.most) ** ((size % 7) / 3 - 1)
        time = (5.0 * size / 1000 * off).clip(1000)
        return shapes.select(
            time.alias("predicted_ns"),
            time.alias("low_ns"),
            time.alias("high_ns"),
            pl.lit(1.0).alias("harness_factor"),
            pl.lit("noisy").alias("model"),
            pl.lit("alike").alias("likeness"),
            pl.lit(value=True).alias("in_range"),
        )


def test_a_bad_model_is_not_used(run: tracedb.Database) -> None:
    """If the roofline is closer on the trace's other ops, it is used."""
    query = """
        SELECT family, count(*) FILTER (basis = 'model'), count(*)
        FROM prediction.kernel_time
        WHERE trace_id = 1 AND family IN ('elementwise', 'gemm')
        GROUP BY family ORDER BY family
    """
    run.apply_models(Noisy(30))
    # Fewer than five products of other shapes are too few to judge a model.
    assert rows(run, query) == [("elementwise", 0, 15), ("gemm", 4, 4)]


def test_learning_from_other_databases(made: Path, tmp_path: Path) -> None:
    """Shapes and ops known from another database count, and only once."""
    one = [Op("aten::add", **tensors((SIZES[2],), (SIZES[2],)))]
    query = """
        SELECT predicted_ns / uncalibrated_ns, learnt_from FROM prediction.kernel_time
    """
    with tracedb.open(tmp_path / "fresh.duckdb") as fresh:
        fresh.ingest([write(tmp_path / "one.json", one, V100)])
        assert rows(fresh, query) == [(1, "none")]
        learnt = fresh.calibrate(made)
        assert learnt.equals(fresh.calibrate(made))
        [(factor, where)] = rows(fresh, query)
        # Two traces have the shape, 1.6 and 2 times as slow, or 2.2.
        assert (where, 1.5 < factor < 2) == ("shape", True)
        assert rows(fresh, STORED) == rows(fresh, TOTAL)
        [(lessons,)] = rows(fresh, "SELECT count(*) FROM reference.kernel_lesson")
    families = {"elementwise", "gemm", "memcpy", "softmax"}
    assert set(learnt["family"]) == families
    # A library passes on what it was taught.
    with tracedb.open(tmp_path / "next.duckdb") as following:
        following.calibrate(tmp_path / "fresh.duckdb")
        found = rows(following, "SELECT count(*) FROM reference.kernel_lesson")
        assert found == [(lessons + 1,)]


def test_a_trace_does_not_teach_itself_twice(run: tracedb.Database, made: Path) -> None:
    """What the trace itself taught another database is not counted again."""
    before = rows(run, FACTORS)
    run.calibrate(made)
    for trace, others in ((1, 2), (2, 1)):
        run.connection.execute(
            "DELETE FROM reference.kernel_lesson WHERE trace_sha256 = "
            f"(SELECT sha256 FROM raw.trace WHERE trace_id = {others})"
        )
        recompute(run.connection, "reference.kernel_lesson")
        own = [row for row in rows(run, FACTORS) if row[0] == trace]
        assert own == [row for row in before if row[0] == trace]
        run.calibrate(made)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("none.duckdb", "none.duckdb: no such database"),
        ("empty.duckdb", "no GPU work with known shapes on a listed GPU"),
        ("own", "already open in this process"),
    ],
)
def test_inputs_without_lessons_are_reported(
    run: tracedb.Database, tmp_path: Path, source: str, message: str
) -> None:
    """One line says what is missing; nothing is stored."""
    with tracedb.open(tmp_path / "empty.duckdb") as empty:
        empty.ingest([write(tmp_path / "cpu.json", [Op("aten::add", [], [])])])
    path = run.path if source == "own" else tmp_path / source
    with pytest.raises(tracedb.TracedbError, match=message) as error:
        run.calibrate(path)
    assert "\n" not in str(error.value)
    assert rows(run, "FROM reference.kernel_lesson") == []


@pytest.fixture(scope="module")
def empty() -> Iterator[tracedb.Database]:
    """A database in memory that tests leave empty."""
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


MODELS = {
    "Tesla P100-PCIE-16GB": "P100",
    "Quadro P1000": "unknown",
    "Tesla V100-DGXS-32GB": "V100",
    "Tesla V100-PCIE-32GB": "V100 PCIe",
    "Tesla V100S-PCIE-32GB": "V100S",
    "NVIDIA A30": "A30",
    "NVIDIA A10": "A10",
    "NVIDIA A10G": "A10G",
    "NVIDIA L4": "L4",
    "NVIDIA L40": "L40",
    "NVIDIA L20": "L20",
    "NVIDIA A100-SXM4-40GB": "A100 40GB",
    "NVIDIA A100-SXM4-80GB": "A100 80GB",
    "NVIDIA RTX A1000 Laptop GPU": "unknown",
    "NVIDIA H100 80GB HBM3": "H100",
    "NVIDIA H100 80GB HBM3 MIG 1g.10gb": "H100 MIG 1g",
    "NVIDIA H100 80GB HBM3 MIG 7g.80gb": "H100",
    "NVIDIA A100-SXM4-40GB MIG 3g.20gb": "A100 40GB MIG 3g",
    "NVIDIA A100 80GB PCIe MIG 2g.20gb": "A100 PCIe MIG 2g",
    "NVIDIA A30 MIG 2g.12gb": "A30 MIG 2g",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb": "RTX PRO 6000 MIG 1g",
    "H1000": "unknown",
    "NVIDIA H100 NVL": "H100 NVL",
    "NVIDIA GH200 480GB": "GH200",
    "NVIDIA GH200 144G HBM3e": "GH200 144GB",
    "NVIDIA H200": "H200",
    "NVIDIA H200 NVL": "H200 NVL",
    "NVIDIA H20": "H20",
    "NVIDIA H800": "H800",
    "NVIDIA H800 PCIe": "H800 PCIe",
    "NVIDIA A800-SXM4-80GB": "A800",
    "NVIDIA A800 80GB PCIe": "A800 PCIe",
    "NVIDIA B200": "B200",
    "NVIDIA GB200": "GB200",
    "NVIDIA B300 SXM6 AC": "B300",
    "NVIDIA GB300": "GB300",
    "NVIDIA RTX A6000": "RTX A6000",
    "NVIDIA RTX 6000 Ada Generation": "RTX 6000 Ada",
    "NVIDIA GeForce RTX 3090": "RTX 3090",
    "NVIDIA GeForce RTX 3090 Ti": "unknown",
    "NVIDIA GeForce RTX 4090": "RTX 4090",
    "NVIDIA GeForce RTX 4090 Laptop GPU": "unknown",
    "NVIDIA GeForce RTX 5090": "RTX 5090",
    "AMD Instinct MI100": "MI100",
    "AMD Instinct MI300A": "MI300A",
    "AMD Instinct MI325X": "MI325X",
    "AMD Instinct MI355X": "MI355X",
    "AMD Instinct MI300X": "MI300X",
    "MI3000": "unknown",
}
"""Device names, and the row that each matches."""


@pytest.mark.parametrize(("device", "hardware"), MODELS.items())
def test_a_model_number_is_matched_whole(
    empty: tracedb.Database, device: str, hardware: str
) -> None:
    """An A1000 is not an A100; SQL and Python read the patterns alike."""
    found = hardware_table().find(device)
    assert ("unknown" if found.is_fallback else found.name) == hardware
    query = (
        "SELECT first(hardware ORDER BY ordinal) FROM prediction.hardware "
        f"WHERE regexp_matches('{device}', name_pattern, 'i')"
    )
    assert rows(empty, query) == [(hardware,)]


FP64 = {
    "T4": (8.1 / 32, 8.1 / 32),
    "L40S": (91.6 / 64, 91.6 / 64),
    "A10": (31.2 / 64, 31.2 / 64),
    "V100": (7.8, 7.8),
    "A100 80GB": (9.7, 19.5),
    "H100": (33.5, 66.9),
    "B300": (1.25, 1.25),
    "MI300X": (81.7, 163.4 * 0.68),
}
"""TFLOP/s of datasheets: outside matrix units, and of GEMMs."""


@pytest.mark.parametrize("hardware", FP64)
def test_fp64_has_the_rates_of_the_datasheet(hardware: str) -> None:
    """They are no constant share of fp32: a 64th on an L40S, all of it on an H100."""
    figures = hardware_table().find(hardware).figures
    rates = (vector_peak(figures, "float64"), matrix_peak(figures, "float64"))
    assert rates == pytest.approx([1e12 * rate for rate in FP64[hardware]], rel=0.01)


def test_an_instance_has_its_part_of_the_gpu() -> None:
    """`2g` of an H100: two sevenths of its arithmetic, a quarter of its memory."""
    whole, part = (hardware_table().find(n).figures for n in ("H100", "H100 MIG 2g"))
    shares = {name: part[name] / whole[name] for name in whole if whole[name]}
    assert shares["peak_half_flops_per_second"] == pytest.approx(2 / 7)
    assert shares["dram_bytes_per_second"] == shares["l2_bytes"] == 1 / 4
    least = hardware_table().find("H100 MIG 1g").figures["dram_bytes_per_second"]
    assert least == whole["dram_bytes_per_second"] / 8
    assert part["nvlink_bytes_per_second"] == whole["pcie_bytes_per_second"]
    assert shares["clocks_per_second"] == shares["floor_ns"] == 1


def test_models_of_earlier_versions_know_no_fp64() -> None:
    """Their figures of hardware lack its rates, which then are half of fp32's."""
    figures = hardware_table().find("T4").figures
    old = {name: value for name, value in figures.items() if "fp64" not in name}
    assert matrix_peak(old, "float64") == vector_peak(old, "float64") == 8.1e12 / 2


def file(folder: Path, *devices: dict[str, Any]) -> Path:
    """A JSON file of devices."""
    path = folder / "devices.json"
    path.write_text(json.dumps(devices))
    return path


def test_an_added_device_takes_precedence(
    run: tracedb.Database, tmp_path: Path
) -> None:
    """A user's row comes before the built-in ones; predictions are recomputed."""
    [(before,)] = rows(run, STORED)
    assert run.add_hardware(file(tmp_path, MINE)) == ["Mine"]
    query_device = "SELECT DISTINCT hardware, is_known FROM prediction.kernel_device"
    assert rows(run, query_device) == [("Mine", True)]
    [(after,)] = rows(run, STORED)
    assert after > before


def test_an_added_device_replaces_one_of_its_name(
    run: tracedb.Database, tmp_path: Path
) -> None:
    """CSV is read too; missing fields have documented defaults."""
    path = tmp_path / "mine.csv"
    row = MINE | {"hardware": "V100", "floor_ns": "", "generation": "Volta"}
    path.write_text(f"{','.join(row)}\n{','.join(map(str, row.values()))}\n")
    run.add_hardware(path)
    query = """
        SELECT
            source, peak_half_flops_per_second, l2_bytes_per_second, floor_ns, vendor
        FROM prediction.hardware WHERE hardware = 'V100'
    """
    assert rows(run, query) == [("user", 1e12, 3e11, 2000, "NVIDIA")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hardware": None}, "row 2: hardware is missing"),
        ({"hardware": " "}, "row 2: hardware '' is not a name"),
        ({"dram_bytes_per_second": None}, "dram_bytes_per_second is missing"),
        ({"dram_gbps": 900}, "no column dram_gbps"),
        ({"sm_cout": 3}, "no column sm_cout; did you mean sm_count?"),
        ({"sm_count": "many"}, "sm_count 'many' is not a number"),
        ({"sm_count": 1.5}, "sm_count 1.5 is not a whole number"),
        ({"clocks_per_second": -1}, "clocks_per_second -1 is not between"),
        ({"dram_bytes_per_second": 900}, "900 is not between .*; the unit is B/s"),
        ({"floor_ns": 1e30}, "floor_ns 1e\\+30 is not between"),
        ({"kind": "tpu"}, "kind 'tpu' is neither gpu nor cpu"),
        ({"name_pattern": "("}, r"name_pattern .\(. is not a regular expression"),
        ({"name_pattern": "x?"}, "matches any name"),
        ({"generation": "Kepler"}, "generation 'Kepler' is none of Ada, Ampere, .*;"),
        ({"generation": 9}, "generation is 9, which is not a text"),
    ],
)
def test_a_bad_row_is_one_line(
    empty: tracedb.Database, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    """The error has file, row, column and reason; nothing of the file is stored."""
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
        ("a.json", "[1]", "neither an object nor a list of objects"),
        ("a.json", '{"floor_ns": NaN}', "NaN is not a JSON number"),
        ("a.json", "[]", "no rows; a device needs hardware, peak_fp32"),
        ("a.csv", "hardware\n", "no rows"),
        ("absent.json", None, "cannot be read: No such file"),
    ],
)
def test_a_bad_file_is_one_line(
    empty: tracedb.Database, tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    """The error has the file's name and what it should contain."""
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(tracedb.HardwareError, match=message) as error:
        empty.add_hardware(path)
    assert str(error.value).startswith(f"{path}: ")


def test_a_device_is_added_once(run: tracedb.Database, tmp_path: Path) -> None:
    """A repeated name is refused, within a file and in the database."""
    with pytest.raises(tracedb.HardwareError, match="row 2: Mine is already there"):
        run.add_hardware(file(tmp_path, MINE, MINE))
    run.add_hardware(file(tmp_path, MINE))
    with pytest.raises(tracedb.HardwareError, match="row 1: Mine is already there"):
        run.add_hardware(file(tmp_path, MINE))


def test_output_of_the_commands(made: Path, tmp_path: Path) -> None:
    """`tracedb kernels` adds a device, lists it first, and learns."""
    database = shutil.copy(made, tmp_path)
    added = ask("kernels", "hardware", database, "--add", file(tmp_path, MINE))
    assert [row["hardware"] for row in added if row["source"] == "user"] == ["Mine"]
    assert ask("kernels", "hardware", database) == added
    assert len(ask("kernels", "hardware")) == len(added) - 1
    learnt = ask("kernels", "calibrate", database, "--from", made)
    assert {row["hardware"] for row in learnt} == {"V100"}
    listed = run_command("kernels", "hardware")
    assert "first 100" not in listed.stderr
    assert run_command("kernels", "hardware", "--add", "x.json").exit_code == 2
    refused = run_command("kernels", "calibrate", database, "--from", "none.duckdb")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "words",
    [
        ("apply", "none.duckdb", "models"),
        ("calibrate", "none.duckdb", "--from", "other.duckdb"),
    ],
    ids=lambda words: words[0],
)
def test_a_missing_database_is_not_created(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that modify a database do not create one."""
    monkeypatch.chdir(tmp_path)
    done = run_command("kernels", *words)
    assert done.exit_code == 2
    assert "none.duckdb: no such database" in done.stderr
    assert_nothing_written(tmp_path)


def test_a_listed_device_can_be_added_under_another_name(
    run: tracedb.Database, tmp_path: Path
) -> None:
    """A row as listed can be added; derived columns are ignored."""
    row = run.sql("FROM prediction.hardware WHERE hardware = 'V100'").to_dicts()[0]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(row | {"hardware": "Mine", "name_pattern": "Mine"}))
    assert run.add_hardware(path) == ["Mine"]
