"""Files of other tools are told by what they are, and folders that are one export."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import rows
from test_archives import content
from test_foreign import write_parquet
from test_nsight_processes import job

import tracedb
from tracedb.ingest import other_formats

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.until("staging")

BINARY = b"\x7f\0\1\xfe" * 16


@pytest.mark.parametrize("ending", other_formats.ENDINGS)
def test_reports_that_are_not_read_say_what_to_do(
    tmp_path: Path, database: tracedb.Database, ending: str
) -> None:
    """A named one is an error with the remedy; in a folder, it is skipped and told."""
    report = tmp_path / f"run{ending.upper()}"
    report.write_bytes(BINARY)
    what = other_formats.what_is_named(report)
    with pytest.raises(tracedb.IngestError) as caught:
        database.ingest([report])
    assert str(caught.value) == f"{report}: {what}"

    report.rename(tmp_path / f"run{ending}")
    with pytest.raises(tracedb.IngestError, match="no traces below this") as of:
        database.ingest([tmp_path])
    assert str(of.value).endswith(f"; {tmp_path / f'run{ending}'} {what}")

    (tmp_path / "x.json").write_bytes(content("x"))
    lines: list[str] = []
    database.ingest([tmp_path], progress=lines.append)
    assert f"run{ending}: skipped: {what}" in " ".join(lines)
    assert rows(database, "SELECT name FROM raw.event") == [("x",)]


NODE = '{"children": [], "frame": {"name": "f"}, "metrics": {"time (ns)": 5}}'
OTHERS = {
    "rocprofv3.json": ('{"rocprofiler-sdk-tool": [{"agents": []}]}', "rocpd"),
    "nsys.json": ('{"Type": 48, "CudaEvent": {}}\n' * 2, "nsys export -t sqlite"),
    "speedscope.json": ('{"profiles": [], "shared": {}}', "record a trace"),
    "proton.json": (f"[{NODE}, {{}}]", 'data="trace"'),
    "timeline.json": ("[[1, 2], [[0, 5], [0, 7]]]", "profile_memory=True"),
    "stacks.txt": ("train.py(1): f;aten::mm 12\ng;h 3\n", "export_stacks"),
    "stats.csv": ("Time (%),Instances,Name\n1,2,k\n", "nsys export -t sqlite"),
    "trace.csv": ("Start (ns),CorrId,Name\n1,2,k\n", "nsys export -t sqlite"),
    "kernels.csv": ("Kind,Correlation_Id,Kernel_Name\na,1,k\n", "rocpd"),
    "op_summary.csv": ("Op Name,Task Duration(us)\na,1\n", "trace_view.json"),
}
"""Files of other tools, and a word of what each error says to do."""


@pytest.mark.parametrize("name", OTHERS)
def test_other_tools_files_are_told_by_their_content(
    tmp_path: Path, database: tracedb.Database, name: str
) -> None:
    """The error is one line that says what the file is, and what to do instead."""
    text, remedy = OTHERS[name]
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(tracedb.IngestError) as caught:
        database.ingest([path])
    said = str(caught.value)
    assert said.startswith((f"{path}: is ", f"{path}: has "))
    assert remedy in said
    assert "\n" not in said
    assert "--map" not in said


def test_an_export_in_a_folder_is_read_as_one(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """A folder of Parquet tables below the given one is a report, beside traces."""
    (tmp_path / "traces" / "a").mkdir(parents=True)
    write_parquet(tmp_path / "traces" / "a" / "r_pqtdir", job([(300, 0), (301, 1)]))
    (tmp_path / "traces" / "x.json").write_bytes(content("x"))
    database.ingest([tmp_path / "traces"])
    assert rows(
        database,
        "SELECT parse_filename(path), rank FROM staging.trace ORDER BY trace_id",
    ) == [("r_pqtdir#300", 0), ("r_pqtdir#301", 1), ("x.json", None)]


def test_an_export_as_arrow_files_is_told_once(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """Such a folder has a file for each table, and one reason."""
    folder = tmp_path / "r_arwdir"
    folder.mkdir()
    for table in ("StringIds", "CUPTI_ACTIVITY_KIND_KERNEL"):
        (folder / f"{table}.arrow").write_bytes(b"ARROW1\0\0")
    with pytest.raises(tracedb.IngestError, match="export of Nsight Systems in Arrow"):
        database.ingest([folder])
    (tmp_path / "x.json").write_bytes(content("x"))
    lines: list[str] = []
    database.ingest([tmp_path], progress=lines.append)
    assert sum("skipped" in line for line in lines) == 1


def test_an_empty_path_is_not_the_current_folder(database: tracedb.Database) -> None:
    """As it is if a variable of a script is not set."""
    with pytest.raises(tracedb.IngestError, match="a path is empty"):
        database.ingest([""])
