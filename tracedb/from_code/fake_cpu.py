"""A machine without a GPU: code finds none, and CPU ops are dispatched."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._higher_order_ops.flex_attention import sdpa_dense
from torch.nn import functional
from torch.nn.attention import flex_attention

from tracedb.errors import EstimateError
from tracedb.from_code import place
from tracedb.from_code.attention import Attention
from tracedb.from_code.changed import changed
from tracedb.from_code.fake_gpu import (
    FakeGpu,
    converted_in_place,
    is_gpu,
    python_functions,
    staying,
    with_foreach,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracedb.from_code.recorder import Recorder

_PLAIN = (torch.dropout, functional.dropout)
"""Functions that have an op of their own on a GPU, but not on a CPU."""

_FLEXIBLE = {
    "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG": True,
    "flex_attention_hop": sdpa_dense,
}
"""Flex attention by the ops to which it is compiled for a CPU without a compiler."""


class FakeCpu(FakeGpu):
    """Answers as PyTorch does where there is no GPU."""

    def __init__(self, recorder: Recorder) -> None:
        """Take the recorder of ops."""
        super().__init__(recorder)
        for function in _PLAIN:
            del self._own[function]

    def device(self, tensor: torch.Tensor, *_: object) -> torch.device:
        """All tensors are on the CPU."""
        del tensor
        return torch.device("cpu")

    def _is_on_gpu(self, tensor: torch.Tensor, *_: object) -> bool:
        del tensor
        return False

    def _stays_on_host(self, device: object) -> bool:
        """The host is the device."""
        del device
        return False

    def _names(self, device: object) -> bool:
        """Raise `EstimateError` for a GPU; every other device is the CPU."""
        if is_gpu(device):
            raise EstimateError(
                f"{place.of_caller()}: it asks for a GPU, and is estimated on a CPU; "
                "let it ask torch.cuda.is_available()"
            )
        return True

    def _to(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ANN401
        """Convert the type; there is no other device."""
        for named in (*args, *kwargs.values()):
            self._names(named)
        found: torch.Tensor = tensor.to(*args, **kwargs)
        return found

    def attention(self, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ANN401
        """Dispatch the ops of the CPU's attention."""
        made: torch.Tensor = Attention(*args, **kwargs).cast().on_cpu()
        return made


@contextmanager
def absent(cpu: FakeCpu) -> Iterator[None]:
    """Make PyTorch find no GPU within the block."""
    cuda = {"is_available": lambda: False, "device_count": lambda: 0}
    # Python code calls it by this name, which bypasses the function mode.
    called = python_functions(scaled_dot_product_attention=cpu.attention)
    with ExitStack() as stack:
        stack.enter_context(changed(torch.cuda, cuda))
        stack.enter_context(changed(nn.Module, {"_apply": converted_in_place}))
        stack.enter_context(called)
        stack.enter_context(changed(flex_attention, _FLEXIBLE))
        stack.enter_context(staying())
        stack.enter_context(with_foreach())
        yield
