"""Refuse to record without PyTorch, or with a version that is too old."""

import re
from importlib.util import find_spec

OLDEST = "2.4"
"""The oldest version that was tried; profilers before 2.3 take no observer."""


def _refuse() -> None:
    """Raise `ImportError`, with the remedy, if PyTorch cannot record."""
    if find_spec("torch") is None:
        raise ImportError(
            "tracedb.record needs PyTorch: pip install 'tracedb[record]'", name="torch"
        )
    import torch

    if _numbers(torch.__version__) < _numbers(OLDEST):
        raise ImportError(
            f"tracedb.record needs PyTorch {OLDEST} or newer, and this is "
            f"{torch.__version__}: pip install --upgrade torch",
            name="torch",
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


_refuse()
