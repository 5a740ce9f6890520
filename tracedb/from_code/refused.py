"""What no estimate has: it is refused, with its line."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from tracedb.errors import EstimateError
from tracedb.from_code import blame, place
from tracedb.from_code.changed import changed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NESTED = ("nested_tensor", "as_nested_tensor", "nested_tensor_from_jagged", "narrow")
_FAKE = "has no fake kernel; give it one by `torch.library.register_fake`"
_REASONS = {
    r"no fake impl registered for <CustomOpDef\((\S+)\)>": rf"the custom op \1 {_FAKE}",
    r"UnsupportedOperatorException: (\w+\.\w+)": rf"the op \1 {_FAKE}",
    "storage of Sparse": "sparse tensors are estimated only as gradients; let the step "
    "have dense ones",
    "[Qq]uantized": "quantized tensors are not estimated; estimate the model before it "
    "is quantized",
    "Default process group has not been init": "the step is one of several ranks; call "
    "`init_process_group`, and give their number: --ranks N (`ranks=`)",
    r"\(got (Count|Unknown)\)": "an index depends on a value that is known only in a "
    "real run; remove it from the step to estimate",
    "Creating a new Tensor subclass": "`as_subclass` of an own class is not "
    "estimated; let the step have plain tensors",
    "Torch not compiled with CUDA|Found no NVIDIA driver|No CUDA GPUs": "it asks the "
    "GPU for what no estimate has, or does so on a thread of its own",
    "Can't pickle": "what an estimate has is not pickled; copy it by `copy.deepcopy`",
}
"""What errors of PyTorch mean here: patterns of their texts, and reasons."""


def reason(error: BaseException) -> str:
    """Why a step cannot be estimated that raises an error, in one line."""
    text = blame.named(error)
    if blame.is_own(error):
        return text
    for pattern, words in _REASONS.items():
        found = re.search(pattern, text)
        if found is not None:
            return found.expand(words)
    return f"cannot run on fake tensors: {text}" if blame.is_of_fakes(error) else text


def _refused(why: str) -> Callable[..., NoReturn]:
    """A function that is not estimated."""

    def refuse(*_: Any, **__: Any) -> NoReturn:  # noqa: ANN401 (as PyTorch has it)
        raise EstimateError(f"{place.of_caller()}: {why}")

    return refuse


@contextmanager
def refusing() -> Iterator[None]:
    """Refuse such functions within the block."""
    nested = _refused(
        "nested tensors are not estimated; pad them to the size that you expect"
    )
    exported = _refused(
        "a model that is exported is not estimated; estimate the model itself"
    )
    with (
        changed(torch.nested, dict.fromkeys(_NESTED, nested)),
        changed(torch.export, {"export": exported}),
    ):
        yield
