"""Execution graphs are paired with the trace of their run, or the reason is given."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support import CORPUS, SAMPLES, needs_corpus, rows

import tracedb

DLRM8 = CORPUS / "param" / "dlrm8"

pytestmark = pytest.mark.until("graph")


def test_all_et_ops_of_dlrm8_are_matched(dlrm8: tracedb.Database) -> None:
    """1,672 nodes a rank: 1,633 ops and 39 annotations, 988 and 684 a thread."""
    query = """
        SELECT trace_id, count(*), count(staging.op.op_id), count(annotation_id)
        FROM staging.op_et
        LEFT JOIN staging.op USING (trace_id, op_id)
        LEFT JOIN staging.annotation
            ON op_et.trace_id = annotation.trace_id AND op_et.op_id = annotation_id
        GROUP BY trace_id
    """
    assert [counts for _, *counts in rows(dlrm8, query)] == [[1672, 1633, 39]] * 4
    by_thread = """
        SELECT op_et.trace_id, graph.tid, node.thread_id, count(*) AS op_count
        FROM staging.op_et
        INNER JOIN staging.et_op AS graph USING (et_node_id)
        INNER JOIN graph.node ON op_et.op_id = node.node_id
        GROUP BY ALL ORDER BY op_et.trace_id, op_count DESC
    """
    assert [count for *_, count in rows(dlrm8, by_thread)] == [988, 684] * 4


def test_names_and_dims_of_dlrm8_are_equal(dlrm8: tracedb.Database) -> None:
    """Every tensor argument has the dims that Kineto recorded: 1,753 a rank."""
    query = """
        SELECT op_et.trace_id, op.name, et.name, op.input_dims, op_et.input_dims,
            op_et.input_types
        FROM staging.op_et
        INNER JOIN staging.op ON op_et.op_id = op.op_id
        INNER JOIN staging.et_op AS et ON op_et.et_node_id = et.et_node_id
        WHERE op.input_dims IS NOT NULL
    """
    compared: dict[int, int] = {}
    for trace_id, name, et_name, dims, et_dims, types in rows(dlrm8, query):
        assert name == et_name
        for kineto, graph, type_ in zip(
            *map(json.loads, (dims, et_dims, types)), strict=False
        ):
            if type_.startswith("Tensor("):
                assert kineto == graph
                compared[trace_id] = compared.get(trace_id, 0) + 1
    # 1,753 with the arguments of annotations; these are of ops alone.
    assert list(compared.values()) == [1753 - annotation_tensors(dlrm8)] * 4


def annotation_tensors(database: tracedb.Database) -> int:
    """Tensor arguments of one rank's annotations, which staging.op does not hold."""
    query = """
        SELECT count(*) FROM staging.tensor
        INNER JOIN staging.annotation ON tensor.op_id = annotation_id
        WHERE direction = 'in'
            AND tensor.trace_id = (SELECT min(trace_id) FROM staging.tensor)
    """
    return int(rows(database, query)[0][0])


def test_data_edges_join_producer_and_consumer(dlrm8: tracedb.Database) -> None:
    """A data edge leads from an op that writes a tensor to a later reader."""
    query = """
        SELECT count(*), count(*) FILTER (giver.start_ns >= taker.start_ns)
        FROM graph.edge
        INNER JOIN staging.op AS giver ON source_node_id = giver.op_id
        INNER JOIN staging.op AS taker ON target_node_id = taker.op_id
        WHERE edge.kind = 'data'
    """
    ((edges, backwards),) = rows(dlrm8, query)
    assert edges > 3000
    assert backwards == 0
    shared = """
        SELECT count(*) FROM graph.data_edge
        ANTI JOIN (
            SELECT given.op_id AS source_op_id, taken.op_id AS target_op_id
            FROM staging.tensor AS given
            INNER JOIN staging.tensor AS taken USING (trace_id, occurrence, tensor)
            WHERE given.direction = 'out' AND taken.direction = 'in'
        ) USING (source_op_id, target_op_id)
    """
    assert rows(dlrm8, shared) == [(0,)]


@needs_corpus
def test_an_ambiguous_iteration_still_gives_shapes(
    database: tracedb.Database,
) -> None:
    """A graph of one iteration matches 39 of 40 equal ones: all get its shapes."""
    database.ingest([CORPUS / "param" / "linear"])
    ((paired, reason),) = rows(
        database,
        "SELECT paired_trace_id, pairing FROM staging.trace WHERE format = 'et'",
    )
    assert paired is not None
    assert "39 equal ones" in reason
    query = "SELECT count(*), count(DISTINCT occurrence) FROM staging.op_et"
    assert rows(database, query) == [(928 * 39, 39)]


@needs_corpus
def test_identifiers_pair_an_older_file(database: tracedb.Database) -> None:
    """In this pair, rf_id equals External id."""
    database.ingest([CORPUS / "hta" / "execution_trace"])
    query = "SELECT pairing FROM staging.trace WHERE format = 'et'"
    assert rows(database, query) == [("36 ops by External id",)]


def test_identifiers_pair_a_recent_file(database: tracedb.Database) -> None:
    """Recent recordings are paired by Record function id, rank by rank."""
    database.ingest([SAMPLES / "ddp_gloo"])
    query = """
        SELECT graph.rank = trace.rank, graph.run_id = trace.run_id, graph.pairing
        FROM staging.trace AS graph
        INNER JOIN staging.trace AS trace ON graph.paired_trace_id = trace.trace_id
    """
    found = rows(database, query)
    assert [row[:2] for row in found] == [(True, True)] * 2
    assert all("by Record function id" in row[2] for row in found)


@needs_corpus
def test_a_wrong_pair_is_refused(database: tracedb.Database) -> None:
    """A graph of another process is refused with the reason; nothing is ingested."""
    files = [
        DLRM8 / "kineto" / "worker0.pt.trace.json.gz",
        DLRM8 / "et" / "dlrm_eg_1.json.gz",
    ]
    with pytest.raises(tracedb.PairError, match="of its process 59812"):
        database.ingest(files, pair=True)
    assert rows(database, "SELECT count(*) FROM raw.event") == [(0,)]
    database.ingest(files)
    query = "SELECT paired_trace_id, pairing FROM staging.trace WHERE format = 'et'"
    ((paired, reason),) = rows(database, query)
    assert paired is None
    assert "59812" in reason


@needs_corpus
def test_pair_requires_a_pair(database: tracedb.Database) -> None:
    """`--pair` accepts a graph ingested before; without any graph it is an error."""
    trace, graph = (
        DLRM8 / "kineto" / "worker0.pt.trace.json.gz",
        DLRM8 / "et" / "dlrm_eg_0.json.gz",
    )
    with pytest.raises(tracedb.PairError, match="none of the files is an execution"):
        database.ingest([trace], pair=True)
    database.ingest([graph])
    with pytest.raises(tracedb.PairError, match=r"dlrm_eg_0.* not an execution graph"):
        database.ingest([graph], pair=True)
    assert database.ingest([trace, graph], pair=True).height == 1


@needs_corpus
def test_different_ops_of_the_same_process_are_no_pair(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """The process matches, but one op has another name."""
    graph: dict[str, Any] = json.loads(
        gzip.decompress((DLRM8 / "et" / "dlrm_eg_0.json.gz").read_bytes())
    )
    next(node for node in graph["nodes"] if node["name"] == "aten::cat")["name"] = (
        "other"
    )
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(graph))
    trace = DLRM8 / "kineto" / "worker0.pt.trace.json.gz"
    with pytest.raises(tracedb.PairError, match="in this order"):
        database.ingest([trace, changed], pair=True)


@needs_corpus
def test_the_order_of_files_does_not_matter(database: tracedb.Database) -> None:
    """A graph that comes before its trace is paired when the trace comes."""
    database.ingest([DLRM8 / "et" / "dlrm_eg_2.json.gz"])
    query = "SELECT paired_trace_id FROM staging.trace WHERE format = 'et'"
    assert rows(database, query) == [(None,)]
    database.ingest([DLRM8 / "kineto" / "worker2.pt.trace.json.gz"])
    assert rows(database, query) == [(2,)]
    assert rows(database, "SELECT count(*) FROM raw.run") == [(1,)]
    assert rows(database, "SELECT count(*) FROM graph.data_edge")[0][0] > 0


@needs_corpus
def test_a_trace_has_one_execution_graph(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """For a second graph of the same run, the issue says that the trace is taken."""
    graph = DLRM8 / "et" / "dlrm_eg_0.json.gz"
    second = json.loads(gzip.decompress(graph.read_bytes())) | {"time": "later"}
    copy = tmp_path / "copy.json"
    copy.write_text(json.dumps(second))
    database.ingest([DLRM8 / "kineto" / "worker0.pt.trace.json.gz", graph, copy])
    query = "SELECT pairing FROM staging.trace WHERE format = 'et' ORDER BY trace_id"
    first, other = rows(database, query)
    assert "1672 ops" in first[0]
    assert other == ("trace 1 already has execution graph 2",)
    assert rows(database, "SELECT count(*) FROM staging.op_et") == [(1672,)]


def test_a_graph_without_ops_is_no_pair(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """An empty graph of the right process is reported."""
    event = {
        "ph": "X",
        "cat": "cpu_op",
        "name": "a",
        "pid": 5,
        "tid": 5,
        "ts": 1,
        "dur": 1,
    }
    (tmp_path / "a.json").write_text(json.dumps([event]))
    (tmp_path / "b.json").write_text('{"schema": "1.0.1", "pid": 5, "nodes": []}')
    database.ingest([tmp_path])
    query = "SELECT pairing FROM staging.trace WHERE format = 'et'"
    assert rows(database, query) == [("the execution graph has no ops",)]


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ({"nodes": []}, "it does not tell its process"),
        ({"pid": 7, "nodes": []}, "no trace in this database has ops of its process 7"),
    ],
)
def test_a_graph_alone_says_why_it_is_not_paired(
    database: tracedb.Database, tmp_path: Path, graph: dict[str, object], said: str
) -> None:
    """It names the process, if the graph does."""
    file = tmp_path / "graph.json"
    file.write_text(json.dumps({"schema": "1.0.1", **graph}))
    database.ingest([file])
    assert rows(database, "SELECT pairing FROM raw.trace") == [(said,)]
