"""`tracedb predict`: the measured and predicted time of each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

import tracedb
from tracedb.words import counted

from . import options
from . import output as out
from .missing_steps import write_rows
from .other_gpus import tell_other_gpus
from .terminal import tell

if TYPE_CHECKING:
    from typing import Unpack

    import polars as pl

    from tracedb.part import Part

_STEPS = (
    *("method", "trace_id", "rank", "step"),
    *("measured_ns", "predicted_ns", "error_share"),
    *("measured_host_ns", "predicted_host_ns"),
    *("measured_gpu_end_ns", "predicted_gpu_end_ns"),
    *("as_measured_share", "unexplained_ns", "kept_ns"),
)
_SCORES = (
    *("method", "has_others", "grouping", "gpu", "trace_id", "rank", "step_count"),
    *("gmae_share", "mape_share", "p90_share", "worst_share", "bias_share"),
    *("as_measured_share", "guess", "guess_mape_share"),
)
_BANDS = (
    *("method", "trace_id", "rank", "step"),
    *("measured_ns", "low_ns", "predicted_ns", "high_ns"),
    *("is_inside", "other_count"),
)
_OTHER_STEPS = "in the other steps of the trace"
_ELSEWHERE = {
    "other_ranks": "in other ranks of the run",
    "shared": "in other runs of this database",
    "library": "in other runs of this database",
}
_MATCHED = {
    "host": "spans of host time",
    "gpu": "GPU ops",
    "profiler": "recorded events",
    "op": "spans of host time and GPU ops",
    "wait": "waits",
    "delay": "delays",
}
_EFFECTS = (
    *("scenario", "method", "trace_id", "rank", "step"),
    *("baseline_ns", "predicted_ns", "change_share"),
    *("baseline_host_ns", "predicted_host_ns"),
)


@click.command(
    epilog=options.examples(
        "tracedb predict run.duckdb",
        "tracedb predict run.duckdb --method other_steps --format json",
        "tracedb predict run.duckdb --step 10 --rank 1",
        "tracedb predict run.duckdb --method other_steps --bands",
        "tracedb predict run.duckdb --evaluate",
        "tracedb predict run.duckdb --scenario faster.json",
        "tracedb predict run.duckdb --without-profiler",
    )
)
@options.database
@options.step
@options.within
@click.option(
    "--method",
    type=click.Choice(tracedb.METHODS),
    metavar="METHOD",
    help="Only this method. Default: replay, statistics and full.",
)
@options.library
@click.option(
    "--evaluate",
    is_flag=True,
    help="Show the accuracy of each method: overall, by GPU, run and trace.",
)
@click.option(
    "--bands",
    is_flag=True,
    help="Show the interval in which each step is expected in four cases of five.",
)
@click.option(
    "--scenario",
    "scenarios",
    metavar="FILE",
    help="Show what the scenarios in this JSON or TOML file do to each step.",
)
@click.option(
    "--without-profiler",
    is_flag=True,
    help="Show each step without the estimated profiling overhead of its events.",
)
@out.option
def predict(  # noqa: PLR0913 (one parameter an option)
    database: str,
    method: str | None,
    *,
    library: str | None,
    evaluate: bool,
    bands: bool,
    scenarios: str | None,
    without_profiler: bool,
    output: out.Output,
    **part: Unpack[Part],
) -> None:
    """Show the measured and predicted time of each step.

    The time of a step is its period: from when the host and the GPU have finished the
    previous step to when both have finished this one. The first step counts from its
    start. The output also has the host time (the step's mark), and the GPU end: from
    the start of the mark to the end of the GPU work that was launched in it.

    The method replay uses the measured host and kernel times, and recomputes every wait
    from its cause. statistics takes host times from statistics of the run; full also
    predicts kernel times from shapes. other_steps, other_ranks and shared learn host
    times only from the other steps of the trace, the other ranks of the run, and the
    other runs on the same GPU. library learns them from a file of `tracedb overheads
    learn`; without one, it has those that ship with tracedb, of the middle host of
    public traces. lin2022 is the algorithm of Lin et al. 2022. Columns show how much
    was taken as measured, and how much time has no cause.

    A scenario is a list of edits: {"fast GEMM": [{"target": "gpu", "name": "*gemm*",
    "factor": 0.5}]}. The default method for scenarios is replay. docs/scenarios.md
    explains what edits select, and what they do.
    """
    chosen = [value for value in part.values() if value is not None]
    if evaluate and (method or bands or scenarios or without_profiler or chosen):
        raise click.UsageError(
            "--evaluate covers all methods and steps; it cannot be combined with "
            "other options"
        )
    if (scenarios or without_profiler) and bands:
        raise click.UsageError("--bands is only for the baseline; leave scenarios out")
    if scenarios and without_profiler:
        raise click.UsageError(
            '--without-profiler is a scenario; put {"target": "profiler", "factor": 0} '
            "into the file"
        )
    with tracedb.open(database, read_only=True) as db:
        if scenarios or without_profiler:
            from tracedb.whatif.scenario import UNPROFILED

            edits = scenarios or [UNPROFILED]
            with db.simulate(method, edits, library, only_steps=True) as beside:
                rows = beside.ask("scenario_effect", **part)
                matches = beside.ask("scenario_match")
            write_rows(db, output, rows, _EFFECTS)
            _tell_matches(rows, matches)
        elif evaluate:
            write_rows(db, output, db.evaluate(library=library), _SCORES)
        elif bands:
            _write_bands(db, output, method, library, part)
        else:
            rows = db.predict(method, library=library, **part)
            write_rows(db, output, rows, _STEPS)
            _tell_kept(rows)
            if method or library:
                _tell_nothing_learned(rows)
        if library:
            tell_other_gpus(db, library)


def _tell_nothing_learned(rows: pl.DataFrame) -> None:
    """Report predictions that are only the measured times, for lack of other data."""
    steps = rows.filter((rows["as_measured_share"] == 1) & (rows["method"] != "replay"))
    for method in steps["method"].unique():
        traces = ", ".join(map(str, sorted(steps["trace_id"].unique())))
        tell(
            f"method {method}: nothing to learn from for the steps of trace {traces}; "
            "they show measured times, not predictions"
        )


def _tell_kept(rows: pl.DataFrame) -> None:
    """Report traces whose predictions keep waits for unrecorded work as measured."""
    steps = rows.filter(rows["kept_ns"] > 0).unique(["trace_id", "step_id"])
    for (trace_id,), kept in sorted(steps.group_by("trace_id")):
        share = max((kept["kept_ns"] / kept["measured_ns"]).to_list())
        tell(
            f"trace {trace_id}: up to {share:.0%} of {counted(len(kept), 'step')} is "
            "waiting for something that is not in the trace, perhaps GPU work; all "
            "predictions keep this time as measured (kept_ns)"
        )


def _write_bands(
    db: tracedb.Database,
    output: out.Output,
    method: str | None,
    library: str | None,
    part: Part,
) -> None:
    """Write the interval in which each step is expected, or why there is none."""
    rows = db.bands(method, library=library, **part)
    write_rows(db, output, rows, _BANDS)
    if rows.is_empty() and not db.relation("staging.step").is_empty():
        elsewhere = _ELSEWHERE.get("library" if library else method or "", _OTHER_STEPS)
        tell(
            f"no bands: a band needs at least two steps {elsewhere}, with less than "
            "half of each taken as measured; ingest more traces, or leave --bands out"
        )


def _tell_matches(rows: pl.DataFrame, matches: pl.DataFrame) -> None:
    """Report what edits match, and which scenarios change nothing."""
    for edit in matches.iter_rows(named=True):
        tell(
            f"scenario {edit['scenario']}, edit {edit['edit']}: "
            f"{edit['match_count']:,} {_MATCHED[edit['target']]}, "
            f"{edit['matched_ns'] / 1e6:,.3f} ms"
        )
    changed = rows.filter(rows["change_share"] != 0)["scenario"]
    for name in rows["scenario"].unique(maintain_order=True):
        if name not in changed:
            tell(f"scenario {name}: changes no step")
