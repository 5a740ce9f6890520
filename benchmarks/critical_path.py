"""Measure graph and critical path of a trace against HTA and networkx.

    python benchmarks/critical_path.py --quick
    python benchmarks/critical_path.py --peers --write docs/benchmarks.md

Every figure comes from a process of its own, of which nothing but the work itself
counts: not the imports, nor the load of the trace, which has a row of its own. Traces
are generated with as many waits as asked for (`waiting_job.py`), or a real one repeated
(`scale.py`), and kept in a cache. Fails where the longest path of networkx is not the
simulated end, to the nanosecond. Needs Linux. Prints Markdown, which is a section of
the page that `--write` names.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
import textwrap
from collections import defaultdict
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from measure import (
    CONTROL,
    CORPUS,
    GB,
    MB,
    Bounds,
    Clock,
    Outcome,
    Task,
    add_bounds,
    bounds,
    cache,
    ingest_until,
    is_wanted,
    measure,
    medians,
    peers_python,
    scaled,
    tell,
    work_if_asked,
)
from pages import (
    WIDTH,
    filled,
    goal,
    goal_table,
    machine,
    middle_of,
    parser,
    publish_section,
    ratio,
    table,
    written_by,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

LAYERS = ("graph", "overhead", "prediction", "simulation", "critical_path")
MILLION = 1_000_000
STORING = "storing"
SHARE = 20
"""How many times less CPU time than HTA everything should take."""


# The measured work. Each function runs in a process of its own, and reports the cost of
# each part.


@dataclass(frozen=True)
class Job(Task):
    """A trace, and a folder through which processes pass files on."""

    folder: Path

    @property
    def staged(self) -> Path:
        """The database up to staging."""
        return self.folder / "staged.duckdb"

    @property
    def computed(self) -> Path:
        """The database with all layers."""
        return self.folder / "computed.duckdb"

    @property
    def edges(self) -> Path:
        """The input of networkx."""
        return self.folder / "edges.npy"


def ingest(task: Job) -> Iterator[Outcome]:
    """Ingest up to staging: what HTA calls loading."""
    import tracedb

    clock = Clock()
    with clock, tracedb.open(task.staged) as database:
        ingest_until("staging", database.connection, task.path)
    yield Outcome.of(clock, part="load")


def compute(task: Job) -> Iterator[Outcome]:
    """Compute and store the layers above staging, one relation at a time."""
    import tracedb
    from tracedb import catalog

    shutil.copy(task.staged, task.computed)
    names = {r.full_name for r in catalog.relations() if r.layer in LAYERS}
    with tracedb.open(task.computed) as database:
        connection = database.connection
        connection.execute("BEGIN")
        computing = catalog.compute(connection, [1], names)
        name = next(computing, None)
        while name is not None:
            clock = Clock()
            with clock:
                following = next(computing, None)
            yield Outcome.of(clock, part=name)
            name = following
        clock = Clock()
        with clock:
            connection.execute("COMMIT")
            database.close()
    yield Outcome.of(clock, part=STORING)


def export(task: Job) -> Iterator[Outcome]:
    """Export the graph for networkx, and count it."""
    import node_graph
    import numpy as np

    import tracedb

    with tracedb.open(task.computed, read_only=True) as database:
        connection = database.connection
        edges = node_graph.edges(connection)
        np.save(task.edges, edges.to_numpy())
        yield Outcome(result=node_graph.simulated_end_ns(connection), part="end")
        yield Outcome(result=edges["target"].n_unique() + 1, part="nodes")
        yield Outcome(result=len(edges), part="edges")
        for part, relation in COUNTED.items():
            [(count,)] = connection.execute(
                f"SELECT count(*) FROM {relation}"
            ).fetchall()
            yield Outcome(result=count, part=part)


COUNTED = {
    "host waits": "graph.host_wait",
    "stream waits": "graph.stream_wait",
    "segments": "simulation.segment_time WHERE variant_id = 1",
    "hops": "critical_path.measured_hop",
}


def hta(task: Job) -> Iterator[Outcome]:
    """Let HTA load the trace and find its critical path."""
    analysis_of = import_module("hta.trace_analysis").TraceAnalysis
    loading, searching = Clock(), Clock()
    with loading:
        analysis = analysis_of(trace_files={0: str(task.path)}, trace_dir="/")
    yield Outcome.of(loading, part="load")
    with searching:
        graph, is_found = analysis.critical_path_analysis(0, "", None)
    if not is_found:
        raise ValueError("found no critical path")
    yield Outcome.of(searching, len(graph.critical_path_nodes), "path")


def networkx(task: Job) -> Iterator[Outcome]:
    """Let networkx find the longest path."""
    import node_graph

    building, searching = Clock(), Clock()
    length_ns = node_graph.longest_path_ns(task.edges, building, searching)
    both = Clock()
    both.cpu_s = building.cpu_s + searching.cpu_s
    both.wall_s = building.wall_s + searching.wall_s
    yield Outcome.of(both, length_ns, "path")


class Tool(NamedTuple):
    """A tool that processes a trace, or prepares it for others."""

    work: Callable[[Job], Iterator[Outcome]]
    is_peer: bool = False
    """Whether it runs in the environment of the peers."""
    is_once: bool = False
    """Whether it runs once only: it is slow, or not one of our figures."""


TOOLS = {
    "ingest": Tool(ingest, is_once=True),
    "compute": Tool(compute),
    "export": Tool(export, is_once=True),
    "networkx": Tool(networkx, is_peer=True, is_once=True),
    "hta": Tool(hta, is_peer=True, is_once=True),
}
"""In order; each uses what earlier ones left."""


# The traces.


class Trace(NamedTuple):
    """A trace, and what is known about it."""

    title: str
    path: Path
    events: int
    waits: int | None = None
    is_for_hta: bool = True
    """Whether HTA, which takes minutes, runs too."""


def traces(*, quick: bool, wanted: list[str]) -> Iterator[Trace]:
    """Yield the traces; each is generated when needed."""
    for events, waits, is_for_hta in QUICK if quick else SIZES:
        title = f"waiting job, {events:,} events, {waits:,} waits"
        if is_wanted(title, wanted):
            yield _generated(title, events, waits)._replace(is_for_hta=is_for_hta)
    source = CORPUS / CONTROL
    title = f"trace_diff_control, {MILLION:,} events"
    if not quick and source.exists() and is_wanted(title, wanted):
        yield Trace(title, *scaled(source, MILLION))


QUICK = ((20_000, 1_000, True), (60_000, 1_000, True), (60_000, 5_000, True))
SIZES = (
    (MILLION, 1_000, True),
    (MILLION, 100_000, True),
    (MILLION, 10, False),
    (500_000, 1_000, False),
    (250_000, 1_000, False),
)
"""Events, waits, and whether HTA runs."""


def _generated(title: str, events: int, waits: int) -> Trace:
    import waiting_job

    path = generated(events, waits)
    count = path.read_bytes().count(b'"ph": ')
    job = waiting_job.waiting_job(events, waits)
    return Trace(title, path, count, waiting_job.count_waits(job))


def generated(events: int, waits: int) -> Path:
    """Generate a job's trace, unless it is cached."""
    import waiting_job

    from tracedb.synthetic import Delays, Form, execute

    digest = hashlib.sha256(Path(waiting_job.__file__).read_bytes()).hexdigest()
    path = cache() / f"waiting_job-{events}-{waits}-{digest[:12]}.json"
    if not path.exists():
        tell(f"making {path.name}")
        job = waiting_job.waiting_job(events, waits)
        [trace] = execute(job, Delays(jitter=0.1), seed=1)
        trace.write(path, Form(sync_events=True))
    return path


# All measurements.


class Results(NamedTuple):
    """Results for one trace: medians by tool and part, and failures by tool."""

    trace: Trace
    parts: dict[tuple[str, str], Outcome]
    failures: dict[str, str]

    def layer(self, layer: str) -> Outcome | None:
        """All relations of a layer together, with the highest memory."""
        return _together(
            [
                outcome
                for (tool, part), outcome in self.parts.items()
                if tool == "compute" and part.split(".")[0] == layer
            ]
        )

    @property
    def measured_path(self) -> Outcome | None:
        """Graph and measured path, which is what HTA computes."""
        needed = path_relations()
        return _together(
            [
                outcome
                for (tool, part), outcome in self.parts.items()
                if tool == "compute" and (part in needed or part == STORING)
            ]
        )

    @property
    def all_layers(self) -> Outcome | None:
        """Everything that tracedb does above staging."""
        return _together(
            [o for (tool, _), o in self.parts.items() if tool == "compute"]
        )

    def result(self, tool: str, part: str) -> int | None:
        """A tool's result, if it succeeded."""
        outcome = self.parts.get((tool, part))
        return None if outcome is None else outcome.result


def path_relations() -> frozenset[str]:
    """Names of the graph's edges, of the measured path, and of what both read."""
    from tracedb import catalog

    reads = {one.full_name: one.reads for one in catalog.declared()}
    needed: frozenset[str] = frozenset()
    left = frozenset({"graph.edge", "critical_path.measured_interval"})
    while left:
        needed |= left
        left = frozenset().union(*(reads[name] for name in left)) - needed
    return needed


def _together(outcomes: list[Outcome]) -> Outcome | None:
    if not outcomes:
        return None
    return Outcome(
        sum(outcome.cpu_s for outcome in outcomes),
        sum(outcome.wall_s for outcome in outcomes),
        max(outcome.peak_bytes for outcome in outcomes),
    )


class Plan(NamedTuple):
    """What to measure, how often, within which bounds."""

    pythons: dict[str, Path]
    runs: int
    bounds: Bounds

    def tools_for(self, trace: Trace) -> list[str]:
        """All tools, without HTA where it does not run."""
        return [tool for tool in self.pythons if trace.is_for_hta or tool != "hta"]


def measure_all(plan: Plan, trace: Trace) -> Results:
    """Run all tools on a trace, one after another."""
    results = Results(trace, {}, {})
    with tempfile.TemporaryDirectory() as folder:
        task = Job(trace.path, plan.bounds.memory_bytes, Path(folder))
        for tool in plan.tools_for(trace):
            _measure(plan, tool, task, results)
    _compare(results)
    return results


def _measure(plan: Plan, tool: str, task: Job, results: Results) -> None:
    runs: dict[str, list[Outcome]] = defaultdict(list)
    for _ in range(1 if TOOLS[tool].is_once else plan.runs):
        limit_s, python = plan.bounds.timeout_s, plan.pythons[tool]
        outcomes = measure(__file__, tool, task, limit_s, python)
        tell(f"{results.trace.title}, {tool}: {_reported(outcomes)}")
        if outcomes[0].failure:
            results.failures[tool] = outcomes[0].failure
            return
        for outcome in outcomes:
            runs[outcome.part].append(outcome)
    for part, same in runs.items():
        results.parts[tool, part] = medians(same)


def _reported(outcomes: list[Outcome]) -> str:
    failure = outcomes[0].failure
    return failure or f"{sum(outcome.cpu_s for outcome in outcomes):.2f} s of CPU"


def _compare(results: Results) -> None:
    """Compare the simulation with networkx."""
    simulated, found = (
        results.result("export", "end"),
        results.result("networkx", "path"),
    )
    if found is not None and simulated != found:
        raise ValueError(
            f"{results.trace.title}: the simulation ends at {simulated} ns, "
            f"networkx's longest path at {found} ns"
        )


# The page.

PAGE = """\
## Critical path

Cost of the graph and the critical path. {written_by}

{about}

- tracedb, all of these: the layers above staging, each relation by `catalog.compute` as
  in an ingest, and `storing`, which commits and closes the file. That is the measured
  path of every step, and a simulation of the whole trace for each prediction method.
- tracedb, graph and measured path: only the relations that the edges of the graph and
  the measured path of every step need, and `storing`: what HTA computes.
- HTA, critical path: `critical_path_analysis(0, "", None)`, the whole trace; PyPI's
  `traceinsight`.
- networkx, longest path: `dag_longest_path_length` on a node for the end of every span
  of host time and GPU work, made from the simulation's inputs (one method), including
  building that `DiGraph`, but not the export. Its length equals the simulated end to
  the nanosecond, or the program fails.
- load: what precedes either, and does not count: tracedb's ingest up to staging, HTA's
  `TraceAnalysis(trace_files={{0: path}}, trace_dir="/")`.
- waiting job: generated by `benchmarks/waiting_job.py`, one host thread, four streams,
  50 steps, every wait recorded (`cuda_sync`): a quarter are host waits on a stream, a
  quarter host waits on the device, half stream waits on an event.
"""
ABOUT = (
    "The machine has {machine}. Each relation of tracedb is {middle}, everything else "
    "was done once, in separate processes. A tool without a row was not run (HTA "
    "takes minutes), or failed as stated below the table. The machine was shared: "
    "compare CPU seconds (user and system). Peaks are of the process during that "
    "work, including what it had before. A process may use {memory:g} GB of memory, "
    "and {timeout:g} s."
)
HEAD = ["work", "CPU s", "wall s", "peak MB", "÷ tracedb"]


def introduction(plan: Plan, peers: Path | None) -> str:
    """What was measured, and on which machine."""
    about = filled(
        ABOUT,
        machine=machine(peers),
        middle=middle_of(plan.runs),
        memory=plan.bounds.memory_bytes / GB,
        timeout=plan.bounds.timeout_s,
    )
    return PAGE.format(written_by=written_by(), about=about)


def section(results: Results) -> str:
    """The results of one trace."""
    failures = (f"- {tool}: {why}" for tool, why in results.failures.items())
    lines = [
        f"### {results.trace.title}\n",
        f"{_facts(results)}\n",
        *table(HEAD, _rows(results)),
        "",
        *_wrapped(_costly(results)),
        *failures,
    ]
    return "\n".join(lines).rstrip() + "\n"


def _wrapped(text: str) -> list[str]:
    return [*textwrap.wrap(text, WIDTH), ""] if text else []


def _facts(results: Results) -> str:
    waits = results.trace.waits
    made = "" if waits is None else f"; made with {waits:,} waits"
    found = {part: results.result("export", part) for part in COUNTED}
    counted = ", ".join(f"{count:,} {part}" for part, count in found.items() if count)
    text = f"{results.trace.events:,} events{made}. Found: {counted}."
    end_ns = results.result("networkx", "path")
    if end_ns is not None:
        nodes, edges = (
            results.result("export", part) or 0 for part in ("nodes", "edges")
        )
        text += (
            f" networkx's longest path, over {nodes:,} nodes and {edges:,} edges, and "
            f"the simulation both end at {end_ns:,} ns."
        )
    return textwrap.fill(text, WIDTH)


def _rows(results: Results) -> Iterator[list[str]]:
    ours = results.all_layers
    named = [(f"tracedb, {name}", results.layer(name)) for name in (*LAYERS, STORING)]
    named += [
        ("**tracedb, all of these**", ours),
        ("**tracedb, graph and measured path**", results.measured_path),
    ]
    named += [
        (title, results.parts.get(key))
        for title, key in {
            "HTA, critical path": ("hta", "path"),
            "networkx, longest path": ("networkx", "path"),
            "load: tracedb, up to staging": ("ingest", "load"),
            "load: HTA": ("hta", "load"),
        }.items()
    ]
    for title, outcome in named:
        if outcome and ours:
            yield [
                title,
                f"{outcome.cpu_s:.2f}",
                f"{outcome.wall_s:.2f}",
                f"{outcome.peak_bytes / MB:,.0f}",
                ratio(outcome.cpu_s, ours.cpu_s),
            ]


def _costly(results: Results) -> str:
    """The most expensive relations."""
    computed = [o for (tool, _), o in results.parts.items() if tool == "compute"]
    first = sorted(computed, key=lambda outcome: -outcome.cpu_s)[:6]
    reported = (f"`{outcome.part}` {outcome.cpu_s:.2f} s" for outcome in first)
    return f"Most CPU time: {', '.join(reported)}." if first else ""


def growth(found: list[Results]) -> str:
    """Growth of CPU time with events and waits."""
    rows = []
    for results in found:
        path, ours = results.parts.get(("hta", "path")), results.all_layers
        if results.trace.waits is None or ours is None:
            continue
        layers = [results.layer(layer) for layer in LAYERS]
        rows.append(
            [
                f"{results.trace.events:,}",
                f"{results.trace.waits:,}",
                *(f"{layer.cpu_s:.2f}" if layer else "" for layer in layers),
                f"{ours.cpu_s:.2f}",
                f"{path.cpu_s:.2f}" if path else "",
            ]
        )
    head = ["events", "waits", *LAYERS, "all", "HTA, critical path"]
    title = "### Growth\n\nCPU seconds of the generated traces.\n"
    return "\n".join([title, *table(head, rows, left=0), ""]) if rows else ""


def goals(found: list[Results]) -> str:
    """Goals and results."""
    rows = [row for results in found for row in _against_hta(results)]
    return goal_table([*rows, *_events_growth(found), *_waits_growth(found)])


def _against_hta(results: Results) -> Iterator[list[str]]:
    peer = results.parts.get(("hta", "path"))
    ours = {
        "graph and measured path": results.measured_path,
        "all layers": results.all_layers,
    }
    for name, outcome in ours.items():
        if outcome and peer and results.trace.events >= MILLION:
            text = f"{name}: CPU s at most 1/{SHARE} of HTA's"
            yield [results.trace.title, *goal(text, outcome.cpu_s, peer.cpu_s / SHARE)]


def _events_growth(found: list[Results]) -> Iterator[list[str]]:
    """Compare the smallest with the largest trace of equal waits."""
    by_waits = defaultdict(list)
    for results in found:
        by_waits[results.trace.waits].append(results)
    for waits, alike in by_waits.items():
        alike.sort(key=lambda results: results.trace.events)
        small, large = alike[0], alike[-1]
        times = small.all_layers, large.all_layers
        if waits and large.trace.events > small.trace.events and times[0] and times[1]:
            text = f"{waits:,} waits: CPU s over those of {small.trace.events:,} events"
            bound = n_log_n(small.trace.events, large.trace.events)
            row = goal(text, times[1].cpu_s / times[0].cpu_s, bound)
            yield [large.trace.title, *row]


def _waits_growth(found: list[Results]) -> Iterator[list[str]]:
    """Compare the largest traces: additional waits cost time in the simulation."""
    most = max((results.trace.events for results in found), default=0)
    alike = [
        results
        for results in found
        if results.trace.waits and results.trace.events > 0.9 * most
    ]
    alike.sort(key=lambda results: results.trace.waits or 0)
    for few, many in pairwise(alike):
        before, after = few.layer("simulation"), many.layer("simulation")
        if before and after and few.trace.waits and many.trace.waits:
            text = f"layer simulation: CPU s over those of {few.trace.waits:,} waits"
            bound = n_log_n(few.trace.waits, many.trace.waits)
            yield [many.trace.title, *goal(text, after.cpu_s / before.cpu_s, bound)]


def n_log_n(small: int, large: int) -> float:
    """By how much work grows that takes n log n.

    >>> n_log_n(1_000, 1_000_000)
    2000.0
    """
    return round(large * log(large) / (small * log(small)), 9)


def arguments() -> argparse.Namespace:
    """The command line."""
    asked = parser(__doc__)
    say = asked.add_argument
    say("--quick", action="store_true", help="small traces, one run each")
    say("--peers", action="store_true", help="install HTA and networkx, if missing")
    say("--runs", type=int, default=3, help="how often tracedb computes the layers")
    say("--traces", nargs="+", default=[], help="words of the titles of those wanted")
    add_bounds(asked)
    return asked.parse_args()


def main() -> None:
    """Measure and write the section, or work as a child process."""
    work_if_asked(Job, {name: tool.work for name, tool in TOOLS.items()})
    given = arguments()
    peers, own = peers_python(install=given.peers), Path(sys.executable)
    pythons = {
        tool: peers if TOOLS[tool].is_peer and peers else own
        for tool in TOOLS
        if peers or not TOOLS[tool].is_peer
    }
    runs = 1 if given.quick else given.runs
    plan = Plan(pythons, runs, bounds(given))
    found: list[Results] = []
    text = introduction(plan, peers)
    for trace in traces(quick=given.quick, wanted=given.traces):
        found.append(measure_all(plan, trace))
        parts = [introduction(plan, peers), *map(section, found)]
        text = "\n".join(filter(None, [*parts, growth(found), goals(found)]))
        if given.write:
            publish_section(text, given.write)
    publish_section(text, given.write)


if __name__ == "__main__":
    main()
