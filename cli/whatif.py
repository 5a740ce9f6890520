"""`tracedb whatif`: the effect of changes on steps, and what is worth changing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

import tracedb
from tracedb.part import in_words
from tracedb.words import counted, share, shortened

from . import options
from . import output as out
from .missing_steps import write_rows
from .other_gpus import tell_other_gpus
from .terminal import tell

if TYPE_CHECKING:
    from typing import Unpack

    import polars as pl

    from tracedb.part import Part
    from tracedb.whatif.scenario import Edit

_ROWS = {
    "summary": (
        *("scenario", "method", "run_id", "step_count", "baseline_ns", "predicted_ns"),
        *("change_ns", "change_share", "baseline_host_ns", "predicted_host_ns"),
        *("baseline_gpu_end_ns", "predicted_gpu_end_ns", "unexplained_ns"),
    ),
    "effect": (
        *("scenario", "method", "trace_id", "step", "baseline_ns", "predicted_ns"),
        *("change_share", "baseline_host_ns", "predicted_host_ns"),
        *("baseline_gpu_end_ns", "predicted_gpu_end_ns"),
    ),
    "hit": ("scenario", "edit", "method", "match_count", "matched_ns", "path_ns"),
    "saving": ("scenario", "method", "run_id", "expected_ns", "saved_ns", "lost_ns"),
    "path": (
        *("scenario", "method", "run_id", "kind", "name", "baseline_ns"),
        *("predicted_ns", "change_ns"),
    ),
    "kernel": (
        *("scenario", "name", "family", "basis", "in_range", "gpu_op_count"),
        *("measured_ns", "changed_ns", "low_ns", "high_ns"),
    ),
    "op": (
        *("scenario", "name", "family", "basis", "op_count"),
        *("own_ns", "floor_ns", "changed_ns"),
    ),
    "guess": ("scenario", "edit", "kind", "wait_count"),
    "assumption": ("scenario", "edit", "assumption"),
}
"""The possible answers, with the columns of each table."""
_RANKING = (
    *("target", "type", "name", "method", "run_id", "baseline_ns"),
    *("gain_ns", "gain_share", "half_gain_ns", "roofline_gain_ns"),
)
_WAITING = {
    "host": "of threads for GPU work",
    "stream": "of GPU work for another stream",
    "thread": "of threads for other threads",
}
"""The kinds of inferred waits, in words."""
_MOST_DETAILED = 8
_MOST_KINDS = 3
_MS = 1_000_000
_LEAST_NS = 500
"""[ns] Smallest time that is shown as 0.001 ms."""


@click.command(
    epilog=options.examples(
        "tracedb whatif run.duckdb",
        "tracedb whatif run.duckdb --edit 'gpu family=gemm x0.5'",
        "tracedb whatif run.duckdb --remove 'op:aten::item' --name 'no item'",
        "tracedb whatif run.duckdb --set gpu=H200 --set 'dtype=bf16:gemm*'",
        "tracedb whatif run.duckdb --set batch=4096",
        "tracedb whatif run.duckdb --set 'ranks=8 network=25' --sweep ranks=8..64",
        "tracedb whatif run.duckdb --rank 3 --edit 'host:T2 -2us'",
        "tracedb whatif run.duckdb --edit gpu:kernel --sweep factor=0.1..1:10",
        "tracedb whatif run.duckdb --scenario faster.toml --rows path --format csv",
        "tracedb whatif run.duckdb --edit 'host x0.5' --library library.parquet",
        "tracedb whatif --scenario faster.toml --check",
    )
)
@click.argument("database", metavar="[DB]", type=click.Path(), required=False)
@click.option(
    "--edit",
    "edits",
    multiple=True,
    metavar="LINE",
    help="An edit, such as 'gpu family=gemm x0.5'. Several edits form one scenario.",
)
@click.option(
    "--remove",
    "removed",
    multiple=True,
    metavar="LINE",
    help="What to remove, such as 'op:aten::item'.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="SETTING",
    help="Change the GPU, type, batch or number of ranks: gpu=H200, dtype=bf16, "
    "dtype=bf16:gemm* (only these kernels), batch=4096 (also for ops on the CPU), "
    "'batch=4096 from_batch=512' (the recorded size), ranks=64, 'ranks=64 "
    "ranks_per_node=8 network=25' (what messages of a GPU reach between nodes, in "
    "GB/s).",
)
@click.option(
    "--name", metavar="TEXT", help="Name of the scenario that these edits form."
)
@click.option("--each", is_flag=True, help="Make each edit a scenario of its own.")
@click.option(
    "--scenario", "path", metavar="FILE", help="JSON or TOML file with scenarios."
)
@click.option(
    "--stored",
    is_flag=True,
    help="Use the scenarios stored in the database (reference.scenario).",
)
@click.option(
    "--sweep",
    multiple=True,
    metavar="FIELD=VALUES",
    help="Run each scenario with each value: factor=0.1..1:10, add_ns=-1000,1000, "
    "ranks=8..64 (doubling), batch=..., gpu=A100,H100, or SQL. Several sweeps give all "
    "combinations.",
)
@click.option(
    "--ranking",
    is_flag=True,
    expose_value=False,
    help="Rank what is worth changing. This is the default without edits.",
)
@click.option(
    "--candidates",
    type=click.IntRange(1, 100),
    default=8,
    show_default=True,
    metavar="N",
    help="For the ranking: number of candidates of each kind, most time first.",
)
@click.option(
    "--rows",
    type=click.Choice(list(_ROWS)),
    default="summary",
    show_default=True,
    help="Rows to print: question.scenario_summary, _effect and so on.",
)
@options.step
@options.within
@options.method
@options.library
@click.option(
    "--check",
    is_flag=True,
    help="Only check the edits. With a database, also check that each matches "
    "something.",
)
@click.option(
    "--schema", is_flag=True, help="Print the JSON Schema of a scenario file."
)
@out.option
def whatif(  # noqa: PLR0913 (one parameter an option)
    database: str | None,
    *,
    edits: tuple[str, ...],
    removed: tuple[str, ...],
    settings: tuple[str, ...],
    name: str | None,
    each: bool,
    path: str | None,
    stored: bool,
    sweep: tuple[str, ...],
    candidates: int,
    rows: str,
    method: str | None,
    library: str | None,
    check: bool,
    schema: bool,
    output: out.Output,
    **part: Unpack[Part],
) -> None:
    """Simulate changes, or rank what is worth changing.

    Shows the effect of edits on the period of steps, and on their host and GPU time. An
    edit has a target (host, gpu, op, wait, delay, profiler), with a type or a name
    pattern after a colon; fields that narrow the selection (op=, step=, stream=, phase=
    and more); and a change: x0.5, +2us, -2us, =5us or an action such as remove.
    docs/scenarios.md lists them all. Without edits, ranks what is worth changing: the
    gain if an op, a kernel, a module, an overhead type or a wait took no time or half
    its time, or if a kernel reached its roofline. With options for a step, rank, run or
    trace, only its steps count; edits still apply everywhere, unless their own fields
    (step=, rank=) say otherwise.
    """
    from tracedb.whatif.scenario import file_schema, read_scenarios
    from tracedb.whatif.sweep import is_of_setting

    if schema:
        click.echo(file_schema().decode())
        return
    lines = [*edits, *(f"{line} remove" for line in removed)]
    chosen = _typed(lines, settings, name, each=each, whole=not sweep)
    if path is not None:
        chosen = _joined(chosen, read_scenarios(path), path)
    asked = bool(chosen) or stored or any(map(is_of_setting, sweep))
    _check_together(asked=asked, check=check)
    if database is None:
        _check_alone(chosen, sweep, needs=not check or stored)
        return
    with tracedb.open(database, read_only=True) as db:
        if library is not None:
            tell_other_gpus(db, library)
        if stored:
            chosen = _joined(chosen, db.stored_edits(), "reference.scenario")
        for one in sweep:
            chosen = db.sweep(chosen, one)
        if not asked:
            frame = db.ranking(method, candidates, library=library, **part)
            write_rows(db, output, frame, _RANKING)
            _tell_part(part)
            return
        # For many scenarios, only times are shown.
        many = len({edit.scenario for edit in chosen}) > _MOST_DETAILED
        only_steps = check or (rows == "summary" and many)
        with db.simulate(method, chosen, library, only_steps=only_steps) as beside:
            if check:
                tell(f"{counted(len(chosen), 'edit')} checked: each matches something")
                return
            write_rows(db, output, beside.ask(f"scenario_{rows}", **part), _ROWS[rows])
            _tell_part(part)
            if rows == "summary" and output.format == "table":
                _tell_scenarios(beside, output, chosen, part)


def _typed(
    lines: list[str],
    settings: tuple[str, ...],
    name: str | None,
    *,
    each: bool,
    whole: bool,
) -> list[Edit]:
    """The edits of the command line, in one scenario or one each.

    They are `whole` if no sweep completes them.
    """
    from tracedb.whatif.edit_line import parse, parse_setting
    from tracedb.whatif.scenario import check, of_scenario

    if name is not None and (each or not [*lines, *settings]):
        raise click.UsageError("--name needs --edit, --remove or --set, without --each")
    twice = [text for text, n in Counter([*lines, *settings]).items() if n > 1]
    if each and twice:
        raise click.UsageError(f"--each with '{twice[0]}' twice; remove one")
    together = name or "; ".join([*lines, *settings])
    changes = [(line, parse(line)) for line in lines]
    changes += [(text, parse_setting(text)) for text in settings]
    found = [of_scenario(text if each else together, one) for text, one in changes]
    if found and whole:
        check(found)
    return found


def _joined(chosen: list[Edit], others: list[Edit], place: str) -> list[Edit]:
    """Scenarios together with those of another place, unless names are the same."""
    names = {edit.scenario for edit in chosen}
    twice = next((edit.scenario for edit in others if edit.scenario in names), None)
    if twice is not None:
        raise click.UsageError(
            f"{place} has a scenario {twice}, too; choose another name for one of them"
        )
    return chosen + others


def _tell_part(part: Part) -> None:
    """Say of which steps the answer is."""
    if words := in_words(part):
        tell(f"only {words}; edits apply to all steps and ranks that they match")


def _check_together(*, asked: bool, check: bool) -> None:
    """Refuse options that change nothing together with others.

    Those of the ranking with edits, those of edits without edits, and a part of the
    answer where there is none.
    """
    context = click.get_current_context()
    for name in ("step", "rank", "run", "trace") if check else ():
        if context.params[name] is not None:
            raise click.UsageError(f"--{name} does not go with --check; leave it out")
    of_edits = ("rows", "check", "sweep", "name")
    strange = ("ranking", "candidates") if asked else of_edits
    for name in strange:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            what = (
                "does not go with edits" if asked else "needs edits, and none are given"
            )
            raise click.UsageError(f"--{name} {what}; leave it out")


def _check_alone(chosen: list[Edit], sweep: tuple[str, ...], *, needs: bool) -> None:
    """Report that edits are valid, without a database."""
    if needs or sweep or not chosen:
        raise click.UsageError("Missing argument 'DB': the database to edit")
    tell(f"{counted(len(chosen), 'edit')} checked: valid")


def _tell_scenarios(
    beside: tracedb.Database, output: out.Output, edits: list[Edit], part: Part
) -> None:
    """Write what each scenario hits, what is lost, and what bounds the step then."""
    names = list(dict.fromkeys(edit.scenario for edit in edits))
    if len(names) > _MOST_DETAILED:
        tell(f"{len(names)} scenarios; --rows hit, saving or path shows more of each")
        return
    names_of = (
        *("hit", "saving", "path", "guess", "assumption", "summary", "kernel"),
        "op",
    )
    answers = {one: _of_part(beside, f"scenario_{one}", part) for one in names_of}
    for name in names:
        own = {one: f.filter(f["scenario"] == name) for one, f in answers.items()}
        output.text("\n".join(["", f"scenario {name}", *_lines(own, part)]))


def _of_part(beside: tracedb.Database, question: str, part: Part) -> pl.DataFrame:
    """The answer for a part; of what edits match and assume, all of it."""
    from tracedb.catalog import find

    counts = find(f"question.{question}").counts
    return beside.ask(question, **part) if counts else beside.ask(question)


def _lines(answers: dict[str, pl.DataFrame], part: Part) -> list[str]:
    """The lines about a scenario."""
    lines = [_hit(hit) for hit in answers["hit"].iter_rows(named=True)]
    paths, bands = answers["path"], answers["summary"]
    for saving in answers["saving"].iter_rows(named=True):
        path = paths.filter(paths["run_id"] == saving["run_id"])
        lines.append(
            f"  {in_words({**part, 'run': saving['run_id']})}, mean step: "
            f"{_change(saving['expected_ns'])} on the path, "
            f"{_change(saving['saved_ns'])} overall"
        )
        lines += _beside_the_path(saving, path)
        lines += _band(bands.filter(bands["run_id"] == saving["run_id"]))
        lines.append(f"  then bound by {_parts(path, 'predicted_ns')}")
    lines += _elsewhere(answers["kernel"])
    lines += _computed(answers["op"])
    lines += [
        f"  edit {guess['edit']} assumes: {counted(guess['wait_count'], 'wait')} "
        f"{_WAITING[guess['kind']]}, at what it matches: inferred, not recorded"
        for guess in answers["guess"].iter_rows(named=True)
    ]
    lines += [
        f"  edit {edit} assumes: {assumption}"
        for _, edit, assumption in answers["assumption"].iter_rows()
    ]
    return lines


def _hit(hit: dict[str, Any]) -> str:
    """What an edit matches, and how much of that bounds the steps, if paths tell."""
    on_path = (
        ""
        if hit["path_ns"] is None
        else f", {_ms(hit['path_ns'])} of it on the critical paths"
    )
    return (
        f"  edit {hit['edit']} matches {hit['match_count']:,} "
        f"({_ms(hit['matched_ns'])}{on_path})"
    )


def _beside_the_path(saving: dict[str, int], path: pl.DataFrame) -> list[str]:
    """Why the change of the steps differs from what the edits remove from the path."""
    lost_ns = saving["expected_ns"] - saving["saved_ns"]
    if abs(lost_ns) < _LEAST_NS:
        return []
    if lost_ns < 0:
        why = " is made up for" if saving["saved_ns"] < 0 else ""
        why = f"{why}, as waits become shorter or are gone"
    elif saving["saved_ns"] < 0:
        why = " from work that did not bound the steps"
    else:
        why = " is lost, as other work then bounds the steps"
    return [f"  {_ms(abs(lost_ns))} of that{why}: {_shifted(path, lost_ns)}"]


def _shifted(path: pl.DataFrame, lost_ns: int) -> str:
    """What the paths contain more of, or less, apart from what the edits remove.

    The largest parts and the rest sum to what is lost.
    """
    sign, more, less = (1, "more", "less") if lost_ns > 0 else (-1, "less", "more")
    sized = path.with_columns((sign * path["shifted_ns"]).alias("size_ns"))
    largest = (
        sized.filter(sized["size_ns"] >= _LEAST_NS)
        .sort("size_ns", descending=True, maintain_order=True)
        .head(_MOST_KINDS)
    )
    rest_ns = abs(lost_ns) - int(largest["size_ns"].sum())
    rest = f", and {_ms(abs(rest_ns))} {more if rest_ns > 0 else less} of the rest"
    shown = f"{more} of {_parts(largest, 'size_ns')}"
    return shown if abs(rest_ns) < _LEAST_NS else f"{shown}{rest}"


def _band(summary: pl.DataFrame) -> list[str]:
    """The bands of the period and of its change, if known."""
    return [
        "  no band: that takes at least three steps"
        if row["low_ns"] is None
        else "  expected in four of five steps: "
        f"{_between(row['low_ns'], row['high_ns'])}, "
        f"{_change_between(row['change_low_ns'], row['change_high_ns'])}"
        for row in summary.iter_rows(named=True)
    ]


def _change_between(low_ns: int, high_ns: int) -> str:
    if not low_ns and not high_ns:
        return "no change"
    return f"a change of {_between(low_ns, high_ns)}"


def _between(low_ns: int, high_ns: int) -> str:
    """A range of times, or its one time if both ends are shown alike."""
    return " to ".join(dict.fromkeys((_ms(low_ns), _ms(high_ns))))


_BASES = {
    "model": "kernel models",
    "roofline": "rooflines",
    "links": "links between GPUs (size of messages unknown)",
    "bandwidth": "memory bandwidth (work unknown)",
    "size": "tensor sizes (work unknown)",
    "unchanged": "nothing (unchanged)",
    "unknown": "nothing (how it follows the batch is unknown)",
}
_HELD = {
    "gpu=": "kept as recorded: host times, links between machines, which kernels run",
    "dtype=": "kept as recorded: which kernels run; autocast would add casts",
    "batch=": "kept as recorded: host times, which kernels run, gradient messages",
    "ranks=": "kept as recorded: other kernels, sizes of messages, waits for ranks",
}
_LISTED_NETWORK = (
    "  between nodes, the network is what `tracedb kernels hardware` lists; give your "
    "own in GB/s: --set 'ranks=64 network=25'"
)
_SIZES_FROM = {
    "runs": "how sizes follow it is known from other runs of the same ops",
    "inferred": "which sizes follow it was inferred from the ops",
    "given": "which sizes follow it was inferred from the ops",
}


def _elsewhere(kernels: pl.DataFrame) -> list[str]:
    """The time of GPU work after the change, its basis, and what is assumed to stay."""
    if kernels.is_empty():
        return []
    measured, changed, low, high = (
        int(kernels[name].sum())
        for name in ("measured_ns", "changed_ns", "low_ns", "high_ns")
    )
    shares = [
        f"{_BASES[basis]} {share(time_ns / max(measured, 1))}"
        for basis in _BASES
        if (time_ns := int(kernels.filter(basis=basis)["measured_ns"].sum()))
    ]
    unsure = int(kernels.filter(~kernels["in_range"])["measured_ns"].sum())
    changes = " ".join(kernels["change"].unique())
    outside = share(unsure / max(measured, 1))
    held = [f"  {text}" for what, text in _HELD.items() if what in changes]
    if "ranks=" in changes and "network=" not in changes:
        held.append(_LISTED_NETWORK)
    return [
        *_batches(kernels),
        (
            f"  GPU work: {_ms(measured)} as recorded, {_ms(changed)} then, within "
            f"{_ms(low)} to {_ms(high)}; computed from {', '.join(shares)}; "
            f"{outside} of it is outside the range of these (--rows kernel)"
        ),
        *held,
    ]


_OP_BASES = {
    "roofline": "their work",
    "size": "tensor sizes (work unknown)",
    "unchanged": "nothing (unchanged)",
    "unknown": "nothing (how it follows the batch is unknown)",
}


def _computed(ops: pl.DataFrame) -> list[str]:
    """The time of CPU ops at another batch size, and its basis."""
    if ops.is_empty():
        return []
    own, floor, changed = (
        int(ops[name].sum()) for name in ("own_ns", "floor_ns", "changed_ns")
    )
    rest = {
        basis: int(rows["own_ns"].sum()) - int(rows["floor_ns"].sum())
        for basis in _OP_BASES
        if not (rows := ops.filter(basis=basis)).is_empty()
    }
    shares = [
        f"{_OP_BASES[basis]} {share(time_ns / max(sum(rest.values()), 1))}"
        for basis, time_ns in rest.items()
    ]
    return [
        *_batches(ops),
        (
            f"  CPU ops: {_ms(own)} as recorded, {_ms(changed)} then; {_ms(floor)} "
            "does not depend on their work, the rest is computed from "
            f"{', '.join(shares)} (--rows op)"
        ),
        "  kept as recorded: time between ops, caches, algorithms that depend on size",
    ]


def _batches(work: pl.DataFrame) -> list[str]:
    """The recorded batch size of each run, and how sizes follow it."""
    known = work.filter(work["sizes_from"].is_not_null())
    sizes = known.select("run_id", "recorded_batch", "sizes_from").unique()
    return [
        f"  run {run}: recorded batch {batch:,}; {_SIZES_FROM[sizes_from]}"
        for run, batch, sizes_from in sorted(sizes.iter_rows())
    ]


def _parts(path: pl.DataFrame, column: str) -> str:
    """The largest parts of a path."""
    parts = [
        " ".join(filter(None, (part["kind"], _short(part["name"]), _ms(part[column]))))
        for part in path.head(_MOST_KINDS).iter_rows(named=True)
    ]
    return ", ".join(parts) or "nothing on the paths"


_MOST_LETTERS = 48


def _short(name: str) -> str:
    return shortened(name, _MOST_LETTERS)


def _change(saved_ns: int) -> str:
    if not saved_ns:
        return "no change"
    return f"{_ms(abs(saved_ns))} {'more' if saved_ns < 0 else 'less'}"


def _ms(time_ns: int) -> str:
    """A time in milliseconds, or in nanoseconds if it would be 0.000 ms."""
    if abs(time_ns) < _LEAST_NS:
        return f"{time_ns} ns"
    return f"{time_ns / _MS:,.3f} ms"
