"""Restrict users' queries to one statement that reads relations.

DuckDB itself blocks access to files (`seal`). The rest is checked on the syntax tree of
DuckDB's own parser: functions that write, change settings or run text, and statements
within statements are refused.
"""

from __future__ import annotations

import os
import re
import tempfile
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import duckdb
import msgspec

from tracedb import catalog
from tracedb.duck import MEMORY_FOLDER, literal, scalar
from tracedb.errors import FileAccessError, QueryError
from tracedb.near import alike, meant

if TYPE_CHECKING:
    from collections.abc import Iterator

# Settings that tracedb itself changes while a database is open.
_SET_LATER = (
    *("threads", "memory_limit", "enable_progress_bar"),
    "disabled_optimizers",
)

_TABLE_FUNCTIONS = frozenset(
    {
        *("range", "generate_series", "unnest", "repeat", "repeat_row"),
        *("json_each", "json_tree", "summary", "test_all_types"),
        *("pragma_table_info", "pragma_storage_info", "pragma_database_size"),
        *("pragma_version", "pg_timezone_names", "icu_calendar_names"),
        *("duckdb_columns", "duckdb_constraints", "duckdb_databases"),
        *("duckdb_dependencies", "duckdb_extensions", "duckdb_functions"),
        *("duckdb_indexes", "duckdb_keywords", "duckdb_memory", "duckdb_optimizers"),
        *("duckdb_schemas", "duckdb_sequences", "duckdb_settings", "duckdb_tables"),
        *("duckdb_temporary_files", "duckdb_types", "duckdb_variables"),
        "duckdb_views",
    }
)
"""The allowed table functions, which read only the database; others may do anything."""
_FILE_FUNCTIONS = frozenset(
    {
        *("read_csv", "read_csv_auto", "sniff_csv", "read_text", "read_blob", "glob"),
        *("read_json", "read_json_auto", "read_json_objects", "read_ndjson"),
        *("read_json_objects_auto", "read_ndjson_auto", "read_ndjson_objects"),
        *("read_parquet", "parquet_scan", "parquet_schema", "parquet_metadata"),
        *("parquet_file_metadata", "parquet_kv_metadata", "read_duckdb"),
    }
)
"""Table functions that read files, which are allowed on request."""
_REFUSED_FUNCTIONS = frozenset(
    {"getenv", "nextval", "setval", "write_log", "sleep_ms", "setseed"}
)
"""Scalar functions with side effects."""
_MOST_DEPTH = 250
_NODES = frozenset(
    {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
)
_EXPLAIN = re.compile(
    r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*EXPLAIN\b(?:\s+ANALYZE\b)?(?:\s*\([^()]*\))?",
    re.IGNORECASE | re.DOTALL,
)
_ALLOW = "; `--allow-files`, or `tracedb.open(..., allow_files=True)`, allows it"


def text_folders() -> list[str]:
    """The folders of files of `duck.text_file`, which DuckDB must be able to read.

    Since 2.0.1 DuckDB also checks the target of a link.
    """
    if hasattr(os, "memfd_create"):
        return ["/proc/self/fd", f"/memfd:{MEMORY_FOLDER}"]
    return [tempfile.gettempdir(), os.path.realpath(tempfile.gettempdir())]


def seal(
    connection: duckdb.DuckDBPyConnection, *, read_only: bool, allow_files: bool
) -> None:
    """Block access to files for all later queries, permanently.

    The database's own files, and those to which it spills, stay accessible; ingest
    passes its data by `text_folders`.
    """
    if not allow_files:
        if not read_only:
            folders = ", ".join(map(literal, text_folders()))
            connection.execute(f"SET allowed_directories = [{folders}]")
        connection.execute("SET enable_external_access = false")
    names = ", ".join(map(literal, _SET_LATER))
    connection.execute(f"SET allowed_configs = [{names}]")
    connection.execute("SET lock_configuration = true")


def check(
    connection: duckdb.DuckDBPyConnection, query: str, *, allow_files: bool
) -> None:
    """Raise `QueryError` unless a query is one statement that only reads."""
    if not isinstance(query, str):
        raise QueryError(f"{query!r} is not the text of a query")
    query.encode()  # raises UnicodeEncodeError if it is not valid text
    if _depth(query) > _MOST_DEPTH:
        raise QueryError(f"more than {_MOST_DEPTH} nested brackets")
    _check_kind(connection, query)
    allowed = _TABLE_FUNCTIONS | (_FILE_FUNCTIONS if allow_files else frozenset())
    for part in _parts(_tree(connection, _EXPLAIN.sub("", query, count=1))):
        wrong = _wrong(part, allowed)
        if wrong:
            raise (FileAccessError if wrong.endswith(_ALLOW) else QueryError)(wrong)


def _depth(query: str) -> int:
    """The depth of nested brackets; deep ones take DuckDB's parser minutes."""
    steps = ((c in "([{") - (c in ")]}") for c in query)
    return max(accumulate(steps), default=0)


def _check_kind(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    statements = connection.extract_statements(query)
    if not statements:
        raise QueryError("an empty query; write a SELECT")
    if len(statements) > 1:
        raise QueryError(f"{len(statements)} statements; write only one")
    kind = statements[0].type
    if kind == duckdb.StatementType.MULTI:
        raise QueryError(
            "a PIVOT without a list of values; write it as ON ... IN (...)"
        )
    if kind not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise QueryError(
            f"{kind.name} is not allowed: queries are read-only; write a SELECT"
        )


def _tree(connection: duckdb.DuckDBPyConnection, query: str) -> Any:  # noqa: ANN401 (JSON)
    text = scalar(connection, "SELECT json_serialize_sql(?::VARCHAR)", [query])
    try:
        tree = msgspec.json.decode(text)
    except RecursionError as error:
        raise QueryError("the query is nested too deeply") from error
    except msgspec.DecodeError as error:
        # DuckDB writes an overflowing number as `inf`, which is not JSON.
        text = "a number in the query is too large; write 'inf'::DOUBLE"
        raise QueryError(text) from error
    if tree["error"]:
        raise QueryError(f"only a SELECT can be explained: {tree['error_message']}")
    return tree


def _parts(tree: object) -> Iterator[dict[str, Any]]:
    """All objects in a tree."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _wrong(part: dict[str, Any], allowed: frozenset[str]) -> str | None:
    """What is not allowed in a part of a query, if anything."""
    kind = str(part.get("type", ""))
    if kind.endswith("_NODE") and kind not in _NODES:
        return f"{kind.removesuffix('_NODE')} is not allowed within a query"
    if kind == "TABLE_FUNCTION":
        return _wrong_table_function(part["function"], allowed)
    name = str(part.get("function_name", "")).lower()
    return f"the function {name} is not allowed" if name in _REFUSED_FUNCTIONS else None


def _wrong_table_function(
    function: dict[str, Any], allowed: frozenset[str]
) -> str | None:
    name = str(function.get("function_name", "")).lower()
    schema = str(function.get("schema", "")).lower()
    declared = {r.full_name for r in catalog.relations() if r.is_macro}
    if f"{schema}.{name}" in declared or (name in allowed and schema in ("", "main")):
        return None
    shown = f"{schema}.{name}" if schema else name
    near = alike(shown, sorted(declared)) if schema else []
    if near:
        return f"no table function {shown}{meant(near)}"
    hint = _ALLOW if name in _FILE_FUNCTIONS else ""
    return (
        f"the table function {shown} is not allowed: it does not read relations{hint}"
    )
