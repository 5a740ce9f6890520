"""Training throughput of NVIDIA's DLRM, estimated from code beside what they published.

    python benchmarks/dlrm_training.py PUBLISHED.csv --write docs/ranks.md

takes NVIDIA's rows (gpu, gpus, model, batch_size_per_gpu, precision, samples_per_s) and
writes a section of the page. On several GPUs tables are whole, and spread as
`tracedb shard` plans it; the rank that is estimated is the one that the plan expects to
be slowest. Sums and their gradients go all to all, the rest is data parallel.
"""

from __future__ import annotations

import csv
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from estimate import estimated, perceptron
from pages import filled, parser, publish_section, table
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import tracedb
from tracedb.sharding.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable

TITLE = "## NVIDIA's DLRM: training throughput"
_WIDTH, _NUMBERS, _RATE = 128, 13, 0.1
_GOAL = 0.2
# Rows of the tables of Criteo Terabyte: values that occur 15 times and more, as HugeCTR
# lists them for DLRM, and MLPerf's, which stand for NVIDIA's large ones.
_SMALL = (
    *(7912889, 33823, 17139, 7339, 20046, 4, 7105, 1382, 63, 5554114, 582469, 245828),
    *(11, 2209, 10667, 104, 4, 968, 15, 8165896, 2675940, 7156453, 302516, 12022),
    *(97, 35),
)
_LARGE = (
    *(39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546),
    *(403346, 10, 2208, 11938, 155, 4, 976, 14, 39979771, 25641295, 39664984),
    *(585935, 12972, 108, 36),
)
_ROWS = {"small": _SMALL, "large": _LARGE}
HOW = """\
{count} rows published by NVIDIA for its DLRM (PyTorch, CUDA graphs). The model is a
reimplementation, estimated only from its code, and nothing is tuned to it: 26 tables of
width 128 in one per rank, pairwise products by `bmm` and their triangle by an index;
the rows looked up are updated by `index_add_` (SGD); mixed precision is autocast with a
constant loss scale; the whole step is one CUDA graph, and indices are on the GPU when
it starts. Table sizes are those of Criteo Terabyte, as HugeCTR lists them for values
that occur 15 times (`small`); MLPerf's sizes represent NVIDIA's `large` ones.
Throughput is that of all GPUs. The median absolute error is {error:.0%}, {within} of
{count} are within 20 %.
"""


class Row(NamedTuple):
    """What was published."""

    gpu: str
    gpus: int
    model: str
    batch: int
    precision: str
    samples_per_second: float


class Exchange(torch.autograd.Function):
    """Sums of a rank's tables for all examples become those of all for its own."""

    @staticmethod
    def forward(ctx: Any, sums: torch.Tensor, counts: list[int]) -> torch.Tensor:  # noqa: ANN401
        """Send to each rank those of its examples."""
        ranks, batch = len(counts), sums.shape[0] // len(counts)
        ctx.counts = counts
        made = sums.new_empty(batch * sum(counts) * _WIDTH)
        got = [batch * count * _WIDTH for count in counts]
        sent = [sums.numel() // ranks] * ranks
        distributed.all_to_all_single(made, sums.flatten(), got, sent)
        parts = torch.split(made, got)
        return torch.cat([part.view(batch, -1, _WIDTH) for part in parts], 1)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # noqa: ANN401
        """Send back what is of each rank's tables."""
        counts, batch = ctx.counts, gradient.shape[0]
        sent = [batch * count * _WIDTH for count in counts]
        given = torch.cat([part.flatten() for part in torch.split(gradient, counts, 1)])
        own = counts[distributed.get_rank()]
        made = gradient.new_empty(batch * len(counts) * own * _WIDTH)
        got = [made.numel() // len(counts)] * len(counts)
        distributed.all_to_all_single(made, given, got, sent)
        return made.view(-1, own, _WIDTH), None


class Lookup(torch.autograd.Function):
    """Rows of a table, which are updated as soon as their gradients are known."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, weight: Any) -> torch.Tensor:  # noqa: ANN401
        """Look up."""
        ctx.rows, ctx.weight = rows, weight
        return nn.functional.embedding(rows, weight.detach())

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # noqa: ANN401
        """Take a step of SGD."""
        flat = gradient.reshape(-1, _WIDTH).float()
        ctx.weight.data.index_add_(0, ctx.rows.flatten(), flat, alpha=-_RATE)
        return None, None


class Recommender(nn.Module):
    """DLRM, of which a rank has some tables; a zero evens the number of products."""

    def __init__(self, rows: list[int], counts: list[int]) -> None:
        """Make it of tables of so many rows; each rank has so many of them."""
        super().__init__()
        self.counts = counts
        self.weight = nn.Parameter(torch.empty(sum(rows), _WIDTH))
        begins = [0, *accumulate(rows)][:-1]
        self.begins: torch.Tensor
        self.pairs: torch.Tensor
        self.register_buffer("begins", torch.tensor(begins))
        vectors = sum(counts) + 1
        self.register_buffer("pairs", torch.tril_indices(vectors, vectors, -1))
        self.bottom: nn.Module = perceptron(_NUMBERS, 512, 256, _WIDTH)
        many = vectors * (vectors - 1) // 2
        self.top: nn.Module = nn.Sequential(
            *perceptron(_WIDTH + many + 1, 1024, 1024, 512, 256), nn.Linear(256, 1)
        )

    def shared(self) -> None:
        """Average the gradients of all but the tables."""
        self.bottom = DistributedDataParallel(self.bottom)
        self.top = DistributedDataParallel(self.top)

    def forward(self, numbers: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Rate each example."""
        # Autograd has to come by, though the table itself is no input.
        rows = rows + self.begins
        looked_up = Lookup.apply(rows, self.weight)  # type: ignore[no-untyped-call]
        looked_up = looked_up.requires_grad_()
        if torch.is_autocast_enabled("cuda"):
            looked_up = looked_up.half()
        if len(self.counts) > 1:
            looked_up = Exchange.apply(looked_up, self.counts)  # type: ignore[no-untyped-call]
        dense = self.bottom(numbers)
        vectors = torch.cat([dense.unsqueeze(1), looked_up], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        chosen = products[:, self.pairs[0], self.pairs[1]]
        zeros = chosen.new_zeros(len(chosen), 1)
        rated: torch.Tensor = self.top(torch.cat([dense, chosen, zeros], 1))
        return rated


def spread(row: Row) -> tuple[list[int], list[int]]:
    """The rows of a rank's tables, and how many tables each rank has, it first."""
    rows = list(_ROWS[row.model])
    if row.gpus == 1:
        return rows, [len(rows)]
    tables = [
        Table(f"t{n}", size, _WIDTH, 1.0, "float32") for n, size in enumerate(rows)
    ]
    plan = tracedb.shard(
        tables, ranks=row.gpus, gpu=row.gpu, batch=row.batch, split="none",
        optimizer="sgd", indices="there",
    )  # fmt: skip
    placed: dict[int, list[int]] = {rank: [] for rank in range(row.gpus)}
    for shard in plan.of_best(plan.tables).iter_rows(named=True):
        placed[shard["rank"]].append(shard["rows"])
    costs = plan.of_best(plan.ranks).rows(named=True)
    slowest = max(costs, key=lambda rank: rank["forward_ns"] + rank["backward_ns"])
    own = placed.pop(slowest["rank"])
    return own, [len(own), *map(len, placed.values())]


def training(row: Row, rows: list[int], counts: list[int]) -> Callable[[], None]:
    """A step of the rank, which makes its process group where there are several."""
    if row.gpus > 1:
        distributed.init_process_group("nccl", world_size=row.gpus, rank=0)
    model = Recommender(rows, counts).cuda()
    if row.gpus > 1:
        model.shared()
    dense = [p for p in model.parameters() if p is not model.weight]
    optimizer = torch.optim.SGD(dense, lr=_RATE)
    numbers = torch.ones(row.batch, _NUMBERS, device="cuda")
    looked_up = torch.zeros(
        row.batch * row.gpus, len(rows), dtype=torch.long, device="cuda"
    )
    clicks = torch.ones(row.batch, 1, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16, enabled=row.precision == "amp"):
            rated = model(numbers, looked_up).float()
        loss = nn.functional.binary_cross_entropy_with_logits(rated, clicks)
        torch.autograd.backward(loss * 1024)
        optimizer.step()

    return step


def step_of(row: Row) -> tracedb.Estimate:
    """The step from its code, as one CUDA graph."""
    rows, counts = spread(row)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = row.precision != "fp32"
    try:
        ranks = row.gpus if row.gpus > 1 else None
        return estimated(
            lambda: training(row, rows, counts), row.gpu, cuda_graph=True, ranks=ranks
        )
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def section(path: Path) -> str:
    """The section."""
    with path.open() as file:
        rows = [
            Row(r["gpu"], int(r["gpus"]), r["model"], int(r["batch_size_per_gpu"]),
                r["precision"], float(r["samples_per_s"]))
            for r in csv.DictReader(file)
        ]  # fmt: skip
    cells, errors = [], []
    for row in rows:
        found = step_of(row)
        examples = row.batch * row.gpus
        rate = examples / found.step_ns * 1e9
        errors.append(rate / row.samples_per_second - 1)
        published = 1e3 * examples / row.samples_per_second
        cells.append(
            [row.gpu, f"{row.gpus}", row.model, f"{row.batch:,}", row.precision,
             f"{published:.2f}", f"{found.step_ns / 1e6:.2f}",
             f"{row.samples_per_second / 1e6:.2f}", f"{rate / 1e6:.2f}",
             f"{errors[-1]:+.0%}"]
        )  # fmt: skip
    head = [
        *("GPU", "GPUs", "model", "batch of a GPU", "precision"),
        *("step, published [ms]", "estimated [ms]"),
        *("published [M/s]", "estimated [M/s]", "error"),
    ]
    within = sum(abs(error) <= _GOAL for error in errors)
    facts = {"count": len(rows), "within": within, "error": median(map(abs, errors))}
    how = filled(HOW.strip(), **facts)
    return "\n".join([TITLE, "", how, "", *table(head, cells, texts=head[:5]), ""])


def main() -> None:
    """Estimate all, and write the section."""
    given = parser(__doc__)
    given.add_argument("published", type=Path, metavar="CSV")
    asked = given.parse_args()
    publish_section(section(asked.published), asked.write)


if __name__ == "__main__":
    main()
