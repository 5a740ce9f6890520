"""Divide a report of Nsight Systems into its processes, such as `torchrun`'s ranks.

A report does not state ranks. NCCL records them when it creates communicators; if that
was before the report, processes that run at the same time are numbered by their GPUs,
or by their ids where these do not tell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from tracedb.ingest.foreign.event import integer
from tracedb.ingest.foreign.processes import (
    Ids,
    Process,
    joined,
    ordered,
    simultaneous,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracedb.ingest.foreign.event import Row
    from tracedb.ingest.foreign.tables import Tables

__all__ = ["IDS", "distributed_info", "processes"]

_CUPTI = "CUPTI_ACTIVITY_KIND_"
_GPU_WORK = tuple(f"{_CUPTI}{k}" for k in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"))
_SHIFT, _MASK = 24, 0xFFFFFF
IDS = Ids(("globalTid", "globalPid"), _SHIFT, _MASK)
_RANK, _RANKS = "Rank", "No. of ranks"
"""NCCL's names of what it records when it creates a communicator."""
_ARGUMENT = re.compile(r"PROCESS_\d+:ARGUMENT_\d+")
_COUNTS = re.compile(r"--(nproc|nnodes|node)(?:[-_](?:per[-_]node|rank))?(?:=(\d+))?")


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
    return [joined(found[number]) for number in sorted(found)]


def _extents(tables: Tables) -> Iterator[Row]:
    needed = {"globalPid", "deviceId", "start", "end"}
    for table in _GPU_WORK:
        if table in tables.names() and needed <= tables.columns(table):
            yield from tables.extents(table, "globalPid", "deviceId")


def distributed_info(tables: Tables, number: int, every: list[Process]) -> Row | None:
    """Kineto's description of a rank, and what was assumed; None if it is alone."""
    job = simultaneous(number, every)
    if len(job) == 1:
        return None
    info: Row = {"backend": _backend(tables)}
    told = _told_by_nccl(tables, job)
    if told is not None:
        return info | told[number]
    order, assumed = ordered(job)
    ranks = [process.number for process in order]
    first, world_size = _placed(tables, len(job))
    info |= {"rank": first + ranks.index(number), "world_size": world_size}
    return info | {"assumed_from": assumed}


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
