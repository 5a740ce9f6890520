"""Ingest trace files in one transaction: all of them, or none."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import duckdb

from tracedb import catalog, estimates
from tracedb.duck import (
    bounded_memory,
    file_of,
    memory_limit,
    scalar,
    transaction,
    undone,
)
from tracedb.errors import ForeignFileError, IngestError
from tracedb.ingest import (
    clocks,
    culprit,
    ends,
    files,
    merged,
    nesting,
    pairing,
    returns,
    runs,
    steps,
)
from tracedb.ingest.culprit import UncomputedError
from tracedb.ingest.load import Loaded, UnforeseenError, count_unread, load
from tracedb.ingest.numbers import Numbers
from tracedb.ingest.prefetch import prefetch
from tracedb.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tracedb.ingest.files import Source

    Progress = Callable[[str], None]

__all__ = [
    "NO_TRACE",
    "Numbers",
    "default_memory",
    "ingest",
    "join",
    "of_duckdb",
    "rebuild",
]

NO_TRACE = "skipped, not a trace"
"""The end of the progress line for a file in a folder that is not a trace."""

# Share of DuckDB's default memory limit that ingest uses, to leave some to others.
_SHARE_OF_ALL = 0.5
# The part for Python, the current text, and memory that allocators keep.
_BESIDE_DUCKDB = 256 << 20
_LEAST_SHARE_OF_DUCKDB = 0.9
# A database with a file gets less, because more would mostly cache data on disk:
# memory for sorts and joins, and for uncommitted rows, estimated as a share of the
# text. If that is not enough, everything starts again with all of the memory.
_LEAST_TO_LOAD = 400 << 20
_TO_SORT = 150 << 20
_SHARE_TO_LOAD = 0.2
_LEAST_TO_COMPUTE = 560 << 20
_SHARE_TO_COMPUTE = 0.4
_ANY_OPERATION = "SELECT true FROM staging.operation LIMIT 1"
# Typical compression ratio of a trace.
_COMPRESSION = 15


def ingest(  # noqa: PLR0913 (the options of one command)
    connection: duckdb.DuckDBPyConnection,
    paths: Iterable[str | Path | Source],
    *,
    run: str | None,
    pair: bool,
    progress: Progress,
    step_mark: str | None = None,
    step_from: str | None = None,
    one_step: bool = False,
    memory: int | None = None,
    until: str | None = None,
    mapping: Mapping[str, str] | None = None,
    numbers: Numbers | None = None,
) -> list[int]:
    """Ingest files in one transaction and return the numbers of the new traces.

    `run` names the run of all files; by default, ranks that were recorded together and
    execution graphs are matched. `pair` requires an execution graph among the files,
    and a trace for each. `step_mark` is a regular expression of what marks the steps of
    these files, instead of the profiler's marks: user ranges and ops, otherwise Python
    functions, otherwise calls of the host; `step_from` is one of what steps begin with;
    with `one_step` each file is one step. `memory` is the limit in bytes, by default
    half of DuckDB's own limit; the rest spills next to the database. `progress`
    receives lines of progress. `mapping` maps columns of tables of operations to
    fields, and operations to types. `numbers` are the first ids in an empty database,
    for databases whose rows are combined.

    Raises `IngestError` if a file is not a whole trace, a trace would have no step or
    `memory` is not enough, `PairError` if `pair` is not met; the database is then
    unchanged.

    `until` names the last layer to compute, to measure the cost of layers; the layers
    above it are then incomplete.
    """
    with TemporaryDirectory(prefix="tracedb-") as scratch:
        mark = steps.chosen(step_mark, step_from, one_step=one_step)
        run = runs.run_name(run)
        sources = [
            replace(source, mapping=mapping or source.mapping)
            for source in files.expand(
                paths, Path(scratch), without=file_of(connection)
            )
        ]
        job = _Job(
            *(sources, run, pair, progress, mark, until),
            numbers=numbers or Numbers(),
        )
        if memory is None:
            memory = int(memory_limit(connection) * _SHARE_OF_ALL)
        try:
            with bounded_memory(connection, of_duckdb(memory)):
                return _ingest(connection, job)
        except UncomputedError as error:
            raise culprit.blamed(
                error, sources, lambda some, most: _try(connection, job, some, most)
            ) from error
        except duckdb.OutOfMemoryException as error:
            raise _no_room(sources, memory) from error


def default_memory() -> int:
    """[B] The default memory limit."""
    with duckdb.connect() as connection:
        return int(memory_limit(connection) * _SHARE_OF_ALL)


def of_duckdb(memory: int) -> int:
    """[B] DuckDB's share of the memory limit of the process."""
    return max(memory - _BESIDE_DUCKDB, int(memory * _LEAST_SHARE_OF_DUCKDB))


def _no_room(sources: list[Source], memory: int) -> IngestError:
    others = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    return IngestError(
        f"{sources[0].name}{others}: {memory / 1e6:,.0f} MB of memory is not enough; "
        "allow more (`--memory`)"
    )


def rebuild(connection: duckdb.DuckDBPyConnection, progress: Progress) -> None:
    """Recompute all computed relations, as this version of tracedb declares them."""
    # DuckDB 2.0 misreads a table that is created and filled in one transaction. If the
    # second transaction fails, the old fingerprint causes another rebuild.
    with transaction(connection):
        catalog.drop_computed(connection)
        catalog.complete_kept(connection)
        catalog.create_computed(connection)
        catalog.note_emptiness(connection)
    rows = connection.execute("SELECT trace_id FROM raw.trace ORDER BY ALL").fetchall()
    with transaction(connection):
        catalog.move_kept(connection)
        trace_ids = [int(row[0]) for row in rows]
        _nest(connection, trace_ids)
        _compute(connection, trace_ids, {*catalog.LAYERS}, progress)


def join(connection: duckdb.DuckDBPyConnection, trace_ids: list[int]) -> None:
    """Pair and compute the traces of one run that were ingested separately.

    Their rows up to staging exist already.
    """
    above = {*catalog.LAYERS} - {"staging"}
    with transaction(connection):
        changed = _pair(connection, trace_ids, run="as it is")
        _compute(connection, changed, {"staging"}, lambda _line: None)
        _compute(connection, trace_ids, above, lambda _line: None)


@dataclass(frozen=True)
class _Job:
    """What to ingest, and how."""

    sources: list[Source]
    run: str | None
    is_pair_demanded: bool
    progress: Progress
    step_mark: steps.Mark | None
    until: str | None
    numbers: Numbers
    is_careful: bool = False
    is_sparing: bool = True
    most_events: int | None = None


def _ingest(connection: duckdb.DuckDBPyConnection, job: _Job) -> list[int]:
    """Fill the database; another try reads again, as an error ends the transaction."""
    try:
        with transaction(connection):
            return _fill(connection, job)
    except UnforeseenError:
        if job.is_careful:
            raise
        job.progress("reading again, event by event, what DuckDB could not read")
        job = replace(job, is_careful=True)
    except _SparedTooMuchError:
        job.progress("starting again with more memory")
        job = replace(job, is_sparing=False)
    return _ingest(connection, job)


def _try(
    connection: duckdb.DuckDBPyConnection,
    job: _Job,
    sources: list[Source],
    most_events: int | None,
) -> int:
    """Ingest the first events of some files, roll back, and return their number.

    Raises `UncomputedError` if the layers cannot be computed.
    """
    tried = replace(
        job,
        sources=sources,
        is_pair_demanded=False,
        is_careful=True,
        is_sparing=False,
        most_events=most_events,
    )
    query = (
        "SELECT sum(event_count) FROM raw.trace WHERE trace_id IN (SELECT unnest(?))"
    )
    with undone(connection):
        new = _fill(connection, tried)
        return int(scalar(connection, query, [new]) or 0)


def _fill(connection: duckdb.DuckDBPyConnection, job: _Job) -> list[int]:
    layers = catalog.LAYERS[: catalog.LAYERS.index(job.until or catalog.LAYERS[-1]) + 1]
    with _spared(connection, job, _to_load):
        new, known = _load_all(connection, job)
        if job.most_events is not None:
            culprit.keep(connection, new, job.most_events)
        changed = _pair(connection, new, job.run)
        if job.is_pair_demanded:
            pairing.verify(connection, [*new, *known])
        marked = steps.mark(connection, [*new, *known], job.step_mark)
        if marked:
            traces = counted(len(marked), "trace")
            job.progress(f"{job.step_mark}: {traces}")
        concerned = _runs_of(connection, [*new, *changed, *marked])
        if "staging" in layers:
            # A mark may make a range of what was an op.
            _nest(connection, sorted({*new, *marked}))
            _compute(connection, concerned, {"staging"}, job.progress)
            corrected = clocks.correct(connection, new)
            if corrected:
                _nest(connection, corrected)
                _compute(connection, concerned, {"staging"}, job.progress)
            count_unread(connection, new)
            ends.count_marks(connection, new)
            steps.verify(connection, marked, job.step_mark)
    with _spared(connection, job, _to_compute):
        _compute(connection, concerned, {*layers} - {"staging"}, job.progress)
    return new


class _SparedTooMuchError(Exception):
    """What a job usually needs was not enough, and there is more memory."""


@contextmanager
def _spared(
    connection: duckdb.DuckDBPyConnection, job: _Job, need: Callable[[int], int]
) -> Iterator[None]:
    """Limit DuckDB's memory for a database with a file to what a job usually needs.

    Raises `_SparedTooMuchError` if that is too little, and less than there is.
    """
    most = need(sum(map(_text_bytes, job.sources)))
    is_file = file_of(connection) is not None
    if not (job.is_sparing and is_file and memory_limit(connection) > most):
        yield
        return
    try:
        with bounded_memory(connection, most):
            yield
    except duckdb.OutOfMemoryException as error:
        raise _SparedTooMuchError from error


def _to_load(text: int) -> int:
    """[B] Memory to load and stage files with this many bytes of text."""
    return max(_TO_SORT + int(_SHARE_TO_LOAD * text), _LEAST_TO_LOAD)


def _to_compute(text: int) -> int:
    """[B] Memory to compute the layers above for this many bytes of text."""
    return max(int(_SHARE_TO_COMPUTE * text), _LEAST_TO_COMPUTE)


def _text_bytes(source: Source) -> int:
    """[B] The approximate size of a file's decompressed text."""
    size = source.path.stat().st_size if source.path.is_file() else 0
    return size if source.path.suffix == ".json" else _COMPRESSION * size


def _load_all(
    connection: duckdb.DuckDBPyConnection, job: _Job
) -> tuple[list[int], list[int]]:
    """Load new files; return the new traces, and the given ones that were known."""
    new, known = [], []
    digested = (
        (source, "" if source.why_not else files.digest(source))
        for source in job.sources
    )
    with prefetch(digested) as sources:
        for number, (source, sha256) in enumerate(sources, 1):
            place = f"[{number}/{len(job.sources)}] {source.name}"
            if source.why_not:
                job.progress(f"{place}: skipped: {source.why_not}")
                continue
            there = _known(connection, sha256)
            if there:
                kept = runs.kept_from(connection, there[0], job.run)
                job.progress(f"{place}: {kept}already in the database")
                known += there
            else:
                new += _load_new(connection, job, source, sha256, place)
    return new, [trace_id for trace_id in known if trace_id not in new]


def _load_new(
    connection: duckdb.DuckDBPyConnection,
    job: _Job,
    source: Source,
    sha256: str,
    place: str,
) -> list[int]:
    """Load a file; no trace if it was found in a folder and is none."""
    try:
        trace_ids, file = _load(connection, job, source, sha256)
    except ForeignFileError as error:
        if source.is_named:
            raise
        why = str(error).removeprefix(f"{source.name}: ")
        job.progress(f"{place}: {why}: {NO_TRACE}")
        return []
    unit = "events" if file.format == "kineto" else "nodes"
    of = f" of {len(trace_ids)} processes" if len(trace_ids) > 1 else ""
    job.progress(f"{place}: {file.count:,} {unit}{of}")
    return trace_ids


def _known(connection: duckdb.DuckDBPyConnection, sha256: str) -> list[int]:
    """The traces of a file that is in the database."""
    query = "SELECT trace_id FROM raw.trace WHERE sha256 = ? ORDER BY trace_id"
    return [int(row[0]) for row in connection.execute(query, [sha256]).fetchall()]


def _load(
    connection: duckdb.DuckDBPyConnection, job: _Job, source: Source, sha256: str
) -> tuple[list[int], Loaded]:
    """Load a file; return its traces, of which only merged files have several."""
    first = job.numbers
    query = "SELECT coalesce(max(trace_id) + 1, ?) FROM raw.trace"
    trace_id = scalar(connection, query, [first.trace_id])
    name = Path(source.name).name
    file = load(
        connection,
        source,
        replace(first, trace_id=trace_id),
        job.progress,
        is_careful=job.is_careful,
    )
    find = runs.named if job.run else runs.create
    run_id = find(connection, job.run or name, first.run_id)
    connection.execute(
        "INSERT INTO raw.trace (trace_id, run_id, path, format, sha256, header, "
        "event_count) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            trace_id,
            run_id,
            source.name,
            file.format,
            sha256,
            file.header,
            file.count,
        ],
    )
    if file.format != "kineto":
        return [trace_id], file
    jobs = merged.divide(connection, trace_id)
    trace_ids = [each for together in jobs for each in together]
    for each in trace_ids:
        returns.bound(connection, each)
        ends.bound(connection, each)
    if not job.run:
        for together in jobs[1:]:
            another = runs.create(connection, name, first.run_id)
            for each in together:
                runs.move(connection, each, another)
        for each in trace_ids:
            runs.join_siblings(connection, each)
    return trace_ids, file


def _pair(
    connection: duckdb.DuckDBPyConnection, new: list[int], run: str | None
) -> list[int]:
    """Pair execution graphs that have no trace yet; return their traces."""
    unpaired = connection.execute(
        "SELECT trace_id FROM raw.trace "
        "WHERE format = 'et' AND paired_trace_id IS NULL ORDER BY trace_id"
    ).fetchall()
    if not new or not unpaired:
        return []
    # Pairing looks for processes among the threads of the new traces.
    for _ in culprit.computing(connection, new, {"staging.thread"}):
        pass
    paired = []
    for (et_trace_id,) in unpaired:
        found = pairing.pair(connection, et_trace_id)
        pairing.store(connection, found)
        if found.trace_id is not None:
            paired.append(found.trace_id)
            if not run:
                _follow(connection, et_trace_id, found.trace_id)
    return paired


def _nest(connection: duckdb.DuckDBPyConnection, trace_ids: list[int]) -> None:
    """Recompute `raw.nesting`, the parents of ops and launches."""
    connection.execute(
        "DELETE FROM raw.nesting WHERE trace_id IN (SELECT unnest(?))", [[*trace_ids]]
    )
    nesting.load(connection, trace_ids)


def _runs_of(connection: duckdb.DuckDBPyConnection, trace_ids: list[int]) -> list[int]:
    """All traces of the runs of some traces, because overheads are per run."""
    numbers = ", ".join(map(str, trace_ids)) or "NULL"
    query = f"""
        SELECT trace_id FROM raw.trace
        WHERE run_id IN (SELECT run_id FROM raw.trace WHERE trace_id IN ({numbers}))
        ORDER BY trace_id
    """
    return [int(row[0]) for row in connection.execute(query).fetchall()]


def _follow(
    connection: duckdb.DuckDBPyConnection, et_trace_id: int, trace_id: int
) -> None:
    query = "SELECT run_id FROM raw.trace WHERE trace_id = ?"
    runs.move(connection, et_trace_id, scalar(connection, query, [trace_id]))


def _compute(
    connection: duckdb.DuckDBPyConnection,
    trace_ids: list[int],
    layers: set[str],
    progress: Progress,
) -> None:
    if not trace_ids:
        return
    chosen = {r.full_name for r in catalog.relations() if r.layer in layers}
    before = catalog.readers("reference.kernel_estimate")
    is_estimated = False
    for name in culprit.computing(connection, trace_ids, chosen):
        if name in before and not is_estimated:
            estimates.apply_shipped(connection, trace_ids)
            is_estimated = True
        progress(f"computing {name}")
    if "simulation" in layers and scalar(connection, _ANY_OPERATION):
        from tracedb import stragglers

        stragglers.store(connection, trace_ids)
