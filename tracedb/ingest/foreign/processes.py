"""Divide a profiler's database into its processes, such as the ranks of a launcher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tracedb.errors import IngestError
from tracedb.ingest.foreign.event import integer
from tracedb.ingest.foreign.tables import Within, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tracedb.ingest.foreign.event import Row
    from tracedb.ingest.foreign.tables import Tables

__all__ = [
    "Ids",
    "OfProcess",
    "Process",
    "joined",
    "numbers_of",
    "ordered",
    "simultaneous",
]


class Ids(NamedTuple):
    """Where rows have the number of their process: in bits of one of these columns."""

    columns: tuple[str, ...]
    shift: int
    mask: int

    def number(self, value: object) -> int | None:
        """The number of the process in a value of such a column."""
        known = integer(value) if isinstance(value, str) else value
        return (known >> self.shift) & self.mask if isinstance(known, int) else None


@dataclass(frozen=True)
class Process:
    """A process with GPU work: its GPUs, and the extent of that work."""

    number: int
    gpus: frozenset[object]
    first_ns: int
    last_ns: int


def joined(parts: list[Process]) -> Process:
    """One process, of its parts on several GPUs."""
    return Process(
        parts[0].number,
        frozenset().union(*(part.gpus for part in parts)),
        min(part.first_ns for part in parts),
        max(part.last_ns for part in parts),
    )


def numbers_of(
    path: Path, find: Callable[[Tables], list[Process]], *, views: bool = False
) -> list[int]:
    """The processes that are traces of their own; none if there is one trace."""
    try:
        with opened(path, views=views) as tables:
            numbers = [process.number for process in find(tables)]
    except (IngestError, OSError):
        return []  # `read` says what is wrong
    return numbers if len(numbers) > 1 else []


class OfProcess:
    """The tables of one process; the first also has what is of no other."""

    def __init__(
        self, tables: Tables, ids: Ids, number: int, every: Iterable[Process]
    ) -> None:
        """Select the process `number` of `every` one with GPU work."""
        self._tables = tables
        self._ids = ids
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
            for column in self._ids.columns:
                if column in columns:
                    is_in = not self._is_first
                    _, shift, mask = self._ids
                    within = Within(column, shift, mask, self._numbers, is_in)
                    break
        return self._tables.rows(table, within, **equal)

    def owns(self, row: Row) -> bool:
        """Whether a row is of this process, or no column says of which one it is."""
        column = next((one for one in self._ids.columns if one in row), None)
        return column is None or self._ids.number(row[column]) == self._number

    def extents(self, table: str, *keys: str) -> Iterator[Row]:
        """See `Tables`; of all processes."""
        return self._tables.extents(table, *keys)


def simultaneous(number: int, every: list[Process]) -> list[Process]:
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


def assumed_rank(number: int, every: list[Process]) -> Row | None:
    """Kineto's description of a rank that nothing tells; None if it is alone."""
    job = simultaneous(number, every)
    if len(job) == 1:
        return None
    order, assumed = ordered(job)
    rank = [process.number for process in order].index(number)
    info = {"backend": "nccl", "rank": rank, "world_size": len(job)}
    return info | {"assumed_from": assumed}


def ordered(job: list[Process]) -> tuple[list[Process], str]:
    """The processes by rank, and from what that is assumed."""
    gpus = [min(one.gpus, key=str) for one in job if len(one.gpus) == 1]
    if len(set(gpus)) == len(job) and all(isinstance(gpu, int) for gpu in gpus):
        by_gpu = dict(zip((one.number for one in job), gpus, strict=True))
        return sorted(job, key=lambda one: integer(by_gpu[one.number]) or 0), "gpu"
    return job, "process"
