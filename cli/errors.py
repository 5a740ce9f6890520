"""What can go wrong, told in one line on stderr: the only place that does so."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from tracedb import TracedbError

from .terminal import tell

if TYPE_CHECKING:
    from collections.abc import Iterator


class Failure(click.ClickException):
    """An error for click to show: one line, exit code 2."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Write `tracedb: error: ...`."""
        del file
        tell(f"tracedb: error: {self.message}")


# A group of commands without any word behind it: click shows its help.
_HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


@contextmanager
def told() -> Iterator[None]:
    """Turn the errors that a user can cause into a line and an exit code."""
    try:
        yield
    except click.UsageError as error:
        if isinstance(error, _HELP):
            raise
        raise Failure(_usage(error)) from error
    except TracedbError as error:
        raise Failure(str(error)) from error
    except Exception as error:
        if isinstance(error, _standing_alone()):
            raise Failure(str(error)) from error
        if not isinstance(error, _engine_errors()):
            raise
        line = str(error).partition("\n")[0]
        raise Failure(f"{type(error).__name__}: {line}") from error


def _usage(error: click.UsageError) -> str:
    """Say which command was typed wrongly, what is wrong, and where its help is."""
    message = " ".join(error.format_message().split()).rstrip(".")
    if error.ctx is None:
        return message
    command = error.ctx.command_path
    subcommand = command.partition(" ")[2]
    place = f"{subcommand}: " if subcommand else ""
    mark = "" if message.endswith("?") else ";"
    lowered = message[:1].lower() + message[1:]
    return f"{place}{lowered}{mark} see `{command} --help`"


def _standing_alone() -> tuple[type[Exception], ...]:
    """Return the base of the errors of a package that imports nothing of tracedb."""
    module = sys.modules.get("tracedb.microbench.errors")
    return (module.MicrobenchError,) if module else ()


def _engine_errors() -> tuple[type[Exception], ...]:
    """Return what DuckDB and polars raise, if they are loaded: help does without."""
    duckdb, polars = (sys.modules.get(name) for name in ("duckdb", "polars"))
    errors = (duckdb and duckdb.Error, polars and polars.exceptions.PolarsError)
    return tuple(error for error in errors if error)
