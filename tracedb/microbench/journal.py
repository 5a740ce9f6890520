"""The journal of a run: a line per measurement, so that an interrupted run can resume.

The first line describes the run; a different run is refused.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import MicrobenchError

Line = dict[str, Any]


class Journal:
    """Lines of JSON in a file, read once and appended to."""

    def __init__(self, path: Path, run: Line) -> None:
        """Open the journal of a run; MicrobenchError if it belongs to another run."""
        self.path = path
        self.lines = list(_read(path))
        if not self.lines:
            path.unlink(missing_ok=True)
            self.append(run)
        elif self.lines[0] != run:
            differing = {*run.items()} ^ {*self.lines[0].items()}
            names = sorted({name for name, _ in differing})
            raise MicrobenchError(
                f"{path}: from a run with another {', '.join(names)}; remove it, or "
                "write to another file"
            )

    def append(self, line: Line) -> None:
        """Append a line, and sync it to disk, in case the machine crashes."""
        self.lines.append(line)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()


def _read(path: Path) -> Iterator[Line]:
    """Yield the lines of a journal; an incomplete last line is removed."""
    if not path.exists():
        return
    whole = 0
    with path.open("rb+") as file:
        for text in file:
            if not text.endswith(b"\n"):
                break
            yield _decoded(path, text)
            whole += len(text)
        file.truncate(whole)


def _decoded(path: Path, text: bytes) -> Line:
    try:
        line = json.loads(text)
    except ValueError:
        line = None
    if not isinstance(line, dict):
        raise MicrobenchError(
            f"{path}: not a journal of measurements; move it elsewhere"
        )
    return line
