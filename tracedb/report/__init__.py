"""Write the report of a run: one HTML file with charts and tables, which works offline.

`sections.py` has the sections with their queries, `beside.py` those of another run and
of scenarios, `job.py` those of a table of operations. `timeline.py` chooses what the
timeline shows. `page.py` embeds both as JSON in the page. `assets/` has the page: plain
JavaScript, and uPlot for charts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tracedb import catalog
from tracedb.duck import frame
from tracedb.errors import QueryError, ReportError
from tracedb.outputs import check_place, written
from tracedb.part import as_options, choice, in_words, no_such_number
from tracedb.report import job, places
from tracedb.report.colours import COLOURS, MORE_COLOURS
from tracedb.report.names import numbered
from tracedb.report.page import page
from tracedb.report.sections import sections, shown_in_order
from tracedb.report.timeline import timeline
from tracedb.summary import summary
from tracedb.summary.statements import statements
from tracedb.summary.words import LEVERS, WAITS, WORDS
from tracedb.words import COUNTED

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    import duckdb
    import polars as pl

    from tracedb.database import Database
    from tracedb.part import Part
    from tracedb.report.sections import Shown

MOST_BYTES = 4_800_000
"""[B] Largest file; the timeline is coarsened until it fits."""
_MOST_SLICES = 60_000
_MARK = b"<!doctype html><!-- tracedb report -->\n"
"""The first bytes of a report, which may be overwritten."""

_RUN = """
SELECT run.run_id, run.name
FROM staging.run AS run
INNER JOIN graph.run_time AS run_time USING (run_id)
INNER JOIN staging.trace AS trace USING (trace_id)
GROUP BY ALL
ORDER BY sum(event_count) DESC, run.run_id
"""


_JOB = """
SELECT run_id, name
FROM staging.run
WHERE run_id IN (SELECT run_id FROM staging.operation)
ORDER BY (SELECT count(*) FROM staging.operation WHERE run_id = run.run_id) DESC, run_id
"""


class Run(NamedTuple):
    """A run that can be shown, and the number of other ones in the database."""

    run_id: int
    name: str
    others: int
    is_job: bool = False
    """Whether it is a table of operations."""


def write_report(
    database: Database,
    path: str | Path,
    run: int | None = None,
    beside: Iterable[Shown] = (),
    part: Part | None = None,
) -> dict[str, Any]:
    """Write the report of a run, or of a rank or trace of it.

    By default, the run is the one with the most events. The report begins with its
    summary, and the sections in `beside` (`beside.py`).
    Returns what was written: the run, the bytes, and notes on what was left out.
    Raises `QueryError` for an unknown run, `ReportError` if the file cannot be written,
    or would replace something other than a report.
    """
    path = Path(path)
    check_place(path, _MARK, "a report")
    text, done = made(database, run, beside, part)
    with written(path, ReportError) as place:
        place.write_bytes(text)
    return done


def made(
    database: Database,
    run: int | None,
    beside: Iterable[Shown] = (),
    part: Part | None = None,
    *,
    is_live: bool = False,
) -> tuple[bytes, dict[str, Any]]:
    """The page of a run or a part of it, and facts about it: run, bytes, notes.

    A page that `is_live` queries its server (`tracedb/serve.py`).
    """
    connection = database.connection
    chosen, name, others, is_job = find_run(connection, run, jobs=True)
    part = part or {}
    facts: dict[str, Any] = {"run": name, "run_id": chosen, "other_runs": others}
    facts["part"] = in_words(part)
    if is_job and part:
        raise QueryError(
            f"run {chosen} is a table of operations, whose report has all workers; "
            f"leave out{as_options(part)}"
        )
    if not is_job:
        places.put(connection)
    answers = _summary(database, chosen, part, is_job=is_job)
    ((*about,),) = statements(answers, database.path, part)
    if is_job:
        parts = [*beside, *shown_in_order(connection, job.SECTIONS, chosen)]
    else:
        parts = [*beside, *sections(connection, chosen, answers, part)]
    names = numbered(parts)
    traces = answers["recording"]["trace_id"].to_list() if part else None
    for most in (_MOST_SLICES, _MOST_SLICES // 3, _MOST_SLICES // 12, 0):
        drawn = (
            job.timeline(connection, chosen, most)
            if is_job
            else timeline(connection, chosen, most, traces)
        )
        content = {
            **facts,
            "is_job": is_job,
            "summary": [piece._asdict() for piece in about],
            "words": _words(answers),
            "waits": WAITS,
            "counted": COUNTED,
            "colours": COLOURS,
            "more_colours": MORE_COLOURS,
            "names": names,
            "sections": parts,
            "timeline": drawn,
        }
        text = _MARK + page(content, is_live=is_live)
        if len(text) <= MOST_BYTES:
            break
    return text, {**facts, "bytes": len(text), "notes": drawn["notes"]}


def _words(answers: dict[str, pl.DataFrame]) -> dict[str, str]:
    """The words for kinds of time, those of levers as the summary has them."""
    if answers["recording"]["device_count"].sum():
        return WORDS
    of_cpu = {name: lever.on_cpu.removeprefix("is ") for name, lever in LEVERS.items()}
    return WORDS | {name: of_cpu[name] for name in ("dispatch", "python")}


def _summary(
    database: Database, run: int, part: Part, *, is_job: bool
) -> dict[str, pl.DataFrame]:
    """The answers of the summary; what takes the time is read from stored places."""
    whole: Part = {**part, "run": run}
    if is_job:
        return summary(database, whole)

    def rows(query: str) -> pl.DataFrame:
        return frame(database.connection.sql(query))

    lever = catalog.find("question.lever")
    chosen = choice(lever, part, rows)
    query = catalog.rows(
        database.connection, lever, chosen.counted, is_planned_whole=True
    )
    return summary(database, whole, {"lever": rows(places.over(query))})


def find_run(
    connection: duckdb.DuckDBPyConnection,
    run: int | None,
    *,
    jobs: bool = False,
    part: Part | None = None,
) -> Run:
    """The run with a number, or the one with the most events.

    With `jobs`, tables of operations are runs, too, after all others. With a `part`,
    only runs that have the rank or trace count. Raises `QueryError` if there is none.
    """
    rows = [(*row, False) for row in connection.execute(_RUN).fetchall()]
    if jobs:
        rows += [(*row, True) for row in connection.execute(_JOB).fetchall()]
    if not rows:
        without = "logs, execution graphs and Python functions without ops"
        raise QueryError(
            "no trace with ops or GPU work to show "
            f"({without if jobs else f'tables of operations, {without}'} have none); "
            "`tracedb summary` tells what the database has"
        )
    having = _runs_having(connection, part or {})
    for number, name, is_job in rows:
        if run in (None, number) and number in having:
            return Run(int(number), str(name), len(rows) - 1, is_job)
    if any(run in (None, number) for number, *_ in rows):
        where: Part = {**(part or {}), "run": run}
        raise QueryError(
            f"no recording has {in_words(where)}; `tracedb info` lists the traces"
        )
    raise no_such_number(f"run {run}", sorted(row[0] for row in rows))


def _runs_having(connection: duckdb.DuckDBPyConnection, part: Part) -> set[int]:
    """The runs that have the rank or trace of a part."""
    found = connection.execute(
        "SELECT run_id FROM staging.trace WHERE coalesce(rank = $rank, $rank IS NULL) "
        "AND coalesce(trace_id = $trace, $trace IS NULL)",
        {"rank": part.get("rank"), "trace": part.get("trace")},
    )
    return {run for (run,) in found.fetchall()}
