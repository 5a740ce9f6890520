"""Parse the batch sizes and GPUs of a sweep, as given on the command line.

batch=256..65536      doubling
batch=256..65536:20   20 sizes, equally spaced, ends included
batch=256,300         a list
gpu=A100,H100         a list
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracedb.errors import EstimateError
from tracedb.whole_numbers import MOST, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    if len(batches) > MOST:
        raise EstimateError(f"{len(batches):,} batch sizes; the limit is {MOST:,}")
    return batches, found.get("gpu", [])


def _batches(text: str) -> list[int]:
    """The batch sizes of a number or a range."""
    try:
        return whole_numbers(text)
    except ValueError as error:
        raise EstimateError(f"sweep of batch sizes: {error}") from error
