"""Processes of rocprofv3's databases are ranks, each a trace of its own."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from support import rows
from test_foreign import PID, rocpd, write_sqlite

from tracedb.cli.ingest import tell_unranked

if TYPE_CHECKING:
    from pathlib import Path

    import tracedb

pytestmark = pytest.mark.until("staging")
Tables = dict[str, list[dict[str, Any]]]

RANKS = """
SELECT
    parse_filename(path) AS file, rank, world_size, trace.run_id,
    count(DISTINCT call_id), count(DISTINCT gpu_op_id), min(call.name)
FROM staging.trace AS trace
INNER JOIN staging.gpu_op USING (trace_id)
INNER JOIN staging.call USING (trace_id, call_id)
GROUP BY ALL ORDER BY ALL
"""
OF_ONE = (2, 2, "hipLaunchKernel")


def of_process(number: int, gpu: int, **variables: str) -> Tables:
    """What `rocpd` has, recorded by a process on a GPU."""
    tables = copy.deepcopy(rocpd(4))
    for row in (row for view in tables.values() for row in view):
        for key, value in ("pid", number), ("agent_type_index", gpu):
            if key in row:
                row[key] = value
        if row.get("tid") == PID:
            row["tid"] = number
    environment = json.dumps(variables)
    tables["rocpd_info_process"] = [{"pid": number, "environment": environment}]
    return tables


def merged(*parts: Tables) -> Tables:
    """One database, as `rocpd merge` writes it."""
    return {view: [row for part in parts for row in part[view]] for view in parts[0]}


def test_processes_of_a_file_are_ranks_by_their_gpus(
    database: tracedb.Database, tmp_path: Path
) -> None:
    """Each has its own calls and GPU work, though both have equal numbers for these."""
    tables = merged(of_process(900, 1), of_process(901, 0))
    database.ingest([write_sqlite(tmp_path / "r.db", tables)])
    assert rows(database, RANKS) == [
        ("r.db#900", 1, 2, 1, *OF_ONE),
        ("r.db#901", 0, 2, 1, *OF_ONE),
    ]
    assumed = "SELECT header ->> '$.distributedInfo.assumed_from' FROM raw.trace"
    assert rows(database, assumed) == [("gpu",), ("gpu",)]


@pytest.mark.parametrize(
    "variables",
    [("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")],
)
def test_files_of_a_folder_are_ranks_by_their_environment(
    database: tracedb.Database, tmp_path: Path, variables: tuple[str, str]
) -> None:
    """The launcher says which rank a process is, though all use their first GPU."""
    for number, rank in ((900, "1"), (901, "0")):
        known = dict(zip(variables, (rank, "8"), strict=True))
        write_sqlite(tmp_path / f"{number}_results.db", of_process(number, 0, **known))
    database.ingest([tmp_path])
    assert rows(database, RANKS) == [
        ("900_results.db", 1, 8, 1, *OF_ONE),
        ("901_results.db", 0, 8, 1, *OF_ONE),
    ]


def test_odd_environments_name_no_rank(
    database: tracedb.Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rank beyond the number of ranks, or a text, is not taken.

    So each is a run of its own, and ingest says that they may be one job.
    """
    paths = []
    for number, variables in enumerate(
        ({"RANK": "8", "WORLD_SIZE": "8"}, {"RANK": "x", "WORLD_SIZE": "2"}, {}), 900
    ):
        path = tmp_path / f"{number}_results.db"
        paths.append(write_sqlite(path, of_process(number, 0, **variables)))
    new = database.ingest(paths)
    assert {row[1:3] for row in rows(database, RANKS)} == {(None, None)}
    assert new["run_id"].n_unique() == len(paths)
    tell_unranked(database, new)
    assert capsys.readouterr().err.startswith("3 runs were recorded at the same time")
    tell_unranked(database, new.head(1))
    assert capsys.readouterr().err == ""
