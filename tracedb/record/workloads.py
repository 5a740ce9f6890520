"""The models to record by name, with their batch sizes.

Each exists in its full size, for a GPU, and small, to test every path on a CPU. Batches
are made before the first step, so that this is not measured, unless the training uses a
loader; a step copies the next one to the device.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from .dlrm import (
    DLRM,
    DLRM_DDP,
    DLRM_DEFAULT,
    DLRM_MLPERF,
    RMC1,
    RMC2,
    RMC3,
    DLRMConfig,
    loss_function,
    random_batch,
)
from .training import Examples, Training, training_step
from .transformer import Sentences, Transformer, TransformerConfig
from .vision import Images, inception, resnet

_BATCHES = 4
_RECOMMENDER_SIZES = (512, 1024, 2048, 4096)
_MLPERF_ROWS = 2_000_000
"""MLPerf's tables are capped at this, so that they fit next to their gradients."""

_SMALL = TransformerConfig(2, 32, 2, 64, words=50, length=8)


@dataclass(frozen=True)
class Parts:
    """A model, its loss, and a function that makes batches of a size."""

    model: nn.Module
    loss: nn.Module
    batch: Callable[[int], Examples]

    def batches(self, size: int, workers: int | None) -> Iterator[Examples]:
        """Yield batches endlessly: a few in turn, or those of a loader."""
        if workers is None:
            return cycle([self.batch(size) for _ in range(_BATCHES)])
        # Forked workers need not pickle the function that makes batches.
        context = "fork" if workers else None
        return iter(
            DataLoader(
                _Made(self.batch, size),
                batch_size=None,
                num_workers=workers,
                multiprocessing_context=context,
            )
        )


@dataclass(frozen=True)
class _Made(Dataset[Examples]):
    """Batches that are made on demand."""

    make: Callable[[int], Examples]
    size: int

    def __len__(self) -> int:
        """More than any recording reads."""
        return 1_000_000

    def __getitem__(self, index: int) -> Examples:
        """Make a batch."""
        del index
        return self.make(self.size)


@dataclass(frozen=True)
class Workload:
    """A model to record, with its batch sizes."""

    about: str
    batch_sizes: tuple[int, ...]
    make: Callable[[bool], Parts]
    """Makes the parts; the argument selects the small size."""

    def step(
        self,
        batch_size: int,
        *,
        device: str | torch.device = "cpu",
        training: Training | None = None,
        small: bool = False,
    ) -> Callable[[], float | Tensor]:
        """Make the function of one training step, its model on the device."""
        how = training or Training()
        torch.manual_seed(0)
        with torch.device(device):
            parts = self.make(small)
        batches = parts.batches(batch_size, how.workers)
        return training_step(
            parts.model, parts.loss, batches, device=device, training=how
        )


def _dlrm(config: DLRMConfig, **changes: Any) -> Callable[[bool], Parts]:  # noqa: ANN401
    def make(small: bool) -> Parts:  # noqa: FBT001 (as Workload calls it)
        chosen = replace(config, **changes)
        if small:
            chosen = replace(chosen.capped(100), lookups=min(chosen.lookups, 4))
        return Parts(
            DLRM(chosen), loss_function(chosen), lambda size: random_batch(chosen, size)
        )

    return make


def _recommender(about: str, config: DLRMConfig, **changes: Any) -> Workload:  # noqa: ANN401
    return Workload(about, _RECOMMENDER_SIZES, _dlrm(config, **changes))


def _resnet(small: bool) -> Parts:  # noqa: FBT001
    model = resnet((1, 1, 1, 1), 8, 10) if small else resnet()
    return _classifier(model, 32 if small else 224, 10 if small else 1000)


def _inception(small: bool) -> Parts:  # noqa: FBT001
    model = inception((1, 1, 1), 16, 10) if small else inception()
    return _classifier(model, 75 if small else 299, 10 if small else 1000)


def _classifier(model: nn.Module, side: int, classes: int) -> Parts:
    loss = nn.CrossEntropyLoss()
    return Parts(model, loss, lambda size: Images.random(size, side, classes))


def _transformer(small: bool) -> Parts:  # noqa: FBT001
    config = _SMALL if small else TransformerConfig()
    loss = nn.CrossEntropyLoss()
    return Parts(Transformer(config), loss, lambda size: Sentences.random(size, config))


WORKLOADS: Mapping[str, Workload] = {
    "dlrm_default": _recommender("DLRM_default of Lin et al.", DLRM_DEFAULT),
    "dlrm_mlperf": _recommender(
        f"DLRM_MLPerf, tables cut to {_MLPERF_ROWS:,} rows",
        DLRM_MLPERF.capped(_MLPERF_ROWS),
    ),
    "dlrm_ddp": _recommender(
        "DLRM_DDP on one GPU, with dense gradients",
        DLRM_DDP,
        sparse_gradients=False,
    ),
    "dlrm_ddp_batched": _recommender(
        "the same with all tables in one",
        DLRM_DDP,
        batched_tables=True,
        sparse_gradients=False,
    ),
    "rmc1": _recommender("RMC1 of Gupta et al.", RMC1),
    "rmc2": _recommender("RMC2", RMC2),
    "rmc3": _recommender("RMC3", RMC3),
    "resnet50": Workload("ResNet-50", (16, 32, 64, 128), _resnet),
    "inception": Workload("like Inception-v3", (16, 32, 64, 128), _inception),
    "transformer": Workload("Transformer base, 64 words", (64, 128, 256), _transformer),
}
