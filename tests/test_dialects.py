"""Files differ in names, orders and numbers; the answers about a program do not.

`dialects.py` writes one program's traces as other versions, tools and vendors would.
All are ingested together, each as a run of its own, at another time.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from dialects import (
    DIALECTS,
    GPU,
    Event,
    Trace,
    cat,
    text_of,
    traces_of,
    with_args,
    without_args,
)
from support import CORPUS, rows

import tracedb
from tracedb import Edit
from tracedb.synthetic import Form, random_program, training_job

Answers = dict[str, list[Any]]

HOUR = 3_600_000_000_000

# Times count from the first GPU work. Every row begins with the trace.
FIRST = (
    "(SELECT trace_id, min(start_ns) AS t FROM staging.gpu_op GROUP BY ALL) AS first"
)
OF_RUN = "(SELECT run_id, min(trace_id) AS trace_id FROM raw.trace GROUP BY ALL) AS own"
QUERIES = {
    "steps": """
        SELECT trace_id, row_number() OVER (
            PARTITION BY trace_id, method ORDER BY start_ns
        ), step_time.* EXCLUDE (run_id, trace_id, step_id, step)
        FROM critical_path.step_time INNER JOIN staging.step USING (trace_id, step_id)
    """,
    "paths": """
        SELECT trace_id, scope, kind, count(*), sum(time_ns)
        FROM question.critical_path GROUP BY ALL
    """,
    "intervals": """
        SELECT interval.trace_id, scope, interval.start_ns - path.start_ns,
            interval.end_ns - path.start_ns, kind
        FROM critical_path.interval AS interval
        INNER JOIN critical_path.path AS path USING (variant_id, scope, path_id)
    """,
    "overheads": """
        SELECT trace_id, role, type, sum(span_count), sum(time_ns)
        FROM question.overhead GROUP BY ALL
    """,
    "idle causes": "SELECT trace_id, method, kind, idle_ns FROM question.idle_cause",
    "collectives": f"""
        SELECT collective.trace_id, kind, element_count, group_size, present_count,
            waiting_ns, moving_ns, last_arrival_ns - t
        FROM graph.collective AS collective INNER JOIN {FIRST} USING (trace_id)
    """,
    "edges": f"""
        SELECT edge.trace_id, edge.kind, recorded, source.start_ns - t,
            target.start_ns - t, source.kind, target.kind
        FROM graph.edge AS edge
        INNER JOIN graph.node AS source ON source_node_id = source.node_id
        INNER JOIN graph.node AS target ON target_node_id = target.node_id
        INNER JOIN {FIRST} ON edge.trace_id = first.trace_id
    """,
    "slack": """
        SELECT trace_id, slack_ns, run_slack_ns, duration_ns, offset_ns, kind
        FROM question.slack
    """,
    "waits": f"""
        SELECT trace_id, kind, sum(wait_count), sum(waited_ns)
        FROM question.wait INNER JOIN {OF_RUN} USING (run_id) GROUP BY ALL
    """,
    "levers": f"""
        SELECT trace_id, lever, time_ns, path_count
        FROM question.lever INNER JOIN {OF_RUN} USING (run_id)
    """,
    "device time": """
        SELECT trace_id, is_busy, kind, sum(time_ns)
        FROM question.device_time GROUP BY ALL
    """,
    "communication": """
        SELECT trace_id, communication_ns, exposed_ns
        FROM question.exposed_communication
    """,
    "data loading": f"""
        SELECT loading.trace_id, start_ns - t, end_ns - t
        FROM staging.data_loading AS loading INNER JOIN {FIRST} USING (trace_id)
    """,
    "phases": "SELECT trace_id, phase, count(*) FROM graph.phase GROUP BY ALL",
    "threads": "SELECT trace_id, role FROM staging.thread",
    "what if": """
        SELECT trace_id, scenario, step, baseline_ns, predicted_ns, predicted_host_ns,
            predicted_gpu_end_ns
        FROM question.scenario_effect WHERE scenario <> 'fused'
    """,
    "what if fused": """
        SELECT trace_id, step, predicted_ns
        FROM question.scenario_effect WHERE scenario = 'fused'
    """,
    "trust": f"""
        SELECT trace_id, aspect, occurrences, all_count, time_ns
        FROM question.trust INNER JOIN {OF_RUN} USING (run_id)
        WHERE aspect NOT IN ('absent_rank', 'profiler')
    """,
    "cost of recording": """
        SELECT trace_id, event_count, time_ns FROM overhead.recording_cost
    """,
}

CHANGES: dict[str, dict[str, Any]] = {
    "faster kernels": {"target": "gpu", "factor": 0.5},
    "faster backward": {"target": "host", "phase": "backward", "factor": 0.5},
    "no copies": {"target": "gpu", "type": "memcpy", "action": "remove"},
    "no linear": {"target": "op", "name": "aten::linear", "action": "remove"},
    "no waits": {"target": "wait"},
    "no waits of streams": {"target": "wait", "type": "stream"},
    "later work": {"target": "delay", "type": "launch", "add_ns": 5_000},
    "more kernels": {
        "target": "gpu",
        "type": "kernel",
        "instance": 2,
        "action": "insert",
        "place": "after",
        "gpu_ns": 50_000,
    },
    "fused": {"target": "gpu", "type": "kernel", "action": "fuse"},
}
EDITS = [Edit(scenario=name, **fields) for name, fields in CHANGES.items()]

# What a dialect does not tell, or tells in other words.
NAMELESS = {"without metadata", "threads of no name", "threads of one name"}
UNTOLD = {
    # Ranges that are ops nest ops.
    ("job", "ranges recorded as ops"): {"edges", "slack", "cost of recording"},
    ("random", "ranges recorded as ops"): {"edges", "slack", "cost of recording"},
    # What more is recorded costs more.
    **{
        (name, "Python frames beside"): {"cost of recording"}
        for name in ("job", "random")
    },
    # Families of kernels are known by their names.
    ("job", "kernels renamed"): {"steps", "what if fused"},
    # Only its name says of a thread of the random program that it is autograd's.
    **{
        ("random", name): {*QUERIES} - {"collectives", "communication"}
        for name in NAMELESS
    },
}


def base(name: str) -> list[Trace]:
    """The traces of a program: a training job, or a random one with recorded waits."""
    if name == "job":
        return traces_of(training_job(1, steps=2, ranks=2), 1)
    program = random_program(5, threads=3, streams=3, steps=2, ranks=2, ops=12)
    return traces_of(program, 1, Form(sync_events=True))


def written(folder: Path, traces: list[Trace]) -> Path:
    """A folder with the files of a run."""
    folder.mkdir()
    for rank, trace in enumerate(traces):
        (folder / f"rank{rank}.json").write_bytes(text_of(trace))
    return folder


def answers(database: tracedb.Database) -> dict[str, Answers]:
    """The answers about each folder of traces; a trace is named by its file."""
    place = {
        trace_id: Path(path)
        for trace_id, path in rows(database, "SELECT trace_id, path FROM raw.trace")
    }
    found: dict[str, Answers] = {
        path.parent.name: {name: [] for name in QUERIES} for path in place.values()
    }
    with database.simulate(edits=EDITS) as simulated:
        for name, query in QUERIES.items():
            asked = simulated if name.startswith("what if") else database
            for trace_id, *row in rows(asked, query):
                path = place[trace_id]
                found[path.parent.name][name].append((path.name, *row))
    for of_folder in found.values():
        for rows_of_query in of_folder.values():
            rows_of_query.sort(key=repr)
    return found


def moved(traces: list[Trace], hours: int) -> list[Trace]:
    """The same traces at a later time."""
    name = "baseTimeNanoseconds"
    return [trace | {name: trace[name] + hours * HOUR} for trace in deepcopy(traces)]


@pytest.mark.parametrize("name", ["job", "random"])
def test_dialects_change_no_answer(name: str) -> None:
    """Steps, paths, overheads, causes, collectives and waits are the same."""
    traces = base(name)
    with TemporaryDirectory() as folder, tracedb.open() as database:
        written(Path(folder) / "plain", traces)
        for hours, (spoken, dialect) in enumerate(DIALECTS.items(), 1):
            written(Path(folder) / spoken, dialect(moved(traces, hours)))
        database.ingest([folder])
        assert rows(database, "FROM staging.ingest_issue") == []
        found = answers(database)
    plain = found.pop("plain")
    assert all(plain.values())
    assert found.keys() == DIALECTS.keys()
    changed = {
        (spoken, query)
        for spoken, told in found.items()
        for query in QUERIES
        if told[query] != plain[query] and query not in UNTOLD.get((name, spoken), ())
    }
    assert changed == set()


RECORDED = {
    "alexnet": ["hta/critical_path/alexnet.json.gz"],
    "bert": ["tracelens/mi300/gaunernst_bert-small-uncased__1016001.json.gz"],
    "dlrm": [f"param/dlrm8/kineto/worker{rank}.pt.trace.json.gz" for rank in (0, 1)],
}
ELSEWHERE = (
    "events shuffled",
    "other numbers of streams",
    "negative numbers of threads",
    "other correlations",
)


def recorded(name: str) -> list[Trace]:
    """The traces of a run of the corpus, with exact times."""
    texts = (gzip.decompress((CORPUS / path).read_bytes()) for path in RECORDED[name])
    return [json.loads(text, parse_float=Decimal) for text in texts]


def a_day_later(event: Event) -> Event:
    """The event, with its time in microseconds."""
    is_timed = event.get("ph") != "M" and "ts" in event
    return event | {"ts": event["ts"] + 24 * 3_600_000_000} if is_timed else event


@pytest.mark.skipif(not CORPUS.exists(), reason="../shared/corpus is absent")
def test_another_day_order_and_numbers_change_no_answer_about_recorded_traces() -> None:
    """Threads, streams and correlations have other numbers, events another order."""
    with TemporaryDirectory() as folder, tracedb.open() as database:
        for name in RECORDED:
            traces = recorded(name)
            written(Path(folder) / name, traces)
            for dialect in ELSEWHERE:
                traces = DIALECTS[dialect](traces)
            written(Path(folder) / f"{name}, other", each(traces, a_day_later))
        database.ingest([folder])
        found = answers(database)
    for name in RECORDED:
        plain, other = found[name], found[f"{name}, other"]
        assert {query for query in QUERIES if plain[query] != other[query]} == set()
    told = {query for name in RECORDED for query in QUERIES if found[name][query]}
    assert told == {*QUERIES}


def each(traces: list[Trace], change: Callable[[Event], Event]) -> list[Trace]:
    """The traces with each event changed."""
    return [t | {"traceEvents": [*map(change, t["traceEvents"])]} for t in traces]


def answered(traces: list[Trace], **options: Any) -> Answers:  # noqa: ANN401
    """The answers about the traces, ingested with some options."""
    with TemporaryDirectory() as folder, tracedb.open() as database:
        database.ingest([written(Path(folder) / "run", traces)], **options)
        return answers(database)["run"]


def test_a_step_has_any_name_and_category() -> None:
    """Marks named by the user, as a range or as an op, give the profiler's steps."""

    def renamed(event: Event) -> Event:
        if cat(event) != "user_annotation" or event["name"][:8] != "Profiler":
            return event
        return event | {"name": f"train 'step' {event['name'][12:]}", "cat": category}

    traces, found = base("random"), {}
    for category in ("user_annotation", "cpu_op"):
        run = each(traces, renamed)
        found[category] = answered(run, step_mark="train 'step' #[0-9]+")
    plain = answered(traces)
    assert found["user_annotation"] == plain
    untold = UNTOLD["random", "ranges recorded as ops"]
    told = {name for name in QUERIES if found["cpu_op"][name] == plain[name]}
    assert told >= {*QUERIES} - untold


def test_collectives_are_known_without_arguments() -> None:
    """Names of kernels and the shapes of ops say what older versions did not record."""

    def bare(event: Event) -> Event:
        args = event.get("args") or {}
        given = [n for n in args if n[:2] in {"Co", "In", "Gr", "dt", "Pr"}]
        is_work = cat(event) in GPU and "Collective name" in args
        return without_args(event, *given) if is_work else event

    traces = base("job")
    assert answered(each(traces, bare)) == answered(traces)


def test_an_event_that_was_not_seen_recorded_says_nothing() -> None:
    """A recorded wait for it is like one that is not recorded."""

    def unknown(event: Event) -> Event:
        if "wait_on_stream" not in (event.get("args") or {}):
            return event
        nothing = {"wait_on_stream": -1, "wait_on_cuda_event_record_corr_id": -1}
        return with_args(event, **nothing)

    traces = base("random")
    recorded = each(traces, unknown)
    absent = [
        t | {"traceEvents": [e for e in t["traceEvents"] if unknown(e) == e]}
        for t in traces
    ]
    assert answered(recorded) == answered(absent) != answered(traces)


def issues(traces: list[Trace]) -> set[str]:
    """What an ingest reports."""
    with TemporaryDirectory() as folder, tracedb.open() as database:
        database.ingest([written(Path(folder) / "run", traces)])
        return {
            kind for (kind,) in rows(database, "SELECT kind FROM staging.ingest_issue")
        }


@pytest.mark.until("staging")
def test_unread_categories_are_told() -> None:
    """Work in a category that nobody knows is not lost in silence."""

    def other(event: Event) -> Event:
        return event | {"cat": "hpu_op"} if cat(event) == "kernel" else event

    assert issues(each(base("random"), other)) == {"read as none: category hpu_op"}
