"""Model files: a JSON header and arrays in one .npz, which runs no code when read."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tracedb.errors import KernelModelError
from tracedb.outputs import written

from .bands import EVEN, Band, Growth, TimedError
from .collective_table import CollectiveTable
from .families import FAMILIES
from .model import Key, Model
from .model_file import UNREADABLE, Header, VerdictFields, arrays_of, header_of
from .predictor import DISTANCES, Core, Predictor
from .residual import MIXES
from .roofline import Roofline
from .support import NOWHERE, Support
from .transfer import Mix, Transfer, Verdict
from .trees import Forest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

VERSION = 6
SUFFIX = ".npz"
_HEADER = "header"
_BAND = ("at", "low", "high")
_MOST_LOG = 100.0
_MOST_OF_NAME = 30
"""Of each part of a key in a file's name, which may have 255 bytes."""


def save(model: Model, folder: Path) -> Path:
    """Write a model into a folder; the file is there in whole, or not at all."""
    path = folder / f"{_slug(model.key)}{SUFFIX}"
    header = json.dumps(_header(model), indent=1, sort_keys=True).encode()
    arrays = _arrays(model) | {_HEADER: np.frombuffer(header, np.uint8)}
    with written(path, KernelModelError) as beside, beside.open("wb") as file:
        # NumPy before 2.1 takes its option `allow_pickle` for an array.
        narrow: Any = {name: _narrow(array) for name, array in arrays.items()}
        np.savez_compressed(file, **narrow)
    return path


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in the narrowest type that holds them all."""
    if array.dtype.kind in "iu" and array.size:
        ends = (np.min_scalar_type(end) for end in (array.min(), array.max()))
        found = np.promote_types(*ends)
        return array.astype(found) if found.kind in "iu" else array
    single = array.astype(np.float32) if array.dtype.kind == "f" else array
    return single if np.array_equal(single, array) else array


def _slug(key: Key) -> str:
    """The key as the name of a file."""
    parts = (re.sub(r"[^\w.-]+", "-", part).strip("-") for part in asdict(key).values())
    # Names that differ in other characters, or late, are told apart by the checksum.
    checksum = zlib.crc32(json.dumps(asdict(key)).encode())
    return "_".join(
        [*(part[:_MOST_OF_NAME] or "none" for part in parts), f"{checksum:08x}"]
    )


def _header(model: Model) -> dict[str, Any]:
    core = model.predictor.core
    kind = "table" if isinstance(core.base, CollectiveTable) else "roofline"
    return {
        "format": VERSION,
        "key": asdict(model.key),
        "hardware": dict(model.hardware),
        "is_listed": model.is_listed,
        "transfer": asdict(model.transfer),
        "provenance": dict(model.provenance),
        "base": {"kind": kind, "constants": core.base.constants()},
        "features": list(core.feature_names),
        "forests": {name: float(len(f.first)) for name, f in core.forests.items()},
        "clip": list(core.clip),
        "range": {name: list(ends) for name, ends in core.range.items()},
        "mix": model.predictor.mix,
        "reach": model.predictor.reach,
        "scores": {n: asdict(s) for n, s in model.predictor.scores.items()},
        "datasheet_scores": {
            n: asdict(s) for n, s in model.predictor.datasheet_scores.items()
        },
    }


def _arrays(model: Model) -> dict[str, NDArray[Any]]:
    predictor = model.predictor
    support = predictor.core.support
    arrays: dict[str, NDArray[Any]] = {
        "known": predictor.core.known,
        "support": support.places.ravel(),
        "growth.at": predictor.growth.at,
        "growth.added": predictor.growth.added,
        "harness.at": model.harness_error.at,
        "harness.error": model.harness_error.error,
    }
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
        arrays = arrays_of(path)
        fields = json.loads(arrays[_HEADER].tobytes())
        version = fields["format"]
    except UNREADABLE as error:
        raise _broken(path, error) from error
    if version != VERSION:
        raise KernelModelError(
            f"{path}: a model of format {version}; this version of tracedb reads "
            f"{VERSION}; train it again with `tracedb kernels train`"
        )
    try:
        return _model(header_of(fields), arrays)
    except (KernelModelError, *UNREADABLE) as error:
        raise _broken(path, error) from error


def _broken(path: Path, error: BaseException) -> KernelModelError:
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return KernelModelError(
        f"{path}: not a kernel model, or a broken one ({line}); train it again with "
        "`tracedb kernels train`"
    )


def _model(header: Header, arrays: Arrays) -> Model:
    if header.key.family not in FAMILIES:
        raise ValueError(f"unknown family {header.key.family}")
    core = _core(header, arrays)
    if not MIXES[header.mix].keys() <= core.forests.keys():
        raise ValueError("a forest is missing")
    if not {*header.scores, *header.datasheet_scores} <= set(DISTANCES):
        raise ValueError("a score is of no distance")
    bands = {name: _band(arrays, f"band.{name}") for name in DISTANCES}
    growth = _growth(_below("growth", arrays))
    learnt = (header.mix, header.reach, bands, header.scores, growth)
    return Model(
        header.key,
        header.hardware,
        header.is_listed,
        Predictor(core, *learnt, header.datasheet_scores),
        _timed(_below("harness", arrays), header.harness_error),
        Transfer(_verdict(header.transfer.far), _verdict(header.transfer.near)),
        header.provenance,
    )


def _verdict(given: VerdictFields) -> Verdict:
    fields = msgspec.structs.asdict(given) | {
        "mix": Mix(**msgspec.structs.asdict(given.mix))
    }
    return Verdict(**fields)


def _core(header: Header, arrays: Arrays) -> Core:
    base: Roofline | CollectiveTable
    if header.base.kind == "table":
        base = CollectiveTable.of_arrays(_below("table", arrays))
    else:
        base = Roofline(**header.base.constants)
    names = tuple(header.features)
    forests = {
        name: Forest.of_arrays(_below(f"forest.{name}", arrays), len(names))
        for name in header.forests
    }
    if any(low > high for low, high in (header.clip, *header.range.values())):
        raise ValueError("a range ends before it begins")
    known = arrays["known"]
    if known.dtype.kind not in "iu":
        raise ValueError("known combinations are not numbers")
    support = _support(arrays, len(FAMILIES[header.key.family].columns))
    return Core(base, forests, names, header.clip, header.range, known, support)


def _support(arrays: Arrays, sizes: int) -> Support:
    """Where shapes were measured; nowhere in files of earlier versions."""
    if "support" not in arrays or not arrays["support"].size:
        return NOWHERE
    column = arrays["support"].astype(np.float32)
    if len(column) % sizes:
        raise ValueError("measured shapes lack a size")
    if np.abs(column).max() > _MOST_LOG:
        raise ValueError("measured shapes are out of range")
    return Support(column.reshape(-1, sizes))


def _growth(arrays: Arrays) -> Growth:
    """How bands widen; evenly wide ones in files of earlier versions."""
    if not arrays:
        return EVEN
    at, added = (arrays[name].astype(float) for name in ("at", "added"))
    if not len(at) == len(added) > 0 or (np.diff(at) < 0).any():
        raise ValueError("bands widen in no order")
    if np.abs([at, added]).max() > _MOST_LOG or added.min() < 0:
        raise ValueError("bands widen out of range")
    return Growth(at, added)


def _timed(arrays: Arrays, of_all: float) -> TimedError:
    """Errors by time; the same for all times in files of earlier versions."""
    if not arrays:
        return TimedError(np.zeros(1), np.full(1, of_all))
    at, error = (arrays[name].astype(float) for name in ("at", "error"))
    if not len(at) == len(error) > 0 or (np.diff(at) < 0).any():
        raise ValueError("errors of harnesses are in no order")
    if np.abs([at, error]).max() > _MOST_LOG or error.min() < 0:
        raise ValueError("errors of harnesses are out of range")
    return TimedError(at, error)


def _below(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    start = f"{prefix}."
    return {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}


def _band(arrays: Arrays, name: str) -> Band:
    at, low, high = (arrays[f"{name}.{part}"].astype(float) for part in _BAND)
    if not len(at) == len(low) == len(high) > 0 or (np.diff(at) < 0).any():
        raise ValueError(f"{name} is not a band")
    if np.abs([at, low, high]).max() > _MOST_LOG or (low > high).any():
        raise ValueError(f"{name} is out of range")
    return Band(at, low, high)
