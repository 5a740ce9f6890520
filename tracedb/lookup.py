"""Find relations and questions by name; suggest what a mistyped name may have meant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracedb import catalog, renamed, template
from tracedb.duck import frame
from tracedb.errors import QueryError
from tracedb.near import closest, meant

if TYPE_CHECKING:
    import duckdb
    import polars as pl

_FOREIGN_HINT = re.compile(
    r'"?(?P<name>[^\s"]+)"? does not exist'
    r'(! Did you mean "(pg_|duckdb_|sqlite_|pragma_).*| because schema .*)'
)


def declared_rows(name: str) -> pl.DataFrame:
    """The rows of a relation in a database without traces."""
    with template.empty(name) as connection:
        return frame(connection.sql(f"FROM {name}"))


def schema(
    relation: str | None = None,
    connection: duckdb.DuckDBPyConnection | None = None,
    *,
    internal: bool = False,
) -> pl.DataFrame:
    """The public relations in reading order, and internal ones if asked for.

    Or the columns of one relation, or the parameters of one function. Without a
    connection they are those of a database without traces.
    """
    import polars as pl

    if relation is None:
        rows = [
            (subject, r.full_name, r.kind.lower(), r.meaning)
            for subject, found in catalog.by_subject().items()
            for r in found
            if r.is_public or internal
        ]
        names = ["subject", "relation", "kind", "meaning"]
        return pl.DataFrame(rows, schema=names, orient="row")
    declared = find_relation(relation)
    if connection is None:
        with template.empty(relation) as made:
            return schema(relation, made)
    columns = catalog.described(connection, declared)
    return pl.DataFrame(
        [(name, kind, declared.columns.get(name)) for name, kind in columns]
        or [(name, None, meaning) for name, meaning in declared.parameters.items()],
        schema=["column", "type", "meaning"],
        orient="row",
    )


def find_relation(name: str) -> catalog.Relation:
    """The relation or function with that name.

    Raises `QueryError` that names the nearest ones where there is none.
    """
    known = {one.full_name: one for one in catalog.declared()}
    if not isinstance(name, str):
        raise QueryError(f"{name!r} is not the name of a relation")
    if name not in known:
        hint = renamed.hint(name)
        near = f"; {hint}" if hint else _suggestion(name, list(known))
        raise QueryError(f"no relation {name}{near}")
    return known[name]


def without_relation(message: str, query: str) -> str | None:
    """The message for a query that fails because it names no relation; None otherwise.

    It names the relation that may have been meant: DuckDB suggests one of its own
    catalogs, or leaves out the layer.
    """
    hint, foreign = renamed.hint(query), _FOREIGN_HINT.search(message)
    lost = foreign["name"] if foreign else _lost_relation(message, query)
    if not lost and not hint:
        return None
    if lost:
        known = [relation.full_name for relation in catalog.relations()]
        message = f"{lost} does not exist"
        message += "" if hint else _suggestion(lost, known)
    return "; ".join(filter(None, [message, hint]))


def _lost_relation(message: str, query: str) -> str:
    """The relation of a layer that a query misspells; empty if it does not."""
    named = re.search(r"Table with name (\w+) does not exist", message)
    layers = "|".join({relation.layer for relation in catalog.relations()})
    written = named and re.search(
        rf'\b({layers})"?\s*\.\s*"?({named[1]})\b', query, re.IGNORECASE
    )
    return f"{written[1]}.{written[2]}".lower() if written else ""


def find_question(name: str) -> catalog.Relation:
    """The question with that name.

    Raises `QueryError` that names the nearest ones where there is none.
    """
    known = {r.name: r for r in catalog.relations() if r.layer == "question"}
    bare, bracket, values = name.removeprefix("question.").partition("(")
    if bare in known and bracket:
        given = " ".join(re.findall(r"\w+", values)) or "VALUE"
        raise QueryError(
            f"{name}: values follow the name: `tracedb ask DB {bare} {given}`"
        )
    if bare not in known:
        hint = renamed.hint(f"question.{bare}")
        near = f"; {hint}" if hint else _meant_question(bare, known)
        raise QueryError(f"no question {bare or repr(bare)}{near}")
    return known[bare]


def _meant_question(name: str, known: dict[str, catalog.Relation]) -> str:
    """Suggestions: by everyday words, by a similar name, or by words of the text."""
    from difflib import get_close_matches

    from tracedb.subjects import answers_to

    by_words, is_clear = answers_to(name)
    near = get_close_matches(name, list(known), n=1, cutoff=0.9)
    near = near or (by_words if is_clear else [])
    near = near or get_close_matches(name, list(known), n=3, cutoff=0.7) or by_words
    if not near:
        words = {word for word in name.lower().split("_") if len(word) > len("of")}
        docs = {own: f"{own} {known[own].doc}".lower() for own in known}
        count = {
            own: len(words & set(re.findall("[a-z]+", doc)))
            for own, doc in docs.items()
        }
        near = sorted(filter(count.get, count), key=lambda own: -count[own])[:3]
    return meant(near) or "; `tracedb ask DB` lists the questions"


def _suggestion(name: str, known: list[str]) -> str:
    layer = name.partition(".")[0]
    same_layer = [other for other in known if other.startswith(f"{layer}.")]
    near = closest(name, same_layer or known, cutoff=0.5)
    return meant(near) or "; `tracedb schema` lists the relations"
