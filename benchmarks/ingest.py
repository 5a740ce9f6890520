"""Measure loading a trace against HTA, orjson, json and DuckDB's reader.

    python benchmarks/ingest.py --quick
    python benchmarks/ingest.py --peers --write docs/benchmarks.md

Every figure comes from a process of its own: CPU seconds (user and system) and wall
seconds of the loading alone, without imports, and the peak of its resident memory. The
tools take turns, so that a busy machine is busy for all of them. Large traces are made
with `scale.py` and kept in a cache. Needs Linux. Prints Markdown, which is a section of
the page that `--write` names.
"""

from __future__ import annotations

import gc
import inspect
import json
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from measure import (
    CONTROL,
    CORPUS,
    GB,
    MB,
    Bounds,
    Clock,
    NotThereError,
    Outcome,
    Task,
    add_bounds,
    bounds,
    cache,
    is_wanted,
    measure,
    medians,
    peers_python,
    scaled,
    tell,
    text_of,
    work_if_asked,
)
from pages import (
    filled,
    goal,
    goal_table,
    machine,
    parser,
    publish_section,
    ratio,
    table,
    written_by,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

LARGE = 2_000_000
"""Larger traces are measured once."""


# The measured work. Each function runs in a process of its own and returns the number
# of events; what runs within the clock counts.


@dataclass(frozen=True)
class File(Task):
    """A file to load, with facts that tools need."""

    json_bytes: int
    is_list: bool


def tracedb_all(task: File, clock: Clock, until: str | None = None) -> int:
    """Ingest into a database on disk, and close it."""
    import polars  # noqa: F401, ICN001 (imports are not measured)

    import tracedb
    from tracedb.ingest import ingest

    options: dict[str, Any] = {
        "run": None,
        "pair": False,
        "progress": lambda _line: None,
    }
    if until is not None:
        if "until" not in inspect.signature(ingest).parameters:
            raise NotThereError("this version cannot stop there")
        options["until"] = until
    with (
        tempfile.TemporaryDirectory() as folder,
        clock,
        tracedb.open(Path(folder) / "run.duckdb") as database,
    ):
        ingest(database.connection, [task.path], **options)
        return int(database.sql("SELECT count(*) FROM raw.event").item())


def tracedb_raw(task: File, clock: Clock) -> int:
    """Ingest until `raw.event` is filled."""
    return tracedb_all(task, clock, "raw")


def tracedb_staging(task: File, clock: Clock) -> int:
    """Ingest until staging, with parents and links."""
    return tracedb_all(task, clock, "staging")


def hta(task: File, clock: Clock) -> int:
    """Load as every analysis of HTA begins."""
    analysis_of = import_module("hta.trace_analysis").TraceAnalysis
    with clock:
        analysis = analysis_of(trace_files={0: str(task.path)}, trace_dir="/")
    return len(analysis.t.get_trace(0))


def orjson_gc_on(task: File, clock: Clock) -> int:
    """Load all into Python objects."""
    return _objects(task, clock, import_module("orjson").loads)


def orjson_gc_off(task: File, clock: Clock) -> int:
    """Load into Python objects with garbage collection disabled."""
    gc.disable()
    return orjson_gc_on(task, clock)


def json_loads(task: File, clock: Clock) -> int:
    """Load all into Python objects."""
    return _objects(task, clock, json.loads)


def _objects(task: File, clock: Clock, loads: Callable[[bytes], Any]) -> int:
    with clock:
        document = loads(text_of(task.path))
    return len(document["traceEvents"] if isinstance(document, dict) else document)


def duckdb_read_json(task: File, clock: Clock) -> int:
    """Let DuckDB read the file in one query, into a table on disk."""
    import duckdb

    query = _read_json(task)
    with (
        tempfile.TemporaryDirectory() as folder,
        clock,
        duckdb.connect(Path(folder) / "run.duckdb") as database,
    ):
        database.execute(f"SET memory_limit = '{task.memory_bytes}B'")
        database.execute(query, [str(task.path)])
        found = database.execute("SELECT count(*) FROM event").fetchall()
    return int(found[0][0])


def _read_json(task: File) -> str:
    texts = ("ph", "cat", "name", "pid", "tid", "id")
    fields = dict.fromkeys(texts, "VARCHAR") | {"ts": "DOUBLE", "dur": "DOUBLE"}
    fields["args"] = "JSON"
    if task.is_list:
        columns = ", ".join(f"{name}: '{kind}'" for name, kind in fields.items())
        source = f"FROM read_json(?, format := 'array', columns := {{{columns}}})"
    else:
        event = ", ".join(f"{name} {kind}" for name, kind in fields.items())
        source = (
            "SELECT unnest(traceEvents, max_depth := 2) FROM read_json(?, "
            f"columns := {{traceEvents: 'STRUCT({event})[]'}}, "
            f"maximum_object_size := {task.json_bytes + 1})"
        )
    return f"CREATE TABLE event AS {source}"


class Tool(NamedTuple):
    """A tool that loads traces."""

    title: str
    load: Callable[[File, Clock], int]
    is_peer: bool = False
    """Whether it runs in the environment of the peers."""


TOOLS = {
    "raw": Tool("tracedb, raw events", tracedb_raw),
    "staging": Tool("tracedb, up to staging", tracedb_staging),
    "all": Tool("tracedb, all layers", tracedb_all),
    "hta": Tool("HTA, load", hta, is_peer=True),
    "orjson": Tool("orjson.loads", orjson_gc_on, is_peer=True),
    "orjson-gc-off": Tool("orjson.loads, GC off", orjson_gc_off, is_peer=True),
    "json": Tool("json.loads", json_loads),
    "duckdb": Tool("DuckDB read_json", duckdb_read_json),
}
OURS = ("raw", "staging", "all")


def load(tool: Tool, task: File) -> Iterator[Outcome]:
    """Load, and report the cost."""
    clock = Clock()
    events = tool.load(task, clock)
    yield Outcome.of(clock, events)


# The traces.


class Trace(NamedTuple):
    """A trace to load."""

    title: str
    layout: str
    path: Path
    events: int
    json_bytes: int
    is_list: bool

    def task(self, memory_bytes: int) -> File:
        """The task of a tool."""
        return File(self.path, memory_bytes, self.json_bytes, self.is_list)


CORPUS_FILES = {
    "tracelens/mi300/facebook_timesformer-base-finetuned-k400__1016002.json.gz": (
        "timesformer, MI300",
        "every value on a line of its own; metadata before the events; Python stacks",
    ),
    "tracelens/inference/vllm_piecewise/graph_execution.json.gz": (
        "vLLM, graph replay",
        "all on one line; Python stacks",
    ),
    "kineto/resnet50_w4_2020list.json.gz": (
        "resnet50 of 2020",
        "a bare list without a header, several lines an event",
    ),
}
NATIVE = "as Kineto writes it, several lines an event"


def traces(*, quick: bool, wanted: list[str]) -> Iterator[Trace]:
    """Yield the traces; each is generated when needed."""
    files = [(CORPUS / name, *reported) for name, reported in CORPUS_FILES.items()]
    for path, title, layout in files[: 1 if quick else None]:
        if path.exists() and is_wanted(title, wanted):
            yield _trace(title, layout, path)
    for events in (200_000,) if quick else (1_000_000, 5_000_000):
        size = f"{events / MB:g} M"
        if is_wanted(title := f"training job, {size}", wanted):
            yield _scaled(title, _training_job(), events)
        if quick or not (CORPUS / CONTROL).exists():
            continue
        if is_wanted(title := f"trace_diff_control, {size}", wanted):
            yield _scaled(title, CORPUS / CONTROL, events)


def _trace(title: str, layout: str, path: Path) -> Trace:
    text = text_of(path)
    document = json.loads(text)
    is_list = isinstance(document, list)
    events = len(document if is_list else document["traceEvents"])
    return Trace(title, f"gzip; {layout}", path, events, len(text), is_list)


def _scaled(title: str, source: Path, events: int) -> Trace:
    path, count = scaled(source, events)
    return Trace(title, NATIVE, path, count, path.stat().st_size, is_list=False)


def _training_job() -> Path:
    """Write a generated trace of eight steps, scaled to a real model's size."""
    from tracedb.synthetic import Delays, Model, Table, execute, training_job

    model = Model(
        bottom=(*[512] * 60, 64),
        top=(*[1024] * 80, 1),
        tables=tuple(Table(1_000_000, 64, 20) for _ in range(128)),
    )
    path = cache() / "training_job.json"
    program = training_job(1, ranks=1, steps=8, model=model)
    return execute(program, Delays(), 1)[0].write(path)


# All measurements, and the page.

Results = dict[str, list[Outcome]]


class Plan(NamedTuple):
    """What to measure, how often, within which bounds."""

    tools: list[str]
    pythons: dict[str, Path]
    runs: int
    bounds: Bounds

    def runs_of(self, trace: Trace) -> int:
        """How often each tool loads a trace."""
        return self.runs if trace.events < LARGE else 1


def measure_all(plan: Plan, trace: Trace) -> Results:
    """Let the tools take turns; each round starts with a different one."""
    results: Results = defaultdict(list)
    for run in range(plan.runs_of(trace)):
        turn = run % len(plan.tools)
        for tool in plan.tools[turn:] + plan.tools[:turn]:
            if any(outcome.failure for outcome in results[tool]):
                continue
            task = trace.task(plan.bounds.memory_bytes)
            limit_s, python = plan.bounds.timeout_s, plan.pythons[tool]
            [outcome] = measure(__file__, tool, task, limit_s, python)
            results[tool].append(outcome)
            tell(f"{trace.title}, run {run + 1}, {tool}: {_reported(outcome)}")
    return results


def _reported(outcome: Outcome) -> str:
    peak = outcome.peak_bytes / MB
    return outcome.failure or f"{outcome.cpu_s:.2f} s of CPU, {peak:,.0f} MB"


def medians_of(results: Results) -> dict[str, Outcome]:
    """The median of each figure, for tools that succeeded."""
    return {
        tool: medians(runs)
        for tool, runs in results.items()
        if not any(outcome.failure for outcome in runs)
    }


PAGE = """\
## Loading a trace

How fast, in how much memory. {written_by}

{about}

{columns}

- tracedb: `tracedb ingest` of one file into a new database on disk; the rows that stop
  early leave out the layers above.
- HTA, load: `TraceAnalysis(trace_files={{0: path}}, trace_dir="/")`, which is PyPI's
  `traceinsight`.
- orjson.loads, json.loads: the whole file as Python objects, with Python's garbage
  collector looking for cycles meanwhile, or without (GC off).
- DuckDB read_json: one query that unnests `traceEvents` into a table on disk.
"""
ABOUT = (
    "The machine has {machine}. Each figure is the median over separate processes, "
    "which took turns; the machine was shared, so compare CPU seconds (user and "
    "system). They cover only loading: without imports, but with writing and closing "
    "the database. A process may use {memory:g} GB of memory."
)
COLUMNS = (
    "MB/s are of JSON, decompressed, per CPU second, and so are events/s. `kept` is "
    "the share of the events in the file that can be queried afterwards. The last "
    "columns are the CPU seconds of a tool divided by those of tracedb: until the raw "
    "events are stored (raw), until staging is available with parents and links "
    "(staging), until every layer is (all)."
)
HEAD = [
    "tool",
    "CPU s",
    "wall s",
    "peak MB",
    "MB/s",
    "events/s",
    "kept",
    "÷ raw",
    "÷ staging",
    "÷ all",
]


def introduction(plan: Plan, peers: Path | None) -> str:
    """What was measured, where, and the meaning of columns."""
    memory = plan.bounds.memory_bytes / GB
    about = filled(ABOUT, machine=machine(peers), memory=memory)
    columns = filled(COLUMNS)
    return PAGE.format(written_by=written_by(), about=about, columns=columns)


def section(plan: Plan, trace: Trace, results: Results) -> str:
    """The results of one trace."""
    found = medians_of(results)
    lines = [
        f"### {trace.title}\n",
        _facts(trace, plan.runs_of(trace)),
        *table(HEAD, (_row(trace, tool, found) for tool in results if tool in found)),
    ]
    failed = {tool: runs[-1].failure for tool, runs in results.items()}
    notes = [f"- {TOOLS[tool].title}: {why}" for tool, why in failed.items() if why]
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"


def _facts(trace: Trace, runs: int) -> str:
    size = f"{trace.events:,} events, {trace.json_bytes / MB:,.1f} MB of JSON"
    return f"{size}: {trace.layout}. {runs} run{'s' * (runs > 1)} of each tool.\n"


def _row(trace: Trace, tool: str, found: dict[str, Outcome]) -> list[str]:
    outcome = found[tool]
    return [
        TOOLS[tool].title,
        f"{outcome.cpu_s:.2f}",
        f"{outcome.wall_s:.2f}",
        f"{outcome.peak_bytes / MB:,.0f}",
        f"{trace.json_bytes / MB / outcome.cpu_s:.0f}",
        f"{trace.events / outcome.cpu_s:,.0f}",
        f"{outcome.result / trace.events:.0%}",
        *(_ratio(outcome, found.get(own)) for own in OURS),
    ]


def _ratio(outcome: Outcome, own: Outcome | None) -> str:
    return "" if own is None else ratio(outcome.cpu_s, own.cpu_s)


Medians = dict[str, dict[str, Outcome]]


def goals(found: Medians) -> str:
    """Goals for traces of a million events, and results."""
    return goal_table(
        [
            [title, *row]
            for title, of_tool in found.items()
            if title.endswith(", 1 M")
            for row in _goals(of_tool, found.get(title.replace("1 M", "5 M"), {}))
        ]
    )


def _goals(
    million: dict[str, Outcome], five: dict[str, Outcome]
) -> Iterator[list[str]]:
    raw, staging = million.get("raw"), million.get("staging")
    peer, orjson = million.get("hta"), million.get("orjson")
    if raw and peer:
        text = "raw events: CPU s at most 1/8 of HTA's"
        yield goal(text, raw.cpu_s, peer.cpu_s / 8)
    if staging and peer:
        text = "up to staging: CPU s at most 1/5 of HTA's"
        yield goal(text, staging.cpu_s, peer.cpu_s / 5)
    if staging and orjson:
        text = "up to staging: CPU s below orjson's, GC on"
        yield goal(text, staging.cpu_s, orjson.cpu_s)
    if staging:
        yield goal("up to staging: peak MB", staging.peak_bytes / MB, 500)
    if staging and (larger := five.get("staging")):
        text = "up to staging: peak MB of 5 M events at most a quarter above"
        yield goal(text, larger.peak_bytes / MB, 1.25 * staging.peak_bytes / MB)


def arguments() -> argparse.Namespace:
    """The command line."""
    asked = parser(__doc__)
    say = asked.add_argument
    say("--quick", action="store_true", help="two small traces, one run each")
    say(
        "--peers", action="store_true", help="install HTA and orjson beside, if missing"
    )
    say("--runs", type=int, default=3, help="how often; the largest only once")
    say("--traces", nargs="+", default=[], help="words of the titles of those wanted")
    say("--tools", nargs="+", choices=TOOLS, default=[*TOOLS], help="those wanted")
    add_bounds(asked)
    return asked.parse_args()


def main() -> None:
    """Measure and write the section, or work as a child process."""
    work_if_asked(File, {name: partial(load, tool) for name, tool in TOOLS.items()})
    given = arguments()
    peers = peers_python(install=given.peers)
    tools = [tool for tool in given.tools if peers or not TOOLS[tool].is_peer]
    own = Path(sys.executable)
    pythons = {tool: peers if TOOLS[tool].is_peer and peers else own for tool in tools}
    plan = Plan(tools, pythons, 1 if given.quick else given.runs, bounds(given))
    parts = [introduction(plan, peers)]
    found: Medians = {}
    for trace in traces(quick=given.quick, wanted=given.traces):
        results = measure_all(plan, trace)
        found[trace.title] = medians_of(results)
        parts.append(section(plan, trace, results))
        if given.write:
            publish_section("\n".join([*parts, goals(found)]), given.write)
    publish_section("\n".join([*parts, goals(found)]), given.write)


if __name__ == "__main__":
    main()
