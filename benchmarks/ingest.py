"""Measure what loading a trace takes, beside HTA, orjson, json and DuckDB's reader.

    python benchmarks/ingest.py --quick
    python benchmarks/ingest.py --peers --write docs/benchmarks.md

Every figure comes from a process of its own: CPU seconds (user and system) and wall
seconds of the loading alone, without imports, and the peak of its resident memory. The
tools take turns, so that a busy machine is busy for all of them. Large traces are made
with `scale.py` and kept in a cache. Needs Linux. Prints Markdown.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import hashlib
import inspect
import json
import os
import platform
import re
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import defaultdict
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
SCALE = Path(__file__).with_name("scale.py")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
MB, GB = 10**6, 10**9
LARGE = 2_000_000
"""From so many events on, one run is enough."""


# What is measured. Each of these functions runs in a process of its own, and returns
# how many events it ends up with; what it does within the clock counts.


class Clock:
    """Takes the time of a `with` block, that of processes it waited for included."""

    cpu_s = wall_s = 0.0

    def __enter__(self) -> None:
        """Start."""
        self.cpu_s -= _cpu_seconds()
        self.wall_s -= time.perf_counter()

    def __exit__(self, *_error: object) -> None:
        """Stop."""
        self.cpu_s += _cpu_seconds()
        self.wall_s += time.perf_counter()


def _cpu_seconds() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class Task(NamedTuple):
    """A file to load, and what a tool may want to know of it before."""

    path: Path
    json_bytes: int
    is_list: bool
    memory_bytes: int

    @classmethod
    def parse(cls, text: str) -> Task:
        """Read a task as `json.dumps` writes it."""
        path, *others = json.loads(text)
        return cls(Path(path), *others)

    def dump(self) -> str:
        """Write it for `parse`."""
        return json.dumps([str(self.path), *self[1:]])


class NotThereError(Exception):
    """What is to be measured does not exist in this version."""


def tracedb_all(task: Task, clock: Clock, until: str | None = None) -> int:
    """Ingest into a database on disk, and close it."""
    import polars  # noqa: F401, ICN001 (imports are not measured)

    import tracedb
    from tracedb.ingest import ingest

    words: dict[str, Any] = {"run": None, "pair": False, "progress": lambda _line: None}
    if until is not None:
        if "until" not in inspect.signature(ingest).parameters:
            raise NotThereError("this version cannot stop there")
        words["until"] = until
    with (
        tempfile.TemporaryDirectory() as folder,
        clock,
        tracedb.open(Path(folder) / "run.duckdb") as database,
    ):
        ingest(database.connection, [task.path], **words)
        return int(database.sql("SELECT count(*) FROM raw.event").item())


def tracedb_raw(task: Task, clock: Clock) -> int:
    """Ingest until `raw.event` is filled."""
    return tracedb_all(task, clock, "raw")


def tracedb_staging(task: Task, clock: Clock) -> int:
    """Ingest until staging answers, with parents and links."""
    return tracedb_all(task, clock, "staging")


def hta(task: Task, clock: Clock) -> int:
    """Load, as every analysis of HTA does first."""
    analysis_of = import_module("hta.trace_analysis").TraceAnalysis
    with clock:
        analysis = analysis_of(trace_files={0: str(task.path)}, trace_dir="/")
    return len(analysis.t.get_trace(0))


def orjson_gc_on(task: Task, clock: Clock) -> int:
    """Load all into Python objects."""
    return _objects(task, clock, import_module("orjson").loads)


def orjson_gc_off(task: Task, clock: Clock) -> int:
    """Load all into Python objects without Python looking for cycles meanwhile."""
    gc.disable()
    return orjson_gc_on(task, clock)


def json_loads(task: Task, clock: Clock) -> int:
    """Load all into Python objects."""
    return _objects(task, clock, json.loads)


def _objects(task: Task, clock: Clock, loads: Callable[[bytes], Any]) -> int:
    with clock:
        stored = task.path.read_bytes()
        text = gzip.decompress(stored) if task.path.suffix == ".gz" else stored
        document = loads(text)
    return len(document["traceEvents"] if isinstance(document, dict) else document)


def duckdb_read_json(task: Task, clock: Clock) -> int:
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


def _read_json(task: Task) -> str:
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
    """Something that loads traces."""

    title: str
    load: Callable[[Task, Clock], int]
    is_peer: bool = False
    """Whether it is in the environment of its own."""


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


# One measurement: a process that loads, and this one, which watches its memory.


class Outcome(NamedTuple):
    """What one load took; with a failure, nothing else is known."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_bytes: int = 0
    events: int = 0
    failure: str = ""


def load(tool: str, task: Task) -> None:
    """Be the process that loads, and print the outcome."""
    clock = Clock()
    try:
        events = TOOLS[tool].load(task, clock)
        outcome = Outcome(clock.cpu_s, clock.wall_s, _peak_bytes(), events)
    except Exception as error:  # noqa: BLE001 (a peer may raise anything)
        outcome = Outcome(failure=_reason(error, task))
    print(json.dumps(outcome))


def _peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _reason(error: Exception, task: Task) -> str:
    """What went wrong, in a line without the paths of this machine."""
    if isinstance(error, NotThereError):
        return str(error)
    kind = type(error).__name__
    if isinstance(error, MemoryError) or kind == "OutOfMemoryException":
        return _out_of_memory(task)
    line = re.sub(r"/\S+", "...", (str(error).splitlines() or [""])[0])
    return f"{kind}: {line[:100]}"


def _out_of_memory(task: Task) -> str:
    return f"out of memory at {task.memory_bytes / GB:g} GB"


def measure(python: Path, tool: str, task: Task, timeout_s: float) -> Outcome:
    """Load once in a process of its own, which is ended when it takes too much."""
    command = [str(python), "-I", __file__, "--load", tool, task.dump()]
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(  # noqa: S603 (our own program)
            command, stdout=out, stderr=subprocess.DEVNULL
        )
        try:
            peak_bytes = _watch(process, timeout_s, task.memory_bytes)
        except TimeoutError:
            return Outcome(failure=f"not done in {timeout_s:g} s")
        except MemoryError:
            return Outcome(failure=_out_of_memory(task))
        finally:
            process.kill()
            process.wait()
        out.seek(0)
        lines = out.read().decode().splitlines()
    if process.returncode:
        return Outcome(failure=f"ended with code {process.returncode}")
    outcome = Outcome(*json.loads(lines[-1]))
    return outcome._replace(peak_bytes=max(peak_bytes, outcome.peak_bytes))


def _watch(
    process: subprocess.Popen[bytes], timeout_s: float, memory_bytes: int
) -> int:
    """Wait for a process; return the most memory it had together with its children."""
    peak_bytes, started = 0, time.monotonic()
    while process.poll() is None:
        peak_bytes = max(peak_bytes, sum(map(_resident_bytes, _family(process.pid))))
        if peak_bytes > memory_bytes:
            raise MemoryError
        if time.monotonic() - started > timeout_s:
            raise TimeoutError
        time.sleep(0.1)
    return peak_bytes


def _family(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _text(children).split():
            yield from _family(int(child))


def _resident_bytes(pid: int) -> int:
    pages = _text(Path(f"/proc/{pid}/statm")).split()
    return int(pages[1]) * resource.getpagesize() if pages else 0


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has ended
        return ""


# The traces.


class Trace(NamedTuple):
    """A trace to load."""

    title: str
    layout: str
    path: Path
    events: int
    json_bytes: int
    is_list: bool

    def task(self, memory_bytes: int) -> Task:
        """Return what a tool is told."""
        return Task(self.path, self.json_bytes, self.is_list, memory_bytes)


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
CONTROL = "hta/trace_diff_control.json.gz"
NATIVE = "as Kineto writes it, several lines an event"


def traces(*, quick: bool, wanted: list[str]) -> Iterator[Trace]:
    """Yield the traces, those that have to be made when it is their turn."""
    files = [(CORPUS / name, *told) for name, told in CORPUS_FILES.items()]
    for path, title, layout in files[: 1 if quick else None]:
        if path.exists() and _is_wanted(title, wanted):
            yield _trace(title, layout, path)
    for events in (200_000,) if quick else (1_000_000, 5_000_000):
        size = f"{events / MB:g} M"
        if _is_wanted(title := f"training job, {size}", wanted):
            yield _scaled(title, NATIVE, _training_job(), events)
        if quick or not (CORPUS / CONTROL).exists():
            continue
        if _is_wanted(title := f"trace_diff_control, {size}", wanted):
            yield _scaled(title, NATIVE, CORPUS / CONTROL, events)


def _is_wanted(title: str, wanted: list[str]) -> bool:
    return not wanted or any(word in title for word in wanted)


def _trace(title: str, layout: str, path: Path) -> Trace:
    stored = path.read_bytes()
    text = gzip.decompress(stored) if path.suffix == ".gz" else stored
    document = json.loads(text)
    is_list = isinstance(document, list)
    events = len(document if is_list else document["traceEvents"])
    return Trace(title, f"gzip; {layout}", path, events, len(text), is_list)


def _scaled(title: str, layout: str, source: Path, events: int) -> Trace:
    """Scale a trace, unless the same was done before."""
    digest = hashlib.sha256(source.read_bytes() + SCALE.read_bytes()).hexdigest()
    path = _cache() / f"{source.name.partition('.')[0]}-{events}-{digest[:12]}.json"
    said = path.with_suffix(".txt")
    if not said.exists():
        words = [SCALE, source, path, "--events", events]
        tell(f"making {title}")
        done = subprocess.run(  # noqa: S603 (our own program)
            [sys.executable, *map(str, words)], check=True, stdout=subprocess.PIPE
        )
        said.write_bytes(done.stdout)
    count = int(said.read_text().split()[0].replace(",", ""))
    return Trace(title, layout, path, count, path.stat().st_size, is_list=False)


def _training_job() -> Path:
    """Write a generated trace of eight steps, large ones as in a real model."""
    from tracedb.synthetic import Delays, Model, Table, execute, training_job

    model = Model(
        bottom=(*[512] * 60, 64),
        top=(*[1024] * 80, 1),
        tables=tuple(Table(1_000_000, 64, 20) for _ in range(128)),
    )
    path = _cache() / "training_job.json"
    program = training_job(1, ranks=1, steps=8, model=model)
    return execute(program, Delays(), 1)[0].write(path)


def _cache() -> Path:
    folder = CACHE / "tracedb-benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


# The environment of the peers, which are no dependencies of tracedb's.

# HTA was made for pandas 2; with pandas 3 some traces end in a TypeError.
PEERS = ("traceinsight", "pandas<3", "orjson")


def peers_python(*, install: bool) -> Path | None:
    """The interpreter that has the peers; installed on demand, else None."""
    folder = _cache() / "peers"
    done = folder / "installed"
    if not done.exists() and install:
        tell(f"installing {', '.join(PEERS)}")
        _quietly(sys.executable, "-m", "venv", str(folder))
        pip = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        _quietly(str(folder / "bin" / "python"), *pip, *PEERS)
        done.touch()
    return folder / "bin" / "python" if done.exists() else None


def _quietly(*command: str) -> str:
    done = subprocess.run(  # noqa: S603 (our own program)
        command, check=True, text=True, capture_output=True
    )
    return done.stdout


def tell(line: str) -> None:
    """Say what goes on, beside the page."""
    print(line, file=sys.stderr, flush=True)


# All measurements, and the page.

Results = dict[str, list[Outcome]]


class Plan(NamedTuple):
    """What to measure, how often, within which bounds."""

    tools: list[str]
    pythons: dict[str, Path]
    runs: int
    memory_bytes: int
    timeout_s: float

    def runs_of(self, trace: Trace) -> int:
        """How often each tool loads a trace."""
        return self.runs if trace.events < LARGE else 1


def measure_all(plan: Plan, trace: Trace) -> Results:
    """Let the tools take turns, each run beginning with another one."""
    results: Results = defaultdict(list)
    for run in range(plan.runs_of(trace)):
        turn = run % len(plan.tools)
        for tool in plan.tools[turn:] + plan.tools[:turn]:
            if any(outcome.failure for outcome in results[tool]):
                continue
            task = trace.task(plan.memory_bytes)
            outcome = measure(plan.pythons[tool], tool, task, plan.timeout_s)
            results[tool].append(outcome)
            tell(f"{trace.title}, run {run + 1}, {tool}: {_told(outcome)}")
    return results


def _told(outcome: Outcome) -> str:
    peak = outcome.peak_bytes / MB
    return outcome.failure or f"{outcome.cpu_s:.2f} s of CPU, {peak:,.0f} MB"


def medians(results: Results) -> dict[str, Outcome]:
    """The median of each figure, for the tools that did it."""
    return {
        tool: Outcome(*map(statistics.median, zip(*(o[:4] for o in runs), strict=True)))
        for tool, runs in results.items()
        if not any(outcome.failure for outcome in runs)
    }


PAGE = """\
# Loading a trace: how fast, in how much memory

Written by

```
python benchmarks/ingest.py {words}
```

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
    "The machine has {machine}. Each figure is the median of processes of their own, "
    "which took turns; the machine was shared, so compare CPU seconds (user and "
    "system). They are of the loading alone: without imports, but with writing and "
    "closing the database. A process may use {memory:g} GB of memory."
)
COLUMNS = (
    "MB/s are of JSON, decompressed, per CPU second, as are events/s. `kept` is the "
    "share of the events in the file that can be asked for afterwards. The last "
    "columns say how many times the CPU seconds of tracedb a tool takes: those until "
    "the raw events are there (raw), until staging answers with parents and links "
    "(staging), until every layer does (all)."
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
    """What was measured, on what, and what the columns mean."""
    memory = plan.memory_bytes / GB
    about = textwrap.fill(ABOUT.format(machine=machine(peers), memory=memory), 88)
    return PAGE.format(words=words(), about=about, columns=textwrap.fill(COLUMNS, 88))


def section(plan: Plan, trace: Trace, results: Results) -> str:
    """The results of one trace."""
    found = medians(results)
    lines = [
        f"## {trace.title}\n",
        _facts(trace, plan.runs_of(trace)),
        *_table(HEAD, (_row(trace, tool, found) for tool in results if tool in found)),
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
        f"{outcome.events / trace.events:.0%}",
        *(_ratio(outcome, found.get(own)) for own in OURS),
    ]


def _ratio(outcome: Outcome, own: Outcome | None) -> str:
    if own is None:
        return ""
    ratio = outcome.cpu_s / own.cpu_s
    return f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2f}"


def _table(
    head: list[str], rows: Iterable[list[str]], *, left: int = 1
) -> Iterator[str]:
    """A Markdown table; so many columns begin at the left, the others end right."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return (f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


Medians = dict[str, dict[str, Outcome]]


def goals(found: Medians) -> Iterator[str]:
    """What was aimed at for traces of a million events, and what came out."""
    rows = [
        [title, *row]
        for title, of_tool in found.items()
        if title.endswith(", 1 M")
        for row in _goals(of_tool, found.get(title.replace("1 M", "5 M"), {}))
    ]
    if rows:
        table = _table(["trace", "goal", "bound", "measured", "met"], rows, left=2)
        yield "\n".join(["## Goals\n", *table]) + "\n"


def _goals(
    million: dict[str, Outcome], five: dict[str, Outcome]
) -> Iterator[list[str]]:
    raw, staging = million.get("raw"), million.get("staging")
    peer, orjson = million.get("hta"), million.get("orjson")
    if raw and peer:
        text = "raw events: CPU s at most 1/8 of HTA's"
        yield _goal(text, raw.cpu_s, peer.cpu_s / 8)
    if staging and peer:
        text = "up to staging: CPU s at most 1/5 of HTA's"
        yield _goal(text, staging.cpu_s, peer.cpu_s / 5)
    if staging and orjson:
        text = "up to staging: CPU s below orjson's, GC on"
        yield _goal(text, staging.cpu_s, orjson.cpu_s)
    if staging:
        yield _goal("up to staging: peak MB", staging.peak_bytes / MB, 500)
    if staging and (larger := five.get("staging")):
        text = "up to staging: peak MB of 5 M events at most a quarter above"
        yield _goal(text, larger.peak_bytes / MB, 1.25 * staging.peak_bytes / MB)


def _goal(text: str, measured: float, bound: float) -> list[str]:
    met = "yes" if measured <= bound else "no"
    return [text, f"{bound:,.2f}", f"{measured:,.2f}", met]


def machine(peers: Path | None) -> str:
    """What was measured on: the processor, memory and versions."""
    processor = re.search(r"model name\s*: (.+)", _text(Path("/proc/cpuinfo")))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    facts = [
        f"{os.cpu_count()} cores ({processor[1] if processor else platform.machine()})",
        f"{memory / 2**30:.0f} GiB of memory",
        f"Python {platform.python_version()}",
        *(f"{name} {metadata.version(name)}" for name in ("tracedb", "duckdb")),
    ]
    names = ("traceinsight", "pandas", "orjson")
    if peers is not None:
        code = (
            "from importlib.metadata import version as v;"
            f"print(*(f'{{n}} {{v(n)}}' for n in {names}), sep=',')"
        )
        facts += _quietly(str(peers), "-c", code).strip().split(",")
    return ", ".join(facts)


def arguments() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    say = parser.add_argument
    say("--quick", action="store_true", help="two small traces, one run each")
    say(
        "--peers", action="store_true", help="install HTA and orjson beside, if missing"
    )
    say("--write", type=Path, help="write the page into this file too")
    say("--runs", type=int, default=3, help="how often; the largest only once")
    say("--traces", nargs="+", default=[], help="words of the titles of those wanted")
    say("--tools", nargs="+", choices=TOOLS, default=[*TOOLS], help="those wanted")
    say("--memory", type=float, default=12, help="GB that a process may use")
    say("--timeout", type=float, default=900, help="seconds that a load may take")
    say("--load", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def words() -> str:
    """The words of the command line, without folders of this machine."""
    shown = (Path(w).name if Path(w).is_absolute() else w for w in sys.argv[1:])
    return shlex.join(shown)


def main() -> None:
    """Measure, and print the page; or be a process that loads."""
    given = arguments()
    if given.load:
        load(given.load[0], Task.parse(given.load[1]))
        return
    peers = peers_python(install=given.peers)
    tools = [tool for tool in given.tools if peers or not TOOLS[tool].is_peer]
    own = Path(sys.executable)
    pythons = {tool: peers if TOOLS[tool].is_peer and peers else own for tool in tools}
    runs = 1 if given.quick else given.runs
    plan = Plan(tools, pythons, runs, int(given.memory * GB), given.timeout)
    parts = [introduction(plan, peers)]
    found: Medians = {}
    for trace in traces(quick=given.quick, wanted=given.traces):
        results = measure_all(plan, trace)
        found[trace.title] = medians(results)
        parts.append(section(plan, trace, results))
        if given.write:
            given.write.write_text("\n".join([*parts, *goals(found)]))
    print("\n".join([*parts, *goals(found)]))


if __name__ == "__main__":
    main()
