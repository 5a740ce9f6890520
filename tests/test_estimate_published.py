"""Estimates from code against latencies that others measured and published."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parent.parent
PUBLISHED = ROOT.parent / "shared/reference/published/nvidia_dlrm_inference.csv"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program that writes the page's table."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("estimate")


@pytest.mark.parametrize(
    ("precision", "batch", "at_most"),
    [("amp", 2_048, 0.15), ("amp", 32_768, 0.2), ("tf32", 32_768, 0.15)],
)
def test_recommender_in_a_cuda_graph(
    precision: str, batch: int, at_most: float, benchmark: ModuleType
) -> None:
    """Kernels of NVIDIA's DLRM on an A100, without the host: no rule is far off."""
    if not PUBLISHED.exists():
        pytest.skip("../shared/reference/published is absent")
    true = benchmark.published_ms(PUBLISHED)[precision, batch, True]
    found = benchmark.estimated_ms(precision, batch, cuda_graph=True)
    assert abs(found / true - 1) < at_most
