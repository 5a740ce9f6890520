"""Answer questions about all runs and ranks of a lake: the relations of `sql/fleet`.

They read a few rows per trace, which its worker stored in the lake, so no trace is
opened. DuckDB or Spark answers: the SQL works in both.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb

from tracedb import catalog
from tracedb.duck import own_errors
from tracedb.errors import QueryError
from tracedb.lake import packing
from tracedb.lake.reading import chosen, damaged
from tracedb.lake.spark import spark_reads
from tracedb.lake.storage import storage
from tracedb.lake.worker import contracted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    from tracedb.lake.manifest import Entry
    from tracedb.lake.place import Place
    from tracedb.lake.spark import Spark
    from tracedb.lake.storage import Storage

_TRACE = f"{catalog.FLEET}.trace"
# File names of PyTorch's TensorBoard handler: host, process, time.
_HOST = re.compile(r"(?P<host>[^/]+)_\d+\.(?:\d+\.)?pt\.trace\.json(?:\.\w+)?$")


def questions() -> dict[str, str]:
    """The questions, each with its meaning."""
    kept = {_TRACE, *(one.full_name for one in contracted())}
    return {r.name: r.meaning for r in catalog.fleet() if r.full_name not in kept}


def needs(question: str) -> str | None:
    """What an answer is empty without, if the question says so."""
    return next(r.needs for r in catalog.fleet() if r.name == question)


@own_errors()
def ask(place: Place, question: str, spark: Spark | None = None) -> pl.DataFrame:
    """Answer a question about the traces of a place, by DuckDB or by Spark.

    Raises `QueryError` for an unknown question, `LakeError` if there are no such
    traces.
    """
    if question not in questions():
        known = ", ".join(sorted(questions()))
        raise QueryError(f"no question {question} for a lake; available: {known}")
    entries = chosen(place)
    if spark is not None:
        return _by_spark(spark, storage(place.root), entries, question)
    try:
        with connected(place, entries) as connection:
            query = f"FROM {catalog.FLEET}.{question}"
            answer: pl.DataFrame = connection.sql(query).pl()
    except duckdb.InvalidInputException as error:
        raise damaged(error) from error
    return answer


def _files(entries: Sequence[Entry]) -> list[str]:
    """The files with the rows that a lake keeps per trace."""
    return [f"{entry.partition}/{packing.FLEET}" for entry in entries]


def host_of(source: str) -> str | None:
    """The host that a file was recorded on, if its name has it.

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
    """A database with the relations of the fleet, for the traces of a place.

    Raises `LakeError` if there are no such traces.
    """
    entries = chosen(place) if entries is None else entries
    names = _files(entries)
    with storage(place.root).at_hand(names) as paths, duckdb.connect() as connection:
        source = packing.files([paths[name] for name in names])
        connection.execute(f"CREATE SCHEMA {catalog.FLEET}")
        for one in catalog.fleet():
            if one in contracted():
                rows = packing.unpacked(one.full_name, source)
                connection.execute(f"CREATE VIEW {one.full_name} AS {rows}")
            else:
                connection.execute(one.statement)
            if one.full_name == _TRACE:
                query = f"INSERT INTO {_TRACE} VALUES (?, ?, ?, ?)"
                connection.executemany(query, _traces(entries))
        yield connection


def _by_spark(
    spark: Spark, lake: Storage, entries: Sequence[Entry], question: str
) -> pl.DataFrame:
    import polars as pl

    with spark.opened() as session:
        kept = spark_reads(session, [*map(lake.address, _files(entries))])
        for one in catalog.fleet():
            name = _flat(one.full_name)
            if one.full_name == _TRACE:
                schema = "trace_id BIGINT, run STRING, rank BIGINT, host STRING"
                frame = session.createDataFrame(_traces(entries), schema)
                frame.createOrReplaceTempView(name)
            elif one in contracted():
                rows = kept.selectExpr(f"inline({packing.column_of(one.full_name)})")
                rows.createOrReplaceTempView(name)
            else:
                text = _flat(one.statement).rstrip().rstrip(";")
                view = "CREATE OR REPLACE TEMPORARY VIEW"
                session.sql(text.replace("CREATE VIEW", view, 1))
        answer = session.table(_flat(f"{catalog.FLEET}.{question}"))
        rows = [tuple(row) for row in answer.collect()]
        return pl.DataFrame(
            rows, answer.columns, orient="row", infer_schema_length=None
        )


def _flat(text: str) -> str:
    """A text with names for views of a Spark session, which have no schema."""
    return re.sub(rf"\b{catalog.FLEET}\.(?=\w)", f"{catalog.FLEET}_", text)
