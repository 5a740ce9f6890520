"""`tracedb mcp`: a database for coding assistants, by the Model Context Protocol."""

from __future__ import annotations

import json
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any

import click

import tracedb

from . import options

if TYPE_CHECKING:
    from collections.abc import Callable


@click.command(
    epilog=options.examples(
        "tracedb mcp run.duckdb",
        "tracedb mcp run.duckdb --seconds 300",
    )
)
@options.database
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=60,
    show_default=True,
    metavar="S",
    help="Time limit of a call.",
)
@options.memory("Memory limit of a call, such as 4GB.")
def mcp(database: str, seconds: float, memory: int | None) -> None:
    """Serve a database to a coding assistant over stdin and stdout.

    The tools are summary, questions, ask, relations, sql and whatif. They are
    read-only, return at most 1,000 rows per call, and cannot read files. The database
    is open only during a call, so you can ingest traces in between. The server stops
    when its stdin closes. It needs the package mcp: pip install 'tracedb[mcp]'.
    """
    server = _server(database, seconds, memory)
    tracedb.open(database, read_only=True).close()
    server.run("stdio")


def _server(database: str, seconds: float, memory: int | None) -> Any:  # noqa: ANN401 (of a package that may be missing)
    """An MCP server with all tools, from the official SDK."""
    from tracedb.extras import import_extra
    from tracedb.tools import INSTRUCTIONS, TOOLS, Tools

    sdk = import_extra("mcp.server.mcpserver", "mcp", "tracedb mcp")
    refused = import_extra(
        "mcp.server.mcpserver.exceptions", "mcp", "tracedb mcp"
    ).ToolError
    kinds = import_extra("mcp.types", "mcp", "tracedb mcp")
    tools = Tools(database, seconds, memory)
    server = _strict(sdk.MCPServer, refused, tools)(
        "tracedb",
        instructions=INSTRUCTIONS,
        version=tracedb.__version__,
        log_level="ERROR",
    )
    reads = kinds.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for name in TOOLS:
        tool = _with_errors(getattr(tools, name), refused)
        server.add_tool(tool, annotations=reads)
    return server


def _strict(base: type[Any], refused: type[Exception], tools: object) -> type[Any]:
    """A server that refuses wrong arguments in one line, and does not ignore any."""

    class Strict(base):  # type: ignore[misc]
        async def call_tool(
            self,
            name: str,
            arguments: dict[str, Any],
            *context: Any,  # noqa: ANN401 (of the SDK)
        ) -> Any:  # noqa: ANN401 (of the SDK)
            known = signature(getattr(tools, name, _none)).parameters
            for argument in arguments:
                if known and argument not in known:
                    names = ", ".join(known)
                    raise refused(f"no argument {argument}; available: {names}")
            try:
                return _compact(await super().call_tool(name, arguments, *context))
            except refused as error:
                wrong = getattr(error.__cause__, "errors", None)
                if wrong is None:
                    raise
                texts = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in wrong()]
                raise refused("; ".join(texts)) from error

    return Strict


def _compact(answer: Any) -> Any:  # noqa: ANN401 (of the SDK)
    """The answer without the SDK's line for each value: an assistant pays by length."""
    rows = getattr(answer, "structured_content", None)
    for text in answer.content if rows and "result" not in rows else ():
        text.text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    return answer


def _none() -> None:
    """What a tool that does not exist takes."""


def _with_errors(
    tool: Callable[..., Any], refused: type[Exception]
) -> Callable[..., Any]:
    """The tool, with its errors passed on to the assistant."""

    @wraps(tool)
    def reporting(*args: Any, **named: Any) -> Any:  # noqa: ANN401 (as the tool has them)
        try:
            return tool(*args, **named)
        except tracedb.TracedbError as error:
            raise refused(str(error)) from error

    return reporting
