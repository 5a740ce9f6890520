"""The step of a script: `train.py:step`, run with a batch size if it takes one."""

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
"""Names of the parameter that a batch size is given to."""


@dataclass(frozen=True)
class Step:
    """A function that does one step, and what it is called with."""

    function: Callable[..., object]
    inputs: tuple[object, ...] = ()
    batch: int | None = None

    def __call__(self) -> object:
        """Do the step."""
        given: dict[str, Any] = {}
        if self.batch is not None:
            given[self.batch_parameter()] = self.batch
        return self.function(*self.inputs, **given)

    def with_batch(self, batch: int | None) -> Step:
        """The same step with another batch size; raises `EstimateError` if none."""
        changed = Step(self.function, self.inputs, batch)
        if batch is not None:
            changed.batch_parameter()
        return changed

    @property
    def takes_batch(self) -> bool:
        """Whether the batch size is a parameter of it."""
        return any(name in _BATCH for name in self._parameters())

    @property
    def usual_batch(self) -> int | None:
        """The batch size that it has: the one given, else its default."""
        if self.batch is not None:
            return self.batch
        for name, parameter in self._parameters().items():
            if name in _BATCH and isinstance(parameter.default, int):
                return parameter.default
        return None

    def batch_parameter(self) -> str:
        """The name of the parameter for the batch size."""
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
    """Take `train.py:step` apart; raises `EstimateError` for what is none."""
    path, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise EstimateError(f"{text}: give a file and a function in it: train.py:step")
    if not Path(path).is_file():
        raise EstimateError(f"{path}: no such file")
    return Path(path), name


def load(path: Path, name: str) -> Step:
    """Run a script and give its function of that name.

    Raises `EstimateError` where there is none, or where it needs values.
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
    """Let a script import what lies beside it, as when it is run."""
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)
    sys.modules[path.stem] = module
    try:
        yield
    finally:
        sys.path.remove(folder)
        sys.modules.pop(path.stem, None)
