"""`tracedb microbench`: measure on this machine how long ops take."""

from __future__ import annotations

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
@click.option("--plan", metavar="NAME", help="What to measure: a name of --list.")
@click.option(
    "--from",
    "database",
    metavar="DB",
    type=click.Path(),
    help="Or the shapes that the GPU work of a database has.",
)
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    show_default=True,
    help="Measure there.",
)
@click.option(
    "--backend",
    type=click.Choice(["auto", "torch", "cupy", "numpy"]),
    default="auto",
    help="PyTorch where it is installed, unless said.",
)
@click.option(
    "--family", "families", multiple=True, metavar="NAME", help="Only this; repeatable."
)
@click.option("--threads", type=click.IntRange(1), metavar="N", help="Of the CPU.")
@click.option(
    "--minutes",
    type=click.FloatRange(0),
    metavar="N",
    help="End after them; the same command goes on later.",
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
    """Measure on this machine how long ops of many shapes take.

    Writes a Parquet file, a row per case, to train kernel models on. On a GPU it is
    the GPU's time alone, with a cold cache; on a CPU the whole op's. Each measurement
    goes into a journal beside the file: a run that ended early goes on where it was.
    Progress is reported on stderr; what this device cannot run is counted and left out.
    """
    from tracedb import microbench as bench

    if listing:
        _list()
        return
    if path is None:
        raise click.UsageError("say where to: -o FILE.parquet, or --list the plans")
    if (plan is None) == (database is None):
        raise click.UsageError(
            "say what to measure: --plan NAME, one of those that --list shows, or "
            "--from DB"
        )
    opened = bench.open_backend(backend, device, threads)
    found = bench.plan(plan) if plan is not None else _of_database(str(database))
    wanted = bench.Plan(
        found.name, bench.of_families(found.cases, families), found.rounds
    )
    done = bench.measure(path, wanted, opened, minutes=minutes, tell=tell)
    for line in done.lines():
        tell(line)


def _of_database(path: str) -> Plan:
    from .measured_shapes import plan_of

    return plan_of(path)


def _list() -> None:
    """Write each plan with how many cases it has, and of what."""
    from tracedb import microbench as bench

    for name, count in bench.COUNTS.items():
        write_text(f"{name:14} {count:5} cases  {bench.about(name)}")
