"""Parse the batch sizes and GPUs of a sweep, as given on the command line.

batch=256..65536      doubling
batch=256..65536:20   20 sizes, equally spaced, ends included
batch=256,300         a list
gpu=A100,H100         a list
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
    """The batch sizes and the GPUs of sweeps; empty if not swept.

    Raises `EstimateError` for a malformed sweep.

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
    if not int(matched[3]):
        raise EstimateError(f"sweep of batch sizes: {text} asks for none of them")
    return _spaced(low, high, min(int(matched[3]), _MOST + 1))


def _doubled(low: int, high: int) -> list[int]:
    """Double from `low`; end with `high`.

    >>> _doubled(100, 500)
    [100, 200, 400, 500]
    """
    found = []
    while low < high:
        found.append(low)
        low *= 2
    return [*found, high]


def _spaced(low: int, high: int, count: int) -> list[int]:
    """`count` equally spaced integers from `low` to `high`, duplicates dropped.

    >>> _spaced(1, 10, 4), _spaced(1, 3, 9)
    ([1, 4, 7, 10], [1, 2, 3])
    """
    gaps = max(count - 1, 1)
    sizes = [low + round((high - low) * number / gaps) for number in range(count)]
    return list(dict.fromkeys(sizes))
