"""`tracedb microbench`: measure op times on this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from . import options
from .terminal import tell, write_text

if TYPE_CHECKING:
    from tracedb.microbench import Plan


@click.command(
    epilog=options.examples(
        "tracedb microbench --list",
        "tracedb microbench -o cpu.parquet --plan quick --threads 1",
        "tracedb microbench -o gemm.parquet --plan gemm --device cuda --minutes 9",
        "tracedb microbench -o run.parquet --from run.duckdb --device cuda",
    )
)
@options.output("FILE", "Parquet file to write.", required=False)
@click.option(
    "--plan", metavar="NAME", help="Plan to measure: a name that --list shows."
)
@click.option(
    "--from",
    "database",
    metavar="DB",
    type=click.Path(),
    help="Instead of a plan, measure the shapes of the GPU work in DB.",
)
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    show_default=True,
    help="Device to measure on.",
)
@click.option(
    "--backend",
    type=click.Choice(["auto", "torch", "cupy", "numpy"]),
    default="auto",
    help="Library that runs the ops. `auto` is PyTorch if it is installed.",
)
@click.option(
    "--family",
    "families",
    multiple=True,
    metavar="NAME",
    help="Only this family; may be given several times.",
)
@click.option(
    "--threads", type=click.IntRange(1), metavar="N", help="Number of CPU threads."
)
@click.option(
    "--minutes",
    type=click.FloatRange(0),
    metavar="N",
    help="Stop after this time; the same command resumes later.",
)
@click.option("--list", "listing", is_flag=True, help="List the plans.")
def microbench(  # noqa: PLR0913 (the options of the command)
    *,
    path: str | None,
    plan: str | None,
    database: str | None,
    device: str,
    backend: str,
    families: tuple[str, ...],
    threads: int | None,
    minutes: float | None,
    listing: bool,
) -> None:
    """Measure op times on this machine, for many shapes.

    Writes a Parquet file for training kernel models, with a row per case. On a GPU,
    only the GPU time is measured, with a cold cache; on a CPU, the time of the whole
    op. Each measurement is saved in a journal next to the file, so an interrupted run
    resumes where it stopped. Progress is reported on stderr. Cases that this device
    cannot run are counted and left out.
    """
    from tracedb import microbench as bench

    if listing:
        _list()
        return
    if path is None:
        raise click.UsageError(
            "give an output file: -o FILE.parquet; --list shows the plans"
        )
    if (plan is None) == (database is None):
        raise click.UsageError(
            "give either --plan NAME (--list shows the plans) or --from DB"
        )
    opened = bench.open_backend(backend, device, threads)
    found = bench.plan(plan) if plan is not None else _of_database(str(database))
    wanted = replace(found, cases=bench.of_families(found.cases, families))
    done = bench.measure(path, wanted, opened, minutes=minutes, tell=tell)
    for line in done.lines():
        tell(line)


def _of_database(path: str) -> Plan:
    from .measured_shapes import plan_of

    return plan_of(path)


def _list() -> None:
    """List each plan with its number of cases and its subject."""
    from tracedb import microbench as bench

    for name, count in bench.COUNTS.items():
        write_text(f"{name:14} {count:5} cases  {bench.about(name)}")
