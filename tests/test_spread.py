"""Routing by the largest values is even: masks and counts by them have known sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_modes_and_modules import names
from test_styles import recorded
from test_unknown_values import told

from tracedb.from_code.spread import spread

ROUTED = """
chosen = torch.randn(40, 8, device=gpu).topk(2, dim=-1).indices
best = torch.randn(40, 8, device=gpu).argmax(-1)
drawn = torch.multinomial(torch.ones(40, 5, device=gpu), 1)
words = torch.randn(40, 16, device=gpu)
"""
SELECTED = {
    "words[(chosen == 3).any(-1)]": 10,
    "words[(chosen != 3).all(-1)]": 40,
    "words[~(chosen == 3).any(-1)]": 30,
    "words[best == 3]": 5,
    "words[(best == 3) | (best == 4)]": 10,
    "words[torch.where(best.clone() == 3)[0]]": 5,
    "words[drawn.squeeze(1) == 2]": 8,
    "words[(drawn == 2).view(-1) & (best == 3)]": 1,
    "nn.functional.one_hot(chosen, 8).permute(2, 1, 0)[5].nonzero()": 10,
    "nn.functional.one_hot(best, 8).bool()[:, 2].nonzero()": 5,
    "(best[:20] == 1).nonzero()": 2,
    "words.masked_select((best == 1)[:, None])": 80,
    "words[words[:, 0] > 0]": 40,
}


@pytest.mark.parametrize("code", SELECTED)
def test_masks_select_their_share(code: str, tmp_path: Path) -> None:
    """A mask of evenly spread indices selects its share, any other one selects all."""
    step = recorded(tmp_path, f"{ROUTED}def step():\n    return {code}\n")
    found = [op.results[0].dims for op in step.ops.values() if op.results]
    assert found[-1][0] == SELECTED[code]
    assert len(told(step)) == 1
    is_spread = "evenly spread" in told(step)[0]
    assert is_spread is not ("words[:, 0]" in code or "!=" in code)


COUNTED = {
    "torch.bincount(best, minlength=8).tolist()": [5] * 8,
    "torch.bincount(best, minlength=10).tolist()": [5] * 8 + [0, 0],
    "torch.bincount(chosen.view(-1), minlength=8).cpu().tolist()": [10] * 8,
    "nn.functional.one_hot(best[:20], 8).sum(0).tolist()": spread(20, 8),
}


@pytest.mark.parametrize("code", COUNTED)
def test_counts_are_known(code: str, tmp_path: Path) -> None:
    """Tensors are split by the number of words for each expert."""
    step = recorded(
        tmp_path,
        f"""{ROUTED}
def step():
    for one in torch.ones(sum({COUNTED[code]}), 2).split({code}):
        one.exp()
""",
    )
    parts = [
        op.results[0].dims[0] for op in step.ops.values() if op.name == "aten::exp"
    ]
    assert parts == COUNTED[code]


def test_what_is_written_to_is_not_spread(tmp_path: Path) -> None:
    """Indices that the code changes are no longer known."""
    code = f"{ROUTED}best[:3] = 2\ndef step():\n    return words[best == 3]\n"
    step = recorded(tmp_path, code)
    assert "select all of its 40 elements" in told(step)[0]
    assert "aten::nonzero" in names(step)


def test_labels_of_a_loader_are_known(tmp_path: Path) -> None:
    """A batch is loaded for real, so a mask by its labels selects what it does."""
    code = """
        def collated(numbers):
            return torch.tensor([1 if number < 5 else -100 for number in numbers])
        loader = DataLoader(range(16), 16, collate_fn=collated)
        def step():
            labels = next(iter(loader)).to(gpu)
            return model(torch.ones(16, 8, device=gpu))[labels != -100]
        """
    step = recorded(tmp_path, code)
    assert [op for op in step.ops.values() if op.results][-1].results[0].dims == (5, 4)
    assert not told(step)
