"""Recognise files that are not traces, or that tracedb does not read, and their remedy.

Profilers write reports of their own that they can export in a format that is read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = [
    "ENDINGS",
    "what_begins",
    "what_has_columns",
    "what_has_keys",
    "what_is_listed",
    "what_is_named",
]

_UTF_16 = "is UTF-16 text; convert it to UTF-8 first"
_UTF_32 = "is UTF-32 text; convert it to UTF-8 first"
_NSIGHT = "export it with `nsys export -t sqlite`"
_ARROW = "is in Arrow's format, which is not read; Parquet is (Nsight Systems: "
_ARROW += "`nsys export -t sqlite` or `-t parquetdir`)"
_NAMED = {
    (".nsys-rep", ".qdrep"): f"is a report of Nsight Systems; {_NSIGHT}",
    (".qdstrm",): "is an unfinished report of Nsight Systems; convert it with "
    f"QdstrmImporter, then {_NSIGHT}",
    (".ncu-rep",): "is a report of Nsight Compute, about single kernels; record the "
    "run with Nsight Systems or PyTorch's profiler",
    (".arrow", ".arrows"): _ARROW,
}
"""What files are by the ends of their names."""
ENDINGS = tuple(ending for endings in _NAMED for ending in endings)

_BEGINNINGS = {
    b"\xfd7zXZ\0": "is compressed with xz; decompress it first",
    b"BZh": "is compressed with bzip2; decompress it first",
    b"\x1f\x8b": "is compressed with gzip twice; decompress it once",
    b"PK\x03\x04": "is a zip archive; unpack it first",
    b"7z\xbc\xaf\x27\x1c": "is a 7-Zip archive; unpack it first",
    b"SQLite format 3\0": "is an SQLite database without tables of Nsight Systems, "
    "rocprofv3 or rocmProfileData",
    b"ARROW1": _ARROW,
    b"\xff\xff\xff\xff": _ARROW,
    b"\x89HDF\r\n\x1a\n": "is in the format HDF5, which is not read; from Nsight "
    f"Systems, {_NSIGHT}",
    b"version https://git-lfs": "is a pointer of Git LFS; run `git lfs pull` first",
    b"{\0": _UTF_16,
    b"\0[": _UTF_16,
    b"\0{": _UTF_16,
    b"\xff\xfe\0\0": _UTF_32,
    b"\xff\xfe": _UTF_16,
    b"\xfe\xff": _UTF_16,
}
_REPORT = "export its report with `nsys export -t sqlite`"
_ROCPROF = "record with `rocprofv3 --output-format rocpd`"
_MEMORY = "tracedb reads memory from traces recorded with profile_memory=True"
_KEYS = {
    "rocprofiler-sdk-tool": f"is JSON of rocprofv3, which is not read; {_ROCPROF}",
    "CudaEvent": f"is JSON of Nsight Systems, which is not read; {_REPORT}",
    "TraceProcessEvent": f"is JSON of Nsight Systems, which is not read; {_REPORT}",
    "NvtxEvent": f"is JSON of Nsight Systems, which is not read; {_REPORT}",
    "profiles": "is a profile for speedscope, which has stacks but no GPU work; "
    "record a trace",
    "device_traces": f"is a memory snapshot of PyTorch; {_MEMORY}",
    "nbformat": "is a notebook, not a trace",
}
"""What JSON objects are, by a key of the outermost one."""
_COLUMNS = {
    "Time (%)": f"is a table of `nsys stats`, which has only totals; {_REPORT}",
    "CorrId": f"is a table of `nsys stats`; {_REPORT}",
    "Correlation_Id": f"is a table of rocprofv3, which is not read; {_ROCPROF}",
    "TotalDurationNs": f"is a table of rocprof, which has only totals; {_ROCPROF}",
    "KernelName": f"is a table of rocprof, which is not read; {_ROCPROF}",
    "Task Duration(us)": "is a table of Ascend's profiler; ingest the trace_view.json "
    "of its recording",
    "Accelerator Core": "is a table of Ascend's profiler; ingest the trace_view.json "
    "of its recording",
}
"""What tables are, by a column."""
_LISTED = {
    re.compile(
        rb'\[\s*\{\s*"(children|frame|metrics)"\s*:'
    ): "is a profile of Triton's "
    'Proton without times; record one with `proton.start(..., data="trace")`',
    re.compile(rb"\[\s*\["): f"is a list of lists, as a memory timeline is; {_MEMORY}",
}
"""What JSON lists are, by their beginnings."""
_STACKS = re.compile(rb"[^\n]*;[^\n]* \d+\r?(\n|$)")
_WEB_PAGE = re.compile(rb"\s*<(!doctype html|html)\b", re.IGNORECASE)
_LENGTH_SHOWN = 24


def what_is_named(path: Path) -> str:
    """What a file or folder is, and what to do; empty if its name does not tell."""
    if path.is_dir():
        # Arrow files as `nsys export -t arrowdir` writes them, one for each table.
        if any(path.glob("StringIds.arrow*")):
            return f"is an export of Nsight Systems in Arrow files; {_NSIGHT}"
        return ""
    name = path.name.lower()
    return next((what for ends, what in _NAMED.items() if name.endswith(ends)), "")


def what_begins(text: bytes) -> str:
    """What a file is that begins so, and what to do; empty for JSON objects."""
    for magic, what in _BEGINNINGS.items():
        if text.startswith(magic):
            return what
    if _WEB_PAGE.match(text):
        return "is a web page; download the file that the page shows"
    if _STACKS.match(text):
        return "has stacks without times, as export_stacks writes; record a trace"
    begun = text.lstrip()
    if begun.startswith((b"{", b"[")):
        return ""
    line = begun.splitlines()[0][:_LENGTH_SHOWN] if begun else b""
    words = line.decode(errors="replace")
    # A name or comment of a shell or a table may follow a cut.
    if words.isprintable() and "\ufffd" not in words:
        return f"is not JSON (it begins with {words!r}); not a trace"
    return "is binary, in no format that is read; not a trace"


def what_has_keys(keys: Iterable[str]) -> str:
    """What a JSON object with these keys is, and what to do; empty if unknown."""
    return next((_KEYS[key] for key in keys if key in _KEYS), "")


def what_has_columns(columns: Iterable[str]) -> str:
    """What a table with these columns is, and what to do; empty if unknown."""
    return next((_COLUMNS[name] for name in columns if name in _COLUMNS), "")


def what_is_listed(text: bytes) -> str:
    """What a JSON list is that begins so, and what to do; empty if unknown."""
    return next((what for begin, what in _LISTED.items() if begin.match(text)), "")
