"""Arguments and options that several commands share, and the examples in their help."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

import tracedb
from tracedb.near import meant, near_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

database = click.argument("database", metavar="DB", type=click.Path())
step = click.option(
    "--step", type=int, metavar="N", help="Only step N, as in ProfilerStep#N."
)


def within(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select a part of an answer."""
    for name, what in _WITHIN.items():
        text = f"Only {what}."
        command = click.option(f"--{name}", type=int, metavar="N", help=text)(command)
    return command


_WITHIN = {
    "trace": "the file with trace_id N (see `tracedb info`)",
    "run": "the run with run_id N",
    "rank": "rank N of each run",
}

device = click.option("--device", type=int, metavar="N", help="Only device N.")
method = click.option(
    "--method",
    type=click.Choice(tracedb.METHODS),
    metavar="METHOD",
    help="Show the prediction of this method (see `tracedb predict`).",
)
library = click.option(
    "--library",
    metavar="FILE",
    help="Learn host times only from this file (the method library).",
)
scenario = click.option(
    "--scenario",
    metavar="FILE",
    help="Show predictions with and without the scenarios in this file.",
)

step_mark = click.option(
    "--step-mark",
    metavar="REGEX",
    help="Ranges that mark the steps, instead of ProfilerStep ranges.",
)
step_from = click.option(
    "--step-from",
    metavar="REGEX",
    help="Ranges that start a step; it lasts until the next such range.",
)
one_step = click.option(
    "--one-step",
    is_flag=True,
    help="Take each trace as one step, instead of the profiler's steps.",
)
table_map = click.option(
    "--map",
    "pairs",
    multiple=True,
    metavar="COLUMN=FIELD",
    help="For a table of operations: the meaning of a column or of an operation.",
)


@contextmanager
def simulated(
    database: str,
    method: str | None,
    scenario: str | None,
    *,
    allow_files: bool = False,
) -> Iterator[tracedb.Database]:
    """Open a database, simulated with the method or scenario if one is given."""
    with tracedb.open(database, read_only=True, allow_files=allow_files) as db:
        if method is None and scenario is None:
            yield db
        else:
            with db.simulate(method, scenario) as beside:
                yield beside


def memory(text: str, usual: str = "40 % of the machine's") -> Decorator:
    """The option for a limit of memory, in bytes."""

    def read(
        _context: click.Context, _option: click.Parameter, size: str | None
    ) -> int | None:
        from tracedb.duck import size_in

        return None if size is None else size_in(size)

    return click.option(
        "--memory",
        metavar="SIZE",
        callback=read,
        help=f"{text} Default: {usual}.",
    )


def output(metavar: str, text: str, *, required: bool = True) -> Decorator:
    """The option for a command's output file: `tracedb.outputs` has the rule."""
    rule = "Missing folders are created. Other existing files are never overwritten."
    return click.option(
        *("-o", "--output", "path"),
        metavar=metavar,
        required=required,
        type=click.Path(),
        help=f"{text} {rule}",
    )


def examples(*lines: str) -> str:
    r"""Return command lines in the form of the examples that end a help text.

    >>> examples("tracedb info run.duckdb")
    '\x08\nExample:\n  tracedb info run.duckdb'
    """
    # The character \b prevents click from rewrapping the lines.
    return "\n  ".join(["\b\nExample:", *lines])


def existing(database: str) -> tracedb.Database:
    """Open an existing database for writing; never creates one."""
    if not Path(database).exists() and "=" not in Path(database).name:
        raise tracedb.DatabaseError(
            f"{database}: no such database"
            f"{meant(near_path(database)) or '; create it with `tracedb ingest`'}"
        )
    return tracedb.open(database)
