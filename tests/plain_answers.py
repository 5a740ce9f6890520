"""Questions about what was recorded, answered by plain loops over what was staged.

They follow the documentation of each question, not its SQL.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from statistics import mean, median
from typing import Any

import polars as pl
import pytest

import tracedb

Row = dict[str, Any]
Intervals = list[tuple[int, int]]


WAIT_KEY = ("run_id", "kind", "waiting_name", "awaited_name", "op", "frame")


class Recorded:
    """The rows of a database's relations, as dictionaries, read once."""

    def __init__(self, database: tracedb.Database) -> None:
        """Read from this database."""
        self._database = database
        self._rows: dict[str, list[Row]] = {}

    def rows(self, relation: str) -> list[Row]:
        """All rows of a relation or of a query's FROM clause."""
        if relation not in self._rows:
            found = self._database.sql(f"FROM {relation}")
            self._rows[relation] = found.rows(named=True)
        return self._rows[relation]

    def traces(self) -> dict[int, Row]:
        """Traces by their number."""
        return {row["trace_id"]: row for row in self.rows("staging.trace")}

    def steps(self) -> dict[int, Row]:
        """Steps by their number."""
        return {row["step_id"]: row for row in self.rows("staging.step")}

    def work(self) -> dict[tuple[int, int], list[Row]]:
        """Kernels, copies and memsets by trace and device."""
        found = defaultdict(list)
        for row in self.rows("staging.gpu_op WHERE kind <> 'other'"):
            found[row["trace_id"], row["device"]].append(row)
        return found

    def spans(self) -> Iterator[Row]:
        """Host time of steps, or of all threads in traces without steps.

        There, gaps are idle before the first op, launch, wait or Python function of the
        thread, and after its last.
        """
        yield from self.rows("overhead.interval")
        stepped = {step["trace_id"] for step in self.steps().values()}
        whole = [
            row
            for row in self.rows("overhead.timeline")
            if row["trace_id"] not in stepped
        ]
        active: dict[int, list[int]] = defaultdict(list)
        for row in [*whole, *self.rows("staging.python_frame")]:
            if "type" not in row or {row["op_id"], row["call_id"]} != {None}:
                active[row["thread_id"]] += row["start_ns"], row["end_ns"]
        inside = {thread: [min(times), max(times)] for thread, times in active.items()}
        for row in whole:
            if row["type"] != "T1":
                yield row
                continue
            inner = inside.get(row["thread_id"], [row["end_ns"], row["end_ns"]])
            cuts = sorted({row["start_ns"], row["end_ns"], *inner})
            for start, end in pairwise(cuts):
                if row["start_ns"] <= start and end <= row["end_ns"]:
                    is_idle = start < inner[0] or start >= inner[1]
                    type_ = "idle" if is_idle else "T1"
                    yield row | {"type": type_, "start_ns": start, "end_ns": end}


def merged(intervals: Intervals) -> Intervals:
    """The same time without overlaps."""
    found: Intervals = []
    for start, end in sorted(one for one in intervals if one[1] > one[0]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def time_of(intervals: Intervals) -> int:
    """Their time, overlaps counted once."""
    return sum(end - start for start, end in merged(intervals))


def within(intervals: Intervals, start: int, end: int) -> Intervals:
    """Their parts in a range."""
    return [(max(a, start), min(b, end)) for a, b in intervals if a < end and b > start]


def time_outside(intervals: Intervals, others: Intervals) -> int:
    """The part of their time that the others do not cover."""
    return time_of(intervals + others) - time_of(others)


def duration(row: Row) -> int:
    """From its start to its end."""
    return int(row["end_ns"] - row["start_ns"])


def bounds(found: list[Row], origin: int = 0) -> Intervals:
    """Their starts and ends, from an origin."""
    return [(row["start_ns"] - origin, row["end_ns"] - origin) for row in found]


def exposed_communication(recorded: Recorded) -> Iterator[Row]:
    """Collectives with nothing beside them."""
    for (trace, device), work in recorded.work().items():
        talking = bounds([row for row in work if row["is_collective"]])
        others = bounds([row for row in work if not row["is_collective"]])
        if time_of(talking):
            yield {
                "trace_id": trace,
                "device": device,
                "communication_ns": time_of(talking),
                "exposed_ns": time_outside(talking, others),
            }


def idle_share(recorded: Recorded) -> Iterator[Row]:
    """Busy time of each step, or trace without steps, and device that ran work."""
    for number, step in recorded.steps().items():
        for (trace, device), work in recorded.work().items():
            if trace == step["trace_id"]:
                busy = within(bounds(work), step["start_ns"], step["end_ns"])
                found = {"trace_id": trace, "step_id": number, "device": device}
                yield found | {"busy_ns": time_of(busy)}
    with_steps = {step["trace_id"] for step in recorded.steps().values()}
    for (trace, device), work in recorded.work().items():
        if trace not in with_steps:
            whole: Row = {"trace_id": trace, "step_id": None, "device": device}
            yield whole | {"busy_ns": time_of(bounds(work))}


def device_time(recorded: Recorded) -> Iterator[Row]:
    """Kinds of busy and idle time of each device; together the whole window."""
    origins = {
        row["trace_id"]: row["origin_ns"] for row in recorded.rows("simulation.origin")
    }
    idle = recorded.rows("critical_path.idle WHERE variant_id = 0 AND scope = 'trace'")
    windows = {
        row["trace_id"]: row
        for row in recorded.rows("critical_path.idle_window WHERE scope = 'trace'")
    }
    for (trace, device), work in recorded.work().items():
        window = windows[trace]["start_ns"], windows[trace]["end_ns"]
        kinds: dict[str, Intervals] = defaultdict(list)
        for row in work:
            kind = "compute" if row["kind"] == "kernel" else "copy"
            kinds["communication" if row["is_collective"] else kind] += within(
                bounds([row], origins[trace]), *window
            )
        before: Intervals = []
        times: Counter[tuple[bool, str]] = Counter()
        for kind in ("compute", "communication", "copy"):
            times[True, kind] = time_outside(kinds[kind], before)
            before += kinds[kind]
        for row in idle:
            if (row["trace_id"], row["device"]) == (trace, device):
                times[False, row["kind"]] += duration(row)
        assert times.total() == window[1] - window[0]
        for (is_busy, kind), time in times.items():
            if time:
                yield {
                    "trace_id": trace,
                    "device": device,
                    "is_busy": is_busy,
                    "kind": kind,
                    "time_ns": time,
                    "time_share": time / times.total(),
                }


def host_time(recorded: Recorded) -> Iterator[Row]:
    """What the thread of the steps, or the main thread, does.

    What is idle in a step is in Python while a function is open.
    """
    steps = recorded.steps()
    frames: dict[int, list[Row]] = defaultdict(list)
    for row in recorded.rows("staging.python_frame"):
        frames[row["thread_id"]].append(row)
    roles = {row["thread_id"]: row["role"] for row in recorded.rows("staging.thread")}
    found: dict[int, Counter[str]] = defaultdict(Counter)
    idle = set(steps)
    for span in recorded.spans():
        step = steps.get(span.get("step_id", 0))
        if (
            span["thread_id"] == step["thread_id"]
            if step
            else roles[span["thread_id"]] == "main"
        ):
            types = found[span["trace_id"]]
            idle.discard(span.get("step_id", 0))
            if not step or span["type"] != "idle":
                types[span["type"]] += duration(span)
                continue
            for start, end, (frame, inside) in _sweep(
                [frames[span["thread_id"]], [span]]
            ):
                if inside:
                    types["idle_python" if frame else "idle"] += end - start
    for number in idle:
        found[steps[number]["trace_id"]]["idle"] += duration(steps[number])
    for trace, times in found.items():
        for type_, time in times.items():
            yield {"trace_id": trace, "type": type_, "time_ns": time}


def overhead_by_op(recorded: Recorded) -> Iterator[Row]:
    """Host time of top-level ops, by name."""
    names = {row["op_id"]: row["name"] for row in recorded.rows("staging.op")}
    ops: dict[tuple[int, str], set[int]] = defaultdict(set)
    times: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for span in recorded.spans():
        if span["op_id"] is not None:
            key = span["run_id"], names[span["op_id"]]
            ops[key].add(span["op_id"])
            type_ = "wait" if span["type"].startswith("wait") else span["type"]
            times[key][type_] += duration(span)
    for (run, name), time in times.items():
        yield {
            "run_id": run,
            "name": name,
            "op_count": len(ops[run, name]),
            **{
                f"{t.lower()}_ns": time.get(t) for t in ("T2", "T3", "T4", "T5", "wait")
            },
            "time_ns": time.total(),
        }


def module_class(path: str) -> str:
    """The path with a star for each number: `Net_*/Linear_*`."""
    names = [name.rpartition("_") for name in path.split("/")]
    return "/".join(
        f"{name}_*" if name and number.isdecimal() else f"{name}{by}{number}"
        for name, by, number in names
    )


def _telling_ranges(recorded: Recorded) -> Iterator[Row]:
    """User ranges that tell where a thread without functions is, named as places."""
    framed = {row["thread_id"] for row in recorded.rows("staging.python_frame")}
    steps = recorded.rows("staging.step")
    loading = {row["annotation_id"] for row in recorded.rows("staging.data_loading")}
    for row in recorded.rows("staging.annotation"):
        if row["thread_id"] in framed or any(
            row["thread_id"] == step["thread_id"]
            and row["start_ns"] <= step["start_ns"]
            and row["end_ns"] >= step["end_ns"]
            for step in steps
        ):
            continue
        words = re.split(r"([^A-Za-z0-9])", row["name"])
        name = "".join("*" if word.isdecimal() else word for word in words)
        is_loading = row["annotation_id"] in loading
        yield {**row, "name": None if is_loading else f"range '{name}'"}


def host_gap(recorded: Recorded) -> Iterator[Row]:
    """Each part of a gap by the innermost function and module that are open in it.

    Modules whose paths have the same classes are together.
    """
    roles = {row["thread_id"]: row["role"] for row in recorded.rows("staging.thread")}
    steps = recorded.steps()
    by_thread: dict[int, list[list[Row]]] = defaultdict(lambda: [[], [], []])
    frames = [*recorded.rows("staging.python_frame"), *_telling_ranges(recorded)]
    for kind, told in enumerate((frames, recorded.rows("staging.module_call"))):
        for row in told:
            by_thread[row["thread_id"]][kind].append(row)
    for number, span in enumerate(recorded.spans()):
        step = steps.get(span.get("step_id", 0))
        is_idle = step and (span["type"], span["thread_id"]) == (
            "idle",
            step["thread_id"],
        )
        if span["type"] == "T1" or is_idle:
            numbered = {**span, "number": number}
            by_thread[span["thread_id"]][2].append(numbered)
    gaps: dict[tuple[Any, ...], Counter[int]] = defaultdict(Counter)
    modules: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for thread, kinds in by_thread.items():
        for start, end, (frame, call, span) in _sweep(kinds):
            if span:
                path = call.get("path")
                class_ = None if path is None else module_class(path)
                key = span["run_id"], roles[thread], frame.get("name"), class_
                gaps[key][span["number"]] += end - start
                if path is not None:
                    modules[key].add(path)
    for key, times in gaps.items():
        run, role, frame_name, class_ = key
        own = modules[key]
        yield {
            "run_id": run,
            "role": role,
            "frame": frame_name,
            "module": next(iter(own)) if len(own) == 1 else class_,
            "module_count": len(own),
            "gap_count": len(times),
            "time_ns": times.total(),
            "longest_ns": max(times.values()),
        }


def wait(recorded: Recorded) -> Iterator[Row]:
    """Each wait by what waits, what it waits for, the op and the function."""
    called = {row["call_id"]: row for row in recorded.rows("staging.call")}
    ops = {row["op_id"]: row["name"] for row in recorded.rows("staging.op")}
    work = {row["gpu_op_id"]: row for row in recorded.rows("staging.gpu_op")}
    nodes = {row["node_id"]: row["name"] for row in recorded.rows("graph.node")}
    frames = defaultdict(list)
    for row in recorded.rows("staging.python_frame"):
        frames[row["thread_id"]].append(row)
    found: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row in recorded.rows("graph.host_wait WHERE is_blocked"):
        target, call = row["target"], called[row["call_id"]]
        kind = target if target in ("copy", "queue") else f"sync_{target}"
        frame = _innermost(frames[call["thread_id"]], call["start_ns"]).get("name")
        named = call["name"], work[row["gpu_op_id"]]["name"]
        key = row["run_id"], kind, *named, ops.get(call["op_id"]), frame
        found[key].append(duration(row))
    for row in recorded.rows("graph.stream_wait"):
        own, awaited = work[row["gpu_op_id"]], work[row["awaited_gpu_op_id"]]
        named = own["name"], awaited["name"]
        key = row["run_id"], row["reason"], *named, ops.get(own["op_id"]), None
        found[key].append(max(row["excess_ns"], 0))
    for row in recorded.rows("graph.thread_wait WHERE kind = 'join'"):
        if None in (row["after_node_id"], row["last_node_id"]):
            continue
        named = nodes[row["after_node_id"]], nodes[row["last_node_id"]]
        found[row["run_id"], row["kind"], *named, None, None].append(duration(row))
    for row in recorded.rows("graph.rank_wait"):
        named = ops[row["op_id"]], ops[row["awaited_op_id"]]
        found[row["run_id"], "collective", *named, None, None].append(duration(row))
    for key, times in found.items():
        yield dict(zip(WAIT_KEY, key, strict=True)) | {
            "wait_count": len(times),
            "waited_ns": sum(times),
        }


def _sweep(kinds: list[list[Row]]) -> Iterator[tuple[int, int, list[Row]]]:
    """Times between changes, each with the innermost open row of each kind."""
    changes = defaultdict(list)
    for kind, rows in enumerate(kinds):
        for row in rows:
            changes[row["start_ns"]].append((kind, row))
            changes[row["end_ns"]].append((kind, row))
    open_: list[list[Row]] = [[] for _ in kinds]
    for start, end in pairwise(sorted(changes)):
        for kind in {kind for kind, _ in changes[start]}:
            started = [row for of, row in changes[start] if of == kind]
            open_[kind] = [row for row in open_[kind] + started if _holds(row, start)]
        yield start, end, [_innermost(rows, start) for rows in open_]


def _innermost(rows: list[Row], at_ns: int) -> Row:
    """The row of those open at a time that started last; none is empty.

    Functions of the standard library are chosen only if nothing else is open.
    """
    return max(
        (row for row in rows if _holds(row, at_ns)),
        key=lambda row: (
            not row.get("is_standard", False),
            row["start_ns"],
            -row["end_ns"],
        ),
        default={},
    )


def _holds(row: Row, at_ns: int) -> bool:
    return bool(row["start_ns"] <= at_ns < row["end_ns"])


def memory_by_step(recorded: Recorded) -> Iterator[Row]:
    """What is allocated during each step, event by event."""
    events = defaultdict(list)
    in_order = "staging.memory_event ORDER BY at_ns, memory_event_id"
    for row in recorded.rows(in_order):
        events[row["trace_id"], row["device_type"], row["device"]].append(row)
    for (trace, type_, device), found in events.items():
        for number, step in recorded.steps().items():
            if step["trace_id"] != trace:
                continue
            total = found[0]["allocated_bytes"] - found[0]["changed_bytes"]
            for event in found:
                if event["at_ns"] < step["start_ns"]:
                    total = event["allocated_bytes"]
            inside = [event for event in found if _holds(step, event["at_ns"])]
            totals = [total, *(event["allocated_bytes"] for event in inside)]
            yield {
                "step_id": number,
                "device_type": type_,
                "device": device,
                "peak_bytes": max(totals),
                "begin_bytes": total,
                "end_bytes": totals[-1],
                "allocation_count": sum(e["changed_bytes"] > 0 for e in inside),
            }


def launch_bound(recorded: Recorded) -> Iterator[Row]:
    """Work that its launch delayed, though its stream was free."""
    causes = {r["gpu_op_id"]: r["cause"] for r in recorded.rows("graph.gpu_cause")}
    launched = "graph.stream_position INNER JOIN staging.gpu_op USING (gpu_op_id)"
    found = defaultdict(list)
    for row in recorded.rows(f"(SELECT *, staging.gpu_op.name FROM {launched})"):
        if row["launch_start_ns"] is not None:
            found[row["run_id"], row["name"]].append(row)
    for (run, name), work in found.items():
        late = [row for row in work if causes.get(row["gpu_op_id"]) == "launch"]
        launches = [row["launch_end_ns"] - row["launch_start_ns"] for row in work]
        free = [
            max(row["start_ns"] - row["previous_end_ns"], 0)
            for row in late
            if row["previous_end_ns"] is not None
        ]
        short = sum(duration(w) < ns for w, ns in zip(work, launches, strict=True))
        if late:
            yield {
                "run_id": run,
                "name": name,
                "gpu_op_count": len(work),
                "late_count": len(late),
                "short_count": short,
                "time_ns": sum(map(duration, work)),
                "launch_ns": sum(launches),
                "free_ns": sum(free),
            }


def _empty_marks(recorded: Recorded) -> Iterator[int]:
    """The last step of each trace, if it has others, and no op or launch of its own.

    No sample has one that is cut off.
    """
    steps, starts = defaultdict(list), defaultdict(list)
    for row in recorded.rows("staging.step"):
        steps[row["trace_id"]].append((row["start_ns"], row["end_ns"], row["step_id"]))
    for row in [
        *recorded.rows("staging.op"),
        *recorded.rows("staging.call WHERE kind = 'launch'"),
    ]:
        starts[row["trace_id"]].append(row["start_ns"])
    for trace, of_trace in steps.items():
        start, end, step = max(of_trace)
        has_work = any(start <= time < end for time in starts[trace])
        if len(of_trace) > 1 and starts[trace] and not has_work:
            yield step


def period(recorded: Recorded) -> Iterator[Row]:
    """Periods of the steps of a trace, without an empty mark at its end."""
    found = defaultdict(list)
    empty = set(_empty_marks(recorded))
    for row in recorded.rows("critical_path.step_period WHERE variant_id = 0"):
        if row["step_id"] not in empty:
            found[row["trace_id"]].append(row)
    for trace, periods in found.items():
        times = [duration(row) for row in periods]
        yield {
            "trace_id": trace,
            "step_count": len(times),
            "median_ns": median(times),
            "mean_ns": mean(times),
            "shortest_ns": min(times),
            "longest_ns": max(times),
            "host_ns": median(r["host_end_ns"] - r["host_start_ns"] for r in periods),
        }


def top_kernel(recorded: Recorded) -> Iterator[Row]:
    """GPU work by name, with the op that launches most of its time."""
    ops = {row["op_id"]: row["name"] for row in recorded.rows("staging.op")}
    found: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    counts: Counter[tuple[int, str]] = Counter()
    all_ns: Counter[int] = Counter()
    for row in chain.from_iterable(recorded.work().values()):
        found[row["run_id"], row["name"]][ops.get(row["op_id"], "")] += duration(row)
        counts[row["run_id"], row["name"]] += 1
        all_ns[row["run_id"]] += duration(row)
    for (run, name), times in found.items():
        own = [(time, op) for op, time in times.items() if op]
        yield {
            "run_id": run,
            "name": name,
            "gpu_op_count": counts[run, name],
            "time_ns": times.total(),
            "mean_ns": times.total() / counts[run, name],
            "time_share": times.total() / all_ns[run],
            "op": max(own)[1] if own else None,
        }


def copy(recorded: Recorded) -> Iterator[Row]:
    """Copies by direction and kind of host memory."""
    blocked = Counter[int]()
    for row in recorded.rows("(FROM graph.host_wait WHERE target = 'copy')"):
        blocked[row["gpu_op_id"]] += duration(row)
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in chain.from_iterable(recorded.work().values()):
        if row["kind"] == "memcpy":
            words = row["name"].lower()
            ends = ("htod", "h2d"), ("dtoh", "d2h"), ("dtod", "d2d"), ("ptop", "p2p")
            way = next(to for end, to in ends if end in words)
            kinds = [kind for kind in ("pinned", "pageable") if kind in words]
            found[row["run_id"], way, next(iter(kinds), None)].append(row)
    for (run, way, memory), copies in found.items():
        sized = [row for row in copies if row["moved_bytes"] is not None]
        moved, time = (
            sum(row["moved_bytes"] for row in sized),
            sum(map(duration, sized)),
        )
        yield {
            "run_id": run,
            "direction": way,
            "memory": memory,
            "copy_count": len(copies),
            "moved_bytes": moved if sized else None,
            "time_ns": sum(map(duration, copies)),
            "moved_bytes_per_second": 1e9 * moved / time if time else None,
            "blocked_ns": sum(blocked[row["gpu_op_id"]] for row in copies),
        }


ANSWERS: dict[str, tuple[tuple[str, ...], Callable[[Recorded], Iterator[Row]]]] = {
    "exposed_communication": (("trace_id", "device"), exposed_communication),
    "idle_share": (("trace_id", "step_id", "device"), idle_share),
    "device_time": (("trace_id", "device", "is_busy", "kind"), device_time),
    "host_time": (("trace_id", "type"), host_time),
    "overhead_by_op": (("run_id", "name"), overhead_by_op),
    "host_gap": (("run_id", "role", "frame", "module"), host_gap),
    "memory_by_step": (("step_id", "device_type", "device"), memory_by_step),
    "launch_bound": (("run_id", "name"), launch_bound),
    "top_kernel": (("run_id", "name"), top_kernel),
    "copy": (("run_id", "direction", "memory"), copy),
    "period": (("trace_id",), period),
    "wait": (WAIT_KEY, wait),
}
"""For each question the columns that identify a row, and the loops that answer it."""


def assert_answers(question: str, found: pl.DataFrame, recorded: Recorded) -> None:
    """Every row of an answer is there, and every value as the loops find it.

    Times are rounded to nanoseconds.
    """
    key, answer = ANSWERS[question]
    rows = _by_key(key, found.rows(named=True))
    expected = _by_key(key, [*answer(recorded)])
    assert rows.keys() == expected.keys()
    for row, values in expected.items():
        assert {column: rows[row][column] for column in values} == {
            column: pytest.approx(
                value, rel=1e-9, abs=0.5 if column.endswith("_ns") else 0
            )
            if isinstance(value, float)
            else value
            for column, value in values.items()
        }, row


def _by_key(key: Sequence[str], found: list[Row]) -> dict[tuple[Any, ...], Row]:
    return {tuple(row[column] for column in key): row for row in found}
