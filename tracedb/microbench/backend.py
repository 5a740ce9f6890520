"""The interface of backends, which build the work of a case and time it."""

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
    """The device and the software of a measurement."""

    device: str
    software: str
    measured: str
    """`kernel`: only the GPU's time; `op`: the time on the host."""
    facts: Mapping[str, object]
    """Other facts about the run: driver, threads, cache, overhead."""


class Backend(Protocol):
    """A package that runs ops on a device."""

    timer: Timer
    cold_timer: Timer
    """The timer that runs other work before each call, if there is one."""
    memory_bytes: int
    """[B] The largest total size of a case's tensors."""

    def place(self) -> Place:
        """The device and the software."""

    def build(self, case: Case) -> Work:
        """Make the work of a case with its tensors; UnsupportedError without an op."""

    def failure(self, error: Exception) -> str | None:
        """Why a case cannot be measured; None if the run cannot continue."""

    def release(self) -> None:
        """Release the memory of earlier cases."""


# In order of preference. Models of traces should learn from PyTorch's kernels; the
# others are substitutes if it is not installed.
BACKENDS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("torch", "numpy"),
    "cuda": ("torch", "cupy"),
}
_HOMES = {"torch": "torch_backend", "cupy": "array_backend", "numpy": "array_backend"}
_EXTRAS = {"torch": "record", "cupy": "gpu"}


def open_backend(name: str, device: str, threads: int | None = None) -> Backend:
    """Open a backend, or with `auto` the first that is installed, on a device.

    `threads` is the number of CPU threads, by default that of its cores. Raises
    DeviceMissingError if the package or the device is missing.
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
