"""Traces in which something is missing, doubled or joined, made from generated ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tracedb.synthetic import (
    Delays,
    Form,
    Model,
    Program,
    Table,
    execute,
    random_program,
    training_job,
)
from tracedb.synthetic.program import seeded
from tracedb.synthetic.random_program import Weights

Event = dict[str, Any]
Events = list[Event]
_CALLS = ("cuda_runtime", "cuda_driver")
_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_SMALL = Model(
    batch=512,
    tables=(Table(1_000, 64, 4), Table(2_000, 64, 10)),
    bottom=(64, 64),
    top=(64, 32, 1),
)


def _some(random: Random, events: Events, cats: tuple[str, ...]) -> list[Event]:
    """A fifth of the events of some categories."""
    return [e for e in events if e.get("cat") in cats and random.random() < 1 / 5]


def _without(cats: tuple[str, ...]) -> Callable[[Random, Events], Events]:
    def change(random: Random, events: Events) -> Events:
        gone = {id(e) for e in _some(random, events, cats)}
        return [e for e in events if id(e) not in gone]

    return change


def _uncorrelated(random: Random, events: Events) -> Events:
    for event in _some(random, events, (*_CALLS, *_GPU)):
        event["args"].pop("correlation", None)
    return events


def _doubled(random: Random, events: Events) -> Events:
    """Some correlations occur twice."""
    for event in _some(random, events, _CALLS):
        if "correlation" in event["args"]:
            event["args"]["correlation"] += random.choice((-1, 1))
    return events


def _cut(_: Random, events: Events) -> Events:
    """The recording starts in a step and ends in one."""
    times = sorted(e["ts"] for e in events if e.get("ph") == "X")
    first, last = times[len(times) // 5], times[-len(times) // 5]
    return [e for e in events if e.get("ph") != "X" or first <= e["ts"] <= last]


def _stacked(random: Random, events: Events) -> Events:
    """Modules around ops, some of them nested."""
    found: Events = []
    for event in _some(random, events, ("cpu_op",)):
        for depth in range(random.randint(1, 3)):
            name = f"nn.Module: {random.choice(('Linear', 'Net'))}_{depth}"
            slack = (3 - depth) / 100
            found.append(
                {k: event[k] for k in ("ph", "pid", "tid")}
                | {"cat": "python_function", "name": name, "args": {}}
                | {"ts": event["ts"] - slack, "dur": event["dur"] + 2 * slack}
            )
    return events + found


def _momentary(random: Random, events: Events) -> Events:
    """Some ops and calls take no time."""
    for event in _some(random, events, ("cpu_op", *_CALLS)):
        event["dur"] = 0
    return events


def _plain(_: Random, events: Events) -> Events:
    return events


CHANGES: dict[str, Callable[[Random, Events], Events]] = {
    "plain": _plain,
    "no correlation": _uncorrelated,
    "a correlation twice": _doubled,
    "no calls": _without(_CALLS),
    "no GPU work": _without(_GPU),
    "cut": _cut,
    "modules": _stacked,
    "no time": _momentary,
}


def _program(random: Random, seed: int) -> Program:
    kind = random.randrange(4)
    if kind == 0:
        return training_job(seed, ranks=2, steps=3, model=_SMALL)
    if kind == 1:
        weights = Weights(collective=0.5)
        return random_program(
            seed, threads=1, streams=3, steps=3, ranks=2, weights=weights
        )
    return random_program(seed, threads=kind - 1, streams=3, steps=3, ops=12)


def write(folder: Path, seed: int, change: str, *, joined: bool = False) -> list[Path]:
    """The files of a changed run; joined, its ranks are processes of one file."""
    random = seeded("odd", seed, change)
    program = _program(random, seed)
    form = Form(sync_events=random.random() < 1 / 2)
    pages = []
    for trace in execute(program, Delays(jitter=0.2), seed):
        page = json.loads(trace.json_text(form))
        page["traceEvents"] = CHANGES[change](random, page["traceEvents"])
        pages.append(page)
    if joined:
        for page in pages[1:]:
            pages[0]["traceEvents"] += page["traceEvents"]
        del pages[1:]
    paths = []
    for rank, page in enumerate(pages):
        paths.append(folder / f"{seed}-{rank}.json")
        paths[-1].write_text(json.dumps(page))
    return paths
