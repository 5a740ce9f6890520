"""Say where PyTorch, which runs the step of code, is not installed."""

from __future__ import annotations

from importlib.util import find_spec

from tracedb.errors import EstimateError

if find_spec("torch") is None:
    raise EstimateError(
        "PyTorch, which runs the step, is not installed: pip install 'tracedb[record]'"
    )
