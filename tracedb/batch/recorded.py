"""The batch size of a recording, from the shapes of its inputs."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from tracedb.batch.calls import Call, Dims

_MATRIX, _BATCHED = 2, 3


def recorded_batch(calls: Sequence[Call]) -> int | None:
    """The batch size of a recording, if its inputs agree on one.

    Copies to the GPU count first, then images, indices, bags and linear layers. A
    linear layer's rows are no batch if another tensor has them in several dimensions;
    nor is a single row, as other dimensions may come first.
    """
    divided = {
        (math.prod(dims[:-1]), dims[-1])
        for call in calls
        for dims in call.tensors
        if sum(size > 1 for size in dims[:-1]) > 1
    }
    for size_of in (*_SIZES, partial(_layered, divided)):
        sizes = {size for call in calls if (size := size_of(call))}
        if sizes:
            is_clear = sizes != {1} or size_of in _INPUTS
            return sizes.pop() if len(sizes) == 1 and is_clear else None
    return None


def _copied(call: Call) -> int:
    dims = next(iter(call.tensors), ())
    is_shaped = call.is_copied and not call.is_update and len(dims) >= _MATRIX
    return dims[0] if is_shaped else 0


def _imaged(call: Call) -> int:
    dims = call.dims(0)
    is_image = re.fullmatch(r"conv\dd|convolution", call.bare_name)
    return dims[0] if is_image and len(dims) >= _BATCHED else 0


def _indexed(call: Call) -> int:
    dims = call.dims(1)
    is_looked_up = call.bare_name == "embedding" and len(dims) >= _MATRIX
    return dims[0] if is_looked_up else 0


def _bagged(call: Call) -> int:
    dims = call.dims(2)
    return dims[0] if call.bare_name == "_embedding_bag" and dims else 0


def _layered(divided: AbstractSet[Dims], call: Call) -> int:
    is_added = call.bare_name == "addmm" and len(call.dims(0)) == 1
    dims = call.dims(1 if is_added else 0)
    is_layer = is_added or call.bare_name == "linear"
    is_batch = is_layer and len(dims) == _MATRIX and dims not in divided
    return dims[0] if is_batch else 0


_INPUTS = (_copied, _imaged, _indexed)
"""Sources of the batch size whose first dimension it is."""
_SIZES = (*_INPUTS, _bagged)
"""Sources of the batch size, the most reliable first; linear layers are the last."""
