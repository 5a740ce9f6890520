"""`tracedb summary`: what a database holds, in the first minute."""

from __future__ import annotations

import re
from shlex import quote
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

import tracedb
from tracedb.words import counted, duration, share, shortened

from . import options
from .missing_steps import marks_in_words
from .summary_words import (
    OF_LOGS,
    doubts,
    kind_words,
    lever_command,
    lever_words,
    stuck,
)
from .terminal import printable, write_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import polars as pl

    Row = dict[str, Any]

_WIDTH = 80
_LABEL = 8
_LEVERS = 3
_SMALLEST_LEVER = 0.01
_NAME = 46
_NO_BREAK = "\u00a0"
_AMOUNT = re.compile(r"([\d.]) (s|ms|us|ns|%)(?!\w)")
_WORKED = "SELECT DISTINCT run_id FROM staging.gpu_op WHERE kind <> 'other'"
_RAN = "SELECT DISTINCT run_id FROM staging.op"
_OPERATES = "SELECT 1 FROM staging.operation LIMIT 1"
_SMALLEST_SHARE = 0.005
"""Of a device's or a thread's time; what is less is left to the questions."""


@click.command(
    epilog=options.examples(
        "tracedb summary run.duckdb",
        "tracedb summary run.duckdb --run 2",
        "tracedb summary run.duckdb --format json",
    )
)
@options.database
@click.option("--run", "run_id", type=int, metavar="N", help="Only this run.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For a person, or every fact as a list of rows by the name of its question.",
)
def summary(database: str, run_id: int | None, *, format_: str) -> None:
    """Show what takes the time, and where.

    What was recorded, how long steps take, what the GPU does and why it is idle,
    the three largest parts of the critical paths with the place where most of each is,
    and what the recording leaves in doubt. Each fact is a question that
    `tracedb ask` answers in full.
    """
    with tracedb.open(database, read_only=True) as db:
        parts = db.summary(run_id)
    if format_ == "json":
        _write_json(parts)
    else:
        write_text("\n".join(map(printable, lines(parts, database))))


def _write_json(parts: dict[str, pl.DataFrame]) -> None:
    from tracedb.encode import encode

    written = (
        f'"{name}": {encode(rows, "json").decode()}' for name, rows in parts.items()
    )
    write_text("{" + ",\n".join(written) + "}")


def lines(parts: dict[str, pl.DataFrame], database: str) -> Iterator[str]:
    """The summary as lines of at most 80 columns, a paragraph a run."""
    rows = {name: list(frame.iter_rows(named=True)) for name, frame in parts.items()}
    runs = list(dict.fromkeys(row["run_id"] for row in rows["recording"]))
    if not runs:
        yield from _graphs_alone(database)
    for place, run_id in enumerate(runs):
        own = {
            name: [row for row in all_ if row["run_id"] == run_id]
            for name, all_ in rows.items()
        }
        yield from [""] * (place > 0)
        yield from _run(own, database)


def _graphs_alone(database: str) -> Iterator[str]:
    yield "No traces: execution graphs alone tell what runs, not how long it takes."
    yield f"  -> tracedb info {quote(database)}"
    yield "  -> tracedb estimate GRAPH.json --gpu A100    how long a step would take"
    yield "  -> tracedb ingest TRACE.json --db ...        the trace of the same run"


def brief(database: tracedb.Database, runs: Collection[int]) -> Iterator[str]:
    """One line a run: how long a step takes, and the largest part of that.

    It asks no more than that: a summary would take longer than to ingest a small trace.
    """
    if database.connection.execute(_OPERATES).fetchall():
        for row in database.ask("job").rows(named=True):
            if row["run_id"] in runs and row["slowdown"] is not None:
                yield f"run {row['run_id']}: {_job_in_short(row)}"
    levers = database.relation("critical_path.lever_time").rows(named=True)
    periods = database.ask("period").rows(named=True)
    worked, ran = (
        {number for (number,) in database.connection.execute(query).fetchall()}
        for query in (_WORKED, _RAN)
    )
    for row in database.ask("stuck_collective").rows(named=True):
        if row["run_id"] in runs:
            yield f"run {row['run_id']}: stuck: {stuck(row)}"
    for run_id in sorted(runs):
        own = [row for row in levers if row["run_id"] == run_id]
        if own:
            largest = min(own, key=lambda row: (-row["time_ns"], row["lever"]))
            steps = _steps_in_short([row for row in periods if row["run_id"] == run_id])
            words = lever_words(largest, on_gpu=run_id in worked, has_ops=run_id in ran)
            yield f"run {run_id}: {steps}{share(largest['time_share'])} {words}"


def _steps_in_short(periods: list[Row]) -> str:
    if not periods:
        return "no steps; of its time "
    count = max(row["step_count"] for row in periods)
    several = count > 1 or len(periods) > 1
    each = f"{duration(_mean_ns(periods))}{' in the mean' if several else ''}"
    return f"{counted(count, 'step')} of {each}; of that "


def _mean_ns(periods: list[Row]) -> float:
    """The mean step of all ranks, which shares of the time of steps are of."""
    count = sum(row["step_count"] for row in periods)
    total_ns = sum(row["mean_ns"] * row["step_count"] for row in periods)
    return float(total_ns / count)


def _run(rows: dict[str, list[Row]], database: str) -> Iterator[str]:
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
    yield ""
    yield from _labelled("Step", _steps(rows["period"], rows["step_mark"]))
    yield from _device_lines(rows)
    yield from _labelled("Host", _host(rows["host_time"], traces))
    yield ""
    yield "What takes the time (critical path)"
    yield from _levers(rows, database)
    yield ""
    yield "How far to trust this"
    for mark, doubt in doubts(rows["trust"], rows["recording"]):
        yield from _filled(f"  {mark} ", doubt)


def _log(rows: dict[str, list[Row]], database: str) -> Iterator[str]:
    """What a log of collectives says, which has neither ops nor GPU work."""
    traces = rows["recording"]
    yield from _filled("", f"Run {traces[0]['run_id']}: {_who(traces)}")
    calls = counted(sum(row["collective_count"] for row in traces), "collective")
    longest = max(row["duration_ns"] for row in traces)
    said = f"{traces[0]['profiler']}; {calls} in {duration(longest)}"
    yield from _filled("  ", said)
    yield ""
    yield "Which collectives are stuck"
    for number, row in enumerate(rows["stuck_collective"][:_LEVERS], 1):
        yield from _filled(f"  {number}. ", stuck(row))
    if rows["stuck_collective"]:
        yield f"     -> tracedb ask {quote(database)} last_collective"
    else:
        yield "  none that the log has"
        yield f"     -> tracedb ask {quote(database)} logged_collective"
    yield ""
    yield "How far to trust this"
    of_logs = [row for row in rows["trust"] if row["aspect"] in OF_LOGS]
    for mark, doubt in doubts(of_logs):
        yield from _filled(f"  {mark} ", doubt)


def _job(rows: dict[str, list[Row]], database: str) -> Iterator[str]:
    """What a table of operations says, which has neither ops nor GPU work."""
    job = rows["job"][0]
    files = rows["recording"]
    named = shortened(files[0]["file"], _NAME)
    which = named if len(files) == 1 else counted(len(files), "table")
    yield from _filled("", f"Run {job['run_id']}: {which}")
    ranks = counted(job["dp_rank_count"], "data-parallel rank")
    stages = counted(job["stage_count"], "pipeline stage")
    steps = counted(job["step_count"], "step")
    numbers = f"({job['first_step']} to {job['last_step']})"
    table = f"table of {counted(job['operation_count'], 'operation')}"
    yield from _filled("  ", f"{table} of {ranks} x {stages}; {steps} {numbers}")
    yield ""
    if job["slowdown"] is None:
        text = "not known: what waits for what is a circle, or no step is like another"
        yield from _labelled("Step", [text])
    else:
        yield from _labelled("Step", [_job_step(job)])
        yield ""
        yield "What is slower than its peers, and how much longer steps are for it"
        for number, text in enumerate(_slowest(job), 1):
            yield from _filled(f"  {number}. ", text)
        yield f"     -> tracedb ask {quote(database)} straggler_slowdown"
        yield f"     -> tracedb ask {quote(database)} straggler_recovery"
    yield ""
    yield "How far to trust this"
    of_logs = [row for row in rows["trust"] if row["aspect"] in OF_LOGS]
    for mark, doubt in doubts(of_logs):
        yield from _filled(f"  {mark} ", doubt)
    yield from _filled("  - ", "kernels and ops are not recorded: not why it is slower")


def _job_step(job: Row) -> str:
    return (
        f"{duration(job['simulated_ns'])} in the mean; "
        f"{duration(job['ideal_ns'])} if nothing were slower than its peers"
    )


def _job_in_short(job: Row) -> str:
    return f"{counted(job['step_count'], 'step')} of {_job_step(job)}"


def _slowest(job: Row) -> list[str]:
    """The slowest of each choice that makes steps longer, the worst first."""
    choices = {
        "op_type": "{} in all ranks and stages",
        "stage": "stage {} in all ranks",
        "dp_rank": "data-parallel rank {} in all stages",
        "worker": "the worker of rank {}",
    }
    # Of one rank or stage the others are the same in other words, or all of the job.
    if job["dp_rank_count"] == 1 or job["stage_count"] == 1:
        del choices["worker"]
    for name in ("dp_rank", "stage"):
        if job[f"{name}_count"] == 1:
            del choices[name]
    worst = sorted(choices, key=lambda name: -job[f"{name}_slowdown"])
    return [
        f"x {job[f'{name}_slowdown']:.2f} by {choices[name].format(job[name])}"
        for name in worst
    ]


def _labelled(label: str, texts: list[str]) -> Iterator[str]:
    for place, text in enumerate(texts):
        yield from _filled(f"{'' if place else label:<{_LABEL}}", text)


def _filled(head: str, text: str) -> Iterator[str]:
    """Lines that begin below the end of the head; no number is parted from its unit."""
    kept = _AMOUNT.sub(rf"\1{_NO_BREAK}\2", text)
    filled = wrap(
        kept,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    )
    return (line.replace(_NO_BREAK, " ") for line in filled)


def _recorded(traces: list[Row]) -> Iterator[str]:
    first = traces[0]
    yield from _filled("", f"Run {first['run_id']}: {_who(traces)}; {_gpus(traces)}")
    ops, work = (
        sum(row[name] for row in traces) for name in ("op_count", "gpu_op_count")
    )
    collectives = sum(row["collective_count"] for row in traces)
    longest = max(row["duration_ns"] for row in traces)
    tool = ", ".join(filter(None, [first["profiler"], first["runtime"]]))
    count = f"{counted(ops, 'op')} and {counted(work, 'GPU op')}"
    among = f" ({counted(collectives, 'collective')})" if collectives else ""
    yield from _filled("  ", f"{tool}; {duration(longest)} recorded; {count}{among}")
    yield from _filled("  ", f"{_numbered(traces)}; recorded {_settings(traces)}")


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
        return "no GPU work"
    names = sorted({row["gpu"] for row in traces if row["gpu"]})
    return f"{count} x {', '.join(names) or 'a GPU whose model is not recorded'}"


def _numbered(traces: list[Row]) -> str:
    stepped = [row for row in traces if row["step_count"]]
    if not stepped:
        return "no steps"
    first = min(row["first_step"] for row in stepped)
    last = max(row["last_step"] for row in stepped)
    if first == last:
        return f"step {first}"
    return f"{counted(stepped[0]['step_count'], 'step')} ({first} to {last})"


def _settings(traces: list[Row]) -> str:
    said = {
        "has_shapes": "shapes",
        "has_stack": "Python stacks",
        "has_memory": "memory",
    }
    having = [word for name, word in said.items() if all(row[name] for row in traces)]
    lacking = [word for word in said.values() if word not in having]
    with_ = f"with {_listed(having)}" if having else ""
    without = f"without {_listed(lacking, 'or')}" if lacking else ""
    return ", ".join(filter(None, [with_, without]))


def _listed(words: list[str], last: str = "and") -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def _steps(periods: list[Row], marks: list[Row]) -> list[str]:
    if not periods:
        return [f"no step marks, so times are of all of the trace; {_marks(marks)}"]
    slowest = max(periods, key=lambda row: row["median_ns"])
    several = len(periods) > 1
    of_rank = f", {_rank(slowest)}, the slowest of {len(periods)}" if several else ""
    of_all = f"mean of {len(periods)} ranks {duration(_mean_ns(periods))}"
    if slowest["step_count"] == 1:
        text = f"{duration(slowest['median_ns'])}: the only one{of_rank}"
        return [text, *([of_all] if several else [])]
    text = (
        f"{duration(slowest['median_ns'])} "
        f"(median of {slowest['step_count']}{of_rank}; "
        f"{duration(slowest['shortest_ns'])} to {duration(slowest['longest_ns'])}, "
        f"longest step {slowest['longest_step']})"
    )
    lines = [text, of_all if several else f"mean {duration(_mean_ns(periods))}"]
    spread = slowest["spread_share"]
    return [*lines, *([f"middle half within {share(spread)}"] if spread else [])]


def _marks(marks: list[Row]) -> str:
    """What could mark steps, of the first trace without: ranks are recorded alike."""
    own = [row for row in marks if row["trace_id"] == marks[0]["trace_id"]]
    if own and own[0]["option"]:
        return f"`tracedb ingest`: {marks_in_words(own)}"
    return "nothing in it could mark them, as prof.step() or user ranges would"


def _rank(row: Row) -> str:
    return f"trace {row['trace_id']}" if row["rank"] is None else f"rank {row['rank']}"


def _device_lines(rows: dict[str, list[Row]]) -> Iterator[str]:
    devices = rows["device_time"]
    if not devices:
        text = "no GPU work in this run: neither kernels nor copies are recorded"
        yield from _labelled("GPU", [text])
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
    yield from _labelled("GPU", texts)


def _shares(rows: list[Row], name: str, count: int) -> dict[str, float]:
    """Mean shares by kind, the largest first."""
    shares: dict[str, float] = {}
    for row in rows:
        shares[row[name]] = shares.get(row[name], 0) + (row["time_share"] or 0) / count
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _parts(shares: dict[str, float]) -> str:
    said = [
        f"{kind_words(kind)} {share(value)}"
        for kind, value in shares.items()
        if value >= _SMALLEST_SHARE
    ]
    return f": {', '.join(said)}" if said else ""


def _host(types: list[Row], traces: list[Row]) -> list[str]:
    count = len({row["trace_id"] for row in types})
    if not count and any(trace["op_count"] for trace in traces):
        return ["no op or call on the main thread in a step: outside, or other threads"]
    if not count:
        return ["no ops or calls on host threads are recorded"]
    return [f"main thread{_parts(_shares(types, 'type', count))}"]


def _levers(rows: dict[str, list[Row]], database: str) -> Iterator[str]:
    if not rows["lever"]:
        yield "  nothing: the trace has neither ops nor GPU work"
    each = "a step" if rows["period"] else "in all"
    on_gpu = any(row["device_count"] for row in rows["recording"])
    has_ops = any(row["op_count"] for row in rows["recording"])
    large = [row for row in rows["lever"] if row["time_share"] >= _SMALLEST_LEVER]
    for number, row in enumerate(large[:_LEVERS], 1):
        head = f"{share(row['time_share'])} ({duration(row['mean_ns'])} {each})"
        words = lever_words(row, on_gpu=on_gpu, has_ops=has_ops)
        text = f"{head} {words}.{_place(row, rows)}"
        yield from _filled(f"  {number}. ", text)
        yield f"     -> {lever_command(row).format(db=quote(database))}"


def _place(row: Row, rows: dict[str, list[Row]]) -> str:
    if row["place"] is None:
        stacks = all(trace["has_stack"] for trace in rows["recording"])
        return "" if stacks else " Where is not known: recorded without Python stacks."
    part = row["place_ns"] / row["time_ns"] if row["time_ns"] else 0
    is_frame = row["place"] == row["frame"]
    name = row["place"] if is_frame else shortened(_plain(row["place"]), _NAME)
    where = [f" Most ({share(part)} of it) in {name}"]
    if row["op"] and row["op"] != row["place"]:
        where.append(f"of {shortened(_plain(row['op']), _NAME)}")
    if row["module"] and row["module"] != row["place"]:
        where.append(f"for {shortened(row['module'], _NAME)}")
    if row["frame"] and row["frame"] != row["place"]:
        where.append(f"called from {row['frame']}")
    if row["step"] is not None and len(rows["recording"]) > 1:
        where.append(
            f"as in step {row['step']} of {_rank(row)}"
            if row["rank"] is not None
            else ""
        )
    return ", ".join(filter(None, where)) + "."


def _plain(name: str) -> str:
    """The name without what autograd puts before that of every backward op."""
    return name.removeprefix("autograd::engine::evaluate_function: ")
