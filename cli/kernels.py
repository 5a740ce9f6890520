"""`tracedb kernels`: models of kernel times; finds the module of a subcommand."""

from __future__ import annotations

from importlib import import_module

import click

from . import options

# In the order in which a person needs them; each is in the module `kernel_<name>`.
COMMANDS = ("apply", "calibrate", "hardware")


class _Commands(click.Group):
    """Commands imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f".kernel_{cmd_name}", __package__)
        command: click.Command = getattr(module, cmd_name)
        return command


@click.command(
    cls=_Commands,
    epilog=options.examples(
        "tracedb kernels apply run.duckdb models/",
        "tracedb kernels calibrate run.duckdb",
        "tracedb kernels hardware",
    ),
)
def kernels() -> None:
    """Predict kernel times with models: apply, calibrate, describe hardware."""
