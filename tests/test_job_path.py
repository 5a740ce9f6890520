"""A job's critical path from lake data equals that of its traces together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import gloo_job
import numpy as np
import pytest
from click.testing import CliRunner
from lakes import Here
from many_ranks import SLOW_SHARE, ManyRanks
from numpy.typing import NDArray
from support import SAMPLES, Ingested, made, rows

import tracedb
from tracedb import lake
from tracedb.cli.main import tracedb as command
from tracedb.lake import job
from tracedb.lake.worker import contracted, contraction
from tracedb.synthetic import (
    Collective,
    Delays,
    DeviceSync,
    EventRecord,
    Form,
    Gap,
    Launch,
    Op,
    Program,
    Rank,
    StreamWait,
    Thread,
    execute,
    step,
)
from tracedb.synthetic.program import seeded

Numbers = NDArray[np.int64]
SLOW, SLOWNESS = 1, 1.5
"""The rank whose kernels take 1.5 times as long."""


def rank(number: int) -> Rank:
    """Three steps; gradients are reduced on a stream of their own meanwhile."""
    random = seeded("job", number)
    slowness = SLOWNESS if number == SLOW else 1
    body: list[Any] = []
    for at in range(1, 4):
        actions: list[Any] = []
        for layer in range(4):
            kernel_ns = round(random.randrange(90_000, 110_000) * slowness)
            launch = Launch(7, kernel_ns)
            event = f"{at} {layer}"
            actions += [
                *(Gap(random.randrange(1_000, 3_000)), Op("aten::mm", (launch,))),
                *(EventRecord(event, 7), StreamWait(20, event)),
                Op("c10d::allreduce_", (Gap(2_000), Collective(20, 40_000))),
            ]
        body += [step(at, *actions, DeviceSync()), Gap(20_000)]
    return Rank((Thread("main", tuple(body)),))


def write_job(folder: Path) -> None:
    """Three ranks; the last one's clock is ahead."""
    folder.mkdir()
    program = Program(tuple(rank(number) for number in range(3)))
    for number, trace in enumerate(execute(program, Delays(jitter=0.2), 5)):
        path = trace.write(folder / f"{number}.json", Form(sync_events=True))
        if number == 2:
            text = path.read_text()
            before, key, after = text.rpartition('"baseTimeNanoseconds": ')
            base = after.split("}")[0].split(",")[0].strip()
            path.write_text(
                before + key + after.replace(base, f"{int(base) + 300_000}")
            )


@pytest.fixture(scope="module")
def folder() -> Path:
    """The traces of a job with one slow rank."""
    return made("slow_rank_job", write_job)


def kept(database: tracedb.Database) -> duckdb.DuckDBPyConnection:
    """A lake's rows for the traces of a database."""
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA fleet")
    traces = "SELECT trace_id, rank, NULL::VARCHAR AS host FROM staging.trace"
    queries = {one.full_name: contraction(one) for one in contracted()}
    for name, query in {**queries, "fleet.trace": traces}.items():
        connection.register("rows", database.connection.sql(query).to_arrow_table())
        connection.execute(f"CREATE TABLE {name} AS FROM rows")
        connection.unregister("rows")
    return connection


@pytest.fixture(scope="module")
def on_cpus() -> Path:
    """The traces of a job with collectives on CPUs."""

    def write_traces(folder: Path) -> None:
        folder.mkdir()
        gloo_job.write(folder, gloo_job.job_of(4))

    return made("job_on_cpus", write_traces)


JOBS = ["folder", "sample", "on_cpus"]
PATH = """
SELECT step, interval.trace_id, interval.start_ns, interval.end_ns
FROM critical_path.measured_interval AS interval
INNER JOIN critical_path.measured_path AS path USING (scope, path_id)
WHERE scope = 'run'
ORDER BY step, interval.start_ns
"""


@pytest.fixture(params=JOBS)
def together(
    request: pytest.FixtureRequest, ingested: Ingested
) -> Iterator[tracedb.Database]:
    """The ranks of a job, ingested together."""
    paths = sorted((SAMPLES / "generated_gpu").glob("rank*"))
    if request.param != "sample":
        paths = [request.getfixturevalue(request.param)]
    with tracedb.open(ingested(*paths), read_only=True) as database:
        yield database


Stretches = list[tuple[int, ...]]


def whole_path(database: tracedb.Database) -> Stretches:
    """Step, trace, begin and end of each part of the path computed from all events."""
    found: Stretches = []
    for number, trace, begin_ns, end_ns in rows(database, PATH):
        if found and (*found[-1][:2], found[-1][3]) == (number, trace, begin_ns):
            found[-1] = (*found[-1][:3], end_ns)
        else:
            found.append((number, trace, begin_ns, end_ns))
    return found


def test_the_path_equals_that_of_all_events(together: tracedb.Database) -> None:
    """It changes ranks at the same nanoseconds as the path computed from all events."""
    read = job.read(kept(together))
    found = [
        (at.step, int(read.trace_ids[at.trace]), at.start_ns, at.end_ns)
        for at in read.path()
    ]
    assert found == whole_path(together)


def test_unchanged_segments_reproduce_the_job(
    together: tracedb.Database,
) -> None:
    """Every collective ends when it did, to the nanosecond."""
    read = job.read(kept(together))
    begin_ns = read.begin_ns
    assert (read.over_ns(read.weights[0])[:-1] + begin_ns == read.measured_ns).all()


@pytest.fixture(scope="module")
def root(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of the job's traces, each ingested alone."""
    found = tmp_path_factory.mktemp("jobs") / "lake"
    lake.ingest([folder], found, Here(), run="job")
    return found


def test_the_path_from_separately_ingested_ranks(
    root: Path, folder: Path, ingested: Ingested
) -> None:
    """The lake's path equals that of all ranks ingested together."""
    assert_path_of_all(root, folder, ingested)


def test_the_path_across_cpu_collectives(
    on_cpus: Path, ingested: Ingested, tmp_path: Path
) -> None:
    """Ranks meet on the CPU, on threads that run collectives."""
    lake.ingest([on_cpus], tmp_path / "lake", Here(), run="job")
    assert_path_of_all(tmp_path / "lake", on_cpus, ingested)


def assert_path_of_all(root: Path, folder: Path, ingested: Ingested) -> None:
    """The lake's path equals that of an ingest of all ranks, to the nanosecond."""
    found = lake.path_stretches(lake.Place(root))
    with tracedb.open(ingested(folder), read_only=True) as database:
        expected = [(at[0], at[1] - 1, *at[2:]) for at in whole_path(database)]
    assert found["rank"].n_unique() > 1
    assert found.select("step", "rank", "start_ns", "end_ns").rows() == expected


def test_the_slow_rank_is_named(root: Path) -> None:
    """It owns most of the path, and only its slowness slows the job."""
    found = lake.critical_path(lake.Place(root), most=2)
    whole, worst, other = found.rows(named=True)[:3]
    assert (whole["rank"], worst["rank"]) == (None, SLOW)
    assert worst["path_share"] > 0.9
    assert found["path_ns"][1:].sum() == whole["path_ns"]
    assert worst["slowdown"] == pytest.approx(whole["slowdown"], rel=0.01)
    assert 1.3 < worst["slowdown"] < SLOWNESS
    assert other["slowdown"] == pytest.approx(1, abs=0.01)
    words = ["lake", "critical-path", str(root), "--stretches", "--format", "csv"]
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("run,step,rank,host,start_ns,end_ns\njob,1,")


def random_parts(seed: int) -> Mapping[str, list[int]]:
    """Collectives of six ranks in varying groups, on two streams per rank, in order."""
    random = seeded("parts", seed)
    groups = [[0, 1, 2, 3, 4, 5], [0, 1], [2, 3], [4, 5], [0, 2, 4], [1, 3, 5]]
    parts: dict[str, list[int]] = {
        name: []
        for name in ("rank", "group", "number", "source", "previous", "weight", "gap")
    }
    own: dict[int, list[int]] = {rank: [] for rank in range(6)}
    for number in range(60):
        group = random.randrange(len(groups))
        for member in groups[group]:
            earlier = own[member]
            parts["rank"].append(member)
            parts["group"].append(group)
            parts["number"].append(number)
            parts["source"].append(random.choice([-1, *earlier[-3:]]))
            parts["previous"].append(earlier[-1] if earlier else -1)
            parts["weight"].append(random.randrange(1_000))
            parts["gap"].append(random.randrange(10))
            earlier.append(len(parts["rank"]) - 1)
    return parts


@pytest.mark.parametrize("seed", range(5))
def test_varying_groups_equal_a_plain_loop(seed: int) -> None:
    """A collective ends 7 ns after its last rank is ready and its stream is free."""
    parts = random_parts(seed)
    over: dict[tuple[int, int], int] = {}
    at_part: list[tuple[int, int]] = []
    start: list[int] = []
    for place, key in enumerate(zip(parts["group"], parts["number"], strict=True)):
        source, previous = parts["source"][place], parts["previous"][place]
        ready = parts["weight"][place] + (over[at_part[source]] if source >= 0 else 0)
        free = over[at_part[previous]] + parts["gap"][place] if previous >= 0 else 0
        start.append(max(ready, free))
        over[key] = max(over.get(key, 0), start[-1] + 7)
        at_part.append(key)
    begin, end = np.array(start), np.array([over[key] for key in at_part])
    found = solved(parts, begin, end)
    assert (found.over_ns(np.array(parts["weight"]))[:-1] == found.measured_ns).all()
    assert sorted(found.measured_ns) == sorted(over.values())


def solved(parts: Mapping[str, list[int]], begin: Numbers, end: Numbers) -> job.Job:
    """The solved job; a part is queued where its weight leads to the part before."""
    columns = {name: np.array(values) for name, values in parts.items()}
    source = columns["source"]
    base = np.where(source < 0, 0, end[source])
    ready = base + columns["weight"]
    count, zero = len(begin), np.zeros(1, np.int64)
    return job.Job(
        duckdb.connect(),
        np.arange(6),
        np.arange(6),
        [None] * 6,
        job.Parts(
            trace=columns["rank"],
            group=columns["group"],
            group_size=np.full(count, 2),
            number=columns["number"],
            start_ns=begin,
            end_ns=end,
            ready_ns=ready,
            source=source,
            previous=columns["previous"],
        ),
        job.Steps(zero, zero, zero, zero, zero - 1),
    )


def test_a_job_of_thousands_of_ranks() -> None:
    """There are three kinds of groups; the job is slow by what the slow rank is."""
    connection = duckdb.connect()
    whole = ManyRanks(512, 200, slow=77).fill(connection)
    read = job.read(connection)
    assert read.span_ns() == whole
    ideal = read.span_ns(np.zeros(512, np.bool_))
    assert 1.1 < whole / ideal < SLOW_SHARE
    assert read.span_ns(np.arange(512) == 77) == pytest.approx(whole, rel=0.01)
    spent = np.zeros(512)
    for at in read.path():
        spent[at.trace] += at.end_ns - at.start_ns
    assert spent.argmax() == 77
