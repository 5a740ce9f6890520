"""Scaled traces: consecutive copies of a trace, each with its own links."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scale import scale
from support import ROOT

from tracedb.synthetic import (
    Delays,
    Form,
    GeneratedTrace,
    execute,
    random_program,
    training_job,
)

SCRIPT = ROOT / "benchmarks" / "scale.py"
Event = dict[str, Any]
RECORD = "wait_on_cuda_event_record_corr_id"
OLD = Form(time_unit="us_integer", sync_events=True, external_id="correlation")


def job() -> GeneratedTrace:
    """Return two steps of a training job."""
    return execute(training_job(1, ranks=1, steps=2), Delays(), 1)[0]


def random_job() -> GeneratedTrace:
    """A job with event waits on several streams."""
    program = random_program(3, threads=2, streams=3, steps=2, ops=30)
    return execute(program, Delays(jitter=0.2), 3)[0]


TRACES = {
    "job": job().json_text(),
    "job as an old file": job().json_text(OLD),
    "random": random_job().json_text(Form(sync_events=True)),
    "random as an old file": random_job().json_text(OLD),
}


@pytest.fixture(params=TRACES)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a generated trace."""
    path = tmp_path / "source.json"
    path.write_text(TRACES[request.param])
    return path


def read(path: Path) -> dict[str, Any]:
    """A trace with exact times."""
    return dict(json.loads(path.read_bytes(), parse_float=Decimal))


def copies(source: Path, wanted: int = 4) -> list[list[Event]]:
    """The repeated events of a scaled trace, copy by copy."""
    before = read(source)["traceEvents"]
    length = sum(event["ph"] != "M" for event in before)
    events = len(before) + (wanted - 1) * length
    target = source.with_name("scaled.json")
    assert scale(source, target, events) == (events, wanted)
    after = read(target)["traceEvents"]
    repeated = [event for event in after if event["ph"] != "M"]
    starts = range(0, wanted * length, length)
    return [repeated[start : start + length] for start in starts]


def numbers(events: list[Event], key: str) -> list[int]:
    """All values of an argument; 0 only counts where it is a valid number."""
    values = (event.get("args", {}).get(key) for event in events)
    lowest = 0 if key in {"Ev Idx", "Sequence number"} else 1
    return [value for value in values if value is not None and value >= lowest]


def calls(events: list[Event]) -> list[Event]:
    """Return the calls of the CUDA libraries."""
    return [e for e in events if e.get("cat") in {"cuda_runtime", "cuda_driver"}]


def gpu_work(events: list[Event]) -> list[Event]:
    """Return kernels, copies and memsets."""
    return [
        event
        for event in events
        if event.get("cat") in {"kernel", "gpu_memcpy", "gpu_memset"}
    ]


def spans(events: list[Event]) -> Iterator[tuple[Any, Any]]:
    """Yield begin and end of each event."""
    return ((event["ts"], event["ts"] + event.get("dur", 0)) for event in events)


def test_the_first_copy_is_the_source(source: Path) -> None:
    """Events, metadata and all other keys of the source come first, unchanged."""
    copies(source)
    before, after = read(source), read(source.with_name("scaled.json"))
    count = len(before["traceEvents"])
    assert after["traceEvents"][:count] == before["traceEvents"]
    assert list(after) == list(before)
    assert {**after, "traceEvents": []} == {**before, "traceEvents": []}


def test_counts_multiply(source: Path) -> None:
    """Each copy has as many events of each category on each thread and stream."""
    counts = [
        Counter((e["ph"], e.get("cat"), e["pid"], e["tid"]) for e in events)
        for events in copies(source)
    ]
    assert counts[1:] == counts[:-1]


@pytest.mark.parametrize(
    "key", ["correlation", "External id", "Ev Idx", "Sequence number"]
)
def test_ids_are_unique_to_a_copy(source: Path, key: str) -> None:
    """Within a copy, ids repeat as in the source; copies share none."""
    found = [Counter(numbers(events, key)) for events in copies(source)]
    uses = [sorted(of_copy.values()) for of_copy in found]
    assert uses[1:] == uses[:-1]
    assert sum(map(len, found)) == len(set().union(*found))


def test_generated_traces_have_every_kind_of_id() -> None:
    """The other tests have something to compare."""
    events = [
        event for text in TRACES.values() for event in json.loads(text)["traceEvents"]
    ]
    for key in ("correlation", "External id", "Ev Idx", "Sequence number", RECORD):
        assert numbers(events, key)


def test_every_linked_kernel_stays_linked(source: Path) -> None:
    """The launch with a kernel's correlation is in the same copy, and so is its op."""
    for events in copies(source):
        called = Counter(numbers(calls(events), "correlation"))
        assert set(called.values()) == {1}
        assert set(numbers(gpu_work(events), "correlation")) <= called.keys()
        by_number = {e["args"]["correlation"]: e for e in calls(events)}
        for event in gpu_work(events):
            args = event["args"]
            call = by_number[args["correlation"]]["args"]
            assert call.get("External id") == args.get("External id")


def test_flows_are_kept(source: Path) -> None:
    """Every call and kernel with a flow still has it, at its own start."""
    for events in copies(source):
        starts = {
            (e["args"]["correlation"], e["pid"], e["tid"], e["ts"])
            for e in [*calls(events), *gpu_work(events)]
        }
        ends = {
            (e["id"], e["pid"], e["tid"], e["ts"])
            for e in events
            if e.get("cat") == "ac2g"
        }
        assert starts <= ends


def test_flows_of_autograd_have_two_ends(source: Path) -> None:
    """An id joins one pair of a forward and a backward op in one copy."""
    ends = Counter(
        (event["id"], event["ph"])
        for events in copies(source)
        for event in events
        if event.get("cat") == "fwdbwd"
    )
    assert set(ends.values()) <= {1}
    assert {(number, "s") for number, _ in ends} <= ends.keys()
    assert {(number, "f") for number, _ in ends} <= ends.keys()


def test_waits_name_the_record_of_their_copy(source: Path) -> None:
    """A wait refers to the same call, in the same copy."""
    recorded = []
    for events in copies(source):
        called = numbers(calls(events), "correlation")
        recorded.append([called.index(number) for number in numbers(events, RECORD)])
    assert recorded[1:] == recorded[:-1]


def test_copies_do_not_overlap(source: Path) -> None:
    """A copy begins 50 us (up to 52) after the previous one's last end."""
    ends = [
        (min(start for start, _ in spans(events)), max(end for _, end in spans(events)))
        for events in copies(source)
    ]
    for (_, end), (start, _) in pairwise(ends):
        assert 50 <= start - end <= 52


def test_times_within_a_copy_stay(source: Path) -> None:
    """Durations and distances are exactly the source's."""
    first, *others = copies(source)
    for events in others:
        shift = events[0]["ts"] - first[0]["ts"]
        assert [(e["ts"] - shift, e.get("dur")) for e in events] == [
            (e["ts"], e.get("dur")) for e in first
        ]


def test_steps_are_numbered_through(source: Path) -> None:
    """Step numbers continue through all copies, on host and device."""
    names = [
        event["name"]
        for events in copies(source)
        for event in events
        if event["name"].startswith("ProfilerStep#")
        and event["cat"] == "user_annotation"
    ]
    assert names == [f"ProfilerStep#{number}" for number in range(1, 9)]


def test_copies_reach_the_number_of_events(source: Path) -> None:
    """The last copy is complete, so there may be a few more events, never fewer."""
    target = source.with_name("scaled.json")
    events = len(read(source)["traceEvents"])
    assert scale(source, target, 1) == (events, 1)
    assert target.read_bytes() == source.read_bytes()
    count, made = scale(source, target, 2 * events)
    assert count == len(read(target)["traceEvents"]) >= 2 * events
    assert made == 3


def test_the_same_source_gives_the_same_bytes(source: Path) -> None:
    """So are compressed bytes, with the header's date and name."""
    first, second = source.with_name("1.json.gz"), source.with_name("2.json.gz")
    scale(source, first, 10_000)
    scale(source, second, 10_000)
    assert first.read_bytes() == second.read_bytes()
    plain = source.with_name("plain.json")
    scale(source, plain, 10_000)
    assert gzip.decompress(first.read_bytes()) == plain.read_bytes()


def test_a_bare_list_stays_one(tmp_path: Path) -> None:
    """Files of 2020 are a list, in which 0 means no op and no time, and stays."""
    source, target = tmp_path / "list.json", tmp_path / "scaled.json"
    args = '{"external id": 0, "external ts": 0, "correlation": 7, "note": "100%"}'
    event = f'{{"ph": "X", "name": "k", "ts": 5, "dur": 3,\n "args": {args}}}'
    metadata = '{"ph": "M", "name": "process_name", "ts": 0, "args": {"name": "x"}}'
    source.write_text(f"[\n{metadata},\n\n {event}\n]\n")
    assert scale(source, target, 3) == (3, 2)
    second = event.replace('"ts": 5', '"ts": 58').replace(": 7", ": 8")
    assert target.read_text() == f"[\n{metadata},\n\n {event},\n\n {second}\n]\n"


def test_only_fields_are_renumbered(tmp_path: Path) -> None:
    """Text like a time or an id in a name or nested argument stays."""
    source, target = tmp_path / "decoy.json", tmp_path / "scaled.json"
    name = r"\"ts\": 1, \"correlation\": 2 ProfilerStep#3"
    args = '{"inner": {"ts": 1, "id": 2}, "Ev Idx": 3}'
    event = f'{{"ts":1.25,"id":"4","ph":"X","name":"{name}","args":{args}}}'
    source.write_text(f'{{"traceEvents":[{event}],"last":[]}}')
    scale(source, target, 2)
    second = event.replace("1.25", "52.25").replace('"4"', '"5"')
    second = second.replace('"Ev Idx": 3', '"Ev Idx": 4')
    expected = f'{{"traceEvents":[{event},\n{second}],"last":[]}}'
    assert target.read_text() == expected


def run(source: Path, target: Path, events: int) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    words = [SCRIPT, source, target, "--events", events]
    return subprocess.run(  # noqa: S603 (our own program)
        [sys.executable, *map(str, words)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"nodes": []}', "no trace: 'traceEvents'"),
        ('{"traceEvents": [}', "no trace: JSON is malformed"),
        ('{"traceEvents": []}', "no events to repeat"),
        ('[{"ph": "X", "ts": 1e3}]', "ts 1e3: no plain decimal"),
        ('[{"ph": "X", "ts": -1.5}]', "ts -1.5: no plain decimal"),
    ],
)
def test_files_that_cannot_be_scaled_are_refused(
    tmp_path: Path, text: str, reason: str
) -> None:
    """The error is one line, and nothing is written."""
    source, target = tmp_path / "source.json", tmp_path / "scaled.json"
    source.write_text(text)
    done = run(source, target, 9)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{source}: {reason}")
    assert done.stderr.count("\n") == 1
    assert not target.exists()


def test_output_of_the_command(tmp_path: Path) -> None:
    """Events and copies, so that a benchmark need not read the file."""
    source, target = tmp_path / "source.json", tmp_path / "scaled.json"
    source.write_text('[{"ph": "X", "ts": 1}, {"ph": "X", "ts": 2}]')
    assert run(source, target, 1999).stdout == "2,000 events in 1,000 copies\n"
