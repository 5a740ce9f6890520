"""Errors that a user can cause; each message is one line that says what to do.

TracedbError
├── DatabaseError   the database file: missing, foreign, from another version
├── IngestError     a trace file: unreadable, not a trace, broken at a byte
│   ├── ForeignFileError  a complete JSON file that is not a trace
│   └── PairError   an execution graph that does not match its trace
├── EstimateError   a step that cannot be estimated: no file, no GPU, data-dependent
├── HardwareError   a file of hardware rows: a value missing, wrong, in another unit
├── KernelModelError   a kernel model: unreadable, from another version
├── LakeError       a lake of traces: missing, or a runner that lacks what it needs
├── LibraryError    a library of overheads: missing, foreign, from another version
├── MeasurementError   measured kernel times: unreadable, of an unknown format
├── MissingPackageError   a package of an extra that is not installed
├── QueryError      a query, a relation or a question that does not exist
│   └── FileAccessError  a query that reads files, which was not allowed
├── RecordError     a loop of which nothing was recorded
├── ReportError     a report or an export that cannot be written
├── ScenarioError   a scenario that cannot be carried out as written
└── ShardingError   embedding tables that cannot be placed on ranks as requested
"""

from __future__ import annotations

_HEAD, _TAIL = 600, 300
"""How many characters stay of each end of a message that is too long to read."""


class TracedbError(Exception):
    """Base of all errors that a user can cause and fix; the message is one line."""

    def __init__(self, message: str) -> None:
        """Shorten the message and escape characters that a terminal cannot show."""
        line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message)
        if len(line) > _HEAD + _TAIL:
            line = f"{line[:_HEAD]} ... {line[-_TAIL:]}"
        super().__init__(line)


class DatabaseError(TracedbError, OSError):
    """The database cannot be opened, or was not written by tracedb."""


class IngestError(TracedbError, ValueError):
    """A file cannot be ingested; the database is unchanged."""


class ForeignFileError(IngestError):
    """A file holds something other than a trace or an execution graph."""


class PairError(IngestError):
    """An execution graph and a trace are from different runs."""


class EstimateError(TracedbError, ValueError):
    """A training step cannot be estimated from its code."""


class HardwareError(TracedbError, ValueError):
    """A row does not describe a device; nothing of its file is stored."""


class LakeError(TracedbError, OSError):
    """A folder is not a lake, or the runner cannot work."""


class LibraryError(TracedbError, ValueError):
    """A library of overheads cannot be read or written."""


class KernelModelError(TracedbError, ValueError):
    """A file or folder holds no kernel model that this version can use."""


class MeasurementError(TracedbError, ValueError):
    """A file or folder holds no measured kernel times that can be read."""


class MissingPackageError(TracedbError, ImportError):
    """A required package is not installed; the message says how to install it."""


class QueryError(TracedbError, ValueError):
    """A query cannot be answered as written."""


class FileAccessError(QueryError):
    """A query reads files; the message says how to allow it."""


class RecordError(TracedbError, RuntimeError):
    """A loop cannot be recorded, or has too few steps."""


class ReportError(TracedbError, OSError):
    """A report or an export cannot be written."""


class ScenarioError(TracedbError, ValueError):
    """A scenario cannot be carried out as written."""


class ShardingError(TracedbError, ValueError):
    """Embedding tables cannot be read, or do not fit on the ranks."""
