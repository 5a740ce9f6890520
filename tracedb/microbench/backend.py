"""What every backend is: it builds the work of a case, and times it on its device."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, TypeAlias

from .case import Case
from .errors import DeviceMissingError
from .timing import Timer

Work: TypeAlias = Callable[[], object]

DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Place:
    """The device and the software that measures on it, as a measurement states them."""

    device: str
    software: str
    measured: str
    """`kernel`: the GPU's time alone; `op`: as the host sees it."""
    facts: Mapping[str, object]
    """What else tells one run from another: driver, threads, cache, overhead."""


class Backend(Protocol):
    """A package that runs ops on a device."""

    timer: Timer
    cold_timer: Timer
    """What times each call behind other work, as far as there is such a one."""
    memory_bytes: int
    """What the tensors of a case may take together."""

    def place(self) -> Place:
        """Say what is measured on."""

    def build(self, case: Case) -> Work:
        """Make the tensors of a case; raises UnsupportedError where it has no op."""

    def failure(self, error: Exception) -> str | None:
        """Say why a case cannot be measured; None: the run cannot go on."""

    def release(self) -> None:
        """Give the memory of earlier cases back."""


# By what is tried first. PyTorch's kernels are those of a trace, so they are what a
# model of a trace should learn from; the others stand in where it is not installed.
BACKENDS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("torch", "numpy"),
    "cuda": ("torch", "cupy"),
}
_HOMES = {"torch": "torch_backend", "cupy": "array_backend", "numpy": "array_backend"}
_EXTRAS = {"torch": "record", "cupy": "gpu"}


def open_backend(name: str, device: str, threads: int | None = None) -> Backend:
    """Open a backend, or with `auto` the first that is installed, on a device.

    `threads` is how many a CPU works with, as many as it has cores unless given. Raises
    DeviceMissingError where package or device are missing.
    """
    usable = BACKENDS[device]
    if name == "auto":
        name = next((each for each in usable if find_spec(each)), usable[0])
    if name not in usable:
        raise DeviceMissingError(
            f"{name} does not run on {device}; available: {', '.join(usable)}"
        )
    if find_spec(name) is None:
        raise DeviceMissingError(
            f"{name} is not installed: pip install 'tracedb[{_EXTRAS[name]}]'"
            if name in _EXTRAS
            else f"{name} is not installed: pip install {name}"
        )
    home = import_module(f".{_HOMES[name]}", __package__)
    opened: Backend = home.open_backend(name, device, threads)
    return opened
