"""Learn what hosts take while PyTorch's profiler records them, of traces of a corpus.

    python benchmarks/recorded_host_times.py

rewrites `tracedb/from_code/recorded_host_times.json`: what each op takes itself, and
what lies before each top-level op, on the middle one of the hosts (`host_traces.py`);
and, in `docs/estimate.md`, how well hosts are told by the others.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from host_traces import KINDS, Hosts, Samples, learn, mean_ns, read, samples
from measure import CORPUS

from tracedb.from_code.host_times import HostTimes, op_kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

FILE = (
    Path(__file__).parent.parent / "tracedb" / "from_code" / "recorded_host_times.json"
)
PAGE = Path(__file__).parent.parent / "docs" / "estimate.md"
HEADING = "## Hosts that were not seen\n"
_NEXT = "## How good it is\n"
TRACES = (
    "hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "hta/critical_path/alexnet.json.gz",
    "hta/nccl_data.json.gz",
    "hta/ns_resolution_rank0.json.gz",
    "hta/trace_diff_control.json.gz",
    "param/linear/linear_kineto.json.gz",
    "tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "tracelens/inference/xdit_flux1_capture.json.gz",
    "tracelens/mi300/facebook_timesformer-base-finetuned-k400__1016002.json.gz",
    "tracelens/mi300/gaunernst_bert-small-uncased__1016001.json.gz",
    "tracelens/normalization_layer_test.json.gz",
)
"""Corpus traces with ops and calls as recorded by PyTorch 1.13 and later."""
HELD_OUT = tuple(f"param/dlrm8/kineto/worker{n}.pt.trace.json.gz" for n in (0, 1, 2, 5))
"""Ground truth of graph estimates (`estimate_graph.py`): never learnt from."""

_ASSUMED = {
    "wait": 2_000,
    "return_delay": 2_000,
    "handover": 10_000,
    "graph_launch": 10_000,  # as `prediction.graph_replay`
    "graph_gap": 1_000,
}
_KINDS = ("autograd", "launching", "function", "op", "other")
_LAUNCHING = 0.5
_GENERATED = ("triton_", "CompiledF", "Torch-Compiled", "## Call")
"""Compilers generate these names for one program only."""


def main() -> None:
    """Learn from all traces; write the median host's times, and their accuracy."""
    traces = {name: samples(read(CORPUS / name)) for name in (*TRACES, *HELD_OUT)}
    rows = list(_scores(traces))
    times = page(learn({name: traces[name] for name in TRACES}))
    FILE.write_text(
        json.dumps({"times": times, "learnt_of": TRACES}, indent=1, sort_keys=True)
        + "\n"
    )
    head, _, rest = PAGE.read_text().partition(_NEXT)
    head = head.partition(HEADING)[0]
    lines = "\n".join([_INTRODUCTION, *_table(rows)])
    PAGE.write_text(f"{head}{HEADING}\n{lines}\n\n{_NEXT}{rest}")


def page(hosts: Hosts) -> dict[str, Any]:
    """Host times in the shipped form: by name, and by kind for other names."""
    times: dict[str, Any] = dict(_ASSUMED)
    for kind in ("own", "gap"):
        by_name = {
            name: value
            for (one, name), value in hosts.time.items()
            if one == kind and not name.startswith(_GENERATED)
        }
        usual = {name: round(value) for name, value in sorted(by_name.items())}
        times[kind] = {**usual, **_by_kind(by_name, hosts)}
    calls = {name: round(v) for (kind, name), v in hosts.time.items() if kind == "call"}
    return times | {name: calls[name] for name in ("launch", "copy")}


def _by_kind(by_name: Mapping[str, float], hosts: Hosts) -> dict[str, int]:
    several: dict[str, list[float]] = defaultdict(list)
    for name, value in by_name.items():
        launches = hosts.launching.get(name, 0) >= _LAUNCHING
        several[op_kind(name, launches=launches)].append(value)
        several[""].append(value)
    return {kind: round(median(several[kind] or several[""])) for kind in ("", *_KINDS)}


Row = tuple[str, dict[str, float], dict[str, float], dict[str, float]]
"""[ns] A trace, and by kind: measured, learnt from others, shipped."""


def _scores(traces: Mapping[str, Samples]) -> Iterator[Row]:
    unprofiled = HostTimes.shipped()
    for name in (*TRACES, *HELD_OUT):
        others = [other for other in TRACES if other != name]
        told = HostTimes(**page(learn({other: traces[other] for other in others})))
        took, said, shipped = (dict.fromkeys(KINDS, 0.0) for _ in range(3))
        for (kind, op), found in traces[name].items():
            durations = [one.duration for one in found]
            launches = fmean(one.launches for one in found) >= _LAUNCHING
            # A launch also waits for a full queue.
            took[kind] += (
                len(found) * mean_ns(durations) if kind == "call" else sum(durations)
            )
            said[kind] += len(found) * _of(told, kind, op, launches=launches)
            shipped[kind] += len(found) * _of(unprofiled, kind, op, launches=launches)
        yield name, took, said, shipped


def _of(host: HostTimes, kind: str, name: str, *, launches: bool) -> int:
    if kind == "own":
        return host.own_ns(name, launches=launches)
    if kind == "gap":
        return host.gap_ns(name)
    return host.copy if name == "copy" else host.launch


def _table(rows: list[Row]) -> Iterator[str]:
    yield (
        "| trace | host time [ms] | from others | in ops [ms] | from others "
        "| between ops [ms] | from others | in calls [ms] | from others "
        "| host time, shipped without profiler |"
    )
    yield f"| --- {'| ---: ' * 9}|"
    for name, took, said, shipped in rows:
        cells = [_pair(sum(took.values()), sum(said.values()))]
        cells += [_pair(took[kind], said[kind]) for kind in KINDS]
        before = sum(shipped.values()) / sum(took.values()) - 1
        path = name.removesuffix(".json.gz").removesuffix(".pt.trace")
        yield f"| {path} | {' | '.join(cells)} | {before:+.0%} |"
    new = _median([(name, took, said) for name, took, said, _ in rows])
    old = _median([(name, took, was) for name, took, _, was in rows])
    yield f"| median of hosts, absolute | | {new:.0%} | | | | | | | {old:.0%} |"


def _median(
    rows: Iterable[tuple[str, Mapping[str, float], Mapping[str, float]]],
) -> float:
    """The median error over hosts; the held-out ranks share one host."""
    errors: dict[str, list[float]] = defaultdict(list)
    for name, took, said in rows:
        host = "" if name in HELD_OUT else name
        errors[host].append(abs(sum(said.values()) / sum(took.values()) - 1))
    return median(fmean(each) for each in errors.values())


def _pair(took: float, said: float) -> str:
    error = f"{said / took - 1:+.0%}" if took else ""
    return f"{took / 1e6:.2f} | {error}"


_INTRODUCTION = """\
Recorded host time of each trace (self time of ops, time between top-level ops, and
launches and copies without values far from the quartiles), and the prediction by host
times learned from all other traces (`python benchmarks/recorded_host_times.py`). The
four ranks of dlrm8 are never learned from, and count as one host; but, like the others,
they were looked at when five ways to estimate a host's speed were compared. The last
column has the host times of estimates without `--profiled`. A graph does not show that
a host is several times slower than the median one, nor what a first run costs
(compiling, loading libraries, choosing algorithms): those are the traces with errors of
half and more.
"""


if __name__ == "__main__":
    main()
