"""What fused embedding bags gain, estimated from torchrec's modules beside its figures.

    python benchmarks/fused_lookups.py GRID.csv DIVIDED.csv --write docs/estimate.md

GRID.csv has torchrec's speedups of a `FusedEmbeddingBagCollection` over an
`EmbeddingBagCollection` (num_tables, num_embeddings, embedding_dim,
speedup_fused_over_ebc), DIVIDED.csv the seconds of ten steps of both with the tables of
MLPerf's DLRM, the largest of them divided (divided_by, ebc_s, fused_s). It needs
torchrec and FBGEMM (`pip install torchrec fbgemm-gpu-cpu`), whose real modules are
estimated; the steps are those that torchrec describes: 64 examples with 64 lookups in
each table, SGD, a V100 with 16 GB.
"""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from estimate import estimated
from pages import filled, parser, publish_section, table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TITLE = "## How good fused embedding bags are"
_GPU = "V100"
_EXAMPLES, _LOOKUPS, _RATE = 64, 64, 0.02
_STEPS_OF_AN_EPOCH = 10
_TABLES, _ROWS, _WIDTHS = (10, 100), (4, 256, 8192), (4, 32, 128)
_GOAL = 0.25
# Rows of the tables of MLPerf's DLRM, of which torchrec divides those of ten million.
_MLPERF = (
    *(45833188, 36746, 17245, 7413, 20243, 3, 7114, 1441, 62, 29275261, 1572176),
    *(345138, 10, 2209, 11267, 128, 4, 974, 14, 48937457, 11316796, 40094537),
    *(452104, 12606, 104, 35),
)
_DIVIDED_FROM = 10_000_000
_MLPERF_WIDTH = 128
HOW = """\
torchrec published how much faster its fused embedding bags (FBGEMM) train than
`nn.EmbeddingBag`s. Both are estimated here from torchrec's own modules with a step like
the published one: {examples} examples with {lookups} lookups in each table, SGD,
gradients set to zero as before PyTorch 2.0. Nothing is tuned to the figures, and the
host is the shipped library's. Of {count} gains, {within} are within 25 %; the median
absolute error is {error:.0%}. Most of these steps are as fast as the host, whose share
is the same for tables of any size.
"""


def training(rows: Sequence[int], width: int, *, is_fused: bool) -> Callable[[], None]:
    """A step of tables of so many rows."""
    from torchrec.modules.embedding_configs import EmbeddingBagConfig
    from torchrec.modules.embedding_modules import EmbeddingBagCollection
    from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection
    from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

    names = [f"t{ordinal}" for ordinal in range(len(rows))]
    tables = [
        EmbeddingBagConfig(
            name=name, embedding_dim=width, num_embeddings=size, feature_names=[name]
        )
        for name, size in zip(names, rows, strict=True)
    ]
    cuda = torch.device("cuda")
    optimizer = None
    if is_fused:
        model: Any = FusedEmbeddingBagCollection(
            tables, torch.optim.SGD, {"lr": _RATE}, device=cuda
        )
    else:
        model = EmbeddingBagCollection(tables=tables, device=cuda)
        optimizer = torch.optim.SGD(model.parameters(), lr=_RATE)
    lengths = torch.full((len(rows) * _EXAMPLES,), _LOOKUPS, dtype=torch.int32)
    values = torch.zeros(len(rows) * _EXAMPLES * _LOOKUPS, dtype=torch.long)
    batch = KeyedJaggedTensor.from_lengths_sync(names, values, lengths)

    def step() -> None:
        sums = model(batch.to(cuda)).to_dict()
        if optimizer is not None:
            # As was the default before PyTorch 2.0.
            optimizer.zero_grad(set_to_none=False)
        torch.autograd.backward(torch.cat(list(sums.values()), 1).sum())
        if optimizer is not None:
            optimizer.step()

    return step


def estimated_ms(rows: Sequence[int], width: int, *, is_fused: bool) -> float:
    """[ms] The step from its code."""
    found = estimated(lambda: training(rows, width, is_fused=is_fused), _GPU)
    return found.step_ns / 1e6


def grid(path: Path) -> tuple[list[list[str]], list[float]]:
    """A row and an error for each of the gains that are compared."""
    with path.open() as file:
        gains = {
            (int(r["num_tables"]), int(r["num_embeddings"]), int(r["embedding_dim"])): (
                float(r["speedup_fused_over_ebc"])
            )
            for r in csv.DictReader(file)
        }
    cells, errors = [], []
    for tables in _TABLES:
        for rows in _ROWS:
            for width in _WIDTHS:
                plain = estimated_ms([rows] * tables, width, is_fused=False)
                fused = estimated_ms([rows] * tables, width, is_fused=True)
                true = gains[tables, rows, width]
                errors.append(plain / fused / true - 1)
                cells.append(
                    [f"{tables}", f"{rows:,}", f"{width}", f"{plain:.2f}",
                     f"{fused:.2f}", f"{true:.1f}", f"{plain / fused:.1f}",
                     f"{errors[-1]:+.0%}"]
                )  # fmt: skip
    return cells, errors


def divided(path: Path) -> list[list[str]]:
    """A row for each published pair of times."""
    cells = []
    with path.open() as file:
        published = list(csv.DictReader(file))
    for row in published:
        by = int(row["divided_by"])
        rows = [size // by if size >= _DIVIDED_FROM else size for size in _MLPERF]
        cell = [f"{by}"]
        for name, is_fused in (("ebc_s", False), ("fused_s", True)):
            true = 1e3 * float(row[name]) / _STEPS_OF_AN_EPOCH
            found = estimated_ms(rows, _MLPERF_WIDTH, is_fused=is_fused)
            cell += [f"{true:.1f}", f"{found:.1f}", f"{found / true - 1:+.0%}"]
        cells.append(cell)
    return cells


def section(gains: Path, times: Path) -> str:
    """The section."""
    cells, errors = grid(gains)
    how = filled(
        HOW.strip(),
        examples=_EXAMPLES,
        lookups=_LOOKUPS,
        count=len(errors),
        within=sum(abs(error) <= _GOAL for error in errors),
        error=median(map(abs, errors)),
    )
    head = [
        *("tables", "rows", "width", "plain, estimated [ms]", "fused, estimated [ms]"),
        *("gain, published", "gain, estimated", "error"),
    ]
    second = [
        *("largest tables divided by", "plain, published [ms]", "estimated [ms]"),
        *("error", "fused, published [ms]", "estimated [ms]", "error"),
    ]
    between = "The tables of MLPerf's DLRM, width 128, a step:"
    parts = [*table(head, cells), "", between, "", *table(second, divided(times))]
    return "\n".join([TITLE, "", how, "", *parts, ""])


def main() -> None:
    """Estimate all, and write the section."""
    given = parser(__doc__)
    given.add_argument("gains", type=Path)
    given.add_argument("times", type=Path)
    asked = given.parse_args()
    publish_section(section(asked.gains, asked.times), asked.write)


if __name__ == "__main__":
    main()
