"""Model files: a JSON header and arrays in one .npz, which runs no code when read."""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from tracedb.errors import KernelModelError
from tracedb.outputs import written

from .bands import Band
from .collective_table import CollectiveTable
from .families import FAMILIES
from .model import Key, Model
from .predictor import DISTANCES, Core, Predictor
from .residual import MIXES
from .roofline import Roofline
from .scores import Scores
from .trees import Forest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

VERSION = 2
SUFFIX = ".npz"
_HEADER = "header"
_BAND = ("at", "low", "high")
_UNREADABLE = (
    *(OSError, ValueError, KeyError, EOFError, AttributeError, TypeError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError),
)


def save(model: Model, folder: Path) -> Path:
    """Write a model into a folder; the file is there in whole, or not at all."""
    path = folder / f"{_slug(model.key)}{SUFFIX}"
    header = json.dumps(_header(model), indent=1, sort_keys=True).encode()
    arrays = _arrays(model) | {_HEADER: np.frombuffer(header, np.uint8)}
    with written(path, KernelModelError) as beside, beside.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    return path


def _slug(key: Key) -> str:
    """The key as the name of a file."""
    parts = (re.sub(r"[^\w.-]+", "-", part).strip("-") for part in asdict(key).values())
    # Names that differ in other characters alone are told apart by the checksum.
    checksum = zlib.crc32(json.dumps(asdict(key)).encode())
    return "_".join([*(part or "none" for part in parts), f"{checksum:08x}"])


def _header(model: Model) -> dict[str, Any]:
    core = model.predictor.core
    kind = "table" if isinstance(core.base, CollectiveTable) else "roofline"
    return {
        "format": VERSION,
        "key": asdict(model.key),
        "hardware": dict(model.hardware),
        "is_listed": model.is_listed,
        "harness_error": model.harness_error,
        "provenance": dict(model.provenance),
        "base": {"kind": kind, "constants": core.base.constants()},
        "features": list(core.feature_names),
        "forests": {name: float(len(f.first)) for name, f in core.forests.items()},
        "clip": list(core.clip),
        "range": {name: list(ends) for name, ends in core.range.items()},
        "mixes": dict(model.predictor.mixes),
        "scores": {n: asdict(s) for n, s in model.predictor.scores.items()},
    }


def _arrays(model: Model) -> dict[str, NDArray[Any]]:
    predictor = model.predictor
    arrays: dict[str, NDArray[Any]] = {"known": predictor.core.known}
    if isinstance(predictor.core.base, CollectiveTable):
        arrays |= _named("table", predictor.core.base.arrays())
    for name, forest in predictor.core.forests.items():
        arrays |= _named(f"forest.{name}", forest.arrays())
    for name, band in predictor.bands.items():
        arrays |= _named(f"band.{name}", {n: getattr(band, n) for n in _BAND})
    return arrays


def _named(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def read(path: Path) -> Model:
    """Read a model file; raises `KernelModelError` for one that is none, or broken."""
    try:
        _refuse_other_files(path)
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays[_HEADER].tobytes())
        version = header["format"]
    except _UNREADABLE as error:
        raise _broken(path, error) from error
    if version != VERSION:
        raise KernelModelError(
            f"{path}: a model of format {version}, not {VERSION}, which this tracedb "
            "reads; train it again with `tracedb kernels train`"
        )
    try:
        return _model(header, arrays)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise _broken(path, error) from error


def _refuse_other_files(path: Path) -> None:
    """Raise `ValueError` for what is no archive: NumPy would take it for a pickle."""
    with path.open("rb") as file:
        if file.read(2) != b"PK":
            raise ValueError("it is no archive of arrays")


def _broken(path: Path, error: Exception) -> KernelModelError:
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return KernelModelError(
        f"{path}: no kernel model, or a broken one ({line}); train it again with "
        "`tracedb kernels train`"
    )


def _model(header: dict[str, Any], arrays: Arrays) -> Model:
    key = Key(**header["key"])
    mixes = {str(name): str(mix) for name, mix in header["mixes"].items()}
    if key.family not in FAMILIES or not set(mixes) <= set(DISTANCES):
        raise ValueError(f"unknown family {key.family}, or distance")
    core = _core(header, arrays)
    if not all(MIXES[mix].keys() <= core.forests.keys() for mix in mixes.values()):
        raise ValueError("a forest is missing")
    bands = {
        name: Band(*(_column(arrays, f"band.{name}.{n}") for n in _BAND))
        for name in mixes
    }
    scores = {name: Scores(**score) for name, score in header["scores"].items()}
    return Model(
        key,
        {name: float(value) for name, value in header["hardware"].items()},
        bool(header["is_listed"]),
        Predictor(core, mixes, bands, scores),
        float(header["harness_error"]),
        header["provenance"],
    )


def _core(header: dict[str, Any], arrays: Arrays) -> Core:
    base: Roofline | CollectiveTable
    if header["base"]["kind"] == "table":
        base = CollectiveTable.of_arrays(_below("table", arrays))
    else:
        base = Roofline(**header["base"]["constants"])
    names = tuple(map(str, header["features"]))
    forests = {
        name: Forest.of_arrays(_below(f"forest.{name}", arrays), len(names))
        for name in header["forests"]
    }
    low, high = map(float, header["clip"])
    ends = {name: (float(a), float(b)) for name, (a, b) in header["range"].items()}
    return Core(base, forests, names, (low, high), ends, arrays["known"])


def _below(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    start = f"{prefix}."
    return {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}


def _column(arrays: Arrays, name: str) -> NDArray[np.float64]:
    column = np.asarray(arrays[name], dtype=float)
    if column.ndim != 1 or not len(column):
        raise ValueError(f"{name} is no column")
    return column
