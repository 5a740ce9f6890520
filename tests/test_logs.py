"""Logs of collectives show which rank is missing, whatever else the files contain."""

from __future__ import annotations

import copy
import json
import pickle
import random
from collections import Counter
from importlib import util
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support import SAMPLES, DatabaseOf, Ingested, ingests_until

import tracedb
from tracedb.cli.main import tracedb as command
from tracedb.errors import IngestError
from tracedb.ingest.foreign import flight_recorder, nccl_inspector, reader_of

Row = dict[str, Any]

START = 1_790_000_000_000_000_000
MS = 1_000_000
GROUPS = {"0": ("default_pg", [0, 1, 2, 3]), "1": ("tp", [0, 1]), "2": ("tp", [2, 3])}


def entry(rank: int, number: int, at_ms: float, group: str = "0", **more: Any) -> Row:  # noqa: ANN401 (any field)
    """A call as the flight recorder writes it (schema 2.10), completed 5 ms later."""
    called = START + round(at_ms * MS)
    return {
        "record_id": number,
        "pg_id": int(group),
        "process_group": (group, GROUPS[group][0]),
        "thread_name": "pt_autograd_0",
        "thread_id": str(1000 + rank),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": called,
        "input_sizes": [[1024, 2], [8]],
        "input_dtypes": ["Float", "Float"],
        "output_sizes": [[1024, 2], [8]],
        "output_dtypes": ["Float", "Float"],
        "state": "completed",
        "time_discovered_started_ns": called + MS,
        "time_discovered_completed_ns": called + 5 * MS,
        "retired": True,
        "timeout_ms": 600_000,
        "is_p2p": False,
        "frames": [
            {"name": "all_reduce", "filename": "/x/torch/distributed/a.py", "line": 1},
            {"name": "step", "filename": "train.py", "line": 10 + number},
        ],
        **more,
    }


def waiting(**more: Any) -> Row:  # noqa: ANN401 (any field)
    """The fields that differ in a call that has not completed."""
    return {
        "state": "started",
        "time_discovered_completed_ns": None,
        "retired": False,
        **more,
    }


def dump(rank: int, entries: list[Row]) -> Row:
    """The dump of a rank."""
    own = {
        name: {"name": name, "desc": described, "ranks": str(ranks)}
        for name, (described, ranks) in GROUPS.items()
        if rank in ranks
    }
    return {
        "version": "2.10",
        "comm_lib_version": "2.28.3",
        "pg_config": own,
        "pg_status": {},
        "entries": entries,
    }


def job() -> dict[int, Row]:
    """Four ranks with 3 calls, 20 ms apart; rank 3 skips the last, rank 1 sends."""
    dumps = {}
    for rank in range(4):
        late = 20 if rank == 3 else rank
        entries = [
            entry(
                rank,
                n,
                100 * n + late,
                time_discovered_completed_ns=START + (30 + 100 * n) * MS,
            )
            for n in range(1, 4)
        ]
        if rank != 3:
            entries.append(entry(rank, 4, 400 + rank, **waiting()))
        if rank == 1:
            name = {"profiling_name": "nccl:send 1->0", "is_p2p": True}
            pair = entry(1, 3, 405, group="1", p2p_seq_id=7, **waiting(**name))
            entries.append(pair)
        dumps[rank] = dump(rank, entries)
    return dumps


def write(folder: Path, dumps: dict[int, Row], *, as_json: bool = False) -> Path:
    """Write the dumps under the flight recorder's names."""
    folder.mkdir(exist_ok=True)
    for rank, content in dumps.items():
        path = folder / f"nccl_trace_rank_{rank}"
        text = json.dumps(content, sort_keys=True).encode()
        path.write_bytes(text if as_json else pickle.dumps(content, protocol=2))
    return folder


def events(path: Path) -> list[Row]:
    """The events that the reader makes of a file."""
    found = reader_of(path, path.read_bytes()[:64])
    assert found is not None
    trace = found.read(path)
    return [
        {**row, "args": json.loads(row["args"])}
        for batch in trace.batches
        for row in batch.to_pylist()
    ]


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory, ingested: Ingested) -> Path:
    """A database of the job."""
    return ingested(write(tmp_path_factory.mktemp("dumps") / "job", job()))


def test_the_missing_rank(stuck: Path) -> None:
    """Ranks 0 to 2 wait for rank 3; rank 1's send has no receive."""
    with tracedb.open(stuck, read_only=True) as database:
        found = database.ask("stuck_collective").rows(named=True)
        assert database.ask("recording")["run_id"].unique().to_list() == [1]
    assert [
        (row["process_group"], row["pair"], row["sequence"], row["name"])
        for row in found
    ] == [
        ("0 default_pg [0, 1, 2, 3]", "", 4, "nccl:all_reduce"),
        ("1 tp [0, 1]", "1->0", None, "nccl:send 1->0"),
    ]
    of_all, of_pair = found
    assert (of_all["called_ranks"], of_all["missing_ranks"]) == ("0, 1, 2", "3")
    assert of_all["place"] == "train.py(14): step"
    assert of_all["missing_place"] == "train.py(13): step"
    assert of_all["called_ns"] == START + 400 * MS
    assert of_all["element_count"] == 2056
    assert (of_pair["called_ranks"], of_pair["missing_ranks"]) == ("1", "0")


def test_the_rank_behind(stuck: Path) -> None:
    """Rank 3 is one collective behind the others."""
    with tracedb.open(stuck, read_only=True) as database:
        rows = database.ask("last_collective").rows(named=True)
    of_all = {r["rank"]: r for r in rows if r["process_group"].startswith("0")}
    assert {rank: row["behind_count"] for rank, row in of_all.items()} == {
        0: 0,
        1: 0,
        2: 0,
        3: 1,
    }
    assert [of_all[rank]["is_over"] for rank in range(4)] == [False] * 3 + [True]


def test_the_last_rank_to_arrive(stuck: Path) -> None:
    """Completed collectives are matched by number: rank 3 is the straggler."""
    with tracedb.open(stuck, read_only=True) as database:
        rows = database.ask("straggler").rows(named=True)
    found = {row["rank"]: (row["last_count"], row["waiting_ns"]) for row in rows}
    assert found == {
        0: (0, 60 * MS),
        1: (0, 57 * MS),
        2: (0, 54 * MS),
        3: (3, 0),
    }


@pytest.mark.skipif(not util.find_spec("torch"), reason="PyTorch is absent")
def test_pytorch_finds_the_same_missing_ranks() -> None:
    """PyTorch's own analysis names the same collective and rank."""
    builder = pytest.importorskip(
        "torch.distributed.flight_recorder.components.builder"
    )
    dumps = copy.deepcopy(job())
    entries = {
        rank: [one for one in content["entries"] if not one["is_p2p"]]
        for rank, content in dumps.items()
    }
    config = {rank: content["pg_config"] for rank, content in dumps.items()}
    _, groups, _, members, names = builder.build_groups_memberships(config)
    _, collectives, _ = builder.build_collectives(
        entries, groups, members, names, "2.10"
    )
    missing = {
        one.collective_seq_id: one.missing_ranks
        for one in collectives
        if one.missing_ranks
    }
    assert missing == {4: {3}}


def test_json_and_pickle_dumps_agree(tmp_path: Path) -> None:
    """A JSON dump gives the same events; there, an unknown time is 0."""
    plain = write(tmp_path / "pickle", job())
    text = write(tmp_path / "json", job(), as_json=True)
    for rank in range(4):
        name = f"nccl_trace_rank_{rank}"
        assert events(plain / name) == events(text / name)


def test_a_running_job_is_not_stuck(tmp_path: Path) -> None:
    """All ranks made all calls, which completed: the answer says so."""
    dumps = {
        rank: dump(rank, [entry(rank, n, 10 * n) for n in (1, 2)]) for rank in range(4)
    }
    folder = write(tmp_path / "fine", dumps)
    words = ["ingest", str(folder), "--db", str(tmp_path / "fine.duckdb")]
    assert CliRunner().invoke(command, words).exit_code == 0
    words = ["ask", str(tmp_path / "fine.duckdb"), "stuck_collective"]
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0
    assert "none stuck: all ranks of each group called every collective" in done.stderr


CASES: dict[str, tuple[dict[int, list[Row]], tuple[str, str, str, str]]] = {
    "another collective": (
        {
            rank: [
                entry(
                    rank,
                    1,
                    0,
                    **waiting(profiling_name=f"nccl:{'gather' * (rank > 2)}"),
                )
            ]
            for rank in range(4)
        },
        ("0, 1, 2, 3", "", "", "3"),
    ),
    "another size": (
        {
            rank: [entry(rank, 1, 0, **waiting(input_sizes=[[rank // 3]]))]
            for rank in range(4)
        },
        ("0, 1, 2, 3", "", "", "3"),
    ),
    "sizes of all_to_all differ": (
        {
            rank: [
                entry(
                    rank,
                    1,
                    0,
                    **waiting(
                        profiling_name="nccl:all_to_all", input_sizes=[[rank + 1]]
                    ),
                )
            ]
            for rank in range(4)
        },
        ("0, 1, 2, 3", "", "", ""),
    ),
    "a log is not there": (
        {rank: [entry(rank, 1, 0, **waiting())] for rank in (0, 2)},
        ("0, 2", "", "1, 3", ""),
    ),
    "calls that are gone": (
        {
            rank: [
                entry(rank, n, n, **(waiting() if n == 2000 else {}))
                for n in range(1990 + rank, 2001)
            ]
            for rank in range(4)
        },
        ("0, 1, 2, 3", "", "", ""),
    ),
    "within a group of calls": (
        {
            rank: [
                entry(rank, 1, 0, op_id=1, **waiting()),
                entry(rank, 1, 0, op_id=2, profiling_name="nccl:coalesced"),
                *([entry(rank, 2, 1, **waiting())] if rank else []),
            ]
            for rank in range(4)
        },
        ("1, 2, 3", "0", "", ""),
    ),
}


def test_each_way_to_be_stuck(tmp_path: Path) -> None:
    """Ranks that called, did not call, are absent, or called something else."""
    with tracedb.open() as database:
        for number, (name, (dumps, _)) in enumerate(CASES.items()):
            contents = {rank: dump(rank, entries) for rank, entries in dumps.items()}
            database.ingest([write(tmp_path / str(number), contents)], run=name)
        rows = database.sql(
            "SELECT name, called_ranks, missing_ranks, absent_ranks, odd_ranks "
            "FROM question.stuck_collective "
            "INNER JOIN (SELECT run_id, name FROM raw.run) AS run USING (run_id) "
            "ORDER BY run_id".replace("SELECT name,", "SELECT run.name,")
        ).rows()
    assert {name: tuple(found) for name, *found in rows} == {
        name: expected for name, (_, expected) in CASES.items()
    }


def test_the_sample_is_explained(
    database_of: DatabaseOf, ingested: Ingested, request: pytest.FixtureRequest
) -> None:
    """A real Gloo job: the summary names the rank and both lines of the program."""
    database = database_of(SAMPLES / "stuck_gloo")
    for question in ("stuck_collective", "last_collective"):
        golden = SAMPLES / "stuck_gloo" / "answers" / f"{question}.csv"
        answer = database.ask(question).write_csv()
        if request.config.getoption("--update-answers"):
            golden.parent.mkdir(exist_ok=True)
            golden.write_text(answer)
        assert answer == golden.read_text()
    done = CliRunner().invoke(
        command, ["summary", str(ingested(SAMPLES / "stuck_gloo"))]
    )
    text = " ".join(done.stdout.split())
    assert "called by 0, 1 (record_stuck.py(" in text
    assert "not by 2 (record_stuck.py(" in text


def record(number: int, took_us: float, *, at_us: int | None = None) -> Row:
    """A record of NCCL's inspector, with kernel times starting at `at_us`."""
    perf: Row = {
        "coll": "AllReduce",
        "coll_sn": number,
        "coll_msg_size_bytes": 1 << 20,
        "coll_exec_time_us": took_us,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 1.0,
        "coll_busbw_gbs": 1.5,
    }
    if at_us is not None:
        channels = [
            {
                "channel_id": n,
                "kernel_start_ts": at_us + n,
                "kernel_stop_ts": at_us + round(took_us) - n,
            }
            for n in range(2)
        ]
        perf["event_trace_ts"] = {"coll_start_ts": at_us, "kernel_events": channels}
    return {
        "header": {"id": "0x7f8c", "rank": 1, "n_ranks": 4, "nnodes": 1},
        "metadata": {
            "inspector_output_format_version": "v4.0",
            "dump_timestamp_us": START // 1000 + 1_000_000,
            "hostname": "node",
            "pid": 17,
        },
        "coll_perf": perf,
    }


def test_bandwidths_of_the_inspector(tmp_path: Path) -> None:
    """Time, message size and bandwidth as in NCCL; truncated records are counted."""
    begin = START // 1000
    lines = [record(n, 100.0 * n, at_us=begin + 1000 * n) for n in (1, 2, 3)]
    lines += [record(4, 400.0)]
    log = tmp_path / "node-pid17.log"
    text = "\n".join(map(json.dumps, lines)) + "\n" + json.dumps(lines[0])[:77]
    log.write_text(text)
    with tracedb.open() as database:
        database.ingest([tmp_path])
        (row,) = database.ask("logged_collective").rows(named=True)
        (issue,) = database.sql("SELECT kind, occurrences FROM raw.ingest_issue").rows()
        (trace,) = database.ask("recording").rows(named=True)
        spans = database.sql(
            "SELECT sequence, end_ns - start_ns FROM staging.collective ORDER BY ALL"
        ).rows()
    assert issue == ("left out: records that are truncated or broken", 1)
    assert (trace["rank"], trace["world_size"]) == (1, 4)
    assert spans == [(1, 100_000), (2, 200_000), (3, 300_000)]
    assert (row["call_count"], row["message_bytes"]) == (4, 1 << 20)
    assert (row["shortest_ns"], row["median_ns"]) == (100_000, 250_000)
    assert row["algorithm_bytes_per_second"] == pytest.approx((1 << 20) / 250e-6)
    assert row["bus_bytes_per_second"] == pytest.approx(1.5 * (1 << 20) / 250e-6)


def deep(depth: int) -> bytes:
    """A nested list, pickled."""
    return b"\x80\x02" + b"]" * depth + b"a" * (depth - 1) + b"."


class Runs:
    """Code that a hostile pickle would run."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Call a function on unpickling."""
        return (print, ("run!",))


WHOLE = pickle.dumps(job()[0], protocol=2)
HOSTILE = {
    "empty pickle": (b"\x80\x02", "truncated or broken"),
    "a class": (pickle.dumps({"version": Runs()}, protocol=2), "creates objects"),
    "a class, protocol 4": (pickle.dumps(Runs(), protocol=4), "creates objects"),
    "a set": (pickle.dumps({"entries": {1}}, protocol=4), "creates objects"),
    "old pickle": (b"\x80\x02c__builtin__\neval\n.", "creates objects"),
    "persistent": (b"\x80\x02U\x01aQ.", "creates objects"),
    "extension": (b"\x80\x02\x82\x01.", "creates objects"),
    "memo of much": (b"\x80\x02]r\xff\xff\xff\x7f.", "memo of number"),
    "text of much": (b"\x80\x02X\xff\xff\xff\x7fa.", "truncated or broken"),
    "number of much": (b"\x80\x02\x8b\xff\xff\xff\x7f1.", "truncated or broken"),
    "deep": (deep(100_000), "not a flight recorder dump"),
    "a number": (pickle.dumps(3), "not a flight recorder dump"),
    "no entries": (pickle.dumps({"version": "2.10", "entries": []}), "holds no calls"),
    "no version": (pickle.dumps({"entries": [{}]}), "not a flight recorder dump"),
    "memory": (
        pickle.dumps({"segments": [], "device_traces": [[]]}),
        "is a memory snapshot of PyTorch",
    ),
    "cut json": (b'{"entries": [{"a":', "broken"),
    "deep json": (b'{"entries":' + b"[" * 100_000, "broken"),
    "other json": (b'{"entries": {}}', "not a flight recorder dump"),
    "inspector's, cut": (b'{"header": {"id": "0x1', "no complete record"),
    "inspector's, deep": (b'{"header":{"id":' + b"[" * 100_000, "no complete record"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_one_line(case: str, tmp_path: Path) -> None:
    """Nothing is run or expanded, and the error says what is wrong."""
    data, words = HOSTILE[case]
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(data)
    reader = nccl_inspector if case.startswith("inspector") else flight_recorder
    assert reader.recognises(path, data[:64])
    with pytest.raises(IngestError, match=words) as raised:
        list(reader.read(path).batches)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_on_the_command_line_nothing_is_written(tmp_path: Path) -> None:
    """Exit code 2, one line, and no database."""
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(HOSTILE["a class"][0])
    words = ["ingest", str(path), "--db", str(tmp_path / "new.duckdb")]
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "run!" not in done.output
    assert not (tmp_path / "new.duckdb").exists()


def test_a_dump_cut_anywhere(tmp_path: Path) -> None:
    """A truncated dump is an error at every length; a changed one an error, or rows."""
    path, draw = tmp_path / "nccl_trace_rank_0", random.Random(0)  # noqa: S311 (no secret)
    outcomes: Counter[str] = Counter()
    for _ in range(300):
        data = bytearray(WHOLE[: draw.randrange(2, len(WHOLE))])
        if draw.random() < 0.7:
            data = bytearray(WHOLE)
            data[draw.randrange(2, len(data))] = draw.randrange(256)
        path.write_bytes(data)
        try:
            list(flight_recorder.read(path).batches)
            outcomes["read"] += 1
        except IngestError:
            outcomes["refused"] += 1
    assert min(outcomes["read"], outcomes["refused"]) > 50


def test_odd_values_are_kept_or_counted(tmp_path: Path) -> None:
    """Wrong types give rows that DuckDB accepts."""
    endless: list[Any] = []
    endless.append(endless)
    wide = [[1] * 60_000] * 4000
    odd = [
        *(None, 3, "text", [1, 2], 2**70, -1, 1.5, float("nan"), "\ud800", "a\0b", {}),
        *(endless, {"a": endless}, wide, True),
    ]
    fields = [*entry(0, 1, 0)]
    entries: list[Any] = [
        {**entry(0, 1, 0), field: value} for field in fields for value in odd
    ]
    entries += [7, None, {}, {"frames": [1, {}]}, entry(0, 1, 0), entry(0, 1, 0)]
    config: Row = {"0": {"ranks": "[[" * 50_000}, "1": 7, "2": {"ranks": "[1e99]"}}
    content = {"version": endless, "entries": entries, "pg_config": config}
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(pickle.dumps(content, protocol=4))
    log = tmp_path / "a.log"
    records = [record(1, 5)]
    for part in ("header", "metadata", "coll_perf"):
        for field in record(1, 5, at_us=5)[part]:
            for value in odd[:11]:
                one = record(1, 5, at_us=5)
                one[part][field] = value
                records.append(one)
    log.write_text("\n".join(map(json.dumps, records)))
    with tracedb.open() as database, ingests_until(None):
        database.ingest([path, log])
        counts = database.sql(
            "SELECT event_count FROM raw.trace ORDER BY trace_id"
        ).rows()
        assert counts == [(len(entries) - 2,), (len(records),)]
        for question in ("stuck_collective", "last_collective", "logged_collective"):
            assert database.ask(question) is not None
