"""Estimates dispatch the ops of real steps: same names, shapes, types and order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from allocator import estimated
from torch import nn
from whole_ops import differences, estimated_ops, real_ops
from whole_steps import STEPS

Step = Callable[[], None]


def masked(**how: bool) -> Callable[[], Step]:
    """A transformer's layer with a causal mask."""

    def make() -> Step:
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        body = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        mask = nn.Transformer.generate_square_subsequent_mask(12)
        given = torch.randn(8, 12, 32)

        def step() -> None:
            torch.autograd.backward(body(given, mask=mask, **how).square().mean())

        return step

    return make


CASES = {name: STEPS[name] for name in ("graph_attention", "moco", "accumulation")}
CASES |= {"causal": masked(), "told": masked(is_causal=False)}


@pytest.mark.parametrize("name", CASES)
def test_ops_are_those_of_a_real_step(name: str, tmp_path: Path) -> None:
    """Nothing is missing or added; the profiler and the dispatcher agree."""
    said = estimated_ops(CASES[name])
    real = real_ops(CASES[name], tmp_path, {op for op, *_ in said})
    assert len(real) > 30
    assert list(differences(real, said)) == []


def test_a_square_mask_is_assumed_to_be_causal() -> None:
    """The answer says so; what code tells by `is_causal` holds."""
    (line,) = estimated(masked()).assumed
    assert line.endswith("the square mask of a transformer is assumed to be causal")
    assert Path(__file__).name in line
    assert estimated(masked(is_causal=False)).assumed == ()
