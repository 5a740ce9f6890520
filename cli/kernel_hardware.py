"""`tracedb kernels hardware`: the devices that times can be predicted for."""

from __future__ import annotations

import click

import tracedb

from . import options
from . import output as out
from .terminal import tell

_RELATION = "prediction.hardware"
_FIGURES = (
    *("hardware", "source", "name_pattern", "peak_fp32_flops_per_second"),
    *("peak_half_flops_per_second", "reached_half_flops_per_second"),
    *("dram_bytes_per_second", "reached_dram_bytes_per_second", "sm_count"),
)


@click.command(
    short_help="List the known devices, or add your own.",
    epilog=options.examples(
        "tracedb kernels hardware",
        "tracedb kernels hardware run.duckdb --add mine.json",
        "tracedb kernels hardware --format csv > mine.csv",
    ),
)
@click.argument("database", metavar="[DB]", required=False, type=click.Path())
@click.option(
    "--add",
    metavar="FILE",
    type=click.Path(),
    help="JSON or CSV file with the devices to add.",
)
@out.option
def hardware(database: str | None, add: str | None, output: out.Output) -> None:
    """List the known devices, or add some to DB: peaks, bandwidths, achieved rates.

    A device is matched by a regular expression on its name (`name_pattern`). Devices
    that you add are tried before the others. The keys of FILE are the columns that
    `tracedb schema reference.hardware` lists, without the ordinal, which is assigned.
    Values are in base units, without prefixes such as kilo or mega.
    """
    if add and database is None:
        raise click.UsageError("--add needs a database to add to")
    if database is None:
        from tracedb.lookup import declared_rows

        output.rows(declared_rows(_RELATION), _FIGURES, most=None)
    elif add is None:
        with tracedb.open(database, read_only=True) as db:
            output.rows(db.relation(_RELATION), _FIGURES, most=None)
    else:
        with options.existing(database) as db:
            names = ", ".join(db.add_hardware(add))
            tell(
                f"added {names}; run `tracedb kernels apply` again if you applied "
                "models"
            )
            output.rows(db.relation(_RELATION), _FIGURES, most=None)
