"""Compare estimates from code with published times, and time the estimates.

    python benchmarks/estimate.py PUBLISHED.csv

takes NVIDIA's latencies of DLRM on an A100 (columns gpu, precision, cuda_graphs,
batch_size, latency_s), estimates the same model written anew, and rewrites the part of
`docs/estimate.md` below "How good it is".
"""

from __future__ import annotations

import csv
import gc
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import process_time
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import tracedb
from tracedb.record.vision import resnet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = Path(__file__).parent.parent / "docs" / "estimate.md"
HEADING = "## How good it is\n"
_GPU = "A100-SXM4-80GB"
_DTYPES = {"amp": torch.float16, "tf32": torch.float32}
_BATCHES = (2, 64, 512, 2048, 8192, 32768)
_TABLES, _ROWS, _WIDTH = 26, 1_000_000, 128
_NUMBERS = 13
_PAIRS = (_TABLES + 1) * _TABLES // 2


@torch.library.custom_op("nvidia_dlrm::interact", mutates_args=())
def interact(vectors: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    """What NVIDIA's kernel does: the dense vector, products of all pairs, a zero."""
    raise NotImplementedError


@interact.register_fake
def _(vectors: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    return vectors.new_empty(len(dense), _WIDTH + _PAIRS + 1)


class Recommender(nn.Module):
    """NVIDIA's DLRM: one combined table, and dot products of all pairs of vectors."""

    def __init__(self) -> None:
        """Create it with 26 tables of equal length."""
        super().__init__()
        self.offsets: torch.Tensor
        self.tables = nn.Embedding(_TABLES * _ROWS, _WIDTH)
        self.bottom = perceptron(_NUMBERS, 512, 256, _WIDTH)
        self.top = perceptron(_WIDTH + _PAIRS + 1, 1024, 1024, 512, 256)
        self.last = nn.Linear(256, 1)
        self.register_buffer("offsets", _ROWS * torch.arange(_TABLES))

    def forward(self, numbers: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Rate each example."""
        dense = self.bottom(numbers)
        looked_up = self.tables(rows + self.offsets)
        vectors = torch.cat([dense.unsqueeze(1), looked_up], 1)
        rated: torch.Tensor = self.last(self.top(interact(vectors, dense)))
        return rated


def perceptron(*widths: int) -> nn.Sequential:
    """Linear layers of these widths, each followed by a ReLU."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers)


def inference(batch: int, dtype: torch.dtype) -> Callable[[], None]:
    """Rate a batch and wait for the result."""
    model = Recommender().cuda().to(dtype)
    numbers = torch.ones(batch, _NUMBERS, device="cuda")
    rows = torch.zeros(batch, _TABLES, dtype=torch.long, device="cuda")

    def step() -> None:
        with torch.no_grad():
            model(numbers.to(dtype), rows)
        torch.cuda.synchronize()

    return step


def main(published: Path) -> None:
    """Run all estimates and write the page."""
    lines = [*_inference(published), *_speed()]
    head = PAGE.read_text().partition(HEADING)[0]
    PAGE.write_text(head + HEADING + "\n" + "\n".join(lines) + "\n")


def published_ms(path: Path) -> dict[tuple[str, int, bool], float]:
    """[ms] Published latencies by precision, batch size, and if in a CUDA graph."""
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row["gpu"] == _GPU]
    return {
        (row["precision"], int(row["batch_size"]), row["cuda_graphs"] == "1"): (
            1e3 * float(row["latency_s"])
        )
        for row in rows
    }


def estimated_ms(precision: str, batch: int, *, cuda_graph: bool) -> float:
    """[ms] The estimate of one of them."""
    torch.backends.cuda.matmul.allow_tf32 = True
    dtype = _DTYPES[precision]
    found = estimated(lambda: inference(batch, dtype), _GPU, cuda_graph=cuda_graph)
    return found.step_ns / 1e6


def _inference(published: Path) -> Iterator[str]:
    known = published_ms(published)
    errors: dict[bool, list[float]] = {False: [], True: []}
    rows = []
    for precision in _DTYPES:
        for batch in _BATCHES:
            cells = []
            for graph, off in errors.items():
                step = estimated_ms(precision, batch, cuda_graph=graph)
                true = known[precision, batch, graph]
                off.append(step / true - 1)
                cells.append(f"{true:.2f} | {step:.2f} | {off[-1]:+.0%}")
            rows.append(f"| {precision} | {batch:,} | {' | '.join(cells)} |")
    typical = {kind: median(abs(e) for e in found) for kind, found in errors.items()}
    yield _INTRODUCTION.format(typical[False], typical[True])
    rows[:0] = [
        (
            "| precision | batch | published [ms] | estimated [ms] | error "
            "| published, CUDA graphs [ms] | estimated [ms] | error |"
        ),
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    yield from rows


_INTRODUCTION = """\
NVIDIA's DLRM (PyTorch): latency of a batch on an A100 80GB, as published by NVIDIA. The
model is a reimplementation: 26 tables of a million rows of 128 in one, layers of
PyTorch where NVIDIA has apex's, and one op for the products of all pairs of vectors, as
NVIDIA has its own kernel for them. No rule knows that op, so it takes as long as its
tensors take to be read and written. Nothing is tuned to the figures. The median
absolute error is {0:.0%}, with CUDA graphs {1:.0%}. Small batches are as fast as the
host, here the host of a virtual machine. The copies of the inputs into those of a CUDA
graph, which are measured, are not estimated.
"""


def estimated(
    make: Callable[[], Callable[[], None]],
    gpu: str,
    *,
    cuda_graph: bool = False,
    ranks: int | None = None,
) -> tracedb.Estimate:
    """Estimate a step whose model is created on fake tensors as well."""
    made: dict[str, Any] = {}

    def step() -> None:
        if "step" not in made:
            made["step"] = make()
        made["step"]()

    found = tracedb.estimate(step, gpu=gpu, cuda_graph=cuda_graph, ranks=ranks)
    gc.collect()
    return found


def _speed() -> Iterator[str]:
    yield ""
    yield "How long an estimate takes, after PyTorch has been imported and used once"
    yield "(with other work on the machine); the goal is 5 s:"
    yield ""
    yield "| step | GPU ops | CPU seconds |"
    yield "| --- | ---: | ---: |"
    makes = {
        "ResNet-50, batch 64": lambda: _images(64),
        "DLRM, batch 2,048, inference": lambda: inference(2048, torch.float16),
        "like GPT-2 small, 8 x 1,024 words": lambda: _words(8, 1024),
    }
    for name, make in makes.items():
        begin = process_time()
        found = estimated(make, _GPU)
        yield f"| {name} | {found.kernel_count:,} | {process_time() - begin:.1f} |"


def _images(batch: int) -> Callable[[], None]:
    model = resnet().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images = torch.ones(batch, 3, 224, 224, device="cuda")
    classes = torch.zeros(batch, dtype=torch.long, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), classes)
        torch.autograd.backward(loss)
        optimizer.step()

    return step


def _words(batch: int, length: int) -> Callable[[], None]:
    words, width = 50_257, 768
    layer = nn.TransformerEncoderLayer(
        width, 12, 4 * width, dropout=0.1, activation="gelu", batch_first=True
    )
    embedding = nn.Embedding(words, width)
    body = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
    head = nn.Linear(width, words, bias=False)
    model = nn.ModuleList([embedding, body, head]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    text = torch.zeros(batch, length, dtype=torch.long, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            answer = head(body(embedding(text)))
            loss = nn.functional.cross_entropy(answer.flatten(0, 1), text.flatten())
        torch.autograd.backward(loss)
        optimizer.step()

    return step


if __name__ == "__main__":
    main(Path(sys.argv[1]))
