"""What a model file has to be before anything in it is used: sizes, types, ranges."""

from __future__ import annotations

import re
import struct
import tokenize
import zipfile
import zlib
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

import msgspec
import numpy as np

from .model import Key  # noqa: TC001 (msgspec reads annotations)
from .scores import Scores  # noqa: TC001 (likewise)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

UNREADABLE = (
    *(OSError, ValueError, LookupError, ArithmeticError, EOFError, AttributeError),
    *(TypeError, RuntimeError, MemoryError, SyntaxError, AssertionError),
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
    msgspec.MsgspecError,  # before 0.21 no ValueError
)
"""What reading and using a stranger's arrays may raise."""
_MOST_BYTES = 64 << 20
"""Of all arrays: a hundred times those of the largest models."""
_MOST_ARRAYS = 100
_BEFORE_HEADER = 10
# The start of a .npy file as `numpy.save` writes it; its own reader, which compiles the
# header as Python, takes half of the time of a model.
_COLUMN = re.compile(
    rb"\x93NUMPY\x01\x00(?P<size>..)\{'descr': '(?P<type>[<|][iuf][1248])', "
    rb"'fortran_order': False, 'shape': \((?P<count>\d{1,12}),\), \} *\n",
    re.DOTALL,
)

_Positive = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
_Log = Annotated[float, msgspec.Meta(ge=-100, le=100)]
_Size = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]
_Error = Annotated[float, msgspec.Meta(ge=0, le=100)]
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Share = Annotated[float, msgspec.Meta(ge=0)]
_Part = Annotated[float, msgspec.Meta(ge=0, le=1)]


class _Data(msgspec.Struct):
    file: str


class _Provenance(msgspec.Struct):
    """What of a provenance is shown by itself."""

    shapes: _Count
    data: list[_Data]
    trained_at: str
    repeat_noise_share: float | None = None


class _Base(msgspec.Struct):
    kind: Literal["roofline", "table"]
    constants: dict[str, _Positive]


class _Mix(msgspec.Struct):
    """The fields of a `Mix`."""

    usual_part: _Part
    pooled: _Part


class VerdictFields(msgspec.Struct):
    """The fields of a `Verdict`."""

    error: _Error
    mean_error: _Error
    roofline_error: _Error
    hardware: _Count
    mix: _Mix


class _Transfer(msgspec.Struct):
    """The fields of a `Transfer`."""

    far: VerdictFields
    near: VerdictFields


class Header(msgspec.Struct):
    """The header of a model file."""

    format: int
    key: Key
    hardware: dict[str, float]
    is_listed: bool
    transfer: _Transfer
    provenance: dict[str, Any]
    base: _Base
    features: Annotated[list[str], msgspec.Meta(max_length=1000)]
    forests: dict[str, float]
    clip: tuple[_Log, _Log]
    range: dict[str, tuple[_Size, _Size]]
    mix: str
    reach: Annotated[float, msgspec.Meta(gt=0, le=100)]
    scores: dict[str, Scores]
    datasheet_scores: dict[str, Scores]
    harness_error: _Error = 0.0
    """The same for all times: of earlier versions."""


def header_of(fields: object) -> Header:
    """The header that an object of JSON is; raises `ValueError` where it is none."""
    header = msgspec.convert(fields, Header)
    msgspec.convert(header.provenance, _Provenance)
    return header


def arrays_of(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file, none of them larger than what the file holds of it.

    Raises one of `UNREADABLE` for what is no such file.
    """
    with path.open("rb") as file, _archive(file) as archive:
        members = archive.infolist()
        if len(members) > _MOST_ARRAYS:
            raise ValueError(f"it has {len(members):,} arrays")
        if sum(member.file_size for member in members) > _MOST_BYTES:
            raise ValueError(f"its arrays have over {_MOST_BYTES:,} bytes")
        return {
            member.filename.removesuffix(".npy"): _array(archive.read(member))
            for member in members
        }


def _archive(file: BinaryIO) -> zipfile.ZipFile:
    """The archive that a file is."""
    try:
        return zipfile.ZipFile(file)
    except zipfile.BadZipFile:
        raise ValueError("it is not an archive") from None


def _array(data: bytes) -> NDArray[Any]:
    """A column of numbers."""
    header = _COLUMN.match(data)
    if header is None:
        raise ValueError("an array is not a column of numbers")
    start = _BEFORE_HEADER + int.from_bytes(header["size"], "little")
    dtype, count = np.dtype(header["type"].decode()), int(header["count"])
    if count * dtype.itemsize != len(data) - start:
        raise ValueError("an array has the wrong length")
    column = np.frombuffer(data, dtype, offset=start).copy()
    if dtype.kind == "f" and np.isnan(column).any():
        raise ValueError("an array has values that are not numbers")
    return column
