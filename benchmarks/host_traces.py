"""What hosts of real traces took, and what of that is the host and what the op.

A host's time for an op is taken to be the op's, times the host's: how much slower it is
than the middle one. Both follow from many traces in turns. So an op that only a slow
host ran is not a slow op, and a host is told by the ops that others ran, too.
"""

from __future__ import annotations

import gzip
import json
from bisect import bisect
from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

KINDS = ("own", "gap", "call")
"""An op itself, the gap before a top-level op, a launch or copy call."""

_ON_HOST = {"cpu_op": "op", "cuda_runtime": "call", "cuda_driver": "call"}
_LAUNCHES = ("LaunchKernel", "LaunchCooperativeKernel")
_COPIES = ("MemcpyAsync", "MemcpyWithStream")
_WAITS = ("Synchronize", "cudaMemcpy", "hipMemcpy", "StreamWaitValue")
_PROGRAM_NS = 200_000
"""[ns] Longer gaps belong to the program (Lin et al. 2022 also drop them)."""
_FEW = 4
"""With fewer samples, outliers cannot be detected."""
_TURNS = 20
_SPREAD_KEPT = 1.5
"""Samples beyond this many interquartile ranges from the quartiles are dropped."""


@dataclass(frozen=True)
class Sample:
    """[ns] One measured time, and the number of launches directly in it."""

    duration: int
    launches: int = 0


Samples = dict[tuple[str, str], list[Sample]]
"""By kind and name."""


@dataclass
class _Opened:
    event: dict[str, Any]
    inner_ns: int = 0
    launches: int = 0


def read(path: Path) -> list[dict[str, Any]]:
    """The events of a trace."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    loaded = json.loads(text, strict=False)
    events: list[dict[str, Any]] = (
        loaded if isinstance(loaded, list) else loaded["traceEvents"]
    )
    return events


def samples(events: Iterable[dict[str, Any]]) -> Samples:
    """Recorded host times of ops, gaps and calls.

    The time of calls other than launches, copies and waits belongs to the op around
    them.
    """
    found: Samples = defaultdict(list)
    threads: dict[object, list[dict[str, Any]]] = defaultdict(list)
    marks = []
    for event in events:
        if event.get("ph") == "X" and event.get("cat") in _ON_HOST and "dur" in event:
            threads[event.get("pid"), event.get("tid")].append(event)
        if str(event.get("name")).startswith(("ProfilerStep", "enumerate(DataLoader)")):
            marks.append(event)
    edges = sorted(edge for mark in marks for edge in _edges(mark))
    for events_of in threads.values():
        thread = _Thread(edges, found)
        for event in sorted(events_of, key=lambda e: (e["ts"], -e["dur"])):
            thread.take(event)
        thread.close()
    return found


def _edges(mark: Mapping[str, Any]) -> tuple[float, float]:
    return mark["ts"], mark["ts"] + mark.get("dur", 0)


@dataclass
class _Thread:
    """Collects the times of ops and gaps from a thread's events in order."""

    edges: Sequence[float]
    found: Samples
    opened: list[_Opened] = field(default_factory=list)
    last: float | None = None

    def take(self, event: dict[str, Any]) -> None:
        self.close(event["ts"])
        duration = round(1e3 * event["dur"])
        if _ON_HOST[event["cat"]] == "call":
            self._call(call_kind(event["name"]), duration)
            return
        if self.opened:
            self.opened[-1].inner_ns += duration
        else:
            self._gap(event)
            self.last = _end(event)
        self.opened.append(_Opened(event))

    def close(self, until: float = inf) -> None:
        while self.opened and _end(self.opened[-1].event) <= until:
            one = self.opened.pop()
            own = max(round(1e3 * one.event["dur"]) - one.inner_ns, 0)
            self.found["own", one.event["name"]].append(Sample(own, one.launches))

    def _call(self, kind: str | None, duration: int) -> None:
        if kind is None:
            return
        if kind != "wait":
            self.found["call", kind].append(Sample(duration))
        if self.opened:
            self.opened[-1].inner_ns += duration
            self.opened[-1].launches += kind != "wait"

    def _gap(self, event: dict[str, Any]) -> None:
        begin: float = event["ts"]
        if self.last is None or bisect(self.edges, self.last) != bisect(
            self.edges, begin
        ):
            return
        gap = round(1e3 * (begin - self.last))
        if 0 <= gap < _PROGRAM_NS:
            self.found["gap", event["name"]].append(Sample(gap))


def _end(event: Mapping[str, Any]) -> float:
    end: float = event["ts"] + event["dur"]
    return end


def call_kind(name: str) -> str | None:
    """The kind of a call: `launch`, `copy`, `wait`, or None if it belongs to its op."""
    if any(part in name for part in _WAITS) and not any(p in name for p in _COPIES):
        return "wait"
    if any(part in name for part in _COPIES):
        return "copy"
    return "launch" if any(part in name for part in _LAUNCHES) else None


@dataclass(frozen=True)
class Hosts:
    """[ns] Times on the median host, and how much slower each trace's host is.

    `time` is by kind and name; `launching` is the mean number of launches directly in
    an op.
    """

    time: dict[tuple[str, str], float]
    factor: dict[str, float]
    launching: dict[str, float]


def learn(traces: Mapping[str, Samples]) -> Hosts:
    """Learn from traces, by name.

    Ops give a host's speed; gaps and calls also depend on the program.
    """
    usual = {name: _usual(each) for name, each in traces.items()}
    ops = {name: _of_kind(each, "own") for name, each in usual.items()}
    factors = dict.fromkeys(traces, 1.0)
    for _ in range(_TURNS):
        times = _times(ops, factors)
        factors = {name: _factor(each, times) for name, each in ops.items()}
        middle = median(factors.values())
        factors = {name: value / middle for name, value in factors.items()}
    more = {kind: _left_out(traces, usual, kind) for kind in ("own", "gap")}
    times = _times(usual, factors)
    whole = {key: value * more.get(key[0], 1.0) for key, value in times.items()}
    return Hosts(whole, factors, _launching(traces))


def _left_out(
    traces: Mapping[str, Samples], usual: Mapping[str, Usual], kind: str
) -> float:
    """Total time over the sum of means without outliers, in the median trace."""
    ratios = []
    for name, found in traces.items():
        means = _of_kind(usual[name], kind)
        told = sum(count * value for value, count in means.values())
        if told:
            ratios.append(sum(one.duration for k in means for one in found[k]) / told)
    return median(ratios)


Usual = dict[tuple[str, str], tuple[float, int]]


def _usual(found: Samples) -> Usual:
    """Each mean without outliers (Lin et al. 2022), and its number of samples."""
    return {
        key: (mean_ns([one.duration for one in each]), len(each))
        for key, each in found.items()
    }


def mean_ns(values: Sequence[int]) -> float:
    """The mean without outliers."""
    if len(values) < _FEW:
        return float(median(values))
    low, _, high = quantiles(values, n=4, method="inclusive")
    reach = _SPREAD_KEPT * (high - low)
    return fmean(v for v in values if low - reach <= v <= high + reach)


def _of_kind(usual: Usual, kind: str) -> Usual:
    return {key: value for key, value in usual.items() if key[0] == kind}


def _times(
    usual: Mapping[str, Usual], factors: Mapping[str, float]
) -> dict[tuple[str, str], float]:
    several: dict[tuple[str, str], list[float]] = defaultdict(list)
    for name, each in usual.items():
        for key, (value, _) in each.items():
            several[key].append(value / factors[name])
    return {key: median(values) for key, values in several.items()}


def _factor(usual: Usual, times: Mapping[tuple[str, str], float]) -> float:
    """A host's total time over that of the median host for the same work."""
    took = sum(count * value for value, count in usual.values())
    would = sum(count * times[key] for key, (_, count) in usual.items())
    return took / would if took and would else 1.0


def _launching(traces: Mapping[str, Samples]) -> dict[str, float]:
    counts: dict[str, list[int]] = defaultdict(list)
    for each in traces.values():
        for (kind, name), found in each.items():
            if kind == "own":
                counts[name] += [one.launches for one in found]
    return {name: fmean(values) for name, values in counts.items()}
