"""FBGEMM's fused embedding bags in code: lookups in many tables, and their gradients.

FBGEMM's ops check that their tensors are on a GPU, and dispatch their gradients in C++,
so fake tensors do not get through. What they make follows from their arguments. The
gradient of a fused lookup updates the rows itself; that of a dense one is returned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from tracedb.errors import EstimateError
from tracedb.from_code import place
from tracedb.from_code.tensors import tensors_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracedb.from_code.recorder import Recorder

_LOOKUP = re.compile(
    r"fbgemm::(?:split|dense)_embedding_codegen_lookup_(?:(\w+)_)?function\w*"
)
_DENSE = "Dense"
_COUNTED = "fbgemm::split_embedding_backward_codegen_{}_unweighted_pt2_wrapper"
"""The op within a gradient whose arguments show its sizes (`prediction.bag_lookup`)."""
_NO_POOLING = 2
_TYPES = {0: torch.float32, 1: torch.float16, 5: torch.bfloat16}
"""Types of results, by FBGEMM's numbers (SparseType)."""


@dataclass(frozen=True)
class FusedLookup:
    """Makes what lookups return, and records them and their gradients."""

    recorder: Recorder

    def instead(self, func: Any) -> Callable[..., torch.Tensor] | None:  # noqa: ANN401 (an op)
        """What to call in place of a lookup; None for all other functions."""
        name = getattr(func, "_qualified_op_name", "")
        found = _LOOKUP.fullmatch(name)
        if found is None:
            return None
        schema = getattr(func, func.overloads()[0])._schema  # noqa: SLF001 (it has no public name)
        return partial(self._lookup, name, found[1] or _DENSE, schema)

    def _lookup(
        self,
        name: str,
        optimizer: str,
        schema: Any,  # noqa: ANN401 (it has no public name)
        *args: Any,  # noqa: ANN401 (as FBGEMM has it)
        **kwargs: Any,  # noqa: ANN401
    ) -> torch.Tensor:
        given = {one.name: one.default_value for one in schema.arguments}
        given |= dict(zip(given, args, strict=False)) | kwargs
        shape, dtype = _result(given)
        arguments = list(given.values())
        keys = given["indices"].numel(), given["total_hash_size_bits"]
        recorder, is_dense = self.recorder, optimizer == _DENSE

        def forward(_context: object, *weights: torch.Tensor) -> torch.Tensor:
            made = weights[0].new_empty(shape, dtype=dtype)
            recorder.computed(name, arguments, [made])
            return made

        def backward(
            _context: object, gradient: torch.Tensor
        ) -> tuple[torch.Tensor | None, ...]:
            recorder.leave_out()
            made = [one.new_zeros(one.shape) for one in learnt] if is_dense else []
            recorder.computed(
                f"torch::autograd::CppNode<SplitLookupFunction_{optimizer}_Op>",
                [gradient], made, (_COUNTED.format(optimizer), [gradient, *arguments]),
                sorts=keys,
            )  # fmt: skip
            return tuple(made) or (None,) * len(learnt)

        learnt = [one for one in tensors_of(arguments) if one.requires_grad]
        learnt = learnt or [given["indices"]]
        # Its name is that of the op in the profile.
        methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        function: Any = type(name, (torch.autograd.Function,), methods)
        looked_up: torch.Tensor = function.apply(*learnt)
        return looked_up


def _result(given: dict[str, Any]) -> tuple[tuple[int, ...], torch.dtype]:
    """The sizes and the type of what a lookup returns."""
    dtype = _TYPES.get(given["output_dtype"])
    if dtype is None:
        raise EstimateError(
            f"{place.of_caller()}: an FBGEMM lookup with results of type "
            f"{given['output_dtype']}; give `output_dtype` fp32, fp16 or bf16"
        )
    if given.get("max_B", -1) > 0:
        raise EstimateError(
            f"{place.of_caller()}: an FBGEMM lookup with a batch size for each feature "
            "cannot be estimated; give all features one batch size"
        )
    if given["pooling_mode"] == _NO_POOLING:
        return (given["indices"].numel(), given["max_D"]), dtype
    tables = given["D_offsets"].numel() - 1
    return ((given["offsets"].numel() - 1) // tables, given["total_D"]), dtype
