"""Which batch sizes and GPUs a sweep is of, as it is written on the command line.

batch=256..65536      each twice the one before
batch=256..65536:20   so many from one to the other, both counted
batch=256,300         these
gpu=A100,H100         these
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracedb.errors import EstimateError

if TYPE_CHECKING:
    from collections.abc import Sequence

_RANGE = re.compile(r"(\d{1,15})\.\.(\d{1,15})(?::(\d{1,6}))?")
_MOST = 10_000


def points(sweeps: Sequence[str]) -> tuple[list[int], list[str]]:
    """The batch sizes and the GPUs of sweeps; none of what is not swept.

    Raises `EstimateError` for a sweep that is none.

    >>> points(["batch=256..2048", "gpu=A100,H100"])
    ([256, 512, 1024, 2048], ['A100', 'H100'])
    """
    found: dict[str, list[str]] = {}
    for sweep in sweeps:
        field, _, given = sweep.partition("=")
        if field not in {"batch", "gpu"} or not given or field in found:
            raise EstimateError(
                f"sweep {sweep}: expected batch=256..65536 or gpu=A100,H100, each once"
            )
        found[field] = [value.strip() for value in given.split(",")]
    batches = [
        size for value in found.get("batch", []) for size in _batches(value.strip())
    ]
    if len(batches) > _MOST:
        raise EstimateError(f"{len(batches):,} batch sizes; the limit is {_MOST:,}")
    return batches, found.get("gpu", [])


def _batches(text: str) -> list[int]:
    """The batch sizes of a number or a range."""
    matched = _RANGE.fullmatch(text)
    if matched is None:
        if not re.fullmatch(r"0*[1-9]\d{0,14}", text):
            raise EstimateError(
                f"sweep of batch sizes: {text} is neither a size nor a range such as "
                "256..65536, or 256..65536:20 with a count"
            )
        return [int(text)]
    low, high = int(matched[1]), int(matched[2])
    if not 0 < low <= high:
        raise EstimateError(
            f"sweep of batch sizes: {text} does not ascend from 1 or more"
        )
    if matched[3] is None:
        return _doubled(low, high)
    return _apart(low, high, min(int(matched[3]), _MOST + 1))


def _doubled(low: int, high: int) -> list[int]:
    """Each twice the one before, and the last one.

    >>> _doubled(100, 500)
    [100, 200, 400, 500]
    """
    found = []
    while low < high:
        found.append(low)
        low *= 2
    return [*found, high]


def _apart(low: int, high: int, count: int) -> list[int]:
    """So many from one to the other, as far as whole numbers can be equally apart.

    >>> _apart(1, 10, 4), _apart(1, 3, 9)
    ([1, 4, 7, 10], [1, 2, 3])
    """
    gaps = max(count - 1, 1)
    sizes = [low + round((high - low) * number / gaps) for number in range(count)]
    return list(dict.fromkeys(sizes))
