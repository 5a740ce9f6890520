"""Memory that ops hold beside their results is in the peak of an estimate."""

from __future__ import annotations

import copy
from collections import Counter
from typing import TYPE_CHECKING

import pytest
import torch
from allocator import estimated, real_peak, step_of
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, TensorDataset

from tracedb.from_code.fake_run import FakeRun
from tracedb.from_code.program import tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Tensor = torch.Tensor

SHAPE = (4, 16, 8, 8)
LABELS = torch.ones((4, 10), dtype=torch.int64)
TIMES, COUNTS = torch.full((4,), 64), torch.full((4,), 10)


def attended(h: Tensor) -> Tensor:
    """Attention with dropout, which a CPU computes by products, in fp32."""
    with torch.autocast("cpu", torch.bfloat16):
        return functional.scaled_dot_product_attention(h, h, h, dropout_p=0.1)


def lastly(h: Tensor) -> Tensor:
    """Images with channels last in memory."""
    return h.contiguous(memory_format=torch.channels_last)


def normed(h: Tensor) -> Tensor:
    """Norms in half precision with weights in fp32, as under autocast."""
    ones = torch.ones(16, requires_grad=True)
    half = functional.batch_norm(h.bfloat16(), None, None, ones, ones, training=True)
    last = torch.ones(8, requires_grad=True)
    grouped = functional.group_norm(half, 4, ones, ones)
    return functional.layer_norm(grouped, (8,), last, last)


@pytest.mark.parametrize(
    "function",
    [
        lambda h: functional.mse_loss(h, torch.zeros(SHAPE)),
        lambda h: functional.mse_loss(h, torch.zeros(8), reduction="sum"),
        lambda h: functional.mse_loss(h, torch.zeros(SHAPE), reduction="none"),
        lambda h: functional.smooth_l1_loss(h, torch.zeros(SHAPE)),
        lambda h: functional.batch_norm(h, None, None, training=True),
        lambda h: functional.interpolate(h, scale_factor=2, mode="bilinear"),
        lambda h: functional.interpolate(h, scale_factor=2),
        lambda h: functional.unfold(h, 3),
        lambda h: functional.ctc_loss(
            h.view(64, 4, 16).log_softmax(2), LABELS, TIMES, COUNTS
        ),
        lambda h: functional.interpolate(h.view(4, 16, 64), scale_factor=2),
        lambda h: functional.bilinear(h, h, torch.ones(4, 8, 8)),
        lambda h: functional.scaled_dot_product_attention(h, h, h),
        lambda h: functional.embedding_bag(
            torch.ones(8, 16, dtype=torch.int64), h.view(64, 64)
        ),
        lambda h: functional.soft_margin_loss(h, torch.ones(SHAPE)),
        lambda h: functional.binary_cross_entropy(h.sigmoid(), torch.ones(SHAPE)),
        lambda h: functional.binary_cross_entropy_with_logits(h, torch.ones(SHAPE)),
        lambda h: functional.binary_cross_entropy_with_logits(
            h, torch.ones(SHAPE), reduction="none"
        ),
        lambda h: functional.binary_cross_entropy_with_logits(
            h, torch.ones(SHAPE), torch.ones(8), pos_weight=torch.ones(8)
        ),
        lambda h: h.logsumexp(1).relu(),
        lambda h: h.kthvalue(3, 1)[0],
        lambda h: h.amax(1),
        lambda h: torch.linalg.svdvals(h.view(64, 64)),
        lambda h: h * torch.ones(SHAPE, dtype=torch.int64),
        lambda h: (h.bfloat16() * torch.ones(SHAPE)).relu(),
        torch.prod,
        lambda h: h.transpose(1, 2).prod(),
        lambda h: h.prod(2),
        lambda h: h.prod(-1, keepdim=True),
        lambda h: h.cumprod(1),
        lambda h: h.transpose(1, 3).cumprod(-1),
        lambda h: h.cumprod(1).prod(1) + h.prod(1),
        lambda h: h.view(4, 16, 64).transpose(1, 2).log_softmax(1),
        lambda h: h.view(64, 64).bfloat16() @ torch.ones(64, 512, dtype=torch.bfloat16),
        attended,
        normed,
        lambda h: functional.embedding_bag(
            torch.ones(64, 16, dtype=torch.int64), h.view(64, 64), mode="sum"
        ),
        torch.max,
        lambda h: h.transpose(1, 2).median(),
        lambda h: h.clamp(torch.zeros(SHAPE), torch.ones(SHAPE)),
        lambda h: torch.clamp(h, h / 2, h * 2),
        lambda h: torch.atan2(h, h + 1),
        lambda h: functional.normalize(h, dim=1),
        lambda h: torch.matrix_exp(h.view(64, 64)),
        lambda h: functional.avg_pool2d(lastly(h), 2).flatten(),
        lambda h: functional.max_pool2d(lastly(h), 2),
        lambda h: functional.adaptive_avg_pool2d(lastly(h), 2),
        lambda h: functional.layer_norm(h.transpose(1, 3), (16,)),
        lambda h: functional.pad(lastly(h), (1, 1, 1, 1), mode="reflect"),
        lambda h: functional.pad(lastly(h), (1, 1, 1, 1)).flatten() * torch.ones(6400),
        lambda h: functional.pixel_shuffle(h.transpose(2, 3), 2),
        lambda h: functional.gaussian_nll_loss(
            h * 2, torch.zeros(SHAPE), torch.ones(SHAPE)
        ),
    ],
    ids=[
        *("mse", "sum", "none", "smooth", "norm", "bilinear", "nearest", "unfold"),
        *("ctc", "linear", "weighted", "attention", "bags", "margin", "entropy"),
        *("logits", "logits, none", "positive weights", "logsumexp", "kth", "amax"),
        *("singular values", "integers", "mixed", "prod", "prod transposed"),
        *("prod of rows", "kept", "cumprod", "cumprod transposed", "products"),
        *("softmax transposed", "half product", "attention by products"),
        *("mixed norms", "summed bags", "max", "median", "clamp", "own bounds"),
        *("angles", "lengths", "exponential"),
        *("average channels last", "largest channels last", "adaptive channels last"),
        *("norm transposed", "reflections channels last", "padded channels last"),
        *("shuffled transposed", "temporary arguments"),
    ],
)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_the_peak_is_that_of_the_allocator(
    function: Callable[[Tensor], Tensor], tmp_path: Path
) -> None:
    """A step's peak equals the CPU allocator's but for numbers made before it."""

    def make() -> Callable[[], None]:
        return step_of(function, *SHAPE)

    peak = estimated(make).memory.peak_bytes
    assert peak == pytest.approx(real_peak(make, tmp_path), rel=0.005)


def test_batches_of_a_loader_are_freed(tmp_path: Path) -> None:
    """An epoch within a step holds two batches at a time, not all of them."""

    def make() -> Callable[[], None]:
        given, labels = torch.randn(512, 64), torch.zeros(512, dtype=torch.int64)
        weight = torch.nn.Parameter(torch.randn(64, 8))

        def run() -> None:
            for batch, classes in DataLoader(TensorDataset(given, labels), 64):
                loss = functional.cross_entropy(batch @ weight, classes)
                torch.autograd.backward(loss)

        return run

    peak = estimated(make).memory.peak_bytes
    assert peak == pytest.approx(real_peak(make, tmp_path), rel=0.005)


def masked() -> Callable[[], None]:
    """Attention by products, without gradients: the mask has no dimension of heads."""
    query, key, value = torch.randn(3, 4, 4, 16, 32).unbind(0)
    mask = torch.randn(4, 16, 16)

    def run() -> None:
        with torch.no_grad():
            functional.scaled_dot_product_attention(query, key, value, mask)

    return run


def on_meta() -> Callable[[], None]:
    """A model on the meta device, which holds nothing, called with weights that do."""
    model = torch.nn.Linear(256, 256)
    form = copy.deepcopy(model).to("meta")
    inputs = torch.randn(8, 256)

    def run() -> None:
        model.zero_grad()
        size = form(torch.empty(8, 256, device="meta")).shape[1]
        made = torch.func.functional_call(form, dict(model.named_parameters()), inputs)
        torch.autograd.backward(made[:, :size].sum())

    return run


@pytest.mark.parametrize("make", [masked, on_meta])
def test_steps_hold_what_the_allocator_does(
    make: Callable[[], Callable[[], None]], tmp_path: Path
) -> None:
    """Scaled keys are freed before the softmax; forms of tensors take no memory."""
    real = real_peak(make, tmp_path)
    assert estimated(make).memory.peak_bytes == pytest.approx(real, rel=0.005)


def test_nothing_runs_on_the_meta_device() -> None:
    """A GPU computes and holds as much as without the model that is only a form."""
    fake = FakeRun("NVIDIA H100")
    with fake.inside():
        run = on_meta()
    found = fake.step(run)
    products = [op for op in found.ops.values() if op.name == "aten::addmm"]
    assert len(products) == 1
    assert found.memory.by_kind["parameter"] == 256 * 256 * 4 + 256 * 4


@pytest.mark.filterwarnings("ignore:.*flex_attention called without")
def test_flex_attention_computes_all_scores(tmp_path: Path) -> None:
    """On a CPU it is not compiled, and materializes what it masks."""

    def make() -> Callable[[], None]:
        given = torch.randn(2, 4, 64, 16)

        def run() -> None:
            flex_attention(given, given, given, lambda score, *_: score * 2)

        return run

    peak = estimated(make).memory.peak_bytes
    assert peak == pytest.approx(real_peak(make, tmp_path), rel=0.005)


@pytest.mark.parametrize(
    "function",
    [lambda h: h.prod(), lambda h: h.prod(2), lambda h: h.cumprod(1)],
    ids=["all", "rows", "cumulative"],
)
def test_gradients_of_products_are_the_ops_of_a_real_step(
    function: Callable[[Tensor], Tensor],
) -> None:
    """No op of the way for zeros is left, and the answer says that there are none."""
    run = step_of(function, *SHAPE)
    run()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run()
    names = ("cat", "cumprod", "cumsum", "flip", "div", "eq", "any", "mul", "where")
    real = Counter(event.name for event in profiler.events() or ())
    step = estimated(lambda: step_of(function, *SHAPE))
    told = Counter(node.name for node in tree(step.events, step.ops).walk())
    assert {n: told[f"aten::{n}"] for n in names} == {
        n: real[f"aten::{n}"] for n in names
    }
    assert any("no element of a product" in line for line in step.assumed)


def test_a_loss_keeps_room_for_all_elements_on_a_gpu() -> None:
    """CUDA's code is the same: a loss that is kept holds what it averages."""
    kept: list[Tensor] = []
    fake = FakeRun("H100")
    with fake.inside():
        given = torch.randn(1 << 20, device="cuda")

        def run() -> None:
            kept.clear()
            kept.append(functional.mse_loss(given, given))

    memory = fake.step(run).memory
    sizes = [size for _, words, size in memory.largest if "mse_loss" in words]
    assert sizes == [4 << 20, 4 << 20]
