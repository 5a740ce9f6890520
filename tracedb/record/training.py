"""A training step of any model, in several variants."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

import torch
from torch import Tensor, nn, optim

_OPTIMIZERS: dict[str, Callable[..., optim.Optimizer]] = {
    "sgd": optim.SGD,
    "adam": optim.Adam,
}
_DTYPES = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
}
_BEFORE_CAPTURE = 3


@dataclass(frozen=True)
class Training:
    """How a model is trained."""

    optimizer: Literal["sgd", "adam"] = "sgd"
    implementation: Literal["default", "loop", "foreach", "fused"] = "default"
    """The optimizer's implementation: PyTorch's default, for-loop, foreach or fused."""
    dtype: Literal["float32", "tf32", "bfloat16"] = "float32"
    """The type of matrix products; bfloat16 is automatic mixed precision."""
    graph: bool = False
    """Whether the step is replayed as one CUDA graph."""
    reads_loss: bool = True
    """Whether each step calls `.item()` on its loss, and so waits for the GPU."""
    synchronizes: bool = False
    """Whether each step ends with a wait for the whole device."""
    workers: int | None = None
    """Loader processes; 0 makes batches in the step, None before the first step."""
    learning_rate: float = 0.1

    def make_optimizer(self, model: nn.Module) -> optim.Optimizer:
        """Make the optimizer of a model."""
        how: dict[str, Any] = {}
        if self.implementation == "loop":
            how["foreach"] = False
        elif self.implementation != "default":
            how[self.implementation] = True
        if self.graph and self.optimizer == "adam":
            how["capturable"] = True
        make = _OPTIMIZERS[self.optimizer]
        return make(model.parameters(), lr=self.learning_rate, **how)


class Examples(Protocol):
    """A batch: the inputs of a model, and the targets."""

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Arguments of the model."""

    @property
    def target(self) -> Tensor:
        """Second argument of the loss."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors of the batch."""

    def to(self, device: torch.device) -> Self:
        """Copy the batch to a device."""


def training_step(
    model: nn.Module,
    loss: nn.Module,
    batches: Iterator[Examples],
    *,
    device: str | torch.device = "cpu",
    training: Training | None = None,
) -> Callable[[], float | Tensor]:
    """Make the function of one training step: next batch in, loss out."""
    target, how = torch.device(device), training or Training()
    torch.backends.cuda.matmul.allow_tf32 = how.dtype == "tf32"
    optimizer = how.make_optimizer(model)

    def learn(batch: Examples) -> Tensor:
        optimizer.zero_grad()
        dtype, is_mixed = _DTYPES[how.dtype], how.dtype == "bfloat16"
        # Disable autocast's weight cache, which would be captured in the graph.
        with torch.autocast(target.type, dtype, is_mixed, cache_enabled=not how.graph):
            answer = model(*batch.inputs)
        error: Tensor = loss(answer.float() if is_mixed else answer, batch.target)
        torch.autograd.backward(error)
        optimizer.step()
        return error

    if how.graph:
        return _replay(learn, batches, target)

    def step() -> float | Tensor:
        error = learn(next(batches).to(target))
        if how.synchronizes and target.type == "cuda":
            torch.cuda.synchronize(target)
        return error.item() if how.reads_loss else error

    return step


def _replay(
    learn: Callable[[Examples], Tensor],
    batches: Iterator[Examples],
    device: torch.device,
) -> Callable[[], float]:
    """Capture the step as a CUDA graph; each call copies a batch in and replays it."""
    kept = next(batches).to(device)
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(_BEFORE_CAPTURE):
            learn(kept)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        error = learn(kept)

    def step() -> float:
        for old, new in zip(kept.tensors, next(batches).tensors, strict=True):
            old.copy_(new)
        graph.replay()
        return error.item()

    return step
