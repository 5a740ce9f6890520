"""`tracedb lake`: many runs and ranks as Parquet files, filled by many workers."""

from __future__ import annotations

import os
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
    short_help="Put many runs and ranks into Parquet files.",
    epilog=options.examples(
        "tracedb lake ingest traces/ --lake fleet",
        "tracedb lake info fleet",
        "tracedb summary fleet/run=job1/rank=3",
    ),
)
def lake() -> None:
    """Ingest many runs and ranks into Parquet files, and see what is there.

    Every command that takes a database takes a lake as well, a run of it
    (LAKE/run=NAME) or a rank (LAKE/run=NAME/rank=N), with * for any.
    """


@lake.command(
    short_help="Put traces into a lake, each file alone.",
    epilog=options.examples(
        "tracedb lake ingest traces/ --lake fleet --workers 8",
        "tracedb lake ingest traces/ --lake fleet --runner spark --master 'local[2]'",
        "tracedb lake ingest /nfs/t --lake /nfs/fleet --runner spark --remote sc://host",
        "tracedb lake ingest s3://bucket/traces --lake s3://bucket/fleet",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path())
@click.option(
    "--lake",
    "root",
    required=True,
    metavar="DIR",
    help="A folder, or s3://bucket/lake; made if missing.",
)
@click.option(
    "--runner",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Processes of this machine, or Spark (pip install 'tracedb[spark]').",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    metavar="N",
    help="How many processes the local runner has. By default one for each core.",
)
@click.option(
    "--master",
    metavar="URL",
    help="Spark's master, as local[2] or spark://host:7077. By default local[*].",
)
@click.option(
    "--remote",
    metavar="URL",
    help="Instead of a master a Spark Connect server, as sc://host:15002 "
    "(pip install 'tracedb[connect]').",
)
@click.option(
    "--run", metavar="NAME", help="The run of all files. By default a folder."
)
@options.step_mark
@options.step_from
@click.option(
    "--memory",
    metavar="SIZE",
    help="How much each worker uses, as 4GB. By default 40 % of all, shared.",
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
    memory: str | None,
    pairs: tuple[str, ...],
) -> None:
    """Put traces and execution graphs into a lake, each file by a worker alone.

    A file that the lake has is passed over, one that has changed takes the place of
    what it was. One that cannot be ingested does not stop the others: it is listed by
    `tracedb lake info`, and the command exits with 3. The run of a file is the name of
    its folder, unless --run says it. Workers of Spark read the files, and write the
    lake, by the same paths as this process. Both may be in an object store (pip install
    'tracedb[s3]' or 'tracedb[gs]').
    """
    from tracedb import lake
    from tracedb.database import size_in

    counts = lake.ingest(
        paths,
        root,
        _runner(runner, workers, master, remote),
        run=run,
        step_mark=step_mark,
        step_from=step_from,
        memory=None if memory is None else size_in(memory),
        mapping=mapping(pairs),
        progress=tell,
    )
    tell(", ".join(f"{counts[kind]} {kind}" for kind in lake.OUTCOMES))
    tell(f"`tracedb lake info {root}` lists what is there")
    if counts["failed"]:
        context.exit(ISSUES_FOUND)


def _runner(
    runner: str, workers: int | None, master: str | None, remote: str | None
) -> Runner:
    from tracedb.lake import Local

    if runner == "spark":
        if workers is not None:
            raise click.BadParameter(
                "of the local runner alone", param_hint="--workers"
            )
        return _spark(master, remote)
    for name, given in (("--master", master), ("--remote", remote)):
        if given is not None:
            raise click.BadParameter("of --runner spark alone", param_hint=name)
    return Local(workers or os.cpu_count() or 1)


def _spark(master: str | None, remote: str | None) -> Spark:
    from tracedb.lake import Spark

    if master is not None and remote is not None:
        raise click.BadParameter(
            "has a master of its own: leave out --master", param_hint="--remote"
        )
    return Spark(master or "local[*]", remote)


@lake.command(
    short_help="Show the files of a lake, and which failed.",
    epilog=options.examples(
        "tracedb lake info fleet", "tracedb lake info 'fleet/run=a*'"
    ),
)
@click.argument("place", metavar="LAKE", type=click.Path())
@out.option
@click.pass_context
def info(context: click.Context, place: str, output: out.Output) -> None:
    """Show the files of a lake: which run and rank each is of, and which failed.

    Exits with 3 if a file could not be ingested; its row says why.
    """
    from tracedb import lake

    found = lake.place_of(place)
    rows = lake.info(found)
    output.rows(rows)
    if rows["issue"].count():
        context.exit(ISSUES_FOUND)


@lake.command(
    short_help="Answer a question about all runs and ranks of a lake.",
    epilog=options.examples(
        "tracedb lake ask fleet", "tracedb lake ask 'fleet/run=job*' straggler"
    ),
)
@click.argument("place", metavar="LAKE", type=click.Path())
@click.argument("question", required=False)
@click.option("--master", metavar="URL", help="Let the Spark of this master answer.")
@click.option("--remote", metavar="URL", help="Let this Spark Connect server answer.")
@out.option
def ask(
    place: str,
    question: str | None,
    master: str | None,
    remote: str | None,
    output: out.Output,
) -> None:
    """Answer a question about all runs and ranks of a lake.

    Without one it lists those there are. No trace is opened for it: the lake keeps of
    each a few rows, which DuckDB reads, or Spark.
    """
    import polars as pl

    from tracedb import lake

    found = lake.place_of(place)
    if question is None:
        names = ["question", "meaning"]
        known = sorted(lake.questions().items())
        output.questions(pl.DataFrame(known, names, orient="row"))
        tell("--format json has all that is said of each")
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
    short_help="Show which ranks the critical path of each job lies in.",
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
    help="Of how many ranks to tell by how much they slow the job down.",
)
@click.option("--stretches", is_flag=True, help="Show when it lies in which rank.")
@out.option
def critical_path(
    place: str, most: int, output: out.Output, *, stretches: bool
) -> None:
    """Show which ranks the critical path of each job lies in, and for how long.

    It goes over the collectives that the lake keeps of each rank, so no trace is
    opened, and thousands of ranks take seconds. The first row of a run is the whole
    job; its slowdown is what the job took by what it would take with typical segments
    between collectives, that of a rank with its own segments and typical ones of all
    others.
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
        tell("no run here has steps that several ranks share")
