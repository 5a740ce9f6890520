"""What several commands share, defined once: arguments, and examples in their help."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

import tracedb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

database = click.argument("database", metavar="DB", type=click.Path())
step = click.option(
    "--step", type=int, metavar="N", help="Only the step ProfilerStep#N."
)


def within(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose where an answer is of."""
    for name, what in _WITHIN.items():
        text = f"Only {what}."
        command = click.option(f"--{name}", type=int, metavar="N", help=text)(command)
    return command


_WITHIN = {
    "trace": "the file whose trace_id is N (tracedb info)",
    "run": "the run whose run_id is N",
    "rank": "the rank N of each run",
}

device = click.option("--device", type=int, metavar="N", help="Only the device N.")
method = click.option(
    "--method",
    type=click.Choice(tracedb.METHODS),
    metavar="METHOD",
    help="As predicted by this method (tracedb predict).",
)
scenario = click.option(
    "--scenario",
    metavar="FILE",
    help="As predicted with the scenarios in this file, and without.",
)

step_mark = click.option(
    "--step-mark",
    metavar="REGEX",
    help="User ranges that mark the steps, where the profiler did not.",
)
step_from = click.option(
    "--step-from",
    metavar="REGEX",
    help="User ranges that steps begin with; each lasts until the next one begins.",
)
table_map = click.option(
    "--map",
    "pairs",
    multiple=True,
    metavar="COLUMN=FIELD",
    help="Of a table of operations: what a column, or an operation, is.",
)


@contextmanager
def simulated(
    database: str,
    method: str | None,
    scenario: str | None,
    *,
    allow_files: bool = False,
) -> Iterator[tracedb.Database]:
    """Open a database; where a method or a scenario is given, as it is simulated so."""
    with tracedb.open(database, read_only=True, allow_files=allow_files) as db:
        if method is None and scenario is None:
            yield db
        else:
            with db.simulate([method or "replay"], scenario) as beside:
                yield beside


def output(metavar: str, text: str, *, required: bool = True) -> Decorator:
    """The option that says where a command writes: `tracedb.outputs` has the rule."""
    rule = "Missing folders are made; nothing else that is there is written over."
    return click.option(
        *("-o", "--output", "path"),
        metavar=metavar,
        required=required,
        type=click.Path(),
        help=f"{text} {rule}",
    )


def examples(*lines: str) -> str:
    r"""Return command lines as the end of a command's help.

    >>> examples("tracedb info run.duckdb")
    '\x08\nExample:\n  tracedb info run.duckdb'
    """
    # The character keeps click from filling the lines into a paragraph.
    return "\n  ".join(["\b\nExample:", *lines])


def existing(database: str) -> tracedb.Database:
    """Open a database to change it; one that is missing is not made."""
    if not Path(database).exists() and "=" not in Path(database).name:
        raise tracedb.DatabaseError(
            f"{database}: no such database; make it with `tracedb ingest`"
        )
    return tracedb.open(database)
