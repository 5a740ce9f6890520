"""Kernel models: the time of a kernel from its shape, with a band and a range.

    import tracedb.kernels as kernels

    kernels.train(["measurements.parquet"], "models/")
    models = kernels.load("models/")
    models.predict(shapes)  # a polars frame in, a polars frame out

`families/` counts the work of each kind of op; `public.py` and `measurements.py` read
what was measured. scikit-learn and SciPy are imported where they are needed: they
take longer than all else that a command does.
"""

from .describe import described, summary
from .evaluate import evaluate
from .families import FAMILIES, Family, Shapes
from .measurements import Measurements, read_measurements
from .models import Models, load_model
from .models import load_models as load
from .models import shipped_models as shipped
from .train import Trained, train

__all__ = [
    "FAMILIES",
    "Family",
    "Measurements",
    "Models",
    "Shapes",
    "Trained",
    "described",
    "evaluate",
    "load",
    "load_model",
    "read_measurements",
    "shipped",
    "summary",
    "train",
]
