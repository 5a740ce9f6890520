"""Export for speedscope: stacks sum to the paths, and threads nest.

Checked by a reader of the test's own. speedscope's importer opened the samples' exports
when this was written.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support import SAMPLES, DatabaseOf, rows
from test_report import HOSTILE, hostile_trace

import tracedb

GPU = SAMPLES / "generated_gpu"


def exported(database: tracedb.Database, path: Path, **chosen: int) -> dict[str, Any]:
    """An export's contents; each profile follows the format's rules."""
    count = database.export(path, format="speedscope", **chosen)
    found = dict(json.loads(path.read_text()))
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert len(found["profiles"]) == count
    frames = [frame["name"] for frame in found["shared"]["frames"]]
    assert len(set(frames)) == len(frames)
    for profile in found["profiles"]:
        assert profile["unit"] == "nanoseconds"
        check = evented if profile["type"] == "evented" else sampled
        check(profile, len(frames))
    return found


def sampled(profile: dict[str, Any], frames: int) -> None:
    """As many weights as stacks, all frames exist, and the sum is the total."""
    assert len(profile["samples"]) == len(profile["weights"])
    assert sum(profile["weights"]) == profile["endValue"] - profile["startValue"]
    assert all(0 <= n < frames for stack in profile["samples"] for n in stack)


def evented(profile: dict[str, Any], frames: int) -> None:
    """Frames are closed in the required order, and none stays open."""
    opened, at = list[int](), profile["startValue"]
    for event in profile["events"]:
        assert at <= event["at"] <= profile["endValue"]
        at = event["at"]
        assert 0 <= event["frame"] < frames
        if event["type"] == "O":
            opened.append(event["frame"])
        else:
            assert opened.pop() == event["frame"]
    assert opened == []


def test_paths_and_threads_are_whole(database_of: DatabaseOf, tmp_path: Path) -> None:
    """Each path has its time, and threads have all ops and calls."""
    database = database_of(GPU)
    found = exported(database, tmp_path / "a.json")["profiles"]
    lengths = {
        f"critical path, rank {rank}, step {step}": time
        for rank, step, time in rows(
            database,
            "SELECT rank, step, sum(time_ns)::BIGINT FROM question.critical_path "
            "WHERE method = 'measured' AND scope = 'period' GROUP BY ALL",
        )
    }
    told = {one["name"]: one["endValue"] for one in found if one["type"] == "sampled"}
    assert lengths.items() <= told.items()
    begun = sum(
        event["type"] == "O"
        for one in found
        if one["type"] == "evented"
        for event in one["events"]
    )
    query = "SELECT count(*) FROM question.timeline WHERE track = 'host'"
    assert begun == rows(database, query)[0][0]


def test_a_step_and_what_was_simulated(database_of: DatabaseOf, tmp_path: Path) -> None:
    """A single step, as measured and as predicted."""
    with database_of(GPU).simulate(["other_steps"]) as beside:
        found = exported(beside, tmp_path / "a.json", step=2)["profiles"]
        with pytest.raises(tracedb.QueryError, match="no step 99 in run 1; available:"):
            beside.export(tmp_path / "b.json", step=99, format="speedscope")
        with pytest.raises(tracedb.QueryError, match="no format x; available: chrome"):
            beside.export(tmp_path / "b.json", format="x")
    assert not (tmp_path / "b.json").exists()
    names = [one["name"] for one in found]
    assert "critical path, rank 0, step 2" in names
    assert "critical path, rank 0, step 2, predicted by other_steps" in names
    assert not [name for name in names if "step 1" in name]


def test_compressed(database_of: DatabaseOf, tmp_path: Path) -> None:
    """`.gz` compresses an export, which may be overwritten like others."""
    database = database_of(GPU)
    plain, packed = tmp_path / "a.json", tmp_path / "a.speedscope.json.gz"
    exported(database, plain)
    for _ in range(2):
        database.export(packed, format="speedscope")
        assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()


def test_names_may_be_anything(tmp_path: Path) -> None:
    """Names are JSON strings; only an export is overwritten."""
    with tracedb.open() as database:
        database.ingest([hostile_trace(tmp_path / "trace.json")])
        found = exported(database, tmp_path / "a.json")
        exported(database, tmp_path / "a.json")
        with pytest.raises(tracedb.ReportError, match="not an export"):
            database.export(tmp_path / "trace.json", format="speedscope")
    frames = {frame["name"] for frame in found["shared"]["frames"]}
    assert HOSTILE[0] in frames
