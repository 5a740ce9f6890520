"""Record runs of PyTorch: a profiler trace, an execution graph and measured times.

This package stands alone: it imports nothing but the standard library, NumPy and
PyTorch, so that its folder can be copied to a machine without tracedb.

    from tracedb.record import DLRM_SAMPLE, record_dlrm
    record_dlrm("traces", DLRM_SAMPLE, name="dlrm")

writes `dlrm.kineto.json.gz`, `dlrm.et.json.gz` and `dlrm.measured.json`. To record
a training step of your own, pass it to `record` as a function without arguments.
"""

from . import needs_torch  # noqa: F401 (it raises a clear error, before the others)
from .ddp import record_ddp
from .dlrm import (
    DLRM,
    DLRM_DDP,
    DLRM_DEFAULT,
    DLRM_MLPERF,
    DLRM_SAMPLE,
    RMC1,
    RMC2,
    RMC3,
    Batch,
    DLRMConfig,
    loss_function,
    random_batch,
    random_loader,
    random_model,
    record_dlrm,
)
from .loop import Loop, Plan, Rank
from .recording import Counts, Recording, measure, record
from .training import Training, training_step
from .transformer import Sentences, Transformer, TransformerConfig
from .vision import Images, inception, resnet
from .workloads import WORKLOADS, Workload

__all__ = [
    "DLRM",
    "DLRM_DDP",
    "DLRM_DEFAULT",
    "DLRM_MLPERF",
    "DLRM_SAMPLE",
    "RMC1",
    "RMC2",
    "RMC3",
    "WORKLOADS",
    "Batch",
    "Counts",
    "DLRMConfig",
    "Images",
    "Loop",
    "Plan",
    "Rank",
    "Recording",
    "Sentences",
    "Training",
    "Transformer",
    "TransformerConfig",
    "Workload",
    "inception",
    "loss_function",
    "measure",
    "random_batch",
    "random_loader",
    "random_model",
    "record",
    "record_ddp",
    "record_dlrm",
    "resnet",
    "training_step",
]
