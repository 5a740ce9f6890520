"""Ask a lake what concerns all its runs and ranks: the relations of `sql/fleet`.

They read a few rows of each trace, which its worker has kept in the lake, so no trace
is opened. DuckDB answers, or Spark: they are written in what both understand alike.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb

import tracedb
from tracedb import catalog
from tracedb.duck import literal, own_errors
from tracedb.errors import QueryError
from tracedb.lake.reading import chosen
from tracedb.lake.worker import contracted, contraction, file_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    from tracedb.lake.manifest import Entry
    from tracedb.lake.place import Place
    from tracedb.lake.spark import Spark

_TRACE = f"{catalog.FLEET}.trace"
# How the handler for TensorBoard names a file: host, process, time.
_HOST = re.compile(r"(?P<host>[^/]+)_\d+\.(?:\d+\.)?pt\.trace\.json(?:\.\w+)?$")


def questions() -> dict[str, str]:
    """What a lake can be asked, each with what it means."""
    kept = {_TRACE, *(one.full_name for one in contracted())}
    return {r.name: r.meaning for r in catalog.fleet() if r.full_name not in kept}


@own_errors()
def ask(place: Place, question: str, spark: Spark | None = None) -> pl.DataFrame:
    """Answer a question about the traces of a place, by DuckDB or by Spark.

    Raises `QueryError` where there is no such question, `LakeError` where there are no
    such traces.
    """
    if question not in questions():
        known = ", ".join(sorted(questions()))
        raise QueryError(f"no question {question} of a lake; there are {known}")
    entries = chosen(place)
    if spark is not None:
        return _by_spark(spark, entries, _paths(place, entries), question)
    with connected(place, entries) as connection:
        answer: pl.DataFrame = connection.sql(f"FROM {catalog.FLEET}.{question}").pl()
    return answer


def _paths(place: Place, entries: Sequence[Entry]) -> dict[str, list[str]]:
    """The files of what a lake keeps of each trace, by relation."""
    return {
        one.full_name: [
            str(place.root / entry.partition / file_of(one.full_name))
            for entry in entries
            if one.full_name in entry.relations
        ]
        for one in contracted()
    }


def host_of(source: str) -> str | None:
    """The host that a file was recorded on, where its name tells.

    >>> host_of("/t/node7_4242.1700000000000.pt.trace.json.gz")
    'node7'
    """
    found = _HOST.search(source)
    return found and found["host"]


def _traces(entries: Sequence[Entry]) -> list[tuple[int, str, int | None, str | None]]:
    return [(e.number, e.run, e.rank, host_of(e.source)) for e in entries]


@contextmanager
def connected(
    place: Place, entries: Sequence[Entry] | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that has the relations of the fleet, of the traces of a place.

    Raises `LakeError` where there are no such traces.
    """
    entries = chosen(place) if entries is None else entries
    paths = _paths(place, entries)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE SCHEMA {catalog.FLEET}")
        for one in catalog.fleet():
            if one.full_name not in paths:
                connection.execute(one.statement)
            elif paths[one.full_name]:
                listed = ", ".join(map(literal, paths[one.full_name]))
                connection.execute(
                    f"CREATE VIEW {one.full_name} AS FROM "
                    f"read_parquet([{listed}], hive_partitioning = false)"
                )
            else:
                names = ", ".join(f"{n} {type_}" for n, type_ in _types(one))
                connection.execute(f"CREATE TABLE {one.full_name} ({names})")
            if one.full_name == _TRACE:
                query = f"INSERT INTO {_TRACE} VALUES (?, ?, ?, ?)"
                connection.executemany(query, _traces(entries))
        yield connection


def _types(one: catalog.Relation) -> list[tuple[str, str]]:
    """The columns of what a lake keeps, with their types in DuckDB."""
    with tracedb.open() as empty:
        query = f"DESCRIBE {contraction(one)}"
        found = empty.connection.execute(query).fetchall()
    return [(name, type_) for name, type_, *_ in found]


def _by_spark(
    spark: Spark, entries: Sequence[Entry], paths: dict[str, list[str]], question: str
) -> pl.DataFrame:
    import polars as pl

    with spark.opened() as session:
        for one in catalog.fleet():
            name = _flat(one.full_name)
            if one.full_name == _TRACE:
                schema = "trace_id BIGINT, run STRING, rank BIGINT, host STRING"
                frame = session.createDataFrame(_traces(entries), schema)
                frame.createOrReplaceTempView(name)
            elif one.full_name in paths:
                _kept(session, one, paths[one.full_name]).createOrReplaceTempView(name)
            else:
                text = _flat(one.statement).rstrip().rstrip(";")
                view = "CREATE OR REPLACE TEMPORARY VIEW"
                session.sql(text.replace("CREATE VIEW", view, 1))
        answer = session.table(_flat(f"{catalog.FLEET}.{question}"))
        rows = [tuple(row) for row in answer.collect()]
        return pl.DataFrame(
            rows, answer.columns, orient="row", infer_schema_length=None
        )


def _kept(session: Any, one: catalog.Relation, paths: list[str]) -> Any:  # noqa: ANN401 (PySpark's)
    if paths:
        return session.read.parquet(*paths)
    types = {"VARCHAR": "STRING"}
    names = (f"{name} {types.get(type_, type_)}" for name, type_ in _types(one))
    return session.createDataFrame([], ", ".join(names))


def _flat(text: str) -> str:
    """A text with names that views of a session can have: they are in no schema."""
    return re.sub(rf"\b{catalog.FLEET}\.(?=\w)", f"{catalog.FLEET}_", text)
