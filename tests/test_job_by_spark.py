"""A job of 16 ranks with one slow rank, ingested by Spark, against the truth."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from fleet_job import PER_HOST, fleet_job, waited_for, write
from lakes import needs_spark

from tracedb import lake
from tracedb.synthetic import GeneratedTrace

RANKS, SLOW = 16, 13

pytestmark = needs_spark


@pytest.fixture(scope="module")
def job() -> list[GeneratedTrace]:
    """The job: one trace per rank."""
    return fleet_job(RANKS, SLOW)


@pytest.fixture(scope="module")
def traces(job: list[GeneratedTrace], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of its files."""
    folder = tmp_path_factory.mktemp("job")
    write(job, folder)
    return folder


@pytest.fixture(scope="module")
def fleet(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> lake.Place:
    """The lake that two Spark workers make of them."""
    root = tmp_path_factory.mktemp("lake")
    assert lake.ingest([traces], root, lake.Spark("local[2]")) == {"new": RANKS}
    return lake.Place(root)


def test_straggler_waits_match_the_truth(
    job: list[GeneratedTrace], fleet: lake.Place
) -> None:
    """The waiting that each rank causes equals that of the job, to the nanosecond."""
    found = lake.ask(fleet, "straggler")
    waits = {rank: ns for rank, ns in waited_for(job).items() if ns}
    caused = found.filter(pl.col("caused_ns") > 0)
    assert dict(caused.select("rank", "caused_ns").iter_rows()) == waits
    worst = found.row(0, named=True)
    assert (worst["rank"], worst["host"]) == (SLOW, f"host{SLOW // PER_HOST}")
    assert worst["caused_share"] > 0.9


def test_the_path_lies_in_the_slow_rank(fleet: lake.Place) -> None:
    """Nearly all of it; without the slowness the job takes as long as typical ranks."""
    path = lake.critical_path(fleet, most=2)
    whole, worst, other = path.head(3).rows(named=True)
    assert (whole["rank"], worst["rank"]) == (None, SLOW)
    assert worst["path_share"] > 0.9
    assert worst["slowdown"] == pytest.approx(whole["slowdown"], rel=0.02)
    assert other["slowdown"] < 1.05 < worst["slowdown"]


def test_spark_and_the_local_runner_agree(
    traces: Path, fleet: lake.Place, tmp_path: Path
) -> None:
    """For the first ranks the bytes are equal; ids follow from the order of files."""
    first = sorted(traces.iterdir())[:2]
    lake.ingest(first, tmp_path / "lake", lake.Local(2))
    files = sorted((tmp_path / "lake").glob("run=*/**/*.parquet"))
    assert len(files) == 2 * len(first)
    for path in files:
        other = Path(fleet.root) / path.relative_to(tmp_path / "lake")
        assert path.read_bytes() == other.read_bytes()
