"""`tracedb ingest`: load trace files into a database."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING

import click

import tracedb

from . import options
from . import output as out
from .issues import tell_issues
from .missing_steps import tell_missing_steps
from .terminal import printable, tell, tell_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl
    from rich.status import Status

# Prefixes of progress lines that do not concern a file, and suffixes of lines about
# files that are not new.
_STAGE = "computing "
_AGAIN = "reading again"
_SKIPPED = ": skipped: "
_MOST_SKIPPED = 5
_AGAIN_THERE = "already in the database"
_TOGETHER = "if they are one job, ingest them into a new database with --run NAME"
_BRIEF = ("run_id", "trace_id", "recorded_by", "rank", "event_count", "path")


@click.command(
    epilog=options.examples(
        "tracedb ingest traces/ --db run.duckdb",
        "tracedb ingest rank0.json.gz rank0_et.json.gz --db run.duckdb --pair",
        r"tracedb ingest serve.json.gz --db run.duckdb --step-mark 'step\[DECODE.*'",
        r"tracedb ingest serve.json.gz --db run.duckdb --step-mark '.*: execute_model'",
        "tracedb ingest job.csv --db run.duckdb --map kind=type --map gpu=rank",
    )
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path())
@click.option(
    "--db",
    "database",
    required=True,
    metavar="DB",
    help="Database file; created if missing.",
)
@click.option("--run", metavar="NAME", help="Name of the run that all files belong to.")
@click.option(
    "--pair", is_flag=True, help="Fail if an execution graph matches no trace."
)
@options.step_mark
@options.step_from
@options.one_step
@options.memory("Memory limit, such as 4GB; beyond it, data goes to disk.")
@options.table_map
@out.option
def ingest(  # noqa: PLR0913 (the options of the command)
    paths: tuple[str, ...],
    database: str,
    run: str | None,
    step_mark: str | None,
    step_from: str | None,
    *,
    one_step: bool,
    memory: int | None,
    pairs: tuple[str, ...],
    pair: bool,
    output: out.Output,
) -> None:
    """Load traces and execution graphs into a database.

    Loads all files, or none if there is an error. A folder means all traces below it
    (.json, .et, .sqlite, .db and .rpd files, also with .gz or .zst, and archives such
    as .tar.gz). A URI does as well (s3://bucket/job1; pip install 'tracedb[s3]'). Files
    that are already in the database are skipped. A Parquet or CSV file is a table of
    operations (docs/stragglers.md). Ranks that were recorded together become one run,
    unless --run names it, and each execution graph is paired with its trace. Steps are
    the profiler's ProfilerStep#N ranges, the ranges that match --step-mark, the time
    from one range that matches --step-from to the next, or with --one-step the whole
    trace. The ranges are user ranges and ops; if none matches, Python functions by the
    names that the profiler records, `server.py(300): step`; otherwise launches and
    other calls. The step options also apply to given files that are already in the
    database. Prints the new files.
    """
    with tracedb.open(database) as db:
        with _progress() as progress:
            new = db.ingest(
                paths,
                run=run,
                pair=pair,
                step_mark=step_mark,
                step_from=step_from,
                one_step=one_step,
                memory=memory,
                mapping=mapping(pairs),
                progress=progress,
            )
        by = db.info().select("trace_id", "recorded_by")
        new = new.join(by, "trace_id", how="left", maintain_order="left")
        if output.format != "table" or not new.is_empty():
            output.rows(new, brief=_BRIEF)
        tell(", ".join([f"{new.height} new", *_others(progress)]))
        progress.tell_skipped()
        traces = db.relation("staging.trace")
        _tell_pairing(traces, set(new["trace_id"]))
        _tell_ranks_in_runs(traces, set(new["trace_id"]))
        tell_missing_steps(db, set(new["trace_id"]))
        tell_issues(db.issues(), set(new["trace_id"]))
        tell_unranked(db, new)
        _tell_summary(db, set(new["run_id"]))


def _others(progress: _Progress) -> Iterator[str]:
    """Yield the counts of files that were skipped, by reason."""
    from tracedb.ingest import NO_TRACE

    outcomes = progress.outcomes
    if outcomes[_AGAIN_THERE]:
        yield f"{outcomes[_AGAIN_THERE]} {_AGAIN_THERE}"
    count = outcomes[NO_TRACE]
    if count:
        what = "file that is not a trace" if count == 1 else "files that are not traces"
        yield f"{count} {what} skipped"
    others = len(progress.skipped) - count
    if others:
        yield f"{others} skipped"


def mapping(pairs: tuple[str, ...]) -> dict[str, str]:
    """The fields by column, as `--map COLUMN=FIELD` gives them."""
    parts = [pair.rpartition("=") for pair in pairs]
    odd = next((pair for pair in pairs if not pair.strip("=").count("=")), None)
    if odd is not None:
        raise click.BadParameter(f"'{odd}' is not COLUMN=FIELD", param_hint="--map")
    return {column: field for column, _, field in parts}


class _Progress:
    """Progress: on a terminal one line that changes, elsewhere a line per file."""

    def __init__(self, status: Status) -> None:
        from tracedb.ingest import NO_TRACE

        self._no_trace = NO_TRACE
        self.outcomes: Counter[str] = Counter()
        self.skipped: list[str] = []
        self._status = status
        self._is_computing = False

    def __call__(self, line: str) -> None:
        from rich.text import Text

        if line.startswith(_AGAIN):
            self.outcomes.clear()
            self.skipped.clear()
        outcome = line.rpartition(": ")[2]
        self.outcomes[outcome] += 1
        if _SKIPPED in line or outcome == self._no_trace:
            self.skipped.append(line)
        if self._status.console.is_terminal:
            # Wrapped in Text, because rich would parse a string as markup.
            self._status.update(Text(printable(line)))
        elif not line.startswith(_STAGE):
            tell_line(line)
        elif not self._is_computing:
            self._is_computing = True
            tell("computing the graph, critical paths and predictions")

    def tell_skipped(self) -> None:
        """Write which files were skipped, where the line that said so is gone."""
        if self._status.console.is_terminal:
            for line in self.skipped[:_MOST_SKIPPED]:
                tell(line)
            if len(self.skipped) > _MOST_SKIPPED:
                tell(f"... {len(self.skipped) - _MOST_SKIPPED} more")


@contextmanager
def _progress() -> Iterator[_Progress]:
    from rich.console import Console

    status = Console(stderr=True, highlight=False).status("reading")
    if status.console.is_terminal:
        status.start()
    try:
        yield _Progress(status)
    finally:
        status.stop()


def _tell_summary(db: tracedb.Database, runs: set[int]) -> None:
    if not runs:
        return
    from tracedb.summary.statements import brief

    for line in brief(db, runs):
        tell(line)
    tell(f"`tracedb summary {quote(db.path)}` shows where the time goes")


_OVERLAPPING = """
WITH span AS (
    SELECT
        run_id,
        min(ts_ns) + any_value(base_ns) AS start_ns,
        max(ts_ns + coalesce(dur_ns, 0)) + any_value(base_ns) AS end_ns
    FROM raw.event
    INNER JOIN staging.trace USING (trace_id)
    WHERE ph IN ('X', 'B', 'E') AND rank IS NULL AND run_id IN ({runs})
    GROUP BY run_id, trace_id
)

SELECT count(DISTINCT one.run_id) AS run_count
FROM span AS one
INNER JOIN span AS other
    ON
        one.run_id <> other.run_id
        AND one.start_ns < other.end_ns
        AND other.start_ns < one.end_ns
"""


def tell_unranked(db: tracedb.Database, new: pl.DataFrame) -> None:
    """Say which new files may be ranks of one job, if they do not say so themselves."""
    runs = set(new.filter(new["rank"].is_null())["run_id"])
    if len(runs) < 2:  # noqa: PLR2004 (one run is no question)
        return
    query = _OVERLAPPING.format(runs=", ".join(map(str, sorted(runs))))
    count = db.sql(query)["run_count"].item()
    if count:
        tell(
            f"{count} runs were recorded at the same time, and their files have no "
            f"ranks; {_TOGETHER}"
        )


def _tell_pairing(traces: pl.DataFrame, new: set[int]) -> None:
    paths = dict(zip(traces["trace_id"], traces["path"], strict=True))
    for graph in traces.filter(traces["format"] == "et").iter_rows(named=True):
        trace_id = graph["paired_trace_id"]
        if not new & {graph["trace_id"], trace_id}:
            continue
        partner = paths.get(trace_id, "no trace")
        tell(f"{graph['path']}: paired with {partner}: {graph['pairing']}")


def _tell_ranks_in_runs(traces: pl.DataFrame, new: set[int]) -> None:
    """Say which ranks could be of one job, but for the times at which they ran."""
    import polars as pl

    ranks = traces.filter(pl.col("rank").is_not_null(), pl.col("world_size") > 1)
    for (_, size), job in ranks.group_by("format", "world_size", maintain_order=True):
        runs, is_one = job["run_id"].n_unique(), job["rank"].is_unique().all()
        if runs > 1 and is_one and new & {*job["trace_id"]}:
            tell(
                f"{job.height} ranks of {size} are in {runs} runs: by their clocks, "
                f"they did not run at one time; {_TOGETHER}"
            )
