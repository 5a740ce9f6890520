"""Suggest what a mistyped name or path may have meant."""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_ALMOST = 0.9
_MOST_FILES = 10_000


def meant(names: Iterable[str]) -> str:
    """The end of a message that asks whether one of these was meant.

    >>> meant(["top_kernel", "kernel"]), meant([])
    ('; did you mean top_kernel or kernel?', '')
    """
    listed = " or ".join(names)
    return f"; did you mean {listed}?" if listed else ""


def alike(name: str, known: Iterable[str]) -> list[str]:
    """Up to three names that differ little from a name, apart from case and marks.

    >>> alike("h-100", ["A100 PCIe", "H100", "L40"])
    ['H100']
    """
    plain = {_plain(one): one for one in known}
    return [plain[one] for one in closest(_plain(name), plain)]


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """The name that is almost the same, or up to three that are similar."""
    names = [*known]
    near = get_close_matches(name, names, n=1, cutoff=_ALMOST)
    return near or get_close_matches(name, names, n=3, cutoff=cutoff)


def near_path(path: str) -> list[str]:
    """The existing path that differs from a missing one in one mistyped part."""
    missing = Path(path)
    # Names may be too long, or not be text, for the system.
    with suppress(OSError, ValueError):
        if missing.name and not missing.exists():
            return _beside(missing)
    return []


def _beside(missing: Path) -> list[str]:
    lost = next(one for one in (missing, *missing.parents) if one.parent.is_dir())
    there = [one.name for one in islice(lost.parent.iterdir(), _MOST_FILES)]
    for name in get_close_matches(lost.name, there, cutoff=0.75):
        found = lost.parent / name / missing.relative_to(lost)
        if found.exists():
            return [str(found)]
    return []


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))
