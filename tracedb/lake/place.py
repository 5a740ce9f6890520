"""Paths in a lake, and paths that name a lake, a run or a rank.

Partitions are Hive-style folders (`run=job1/rank=3`), which DuckDB, Spark and others
read as columns. Characters that folder names cannot have are escaped, as in `%2F`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tracedb.errors import LakeError
from tracedb.lake.storage import storage
from tracedb.remote import is_remote

NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""Hive's name for a missing value."""
_UNSAFE = re.compile(r"(?![0-9A-Za-z_.-])[\x00-\x7f]")
_MOST_BYTES = 200
_LEVELS = ("run", "rank")


@dataclass(frozen=True)
class Place:
    """A lake, with patterns that select runs and ranks; by default all."""

    root: str | Path
    """Its folder or URI."""
    run: str = "*"
    rank: str = "*"

    def __str__(self) -> str:
        """Its path."""
        levels = (("run", self.run), ("rank", self.rank))
        return "/".join([str(self.root), *(f"{k}={v}" for k, v in levels if v != "*")])

    def has(self, run: str, rank: int | None) -> bool:
        """Whether a rank of a run is selected."""
        return self._is_meant(run, self.run) and self._is_meant(
            NOTHING if rank is None else str(rank), self.rank
        )

    @staticmethod
    def _is_meant(name: str, pattern: str) -> bool:
        return (
            pattern == "*"
            or pattern in (name, escaped(name))
            or fnmatchcase(name, pattern)
        )


def find_place(path: str) -> Place | None:
    """The lake that a path names, if any: `fleet`, `fleet/run=a/rank=0`.

    Parts may have the wildcards `*` and `?`. Below the lake, the path need not exist,
    and names may be unescaped.
    """
    root, chosen = path.rstrip("/") or path, {}
    for level in reversed(_LEVELS):
        above, _, last = root.rpartition("/")
        key, is_given, value = last.partition("=")
        if is_given and key == level:
            chosen[level] = value
            root = above.rstrip("/") or ("/" if path.startswith("/") else ".")
    found = root if is_remote(root) else Path(root)
    return Place(found, **chosen) if storage(found).is_lake() else None


def place_of(path: str) -> Place:
    """The lake that a path names; raises `LakeError` if there is none."""
    place = find_place(path)
    if place is None:
        raise LakeError(f"{path}: not a lake; create one with `tracedb lake ingest`")
    return place


def partition(run: str, rank: int | None, trace: str) -> str:
    """The folder of a trace in the lake; raises as `verify_run` does."""
    verify_run(run)
    number = NOTHING if rank is None else str(rank)
    return f"run={escaped(run)}/rank={number}/trace={trace}"


def verify_run(run: str) -> None:
    """Raise `LakeError` if the name of a run is too long for a folder."""
    if len(escaped(run).encode()) > _MOST_BYTES:
        raise LakeError(
            f"the name of the run is too long for a folder: {run[:60]}...; name it "
            "with --run"
        )


def escaped(name: str) -> str:
    """A name escaped for a folder, as Hive does.

    >>> escaped("a/../b*"), escaped("größe 1")
    ('a%2F..%2Fb%2A', 'größe%201')

    Non-ASCII characters stay, because Spark would unescape single bytes.
    """
    if name == NOTHING:
        return "%5F" + name[1:]
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", name)
