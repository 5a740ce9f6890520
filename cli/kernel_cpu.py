"""`tracedb kernels cpu`: measure this CPU, for steps that are estimated on it."""

from __future__ import annotations

import click

from . import options
from .terminal import tell, write_text


@click.command(
    epilog=options.examples(
        "tracedb kernels cpu -o this-cpu/ --threads 1",
        "tracedb estimate train.py:step --cpu this-cpu/",
    ),
)
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="FOLDER",
    type=click.Path(),
    required=True,
    help="Folder for what is measured, and for the models made of it.",
)
@click.option(
    "--threads",
    type=click.IntRange(1),
    metavar="N",
    help="PyTorch's, as the step will have; its usual number unless given.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(0),
    metavar="N",
    help="End after them; the same command goes on later.",
)
def cpu(*, folder: str, threads: int | None, minutes: float | None) -> None:
    """Measure this CPU, for estimates of steps on it.

    Measures PyTorch's ops and the host time between them, in about two minutes: some
    3,000 ops of all families and sizes, small programs for the time of Python, modules
    and autograd, and new pages of memory. An interrupted run continues where it
    stopped. Other load on the machine distorts the result.
    """
    if not folder:
        raise click.BadParameter("the path is empty", param_hint="--output")
    from tracedb.from_code.cpu.measure import measure

    found = measure(folder, threads=threads, minutes=minutes, tell=tell)
    if found is not None:
        write_text(f"{folder}: {found.name}, {found.facts['software']}")
