"""The files of execution graphs that name a step: one, several, a pattern, a folder."""

from __future__ import annotations

from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING

from tracedb.errors import EstimateError
from tracedb.from_code.subject import GRAPHS, is_graph

if TYPE_CHECKING:
    from collections.abc import Sequence


def graph_files(step: str | Path, inputs: Sequence[object]) -> list[Path]:
    """All files, in the given order; those of a folder or a pattern by name.

    Raises `EstimateError` where there are none, where one is named twice, or where an
    input is no graph.
    """
    found: list[Path] = []
    for one in (step, *inputs):
        if not is_graph(one):
            raise EstimateError(
                f"{one}: {step} is an execution graph, which takes no arguments but "
                "the graphs of other ranks"
            )
        found += _files(one)
    real = [file.resolve() for file in found]
    twice = next((f for f, r in zip(found, real, strict=True) if real.count(r) > 1), "")
    if twice:
        raise EstimateError(f"{twice}: named twice; give each rank's graph once")
    return found


def _files(named: str | Path) -> list[Path]:
    """The files that a name stands for."""
    path = Path(named)
    if path.is_dir():
        files = sorted(f for f in path.iterdir() if str(f).endswith(GRAPHS))
    elif not path.exists() and has_magic(str(named)):
        files = [Path(file) for file in sorted(glob(str(named)))]  # noqa: PTH207 (patterns may be absolute)
    else:
        return [path]
    if not files:
        raise EstimateError(
            f"{named}: no execution graphs there ({', '.join(GRAPHS)}); name a step "
            "of code as train.py:step"
        )
    return files
