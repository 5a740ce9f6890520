"""An export is the original trace plus tracedb's results."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from support import CORPUS, SAMPLES, DatabaseOf, Ingested, needs_corpus, rows

import tracedb
from tracedb.cli.main import tracedb as command

GPU = SAMPLES / "generated_gpu"
PATH_PROCESS = "critical path"
OTHER_IDS = (
    *("run_id", "trace_id", "thread_id", "variant_id", "path_id", "external_id"),
    "module_call_id",
    "parent_module_call_id",
)
TIMES = {"start_ns", "end_ns", "gpu_end_ns", "source_ns", "target_ns"}
IDENTIFIED = """
SELECT event_id, row_number() OVER (
    ORDER BY
        ts_ns, end_ns DESC, pid, tid, replace(ph, 'B', 'X'), cat, name, id, event_id
) AS number
FROM raw.event
LEFT JOIN (SELECT event_id, end_ns FROM staging.slice) USING (event_id)
WHERE ph NOT IN ('M', 'E') AND coalesce(cat, '') <> 'critical_path'
"""
SAME = (
    *("staging.op", "staging.call", "staging.gpu_op", "staging.step"),
    *("staging.thread", "staging.module_call", "staging.flow", "graph.edge"),
    *("critical_path.interval", "critical_path.slack", "question.timeline"),
)


def events_of(path: Path) -> list[dict[str, Any]]:
    """The events of an export; begins and ends as slices, which nest."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    found = []
    open_ = defaultdict[Any, list[Any]](list)
    for event in json.loads(text)["traceEvents"]:
        stack = open_[event["pid"], event["tid"]]
        if event["ph"] == "E":
            begun = stack.pop()
            lasts = (ns(event["ts"]) - ns(begun["ts"])) / 1000
            begun |= {"ph": "X", "dur": lasts}
            continue
        if event["ph"] == "B":
            stack.append(event)
        found.append(event)
    assert not any(open_.values())
    return found


def by_content(database: tracedb.Database, name: str) -> pl.DataFrame:
    """A relation, with numbers of events that do not depend on the file's order."""
    numbers = database.sql(IDENTIFIED)
    found = database.sql(f"FROM {name}")
    of_events = [
        column
        for column in found.columns
        if column.endswith("_id") and column not in OTHER_IDS
    ]
    for column in of_events:
        known = numbers.rename({"event_id": column, "number": f"{column}_number"})
        found = found.join(known, column, how="left", maintain_order="left")
        assert found[column].null_count() == found[f"{column}_number"].null_count()
    found = found.drop(of_events)
    return found.sort(found.columns)


def ns(us: float) -> int:
    """Nanoseconds: a double is exact for times below some weeks."""
    return round(us * 1000)


@pytest.mark.parametrize(
    "trace",
    [
        GPU / "rank0.kineto.json.gz",
        SAMPLES / "dlrm_cpu" / "dlrm.kineto.json.gz",
        *(
            pytest.param(CORPUS / name, marks=needs_corpus)
            for name in (
                "hta/call_stack/backward_thread.json",
                "nsys/mock.sqlite",
                "tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz",
            )
        ),
        pytest.param(
            CORPUS / "kineto/resnet50_w4_2020list.json.gz",
            marks=[needs_corpus, pytest.mark.thorough],
        ),
    ],
    ids=lambda path: path.name,
)
def test_an_export_can_be_ingested(
    trace: Path, tmp_path: Path, database_of: DatabaseOf
) -> None:
    """It gives the same ops, kernels, threads, times and paths.

    Times may count from the first event, if doubles could not hold them.
    """
    first = database_of(trace)
    with tracedb.open() as second:
        first.export(tmp_path / "out.json.gz")
        second.ingest([tmp_path / "out.json.gz"])
        assert rows(second, "FROM raw.ingest_issue") == []
        begins = "SELECT min(start_ns) FROM staging.slice"
        later = rows(first, begins)[0][0] - rows(second, begins)[0][0]
        for name in SAME:
            found = by_content(second, name)
            if later and name != "question.timeline":
                times = {*found.columns} & TIMES
                found = found.with_columns(found[time] + later for time in times)
            assert by_content(first, name).equals(found), name


def test_an_export_follows_the_format(database_of: DatabaseOf, tmp_path: Path) -> None:
    """For two ranks: integer process ids, durations, and flows within slices."""
    with database_of(GPU).simulate(["replay"]) as database:
        count = database.export(tmp_path / "out.json")
    events = events_of(tmp_path / "out.json")
    assert len(events) == count
    slices = defaultdict(list)
    for event in events:
        assert isinstance(event["pid"], int)
        assert event["ph"] in "XMsfti"
        if event["ph"] == "X":
            assert event["dur"] >= 0
            begin = ns(event["ts"])
            end = begin + ns(event["dur"])
            slices[event["pid"], event["tid"]].append((begin, end))
    flows = [e for e in events if e.get("cat") == "critical_path" and e["ph"] in "sf"]
    ends: dict[str, dict[str, Any]] = defaultdict(dict)
    for event in flows:
        ends[event["id"]][event["ph"]] = event
        at = ns(event["ts"])
        there = slices[event["pid"], event["tid"]]
        assert any(begin <= at <= end for begin, end in there)
    assert len(ends) > 100
    for pair in ends.values():
        assert pair["s"]["ts"] <= pair["f"]["ts"]
        assert pair["f"]["bp"] == "e"
    query = "SELECT count(*) FROM raw.event WHERE ph IN ('s', 'f')"
    recorded = rows(database_of(GPU), query)[0][0]
    assert sum(e["ph"] in "sf" for e in events) == recorded + len(flows)


def test_the_path_is_a_process(database_of: DatabaseOf, tmp_path: Path) -> None:
    """It shows the path of the run and of each rank, with the same critical events."""
    database = database_of(GPU)
    database.export(tmp_path / "out.json")
    events = events_of(tmp_path / "out.json")
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    process = next(pid for pid, name in names.items() if name == PATH_PROCESS)
    lanes = defaultdict(list)
    for event in events:
        if event["pid"] == process and event["ph"] == "X":
            begin = ns(event["ts"])
            lanes[event["tid"]].append((begin, begin + ns(event["dur"])))
    # The run's steps overlap: one rank begins a step before another ends the last.
    labels = sorted(
        event["args"]["name"]
        for event in events
        if event["pid"] == process and event["name"] == "thread_name"
    )
    assert labels == ["rank 0", "rank 1", "run", "run"]
    assert len(lanes) == len(labels)
    for lane in lanes.values():
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(lane)))
    expected = rows(
        database,
        "SELECT count(DISTINCT node_id) FROM critical_path.interval "
        "WHERE scope IN ('run', 'period') AND end_ns > start_ns",
    )[0][0]
    critical = [e for e in events if e.get("args", {}).get("critical") == 1]
    assert sum(e["ph"] == "X" for e in critical) == expected
    known = rows(database, "SELECT count(slack_ns) FROM critical_path.slack")[0][0]
    assert sum("slack_ns" in e.get("args", {}) for e in events) == known


def test_predictions_are_processes(database_of: DatabaseOf, tmp_path: Path) -> None:
    """A method and each scenario has a process with everything that it predicts."""
    edit = tracedb.Edit(scenario="half", target="gpu", factor=0.5)
    with database_of(GPU).simulate(["replay"], [edit]) as database:
        database.export(tmp_path / "out.json")
        query = (
            "SELECT variant_id, node_id, name, end_ns - start_ns FROM "
            "critical_path.node_time INNER JOIN (SELECT node_id, name FROM graph.node) "
            "USING (node_id) WHERE variant_id > 0"
        )
        expected = Counter((name, lasts) for _, _, name, lasts in rows(database, query))
    events = events_of(tmp_path / "out.json")
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    shown = {pid for pid, name in names.items() if name.startswith("predicted by")}
    assert {names[pid] for pid in shown} == {
        "predicted by replay",
        "predicted by replay, scenario half",
    }
    found = Counter(
        (e["name"], ns(e["dur"]))
        for e in events
        if e["pid"] in shown and e["ph"] == "X"
    )
    assert found == expected


def test_exporting_one_step(database_of: DatabaseOf, tmp_path: Path) -> None:
    """Only what overlaps the step is written; an unknown step is refused."""
    database = database_of(GPU)
    whole = database.export(tmp_path / "whole.json")
    alone = database.export(tmp_path / "step.json", step=2)
    assert 0 < alone < whole * 0.6
    marks = [e["name"] for e in events_of(tmp_path / "step.json")]
    assert "ProfilerStep#2" in marks
    with pytest.raises(tracedb.QueryError, match="no step 77 in run"):
        database.export(tmp_path / "none.json", step=77)
    assert not (tmp_path / "none.json").exists()


def test_exporting_one_rank(database_of: DatabaseOf, tmp_path: Path) -> None:
    """What its file recorded is written, with its own paths; no other rank's."""
    database = database_of(GPU)
    database.export(tmp_path / "rank.json", rank=1)
    written = events_of(tmp_path / "rank.json")
    recorded = events_of(GPU / "rank1.kineto.json.gz")
    own = {event["pid"] for event in recorded}
    assert sorted(e["name"] for e in written if e["pid"] in own and e["ph"] == "X") == (
        sorted(e["name"] for e in recorded if e["ph"] == "X")
    )
    (ranks,) = database.sql(
        "SELECT count(*) FROM critical_path.path INNER JOIN staging.trace "
        "USING (trace_id) WHERE variant_id = 0 AND scope = 'period' AND rank = 1"
    ).row(0)
    stacks = tmp_path / "rank.speedscope.json"
    database.export(stacks, rank=1)
    names = [profile["name"] for profile in json.loads(stacks.read_text())["profiles"]]
    assert all("rank 1" in name for name in names)
    assert sum("critical path" in name for name in names) == ranks
    database.export(tmp_path / "part.pftrace", rank=1, step=2)
    for refused, words in (
        ({"rank": 7}, "no rank 7 in run 1; available: 0, 1"),
        ({"rank": 1, "format": "chakra"}, "leave out the rank"),
    ):
        with pytest.raises(tracedb.QueryError, match=words):
            database.export(tmp_path / "none.json", **refused)


def test_headers_may_have_any_number(tmp_path: Path) -> None:
    """A number beyond doubles, such as a bandwidth of 1e400, is written as null."""
    event = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1}
    text = json.dumps({"deviceProperties": [0], "traceEvents": [event | {"dur": 1}]})
    (tmp_path / "trace.json").write_text(text.replace("[0]", "[1e400]"))
    with tracedb.open() as database:
        database.ingest([tmp_path / "trace.json"])
        database.export(tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["deviceProperties"] == [None]


def test_only_exports_are_overwritten(database_of: DatabaseOf, tmp_path: Path) -> None:
    """A user's trace is never overwritten by an export."""
    database = database_of(GPU)
    mine = tmp_path / "trace.json"
    mine.write_text('{"traceEvents": []}')
    with pytest.raises(tracedb.ReportError, match="not an export"):
        database.export(mine)
    assert mine.read_text() == '{"traceEvents": []}'
    assert database.export(tmp_path / "a.json.gz") == database.export(
        tmp_path / "a.json.gz"
    )


def test_on_the_command_line(tmp_path: Path, ingested: Ingested) -> None:
    """Stderr says how many events were written; stdout is empty."""
    out = tmp_path / "out.json"
    line = [
        "export",
        str(ingested(SAMPLES / "dlrm_cpu")),
        "-o",
        str(out),
        "--method",
        "replay",
    ]
    done = CliRunner().invoke(command, line)
    assert done.exit_code == 0
    assert done.stdout == ""
    assert f"{len(events_of(out)):,} events" in done.stderr


def test_the_suffix_selects_the_format(tmp_path: Path, ingested: Ingested) -> None:
    """With any compression, the file begins as that format does."""
    for ending, mark in (
        (".json", b'{"exportedBy"'),
        (".json.gz", b'{"exportedBy"'),
        (".pftrace", b"\n"),
        (".PFTRACE.GZ", b"\n"),
        (".speedscope.json", b'{"exporter"'),
        (".speedscope.json.gz", b'{"exporter"'),
    ):
        out = tmp_path / f"out{ending}"
        line = ["export", str(ingested(GPU)), "-o", str(out), "--step", "2"]
        assert CliRunner().invoke(command, line).exit_code == 0
        content = out.read_bytes()
        if ending.lower().endswith(".gz"):
            content = gzip.decompress(content)
        assert content.startswith(mark), ending
