"""The roofline that serves where no model does, as `prediction.kernel_roofline` has it.

What families usually reach of the peaks is in `prediction.kernel_efficiency`. Kernels'
names tell the relation more than shapes do: which elements are moved 16 bytes at once.
Nor have rows a vendor, by which wide softmax and copies differ.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from .relations import declared

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .families import Floats
    from .rows import Rows

_OTHER = "other"
_PINNED = "pinned"
_UNALIGNED, _ODD = 1.4, 2.0
"""How many times as long products with rows of no whole 16 bytes take on matrix units,
and those with rows of an odd number of elements."""
_VECTOR_BYTES = 16
_ALIGNED_UNITS = ("half", "tf32")
_UNALIGNED_TF32 = 1.3
"""By how much reading such rows takes longer at most, if elements have 4 bytes."""
_MATRIX_CLOCKS = 2_500
"""What each matrix of a batch takes of an NVIDIA multiprocessor at least."""
_BLOCK_BYTES_PER_NS = 12.6
"""What a block of threads moves at most, on any GPU."""
_SHARED_WIDTH = 131_072
"""Elements from which a search is shared among blocks."""
_SEARCHES = re.compile(r"a?(max|min)|arg(max|min)")
_ROWWISE = re.compile(r"(layer|rms)_norm")


def usual_ns(rows: Rows) -> Floats:
    """[ns] The time of each row by the usual shares of the peaks."""
    own, work = _shares(_family(rows)), rows.work
    memory = own["memory_share"] * work.bandwidth
    # What goes over a link goes through no cache.
    cached = 0.0 if rows.is_linked else own["cache_share"] * work.l2_bandwidth
    cache_speed = np.maximum(cached, memory)
    touched = np.minimum(work.footprint, work.bytes)
    in_cache = work.bytes * np.minimum(work.l2_bytes / np.maximum(touched, 1), 1)
    traffic = 1e9 * (in_cache / cache_speed + (work.bytes - in_cache) / memory)
    compute = work.compute_ns / own["compute_share"]
    factor = unaligned_factor(rows)
    longest = np.maximum(traffic * _reading(rows, factor), compute * factor)
    longest = np.maximum(longest, _network_ns(rows))
    longest = np.maximum(longest, _block_ns(rows))
    longest = np.maximum(longest, _matrix_ns(rows))
    if own["elements_per_clock"] is not None:
        longest = np.maximum(longest, _element_ns(rows, own["elements_per_clock"]))
    fixed = own["floors"] * work.floor_ns * _steps(rows) + _latency_ns(rows)
    found: Floats = fixed + longest
    return found


def _family(rows: Rows) -> str:
    """Whose shares rows have: their family's, or those of copies from pinned memory."""
    is_pinned = len(rows) and str(rows.shapes.op[0]) in ("h2d", "d2h")
    return _PINNED if is_pinned else rows.family.name


@cache
def _shares(family: str) -> Mapping[str, Any]:
    listed = {row["family"]: row for row in declared("prediction.kernel_efficiency")}
    found: Mapping[str, Any] = listed.get(family, listed[_OTHER])
    return found


def _element_ns(rows: Rows, elements_per_clock: float) -> Floats:
    """[ns] Elements that are addressed one by one."""
    written = rows.shapes["written_bytes"] / rows.shapes.element_bytes
    clocks = rows.figures["sm_count"] * rows.figures["clocks_per_second"]
    found: Floats = 1e9 * written / (elements_per_clock * clocks)
    return found


def unaligned_factor(rows: Rows) -> Floats:
    """How many times as long products take whose rows have no whole 16 bytes."""
    found = np.ones(len(rows))
    if rows.family.name == "gemm":
        element_bytes = rows.shapes.element_bytes
        is_aligned = np.isin(rows.shapes.unit, _ALIGNED_UNITS)
        for size in (rows.shapes["n"], rows.shapes["k"]):
            is_short = (size > 1) & (size * element_bytes % _VECTOR_BYTES > 0)
            factor = np.where(size % 2 > 0, _ODD, _UNALIGNED)
            found = np.where(is_short, np.maximum(found, factor), found)
        found[~is_aligned] = 1
    return found


def _reading(rows: Rows, factor: Floats) -> Floats:
    """How many times as long reading takes if arithmetic takes `factor` times."""
    if rows.family.name != "gemm":
        return factor
    is_tf32 = rows.shapes.unit == "tf32"
    return np.where(is_tf32, np.minimum(factor, _UNALIGNED_TF32), factor)


def _matrix_ns(rows: Rows) -> Floats:
    """[ns] Matrices of a batch, each of which takes a block of threads."""
    if rows.family.name != "gemm":
        return np.zeros(len(rows))
    figures, shapes = rows.figures, rows.shapes
    each = 1e9 * _MATRIX_CLOCKS / figures["clocks_per_second"]
    is_matrix = np.minimum(np.minimum(shapes["m"], shapes["n"]), shapes["k"]) > 1
    matrices = np.where(is_matrix, shapes["batch"], 0)
    found: Floats = each * np.maximum(matrices / figures["sm_count"] - 1, 0)
    return found


def _block_ns(rows: Rows) -> Floats:
    """[ns] A row, where one block of threads does all of it."""
    op = str(rows.shapes.op[0]) if len(rows) else ""
    if rows.family.name == "softmax" or _ROWWISE.match(op):
        moved = rows.work.bytes / rows.shapes["rows"]
    elif _SEARCHES.fullmatch(op):
        share = np.minimum(_SHARED_WIDTH / rows.shapes["width"], 1)
        moved = rows.shapes["read_bytes"] / rows.shapes["rows"] * share
    else:
        return np.zeros(len(rows))
    found: Floats = np.nan_to_num(moved) / _BLOCK_BYTES_PER_NS
    return found


def _steps(rows: Rows) -> Floats:
    """Steps of a collective within a node that wait for each other."""
    if not _is_collective(rows):
        return np.ones(len(rows))
    return np.maximum(np.log2(rows.shapes["ranks_per_node"]), 1)


def _latency_ns(rows: Rows) -> Floats:
    """[ns] Its steps from node to node."""
    if not _is_collective(rows):
        return np.zeros(len(rows))
    found: Floats = rows.shapes["network_steps"] * rows.figures["network_latency_ns"]
    return found


def _network_ns(rows: Rows) -> Floats:
    """[ns] What of a collective leaves a node."""
    if not _is_collective(rows):
        return np.zeros(len(rows))
    sent: Floats = rows.shapes["network_bytes"]
    return 1e9 * sent / rows.figures["network_bytes_per_second"]


def _is_collective(rows: Rows) -> bool:
    return rows.family.name == "collective"
