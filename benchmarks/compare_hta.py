"""Compare the critical path of a step with HTA's, part by part.

    python benchmarks/compare_hta.py --traces alexnet
    python benchmarks/compare_hta.py --peers --write docs/critical-path-hta.md

HTA runs in the environment of the peers, on the same file and step. Its path becomes
rows of a database into which tracedb has ingested the file; every figure is a query
over both (`compare_hta.sql`), also those in the paragraphs (`compare_hta.toml`). Prints
Markdown.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from measure import CORPUS, peers_python, tell
from pages import WIDTH, filled, parser, publish, table, written_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import tracedb

Peer = Any
"""An HTA object, which has no types."""

QUERIES = Path(__file__).with_suffix(".sql")
WHY = Path(__file__).with_suffix(".toml")

# The steps.


class Case(NamedTuple):
    """A step of a trace: the `occurrence`-th mark of the name, from 0."""

    title: str
    path: str
    mark: str
    occurrence: int = 0
    step_mark: str | None = None


STEP = "ProfilerStep#{}"
FORWARD = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"
DLRM = "param/dlrm8/kineto/worker{}.pt.trace.json.gz"
H100, MI300 = "tracelens/h100/", "tracelens/mi300/"
CASES = (
    Case(
        "alexnet",
        "hta/critical_path/alexnet.json.gz",
        FORWARD,
        occurrence=1,
        step_mark=r"\[param.*forward\]",
    ),
    Case("event sync", "hta/critical_path/cuda_event_sync.json.gz", STEP.format(100)),
    Case("ns_resolution, V100", "hta/ns_resolution_rank0.json.gz", STEP.format(102)),
    Case(
        "toy, MI250",
        "hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
        STEP.format(1),
    ),
    Case("nccl_data, A100", "hta/nccl_data.json.gz", STEP.format(5)),
    Case("trace_diff", "hta/trace_diff_control.json.gz", STEP.format(1010)),
    Case(
        "Qwen, H100", H100 + "Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", STEP.format(6)
    ),
    Case(
        "bert-small, H100",
        H100 + "gaunernst_bert-small-uncased__1016001.json.gz",
        STEP.format(6),
    ),
    Case(
        "bert-small, MI300",
        MI300 + "gaunernst_bert-small-uncased__1016001.json.gz",
        STEP.format(6),
    ),
    Case(
        "timesformer, MI300",
        MI300 + "facebook_timesformer-base-finetuned-k400__1016002.json.gz",
        STEP.format(6),
    ),
    *(Case(f"DLRM, rank {n}", DLRM.format(n), STEP.format(10)) for n in (0, 1, 2, 5)),
    Case("torchbench", "torchbench/trace.json", STEP.format(6)),
    Case("trace_compare", "hta/trace_compare_base.json.gz", STEP.format(1009)),
    Case("triton_example", "hta/triton_example.json.gz", STEP.format(1)),
    Case(
        "sglang capture",
        "tracelens/inference/sglang_decode/capture_bs_32_rank0.json.gz",
        STEP.format(134),
    ),
    Case("resnet50 of 2021", "kineto/resnet50_w4_2021b.json.gz", STEP.format(6)),
    Case("resnet50 of 2020", "kineto/resnet50_w4_2020list.json.gz", STEP.format(6)),
    Case("no device", "hta/distributed_info_not_found.json.gz", STEP.format(1009)),
)


# HTA's path: this part runs in the environment of the peers.


def hta(case: Case) -> dict[str, Any]:
    """Let HTA find the path of a step; returns its edges in order."""
    logging.disable(logging.CRITICAL)
    os.environ["CRITICAL_PATH_ADD_ZERO_WEIGHT_LAUNCH_EDGE"] = "1"
    analysis = import_module("hta.trace_analysis").TraceAnalysis(
        trace_files={0: str(CORPUS / case.path)}, trace_dir="/"
    )
    graph, found = analysis.critical_path_analysis(
        rank=0, annotation=case.mark, instance_id=_instance(analysis.t, case)
    )
    if not found:
        raise HtaError("it finds no path")
    nodes = [graph.node_list[node] for node in graph.critical_path_nodes]
    return {
        "nodes": graph.number_of_nodes(),
        "edges": graph.number_of_edges(),
        "first_to_last_ns": _ns(nodes[-1].ts - nodes[0].ts),
        "path": [_edge(graph, *ends) for ends in pairwise(nodes)],
    }


def _instance(trace: Peer, case: Case) -> int:
    """HTA's index of the mark: it counts names that contain it, on devices too."""
    names = trace.symbol_table.get_sym_table()
    rows = trace.get_trace(0)
    found = rows[[case.mark in names[name] for name in rows["name"]]]
    own = (found["stream"] == -1) & [names[name] == case.mark for name in found["name"]]
    return int(own.to_numpy().nonzero()[0][case.occurrence])


def _edge(graph: Peer, source: Peer, target: Peer) -> dict[str, Any]:
    edge = graph.edges[source.idx, target.idx]["object"]
    owner = graph.get_event_attribution_for_edge(edge)
    known = owner is not None and owner >= 0
    return {
        "type": edge.type.name,
        "weight_ns": _ns(edge.weight),
        "bound_by": graph.bound_by(_row(graph, edge, owner)),
        "owner": int(owner) if known else None,
        "source": int(source.ev_idx),
        "source_name": graph._get_node_name(source.ev_idx),  # noqa: SLF001 (no other way)
        "source_is_start": bool(source.is_start),
        "target": int(target.ev_idx),
        "target_is_start": bool(target.is_start),
    }


def _row(graph: Peer, edge: Peer, owner: int | None) -> dict[str, Any]:
    """The input of `bound_by`, as computed by `get_critical_path_breakdown`."""
    row = {"type": edge.type.value, "s_name": "", "stream": -1}
    if owner is None:
        return row
    stream = int(graph.trace_df["stream"].loc[owner])
    return row | {"s_name": graph._get_node_name(owner), "stream": stream}  # noqa: SLF001


def _ns(microseconds: float) -> int:
    return round(float(microseconds) * 1000)


def ask_hta(python: Path, case: Case) -> dict[str, Any]:
    """Run `hta` in the environment of the peers."""
    done = subprocess.run(  # noqa: S603 (our own program)
        [python, __file__, "--hta", case.title],
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise HtaError(done.stderr.strip().splitlines()[-1])
    return dict(json.loads(done.stdout.splitlines()[-1]))


class HtaError(Exception):
    """HTA failed."""


# Both paths in one database.

# HTA numbers events by position in the file, like tracedb from its first event.
EDGES = """
CREATE OR REPLACE TEMP TABLE hta_edge AS
WITH first AS (SELECT min(event_id) AS event_id FROM raw.event)
SELECT
    number,
    edge.type,
    weight_ns,
    bound_by,
    first.event_id + owner AS owner_id,
    first.event_id + source AS source_id,
    target_is_start,
    CASE WHEN source_is_start THEN begins.start_ns ELSE begins.end_ns END AS source_ns,
    CASE WHEN target_is_start THEN ends.start_ns ELSE ends.end_ns END AS target_ns,
    starts_with(begins.name, source_name) AS is_known
FROM edge
CROSS JOIN first
INNER JOIN staging.slice AS begins ON first.event_id + source = begins.event_id
INNER JOIN staging.slice AS ends ON first.event_id + target = ends.event_id
"""
STEP_OF = """
CREATE OR REPLACE TEMP TABLE this_step AS
FROM staging.step WHERE name = ? ORDER BY start_ns LIMIT 1
"""
OURS = """
CREATE OR REPLACE TEMP TABLE ours AS
SELECT start_ns, end_ns, kind, node_id, thread_id
FROM critical_path.interval
WHERE scope = 'step' AND step_id = (SELECT step_id FROM this_step)
"""


def without_outer(case: Case, folder: Path) -> Path:
    """Copy the trace, and rename marks of the same name before the wanted one.

    One of them may enclose the wanted mark, and a mark within another is no step.
    """
    trace = json.loads(gzip.decompress((CORPUS / case.path).read_bytes()))
    marks = (
        event
        for event in trace["traceEvents"]
        if event.get("name") == case.mark and event.get("cat") == "user_annotation"
    )
    for event in sorted(marks, key=lambda mark: float(mark["ts"]))[: case.occurrence]:
        event["name"] = "outer"
    copy = folder / "trace.json"
    copy.write_text(json.dumps(trace))
    return copy


def ingested(case: Case) -> tracedb.Database:
    """A database in memory with the trace, `this_step`, and its path `ours`."""
    import tracedb

    database = tracedb.open()
    with tempfile.TemporaryDirectory() as folder:
        path = without_outer(case, Path(folder)) if case.occurrence else None
        database.ingest([path or CORPUS / case.path], step_mark=case.step_mark)
    database.connection.execute(STEP_OF, [case.mark])
    database.connection.execute(OURS)
    return database


def put_beside(database: tracedb.Database, path: list[dict[str, Any]]) -> None:
    """Add HTA's path as `compare_hta.sql` describes."""
    import polars as pl

    edges = pl.DataFrame(path, infer_schema_length=None).with_row_index("number")
    database.connection.register("edge", edges.to_arrow())
    database.connection.execute(EDGES)
    known = "SELECT count(*) FILTER (is_known) FROM hta_edge"
    if database.sql(known).item() != len(path):
        raise HtaError("its events are not where tracedb has them")
    database.connection.execute(QUERIES.read_text())


# Figures used in tables and paragraphs.

Figures = dict[str, Any]

SUMS = {
    "kind_": "SELECT kind, sum(end_ns - start_ns) FROM ours GROUP BY kind",
    "hta_": "SELECT bound_by, sum(weight_ns) FROM hta_edge GROUP BY bound_by",
    "in_": "SELECT category, sum(time_ns) FROM stretch GROUP BY category",
    "at ": "SELECT said || ' / ' || kind, sum(time_ns) FROM stretch GROUP BY ALL",
}
TIMES = {
    "elapsed": "SELECT end_ns - start_ns FROM this_step",
    "length": "SELECT sum(weight_ns) FROM hta_edge",
    "beyond": """
        SELECT greatest(max(target_ns) - any_value(end_ns), 0)
        FROM hta_edge CROSS JOIN this_step
    """,
    "path": "SELECT sum(end_ns - start_ns) FROM ours",
    "ours": "SELECT sum(our_ns) FROM on_path",
    "theirs": "SELECT sum(their_ns) FROM on_path",
    "shared": "SELECT sum(our_ns) FROM on_path WHERE their_ns IS NOT NULL",
    "shared_theirs": "SELECT sum(their_ns) FROM on_path WHERE our_ns IS NOT NULL",
    "full": "SELECT sum(time_ns) FROM long_launch WHERE queued >= 1000",
    "full_after": "SELECT median(after_ns) FROM long_launch WHERE queued >= 1000",
}
COUNTS = {
    "ours_n": "SELECT count(our_ns) FROM on_path",
    "theirs_n": "SELECT count(their_ns) FROM on_path",
    "shared_n": "SELECT count(our_ns + their_ns) FROM on_path",
    "full_n": "SELECT count(*) FROM long_launch WHERE queued >= 1000",
    "full_least": "SELECT min(queued) FROM long_launch WHERE queued >= 1000",
    "full_most": "SELECT max(queued) FROM long_launch WHERE queued >= 1000",
    "sync_rows": "SELECT count(*) FROM staging.device_wait",
    "inferred": """
        SELECT count(DISTINCT hop)
        FROM critical_path.hop
        INNER JOIN this_step ON scope = 'step' AND path_id = step_id
        INNER JOIN graph.host_wait USING (gpu_op_id)
        WHERE reason = 'return' AND NOT recorded AND until_ns = host_wait.end_ns
    """,
}


def our_figures(database: tracedb.Database) -> Figures:
    """Figures of tracedb for the step, in milliseconds."""
    figures: Figures = {"elapsed": _ms(database.sql(TIMES["elapsed"]).item())}
    figures["path"] = _ms(database.sql(TIMES["path"]).item())
    return figures | _sums(database, "kind_")


def figures_of(database: tracedb.Database, reported: dict[str, Any]) -> Figures:
    """All figures of a step, times in milliseconds."""
    put_beside(database, reported["path"])
    figures = our_figures(database)
    for prefix in ("hta_", "in_", "at "):
        figures |= _sums(database, prefix)
    figures |= {name: _ms(database.sql(query).item()) for name, query in TIMES.items()}
    figures |= {name: database.sql(query).item() for name, query in COUNTS.items()}
    figures |= {name: reported[name] for name in ("nodes", "edges")}
    return figures | {"span": _ms(reported["first_to_last_ns"])}


def _sums(database: tracedb.Database, prefix: str) -> Figures:
    rows = database.sql(SUMS[prefix]).rows()
    return {prefix + name: _ms(time) for name, time in rows if name}


def _ms(nanoseconds: float | None) -> float:
    return float(nanoseconds or 0) / 1e6


# The page.

PAGE = """\
# The critical path, compared with HTA's

{written_by}

{about}

## Two paths of the same step

{summary}

Times are in milliseconds. HTA's length is the sum of its weights; its shares are of
that length, while tracedb's are of the step. `span` is from the first to the last part
of HTA's path. Shares below 0.05 % are omitted.

## Where they differ

Every part of a step is in one column, according to the two paths:

{columns}

{places}

## The same GPU work

GPU ops on each path, and on both (by event), with their time.

{work}

{sections}"""
ABOUT = (
    "HTA ({version}, with CRITICAL_PATH_ADD_ZERO_WEIGHT_LAUNCH_EDGE=1) looks for the "
    "longest path through a graph of weights, from anything to anything: also to GPU "
    "work that outlives the step. tracedb walks back from the end of the step's mark, "
    "along what each part waited for, so its path is as long as the step by "
    "construction; what it cannot explain is `unexplained`. The files are of the test "
    "data of HTA, PyTorch, TraceLens and PARAM."
)
COLUMNS = {
    "same": "both agree: the same host thread at work, the same GPU work, the same gap",
    "gap": "between ops of one thread, which HTA weighs 0, and with it ops shorter "
    "than 1 us, which it drops",
    "elsewhere": "HTA goes along one thread, mostly a gap of it, which it weighs 0; "
    "tracedb along another thread or the device, for which the first one waited",
    "blocked": "a call that blocks, which HTA weighs 0; tracedb goes through what it "
    "waited for",
    "called": "a call that blocks, which HTA calls CPU work",
    "launching": "HTA jumps from a launch to its GPU work with weight 0",
    "device": "HTA is on the host at work, tracedb on the device",
    "host": "HTA is on the device, tracedb on the host",
    "other": "both on the device, in different work",
    "outside": "before the start of HTA's path, or after its end",
}
BEYOND = "beyond"
SHORT = {
    "cpu_bound": "cpu",
    "gpu_compute_bound": "gpu",
    "gpu_communication_bound": "communication",
    "gpu_kernel_kernel_overhead": "gap",
    "gpu_kernel_launch_overhead": "launch",
    "data_loading": "data",
}


TEXTS = {"trace", "HTA: bound by %", "tracedb: kinds %", "HTA"}


def table_of(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table: text left-aligned, figures right-aligned."""
    return "\n".join(table(list(head), map(list, rows), left=0, texts=TEXTS))


def our_cells(figures: Figures) -> list[str]:
    """Cells for tracedb's path in the first table."""
    shares = _shares(figures, "kind_", figures["elapsed"])
    unexplained = figures.get("kind_unexplained", 0) / figures["elapsed"]
    share = figures["path"] / figures["elapsed"]
    return [f"{figures['path']:,.3f}", f"{share:.1%}", shares, f"{unexplained:.2%}"]


def summary(found: Mapping[str, Figures]) -> str:
    """The first table: lengths and shares."""
    head = (
        *("trace", "step", "HTA: length", "of step", "of span", "HTA: bound by %"),
        *("tracedb: path", "of step", "tracedb: kinds %", "unexplained"),
    )
    return table_of(head, ([title, *_summary(of)] for title, of in found.items()))


def _summary(of: Figures) -> list[str]:
    length, elapsed = of["length"], of["elapsed"]
    return [
        f"{elapsed:,.3f}",
        f"{length:,.3f}",
        f"{length / elapsed:.1%}",
        f"{length / of['span']:.1%}",
        _shares(of, "hta_", length),
        *our_cells(of),
    ]


def _shares(figures: Figures, prefix: str, whole: float) -> str:
    named = {
        name.removeprefix(prefix): time
        for name, time in figures.items()
        if name.startswith(prefix) and time / whole >= LEAST
    }
    largest = sorted(named.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{SHORT.get(k, k)} {100 * v / whole:.1f}" for k, v in largest)


LEAST = 0.0005


def places(found: Mapping[str, Figures]) -> str:
    """The second table: one column per part of a step."""
    rows = (
        [
            title,
            *(_time(of.get(f"in_{name}", 0)) for name in COLUMNS),
            _time(of[BEYOND]),
        ]
        for title, of in found.items()
    )
    return table_of(["trace", *COLUMNS, BEYOND], rows)


def _time(milliseconds: float) -> str:
    return f"{milliseconds:,.3f}" if milliseconds else ""


def work(found: Mapping[str, Figures]) -> str:
    """The third table: GPU work on each path."""
    head = (
        *("trace", "tracedb's", "ms", "HTA's", "ms", "on both"),
        *("of tracedb's time", "of HTA's time", "waits inferred", "sync rows"),
    )
    return table_of(head, ([title, *_work(of)] for title, of in found.items()))


def _work(of: Figures) -> list[str]:
    return [
        *(f"{of['ours_n']}", _time(of["ours"])),
        *(f"{of['theirs_n']}", _time(of["theirs"]), f"{of['shared_n']}"),
        f"{of['shared'] / of['ours']:.0%}" if of["ours"] else "",
        f"{of['shared_theirs'] / of['theirs']:.0%}" if of["theirs"] else "",
        *(f"{of['inferred']}", f"{of['sync_rows']}"),
    ]


def section(case: Case, figures: Figures, cells: str) -> str:
    """A trace: why the paths differ, and their cross table."""
    facts = {k: f"{v:,.3f}" if isinstance(v, float) else v for k, v in figures.items()}
    why = tomllib.loads(WHY.read_text()).get(case.title, "")
    reported = fill(why.format_map(defaultdict(lambda: "0", facts)), WIDTH)
    place = f"Step `{case.mark}` of {case.path}"
    return "\n\n".join([f"## {case.title}", f"{place}.", reported, cells]) + "\n"


def crossed(database: tracedb.Database) -> str:
    """HTA's classification of each part (rows) against tracedb's (columns)."""
    rows = database.sql(CROSSED).rows()
    kinds = sorted({kind for _, kind, _ in rows})
    said = sorted({said for said, _, _ in rows})
    time = {(said, kind): _ms(time) for said, kind, time in rows}
    return table_of(
        ["HTA", *kinds],
        (
            [name, *(_time(time.get((name, kind), 0)) for kind in kinds)]
            for name in said
        ),
    )


CROSSED = "SELECT said, kind, sum(time_ns) FROM stretch GROUP BY said, kind"


def page(python: Path, wanted: list[str]) -> str:
    """Compare all steps, and write the page."""
    found: dict[str, Figures] = {}
    sections: list[str] = []
    failed: list[str] = []
    for case in CASES:
        if wanted and not any(word in case.title for word in wanted):
            continue
        tell(case.title)
        try:
            reported = ask_hta(python, case)
        except HtaError as error:
            failed.append(f"- {case.title} ({case.path}): {error}")
            continue
        with ingested(case) as database:
            found[case.title] = figures_of(database, reported)
            sections.append(section(case, found[case.title], crossed(database)))
    return _page(python, found, [*sections, *_given_up(failed)])


def _given_up(failed: list[str]) -> Iterator[str]:
    if failed:
        yield "\n".join(["## Steps for which HTA gives up\n", *failed]) + "\n"


def _page(python: Path, found: Mapping[str, Figures], sections: list[str]) -> str:
    columns = [f"- {name}: {meaning}" for name, meaning in COLUMNS.items()]
    columns.append(f"- {BEYOND} (not of the step): HTA's path after the step's end")
    return PAGE.format(
        written_by=written_by(),
        about=filled(ABOUT, version=version(python)),
        summary=summary(found),
        columns="\n".join(columns),
        places=places(found),
        work=work(found),
        sections="\n".join(sections),
    )


def version(python: Path) -> str:
    """The HTA release, which is `traceinsight` on PyPI."""
    code = "from importlib.metadata import version as v; print(v('traceinsight'))"
    done = subprocess.run(  # noqa: S603 (our own program)
        [python, "-c", code], check=True, text=True, capture_output=True
    )
    return f"traceinsight {done.stdout.strip()}"


def main() -> None:
    """Compare and print the page, or run HTA as a child process."""
    asked = parser(__doc__)
    say = asked.add_argument
    say("--peers", action="store_true", help="install HTA beside, if it is missing")
    say("--traces", nargs="+", default=[], help="words of the titles of those wanted")
    say("--hta", metavar="TITLE", help="be the process that asks HTA of one trace")
    given = asked.parse_args()
    if given.hta:
        case = next(case for case in CASES if case.title == given.hta)
        print(json.dumps(hta(case)))
        return
    python = peers_python(install=given.peers)
    if python is None:
        sys.exit("HTA is not there: say --peers to install it")
    publish(page(python, given.traces), given.write)


if __name__ == "__main__":
    main()
