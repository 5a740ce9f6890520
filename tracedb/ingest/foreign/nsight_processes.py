"""Divide a report of Nsight Systems into its processes, such as `torchrun`'s ranks.

A report does not state ranks. NCCL records them when it creates communicators; if that
was before the report, processes that run at the same time are numbered by their GPUs,
or by their ids where these do not tell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from tracedb.ingest.foreign.event import integer
from tracedb.ingest.foreign.tables import Within

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tracedb.ingest.foreign.event import Row
    from tracedb.ingest.foreign.tables import Tables

__all__ = ["OfProcess", "Process", "distributed_info", "processes"]

_CUPTI = "CUPTI_ACTIVITY_KIND_"
_GPU_WORK = tuple(f"{_CUPTI}{k}" for k in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"))
_SHIFT, _MASK = 24, 0xFFFFFF
_ID_COLUMNS = ("globalTid", "globalPid")
_RANK, _RANKS = "Rank", "No. of ranks"
"""NCCL's names of what it records when it creates a communicator."""
_ARGUMENT = re.compile(r"PROCESS_\d+:ARGUMENT_\d+")
_COUNTS = re.compile(r"--(nproc|nnodes|node)(?:[-_](?:per[-_]node|rank))?(?:=(\d+))?")


@dataclass(frozen=True)
class Process:
    """A process with GPU work: its GPUs, and the extent of that work."""

    number: int
    gpus: frozenset[object]
    first_ns: int
    last_ns: int


def ids(serialized: object) -> tuple[object, object]:
    """The process and thread of a `globalTid`, with 24 bits each."""
    number = integer(serialized) if isinstance(serialized, str) else serialized
    if not isinstance(number, int):
        return None, None
    return (number >> _SHIFT) & _MASK, number & _MASK


def gpu_ids(tables: Tables) -> dict[tuple[object, object], object]:
    """The GPU of each device number of a process, if the report maps them."""
    return {
        (row.get("pid"), row.get("cudaId")): row["gpuId"]
        for row in tables.rows("TARGET_INFO_CUDA_DEVICE")
        if row.get("gpuId") is not None
    }


def processes(tables: Tables) -> list[Process]:
    """The processes with GPU work, by number; none if rows do not tell them."""
    gpus, found = gpu_ids(tables), dict[int, list[Process]]()
    for row in _extents(tables):
        number, _ = ids(row["globalPid"])
        first, last = integer(row["first"]), integer(row["last"])
        if isinstance(number, int) and first is not None and last is not None:
            device = row["deviceId"]
            gpu = gpus.get((number, device), device)
            part = Process(number, frozenset({gpu}), first, last)
            found.setdefault(number, []).append(part)
    return [_joined(found[number]) for number in sorted(found)]


def _extents(tables: Tables) -> Iterator[Row]:
    needed = {"globalPid", "deviceId", "start", "end"}
    for table in _GPU_WORK:
        if table in tables.names() and needed <= tables.columns(table):
            yield from tables.extents(table, "globalPid", "deviceId")


def _joined(parts: list[Process]) -> Process:
    return Process(
        parts[0].number,
        frozenset().union(*(part.gpus for part in parts)),
        min(part.first_ns for part in parts),
        max(part.last_ns for part in parts),
    )


class OfProcess:
    """The tables of one process; the first also has what is of no other."""

    def __init__(self, tables: Tables, number: int, every: Iterable[Process]) -> None:
        """Select the process `number` of `every` one with GPU work."""
        self._tables = tables
        self._number = number
        numbers = [process.number for process in every]
        self._is_first = number == min(numbers)
        others = frozenset(numbers) - {number}
        self._numbers = others if self._is_first else frozenset({number})

    def names(self) -> frozenset[str]:
        """See `Tables`."""
        return self._tables.names()

    def columns(self, table: str) -> frozenset[str]:
        """See `Tables`."""
        return self._tables.columns(table)

    def rows(
        self, table: str, within: Within | None = None, **equal: object
    ) -> Iterator[Row]:
        """See `Tables`."""
        if table in self.names():
            columns = self.columns(table)
            for column in _ID_COLUMNS:
                if column in columns:
                    is_in = not self._is_first
                    within = Within(column, _SHIFT, _MASK, self._numbers, is_in)
                    break
        return self._tables.rows(table, within, **equal)

    def owns(self, row: Row) -> bool:
        """Whether a row is of this process, or no column says of which one it is."""
        column = next((one for one in _ID_COLUMNS if one in row), None)
        return column is None or ids(row[column])[0] == self._number

    def extents(self, table: str, *keys: str) -> Iterator[Row]:
        """See `Tables`; of all processes."""
        return self._tables.extents(table, *keys)


def distributed_info(tables: Tables, number: int, every: list[Process]) -> Row | None:
    """Kineto's description of a rank, and what was assumed; None if it is alone."""
    job = _simultaneous(number, every)
    if len(job) == 1:
        return None
    info: Row = {"backend": _backend(tables)}
    told = _told_by_nccl(tables, job)
    if told is not None:
        return info | told[number]
    order, assumed = _ordered(job)
    ranks = [process.number for process in order]
    first, world_size = _placed(tables, len(job))
    info |= {"rank": first + ranks.index(number), "world_size": world_size}
    return info | {"assumed_from": assumed}


def _simultaneous(number: int, every: list[Process]) -> list[Process]:
    """The processes that, one after another, overlap the given one in time."""
    group: list[Process] = []
    end = 0
    for process in sorted(every, key=lambda one: one.first_ns):
        if group and process.first_ns >= end:
            if any(one.number == number for one in group):
                break
            group = []
        end = max(end, process.last_ns) if group else process.last_ns
        group.append(process)
    return sorted(group, key=lambda one: one.number)


def _ordered(job: list[Process]) -> tuple[list[Process], str]:
    """The processes by rank, and from what that is assumed."""
    gpus = [min(one.gpus, key=str) for one in job if len(one.gpus) == 1]
    if len(set(gpus)) == len(job) and all(isinstance(gpu, int) for gpu in gpus):
        by_gpu = dict(zip((one.number for one in job), gpus, strict=True))
        return sorted(job, key=lambda one: integer(by_gpu[one.number]) or 0), "gpu"
    return job, "process"


def _backend(tables: Tables) -> str:
    texts = (str(row.get("value")) for row in tables.rows("StringIds"))
    return "nccl" if any("nccl" in text for text in texts) else "unknown"


def _told_by_nccl(tables: Tables, job: list[Process]) -> dict[int, Row] | None:
    """The rank of each process in the largest communicator, if all recorded it."""
    found: dict[int, Row] = {}
    for number, told in _communicators(tables):
        rank, ranks = integer(told.get(_RANK)), integer(told.get(_RANKS))
        if rank is None or ranks is None or not 0 <= rank < ranks:
            continue
        if ranks > found.get(number, {"world_size": 0})["world_size"]:
            found[number] = {"rank": rank, "world_size": ranks}
    of_job = [found.get(process.number) for process in job]
    sizes = {row and row["world_size"] for row in of_job}
    ranks_of_job = {row and row["rank"] for row in of_job}
    is_whole = None not in ranks_of_job and len(ranks_of_job) == len(job)
    return found if is_whole and len(sizes) == 1 else None


def _communicators(tables: Tables) -> Iterator[tuple[int, Row]]:
    """What NCCL recorded when a process created a communicator."""
    table = "NVTX_EVENTS"
    columns = tables.columns(table) if table in tables.names() else frozenset()
    texts = {row.get("id"): str(row.get("value")) for row in tables.rows("StringIds")}
    created = tuple(key for key, text in texts.items() if "ncclCommInit" in text)
    if not created or not {"textId", "globalTid"} <= columns:
        return
    for row in tables.rows(table, textId=created):
        text = row.get("jsonText") or texts.get(row.get("jsonTextId"))
        number, _ = ids(row["globalTid"])
        if text and isinstance(number, int):
            try:
                yield number, msgspec.json.decode(str(text), type=dict)
            except msgspec.MsgspecError:
                continue


def _placed(tables: Tables, count: int) -> tuple[int, int]:
    """The first rank and the number of ranks, by the launcher's arguments."""
    given = _launcher_counts(tables)
    nodes, node = given.get("nnodes", 1), given.get("node", 0)
    if given.get("nproc") == count and node < nodes:
        return node * count, nodes * count
    return 0, count


def _launcher_counts(tables: Tables) -> dict[str, int]:
    words = [
        str(row.get("value"))
        for row in tables.rows("META_DATA_CAPTURE")
        if _ARGUMENT.fullmatch(str(row.get("name")))
    ]
    given = {}
    for word, following in zip(words, [*words, ""][1:], strict=True):
        matched = _COUNTS.fullmatch(word)
        value = matched and (matched[2] or following)
        if matched and value and value.isdecimal() and len(value) < len("1000000"):
            given[matched[1]] = int(value)
    return given
