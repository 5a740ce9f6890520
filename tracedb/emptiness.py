"""Find relations that must be empty because what they read is empty.

For a small trace, DuckDB takes longer to bind and plan a query than to run it, and most
traces lack many things: GPU work, collectives, tensor sizes. The syntax tree of a query
tells when it has no rows: an inner join, if either side has none; a union, if all parts
have none; a condition on a column (`WHERE rule = 'concat'`, a pattern, IS NOT NULL), if
it holds for no row of its table; and so on.

Other relations are computed, and questions asked. The empty relations that they read,
directly or by way of views, are not planned with them: empty columns of the same types
replace them (`Emptiness.reduced`).
"""

from __future__ import annotations

import re
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import msgspec

from tracedb.duck import literal, quoted, scalar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Rule = bool | str | tuple[str, list["Rule"]]
    """When a relation is empty: always or never (a bool), if another one is (its name),
    if `all` or `any` rules hold, or `unless` a row of a relation meets a condition."""
    Tree = Mapping[str, Any]

_UNLESS = "unless"
_PROPERTY = "empty_without"
_NOTED = f"SELECT value FROM raw.database WHERE property = '{_PROPERTY}'"
_CALLED = re.compile(r"\b[a-z]\w*(?=\()")
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_COMMENT = re.compile(r"('(?:[^']|'')*')|--.*")
# A text, or a relation's name with FROM or JOIN, its alias, a column, or a bracket.
_READ = re.compile(
    r"'(?:[^']|'')*'|"
    r"\b(?P<read>(?:FROM|JOIN)\s+)?(?P<layer>[a-z_]+)\.(?P<name>\w+)\b"
    r"(?P<called>\s+AS\s+\w+)?(?P<column>\.\w+|\.\*)?(?P<takes>\()?"
)
_COLUMNS = """
SELECT
    schema_name || '.' || table_name,
    string_agg(
        format('NULL::{} AS "{}"', data_type, column_name), ', ' ORDER BY column_index
    )
FROM duckdb_columns()
WHERE database_name = current_database()
GROUP BY ALL
"""
_NAMES_OF_COLUMNS = """
SELECT schema_name || '.' || table_name, list(column_name)
FROM duckdb_columns()
WHERE database_name = current_database()
GROUP BY ALL
"""
# Conditions on a column: the parser's names, and the SQL.
_FORMS = {
    "COMPARE_EQUAL": "{} = {}",
    "COMPARE_IN": "{} IN ({})",
    "OPERATOR_IS_NOT_NULL": "{} IS NOT NULL",
    "regexp_full_match": "regexp_full_match({}, {})",
    "regexp_matches": "regexp_matches({}, {})",
}
# Functions of the parser, which `duckdb_functions()` does not list.
_UNFOLDING = ("unnest",)


def note(
    connection: duckdb.DuckDBPyConnection,
    queries: Mapping[str, str],
    fingerprint: str,
) -> None:
    """Store for each relation the rule when it is empty."""
    known = connection.execute(_NAMES_OF_COLUMNS).fetchall()
    reader = _Reader(_functions_of_values(connection), dict(known))
    # The format of a syntax tree depends on the version of the current database.
    with duckdb.connect() as parser:
        found = {name: reader.rule(parser, query) for name, query in queries.items()}
    columns = dict(connection.execute(_COLUMNS).fetchall())
    noted = {"fingerprint": fingerprint, "rules": found, "columns": columns}
    text = msgspec.json.encode(noted).decode()
    connection.execute(
        "INSERT OR REPLACE INTO raw.database VALUES (?, ?)", [_PROPERTY, text]
    )


def reading_instead(query: str, sources: Mapping[str, str]) -> str:
    """The query with subqueries instead of relations that it reads.

    Each has a place for the alias.

    >>> reading_instead("SELECT a FROM raw.t AS u", {"raw.t": "(FROM raw.v){alias}"})
    'SELECT a FROM (FROM raw.v) AS u'
    """
    return _READ.sub(lambda found: _replaced(found, sources), _without_comments(query))


class View(NamedTuple):
    """A view that queries read: the names of its columns, and its query."""

    columns: Sequence[str]
    query: str


class Emptiness:
    """Tells which relations of a database have no rows, without computing them."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        fingerprint: str,
        tables: Iterable[str],
        without: Iterable[str] = (),
        views: Mapping[str, View] = MappingProxyType({}),
    ) -> None:
        """Read the rules and which tables have rows; those in `without` are empty.

        Queries are reduced within the `views` that they read. Rules of another version
        are ignored.
        """
        noted = msgspec.json.decode(scalar(connection, _NOTED) or b"{}")
        is_of_these = noted.get("fingerprint") == fingerprint
        self._rules: dict[str, Rule] = noted["rules"] if is_of_these else {}
        self._connection = connection
        self._tables = frozenset(tables)
        self._views = views
        self._filled = set(self._with_rows(self._tables))
        self._columns: dict[str, str] = noted.get("columns", {})
        self._known = dict.fromkeys(without, True)
        self._answers: dict[tuple[str, str], bool] = {}

    def has_rows(self, table: str) -> bool:
        """Whether a table has rows, as of the last check."""
        return table in self._filled

    def must_be_empty(self, name: str) -> bool:
        """Whether a relation must be empty because of what it reads."""
        return self._holds(self._rules.get(name, False))

    def reduced(self, query: str) -> str:
        """An equivalent query that does not read relations known to be empty.

        Subqueries replace them under their names, and views that read them: those of
        empty relations have columns of the same types. Tables of `reference` are kept:
        they take no planning, and without `reference.kernel_lesson` DuckDB 2.0 hangs if
        memory is short (the windows of `prediction.kernel_factor` in 100 MB, by
        `tests/test_memory.py`).
        """
        return f"SELECT * FROM ({self._reduced(_without_comments(query), {})}\n)"

    def _reduced(self, query: str, sources: dict[str, str]) -> str:
        """A query in which subqueries replace what can be reduced.

        `sources` keeps them by the names that they replace; '' is for what stays.
        """
        read = _replaceable(query)
        for name in read:
            if name not in sources:
                sources[name] = self._source(name, sources)
        replaced = {name: sources[name] for name in read if sources[name]}
        if not replaced:
            return query
        return reading_instead(query, replaced)

    def _source(self, name: str, sources: dict[str, str]) -> str:
        """The subquery that replaces a relation, with a place for its alias."""
        if name not in self._columns or name.startswith("reference."):
            return ""
        if self._is_empty(name):
            return f"(SELECT {self._columns[name]} WHERE false){{alias}}"
        if name in self._views and name not in self._tables:
            view = self._views[name]
            query = _without_comments(view.query)
            reduced = self._reduced(query, sources)
            if reduced != query:
                columns = ", ".join(map(quoted, view.columns))
                return f"({reduced}\n){{alias}} ({columns})"
        return ""

    def recheck(self, table: str) -> None:
        """Look at a table again: rows may have been added or deleted."""
        self._filled.discard(table)
        self._filled.update(self._with_rows([table]))
        self._forget(table)

    def add_rows(self, table: str, rows: int) -> None:
        """Record that rows were added to a table."""
        if rows:
            self._filled.add(table)
            self._forget(table)

    def _forget(self, table: str) -> None:
        for asked in [asked for asked in self._answers if asked[0] == table]:
            del self._answers[asked]

    def _with_rows(self, tables: Iterable[str]) -> list[str]:
        parts = [f"(SELECT '{name}' FROM {name} LIMIT 1)" for name in tables]
        if not parts:
            return []
        found = self._connection.execute(" UNION ALL ".join(parts)).fetchall()
        return [name for (name,) in found]

    def _holds(self, rule: Rule) -> bool:
        if isinstance(rule, bool):
            return rule
        if isinstance(rule, str):
            return self._is_empty(rule)
        kind, parts = rule
        if kind == _UNLESS:
            return self._lacks(*map(str, parts))
        return (all if kind == "all" else any)(map(self._holds, parts))

    def _lacks(self, name: str, condition: str) -> bool:
        """Whether a condition is known to hold for no row of a relation."""
        if self._is_empty(name):
            return True
        return name in self._tables and not self._has(name, condition)

    def _has(self, table: str, condition: str) -> bool:
        """Whether a condition holds for a row of a table; cached."""
        asked = table, condition
        if asked not in self._answers:
            query = f"SELECT true FROM {table} WHERE {condition} LIMIT 1"
            self._answers[asked] = bool(scalar(self._connection, query))
        return self._answers[asked]

    def _is_empty(self, name: str) -> bool:
        if name in self._tables:
            return name not in self._filled
        if name not in self._known:
            self._known[name] = self.must_be_empty(name)
        return self._known[name]


@cache
def _without_comments(query: str) -> str:
    return _COMMENT.sub(r"\1", query)


@cache
def _replaceable(query: str) -> tuple[str, ...]:
    """The relations in a query all of whose uses can be replaced."""
    found: dict[str, bool] = {}
    for one in _READ.finditer(query):
        if one["layer"] is None:
            continue
        is_plain = bool(one["column"] or (one["read"] and not one["takes"]))
        name = f"{one['layer']}.{one['name']}"
        found[name] = found.get(name, True) and is_plain
    return tuple(name for name, is_plain in found.items() if is_plain)


def _replaced(found: re.Match[str], sources: Mapping[str, str]) -> str:
    """The text that replaces a relation's name or a qualified column."""
    source = sources.get(f"{found['layer']}.{found['name']}")
    if source is None:
        return found[0]
    if found["column"]:
        return f"{found['read'] or ''}{found['name']}{found['column']}"
    alias = found["called"] or f" AS {found['name']}"
    return f"{found['read']}{source.replace('{alias}', alias)}"


class _Reader:
    """Derives from the syntax tree of a query when it has no rows."""

    def __init__(
        self, of_values: frozenset[str], columns: Mapping[str, Sequence[str]]
    ) -> None:
        """Take the functions that do not aggregate, and the columns of relations."""
        self._of_values = of_values
        self._columns = columns

    def rule(self, parser: duckdb.DuckDBPyConnection, query: str) -> Rule:
        """When a query has no rows."""
        serialized = "SELECT json_serialize_sql(?::VARCHAR)"
        tree = msgspec.json.decode(scalar(parser, serialized, [query]))
        return self._of_query(tree["statements"][0]["node"], {})

    def _of_query(self, node: Tree, around: Mapping[str, Rule]) -> Rule:
        """When a query has no rows; `around` has the rules of expressions by name."""
        named = dict(around)
        for entry in node["cte_map"]["map"]:
            named[entry["key"]] = self._of_query(entry["value"]["query_node"], named)
        if node["type"] == "RECURSIVE_CTE_NODE":
            # After WITH RECURSIVE, every union has this type, recursive or not.
            first = self._of_query(node["left"], named)
            itself = named | {node["cte_name"]: first}
            return _all(first, self._of_query(node["right"], itself))
        if node["type"] == "SET_OPERATION_NODE":
            return self._of_set(node, named)
        if node["type"] == "SELECT_NODE" and self._keeps_nothing(node):
            where = node["where_clause"]
            return _any(
                self._of_source(node["from_table"], named),
                *self._of_condition(where, named),
                self._of_texts(where, [*_plain_sources(node["from_table"])]),
            )
        return False

    def _of_set(self, node: Tree, named: Mapping[str, Rule]) -> Rule:
        parts = [self._of_query(part, named) for part in node["children"]]
        kind = node["setop_type"]
        if kind == "INTERSECT":
            return _any(*parts)
        return parts[0] if kind == "EXCEPT" else _all(*parts)

    def _of_source(self, node: Tree, named: Mapping[str, Rule]) -> Rule:
        if node["type"] == "BASE_TABLE":
            schema, name = node["schema_name"], node["table_name"]
            return f"{schema}.{name}" if schema else named.get(name, False)
        if node["type"] == "SUBQUERY":
            return self._of_query(node["subquery"]["node"], named)
        if node["type"] == "JOIN":
            return self._of_join(node, named)
        if node["type"] == "PIVOT" and node["unpivot_names"]:
            return self._of_source(node["source"], named)
        if node["type"] == "TABLE_FUNCTION" and node["function"]["schema"]:
            return f"{node['function']['schema']}.{node['function']['function_name']}"
        return False

    def _of_join(self, node: Tree, named: Mapping[str, Rule]) -> Rule:
        sides = [self._of_source(node[side], named) for side in ("left", "right")]
        kind = node["join_type"]
        if kind in ("INNER", "SEMI"):
            return _any(*sides)
        if kind in ("LEFT", "ANTI"):
            return sides[0]
        return sides[1] if kind == "RIGHT" else _all(*sides)

    def _of_condition(
        self, node: Tree | None, named: Mapping[str, Rule]
    ) -> Iterator[Rule]:
        """When a condition fails because a query in EXISTS or IN has no rows."""
        if node is None:
            return
        if node["type"] == "CONJUNCTION_AND":
            for part in node["children"]:
                yield from self._of_condition(part, named)
        elif node["type"] == "SUBQUERY" and node["subquery_type"] in ("EXISTS", "ANY"):
            yield self._of_query(node["subquery"]["node"], named)

    def _of_texts(self, node: Tree | None, sources: Sequence[_Source]) -> Rule:
        """When a condition fails because no row of a table meets it."""
        if node is None:
            return False
        if node["type"] == "CONJUNCTION_AND":
            return _any(*(self._of_texts(part, sources) for part in node["children"]))
        if node["type"] == "CONJUNCTION_OR":
            return _all(*(self._of_texts(part, sources) for part in node["children"]))
        return self._of_comparison(node, sources)

    def _of_comparison(self, node: Tree, sources: Sequence[_Source]) -> Rule:
        """When no row of a table meets a comparison; never, if that is unclear."""
        form = _FORMS.get(node.get("function_name", node["type"]))
        if form is None:
            return False
        column, *others = _operands(node)
        texts = [*map(_text, others)]
        if column["class"] != "COLUMN_REF" or None in texts:
            return False
        *qualifier, name = column["column_names"]
        for source in sources:
            known = self._columns.get(source.name, ())
            if name in known and source.has(qualifier, name):
                listed = ", ".join(literal(text) for text in texts if text is not None)
                return (_UNLESS, [source.name, form.format(quoted(name), listed)])
        return False

    def _keeps_nothing(self, node: Tree) -> bool:
        """Whether a SELECT has no rows if its source has none; an aggregate has one."""
        if node["group_expressions"]:
            return all(node["group_sets"])
        if node["aggregate_handling"] == "FORCE_AGGREGATES":
            return any(one["class"] == "COLUMN_REF" for one in node["select_list"])
        return self._of_values.issuperset(
            _functions([node["select_list"], node["having"], node["qualify"]])
        )


class _Source(NamedTuple):
    """A relation that a SELECT reads, and its alias."""

    name: str
    alias: str
    shared: frozenset[str]
    """Columns of USING, which belong to both sides of a join."""

    def has(self, qualifier: Sequence[str], column: str) -> bool:
        """Whether a column with this qualifier is its own, if it has such a column."""
        if qualifier:
            return qualifier in ([self.alias], self.name.split("."))
        return column not in self.shared


def _plain_sources(
    node: Tree, shared: frozenset[str] = frozenset()
) -> Iterator[_Source]:
    """The relations that a SELECT reads directly, by way of joins alone."""
    if node["type"] == "BASE_TABLE" and node["schema_name"]:
        name = f"{node['schema_name']}.{node['table_name']}"
        yield _Source(name, node["alias"] or node["table_name"], shared)
    elif node["type"] == "JOIN" and node["ref_type"] != "NATURAL":
        using = shared.union(node["using_columns"])
        seen = ("left",) if node["join_type"] in ("SEMI", "ANTI") else ("left", "right")
        for side in seen:
            yield from _plain_sources(node[side], using)


def _operands(node: Tree) -> Sequence[Tree]:
    """The operands of an expression."""
    if node["type"] == "FUNCTION":
        return [one["expression"] for one in node["arguments"]]
    if node["type"] == "COMPARE_EQUAL":
        return [node["left"], node["right"]]
    operands: Sequence[Tree] = node["children"]
    return operands


def _text(node: Tree) -> str | None:
    """The value of a string literal or of concatenated ones, else None."""
    if node.get("function_name") == "||":
        parts = [*map(_text, _operands(node))]
        return None if None in parts else "".join(map(str, parts))
    value = node.get("literal", {})
    return str(value["text"]) if value.get("kind") == "STRING" else None


def _functions(tree: object) -> Iterator[str]:
    """The functions that expressions call, except within subqueries."""
    if isinstance(tree, list):
        for part in tree:
            yield from _functions(part)
    elif isinstance(tree, dict) and tree.get("class") != "SUBQUERY":
        if tree.get("class") == "FUNCTION":
            yield str(tree["function_name"])
        yield from _functions([*tree.values()])


def _functions_of_values(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """The functions that do not aggregate, directly or as macros."""
    found = connection.execute(
        "SELECT function_name, bool_and(function_type <> 'aggregate'), "
        "list(macro_definition) FROM duckdb_functions() GROUP BY function_name"
    ).fetchall()
    called = {
        name: _CALLED.findall(_LITERAL.sub("", " ".join(filter(None, texts))))
        for name, _, texts in found
    }
    known = {name for name, is_of_values, _ in found if is_of_values}
    while wrong := {name for name in known if not known.issuperset(called[name])}:
        known -= wrong
    return frozenset(known.union(_UNFOLDING))


def _any(*rules: Rule) -> Rule:
    return _joined("any", rules, neutral=False)


def _all(*rules: Rule) -> Rule:
    return _joined("all", rules, neutral=True)


def _joined(kind: str, rules: Iterable[Rule], *, neutral: bool) -> Rule:
    """Combine distinct rules; `neutral` is the value that changes nothing."""
    parts: list[Rule] = []
    for rule in rules:
        if isinstance(rule, (bool, str)) or rule[0] != kind:
            parts.append(rule)
        else:
            parts += rule[1]
    if (not neutral) in parts:
        return not neutral
    found = [rule for n, rule in enumerate(parts) if rule not in (neutral, *parts[:n])]
    return (kind, found) if len(found) > 1 else found[0] if found else neutral
