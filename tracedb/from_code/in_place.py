"""What PyTorch computes in place, but not for fake tensors: gradients, and biases.

The formulas of autograd fill a tensor of zeros (`index_backward`, `gather_backward`,
the gradients of `max`, `topk` and `sort`), and its engine adds up the gradients of a
tensor that is used several times. Both work on a copy if a tensor is of a subclass, as
all fake ones are. So does a linear layer that adds its bias to a product.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from tracedb.from_code import place
from tracedb.from_code.changed import changed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tracedb.from_code.recorder import Recorder

_aten = torch.ops.aten
_ENGINE = f"{Path('torch', 'autograd', 'graph.py')}"
_TRANSFORMS = f"{Path('torch', '_functorch')}"
_ZEROS = frozenset(("aten::zeros", "aten::new_zeros", "aten::zeros_like"))


def _put(
    zeros: torch.Tensor,
    indices: object,
    values: torch.Tensor,
    accumulate: bool = False,  # noqa: FBT001, FBT002 (as PyTorch has it)
) -> object:
    return _aten._index_put_impl_(zeros, indices, values, accumulate, True)  # noqa: FBT003


_FILLING: dict[Any, Callable[..., object]] = {
    _aten.index_put.default: _put,
    _aten.index_add.default: _aten.index_add_.default,
    _aten.scatter.src: _aten.scatter_.src,
    _aten.scatter.value: _aten.scatter_.value,
    _aten.scatter_add.default: _aten.scatter_add_.default,
    _aten.masked_scatter.default: _aten.masked_scatter_.default,
    _aten.put.default: _aten.put_.default,
}
"""Ops that fill a copy, and those that fill the tensor itself."""


_CHAINED: dict[Any, Callable[..., object]] = {
    _aten.sub.Tensor: _aten.sub_.Tensor,
    _aten.mul.Tensor: _aten.mul_.Tensor,
    _aten.logical_and.default: _aten.logical_and_.default,
    _aten.logical_or.default: _aten.logical_or_.default,
    _aten.masked_fill.Scalar: _aten.masked_fill_.Scalar,
}
"""Ops of some gradients, each of which overwrites the result of the one before."""
_CHAINS = {
    "BinaryCrossEntropyWithLogitsBackward": ("aten::add", "aten::sigmoid"),
    "ClampBackward": ("aten::ge", "aten::lt", "aten::gt", "aten::where"),
    "Atan2Backward": ("aten::reciprocal",),
}
"""These gradients, and what the first of such ops overwrites."""
_ADD = _aten.add.Tensor
_ALONE, _OWNERS = 4, 2
"""References to a gradient that only the engine holds, while it calls Python, and to
its storage."""
_ADDING = (
    *("VarMean", "StdMean", "Linalg", "Renorm", "Atan2", "Cholesky", "LuUnpack"),
)
"""Functions whose own formulas add up tensors, and not in place."""
_NOT_ADDING = "LinalgVectorNorm"
"""The only one of linear algebra whose formula does not."""


def parts(
    func: object, tensors: list[torch.Tensor], recorder: Recorder
) -> Callable[..., object] | None:
    """The op that does in place what autograd itself does on a copy, if it does."""
    found = _FILLING.get(func)
    if found is not None:
        zeros = recorder.holding(tensors[0])
        is_new = zeros.begin == recorder.ledger.now and zeros.made_by in _ZEROS
        return found if is_new and _is_formula() else None
    if func in _CHAINED:
        return _CHAINED[func] if _is_chained(tensors, recorder) else None
    if func is not _ADD:
        return None
    if recorder.wrapped is _ADD:
        # Gradients that are wrappers, such as DTensors, are added up anew.
        recorder.wrapped = None
        return None
    is_in_place = _is_bias(tensors, recorder) or _is_sum(tensors)
    return _aten.add_.Tensor if is_in_place else None


_PRODUCTS = frozenset(("aten::mm", "aten::bmm"))
_linear: list[None] = []
"""As many elements as there are linear layers at work."""


@contextmanager
def linear_layers() -> Iterator[None]:
    """Know within the block when a linear layer is at work."""
    own = functional.linear

    def linear(*args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ANN401 (as PyTorch has it)
        _linear.append(None)
        try:
            return own(*args, **kwargs)
        finally:
            _linear.pop()

    with changed(functional, {"linear": linear}):
        yield


def _is_bias(tensors: list[torch.Tensor], recorder: Recorder) -> bool:
    """Whether a linear layer adds its bias to what it has multiplied."""
    if not _linear or tensors[0].dim() <= tensors[-1].dim():
        return False
    return recorder.holding(tensors[0]).made_by in _PRODUCTS


def _is_sum(tensors: list[torch.Tensor]) -> bool:
    """Whether the engine adds to a gradient that it alone holds."""
    node = _node()
    if node is None or not _is_overwritten(tensors):
        return False
    name = node.name()
    is_adding = name.startswith(_ADDING) and not name.startswith(_NOT_ADDING)
    return not is_adding and _is_formula()


def _is_chained(tensors: list[torch.Tensor], recorder: Recorder) -> bool:
    """Whether a gradient overwrites what it has computed so far."""
    name = formula().partition("Backward")[0] + "Backward"
    if name not in _CHAINS:
        return False
    held = recorder.holding(tensors[0])
    return held.phase == recorder.now.pass_ and held.made_by in _CHAINS[name]


def formula() -> str:
    """The function that is being differentiated; "" if its gradient will be, too."""
    node = None if torch.is_grad_enabled() else _node()
    return node.name() if node is not None and _is_formula() else ""


def _node() -> Any:  # noqa: ANN401 (nodes have no public type)
    """The function whose gradient is computed, if one is."""
    if torch._C._current_graph_task_id() == -1:  # noqa: SLF001 (as ModTracker)
        return None
    return torch._C._current_autograd_node()  # noqa: SLF001 (it has no public name)


def _is_overwritten(tensors: list[torch.Tensor]) -> bool:
    """Whether the first of two tensors of a shape is held by their op alone."""
    held: Any = tensors[0]
    if len(tensors) < 2 or held.shape != tensors[1].shape or torch.is_grad_enabled():  # noqa: PLR2004 (both terms)
        return False
    storage = held.untyped_storage()._cdata  # noqa: SLF001 (they have no public names)
    return (
        held._use_count() <= _ALONE  # noqa: SLF001
        and torch._C._storage_Use_Count(storage) <= _OWNERS  # noqa: SLF001
        and torch._debug_has_internal_overlap(held) == 0  # noqa: SLF001
    )


def _is_formula() -> bool:
    """Whether autograd itself calls, outside the transforms of `torch.func`."""
    frame = place.torch_frame()
    if frame is None or not frame.f_code.co_filename.endswith(_ENGINE):
        return False
    while frame is not None and not place.is_users(frame.f_code.co_filename):
        if _TRANSFORMS in frame.f_code.co_filename:
            return False
        frame = frame.f_back
    return True
