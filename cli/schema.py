"""`tracedb schema`: the relations that can be queried."""

from __future__ import annotations

import click

import tracedb

from . import options
from . import output as out


@click.command(
    epilog=options.examples(
        "tracedb schema",
        "tracedb schema staging.gpu_op",
        "tracedb schema --all --format csv",
        "tracedb schema --markdown > docs/schema.md",
    )
)
@click.argument("relation", required=False, metavar="[RELATION]")
@click.option("--all", "internal", is_flag=True, help="Also list internal relations.")
@click.option(
    "--markdown", is_flag=True, help="Write everything as the page docs/schema.md."
)
@out.option
def schema(
    relation: str | None, *, internal: bool, markdown: bool, output: out.Output
) -> None:
    """List the relations, or show one: columns, meaning, SQL.

    The list has the relations that scripts may rely on, in reading order. --all adds
    the internal relations by layer; these may change in any version.
    """
    from tracedb import catalog, lookup

    if markdown:
        with tracedb.open() as db:
            click.echo(catalog.schema_page(db.connection), nl=False)
    elif relation is None:
        output.rows(lookup.schema(internal=internal), most=None)
    else:
        columns = lookup.schema(relation)
        declared = lookup.find_relation(relation)
        output.text(f"{declared.signature}: {declared.comment}\n")
        if declared.is_macro:
            for name, meaning in declared.parameters.items():
                output.text(f"{name}: {meaning}\n")
        output.rows(columns)
        output.text(f"\n{declared.query or '-- Filled at ingest.'}")
