"""Device meshes of fake ranks, computed with real tensors.

A mesh keeps its rank numbers in a tensor, whose values its own code reads. So all its
methods run on real tensors, unseen by the recorder.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed import device_mesh
from torch.distributed.device_mesh import DeviceMesh
from torch.utils._python_dispatch import (
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
)

from tracedb.from_code.changed import changed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tracedb.from_code.recorder import Recorder


@contextmanager
def really() -> Iterator[None]:
    """Compute with real tensors, and record no ops, within the block."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():  # noqa: SLF001 (it has no public name)
        yield


def is_real() -> bool:
    """Whether tensors are real: PyTorch's own code exchanges values, not the user's."""
    return not _get_current_dispatch_mode_stack()


class _Torch:
    """The module `torch`, whose functions that number a mesh make real tensors."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever PyTorch has)
        found = getattr(torch, name)
        return _really_called(found) if name in _NUMBERED else found


_NUMBERED = ("arange", "tensor")
_MAKES = "init_device_mesh"
_NUMBERS = "mesh"
"""What numbers the ranks of a mesh: a property, in older versions an attribute."""


@contextmanager
def real_meshes(recorder: Recorder) -> Iterator[None]:
    """Make meshes compute with real tensors within the block.

    Other code that asks for the numbers of the ranks gets a tensor that knows them.
    """
    before = {
        name: method
        for name, method in vars(DeviceMesh).items()
        if isinstance(method, (FunctionType, staticmethod))
    }
    for name, method in before.items():
        setattr(DeviceMesh, name, _real(method))
    try:
        with (
            changed(DeviceMesh, {_NUMBERS: _numbers(recorder)}),
            changed(device_mesh, {"torch": _Torch()}),
            _really_made(),
        ):
            yield
    finally:
        for name, method in before.items():
            setattr(DeviceMesh, name, method)


@contextmanager
def _really_made() -> Iterator[None]:
    """Make new meshes of real tensors, in all modules that have imported what does."""
    usual = device_mesh.init_device_mesh
    having = [
        module
        for module in list(sys.modules.values())
        if getattr(module, "__dict__", {}).get(_MAKES) is usual
    ]
    with ExitStack() as stack:
        for module in having:
            stack.enter_context(changed(module, {_MAKES: _really_called(usual)}))
        yield


def _numbers(recorder: Recorder) -> property:
    """The numbers of a mesh's ranks, known to other code than PyTorch's own."""
    own = vars(DeviceMesh).get(_NUMBERS)

    def known(mesh: DeviceMesh) -> torch.Tensor:
        with really():
            found: torch.Tensor = own.fget(mesh) if own else vars(mesh)[_NUMBERS]
        return found if is_real() else recorder.known_on_host(found)

    def keep(mesh: DeviceMesh, numbers: torch.Tensor) -> None:
        vars(mesh)[_NUMBERS] = numbers

    return property(known, None if own else keep)


@contextmanager
def unseen_forms(recorder: Recorder) -> Iterator[None]:
    """Find the sizes of sharded tensors without recording ops of these sizes."""
    try:
        from torch.distributed.tensor._sharding_prop import ShardingPropagator
    except ImportError:  # It has no public name.
        yield
        return
    own = getattr(ShardingPropagator, _FORMED)

    @wraps(own)
    def formed(*args: object, **more: object) -> object:
        with recorder.unseen():
            return own(*args, **more)

    with changed(ShardingPropagator, {_FORMED: formed}):
        yield


_FORMED = "_propagate_tensor_meta_non_cached"


def _real(method: Any) -> Any:  # noqa: ANN401 (a function, static or not)
    if isinstance(method, staticmethod):
        return staticmethod(_really_called(method.__func__))
    return _really_called(method)


def _really_called(function: Callable[..., object]) -> Callable[..., object]:
    @wraps(function)
    def called(*args: object, **more: object) -> object:
        with really():
            return function(*map(_known, args), **more)

    return called


def _known(given: object) -> object:
    """A real tensor of the values that a fake one has, as of rank numbers."""
    values = given.constant if isinstance(given, FakeTensor) else None
    return given if values is None else values
