"""Errors of the user's own code are told as what they are; those of fake tensors, too.

Only an error that real tensors would not raise is said to come from an estimate.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tracedb.errors import EstimateError
from tracedb.from_code.recordings import Source

START = "import torch\nmodel = torch.nn.Linear(8, 8)\n"
OWN = {
    "def step():\n    raise ValueError('my config is wrong')": "4: ValueError: my "
    "config is wrong",
    "def step():\n    raise RuntimeError('fake data in meta backend')": "4: "
    "RuntimeError: fake data in meta backend",
    "def step():\n    raise ValueError('Quantized storage of Sparse')": "4: Value"
    "Error: Quantized storage of Sparse",
    "def step():\n    assert model is None, 'no model'": "4: AssertionError: no model",
    "class Rows(torch.utils.data.Dataset):\n    def __len__(self): return 8\n"
    "    def __getitem__(self, row): return {'x': torch.zeros(8)}['y']\n"
    "def step():\n    for row in torch.utils.data.DataLoader(Rows()): model(row)": "5: "
    "KeyError: 'y'",
    "import no_such_module": "3: ModuleNotFoundError: No module named 'no_such_module'",
    "from torch.nn import NoLayer": "3: ImportError: cannot import name 'NoLayer'",
    "step = (1,": "3: SyntaxError: '(' was never closed",
    "open('none/config.json')": "3: FileNotFoundError: [Errno 2] No such file",
    "import json\njson.loads('{')": "4: JSONDecodeError: Expecting property name",
    "def step():\n    step(1)": "4: TypeError: step() takes 0 positional arguments",
    "def step():\n    step()": "4: RecursionError: maximum recursion depth",
    "model.load_state_dict({'a': model.bias})": "3: RuntimeError: Error(s) in loading "
    "state_dict for Linear: Missing key(s)",
    "class Wrong(torch.autograd.Function):\n    @staticmethod\n"
    "    def forward(ctx, x): return x * 2\n    @staticmethod\n"
    "    def backward(ctx, g): raise ValueError('no gradient')\n"
    "def step():\n    Wrong.apply(model.weight).sum().backward()": "7: ValueError: no",
    "def step():\n    model(torch.ones(2, 9))": "4: RuntimeError: a and b must",
    "def step():\n    torch.ones(3).shap": "4: AttributeError: 'Tensor' object has no "
    "attribute 'shap'",
    "def step():\n    torch.ones(2).sum().backward()": "4: RuntimeError: element 0",
    "def step():\n    try: {}['lr']\n    except KeyError as error:\n"
    "        raise ValueError('no lr') from error": "6: ValueError: no lr",
}
ESTIMATES = {
    "def step():\n    torch.ones(2).to_mkldnn()": "4: cannot run on fake tensors:",
    "def step():\n    torch.ones(2).share_memory_()": "4: cannot run on fake tensor",
    "def step():\n    torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2))": "4: sparse "
    "tensors are estimated only as gradients",
    "def step():\n    torch.zeros(int(model.bias.sum().item()), 3)": "4: a size",
    "def step():\n    try: torch.ones(3).repeat_interleave(torch.ones(3).random_())\n"
    "    except Exception as error: raise RuntimeError('failed') from error": "4: how",
    "def step():\n    try: torch.zeros(int(model.bias.sum()), 3)\n"
    "    except TypeError: raise RuntimeError('failed')": "4: a size depends on a",
}


def recorded(folder: Path, code: str) -> None:
    """Record the step of a script that begins with `START`."""
    path = folder / "train.py"
    path.write_text(START + code)
    source = Source(f"{path}:step", (), "NVIDIA H100")
    try:
        source.at(None)
    finally:
        source.close()


def error_of(code: str, folder: Path) -> str:
    """The error of such a script, without the name of its file."""
    with pytest.raises(EstimateError) as found:
        recorded(folder, code)
    return str(found.value).removeprefix(f"{folder / 'train.py'}:")


@pytest.mark.parametrize("code", OWN)
def test_an_error_of_the_code_is_told_as_what_it_is(code: str, tmp_path: Path) -> None:
    """Its line, its type and its words, and nothing about fake tensors."""
    assert error_of(code, tmp_path).startswith(OWN[code])


def test_a_folder_of_the_users_may_be_named_torch(tmp_path: Path) -> None:
    """Whose an error is goes by where PyTorch is installed, not by names of folders."""
    folder = tmp_path / "torch"
    folder.mkdir()
    code = "def step():\n    raise ValueError('fake tensors in my data')"
    assert error_of(code, folder) == "4: ValueError: fake tensors in my data"


@pytest.mark.parametrize("code", ESTIMATES)
def test_an_error_of_fake_tensors_says_so(code: str, tmp_path: Path) -> None:
    """The line that needs a value is named, also where the code replaces the error."""
    assert error_of(code, tmp_path).startswith(ESTIMATES[code])


def test_an_error_of_a_thread_does_not_end_the_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python tells it and goes on, as in a real run."""
    recorded(
        tmp_path,
        "from threading import Thread\n"
        "def fail(): raise ValueError('no host to log to')\n"
        "def step():\n    other = Thread(target=fail)\n    other.start()\n"
        "    other.join()\n    model(torch.ones(8))",
    )
    assert capsys.readouterr().err.count("ValueError: no host to log to") == 2


def run(folder: Path, *given: str, stdout: int | IO[bytes]) -> tuple[int, str, bytes]:
    """The exit code, stderr and stdout of an estimate of a step that prints a lot."""
    path = folder / "train.py"
    path.write_text(
        START + "def step():\n    print('x' * 9999)\n    model(torch.ones(8))\n"
    )
    command = [sys.executable, "-Im", "tracedb", "estimate", f"{path}:step"]
    found = subprocess.run(  # noqa: S603 (this Python and its own arguments)
        [*command, "--gpu", "H100", *given],
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
    )
    return found.returncode, found.stderr.decode(), found.stdout or b""


def test_what_the_code_prints_is_not_in_the_answer(tmp_path: Path) -> None:
    """It goes to stderr, as everything but the answer."""
    code, told, answer = run(tmp_path, "--format", "json", stdout=subprocess.PIPE)
    assert (code, json.loads(answer)["gpu"]) == (0, "H100")
    assert told.count("x" * 9999) == 2


def test_a_stdout_that_nobody_reads_ends_silently(tmp_path: Path) -> None:
    """As of other tools: `tracedb estimate train.py:step --gpu H100 | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as unread:
        code, told, _ = run(tmp_path, stdout=unread)
    assert code == 141
    assert not told.replace("x" * 9999, "").strip()
