"""Data-parallel training without the other ranks: gradients in buckets.

This runs PyTorch's own `DistributedDataParallel` and Reducer. It skips the initial
synchronization and the buckets of the first step. Later buckets follow the order in
which gradients arrive, taken to be the reverse order of the parameters.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState,
)
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState
from torch.distributed.algorithms.join import Join
from torch.nn.modules import module as modules
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel import distributed as ddp

from tracedb.from_code.changed import changed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tracedb.from_code.recorder import Recorder

_C10D: Any = distributed
"""It exports more than it says."""

# Positions of the Reducer's arguments, which have no names.
_ARE_SPARSE, _CAP, _FINDS_UNUSED, _FIRST_CAP = 4, 5, 6, 9
_UNSYNCHRONIZED = dict.fromkeys(
    ("_verify_param_shape_across_processes", "_sync_module_states"),
    lambda *_, **__: None,
)
"""What models do first; the argument `init_sync` came only after PyTorch 2.6."""


@contextmanager
def in_later_steps(recorder: Recorder) -> Iterator[None]:
    """Give `DistributedDataParallel` the buckets of later steps within the block."""
    make, reducer = DistributedDataParallel.__init__, _C10D.Reducer

    def begin(model: Any, *args: Any, **more: Any) -> None:  # noqa: ANN401
        """Skip the initial broadcast of the model, and have the buckets of later."""
        with changed(ddp, _UNSYNCHRONIZED):
            make(model, *args, **more)
        # Optimizers that update parameters bucket by bucket wait for it.
        is_in_any_order = model.find_unused_parameters and not model.static_graph
        model._has_rebuilt_buckets = not is_in_any_order  # noqa: SLF001 (as they ask)

    def reduce(parameters: list[Any], *rest: Any, **more: Any) -> object:  # noqa: ANN401
        """Make the Reducer with the buckets of later steps."""
        args = [parameters, *rest]
        if not args[_FINDS_UNUSED]:
            caps = [args[_FIRST_CAP], args[_CAP]]
            args[1], args[2] = _buckets(parameters, caps, args[_ARE_SPARSE])
        on_gpu = recorder.holding(parameters[0]).is_on_gpu
        with recorder.side.placing(on_gpu=on_gpu), recorder.now.during("bucket"):
            return reducer(*args, **more)

    with ExitStack() as stack:
        stack.enter_context(changed(DistributedDataParallel, {"__init__": begin}))
        stack.enter_context(changed(distributed, {"Reducer": reduce}))
        stays = {"_rebuild_buckets": lambda _: False}
        stack.enter_context(changed(reducer, stays))
        # It asks a group that is called Gloo's for Gloo's own devices.
        unlogged = {"set_construction_data_and_log": lambda *_: None}
        stack.enter_context(changed(_C10D.Logger, unlogged))
        for kind, begin_at in _BEGUN.items():
            stack.enter_context(changed(kind, {"__init__": _begun(kind, begin_at)}))
        stack.enter_context(changed(Join, {_JOINED: _joined}))
        yield


_BEGUN: dict[Any, str] = {
    PowerSGDState: "start_powerSGD_iter",
    PostLocalSGDState: "start_localSGD_iter",
}
"""Hooks that do something else in their first steps, and in how many."""
_JOINED = "_get_num_nonjoined_procs"
_count_joined = getattr(Join, _JOINED)


def _begun(kind: Any, steps: str) -> Callable[..., None]:  # noqa: ANN401
    """Make the state of a hook whose first steps are over."""
    make = kind.__init__

    def begin(state: Any, *args: Any, **more: Any) -> None:  # noqa: ANN401
        make(state, *args, **more)
        state.iter = getattr(state, steps)

    return begin


def _joined(join: Join) -> int:
    """Count the ranks that have inputs left: none, as all have the same number."""
    _count_joined(join)
    return 0


def _buckets(
    parameters: list[Any], caps: list[int], are_sparse: list[bool]
) -> tuple[list[list[int]], list[int]]:
    """The parameter indices of each bucket, last ones first, and its size limit [B]."""
    last = len(parameters) - 1
    buckets, limits = _C10D._compute_bucket_assignment_by_size(  # noqa: SLF001 (it has no public name)
        parameters[::-1], caps, are_sparse[::-1]
    )
    return [[last - place for place in bucket] for bucket in buckets], limits


class Averaging:
    """Averages the gradients of models whose code does not communicate itself.

    `begin` makes the group of all ranks, and returns False if the code has its own.
    """

    def __init__(self, begin: Callable[[], bool]) -> None:
        """Start without models."""
        self._begin = begin
        self._models: dict[int, Any] = {}
        self._depth = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Hook into all modules within the block."""
        handles = [
            modules.register_module_forward_pre_hook(self._enter),
            modules.register_module_forward_hook(self._leave, always_call=True),
        ]
        try:
            yield
        finally:
            self._depth = 0
            for handle in handles:
                handle.remove()

    def end(self) -> None:
        """Release the models."""
        self._models.clear()

    def _enter(self, module: torch.nn.Module, _args: object) -> None:
        self._depth += 1
        is_trained = torch.is_grad_enabled() and any(
            parameter.requires_grad for parameter in module.parameters()
        )
        if self._depth == 1 and is_trained and self._begin():
            if id(module) not in self._models:
                self._models[id(module)] = DistributedDataParallel(module)
            self._models[id(module)]._pre_forward()  # noqa: SLF001 (its forward, but for the module's)

    def _leave(self, module: torch.nn.Module, _args: object, result: Any) -> Any:  # noqa: ANN401
        self._depth -= 1
        model = self._models.get(id(module)) if self._depth == 0 else None
        if model is None or not torch.is_grad_enabled():
            return None
        return model._post_forward(result)  # noqa: SLF001
