"""What can go wrong by a user's hand; each message is one line that says what to do.

TracedbError
├── DatabaseError   the database file: missing, foreign, made by another version
├── IngestError     a trace file: unreadable, not a trace, broken at a byte
│   ├── ForeignFileError  a whole JSON file that is no trace
│   └── PairError   an execution graph that is not of the trace it came with
├── EstimateError   a step that cannot be estimated: no file, no GPU, data-dependent
├── HardwareError   a file of hardware rows: a figure missing, wrong, in another unit
├── KernelModelError   a kernel model: unreadable, made by another version
├── LakeError       a lake of traces: none there, a runner without what it runs on
├── LibraryError    a library of overheads: missing, foreign, of another version
├── MeasurementError   measured kernel times: unreadable, of an unknown format
├── MissingPackageError   a package is not installed that an extra brings
├── QueryError      a query, a relation or a question that does not exist
├── RecordError     a training loop of which nothing was recorded
├── ReportError     a report or an export cannot be written where it was to be
├── ScenarioError   a scenario that cannot be carried out as it is written
└── ShardingError   embedding tables that cannot be spread over ranks as asked
"""

from __future__ import annotations

_HEAD, _TAIL = 600, 300
"""Of a message that is too long to read: how many characters stay of its ends."""


class TracedbError(Exception):
    """Base of all errors that a user can cause and mend; the message is one line."""

    def __init__(self, message: str) -> None:
        """Take a message, in which names may be long, or of what no terminal shows."""
        line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message)
        if len(line) > _HEAD + _TAIL:
            line = f"{line[:_HEAD]} ... {line[-_TAIL:]}"
        super().__init__(line)


class DatabaseError(TracedbError, OSError):
    """The database cannot be opened or is not one of tracedb's."""


class IngestError(TracedbError, ValueError):
    """A file cannot be ingested; the database is as it was."""


class ForeignFileError(IngestError):
    """A file holds something else than a trace or an execution graph."""


class PairError(IngestError):
    """An execution graph and a trace are not of one run."""


class EstimateError(TracedbError, ValueError):
    """A training step cannot be estimated from its code."""


class HardwareError(TracedbError, ValueError):
    """A row does not describe a device; none of its file is stored."""


class LakeError(TracedbError, OSError):
    """A folder is no lake, or nobody is there to fill it."""


class LibraryError(TracedbError, ValueError):
    """A library of overheads cannot be read or written."""


class KernelModelError(TracedbError, ValueError):
    """A file or folder holds no kernel model that this version can use."""


class MeasurementError(TracedbError, ValueError):
    """A file or folder holds no measured kernel times that can be read."""


class MissingPackageError(TracedbError, ImportError):
    """A package is needed that is not installed; the message says how to."""


class QueryError(TracedbError, ValueError):
    """A query cannot be answered as it was asked."""


class RecordError(TracedbError, RuntimeError):
    """A training loop cannot be recorded, or had too few steps."""


class ReportError(TracedbError, OSError):
    """A report or an export cannot be written there."""


class ScenarioError(TracedbError, ValueError):
    """A scenario cannot be carried out as it is written."""


class ShardingError(TracedbError, ValueError):
    """Embedding tables cannot be read, or have no room on the ranks."""
