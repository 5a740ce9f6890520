"""The deep learning recommendation model of Naumov et al. (2019), to be recorded.

The layout is that of the open-source DLRM: a bottom MLP over the dense features, one
summing EmbeddingBag per table, the dot products of all pairs of features (bmm, then
the lower triangle), a top MLP that ends in a sigmoid.
"""

from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Literal, NamedTuple, Self, Unpack, cast

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from .recording import Counts, Recording, record
from .training import training_step


@dataclass(frozen=True)
class DLRMConfig:
    """The sizes of a DLRM, in the notation of its papers.

    `bottom_mlp` begins with the number of dense features and ends with
    `embedding_dim`; `top_mlp` leaves out its input, which follows from the rest.
    """

    bottom_mlp: tuple[int, ...]
    top_mlp: tuple[int, ...]
    table_rows: tuple[int, ...]
    embedding_dim: int
    lookups: int
    loss: Literal["mse", "bce"] = "bce"
    sparse_gradients: bool = True
    batched_tables: bool = False
    """Whether all tables are stored as one, so that a single op looks up in all."""

    def __post_init__(self) -> None:
        """Refuse sizes that do not fit together."""
        if self.bottom_mlp[-1] != self.embedding_dim:
            message = (
                f"The bottom MLP ends in {self.bottom_mlp[-1]} but embedding_dim is "
                f"{self.embedding_dim}: the interaction needs them equal."
            )
            raise ValueError(message)

    @property
    def interaction_width(self) -> int:
        """Width of the top MLP's input: the dense vector and one dot per pair."""
        features = len(self.table_rows) + 1
        return self.embedding_dim + features * (features - 1) // 2

    def capped(self, max_rows: int) -> Self:
        """Shorten the tables to `max_rows`, so that the model fits a machine."""
        return replace(
            self, table_rows=tuple(min(n, max_rows) for n in self.table_rows)
        )


# The three workloads of Lin et al. (2022), as their scripts give them.
DLRM_DEFAULT = DLRMConfig(
    bottom_mlp=(512, 512, 64),
    top_mlp=(1024, 1024, 1024, 1),
    table_rows=(1_000_000,) * 8,
    embedding_dim=64,
    lookups=100,
    loss="mse",
)
# Rows of Criteo Terabyte at max-ind-range 40M (MLPerf). The tables take 91 GiB: the
# paper's own runs on 16 GB GPUs must have had fewer rows, use `capped`.
DLRM_MLPERF = DLRMConfig(
    bottom_mlp=(13, 512, 256, 128),
    top_mlp=(1024, 1024, 512, 256, 1),
    table_rows=(
        *(39_884_406, 39_043, 17_289, 7_420, 20_263, 3, 7_120, 1_543, 63),
        *(38_532_951, 2_953_546, 403_346, 10, 2_208, 11_938, 155, 4, 976, 14),
        *(39_979_771, 25_641_295, 39_664_984, 585_935, 12_972, 108, 36),
    ),
    embedding_dim=128,
    lookups=1,
)
DLRM_DDP = DLRMConfig(
    bottom_mlp=(128, 128, 128, 128),
    top_mlp=(512, 512, 512, 256, 1),
    table_rows=(80_000,) * 8,
    embedding_dim=128,
    lookups=10,
)
# The open presets of Gupta et al. (2020), as DeepRecSys has them.
RMC1 = DLRMConfig(
    bottom_mlp=(128, 64, 32),
    top_mlp=(256, 64, 1),
    table_rows=(4_000_000,) * 8,
    embedding_dim=32,
    lookups=80,
)
RMC2 = DLRMConfig(
    bottom_mlp=(256, 128, 64),
    top_mlp=(128, 64, 1),
    table_rows=(500_000,) * 32,
    embedding_dim=64,
    lookups=120,
)
RMC3 = DLRMConfig(
    bottom_mlp=(2560, 1024, 256, 32),
    top_mlp=(512, 256, 1),
    table_rows=(2_000_000,) * 10,
    embedding_dim=32,
    lookups=20,
)
# A small configuration for sample traces and tests.
DLRM_SAMPLE = DLRMConfig(
    bottom_mlp=(16, 64, 32),
    top_mlp=(64, 32, 1),
    table_rows=(1_000, 500, 200, 100),
    embedding_dim=32,
    lookups=4,
)


class Batch(NamedTuple):
    """A batch; `indices` and `offsets` have one entry per table."""

    dense: Tensor
    indices: list[Tensor]
    offsets: list[Tensor]
    labels: Tensor

    @property
    def inputs(self) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The inputs of the model."""
        return self.dense, self.indices, self.offsets

    @property
    def target(self) -> Tensor:
        """The labels."""
        return self.labels

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors of the batch."""
        return self.dense, *self.indices, *self.offsets, self.labels

    def to(self, device: torch.device) -> "Batch":
        """Copy the batch to a device; nothing is copied if it is there already."""
        return Batch(
            self.dense.to(device),
            [index.to(device) for index in self.indices],
            [offset.to(device) for offset in self.offsets],
            self.labels.to(device),
        )


def random_batch(
    config: DLRMConfig, size: int, generator: torch.Generator | None = None
) -> Batch:
    """Make one batch of random features and clicks."""
    dense = torch.rand(size, config.bottom_mlp[0], generator=generator)
    lookups = size * config.lookups
    indices = [
        torch.randint(rows, (lookups,), generator=generator)
        for rows in config.table_rows
    ]
    offsets = [torch.arange(0, lookups, config.lookups) for _ in indices]
    labels = torch.randint(2, (size, 1), generator=generator).float()
    return Batch(dense, indices, offsets, labels)


class _RandomBatches(Dataset[Batch]):
    """A data set of random batches; the same index always gives the same batch."""

    def __init__(self, config: DLRMConfig, batch_size: int, length: int) -> None:
        """Take the sizes of batches, which are made on demand."""
        self.config, self.batch_size, self.length = config, batch_size, length

    def __len__(self) -> int:
        """Count the batches."""
        return self.length

    def __getitem__(self, index: int) -> Batch:
        """Make the batch of this index."""
        generator = torch.Generator().manual_seed(index)
        return random_batch(self.config, self.batch_size, generator)


def random_loader(
    config: DLRMConfig, batch_size: int, *, rank: int = 0, world_size: int = 1
) -> DataLoader[Batch]:
    """Make a DataLoader of one rank's random batches, more than a recording reads."""
    batches = _RandomBatches(config, batch_size, length=100_000)
    sampler: DistributedSampler[Batch] = DistributedSampler(
        batches, world_size, rank, shuffle=False
    )
    return DataLoader(batches, batch_size=None, sampler=sampler)


class DLRM(nn.Module):
    """A DLRM: probabilities of a click from dense features and table lookups."""

    pairs: Tensor
    first: Tensor

    def __init__(self, config: DLRMConfig) -> None:
        """Build the layers that `config` describes."""
        super().__init__()
        self.bottom = _mlp(config.bottom_mlp, nn.ReLU())
        rows = config.table_rows
        together = (sum(rows),) if config.batched_tables else rows
        self.tables = nn.ModuleList(_table(count, config) for count in together)
        # The offset of each table in the combined one.
        first = torch.tensor([0, *accumulate(rows)][:-1])
        self.register_buffer("first", first, persistent=False)
        self.top = _mlp((config.interaction_width, *config.top_mlp), nn.Sigmoid())
        features = len(config.table_rows) + 1
        pairs = torch.tril_indices(features, features, offset=-1)
        self.register_buffer("pairs", pairs, persistent=False)

    def forward(
        self, dense: Tensor, indices: list[Tensor], offsets: list[Tensor]
    ) -> Tensor:
        """Predict one probability per sample."""
        x = self.bottom(dense)
        is_batched = len(self.tables) < len(indices)
        look_up = self._look_up_at_once if is_batched else self._look_up
        return cast("Tensor", self.top(self.interact(x, look_up(indices, offsets))))

    def _look_up(self, indices: list[Tensor], offsets: list[Tensor]) -> list[Tensor]:
        """Look up table by table."""
        return [
            table(index, offset)
            for table, index, offset in zip(self.tables, indices, offsets, strict=True)
        ]

    def _look_up_at_once(
        self, indices: list[Tensor], offsets: list[Tensor]
    ) -> list[Tensor]:
        """Look up in the combined table; all tables have equally many lookups."""
        (table,) = self.tables
        rows = torch.stack(indices) + self.first[:, None]
        begins = torch.stack(offsets) + len(indices[0]) * torch.arange(
            len(offsets), device=rows.device
        ).unsqueeze(1)
        found: Tensor = table(rows.flatten(), begins.flatten())
        return list(found.view(len(indices), len(offsets[0]), -1))

    def interact(self, x: Tensor, looked_up: list[Tensor]) -> Tensor:
        """Concatenate `x` and the dot products of all pairs of feature vectors."""
        batch, dim = x.shape
        vectors = torch.cat([x, *looked_up], dim=1).view(batch, -1, dim)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        row, column = self.pairs
        return torch.cat([x, products[:, row, column]], dim=1)


def random_model(config: DLRMConfig, seed: int = 0) -> DLRM:
    """Make a DLRM with random weights from a seed."""
    torch.manual_seed(seed)
    return DLRM(config)


def _mlp(widths: tuple[int, ...], last: nn.Module) -> nn.Sequential:
    """Stack linear layers with ReLU between them and `last` at the end."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1], last)


def _table(rows: int, config: DLRMConfig) -> nn.EmbeddingBag:
    """Make one embedding table, initialised as in the open-source DLRM."""
    bound = rows**-0.5
    weight = torch.empty(rows, config.embedding_dim).uniform_(-bound, bound)
    return nn.EmbeddingBag.from_pretrained(
        weight, freeze=False, mode="sum", sparse=config.sparse_gradients
    )


def loss_function(config: DLRMConfig) -> nn.Module:
    """The loss function of the configuration."""
    return nn.MSELoss() if config.loss == "mse" else nn.BCELoss()


def record_dlrm(
    out_dir: str | Path,
    config: DLRMConfig = DLRM_SAMPLE,
    *,
    name: str = "dlrm",
    batch_size: int = 128,
    device: str | torch.device = "cpu",
    **counts: Unpack[Counts],
) -> Recording:
    """Record training steps of a DLRM on random batches, in this process."""
    model = random_model(config).to(device)
    batches = iter(random_loader(config, batch_size))
    step = training_step(model, loss_function(config), batches, device=device)
    return record(step, out_dir, name=name, device=device, **counts)
