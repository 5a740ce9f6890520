"""Import packages that are installed only with extras."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tracedb.errors import MissingPackageError


def import_extra(module: str, extra: str, feature: str) -> Any:  # noqa: ANN401 (a module is anything)
    """Import a module of an extra.

    Raises `MissingPackageError`, which says what to install, if it is missing.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingPackageError(
            f"{feature} needs the package {package}: {_problem(error)}; "
            f"pip install 'tracedb[{extra}]'"
        ) from error


def _problem(error: ImportError) -> str:
    """Say that it is not installed, or why its import failed."""
    return "it is not installed" if error.name is None else str(error).lower()
