"""The statements of a summary about each run, which `text.py` and reports lay out."""

from __future__ import annotations

import re
from operator import itemgetter
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tracedb.catalog import find
from tracedb.part import FINER, as_options, has, in_words
from tracedb.summary.words import (
    EARLIER_WORK,
    NO_STEPS,
    NOTHING_MARKS,
    OF_LOGS,
    Known,
    doubts,
    kind_words,
    lever_command,
    lever_words,
    marks_in_words,
    stuck,
)
from tracedb.words import counted, duration, frame_within, share, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    import polars as pl

    from tracedb.database import Database
    from tracedb.part import Part

    Row = dict[str, Any]

_MEMORY = ":memory:"
_LEVERS = 3
_MOST_RUNS = 3
"""More runs are a list."""
_SMALLEST_LEVER = 0.01
_NAME = 46
_FRAME = 66
_ASKED = re.compile(r"tracedb ask \S+ (\w+)")
_WORKED = "SELECT DISTINCT run_id FROM staging.gpu_op WHERE kind <> 'other'"
_RAN = "SELECT DISTINCT run_id FROM staging.op"
_STACKED = """
SELECT DISTINCT run_id
FROM staging.python_frame
INNER JOIN staging.thread USING (trace_id, thread_id)
WHERE role = 'main'
"""
_OPERATES = "SELECT 1 FROM staging.operation LIMIT 1"
_SMALLEST_SHARE = 0.005
"""[1] Smaller shares of a device's or thread's time are not shown."""


class Statement(NamedTuple):
    """A statement of a summary."""

    kind: Literal["run", "fact", "figure", "title", "item", "command", "doubt"]
    """A `run` or `title` starts a group; an `item` is followed by commands."""
    text: str
    mark: str = ""
    """For a figure its name, empty if it continues; for an item its number; for a doubt
    `!`, `-` (less detail) or `+` (no doubt).
    """


def statements(
    parts: Mapping[str, pl.DataFrame], database: str, part: Part | None = None
) -> Iterator[list[Statement]]:
    """The statements about each run, from the answers of `tracedb.summary.summary`.

    Of many runs, a list says the most important about each. Commands name the database
    as given, and select the part that was chosen; a database in memory has no name.
    """
    for pieces in _statements(parts, database, part or {}):
        yield [_of_part(piece, part or {}) for piece in pieces]


def _of_part(piece: Statement, part: Part) -> Statement:
    """A command with the options that select the part, as far as it has them.

    Where a finer question has more of them, that one is asked.
    """
    if piece.kind != "command":
        return piece
    text, names = piece.text, {*part}
    if asked := _ASKED.search(text):
        question = asked[1]
        better = max([question, FINER.get(question, question)], key=_parts_of(part))
        text = text.removesuffix(question) + better
        names = {name for name in part if has(find(f"question.{better}"), name)}
    elif " --run " in text:
        names -= {"run"}
    own = {name: value for name, value in part.items() if name in names}
    return piece._replace(text=text + as_options(own))


def _parts_of(part: Part) -> Callable[[str], int]:
    """How many of the numbers of a part a question can select."""
    return lambda name: sum(has(find(f"question.{name}"), key) for key in part)


def _statements(
    parts: Mapping[str, pl.DataFrame], database: str, part: Part
) -> Iterator[list[Statement]]:
    named = "DB" if database == _MEMORY else quote(database)
    rows = {name: list(frame.iter_rows(named=True)) for name, frame in parts.items()}
    run_of = {row["trace_id"]: row["run_id"] for row in rows["recording"]}
    runs = dict.fromkeys(run_of.values())
    of_runs = [
        {
            name: [row for row in all_ if _run_of(row, run_of) == run]
            for name, all_ in rows.items()
        }
        for run in runs
    ]
    if not of_runs:
        yield [*_graphs_alone(named)]
    elif len(of_runs) > _MOST_RUNS:
        yield [*_listed_runs(of_runs, named, part)]
    else:
        yield from ([*_run(own, named, part)] for own in of_runs)


def _run_of(row: Row, run_of: dict[int, int]) -> int | None:
    """The run of a row: its own, or that of its trace."""
    return row["run_id"] if "run_id" in row else run_of.get(row["trace_id"])


def _listed_runs(
    of_runs: list[dict[str, list[Row]]], database: str, part: Part
) -> Iterator[Statement]:
    """The most important about each of many runs, and how to see one in full."""
    for own in of_runs:
        first, *_ = _run(own, database, {})
        files = [shortened(row["file"], _NAME) for row in own["recording"]]
        named = "" if len(files) > 1 or files[0] in first.text else f" ({files[0]})"
        yield Statement("run", f"{first.text}{named}")
        if text := _run_in_short(own):
            yield Statement("fact", text)
    last = of_runs[-1]["recording"][0]["run_id"]
    only = f", only {in_words(part)}" if part else ""
    text = f"{len(of_runs)} runs{only}; in full, for example the last one:"
    yield Statement("title", text)
    yield Statement("command", f"tracedb summary {database} --run {last}")


def _run_in_short(rows: dict[str, list[Row]]) -> str:
    """The step time and its largest part; empty if the run has none."""
    if rows["stuck_collective"]:
        return f"stuck: {stuck(rows['stuck_collective'][0])}"
    if rows["job"]:
        job = rows["job"][0]
        return "" if job["slowdown"] is None else _job_in_short(job)
    if not rows["lever"]:
        return ""
    return _in_short(rows["lever"], rows["period"], _known(rows["recording"]))


def _graphs_alone(database: str) -> Iterator[Statement]:
    yield Statement(
        "run",
        "No traces, only execution graphs: they show what runs, but not how long it "
        "takes.",
    )
    yield Statement("command", f"tracedb info {database}")
    yield Statement(
        "command",
        "tracedb estimate GRAPH.json --gpu A100    estimates the step time",
    )
    yield Statement(
        "command",
        "tracedb ingest TRACE.json --db ...        adds the trace of the same run",
    )


def brief(database: Database, runs: Collection[int]) -> Iterator[str]:
    """A line per run: the step time, and its largest part.

    It runs only the queries for this: a full summary takes longer than a small ingest.
    """
    if database.connection.execute(_OPERATES).fetchall():
        for row in database.ask("job").rows(named=True):
            if row["run_id"] in runs and row["slowdown"] is not None:
                yield f"run {row['run_id']}: {_job_in_short(row)}"
    levers = _levers_in_short(database.relation("critical_path.path_lever"))
    periods = database.ask("period").rows(named=True)
    known = [
        {number for (number,) in database.connection.execute(query).fetchall()}
        for query in (_WORKED, _RAN, _STACKED)
    ]
    for row in database.ask("stuck_collective").rows(named=True):
        if row["run_id"] in runs:
            yield f"run {row['run_id']}: stuck: {stuck(row)}"
    for run_id in sorted(runs):
        own = [row for row in levers if row["run_id"] == run_id]
        if own:
            steps = [row for row in periods if row["run_id"] == run_id]
            said = _in_short(own, steps, Known(*(run_id in runs for runs in known)))
            yield f"run {run_id}: {said}"


def _levers_in_short(paths: pl.DataFrame) -> list[Row]:
    """The levers of each run, summed over its paths."""
    import polars as pl

    summed = paths.group_by("run_id", "lever").agg(pl.sum("time_ns", "busy_ns"))
    whole = pl.sum("time_ns").over("run_id")
    return summed.with_columns(time_share=pl.col("time_ns") / whole).rows(named=True)


def _in_short(levers: list[Row], periods: list[Row], known: Known) -> str:
    largest = min(levers, key=lambda row: (-row["time_ns"], row["lever"]))
    words = lever_words(largest, known)
    return f"{_steps_in_short(periods)}{share(largest['time_share'])} {words}"


def _steps_in_short(periods: list[Row]) -> str:
    if not periods:
        return "no steps; "
    count = max(row["step_count"] for row in periods)
    several = count > 1 or len(periods) > 1
    each = f"{duration(_mean_ns(periods))}{' on average' if several else ''}"
    return f"{counted(count, 'step')} of {each}: "


def _mean_ns(periods: list[Row]) -> float:
    """The mean step of all ranks, to which shares of step time refer."""
    count = sum(row["step_count"] for row in periods)
    total_ns = sum(row["mean_ns"] * row["step_count"] for row in periods)
    return float(total_ns / count)


def _run(rows: dict[str, list[Row]], database: str, part: Part) -> Iterator[Statement]:
    traces = rows["recording"]
    if rows["job"]:
        yield from _job(rows, database)
        return
    if not any(trace["op_count"] or trace["gpu_op_count"] for trace in traces) and sum(
        trace["collective_count"] for trace in traces
    ):
        yield from _log(rows, database)
        return
    yield from _recorded(traces)
    if part.keys() - {"run"}:
        yield Statement("fact", f"below: only {in_words(part)}")
    marks = rows["step_mark"]
    is_of_host = any(trace["thread_count"] for trace in traces)
    how = _marks(marks) if marks and is_of_host else NOTHING_MARKS
    steps = _steps(rows["period"], how if marks else "", part)
    is_known = rows["period"] or _has_events(traces)
    yield from _figure("Step", steps if is_known else [NO_STEPS])
    yield from _of_step(rows) if "step" in part else _device_lines(rows)
    yield from _figure("Host", _host(rows["host_time"], traces))
    yield from _figure("Phases", _phases(rows["phase"]))
    yield Statement("title", "What takes the time (critical path)")
    yield from _levers(rows, database, part)
    yield Statement("title", "How far to trust this")
    for mark, doubt in doubts(rows["trust"], rows["recording"], rows["lost_work"]):
        yield Statement("doubt", doubt, mark)


def _log(rows: dict[str, list[Row]], database: str) -> Iterator[Statement]:
    """Statements about a log of collectives, which has neither ops nor GPU work."""
    traces = rows["recording"]
    yield Statement("run", f"Run {traces[0]['run_id']}: {_who(traces)}")
    calls = counted(sum(row["collective_count"] for row in traces), "collective")
    longest = max(row["duration_ns"] for row in traces)
    text = f"{traces[0]['profiler']}; {calls} in {duration(longest)}"
    yield Statement("fact", text)
    yield Statement("title", "Stuck collectives")
    for number, row in enumerate(rows["stuck_collective"][:_LEVERS], 1):
        yield Statement("item", stuck(row), str(number))
    if rows["stuck_collective"]:
        yield Statement("command", f"tracedb ask {database} last_collective")
    else:
        yield Statement("fact", "none in the log")
        yield Statement("command", f"tracedb ask {database} logged_collective")
    yield Statement("title", "How far to trust this")
    of_logs = [row for row in rows["trust"] if row["aspect"] in OF_LOGS]
    for mark, doubt in doubts(of_logs):
        yield Statement("doubt", doubt, mark)


def _job(rows: dict[str, list[Row]], database: str) -> Iterator[Statement]:
    """Statements about a table of operations, which has neither ops nor GPU work."""
    job = rows["job"][0]
    files = rows["recording"]
    named = shortened(files[0]["file"], _NAME)
    which = named if len(files) == 1 else counted(len(files), "table")
    yield Statement("run", f"Run {job['run_id']}: {which}")
    ranks = counted(job["dp_rank_count"], "data-parallel rank")
    stages = counted(job["stage_count"], "pipeline stage")
    steps = counted(job["step_count"], "step")
    numbers = f"({job['first_step']} to {job['last_step']})"
    table = f"table of {counted(job['operation_count'], 'operation')}"
    yield Statement("fact", f"{table} of {ranks} x {stages}; {steps} {numbers}")
    if job["slowdown"] is None:
        text = "unknown: the dependencies have a cycle, or no two steps are alike"
        yield from _figure("Step", [text])
    else:
        yield from _figure("Step", [_job_step(job)])
        yield Statement(
            "title",
            "What is slower than its peers, and how much that slows the steps",
        )
        slowest = _slowest(job)
        for number, text in enumerate(slowest, 1):
            yield Statement("item", text, str(number))
        if not slowest:
            yield Statement("fact", "no op type, stage or rank slows them by 1 %")
        yield Statement("command", f"tracedb ask {database} straggler_slowdown")
        yield Statement("command", f"tracedb ask {database} straggler_recovery")
        if job["stage_count"] > 1:
            yield Statement("command", f"tracedb ask {database} pipeline_bubble")
    yield Statement("title", "How far to trust this")
    of_logs = [row for row in rows["trust"] if row["aspect"] in OF_LOGS]
    for mark, doubt in doubts(of_logs):
        yield Statement("doubt", doubt, mark)
    without = "kernels and ops are not recorded, so the cause is unknown"
    yield Statement("doubt", without, "-")


def _job_step(job: Row) -> str:
    return (
        f"{duration(job['simulated_ns'])} on average; {duration(job['ideal_ns'])} "
        "if nothing were slower than its peers"
    )


def _job_in_short(job: Row) -> str:
    return f"{counted(job['step_count'], 'step')} of {_job_step(job)}"


def _slowest(job: Row) -> list[str]:
    """What slows the steps noticeably (op type, stage, ...), the worst first."""
    choices = {
        "op_type": "{} in all ranks and stages",
        "stage": "stage {} in all ranks",
        "dp_rank": "data-parallel rank {} in all stages",
        "worker": "the worker of rank {}",
    }
    # With a single rank or stage, these would repeat others, or mean the whole job.
    if job["dp_rank_count"] == 1 or job["stage_count"] == 1:
        del choices["worker"]
    for name in ("dp_rank", "stage"):
        if job[f"{name}_count"] == 1:
            del choices[name]
    worst = sorted(choices, key=lambda name: -job[f"{name}_slowdown"])
    return [
        f"{factor:.2f}x from {choices[name].format(job[name])}"
        for name in worst
        if (factor := job[f"{name}_slowdown"]) >= 1 + _SMALLEST_LEVER
    ]


def _figure(name: str, texts: list[str]) -> Iterator[Statement]:
    for place, text in enumerate(texts):
        yield Statement("figure", text, "" if place else name)


def _recorded(traces: list[Row]) -> Iterator[Statement]:
    first = traces[0]
    yield Statement("run", f"Run {first['run_id']}: {_who(traces)}; {_gpus(traces)}")
    if len(traces) == 1 and first["rank"] is not None:
        yield Statement("fact", shortened(first["file"], _NAME))
    ops, work = (
        sum(row[name] for row in traces) for name in ("op_count", "gpu_op_count")
    )
    collectives = sum(row["collective_count"] for row in traces)
    longest = max(row["duration_ns"] for row in traces)
    tool = ", ".join(filter(None, [first["profiler"], first["runtime"]]))
    ranges = sum(row["range_count"] for row in traces)
    beside = f", {counted(ranges, 'user range')}" if ranges else ""
    count = f"{counted(ops, 'op')}{beside} and {counted(work, 'GPU op')}"
    among = f" ({counted(collectives, 'collective')})" if collectives else ""
    lasting = f" {duration(longest)} recorded;" if longest else ""
    yield Statement("fact", f"{tool};{lasting} {count}{among}")
    yield Statement("fact", f"{_numbered(traces)}; recorded {_settings(traces)}")


def _who(traces: list[Row]) -> str:
    ranks = sorted(row["rank"] for row in traces if row["rank"] is not None)
    size = max((row["world_size"] or 0 for row in traces), default=0)
    if len(traces) == 1 and not ranks:
        return shortened(traces[0]["file"], _NAME)
    if not ranks:
        return counted(len(traces), "trace")
    listed = ", ".join(map(str, ranks[:8])) + (", …" if len(ranks) > 8 else "")  # noqa: PLR2004 (fits)
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {listed}" + (
        f" of {size}" if size > 1 else ""
    )


def _gpus(traces: list[Row]) -> str:
    count = sum(row["device_count"] for row in traces)
    if not count:
        return "no GPU kernels" if _other_tasks(traces) else "no GPU work"
    names = sorted({row["gpu"] for row in traces if row["gpu"]})
    return f"{count} x {', '.join(names) or 'GPU of unknown model'}"


def _other_tasks(traces: list[Row]) -> int:
    """Tasks of devices whose kind the profiler does not tell."""
    return sum(row["other_task_count"] for row in traces)


def _numbered(traces: list[Row]) -> str:
    """The steps by their numbers, which two recordings in one file may share.

    >>> _numbered([dict(step_count=5, first_step=101, last_step=105)])
    '5 steps (101 to 105)'
    >>> _numbered([dict(step_count=5, first_step=0, last_step=1)])
    '5 steps (0 to 1, some several times)'
    """
    stepped = [row for row in traces if row["step_count"]]
    if not stepped:
        return "no steps"
    first = min(row["first_step"] for row in stepped)
    last = max(row["last_step"] for row in stepped)
    count = stepped[0]["step_count"]
    if first == last and count == 1:
        return f"step {first}"
    recurs = ", some several times" if count > last - first + 1 else ""
    return f"{counted(count, 'step')} ({first} to {last}{recurs})"


def _settings(traces: list[Row]) -> str:
    options = {
        "has_shapes": "shapes",
        "has_stack": "Python stacks",
        "has_memory": "memory",
    }
    having = [w for name, w in options.items() if all(row[name] for row in traces)]
    lacking = [word for word in options.values() if word not in having]
    with_ = f"with {_listed(having)}" if having else ""
    without = f"without {_listed(lacking, 'or')}" if lacking else ""
    return ", ".join(filter(None, [with_, without]))


def _listed(words: list[str], last: str = "and") -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def _steps(periods: list[Row], marks: str, part: Part) -> list[str]:
    """The time of steps; where there are none, `marks` says what could mark them."""
    if not periods and not marks:
        return ["unknown: the recorded steps take no time"]
    if not periods:
        return [f"no step marks, so times cover the whole trace; {marks}"]
    slowest = max(periods, key=lambda row: row["median_ns"])
    several = len(periods) > 1
    of_rank = f", {_rank(slowest)}, the slowest of {len(periods)}" if several else ""
    of_all = f"mean across {len(periods)} ranks {duration(_mean_ns(periods))}"
    if slowest["step_count"] == 1:
        which = f"step {part['step']}" if "step" in part else "only one step"
        text = f"{duration(slowest['median_ns'])} ({which}{of_rank})"
        return [text, *([of_all] if several else [])]
    text = (
        f"{duration(slowest['median_ns'])} "
        f"(median of {slowest['step_count']}{of_rank}; "
        f"{duration(slowest['shortest_ns'])} to {duration(slowest['longest_ns'])}, "
        f"longest step {slowest['longest_step']})"
    )
    lines = [text, of_all if several else f"mean {duration(_mean_ns(periods))}"]
    spread = slowest["spread_share"]
    return [*lines, *([f"interquartile range {share(spread)}"] if spread else [])]


def _marks(marks: list[Row]) -> str:
    """What could mark the steps of the first trace without; other ranks are similar."""
    return marks_in_words(
        [row for row in marks if row["trace_id"] == marks[0]["trace_id"]]
    )


def _rank(row: Row) -> str:
    return f"trace {row['trace_id']}" if row["rank"] is None else f"rank {row['rank']}"


def _device_lines(rows: dict[str, list[Row]]) -> Iterator[Statement]:
    devices = rows["device_time"]
    if not devices:
        text = "no GPU work in this run: no kernels and no copies were recorded"
        others = _other_tasks(rows["recording"])
        if others:
            text = (
                f"{counted(others, 'task')} of devices, but no kernels and no copies, "
                "so busy and idle time are unknown; staging.gpu_op has the tasks"
            )
        yield from _figure("GPU", [text])
        return
    count = len({(row["trace_id"], row["device"]) for row in devices})
    mean = f", mean of {count}" if count > 1 else ""
    texts = []
    for is_busy, word in ((True, "busy"), (False, "idle")):
        shares = _shares(
            [row for row in devices if row["is_busy"] is is_busy], "kind", count
        )
        texts.append(f"{word} {share(sum(shares.values()))}{mean}{_parts(shares)}")
        mean = ""
    yield from _figure("GPU", texts)


def _of_step(rows: dict[str, list[Row]]) -> Iterator[Statement]:
    """What the devices do in the mark of the only step."""
    shares, causes = rows["idle_share"], rows["idle_cause"]
    if not shares:
        yield from _device_lines({**rows, "device_time": []})
        return
    count = len(shares)
    idle = sum(row["idle_share"] or 0 for row in shares) / count
    kinds: dict[str, float] = {}
    for row in causes:
        kinds[row["kind"]] = (
            kinds.get(row["kind"], 0) + (row["idle_share"] or 0) / count
        )
    ordered = dict(sorted(kinds.items(), key=lambda item: -item[1]))
    mean = f", mean of {count}" if count > 1 else ""
    texts = [f"busy {share(1 - idle)} of the step's mark on the host{mean}"]
    yield from _figure("GPU", [*texts, f"idle {share(idle)}{_parts(ordered)}"])


def _shares(rows: list[Row], name: str, count: int) -> dict[str, float]:
    """Mean share of each kind, the largest first."""
    shares: dict[str, float] = {}
    for row in rows:
        shares[row[name]] = shares.get(row[name], 0) + (row["time_share"] or 0) / count
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _parts(shares: dict[str, float]) -> str:
    parts = [
        f"{kind_words(kind)} {share(value)}"
        for kind, value in shares.items()
        if value >= _SMALLEST_SHARE
    ]
    return f": {', '.join(parts)}" if parts else ""


def _host(types: list[Row], traces: list[Row]) -> list[str]:
    count = len({row["trace_id"] for row in types})
    if _is_idle(types) and any(trace["op_count"] for trace in traces):
        return ["no ops or calls on the main thread within steps, only elsewhere"]
    if not count and any(trace["has_stack"] for trace in traces):
        return [f"only Python functions were recorded, no ops: {_NO_OPS}"]
    if not count:
        return [f"no ops or calls were recorded on host threads{_why_empty(traces)}"]
    if _is_idle(types) and not _has_work(traces):
        return [f"main thread: idle; no ops were recorded: {_NO_OPS}"]
    return [f"main thread{_parts(_shares(types, 'type', count))}"]


_NO_OPS = (
    "a schedule's next cycle began before the trace was exported, and replaced what "
    "was recorded (export it in on_trace_ready, or set repeat=1), or the model ran on "
    "another thread than the one that starts the profiler (start it there, or set "
    "profile_all_threads=True in its experimental_config, not in PyTorch 2.6 and "
    "before)"
)
"""Why a PyTorch profiler that ran has recorded no ops."""


def _why_empty(traces: list[Row]) -> str:
    if _has_events(traces) or traces[0]["profiler"] != "PyTorch profiler":
        return ""
    return f": {_NO_OPS}"


def _has_work(traces: list[Row]) -> bool:
    """Whether ops or GPU work were recorded, or it was another profiler's to do so."""
    if any(trace["profiler"] != "PyTorch profiler" for trace in traces):
        return True
    return any(trace["op_count"] or trace["gpu_op_count"] for trace in traces)


def _has_events(traces: list[Row]) -> bool:
    """Whether anything but Python functions and calls was recorded."""
    counts = ("op_count", "range_count", "gpu_op_count", "other_task_count")
    return any(trace[count] for trace in traces for count in counts)


def _phases(rows: list[Row]) -> list[str]:
    """How the critical paths of a training are shared by its phases."""
    times: dict[str, int] = {}
    for row in rows:
        times[row["phase"]] = times.get(row["phase"], 0) + row["path_ns"]
    if not (times.get("backward") or times.get("optimizer")):
        return []
    shares = {name: ns / sum(times.values()) for name, ns in times.items()}
    parts = (
        f"{name.replace('_', ' ')} {share(value)}"
        for name, value in shares.items()
        if value >= _SMALLEST_SHARE
    )
    return [f"critical path: {', '.join(parts)}"]


def _is_idle(types: list[Row]) -> bool:
    """Whether no thread of the steps has an op or a call in them."""
    return {row["type"] for row in types} <= {"idle"}


def _known(traces: list[Row]) -> Known:
    return Known(
        on_gpu=any(row["device_count"] for row in traces),
        has_ops=any(row["op_count"] for row in traces),
        has_stacks=any(row["has_stack"] for row in traces),
    )


def _levers(
    rows: dict[str, list[Row]], database: str, part: Part
) -> Iterator[Statement]:
    if not rows["lever"]:
        yield Statement("fact", "unknown: the trace has neither ops nor GPU work")
    each = _each(rows, part)
    known = _known(rows["recording"])
    large = [row for row in rows["lever"] if row["time_share"] >= _SMALLEST_LEVER]
    are_modules_named = False
    for number, row in enumerate(large[:_LEVERS], 1):
        head = f"{share(row['time_share'])} ({duration(row['mean_ns'])}{each})"
        words = lever_words(row, known)
        late = _latest(rows["straggler"]) if row["lever"] == "rank_wait" else ""
        text = f"{head} {words}.{late}{_place(row, rows)}{_remedy(row, rows)}"
        yield Statement("item", text, str(number))
        has_gaps = not _is_idle(rows["host_time"])
        command = lever_command(row, known, has_gaps=has_gaps)
        yield Statement("command", command.format(db=database))
        if row["module"] and not are_modules_named:
            yield Statement("command", f"tracedb ask {database} module_class")
            are_modules_named = True
    if large and rows["period"]:
        yield Statement("fact", "Other work may take over what a change saves. Try it:")
        yield Statement("command", f"tracedb whatif {database}")


def _each(rows: dict[str, list[Row]], part: Part) -> str:
    """What the mean time of a lever is of: a step, or a trace without steps."""
    traces = rows["recording"]
    if rows["period"]:
        is_one = "step" in part and len(rows["period"]) == 1
        return "" if is_one else " per step"
    if len(traces) == 1:
        return " in total"
    return " per rank" if all(t["rank"] is not None for t in traces) else " per trace"


def _latest(stragglers: list[Row]) -> str:
    """Which rank the others wait for longest, unless clocks leave that open."""
    delays = sum(row["delayed_ns"] for row in stragglers)
    if not delays or any(row["is_ambiguous"] for row in stragglers):
        return ""
    latest = max(stragglers, key=itemgetter("delayed_ns"))
    part = share(latest["delayed_ns"] / delays)
    return f" The others wait longest for {_rank(latest)} ({part} of the delays)."


def _remedy(row: Row, rows: dict[str, list[Row]]) -> str:
    """What to do where GPUs wait for what was launched before the recording."""
    if row["lever"] != "unexplained":
        return ""
    # Of a step, there are only the causes.
    of_all, of_step = rows.get("device_time", []), rows.get("idle_cause", [])
    shares = _shares(of_all, "kind", 1) or {
        one["kind"]: one["idle_share"] for one in of_step
    }
    is_before = shares.get("before_trace", 0) > shares.get("unexplained", 0)
    return EARLIER_WORK if is_before else ""


def _place(row: Row, rows: dict[str, list[Row]]) -> str:
    if row["place"] is None:
        return _unknown_place(row, rows["recording"])
    part = row["place_ns"] / row["time_ns"] if row["time_ns"] else 0
    is_frame = row["place"] == row["frame"]
    frame = row["frame"] and frame_within(row["frame"], _FRAME)
    name = frame if is_frame else shortened(_plain(row["place"]), _NAME)
    is_all = row["place_ns"] == row["time_ns"]
    size = "All of it" if is_all else f"The largest part ({share(part)} of it)"
    where = [f" {size} is in {name}"]
    if row["op"] and row["op"] != row["place"]:
        where.append(f"of {shortened(_plain(row['op']), _NAME)}")
    if row["module"] and row["module"] != row["place"]:
        where.append(f"for {shortened(row['module'], _NAME)}")
    if row["frame"] and row["frame"] != row["place"]:
        where.append(f"called from {frame}")
    if row["step"] is not None and len(rows["recording"]) > 1:
        where.append(
            f"for example in step {row['step']} of {_rank(row)}"
            if row["rank"] is not None
            else ""
        )
    return ", ".join(filter(None, where)) + "."


def _unknown_place(row: Row, traces: list[Row]) -> str:
    # Processes of a loader are in no trace, with or without stacks.
    if row["lever"] == "data_loading":
        return ""
    if row["lever"] == "python" and _is_xla_on_cpu(traces):
        return (
            " The place is unknown. XLA's profiler does not record how long a thread "
            "waits for a result (block_until_ready), so the host may be waiting for "
            "XLA's threads."
        )
    if not all(trace["has_stack"] for trace in traces):
        return " The place is unknown: recorded without Python stacks."
    if row["lever"] == "python":
        return (
            " The place is unknown: no Python functions were recorded there (PyTorch "
            "records those of threads that already run when the profiler starts)."
        )
    return ""


def _is_xla_on_cpu(traces: list[Row]) -> bool:
    """Whether computations run on threads of the host, beside the one that waits."""
    return all(
        trace["profiler"] == "XLA profiler" and not trace["device_count"]
        for trace in traces
    )


def _plain(name: str) -> str:
    """The name without the prefix that autograd puts on every backward op."""
    return name.removeprefix("autograd::engine::evaluate_function: ")
