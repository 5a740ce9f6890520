"""Labels of `AdaptiveLogSoftmaxWithLoss`, of which each cluster of classes gets some.

The layer selects the labels of a cluster by their values, and those of all clusters
must be all labels. Where they are unknown, they are assumed to be evenly spread.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch._subclasses import fake_tensor
from torch.nn import AdaptiveLogSoftmaxWithLoss

from tracedb.from_code import place
from tracedb.from_code.changed import changed
from tracedb.from_code.fake_mesh import really
from tracedb.from_code.known import KNOWN, learn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracedb.from_code.recorder import Recorder


@contextmanager
def clusters(recorder: Recorder) -> Iterator[None]:
    """Assume within the block that unknown labels are evenly spread over classes."""
    own = AdaptiveLogSoftmaxWithLoss.forward

    def forward(
        layer: AdaptiveLogSoftmaxWithLoss, input_: torch.Tensor, target_: torch.Tensor
    ) -> object:
        count = target_.numel()
        with changed(fake_tensor, {"CONSTANT_NUMEL_LIMIT": max(KNOWN, count)}):
            labels = target_.detach()
            if recorder.known_values(labels) is None:
                recorder.assumptions.tell(
                    f"{place.of_caller()}: labels of AdaptiveLogSoftmaxWithLoss are "
                    "assumed to be evenly spread over its classes"
                )
                with really():
                    spread = torch.arange(count) * layer.n_classes // max(count, 1)
                learn(labels, spread)
            return own(layer, input_, labels)

    with changed(AdaptiveLogSoftmaxWithLoss, {"forward": forward}):
        yield
