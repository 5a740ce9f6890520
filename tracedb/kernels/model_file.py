"""What a model file has to be before anything in it is used: sizes, types, ranges."""

from __future__ import annotations

import math
import struct
import tokenize
import zipfile
import zlib
from io import BytesIO
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
)
"""What reading and using a stranger's arrays may raise."""
_MOST_BYTES = 64 << 20
"""Of all arrays: a hundred times those of the largest models."""
_MOST_ARRAYS = 100

_Positive = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
_Log = Annotated[float, msgspec.Meta(ge=-100, le=100)]
_Size = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Share = Annotated[float, msgspec.Meta(ge=0)]


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


class Header(msgspec.Struct):
    """The header of a model file."""

    format: int
    key: Key
    hardware: dict[str, float]
    is_listed: bool
    harness_error: Annotated[float, msgspec.Meta(ge=0, le=100)]
    transfer_error: Annotated[float, msgspec.Meta(ge=0, le=100)]
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
    stream = BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("an array is of another format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    size = len(data) - stream.tell()
    if dtype.kind not in "iuf" or len(shape) != 1:
        raise ValueError("an array is no column of numbers")
    if shape[0] < 0 or math.prod((*shape, dtype.itemsize)) != size:
        raise ValueError("an array is longer or shorter than it says")
    column = np.frombuffer(data, dtype, offset=stream.tell()).copy()
    if dtype.kind == "f" and np.isnan(column).any():
        raise ValueError("an array has values that are not numbers")
    return column
