"""Attention takes the way, and the memory, that PyTorch's own takes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import torch
from allocator import estimated, real_peak
from support import rows
from torch.nn.attention import SDPBackend, sdpa_kernel

import tracedb
from tracedb.errors import EstimateError
from tracedb.from_code.attention import Attention
from tracedb.from_code.capability import known_capability
from tracedb.from_code.fake_run import FakeRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
WAYS = {0: "math", 1: "flash"}
"""PyTorch's numbers of the ways of a CPU."""
SDPA = torch.nn.functional.scaled_dot_product_attention


def heads(draw: random.Random, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Queries, keys or values of some layout, some without a batch, or of size 1."""
    batch, length = draw.choice([2] * 12 + [1]), draw.choice([8] * 16 + [5, 0])
    size = draw.choice([8] * 12 + [1, 4])
    made = {
        "rows": torch.empty(batch, count, length, size, dtype=dtype),
        "columns": torch.empty(batch, count, size, length, dtype=dtype).mT,
        "words first": torch.empty(batch, length, count, size, dtype=dtype),
        "one sequence": torch.empty(count, length, size, dtype=dtype),
    }
    layout = draw.choice([*["rows"] * 12, "columns", "words first", "one sequence"])
    found = made[layout]
    if layout == "words first":
        found = found.transpose(1, 2)
    return found.requires_grad_(draw.random() < 0.5)


def mask(draw: random.Random) -> torch.Tensor | None:
    """A mask of scores, if any: boolean, with a gradient, or broadcast."""
    if draw.random() < 0.5:
        return None
    sizes = draw.choice([(2, 4, 8, 8), (2, 1, 8, 8), (1, 1, 1, 8), (8, 8), (4, 8, 8)])
    if draw.random() < 0.3:
        return torch.ones(sizes, dtype=torch.bool)
    return torch.empty(sizes).requires_grad_(draw.random() < 0.3)


def test_a_cpu_chooses_as_pytorch_does() -> None:
    """Random sizes, layouts, types and masks: PyTorch says which way it takes."""
    draw = random.Random(0)  # noqa: S311 (not for secrets)
    found = {"math": 0, "flash": 0}
    for _ in range(3_000):
        dtype = draw.choice(TYPES)
        count = draw.choice([4, 4, 4, 2])
        given: Any = [
            heads(draw, draw.choice([4] * 8 + [1]), dtype),
            heads(draw, count, draw.choice([dtype] * 9 + TYPES)),
            heads(draw, draw.choice([count] * 8 + [1]), dtype),
        ]
        more: dict[str, Any] = {
            "attn_mask": mask(draw),
            "dropout_p": draw.choice([0.0, 0.0, 0.0, 0.1]),
            "is_causal": draw.random() < 0.3,
            "enable_gqa": draw.random() < 0.4,
        }
        try:
            chosen = torch._fused_sdp_choice(*given, **more)  # noqa: SLF001
        except RuntimeError:
            continue  # it cannot be computed
        way = Attention(*given, **more).chosen(on_gpu=False)
        assert way == WAYS[chosen], ([(t.shape, t.stride()) for t in given], more)
        found[way] += 1
    assert min(found.values()) > 100, found


def step(
    kind: torch.dtype = torch.float32,
    *,
    is_strided: bool = False,
    has_mask: bool = False,
    **more: Any,  # noqa: ANN401
) -> Callable[[], Callable[[], None]]:
    """Make a step of one product, attention, and its backward pass."""

    def make() -> Callable[[], None]:
        weight = torch.nn.Parameter(torch.randn(32, 32))
        words = torch.randn(2, 4, 64, 32)
        ones = torch.ones(64, 64, dtype=torch.bool) if has_mask else None

        def run() -> None:
            weight.grad = None
            made = (words @ weight).to(dtype=kind)
            if is_strided:
                made = made.mT.contiguous().mT
            shared = made[:, :2] if more.get("enable_gqa") else made
            found = SDPA(made, shared, shared, attn_mask=ones, **more)
            torch.autograd.backward(found.float().square().mean())

        return run

    return make


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (torch.float32, {"is_strided": True}),
        (torch.bfloat16, {"is_strided": True}),
        (torch.float32, {"is_strided": True, "is_causal": True}),
        (torch.float32, {"is_strided": True, "has_mask": True}),
        (torch.float32, {"is_strided": True, "enable_gqa": True}),
        (torch.float32, {"is_strided": True, "scale": -0.2}),
        (torch.float32, {"dropout_p": 0.1}),
        (torch.bfloat16, {}),
        (torch.bfloat16, {"has_mask": True, "dropout_p": 0.1}),
    ],
)
def test_memory_is_that_of_the_allocator(
    kind: torch.dtype, more: dict[str, Any], tmp_path: Path
) -> None:
    """The peak of a step on the CPU is exact to the byte."""
    make = step(kind, **more)
    assert estimated(make).memory.peak_bytes == real_peak(make, tmp_path)


def on(gpu: str, kind: torch.dtype, size: int = 64, **more: Any) -> str:  # noqa: ANN401
    """The way that a GPU takes for heads of 64 rows."""
    is_strided, is_trained = more.pop("is_strided", False), more.pop("is_trained", True)
    queries = more.pop("queries", 64)
    shape = (2, 4, size, 64) if is_strided else (2, 4, 64, size)
    shared = torch.empty(shape, dtype=kind, requires_grad=is_trained)
    words = shared.mT if is_strided else shared
    others = words[:, :2] if more.get("enable_gqa") else words
    more["gpu"] = known_capability(gpu)
    given = Attention(words[:, :, :queries], others, others, **more)
    return given.chosen(on_gpu=True)


HALF, BF16, FULL = torch.float16, torch.bfloat16, torch.float32


@pytest.mark.parametrize(
    ("gpu", "kind", "more", "way"),
    [
        ("A100", HALF, {}, "flash"),
        ("A100", FULL, {}, "efficient"),
        ("A100", torch.float64, {}, "math"),
        ("A100", HALF, {"is_strided": True}, "math"),
        ("A100", FULL, {"is_strided": True}, "math"),
        ("A100", HALF, {"attn_mask": torch.ones(64, 64)}, "efficient"),
        ("A100", HALF, {"attn_mask": torch.ones(64, 1).expand(64, 64)}, "math"),
        ("A100", HALF, {"is_causal": True, "queries": 32}, "efficient"),
        ("A100", HALF, {"enable_gqa": True}, "flash"),
        ("A100", FULL, {"enable_gqa": True}, "math"),
        ("A100", HALF, {"size": 20}, "flash"),
        ("A100", HALF, {"size": 20, "attn_mask": torch.ones(64, 64)}, "math"),
        ("A100", FULL, {"size": 20}, "efficient"),
        ("A100", FULL, {"size": 6}, "math"),
        ("A100", HALF, {"size": 256}, "flash"),
        ("A100", HALF, {"size": 320}, "efficient"),
        ("A10", HALF, {"size": 200}, "efficient"),
        ("A10", HALF, {"size": 200, "is_trained": False}, "flash"),
        ("A10", HALF, {"size": 256}, "flash"),
        ("A10", HALF, {"size": 256, "dropout_p": 0.1}, "efficient"),
        ("V100", HALF, {}, "efficient"),
        ("V100", FULL, {"size": 6}, "efficient"),
        ("V100", BF16, {}, "math"),
        ("T4", HALF, {"size": 6}, "math"),
    ],
)
def test_gpus_take_the_way_of_their_generation(
    gpu: str, kind: torch.dtype, more: dict[str, Any], way: str
) -> None:
    """Types, sizes, strides, masks and groups decide, as in PyTorch's rules."""
    assert on(gpu, kind, **more) == way


def test_listed_gpus_have_a_generation() -> None:
    """For a GPU without one, the rules of a recent one would hold without a word."""
    with tracedb.open() as database:
        listed = rows(
            database,
            "SELECT hardware FROM prediction.hardware WHERE vendor = 'NVIDIA'",
        )
    assert [name for (name,) in listed if known_capability(name) is None] == []


def test_ways_that_code_turns_off_are_not_taken() -> None:
    """`sdpa_kernel` decides; where nothing is left, the line is named."""
    with sdpa_kernel(SDPBackend.MATH):
        assert on("A100", HALF) == "math"
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        assert on("A100", HALF) == "efficient"
        with pytest.raises(EstimateError, match=r"test_attention_ways\.py:\d+: none"):
            on("A100", HALF, is_strided=True)


def test_the_ops_are_those_of_the_way() -> None:
    """Heads of 20 are padded to 24 for FlashAttention; keys of a group stay shared."""
    fake = FakeRun("A100")
    with fake.inside():
        words = torch.randn(2, 4, 64, 20, device="cuda", dtype=HALF)
        mask = torch.ones(64, 64, dtype=torch.bool, device="cuda")

    def run() -> None:
        SDPA(words, words[:, :2], words[:, :2], enable_gqa=True)
        SDPA(words.float(), words.float(), words.float(), attn_mask=mask)

    found = fake.step(run).ops.values()
    flash, efficient = (op.tensors for op in found if "_attention" in op.name)
    assert [tensor.dims for tensor in flash[:2]] == [(2, 4, 64, 24), (2, 2, 64, 24)]
    assert efficient[3].dims == (2, 4, 64, 64)
    assert (efficient[3].dtype, [op.name for op in found].count("aten::where")) == (
        "float",
        1,
    )
