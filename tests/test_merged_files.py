"""A file merged from the traces of ranks is answered as the ranks' own files are."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from dialects import GPU, Event, Trace, cat, text_of, with_args
from lakes import Here
from support import CORPUS, rows, sampled
from test_dialects import Answers, answers, base, recorded, written

import tracedb
from tracedb import lake

Merge = Callable[[list[Trace]], Trace]
FORMS: dict[str, Merge] = {}
"""What tools make of the traces of ranks."""
END = {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": ""}
"""What the profiler writes last, but for its time."""
UNLABELLED = ("as they are", "each on its first GPU", "with one process id")
"""The forms that do not say which rank a process is."""


def form(name: str) -> Callable[[Merge], Merge]:
    """Register a form."""

    def register(merge: Merge) -> Merge:
        FORMS[name] = merge
        return merge

    return register


def joined(traces: list[Trace], change: Callable[[Event, int], Event]) -> Trace:
    """The first trace, with the changed events of all, in the order of the traces."""
    events = [
        change(event, rank)
        for rank, trace in enumerate(traces)
        for event in trace["traceEvents"]
    ]
    return traces[0] | {"traceEvents": events}


def labelled(event: Event, rank: int) -> Event:
    """The event, with the rank before its process id, as SGLang's merger writes it."""
    return event | {"pid": f"[TP0{rank}] {event.get('pid')}"}


def process_name(pid: object, name: str) -> Event:
    """The event that names a process."""
    name_of = {"name": name}
    return {"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": name_of}


@form("labelled")
def _labelled(traces: list[Trace]) -> Trace:
    return joined(traces, labelled)


@form("labelled, by time")
def _by_time(traces: list[Trace]) -> Trace:
    merged = joined(traces, labelled)
    merged["traceEvents"].sort(key=lambda event: event.get("ts", 0))
    return merged


@form("labelled, shuffled")
def _shuffled(traces: list[Trace]) -> Trace:
    merged = joined(traces, labelled)
    random.Random(3).shuffle(merged["traceEvents"])  # noqa: S311
    return merged


@form("a process id per rank")
def _process_per_rank(traces: list[Trace]) -> Trace:
    """Also of GPU work; names come last, and nothing else of the files is kept."""
    merged = joined(traces, lambda event, rank: event | {"pid": rank + 1})
    names = [process_name(rank + 1, f"Rank {rank}") for rank in range(len(traces))]
    base_ns = traces[0].get("baseTimeNanoseconds", 0)
    events = [*merged["traceEvents"], *names]
    return {"traceEvents": events, "baseTimeNanoseconds": base_ns}


@form("names with the rank, shuffled")
def _named(traces: list[Trace]) -> Trace:
    """As an export of tracedb, processes and GPUs have numbers of no meaning."""
    numbers: dict[tuple[int, object], int] = {}

    def renamed(event: Event, rank: int) -> Event:
        number = numbers.setdefault((rank, event.get("pid")), 7 * len(numbers) + 3)
        if event.get("name") == "process_name":
            event = with_args(event, name=f"rank {rank} of {event['args']['name']}")
        return event | {"pid": number}

    merged = joined(traces, renamed)
    random.Random(3).shuffle(merged["traceEvents"])  # noqa: S311
    return merged


@form("other numbers")
def _other_numbers(traces: list[Trace]) -> Trace:
    """Process ids and correlations are unique, and the rank is an argument."""

    def renumbered(event: Event, rank: int) -> Event:
        event = with_args(event, rank=rank)
        for field in "correlation", "wait_on_cuda_event_record_corr_id":
            if event["args"].get(field, -1) >= 0:
                number = event["args"][field] + rank * 10**7
                event = with_args(event, **{field: number})
        for field in "pid", "id":
            if isinstance(event.get(field), int):
                event |= {field: event[field] + rank * 10**7}
        return event

    return joined(traces, renumbered)


@form("as they are")
def _as_they_are(traces: list[Trace]) -> Trace:
    return joined(traces, lambda event, _rank: event)


def on_first_gpu(event: Event) -> Event:
    """The event, as a process that sees one GPU records it."""
    if cat(event) in GPU:
        return with_args(event, device=0) | {"pid": 0}
    return event


@form("each on its first GPU")
def _each_on_its_first_gpu(traces: list[Trace]) -> Trace:
    return joined(traces, lambda event, _rank: on_first_gpu(event))


@form("with one process id")
def _with_one_process_id(traces: list[Trace]) -> Trace:
    """Processes in containers have equal ids; the profiler marks the end of each."""
    of_first = {
        event["pid"] for event in traces[0]["traceEvents"] if cat(event) == "cpu_op"
    }

    def same(event: Event) -> Event:
        return on_first_gpu(event) | (
            {} if cat(event) in GPU or event.get("pid") in range(8) else {"pid": pid}
        )

    (pid,) = of_first
    ended = [
        trace
        | {
            "traceEvents": [
                *map(same, trace["traceEvents"]),
                END | {"ts": trace["traceEvents"][0]["ts"]},
            ]
        }
        for trace in traces
    ]
    return joined(ended, lambda event, _rank: event)


def answered(traces: list[Trace], folder: Path) -> Answers:
    """The answers about a run, whose traces are named by their ranks."""
    with tracedb.open() as database:
        database.ingest([written(folder, traces)])
        assert rows(database, "FROM staging.ingest_issue") == []
        assert len(rows(database, "FROM raw.run")) == 1
        (found,) = answers(database).values()
    return {
        query: sorted(
            ((_rank_in(name), *others) for name, *others in of_query), key=repr
        )
        for query, of_query in found.items()
    }


def _rank_in(name: str) -> str:
    """The rank in `rank1.json`, or in `rank0.json#1`."""
    _, _, part = name.partition("#")
    return part or name.removeprefix("rank").removesuffix(".json")


@pytest.mark.parametrize("name", ["job", "random"])
def test_merged_ranks_are_answered_as_their_files(name: str, tmp_path: Path) -> None:
    """Whatever a tool does to process ids, correlations and the order of events."""
    traces = base(name)
    plain = answered(traces, tmp_path / "plain")
    first = [
        t | {"traceEvents": [*map(on_first_gpu, t["traceEvents"])]} for t in traces
    ]
    on_first = answered(first, tmp_path / "first")
    assert all(plain.values())
    changed = set()
    for number, (form_name, merge) in enumerate(FORMS.items()):
        told = answered([merge(traces)], tmp_path / str(number))
        own = plain if form_name not in UNLABELLED[1:] else on_first
        untold = {"trust"} if form_name in UNLABELLED else set()
        changed |= {(form_name, q) for q in {*plain} - untold if told[q] != own[q]}
    assert changed == set()


@pytest.mark.skipif(not CORPUS.exists(), reason="../shared/corpus is absent")
@pytest.mark.parametrize("form_name", FORMS)
def test_merged_recordings_are_those_of_their_files(
    form_name: str, tmp_path: Path
) -> None:
    """Ranks, worlds, events, launches and devices of real ranks."""
    query = """
        SELECT rank, world_size, count(*), count(call_id), count(DISTINCT device),
            sum(end_ns - start_ns)
        FROM staging.gpu_op INNER JOIN staging.trace USING (trace_id)
        GROUP BY ALL ORDER BY rank
    """
    traces = recorded("dlrm")
    found = []
    for files in (traces, [FORMS[form_name](traces)]):
        with tracedb.open() as database:
            database.ingest([written(tmp_path / str(len(files)), files)])
            found.append(rows(database, query))
    plain, merged = found
    if form_name == "a process id per rank":
        plain = [(rank, 2, *others) for rank, _, *others in plain]
    assert merged == plain


TOLD = "SELECT detail FROM staging.ingest_issue ORDER BY ALL"
FOUND = """
SELECT trace.run_id, rank, world_size, rank_assumed_from, count(call_id), min(path)
FROM staging.trace AS trace
INNER JOIN staging.recording USING (trace_id)
INNER JOIN staging.gpu_op USING (trace_id)
GROUP BY ALL ORDER BY trace.run_id, rank, min(path)
"""


def ingested(trace: Trace, folder: Path, query: str) -> list[Any]:
    """The rows of a query about one file."""
    folder.mkdir()
    (folder / "merged.json").write_bytes(text_of(trace))
    with tracedb.open() as database:
        database.ingest([folder])
        found = rows(database, query)
        assert database.ingest([folder]).height == 0
        assert rows(database, query) == found
    return found


@pytest.fixture(scope="module")
def ranks() -> list[Trace]:
    """The traces of two ranks."""
    return base("random")


@pytest.mark.until("staging")
def test_work_that_cannot_be_told_apart_is_told(
    ranks: list[Trace], tmp_path: Path
) -> None:
    """If events are mixed and two processes have one GPU number, it may be anyone's."""
    merged = joined(ranks, lambda event, _rank: on_first_gpu(event))
    random.Random(3).shuffle(merged["traceEvents"])  # noqa: S311
    (told, *_) = ingested(merged, tmp_path / "one", TOLD)
    assert told[0] == (
        "kept as one trace: ops of processes whose GPU work is not told apart "
        "(2 processes): ingest their own files, not one merged from them"
    )


@pytest.mark.until("staging")
def test_gpu_work_behind_the_last_process_is_not_only_its_own(
    ranks: list[Trace], tmp_path: Path
) -> None:
    """A tool that writes all host events first does not append traces."""
    merged = joined(ranks, lambda event, _rank: on_first_gpu(event))
    merged["traceEvents"].sort(key=lambda event: cat(event) in GPU)
    (told, *_) = ingested(merged, tmp_path / "one", TOLD)
    assert told[0].startswith("kept as one trace")


@pytest.mark.until("staging")
def test_several_recordings_of_a_process_are_one_trace(
    ranks: list[Trace], tmp_path: Path
) -> None:
    """Cycles of a profiler, appended to one another, have the process in common."""
    first, later = (_ended(ranks[0], seconds) for seconds in (0, 1000))
    merged = joined([first, later], lambda event, _rank: event)
    (row,) = ingested(merged, tmp_path / "one", FOUND)
    (plain,) = ingested(ranks[0], tmp_path / "plain", FOUND)
    assert row[:5] == (*plain[:4], 2 * plain[4])
    assert Path(row[5]).name == "merged.json"


def _ended(trace: Trace, seconds: int) -> Trace:
    """The trace, some seconds later, with what the profiler writes last."""
    events = [
        event | ({"ts": event["ts"] + seconds * 10**6} if "ts" in event else {})
        for event in trace["traceEvents"]
    ]
    args = [
        with_args(event, correlation=event["args"]["correlation"] + seconds * 1000)
        if "correlation" in event.get("args", {})
        else event
        for event in events
    ]
    return trace | {"traceEvents": [*args, END | {"ts": events[-1].get("ts", 0)}]}


@pytest.mark.until("staging")
def test_processes_at_different_times_are_runs_of_their_own(
    ranks: list[Trace], tmp_path: Path
) -> None:
    """They are no ranks, and only the first is described by the file's header."""
    first, later = _ended(ranks[0], 0), _ended(ranks[1], 1000)
    merged = joined([first, later], labelled)
    one, other = ingested(merged, tmp_path / "one", FOUND)
    assert one[:4] == (1, 0, 2, None)
    assert other[:4] == (2, None, None, None)
    names = [Path(row[5]).name for row in (one, other)]
    assert names == ["merged.json#0", "merged.json#1"]


@pytest.mark.until("staging")
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("[TP01-DP00] 5", "[TP00-DP00] 5"), [(0, None), (1, None)]),
        (("[TP01-PP00] 5", "[TP00-PP01] 5"), [(0, "label"), (1, "label")]),
        (("rank12_77", "rank3_78"), [(3, None), (12, None)]),
        (("Worker 77", "Host 78"), [(0, "gpu"), (1, "gpu")]),
    ],
)
def test_ranks_follow_from_labels(
    labels: tuple[str, str],
    expected: list[tuple[int, str | None]],
    ranks: list[Trace],
    tmp_path: Path,
) -> None:
    """Else from the GPUs on which processes run."""
    merged = joined(
        ranks, lambda event, rank: event | {"pid": f"{labels[rank]}{event.get('pid')}"}
    )
    found = ingested(merged, tmp_path / "one", FOUND)
    assert [(row[1], row[3]) for row in found] == expected


@pytest.mark.until("staging")
def test_devices_of_ranks_are_described_once(
    ranks: list[Trace], tmp_path: Path
) -> None:
    """Tools append the descriptions that each rank has of all GPUs of its node."""
    devices = [{"id": n, "name": "NVIDIA H100"} for n in range(2)]
    merged = joined(ranks, labelled) | {"deviceProperties": devices * 2}
    query = "SELECT described_count FROM staging.trace"
    assert ingested(merged, tmp_path / "one", query) == [(2,), (2,)]


@pytest.mark.until("staging")
def test_a_header_may_have_any_number(ranks: list[Trace], tmp_path: Path) -> None:
    """Such as a bandwidth beyond doubles."""
    merged = joined(ranks, labelled) | {"deviceProperties": [4711]}
    path = tmp_path / "merged.json"
    path.write_bytes(text_of(merged).replace(b"[4711]", b"[1e400]"))
    with tracedb.open() as database:
        assert database.ingest([path]).height == 2


def test_a_lake_refuses_a_merged_file(ranks: list[Trace], tmp_path: Path) -> None:
    """It says why; nothing of the file is in the lake."""
    folder = written(tmp_path / "one", [joined(ranks, labelled)])
    outcome = lake.ingest([folder], tmp_path / "lake", Here())
    assert outcome == {"failed": 1}
    (failure,) = lake.Manifest(tmp_path / "lake").failures()
    assert failure.detail == (
        "was merged from the traces of 2 processes; a lake takes only a file of each"
    )


TEXTS: dict[str, Callable[[list[bytes]], bytes]] = {
    "a list": lambda texts: b"[" + b", ".join(texts) + b"]",
    "an object": lambda texts: b'{"0": ' + b', "1": '.join(texts) + b"}",
    "lines": lambda texts: b"".join(text + b"\n" for text in texts),
    "files of gzip": lambda texts: b"".join(map(gzip.compress, texts)),
}
"""How whole traces are put into one file."""


@pytest.mark.until("staging")
@pytest.mark.parametrize("name", TEXTS)
def test_whole_traces_in_one_file_are_divided(
    name: str, ranks: list[Trace], tmp_path: Path
) -> None:
    """Each has its rank, events and launches."""
    query = """
        SELECT rank, world_size, event_count, count(call_id), count(DISTINCT gpu_op_id)
        FROM staging.trace INNER JOIN staging.gpu_op USING (trace_id)
        GROUP BY ALL ORDER BY ALL
    """
    with tracedb.open() as database:
        database.ingest([written(tmp_path / "plain", ranks)])
        plain = rows(database, query)
    path = tmp_path / ("merged.json.gz" if "gzip" in name else "merged.json")
    path.write_bytes(TEXTS[name]([text_of(trace) for trace in ranks]))
    with tracedb.open() as database:
        database.ingest([path])
        assert rows(database, query) == plain


def without_some(trace: Trace, source: random.Random) -> Trace:
    """Events are missing."""
    kept = [event for event in trace["traceEvents"] if source.random() < 0.6]
    return trace | {"traceEvents": kept}


def with_odd_ids(trace: Trace, source: random.Random) -> Trace:
    """Process ids of some events are of any type, or another process's."""
    odd: tuple[Any, ...] = (0, "", "rank", "rank 3", None, -5, 1e9, "[TP00] 7", [], {})
    for event in trace["traceEvents"]:
        if source.random() < 0.3:
            event["pid"] = source.choice(odd)
    return trace


def with_odd_names(trace: Trace, source: random.Random) -> Trace:
    """Names of processes are of any type, or say another rank."""
    odd: tuple[Any, ...] = (
        {"name": "rank 999999999"},
        {"name": None},
        {},
        {"name": 5},
        None,
    )
    for event in trace["traceEvents"]:
        if event.get("name") == "process_name":
            event["args"] = source.choice(odd)
    return trace


def with_odd_phases(trace: Trace, source: random.Random) -> Trace:
    """Some slices are starts or ends without the other, or of no known kind."""
    for event in trace["traceEvents"]:
        if source.random() < 0.2:
            event["ph"] = source.choice(("B", "E", "i", None))
    return trace


def with_odd_header(trace: Trace, source: random.Random) -> Trace:
    """Ranks and devices are described in any type."""
    odd: tuple[Any, ...] = (
        None,
        [],
        "x",
        {"rank": "0"},
        {"rank": -1, "world_size": "8", "backend": 7},
    )
    devices: tuple[Any, ...] = (None, {}, [1, 1, None], [{}] * 3, [{"id": [0]}])
    return trace | {
        "distributedInfo": source.choice(odd),
        "deviceProperties": source.choice(devices),
    }


def with_ends(trace: Trace, source: random.Random) -> Trace:
    """Recordings seem to end anywhere."""
    events = [*trace["traceEvents"]]
    for _ in range(source.randint(1, 40)):
        end = END | {"ts": source.random()}
        events.insert(source.randrange(len(events)), end)
    return trace | {"traceEvents": events}


ODD = (
    without_some,
    with_odd_ids,
    with_odd_names,
    with_odd_phases,
    with_odd_header,
    with_ends,
)


@pytest.mark.until("staging")
@pytest.mark.parametrize("change", ODD)
@pytest.mark.parametrize("seed", sampled(range(20), 2))
def test_odd_merged_files_lose_no_event(
    change: Callable[[Trace, random.Random], Trace],
    seed: int,
    ranks: list[Trace],
    tmp_path: Path,
) -> None:
    """Whatever they contain, each event is of one trace."""
    source = random.Random(f"{change.__name__} {seed}")  # noqa: S311
    form_name = source.choice([*FORMS])
    odd = change(FORMS[form_name](deepcopy(ranks)), source)
    query = """
        SELECT count(*) = any_value((SELECT sum(event_count) FROM staging.trace)),
            count(*), bool_and(trace_id IN (SELECT trace_id FROM staging.trace))
        FROM raw.event
    """
    assert ingested(odd, tmp_path / "one", query) == [
        (True, len(odd["traceEvents"]), True)
    ]
