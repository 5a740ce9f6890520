"""GPUs without a name are recognised by properties, where these identify a model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support import rows

import tracedb

if TYPE_CHECKING:
    from pathlib import Path

MI300X = {
    "name": "",
    "totalGlobalMem": 206_141_652_992,
    "computeMajor": 9,
    "computeMinor": 4,
    "warpSize": 64,
    "numSms": 304,
}
KERNEL = {
    "ph": "X",
    "cat": "kernel",
    "name": "k",
    "pid": 0,
    "tid": 0,
    "ts": 1,
    "dur": 5,
}

GPUS: dict[str, tuple[dict[str, Any], str | None, bool]] = {
    "no name": (MI300X, "AMD Instinct MI300X", True),
    "the driver's name": (
        MI300X | {"name": "AMD Radeon Graphics"},
        "AMD Instinct MI300X",
        True,
    ),
    "its own name": (MI300X | {"name": "gfx942 proto"}, "gfx942 proto", False),
    "another memory": (MI300X | {"totalGlobalMem": 1 << 36}, None, False),
    "another warp": (MI300X | {"warpSize": 32}, None, False),
    "text": (MI300X | {"numSms": "many"}, None, False),
    "nothing": ({}, None, False),
    "an RTX 6000 Ada or an L40S": (
        {"computeMajor": 8, "computeMinor": 9, "warpSize": 32, "numSms": 142}
        | {"totalGlobalMem": 48 << 30},
        None,
        False,
    ),
}


def test_properties_identify_a_model_or_none(tmp_path: Path) -> None:
    """A name that the trace has is kept; what is ambiguous stays unknown."""
    paths = []
    for place, (properties, _, _) in enumerate(GPUS.values()):
        paths.append(tmp_path / f"{place}.json")
        devices = [{"id": 0} | properties]
        text = {"deviceProperties": devices, "traceEvents": [KERNEL], "place": place}
        paths[-1].write_text(json.dumps(text))
    with tracedb.open(allow_files=True) as database:
        database.ingest(paths)
        found = rows(
            database, "SELECT name, is_assumed FROM staging.device ORDER BY trace_id"
        )
        assert found == [(name, is_assumed) for _, name, is_assumed in GPUS.values()]
        assert rows(
            database,
            "SELECT hardware, is_known FROM prediction.kernel_device "
            "WHERE trace_id IN (1, 2, 4) ORDER BY trace_id",
        ) == [("MI300X", True), ("MI300X", True), ("unknown", False)]
        assert rows(
            database,
            "SELECT run_id, occurrences FROM question.trust "
            "WHERE aspect = 'assumed_gpu' ORDER BY run_id",
        ) == [(1, 1), (2, 1)]


@pytest.mark.parametrize("bound", ["least_memory_bytes", "most_memory_bytes"])
def test_no_two_models_look_alike(database: tracedb.Database, bound: str) -> None:
    """Each model is listed hardware, and its properties are no other model's."""
    assert (
        rows(
            database,
            "SELECT one.model FROM staging.gpu_signature AS one "
            "INNER JOIN staging.gpu_signature AS other "
            "USING (capability, sm_count, warp_size) WHERE one.model <> other.model "
            f"AND one.{bound} "
            "BETWEEN other.least_memory_bytes AND other.most_memory_bytes",
        )
        == []
    )
    unlisted = rows(
        database,
        "SELECT model FROM staging.gpu_signature WHERE NOT EXISTS (FROM "
        "prediction.hardware WHERE NOT is_fallback AND regexp_matches(model, "
        "name_pattern, 'i'))",
    )
    assert unlisted == []


@pytest.mark.until("question")
def test_memory_is_that_of_the_trace(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """A V100 has 16 or 32 GB; without a size, or with 32 bits of it, the larger one."""
    sizes = (None, 16_945_512_448, 16_945_512_448 % (1 << 32))
    for number, size in enumerate(sizes):
        device = {"id": 0, "name": "Tesla V100-SXM2-16GB", "totalGlobalMem": size}
        args = {"Device Type": 1, "Device Id": 0, "Bytes": 512, "Addr": 8}
        place = {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 10}
        path = tmp_path / f"{number}.json"
        events = [place | {"args": args}]
        path.write_text(
            json.dumps({"deviceProperties": [device], "traceEvents": events})
        )
        database.ingest([path])
    query = "SELECT capacity_bytes FROM question.memory ORDER BY trace_id"
    assert rows(database, query) == [
        (32_000_000_000,),
        (16_945_512_448,),
        (32_000_000_000,),
    ]
