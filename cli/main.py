"""The command `tracedb`, which imports the modules of subcommands on demand."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from . import errors, interrupt, streams
from .options import examples

# In the order in which users need them; each is in the module of its name.
COMMANDS = (
    "record",
    "ingest",
    "summary",
    "info",
    "overheads",
    "critical-path",
    "slack",
    "predict",
    "whatif",
    "diff",
    "check",
    "estimate",
    "shard",
    "kernels",
    "depends",
    "report",
    "serve",
    "export",
    "ask",
    "sql",
    "mcp",
    "schema",
    "lake",
    "microbench",
    "upgrade",
)


class _Commands(click.Group):
    """Commands imported on demand, with their errors reported in one place."""

    _interrupt = interrupt.Interrupt()

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f".{name}", __package__), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; raises `UsageError` with suggestions."""
        name = args[0] if args else ""
        if not name or name.startswith("-") or name in COMMANDS:
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"no such command '{name}'{_suggestion(name)}", ctx)

    def main(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 (as click has it)
        streams.open_missing()
        with interrupt.watched() as self._interrupt:
            try:
                return super().main(*args, **extra)
            finally:
                streams.drop_unwritten()

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 (as click has it)
    ) -> click.Context:
        with errors.reported(self._interrupt):
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 (as click has it)
        with errors.reported(self._interrupt):
            return super().invoke(ctx)


def _suggestion(name: str) -> str:
    """Suggestions for a mistyped command."""
    from difflib import get_close_matches
    from pathlib import Path

    written = name.lower().replace("_", "-")
    alike = {command.replace("-", ""): command for command in COMMANDS}
    if written.replace("-", "") in alike:
        return f"; did you mean {alike[written.replace('-', '')]}?"
    near = get_close_matches(written, COMMANDS, n=2, cutoff=0.6)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    if Path(name).is_file():
        return f"; the command comes first: `tracedb summary {name}`"
    return ""


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "tracedb ingest traces/ --db run.duckdb",
        "tracedb summary run.duckdb",
        "tracedb overheads run.duckdb --step 10",
        'tracedb sql run.duckdb "FROM staging.gpu_op LIMIT 5" --format csv',
    ),
)
@click.version_option(package_name="tracedb", message="%(prog)s %(version)s")
def tracedb() -> None:
    """Show where the time of deep-learning training goes, from profiler traces.

    Answers go to stdout, everything else to stderr. Exit codes: 0 success; 1 a
    regression (check); 2 an error, with one line on stderr; 3 some files were repaired
    or failed (info, lake); 130 interrupted by Ctrl-C; 141 stdout was closed early.
    """
