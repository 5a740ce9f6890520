"""Measure op times on this machine into a Parquet file of shapes and times.

This package stands alone: it imports nothing but the standard library, NumPy, pyarrow,
and PyTorch or CuPy, so that its folder can be copied to a machine without tracedb;
there `python -m microbench` is what `tracedb microbench` is here.

    from tracedb.microbench import measure, open_backend, plan
    measure("cpu.parquet", plan("quick"), open_backend("auto", "cpu"))

It measures ops on a single device; collectives, which need several, have no plan.
"""

from .backend import BACKENDS, DEVICES, Backend, Place, open_backend
from .case import COLUMNS, SHAPES, Case, of_families
from .errors import DeviceMissingError, MicrobenchError, UnsupportedError
from .indices import expected_distinct
from .plans import COUNTS, about, plan, thin
from .program import Summary, measure
from .run import Plan
from .timing import Effort

__all__ = [
    "BACKENDS",
    "COLUMNS",
    "COUNTS",
    "DEVICES",
    "SHAPES",
    "Backend",
    "Case",
    "DeviceMissingError",
    "Effort",
    "MicrobenchError",
    "Place",
    "Plan",
    "Summary",
    "UnsupportedError",
    "about",
    "expected_distinct",
    "measure",
    "of_families",
    "open_backend",
    "plan",
    "thin",
]
