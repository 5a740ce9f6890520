"""Builders of PyTorch cases, one per family, found by module name or in a table.

A module with a function `build` belongs to the family of its name.

A builder makes the tensors of a case on a device, and returns the work to time: a
function without arguments. It raises UnsupportedError for an unknown op.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import iter_modules

import torch

from ..case import Case
from . import elementwise, embedding, movement
from . import rows as by_rows

Builder = Callable[[Case, torch.device], Callable[[], object]]


def _named() -> dict[str, Builder]:
    """The builders of modules named like their family."""
    modules = {
        m.name: import_module(f".{m.name}", __name__) for m in iter_modules(__path__)
    }
    return {name: m.build for name, m in modules.items() if hasattr(m, "build")}


BUILDERS: Mapping[str, Builder] = {
    **_named(),
    **dict.fromkeys(("fill", "random"), elementwise.build),
    "embedding": embedding.lookup,
    "embedding_backward": embedding.lookup_backward,
    "embedding_bag": embedding.bags,
    "embedding_bag_backward": embedding.bags_backward,
    "reduction": by_rows.reduction,
    "softmax": by_rows.softmax,
    "normalisation": by_rows.normalisation,
    "concat": movement.concat,
    "copy": movement.copy,
    "index": movement.index,
    "memcpy": movement.memcpy,
    "memset": movement.memset,
}
