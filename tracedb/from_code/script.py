"""Load the step of a script, `train.py:step`, and call it with a batch size."""

from __future__ import annotations

import inspect
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracedb.errors import EstimateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BATCH = ("batch", "batch_size")
"""Accepted names of the batch size parameter."""


@dataclass(frozen=True)
class Step:
    """A function that runs one step, and its arguments."""

    function: Callable[..., object]
    inputs: tuple[object, ...] = ()
    batch: int | None = None

    def __call__(self) -> object:
        """Run the step."""
        given: dict[str, Any] = {}
        if self.batch is not None:
            given[self.batch_parameter()] = self.batch
        return self.function(*self.inputs, **given)

    def with_batch(self, batch: int | None) -> Step:
        """The step with another batch size; `EstimateError` if it takes none."""
        changed = Step(self.function, self.inputs, batch)
        if batch is not None:
            changed.batch_parameter()
        return changed

    @property
    def takes_batch(self) -> bool:
        """Whether it has a batch size parameter."""
        return any(name in _BATCH for name in self._parameters())

    @property
    def usual_batch(self) -> int | None:
        """The batch size: the given one, else the parameter's default."""
        if self.batch is not None:
            return self.batch
        for name, parameter in self._parameters().items():
            if name in _BATCH and isinstance(parameter.default, int):
                return parameter.default
        return None

    def batch_parameter(self) -> str:
        """The name of the batch size parameter."""
        found = next((name for name in self._parameters() if name in _BATCH), None)
        if found is None:
            raise EstimateError(
                f"{self._name}() takes no batch size; give it a parameter `batch`"
            )
        return found

    def _parameters(self) -> dict[str, inspect.Parameter]:
        try:
            return dict(inspect.signature(self.function).parameters)
        except (TypeError, ValueError):
            return {}

    @property
    def _name(self) -> str:
        return getattr(self.function, "__name__", "the step")


def split(text: str) -> tuple[Path, str]:
    """Split `train.py:step`; raises `EstimateError` if malformed or no such file."""
    path, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise EstimateError(f"{text}: give a file and a function in it: train.py:step")
    if not Path(path).is_file():
        raise EstimateError(f"{path}: no such file")
    return Path(path), name


def load(path: Path, name: str) -> Step:
    """Run a script and return its function of that name.

    Raises `EstimateError` if there is none, or if it has other required parameters.
    """
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise EstimateError(f"{path}: not a Python file")
    module = module_from_spec(spec)
    with _importing(path, module):
        spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise EstimateError(f"{path}: has no function {name}")
    step = Step(function)
    needed = [
        p.name
        for p in step._parameters().values()  # noqa: SLF001 (its own module)
        if p.default is p.empty
        and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    others = [parameter for parameter in needed if parameter not in _BATCH]
    if others:
        raise EstimateError(
            f"{path}: {name}() needs {', '.join(others)}; it may take only a batch "
            "size, and must create its own inputs"
        )
    return step


@contextmanager
def _importing(path: Path, module: Any) -> Iterator[None]:  # noqa: ANN401
    """Let a script import modules from its own folder, as when it is run."""
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)
    sys.modules[path.stem] = module
    try:
        yield
    finally:
        sys.path.remove(folder)
        sys.modules.pop(path.stem, None)
