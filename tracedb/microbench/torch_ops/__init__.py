"""What PyTorch runs: one builder a family, found in one table.

A builder makes the tensors of a case on a device, and gives back the work to time: a
function without arguments. It raises UnsupportedError for an op that it does not have.
"""

from collections.abc import Callable, Mapping

import torch

from ..case import Case
from . import attention, convolution, elementwise, embedding, gemm, movement, optimizer
from . import rows as by_rows

Builder = Callable[[Case, torch.device], Callable[[], object]]

BUILDERS: Mapping[str, Builder] = {
    "gemm": gemm.build,
    "convolution": convolution.build,
    "attention": attention.build,
    "embedding": embedding.lookup,
    "embedding_backward": embedding.lookup_backward,
    "embedding_bag": embedding.bags,
    "embedding_bag_backward": embedding.bags_backward,
    "elementwise": elementwise.build,
    "reduction": by_rows.reduction,
    "softmax": by_rows.softmax,
    "normalisation": by_rows.normalisation,
    "concat": movement.concat,
    "copy": movement.copy,
    "index": movement.index,
    "memcpy": movement.memcpy,
    "memset": movement.memset,
    "optimizer": optimizer.build,
}
