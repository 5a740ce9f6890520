"""Tensors to measure with: random values of the case's dtype on its device."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..case import Case
from ..errors import UnsupportedError

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int8": torch.int8,
}

_DRAWN = 2**20
_Op = TypeVar("_Op")


@dataclass(frozen=True)
class Maker:
    """Makes the tensors of one case."""

    device: torch.device
    dtype: torch.dtype

    @classmethod
    def of(cls, case: Case, device: torch.device) -> "Maker":
        """Make one for a case, and set its precision of matrix products globally."""
        if case.dtype not in DTYPES:
            raise UnsupportedError(f"{case.family}: PyTorch has no plain {case.dtype}")
        torch.backends.cuda.matmul.allow_tf32 = case.dtype == "tf32"
        torch.backends.cudnn.allow_tf32 = case.dtype == "tf32"
        return cls(device, DTYPES[case.dtype])

    def random(self, *shape: int) -> Tensor:
        """Make a tensor of random values, because kernels are faster with zeros."""
        if self.dtype is torch.int8:
            return torch.randint(-99, 99, shape, dtype=self.dtype, device=self.device)
        made = torch.empty(shape, dtype=self.dtype, device=self.device)
        for part in torch.split(made.view(-1), _DRAWN):
            part.copy_(_drawn(self.dtype, self.device)[: len(part)])
        return made

    def learnt(self, *shape: int) -> Tensor:
        """Make a random tensor that requires a gradient."""
        return self.random(*shape).requires_grad_()

    def indices(self, below: int, *shape: int) -> Tensor:
        """Make random indices."""
        return torch.randint(below, shape, device=self.device)


@lru_cache(maxsize=4)
def _drawn(dtype: torch.dtype, device: torch.device) -> Tensor:
    """Draw values once, because drawing takes longer than most timed work."""
    return torch.empty(_DRAWN, dtype=dtype, device=device).normal_()


def op_of(case: Case, ops: Mapping[str, _Op]) -> _Op:
    """Find the op of a case in the table of its family."""
    if case.op not in ops:
        raise UnsupportedError(
            f"{case.family}: no op {case.op}; available: {', '.join(ops)}"
        )
    return ops[case.op]


def gradient(result: Tensor, *inputs: Tensor) -> Callable[[], object]:
    """Make the work of a backward pass: the gradients of the inputs, at each call.

    If a single op made the result, its backward function is called without autograd's
    engine, which on a CPU takes longer than small gradients and is not part of the op.
    """
    flow = torch.rand_like(result)
    node: Any = result.grad_fn
    if not all(_is_end(following) for following, _ in node.next_functions):
        return lambda: torch.autograd.grad(result, inputs, flow, retain_graph=True)
    flows: list[Tensor | None] = [None] * len(node._input_metadata)  # noqa: SLF001 (it has no public name)
    flows[result.output_nr] = flow

    def work() -> object:
        with torch.no_grad():
            found = node(*flows)
        found = found if isinstance(found, tuple) else (found,)
        return tuple(each for each in found if each is not None)

    return work


def _is_end(node: object) -> bool:
    """Whether a node of the backward pass only accumulates a gradient."""
    return node is None or "AccumulateGrad" in type(node).__name__
