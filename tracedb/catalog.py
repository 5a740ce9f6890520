"""The relations that `sql/` declares: what each means, what it reads, how to build it.

A file holds one documented statement: a comment (what it means, its grain, its key),
then `CREATE TABLE | VIEW layer.name (` with a comment above each column. A `TABLE`
without a query is filled by a loader. A `TABLE` with one is computed per trace at
ingest, and must have a column `trace_id`; if its comment says "Without edits it is
empty", it is computed only for scenarios. A `VIEW` is computed when it is read.
A `MACRO` is a view with parameters: `CREATE MACRO layer.name(` with a comment above
each, then `AS TABLE`, `SELECT` with a comment above each column, and `FROM` the query.
A `FUNCTION` is a scalar macro that several relations use:
`CREATE MACRO layer.name(` with a comment above each parameter, then `AS (` the
expression. A view without a query is the union of the relations whose comment says
`Part of:` it. `Counts:` names what a view summarises: of a step, rank, trace or device
for which the view has no column, these rows alone count (`tracedb.part`).

`public.toml` lists the relations that users may rely on; all others are internal.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from graphlib import TopologicalSorter
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING

import duckdb

from tracedb import emptiness, public, renamed
from tracedb.duck import joins_as_written, literal, one_thread, quoted, scalar

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence
    from importlib.resources.abc import Traversable

LAYERS = (
    "raw",
    "reference",
    "staging",
    "graph",
    "overhead",
    "prediction",
    "simulation",
    "critical_path",
    "question",
)
INTERNAL = "Internal"
"""The mark of relations that may change with any version."""
FLEET = "fleet"
"""The folder of a lake's questions, and of what it keeps of each trace for them."""
_KEPT = ("raw", "reference")
"""Layers of tables that are filled; all other layers can be recomputed."""

_FILE = re.compile(
    r"(?P<doc>(?:--[^\n]*\n)+)"
    r"CREATE (?P<kind>TABLE|VIEW) (?P<layer>\w+)\.(?P<name>\w+) \(\n"
    r"(?P<columns>.*?)\n\)(?: AS\n(?P<query>.*))?;\s*\Z",
    re.DOTALL,
)
_MACRO_FILE = re.compile(
    r"(?P<doc>(?:--[^\n]*\n)+)"
    r"CREATE (?P<kind>MACRO) (?P<layer>\w+)\.(?P<name>\w+)\(\n"
    r"(?P<parameters>.*?)\n\) AS TABLE\n"
    r"(?P<query>SELECT\n(?P<columns>.*?)\nFROM .*);\s*\Z",
    re.DOTALL,
)
_FUNCTION_FILE = re.compile(
    r"(?P<doc>(?:--[^\n]*\n)+)"
    r"CREATE MACRO (?P<layer>\w+)\.(?P<name>\w+)\(\n"
    r"(?P<parameters>.*?)\n\) AS \(\n"
    r"(?P<query>.*?)\n\);\s*\Z",
    re.DOTALL,
)
_COMMENT = re.compile(r"--.*")
_RELATION = re.compile(rf"\b(?:{'|'.join(LAYERS)})\.\w+")
_OF_FLEET = re.compile(rf"\b{FLEET}\.\w+")
_PART = re.compile(r"Part of: (\w+\.\w+)\.")
_COUNTS = re.compile(r"Counts: ([\w.]+(?:, [\w.]+)*)\.")
_EDITS = "prediction.scenario_edit"
_NEEDS = re.compile(r"Without (?P<what>[^.]+?),? it is empty\.")
_COLUMN = re.compile(r"(?P<doc>(?: +--.*\n)+) +(?P<name>\w+)")

WIDE = frozenset(
    {
        *("staging.thread", "staging.call", "staging.op"),
        *("prediction.host_expectation", "critical_path.measured_interval"),
    }
)
"""Stored relations that join many wide rows with few others, which joins hash.

Rows of the open transaction look few to DuckDB, which would hash the wide ones and take
several times the memory.
"""


@dataclass(frozen=True)
class Relation:
    """A table, view or macro of the database, as its file declares it."""

    layer: str
    name: str
    kind: str
    doc: str
    columns: dict[str, str]
    query: str
    reads: frozenset[str]
    statement: str
    parameters: dict[str, str]

    @property
    def full_name(self) -> str:
        """The name to query it by."""
        return f"{self.layer}.{self.name}"

    @property
    def signature(self) -> str:
        """The name with the parameters that it takes."""
        return self.full_name + self.call(*self.parameters)

    @property
    def key(self) -> list[str]:
        """The columns that identify a row."""
        return re.findall(r"\w+", self.doc.split("Key: ")[1].split(".")[0])

    @property
    def meaning(self) -> str:
        """The documentation without its key."""
        return self.doc.split(" Key: ")[0]

    @property
    def part_of(self) -> str | None:
        """The union that it is part of, if any."""
        found = _PART.search(self.doc)
        return found and found[1]

    @property
    def counts(self) -> tuple[str, ...]:
        """The relations whose rows it counts: those of one rank or step, if asked."""
        found = _COUNTS.search(self.doc)
        return (*found[1].split(", "),) if found else ()

    @property
    def needs(self) -> str | None:
        """What it is empty without, if its comment says so."""
        found = _NEEDS.search(self.doc)
        return found and found["what"]

    @property
    def needs_edits(self) -> bool:
        """Whether it has rows only for scenarios."""
        return self.needs == "edits"

    @property
    def counting(self) -> str:
        """The last SELECT, after all common table expressions."""
        return self.query.rpartition("\n)\n\n")[2]

    @property
    def is_public(self) -> bool:
        """Whether users may rely on it."""
        return any(self.full_name in names for names in public.by_subject().values())

    @property
    def comment(self) -> str:
        """The documentation as a database comment; marks internal relations."""
        return self.doc if self.is_public else f"{INTERNAL}: {self.doc}"

    @property
    def is_macro(self) -> bool:
        """Whether it is queried with arguments."""
        return self.kind == "MACRO"

    @property
    def is_function(self) -> bool:
        """Whether it is a scalar macro, which has no rows."""
        return self.kind == "FUNCTION"

    def call(self, *arguments: object) -> str:
        """The arguments as they follow the name in a query; empty for tables and views.

        Raises `ValueError` for a wrong number of arguments.
        """
        if len(arguments) != len(self.parameters):
            raise ValueError(f"{self.full_name} takes {len(self.parameters)} arguments")
        takes = self.is_macro or self.is_function
        return f"({', '.join(map(str, arguments))})" if takes else ""

    @property
    def is_ordered(self) -> bool:
        """Whether its query has an order of its own."""
        return re.search(r"\nORDER BY\s", self.query) is not None

    @property
    def is_computed_on_ingest(self) -> bool:
        """Whether its rows are computed and stored at ingest, those of each trace.

        A table with a query and without traces is filled when a database is created.
        """
        is_stored = self.kind == "TABLE" and bool(self.query)
        return is_stored and "trace_id" in self.columns


@cache
def declared() -> tuple[Relation, ...]:
    """Every relation and function under `sql/`, each after those that it reads."""
    found = {relation.full_name: relation for relation in _united(list(_read_all()))}
    # Sorted, so that the order is the same in every process.
    order = TopologicalSorter({name: sorted(r.reads) for name, r in found.items()})
    return tuple(found[name] for name in order.static_order())


@cache
def relations() -> tuple[Relation, ...]:
    """Every relation under `sql/`, each after those that it reads."""
    return tuple(one for one in declared() if not one.is_function)


@cache
def functions() -> tuple[Relation, ...]:
    """Every scalar macro under `sql/`, each after those that it calls."""
    return tuple(one for one in declared() if one.is_function)


def by_subject() -> dict[str, list[Relation]]:
    """All relations and functions: public by subject, then internal by layer."""
    known = {one.full_name: one for one in declared()}
    found = {
        subject: [known[name] for name in names]
        for subject, names in public.by_subject().items()
    }
    for layer in LAYERS:
        internal = [r for r in declared() if r.layer == layer and not r.is_public]
        if internal:
            found[f"{INTERNAL}: {layer}"] = sorted(internal, key=lambda r: r.name)
    return found


@cache
def find(name: str) -> Relation:
    """One relation by its full name."""
    return next(found for found in relations() if found.full_name == name)


@cache
def readers(name: str) -> frozenset[str]:
    """The names of all relations that read a relation, directly or indirectly."""
    found = {name}
    for relation in relations():
        if relation.reads & found:
            found.add(relation.full_name)
    return frozenset(found - {name})


@cache
def sources(name: str) -> frozenset[str]:
    """The names of all relations that a relation reads, directly or indirectly."""
    found = {name}
    for relation in reversed(relations()):
        if relation.full_name in found:
            found |= relation.reads
    return frozenset(found - {name})


@cache
def chosen_by_edits() -> frozenset[str]:
    """The stored relations of what edits select; empty without scenarios."""
    others = readers("prediction.variant") | {"prediction.variant"}
    chosen = readers("prediction.scenario_edit") - others
    return frozenset(
        relation.full_name
        for relation in relations()
        if relation.full_name in chosen and relation.is_computed_on_ingest
    )


@cache
def edit_views() -> tuple[str, ...]:
    """The views of edits that no stored relation of edits precedes, in order."""
    chosen = chosen_by_edits()
    others = readers("prediction.variant") | {"prediction.variant"}
    behind = chosen.union(others, *(readers(name) for name in chosen))
    first = {"prediction.scenario_edit", *readers("prediction.scenario_edit")} - behind
    return tuple(
        relation.full_name
        for relation in relations()
        if relation.full_name in first and relation.kind == "VIEW"
    )


@cache
def fingerprint() -> str:
    """A digest of all statements, which identifies the version of a database."""
    statements = sorted(one.statement for one in declared())
    text = "\n".join([*statements, public.text()])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read_all() -> Iterator[Relation]:
    folders = files("tracedb.sql").iterdir()
    layers = (one for one in folders if one.is_dir() and one.name != FLEET)
    for layer in sorted(layers, key=lambda entry: entry.name):
        yield from _read_folder(layer)


def _read_folder(folder: Traversable) -> Iterator[Relation]:
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            yield _read(file)


@cache
def fleet() -> tuple[Relation, ...]:
    """The relations of a lake, each after those that it reads."""
    found = {r.full_name: r for r in _read_folder(files("tracedb.sql") / FLEET)}
    reads = {
        name: sorted({*_OF_FLEET.findall(_COMMENT.sub("", relation.query))})
        for name, relation in found.items()
    }
    order = TopologicalSorter(reads).static_order()
    return tuple(replace(found[n], reads=found[n].reads | {*reads[n]}) for n in order)


def _united(found: Sequence[Relation]) -> Iterator[Relation]:
    """All relations, with unions as the queries of views that have parts."""
    parts_of: dict[str | None, list[str]] = {}
    for part in found:
        parts_of.setdefault(part.part_of, []).append(part.full_name)
    for whole in found:
        parts = parts_of.get(whole.full_name)
        if not parts:
            yield whole
            continue
        rows = "\n    UNION ALL BY NAME\n".join(f"    FROM {part}" for part in parts)
        query = f"SELECT {', '.join(whole.columns)}\nFROM (\n{rows}\n)"
        statement = f"{whole.statement.rstrip().rstrip(';')} AS\n{query};\n"
        reads = frozenset(parts)
        yield replace(whole, query=query, statement=statement, reads=reads)


def _read(file: Traversable) -> Relation:
    text = file.read_text(encoding="utf-8")
    parts = _FILE.match(text) or _MACRO_FILE.match(text) or _FUNCTION_FILE.match(text)
    if parts is None:
        raise ValueError(f"{file} is not one documented CREATE TABLE, VIEW or MACRO")
    query = (parts["query"] or "").rstrip().rstrip(";")
    named = parts.groupdict()
    return Relation(
        layer=parts["layer"],
        name=parts["name"],
        kind=named.get("kind") or "FUNCTION",
        doc=_text(parts["doc"]),
        columns=_documented(named.get("columns") or ""),
        query=query,
        reads=_relations_read(query),
        statement=text,
        parameters=_documented(named.get("parameters") or ""),
    )


def _documented(names: str) -> dict[str, str]:
    """Names, each with the comment above it."""
    return {name["name"]: _text(name["doc"]) for name in _COLUMN.finditer(names)}


def _text(comment: str) -> str:
    lines = (line.strip().removeprefix("--").strip() for line in comment.splitlines())
    return " ".join(lines)


def read_by(query: str) -> list[Relation]:
    """The tables and views that a query reads."""
    names = _relations_read(query)
    return [one for one in relations() if one.full_name in names and not one.parameters]


def _relations_read(query: str) -> frozenset[str]:
    """All words that look like relation names; DuckDB's parser takes far longer."""
    return frozenset(_RELATION.findall(_COMMENT.sub("", query)))


def create(connection: duckdb.DuckDBPyConnection) -> None:
    """Create all relations, empty, with their documentation as database comments."""
    for one in declared():
        _create(connection, one)
    note_emptiness(connection)


def create_only(
    connection: duckdb.DuckDBPyConnection,
    *names: str,
    given: frozenset[str] = frozenset(),
    are_documented: bool = True,
) -> None:
    """Create some relations and what they read, empty; all would take a second.

    Relations in `given` exist already. Comments take half the time.
    """
    needed = {*names}
    for one in reversed(declared()):
        if one.full_name in needed - given:
            needed |= one.reads
    for one in declared():
        if one.full_name in needed - given:
            _create(connection, one, is_documented=are_documented)


def create_computed(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the relations of all computed layers, empty."""
    for one in declared():
        if one.layer not in _KEPT:
            _create(connection, one)


def create_over(
    connection: duckdb.DuckDBPyConnection, stored: str, own: Container[str]
) -> None:
    """Create all relations in the current, empty database, over the tables of `stored`.

    `stored` is the quoted name of another database. Tables in `own` are created empty
    instead. Views are copied, because binding them anew takes seconds.
    """
    current = scalar(connection, "SELECT current_database()")
    connection.execute(f"COPY FROM DATABASE {stored} TO {quoted(current)} (SCHEMA)")
    for schema, table in connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ?",
        [current],
    ).fetchall():
        if f"{schema}.{table}" not in own:
            name = f"{quoted(schema)}.{quoted(table)}"
            connection.execute(f"DROP TABLE {name}")
            connection.execute(f"CREATE VIEW {name} AS FROM {stored}.{name}")


def note_emptiness(connection: duckdb.DuckDBPyConnection) -> None:
    """Store the rules that tell which relations are empty without what."""
    queries: dict[str, str] = {}
    read: set[str] = set()
    for one in reversed(relations()):
        is_question = one.layer == "question" and not one.is_macro
        is_run = one.is_computed_on_ingest or is_question
        if one.query and (is_run or one.full_name in read):
            queries[one.full_name] = one.query
            read |= one.reads
    emptiness.note(connection, queries, fingerprint())


def complete_kept(connection: duckdb.DuckDBPyConnection) -> None:
    """Add missing columns to tables that an older version filled.

    Empty tables with columns that are gone are created anew: views would find these.
    """
    there = _columns(connection)
    kept = [relation for relation in relations() if relation.layer in _KEPT]
    with duckdb.connect() as fresh:
        for relation in kept:
            _create(fresh, relation)
        declared = _columns(fresh)
    for relation in kept:
        name = relation.full_name
        if there.get(name, {}).keys() - declared[name].keys() and not scalar(
            connection, f"SELECT true FROM {name} LIMIT 1"
        ):
            connection.execute(f"DROP TABLE {name}")
            del there[name]
        if name not in there:
            _create(connection, relation)
            continue
        for column, type_ in declared[name].items():
            if column not in there[name]:
                connection.execute(f"ALTER TABLE {name} ADD COLUMN {column} {type_}")
        _comment(connection, relation)


def move_kept(connection: duckdb.DuckDBPyConnection) -> None:
    """Move rows from tables of an older version to those that replace them.

    Tables whose replacement is computed are dropped.
    """
    there = _columns(connection)
    for old in there.keys() & renamed.RELATIONS.keys():
        name = renamed.RELATIONS[old]
        if find(name).layer in _KEPT:
            new = renamed.KEPT_COLUMNS.get(name, {})
            columns = ", ".join(new.get(column, column) for column in there[old])
            connection.execute(f"INSERT INTO {name} ({columns}) FROM {old}")
        connection.execute(f"DROP TABLE {old}")


def _columns(connection: duckdb.DuckDBPyConnection) -> dict[str, dict[str, str]]:
    """The columns of each table, with their types."""
    found: dict[str, dict[str, str]] = {}
    for name, column, type_ in connection.execute(
        "SELECT schema_name || '.' || table_name, column_name, data_type "
        "FROM duckdb_columns() WHERE database_name = current_database() "
        "ORDER BY column_index"
    ).fetchall():
        found.setdefault(name, {})[column] = type_
    return found


def drop_computed(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop every layer that can be recomputed."""
    for layer in {relation.layer for relation in relations()} - {*_KEPT}:
        connection.execute(f"DROP SCHEMA IF EXISTS {layer} CASCADE")


def compute(
    connection: duckdb.DuckDBPyConnection,
    trace_ids: Sequence[int],
    only: Container[str] | None = None,
) -> Iterator[str]:
    """Recompute the stored relations of some traces, yielding each name first.

    `only` limits it to relations of these names; their readers are then out of date.
    Relations that are empty without edits are skipped without edits; so are those known
    to be empty because what they read is empty (`tracedb.emptiness`).

    It uses one thread: with two, DuckDB 2.0 takes up to 1.5 times the CPU time and
    hardly less wall time, and sometimes fails with an internal error in its joins.
    """
    numbers = ", ".join(str(int(number)) for number in trace_ids)
    chosen = f"trace_id IN ({numbers})"
    # Recursive relations cannot be filtered from outside; they read staging.computing.
    connection.execute(f"SET VARIABLE computing = [{numbers}]")
    are_edits = _has_edits(connection)
    known = (
        what_is_empty(connection, stored_views=edit_views())
        if are_edits
        else what_is_empty(connection, without=[_EDITS])
    )
    with one_thread(connection):
        for relation in _to_compute(only, are_edits=are_edits):
            name = relation.full_name
            if known.has_rows(name):
                connection.execute(f"DELETE FROM {name} WHERE {chosen}")
                known.recheck(name)
            if not known.must_be_empty(name):
                yield name
                query = f"{known.reduced(relation.query)} WHERE {chosen}"
                with joins_as_written(connection) if name in WIDE else nullcontext():
                    rows = scalar(connection, f"INSERT INTO {name} {query}")
                known.add_rows(name, rows)
    connection.execute("RESET VARIABLE computing")


def rows(
    connection: duckdb.DuckDBPyConnection,
    relation: Relation,
    counted: Mapping[str, str] = MappingProxyType({}),
    *,
    is_planned_whole: bool = False,
) -> str:
    """A query for the rows of a table or view, planned without its empty parts.

    Planning takes most of the time of a question to a small database. `counted` has
    conditions on relations that it counts: only such rows count.
    """
    query = f"FROM {relation.full_name}"
    if counted:
        query = f"FROM {_counting_only(relation, counted)}"
    elif relation.kind == "TABLE":
        return query
    if is_planned_whole or _has_edits(connection):
        return query
    read = _relations_read(query)
    known = what_is_empty(
        connection, [_EDITS], among=read.union(*(sources(name) for name in read))
    )
    return known.reduced(query)


def _counting_only(relation: Relation, counted: Mapping[str, str]) -> str:
    """A subquery like a view that counts only rows which meet conditions."""
    parts = {
        name: f"(FROM {name} WHERE {condition}){{alias}}"
        for name, condition in counted.items()
    }
    columns = ", ".join(map(quoted, relation.columns))
    query = emptiness.reading_instead(relation.query, parts)
    return f"({query}\n) AS {relation.name} ({columns})"


def _has_edits(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether scenarios are simulated on this connection."""
    return bool(scalar(connection, "SELECT getvariable('edits') IS NOT NULL"))


def what_is_empty(
    connection: duckdb.DuckDBPyConnection,
    without: Sequence[str] = (),
    stored_views: Sequence[str] = (),
    among: Container[str] | None = None,
) -> emptiness.Emptiness:
    """Which stored relations and their sources are known to be empty.

    Relations in `without` are empty; views in `stored_views` are stored as tables now.
    Tables that are not in `among` are not looked at, and must not be asked for.
    """
    tables = [
        one.full_name
        for one in relations()
        if one.kind == "TABLE" and (among is None or one.full_name in among)
    ]
    views = {
        one.full_name: emptiness.View([*one.columns], one.query)
        for one in relations()
        if one.kind == "VIEW"
    }
    return emptiness.Emptiness(
        connection, fingerprint(), [*tables, *stored_views], without, views
    )


def _to_compute(only: Container[str] | None, *, are_edits: bool) -> Iterator[Relation]:
    for relation in relations():
        is_asked = only is None or relation.full_name in only
        has_rows = are_edits or not relation.needs_edits
        if relation.is_computed_on_ingest and is_asked and has_rows:
            yield relation


def _create(
    connection: duckdb.DuckDBPyConnection,
    relation: Relation,
    *,
    is_documented: bool = True,
) -> None:
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {relation.layer}")
    connection.execute(_creation(relation))
    if is_documented:
        _comment(connection, relation)


def _creation(relation: Relation) -> str:
    if not relation.is_computed_on_ingest:
        return relation.statement
    return f"{relation.statement.rstrip().rstrip(';')}\nLIMIT 0"


def _comment(connection: duckdb.DuckDBPyConnection, relation: Relation) -> None:
    target = relation.full_name
    if relation.is_macro or relation.is_function:
        kind = "MACRO TABLE" if relation.is_macro else "MACRO"
        text = literal(_macro_comment(relation))
        connection.execute(f"COMMENT ON {kind} {target} IS {text}")
        return
    comments = [f"COMMENT ON {relation.kind} {target} IS {literal(relation.comment)}"]
    comments += [
        f"COMMENT ON COLUMN {target}.{column} IS {literal(doc)}"
        for column, doc in relation.columns.items()
    ]
    connection.execute(";".join(comments))


def _macro_comment(relation: Relation) -> str:
    """The whole documentation of a macro, whose columns cannot have comments."""
    lines = [relation.comment, "", "Parameters:"]
    lines += [f"{name}: {doc}" for name, doc in relation.parameters.items()]
    if relation.columns:
        lines += ["", "Columns:"]
        lines += [f"{name}: {doc}" for name, doc in relation.columns.items()]
    return "\n".join(lines)


_PAGE = """# Schema

Written by `tracedb schema --markdown`. Scripts may rely on the relations of the first
sections; relations marked as internal may change in any version.

`Counts:` names the rows that a question counts. `--step`, `--rank`, `--trace` and
`--device` select among these where it has no such column, as in `tracedb ask run.duckdb
top_kernel --rank 1`.
"""


def schema_page(connection: duckdb.DuckDBPyConnection) -> str:
    """The schema as Markdown: the page `docs/schema.md`."""
    lines, columns = [_PAGE], described_all(connection)
    for subject, found in by_subject().items():
        lines += [f"## {subject}", ""]
        for relation in found:
            lines += _page_section(relation, columns.get(relation.full_name, []))
    return "\n".join(lines)


def _page_section(relation: Relation, columns: list[tuple[str, str]]) -> list[str]:
    lines = [f"### `{relation.signature}`", "", relation.comment, ""]
    if not relation.is_function:
        lines += ["| column | type | meaning |", "| --- | --- | --- |"]
        for name, type_ in columns:
            lines.append(f"| `{name}` | {type_} | {relation.columns.get(name, '')} |")
        lines.append("")
    if relation.parameters:
        lines += ["| parameter | meaning |", "| --- | --- |"]
        lines += [f"| `{name}` | {doc} |" for name, doc in relation.parameters.items()]
        lines.append("")
    return lines


def described(
    connection: duckdb.DuckDBPyConnection, relation: Relation
) -> list[tuple[str, str]]:
    """The columns of a relation with their types; empty for a function."""
    if relation.is_function:
        return []
    nothing = relation.call(*("NULL" for _ in relation.parameters))
    found = connection.execute(f"DESCRIBE FROM {relation.full_name}{nothing}")
    return [(name, type_) for name, type_, *_ in found.fetchall()]


def described_all(
    connection: duckdb.DuckDBPyConnection,
) -> dict[str, list[tuple[str, str]]]:
    """The columns of every relation, each with its type.

    DuckDB stores the columns of views: no view is bound again.
    """
    kept = _columns(connection)
    return {
        one.full_name: list(kept[one.full_name].items())
        if one.full_name in kept
        else described(connection, one)
        for one in relations()
    }
