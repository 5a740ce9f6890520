"""Divide a file that a tool merged from the traces of several processes, such as ranks.

The numbers that relate events (correlations, External ids) repeat in such a file, so
each process becomes a trace of its own again.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tracedb.duck import scalar
from tracedb.ingest.foreign.processes import Process, ordered, simultaneous
from tracedb.ingest.issues import Issues
from tracedb.ingest.json_text import parts
from tracedb.ingest.sections import Sections, UnclearError, rank_in, sections

if TYPE_CHECKING:
    import duckdb


__all__ = ["divide"]

_LABELS = """
SELECT
    pid,
    string_agg(DISTINCT concat_ws(' ', args ->> '$.name', args ->> '$.labels'), ' ')
FROM raw.event
WHERE trace_id = ? AND ph = 'M' AND name IN ('process_name', 'process_labels')
GROUP BY pid
"""
_TOLD = """
SELECT
    number,
    min(args ->> '$.rank') FILTER (cat = 'cpu_op'),
    list(DISTINCT try_cast(args ->> '$.device' AS BIGINT)) FILTER (
        staging.gpu_op_kind(cat, args) IS NOT NULL
    )
FROM raw.event
INNER JOIN ({query}) USING (event_id)
WHERE trace_id = $trace_id
GROUP BY number
"""
_MOVE = """
UPDATE raw.event
SET trace_id = part.trace_id
FROM (
    SELECT event_id, part.trace_id
    FROM ({query})
    INNER JOIN (SELECT unnest($parts) AS trace_id, unnest($of) AS number) AS part
        USING (number)
) AS part
WHERE raw.event.trace_id = $trace_id AND raw.event.event_id = part.event_id
"""
_ADD = """
INSERT INTO raw.trace
SELECT trace.* REPLACE (part.trace_id AS trace_id)
FROM raw.trace AS trace, (SELECT unnest(?) AS trace_id) AS part
WHERE trace.trace_id = ?
"""
_DESCRIBE = """
UPDATE raw.trace
SET
    path = concat(path, '#', ?),
    header = ?,
    event_count = (SELECT count(*) FROM raw.event WHERE trace_id = raw.trace.trace_id)
WHERE trace_id = ?
"""
_UNCLEAR = "kept as one trace: ops of processes whose GPU work is not told apart"
_REMEDY = "ingest their own files, not one merged from them"
_COORDINATE = re.compile(r"(?<![a-z])(dp|pp|tp|ep|cp)[-_]?(\d{1,9})", re.IGNORECASE)
_DIMENSIONS = ("dp", "pp", "tp", "ep", "cp")
"""How launchers number ranks: along the last dimension first."""


class _Found(NamedTuple):
    """A process, and what its events say of its rank."""

    process: Process
    label: str


def divide(connection: duckdb.DuckDBPyConnection, trace_id: int) -> list[list[int]]:
    """Make the newest trace one of each process with ops, if it has several.

    Returns the traces of processes that ran at the same time together, by rank; the
    first keeps its number. A file that does not tell which GPU work is of which process
    stays as it is, as do those of other profilers.
    """
    query = "SELECT header FROM raw.trace WHERE trace_id = ?"
    header = _fields(scalar(connection, query, [trace_id]))
    divided = _sections(connection, trace_id, header)
    if divided is None:
        return [[trace_id]]
    jobs = [_headers(header, job) for job in _jobs(_found(connection, divided))]
    described = [part for job in jobs for part in job]
    numbers = [trace_id + place for place in range(len(described))]
    connection.execute(_ADD, [numbers[1:], trace_id])
    own = {"parts": numbers, "of": [one.process.number for one, _ in described]}
    connection.execute(_MOVE.format(query=divided.query), divided.values | own)
    for place, (number, (_, fields)) in enumerate(zip(numbers, described, strict=True)):
        name = fields["distributedInfo"]["rank"] if len(jobs) == 1 else place
        text = msgspec.json.encode(fields).decode()
        connection.execute(_DESCRIBE, [name, text, number])
    following = iter(numbers)
    return [[next(following) for _ in job] for job in jobs]


def _fields(header: str) -> dict[str, Any]:
    """The fields of a header: values of what describes ranks and GPUs, texts of others.

    Its numbers may be beyond those of Python, and are then kept as text, too.
    """
    fields: dict[str, Any] = {**(parts(header.encode()) or {})}
    for name in fields.keys() & {"distributedInfo", "deviceProperties"}:
        with suppress(msgspec.MsgspecError):
            fields[name] = msgspec.json.decode(fields[name])
    return fields


def _sections(
    connection: duckdb.DuckDBPyConnection, trace_id: int, header: dict[str, Any]
) -> Sections | None:
    """The processes of a PyTorch trace; None if there is one, or they are unclear."""
    if "source" in header:
        return None
    try:
        return sections(connection, trace_id)
    except UnclearError as error:
        issues = Issues()
        issues.add_told(_UNCLEAR, f" ({error}): {_REMEDY}", error.count)
        issues.store(connection, trace_id)
        return None


def _found(connection: duckdb.DuckDBPyConnection, divided: Sections) -> list[_Found]:
    """The processes in the order of the file."""
    labels = dict(connection.execute(_LABELS, [divided.values["trace_id"]]).fetchall())
    query = _TOLD.format(query=divided.query)
    told = {
        number: (f"rank {rank}" if rank is not None else "", devices or ())
        for number, rank, devices in connection.execute(
            query, divided.values
        ).fetchall()
    }
    found = []
    for number, (pid, _, _, start_ns, end_ns) in enumerate(divided.ops):
        rank, devices = told[number]
        gpus = frozenset[object](gpu for gpu in devices if gpu is not None)
        process = Process(number, gpus, start_ns, end_ns)
        found.append(_Found(process, f"{rank} {pid} {labels.get(pid, '')}"))
    return found


def _jobs(found: list[_Found]) -> list[list[_Found]]:
    """The processes, those that ran at the same time together."""
    every = [one.process for one in found]
    jobs = [simultaneous(process.number, every) for process in every]
    return [
        [found[process.number] for process in job]
        for number, job in enumerate(jobs)
        if job[0].number == number
    ]


def _headers(
    header: dict[str, Any], job: list[_Found]
) -> list[tuple[_Found, dict[str, Any]]]:
    """The processes of a job by rank, with their headers, given the file's.

    Tools that merge keep that of the first file, which may describe its rank; some
    append the devices of the others.
    """
    devices = header.get("deviceProperties")
    if isinstance(devices, list):
        unique = {msgspec.json.encode(device): device for device in devices}
        header = header | {"deviceProperties": [*unique.values()]}
    if len(job) == 1:
        is_first = job[0].process.number == 0
        return [(job[0], header if is_first else header | {"distributedInfo": {}})]
    ranks, assumed = _ranks(job, header)
    given = _given(header)
    size = given.get("world_size")
    count = max(len(job), 1 + max(ranks))
    every = {
        "backend": given.get("backend", "unknown"),
        "world_size": size if isinstance(size, int) and size > count else count,
        **({"assumed_from": assumed} if assumed else {}),
    }
    return [
        (one, header | {"distributedInfo": _of_rank(given, rank) | every})
        for rank, one in sorted(zip(ranks, job, strict=True), key=lambda pair: pair[0])
    ]


def _of_rank(given: dict[str, Any], rank: int) -> dict[str, Any]:
    """What a file tells of a rank, such as its process groups."""
    return (given if given.get("rank") == rank else {}) | {"rank": rank}


def _given(header: dict[str, Any]) -> dict[str, Any]:
    given = header.get("distributedInfo")
    return given if isinstance(given, dict) else {}


def _ranks(job: list[_Found], header: dict[str, Any]) -> tuple[list[int], str]:
    """The rank of each process, and from what it is assumed if it is not written."""
    written = [rank for one in job if (rank := rank_in(one.label)) is not None]
    if len({*written}) == len(job):
        return written, ""
    placed = [dict(_coordinates(one.label)) for one in job]
    varying = [d for d in _DIMENSIONS if len({one.get(d) for one in placed}) > 1]
    places = [tuple(one.get(d, 0) for d in varying) for one in placed]
    if len({*places}) == len(job):
        if len(varying) == 1:
            return [place for (place,) in places], ""
        return [sorted(places).index(place) for place in places], "label"
    order, assumed = ordered([one.process for one in job])
    numbers = [process.number for process in order]
    if assumed == "gpu" and _has_a_rank_per_gpu(header):
        return [int(str(gpu)) for one in job for gpu in one.process.gpus], assumed
    return [numbers.index(one.process.number) for one in job], assumed


def _has_a_rank_per_gpu(header: dict[str, Any]) -> bool:
    """Whether the job has as many ranks as the file describes GPUs, those of a node."""
    devices = header.get("deviceProperties")
    described = devices if isinstance(devices, list) else []
    ids = {str(device.get("id")) for device in described if isinstance(device, dict)}
    return len(ids) == _given(header).get("world_size")


def _coordinates(label: str) -> list[tuple[str, int]]:
    return [(name.lower(), int(n)) for name, n in _COORDINATE.findall(label)]
