"""Reports errors in one line on stderr; no other module does."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from traceback import walk_tb
from typing import IO, TYPE_CHECKING, Any

import click

from tracedb import TracedbError, renamed

from .interrupt import EXIT_CODE
from .terminal import tell_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .interrupt import Interrupt


_PLAIN = {
    "is not a valid integer range": "is not a whole number",
    "is not a valid integer": "is not a whole number",
    "is not a valid float range": "is not a number",
    "is not a valid float": "is not a number",
}
"""Words of click for types, and plain ones."""
_FILES = ("-o", "--out", "--output", "--database")
"""Options that users try for the file that a command writes."""
_INSTEAD = {
    (
        "summary",
        "--device",
    ): "`tracedb ask DB device_time --device N` is about a device",
    ("report", "--device"): "`tracedb ask DB device_time --device N` is about a device",
    ("report", "--step"): "`tracedb summary DB --step N` is about a step, and "
    "`tracedb export DB -o FILE --step N` has its timeline",
    ("whatif", "--device"): "edits select a device with a field: 'gpu:kernel device=1 "
    "x0.5'",
}
"""What does what users expect of an option that a command does not have."""
_MOST = 8
"""How many commands that have an option are named."""
_CLOSED = 141
"""Exit code if stdout is closed, as of programs that SIGPIPE ends."""


class Failure(click.ClickException):
    """An error for click to show: one line, exit code 2."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Write `tracedb: error: ...`."""
        del file
        tell_line(f"tracedb: error: {self.message}")


# click raises this for a command group without arguments, and shows help.
_HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


class Interrupted(Failure):
    """The command was interrupted by Ctrl-C."""

    exit_code = EXIT_CODE

    def show(self, file: IO[Any] | None = None) -> None:
        """Write that it was interrupted."""
        del file
        tell_line("tracedb: interrupted")


@contextmanager
def reported(interrupt: Interrupt) -> Iterator[None]:
    """Turn the errors that a user can cause into a line and an exit code."""
    try:
        yield
    except (click.exceptions.Exit, Failure):
        raise
    except BaseException as error:
        # An interrupted import, query or thread may raise any error.
        if interrupt.happened or isinstance(error, KeyboardInterrupt):
            raise Interrupted("interrupted") from error
        if isinstance(error, BrokenPipeError):
            # Like other tools, end silently if stdout is closed (`tracedb ... | head`);
            # 1 would be a regression that `tracedb check` found.
            raise click.exceptions.Exit(_CLOSED) from error
        line = _line(error)
        if line is None:
            raise
        raise Failure(line) from error


def _line(error: BaseException) -> str | None:
    """The message of an error that a user can cause; None for any other."""
    if isinstance(error, click.UsageError) and not isinstance(error, _HELP):
        return _usage(error)
    if isinstance(error, (TracedbError, *_independent_errors())):
        return str(error)
    if isinstance(error, ImportError):
        return _of_library(error)
    return _of_system(error)


def _of_library(error: ImportError) -> str | None:
    """Why a library cannot be imported; None if it is a module of tracedb's own.

    Libraries may not fit one another: pyarrow, say, asks for another version of NumPy
    than an old PyTorch does, and installing them does not tell.
    """
    library = (error.name or _innermost(error)).partition(".")[0]
    if library in {"", "tracedb"}:
        return None
    said = " ".join(str(error).split())
    return (
        f"{library}, which tracedb needs, cannot be imported: {said}; install versions "
        "of these libraries that fit one another"
    )


def _innermost(error: ImportError) -> str:
    """The name of the module that raised it."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return str(frames[-1].f_globals.get("__name__", "")) if frames else ""


def _of_system(error: BaseException) -> str | None:
    """The message of an error of the system or an engine; None for any other."""
    if isinstance(error, MemoryError):
        return f"not enough memory{_within_brackets(error)}"
    if isinstance(error, OSError):
        place = "stdout" if error.filename is None else error.filename
        return f"{place}: {error.strerror or error}"
    if isinstance(error, _engine_errors()):
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return None


def _within_brackets(error: BaseException) -> str:
    said = " ".join(str(error).split())
    return f" ({said})" if said else ""


def _usage(error: click.UsageError) -> str:
    """Name the command, the error in its usage, and where its help is."""
    message = " ".join(error.format_message().split()).rstrip(".")
    message = _owners(error) or _suggestion(message)
    for word, plain in _PLAIN.items():
        message = message.replace(word, plain)
    new = renamed.OPTIONS.get(getattr(error, "option_name", ""))
    if new:
        message = f"{message}: it was renamed to {new}"
    lowered = message[:1].lower() + message[1:]
    if error.ctx is None:
        return lowered
    command = error.ctx.command_path
    subcommand = command.partition(" ")[2]
    place = f"{subcommand}: " if subcommand else ""
    mark = "" if message.endswith("?") else ";"
    return f"{place}{lowered}{mark} see `{command} --help`"


def _owners(error: click.UsageError) -> str:
    """The error for an option of other commands, which names these; else empty."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return ""
    told = f"no such option '{error.option_name}'"
    own = error.ctx.command
    instead = _instead(own, error.option_name)
    if instead:
        return f"{told}; {instead}"
    root = error.ctx.find_root()
    owners = [
        path for path, command in _commands(root) if _has(command, error.option_name)
    ]
    if not owners:
        return ""
    more = f" and {len(owners) - _MOST} more" if len(owners) > _MOST else ""
    if len(owners) == 1:
        return f"{told}; it is an option of `{owners[0]}`"
    return f"{told}; it is an option of {', '.join(owners[:_MOST])}{more}"


def _instead(command: click.Command, option: str) -> str:
    """What to write instead of an option, where that is known; else empty."""
    if option in _FILES and _has(command, "--db"):
        return "did you mean '--db'?"
    if option == "--db" and any(one.name == "database" for one in command.params):
        return "here the database is given without it"
    return _INSTEAD.get((command.name or "", option), "")


def _commands(ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """The commands below a group, with the words that start each."""
    group = ctx.command
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is not None:
            yield name, command
            within = click.Context(command, parent=ctx, info_name=name)
            for path, below in _commands(within):
                yield f"{name} {path}", below


def _has(command: click.Command, option: str) -> bool:
    return any(option in one.opts for one in command.params)


def _suggestion(message: str) -> str:
    """The message, with click's suggestion at its end.

    >>> _suggestion("No such option '--s'. (Did you mean one of: '--help', '--step'?)")
    "No such option '--s'; did you mean '--step'?"
    """
    said, mark, listed = message.partition(". (Did you mean one of: ")
    if not mark:
        said, mark, listed = message.partition(". Did you mean ")
    if not mark:
        return message
    names = [name for name in listed.rstrip("?)").split(", ") if name != "'--help'"]
    return f"{said}; did you mean {' or '.join(names)}?" if names else said


def _independent_errors() -> tuple[type[Exception], ...]:
    """The base errors of packages that do not import `tracedb.errors`."""
    module = sys.modules.get("tracedb.microbench.errors")
    return (module.MicrobenchError,) if module else ()


def _engine_errors() -> tuple[type[Exception], ...]:
    """The errors of DuckDB and polars, if loaded; help does not load them."""
    duckdb, polars = (sys.modules.get(name) for name in ("duckdb", "polars"))
    errors = (duckdb and duckdb.Error, polars and polars.exceptions.PolarsError)
    return tuple(error for error in errors if error)
