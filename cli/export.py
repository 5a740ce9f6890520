"""`tracedb export`: a run for other tools."""

from __future__ import annotations

import click

from . import options
from .terminal import tell

_VIEWERS = {
    "chrome": ("events", "https://ui.perfetto.dev"),
    "pftrace": ("events", "https://ui.perfetto.dev"),
    "speedscope": ("profiles", "https://www.speedscope.app"),
    "chakra": ("nodes", "MLCommons Chakra's tools"),
}
"""The contents of each format's files, and the tool that opens them."""


@click.command(
    epilog=options.examples(
        "tracedb export run.duckdb -o trace.json",
        "tracedb export run.duckdb -o step.json.gz --step 10 --method replay",
        "tracedb export run.duckdb -o faster.json --scenario faster.json",
        "tracedb export run.duckdb -o run.pftrace",
        "tracedb export run.duckdb -o path.speedscope.json --step 10",
        "tracedb export run.duckdb -o step.et --step 10",
    )
)
@options.database
@options.output("FILE", "Output file; `.gz` compresses it, except for `chakra`.")
@click.option(
    "--format",
    "format_",
    type=click.Choice([*_VIEWERS]),
    help="`chrome` and `pftrace` are for Perfetto's UI, `speedscope` for stacks, "
    "`chakra` for simulators. Default: by the ending of FILE, which is .pftrace, "
    ".speedscope.json, .et, or .json for `chrome`.",
)
@options.step
@click.option("--rank", type=int, metavar="N", help="Only rank N; not for `chakra`.")
@click.option(
    "--run",
    type=int,
    metavar="N",
    help="The run (`tracedb sql DB 'FROM staging.run'`). Default: the largest.",
)
@options.method
@options.scenario
def export(  # noqa: PLR0913 (one parameter an option)
    database: str,
    path: str,
    format_: str | None,
    *,
    step: int | None,
    rank: int | None,
    run: int | None,
    method: str | None,
    scenario: str | None,
) -> None:
    """Export a run, a step or a rank for a trace viewer.

    All events are exported as recorded, with all ranks on one clock. Events on the
    critical path have the argument `critical`, and `slack_ns` says how much longer an
    event could take. The critical path is a process of its own, with flow arrows along
    it. The prediction of a method or a scenario is another process. For speedscope,
    each critical path and each host thread is a profile of stacks (module, Python
    function, op, kind of time).

    For Chakra, `x.et` becomes one file per rank: x.0.et, x.1.et and so on. They hold
    the graph as measured, as predicted by a method, or with a scenario. Host work, GPU
    work, collectives and the delays between them are nodes; the longest path through
    them is the step time. Chakra counts whole microseconds; `duration_ns` has the exact
    time.
    """
    from tracedb.export.perfetto import format_of

    format_ = format_ or format_of(path)
    with options.simulated(database, method, scenario) as db:
        count = db.export(path, step=step, run=run, rank=rank, format=format_)
    words, viewer = _VIEWERS[format_]
    if format_ == "chakra":
        path = f"{path.removesuffix('.et')}.*.et"
    tell(f"{path}: {count:,} {words}, for {viewer}")
