"""`int()` and `float()` of unknown numbers, draws, loops and indices by values."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_modes_and_modules import names
from test_styles import recorded
from test_unknown_values import CONDITION, of_loss, told

from tracedb.errors import EstimateError
from tracedb.from_code.fake_run import FakeRun
from tracedb.from_code.script import load


def test_conversions_keep_what_is_unknown(tmp_path: Path) -> None:
    """They are printed and compared as what they convert."""
    code = (
        "count, value = int((loss > 0).sum()), float(loss)\n"
        "print(count / max(int(loss), 1), f'{count:d} {value:.2f}', int('3') + 1)\n"
        "assert value < 3\n"
        "if count > 0: abs(loss)\n"
        "assert int(torch.tensor([3])) == 3\n"
        "assert (int(), float(), int('ff', 16)) == (0, 0.0, 255)\n"
        "assert torch.zeros(2, dtype=int).dtype == torch.int64"
    )
    found = told(of_loss(tmp_path, code))
    assert [line.split(":")[1:] for line in found] == [
        ["21", f" {CONDITION}false"],
        ["22", f" {CONDITION}true"],
        ["23", f" {CONDITION}true"],
    ]


@pytest.mark.parametrize(
    "code",
    ["range(int(loss))", "torch.ones(int(loss) + 1)", "torch.ones(9)[: int(loss)]"],
)
def test_a_size_by_a_value_is_refused(code: str, tmp_path: Path) -> None:
    """Nothing stands for a size that is unknown."""
    with pytest.raises(EstimateError, match=r"train.py:20: a (whole number|size) dep"):
        of_loss(tmp_path, code)


def test_modules_of_the_script_s_folder_are_converted(tmp_path: Path) -> None:
    """The script's helpers read numbers as it does, also packages."""
    package = tmp_path / "helpers"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "read.py").write_text("def count(x):\n    return int(x)\n")
    (tmp_path / "train.py").write_text(
        "import torch\nfrom helpers.read import count\n"
        "def step():\n    return f'{count(torch.ones(3).sum())}'\n"
    )
    run = FakeRun("NVIDIA H100")
    with run.inside():
        step = load(tmp_path / "train.py", "step")
    assert names(run.step(step)).count("aten::_local_scalar_dense") == 1
    assert not list(package.rglob("*.pyc"))


LOOP = """
    done, length = torch.zeros(4, dtype=torch.bool, device=gpu), 0
    while not done.all() and length < 5:
        made = model(torch.ones(4, 8, device=gpu))
        done, length = done | (made.argmax(-1) == 1), length + 1
"""


def test_a_loop_with_another_end_goes_on_to_it(tmp_path: Path) -> None:
    """Generation runs to its most words."""
    step = recorded(tmp_path, f"def step():{LOOP}")
    assert names(step).count("aten::argmax") == 5
    assert told(step) == [f"train.py:20: {CONDITION}false"]


DRAWN = {
    "int(torch.randint(0, 20, (1,)))": 10,
    "torch.randint(0, 20, (1,), device=gpu).item()": 10,
    "torch.randint(6, (2,))[1]": 3,
    "int(torch.rand(1) * 8)": 4,
    "(torch.randn(()) + 2).int()": 2,
    "int(torch.empty(1).uniform_(2, 4))": 3,
    "int(torch.empty(1).normal_(5, 1))": 5,
    "int(torch.empty(1, dtype=torch.long).random_(2, 8))": 5,
}


@pytest.mark.parametrize("code", DRAWN)
def test_a_draw_is_in_the_middle_of_its_range(code: str, tmp_path: Path) -> None:
    """A crop by it has its size, and the answer says what was assumed."""
    step = recorded(
        tmp_path,
        f"""
        def step():
            at = {code}
            return torch.ones(40)[at : at + 16] + torch.ones(40)[:at].sum()
        """,
    )
    cut = [op.results[0].dims for op in step.ops.values() if op.name == "aten::slice"]
    assert cut[-2:] == [(16,), (DRAWN[code],)]
    assert len(told(step)) == 1
    assert "in the middle of its range" in told(step)[0]


def test_many_random_numbers_stay_unknown(tmp_path: Path) -> None:
    """Labels of a batch are not all alike."""
    code = "def step():\n    torch.ones(3)[: torch.randint(3, (3,)).max()]\n"
    with pytest.raises(EstimateError, match="a size depends on a value"):
        recorded(tmp_path, code)


def test_an_index_needs_no_value(tmp_path: Path) -> None:
    """What is at an unknown place has the size of what is at any other."""
    code = """
        def step():
            given = torch.ones(8, 4, device=gpu)
            best = given.sum(1).argmax()
            given[best] = 3
            return given[best].sum() + given[best, 1:3].sum()
        """
    assert names(recorded(tmp_path, code)).count("aten::_local_scalar_dense") == 3


UNCLEAR = {
    "torch.nested.nested_tensor([loss[None]])": "nested tensors are not estimated",
    "nn.functional.one_hot((loss > 0).long()[None])": r"give one_hot\(\) `num_cl",
    "torch.ones((model.weight > 0).sum().item())": "a size depends on",
}


@pytest.mark.parametrize("code", UNCLEAR)
def test_what_is_not_estimated_is_one_clear_line(code: str, tmp_path: Path) -> None:
    """The line, and what to do instead."""
    with pytest.raises(EstimateError, match=f"train.py:20: .*{UNCLEAR[code]}"):
        of_loss(tmp_path, code)


def test_flex_attention_is_attention_to_all(tmp_path: Path) -> None:
    """It runs as one kernel in each direction, and the answer says what it leaves."""
    code = """
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        block = create_block_mask(lambda b, h, q, k: q >= k, None, None, 128, 128)
        def step():
            words = torch.ones(2, 4, 128, 16, device=gpu, dtype=torch.bfloat16)
            words.requires_grad_()
            made = flex_attention(words, words, words, block_mask=block)
            made.sum().backward()
        """
    step = recorded(tmp_path, code)
    kernel = "aten::_scaled_dot_product_flash_attention"
    assert [n for n in names(step) if "attention" in n] == [
        kernel,
        f"{kernel}_backward",
    ]
    assert "flex attention is assumed to compute all blocks" in told(step)[0]


def test_known_numbers_are_read_from_any_shape() -> None:
    """`torch.tensor([3]).item()` is a number."""
    run, found = FakeRun("NVIDIA H100"), []
    run.step(lambda: found.append(torch.tensor([[3]]).item()))
    assert found == [3, 3]
