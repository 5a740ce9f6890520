"""`tracedb lake`: many runs and ranks as Parquet files, written by many workers."""

from __future__ import annotations

import os
from shlex import quote
from typing import TYPE_CHECKING

import click

from . import options
from . import output as out
from .info import ISSUES_FOUND
from .ingest import mapping
from .terminal import tell

if TYPE_CHECKING:
    from tracedb.lake import Spark
    from tracedb.lake.runner import Runner


@click.group(
    short_help="Store many runs and ranks as Parquet files.",
    epilog=options.examples(
        "tracedb lake ingest traces/ --lake fleet",
        "tracedb lake info fleet",
        "tracedb summary fleet/run=job1/rank=3",
    ),
)
def lake() -> None:
    """Ingest many runs and ranks into Parquet files, and query them.

    Every command that takes a database also takes a lake, one of its runs
    (LAKE/run=NAME) or one rank (LAKE/run=NAME/rank=N), with * as a wildcard.
    """


@lake.command(
    short_help="Ingest traces into a lake, one file per task.",
    epilog=options.examples(
        "tracedb lake ingest traces/ --lake fleet --workers 8",
        "tracedb lake ingest traces/ --lake fleet --runner spark --master 'local[2]'",
        "tracedb lake ingest /nfs/t --lake /nfs/fleet --runner spark --remote "
        "sc://host",
        "tracedb lake ingest s3://bucket/traces --lake s3://bucket/fleet",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path())
@click.option(
    "--lake",
    "root",
    required=True,
    metavar="DIR",
    help="A folder, or s3://bucket/lake; created if missing.",
)
@click.option(
    "--runner",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Processes on this machine, or Spark (pip install 'tracedb[spark]').",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    metavar="N",
    help="Number of processes of the local runner. Default: one per core.",
)
@click.option(
    "--master",
    metavar="URL",
    help="Spark master, such as local[2] or spark://host:7077. Default: local[*].",
)
@click.option(
    "--remote",
    metavar="URL",
    help="Spark Connect server to use instead of a master, such as sc://host:15002 "
    "(pip install 'tracedb[connect]').",
)
@click.option(
    "--run",
    metavar="NAME",
    help="Run of all files. Default: the name of each file's folder.",
)
@options.step_mark
@options.step_from
@options.one_step
@options.memory(
    "Memory limit of each worker, such as 4GB.", "40 % of the machine's, shared"
)
@options.table_map
@click.pass_context
def ingest(  # noqa: PLR0913 (the options of the command)
    context: click.Context,
    paths: tuple[str, ...],
    root: str,
    runner: str,
    *,
    workers: int | None,
    master: str | None,
    remote: str | None,
    run: str | None,
    step_mark: str | None,
    step_from: str | None,
    one_step: bool,
    memory: int | None,
    pairs: tuple[str, ...],
) -> None:
    """Ingest traces and execution graphs into a lake, one file per task.

    Files that are already in the lake are skipped, and files that changed are replaced.
    A file that cannot be ingested does not stop the others: `tracedb lake info` lists
    it, and the command exits with 3. The run of a file is the name of its folder,
    unless --run is given. Spark workers use the same paths as this process to read the
    files and to write the lake. Both may be in an object store (pip install
    'tracedb[s3]' or 'tracedb[gs]').
    """
    from tracedb import lake

    counts = lake.ingest(
        paths,
        root,
        _runner(runner, workers, master, remote),
        run=run,
        step_mark=step_mark,
        step_from=step_from,
        one_step=one_step,
        memory=memory,
        mapping=mapping(pairs),
        progress=tell,
    )
    tell(", ".join(f"{counts[kind]} {kind}" for kind in lake.OUTCOMES))
    tell(f"`tracedb lake info {quote(str(root))}` lists the files")
    if counts["failed"]:
        context.exit(ISSUES_FOUND)


def _runner(
    runner: str, workers: int | None, master: str | None, remote: str | None
) -> Runner:
    from tracedb.lake import Local

    if runner == "spark":
        if workers is not None:
            raise click.BadParameter(
                "applies only to --runner local", param_hint="--workers"
            )
        return _spark(master, remote)
    for name, given in (("--master", master), ("--remote", remote)):
        if given is not None:
            raise click.BadParameter("applies only to --runner spark", param_hint=name)
    return Local(workers or os.cpu_count() or 1)


def _spark(master: str | None, remote: str | None) -> Spark:
    from tracedb.lake import Spark

    if master is not None and remote is not None:
        raise click.BadParameter(
            "cannot be combined with --master", param_hint="--remote"
        )
    return Spark(master or "local[*]", remote)


@lake.command(
    short_help="Show the files of a lake, and which of them failed.",
    epilog=options.examples(
        "tracedb lake info fleet", "tracedb lake info 'fleet/run=a*'"
    ),
)
@click.argument("place", metavar="LAKE", type=click.Path())
@out.option
@click.pass_context
def info(context: click.Context, place: str, output: out.Output) -> None:
    """Show the files of a lake: the run and rank of each, and which of them failed.

    Exits with 3 if a file could not be ingested. Its row shows the reason.
    """
    from tracedb import lake

    found = lake.place_of(place)
    rows = lake.info(found)
    output.rows(rows)
    if rows["issue"].count():
        context.exit(ISSUES_FOUND)


@lake.command(
    short_help="Answer a question across all runs and ranks of a lake.",
    epilog=options.examples(
        "tracedb lake ask fleet", "tracedb lake ask 'fleet/run=job*' straggler"
    ),
)
@click.argument("place", metavar="LAKE", type=click.Path())
@click.argument("question", required=False)
@click.option("--master", metavar="URL", help="Answer with Spark, through this master.")
@click.option(
    "--remote",
    metavar="URL",
    help="Answer with Spark, through this Spark Connect server.",
)
@out.option
def ask(
    place: str,
    question: str | None,
    master: str | None,
    remote: str | None,
    output: out.Output,
) -> None:
    """Answer a question across all runs and ranks of a lake.

    Without a question, lists the questions. No trace is opened: the lake keeps a few
    rows for each trace, which DuckDB or Spark reads.
    """
    import polars as pl

    from tracedb import lake

    found = lake.place_of(place)
    if question is None:
        names = ["question", "meaning"]
        known = sorted(lake.questions().items())
        output.questions(pl.DataFrame(known, names, orient="row"))
        tell("--format json has the full descriptions")
        return
    is_by_spark = master is not None or remote is not None
    spark = _spark(master, remote) if is_by_spark else None
    rows = lake.ask(found, question, spark)
    output.rows(rows)
    needed = lake.needs(question)
    if rows.is_empty() and needed:
        tell(f"{question} needs {needed}")


@lake.command(
    "critical-path",
    short_help="Show which ranks the critical path of each job runs through.",
    epilog=options.examples(
        "tracedb lake critical-path fleet/run=job1",
        "tracedb lake critical-path fleet/run=job1 --stretches --format csv",
    ),
)
@click.argument("place", metavar="LAKE", type=click.Path())
@click.option(
    "--most",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    metavar="N",
    help="Number of ranks for which to compute the slowdown of the job.",
)
@click.option(
    "--stretches",
    is_flag=True,
    help="List the parts of the path, with the rank of each.",
)
@out.option
def critical_path(
    place: str, most: int, output: out.Output, *, stretches: bool
) -> None:
    """Show which ranks the critical path of each job runs through, and for how long.

    The path is computed from the collectives that the lake keeps for each rank. No
    trace is opened, so thousands of ranks take seconds. The first row of a run is the
    whole job. Its slowdown is its time divided by the time with typical segments
    between collectives. The slowdown of a rank uses its own segments, and typical ones
    for all other ranks.
    """
    from tracedb import lake

    found = lake.place_of(place)
    rows = (
        lake.path_stretches(found)
        if stretches
        else lake.critical_path(found, most=most)
    )
    output.rows(rows)
    if rows.is_empty():
        tell("no run here has steps with several ranks")
