"""One odd value, or odd bytes, in a small file of each kind that ingest reads.

Each file is read, or refused in one line that names it; a refused file leaves nothing
behind. The files that are read have answers. `hostile.py` has whole odd traces by name.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import test_ascend
import test_foreign
import test_logs
from click.testing import CliRunner
from hostile import ODD
from support import ingests_until, rows
from test_summary import two_steps

import tracedb
from tracedb.cli.main import tracedb as command

Document = Any
"""What a file says, as JSON has it; of a database, rows by table."""

SEED = 20
PER_KIND = 5
BYTES_PER_KIND = 3
MOST_INTEGER = 2**63
JOB = """type,start_ns,duration_ns,step,microbatch,stage,dp_rank
forward-compute,0,1000,1,0,0,0
backward-compute,1000,2000,1,0,0,0
forward-compute,4000,1000,2,0,0,0
backward-compute,5000,2000,2,0,0,0
"""


def _graph() -> Document:
    tensors: dict[str, Any] = {
        "values": [[1, 2, 0, 64, 4, "cpu"]],
        "shapes": [[8, 8]],
        "types": ["Tensor(float)"],
    }
    attributes = [{"name": "rf_id", "type": "uint64", "value": 3}]
    nodes = [
        {
            "id": number,
            "name": name,
            "ctrl_deps": parent,
            "inputs": tensors,
            "outputs": tensors,
            "attrs": attributes,
        }
        for number, name, parent in ((1, "[process]", 1), (2, "aten::mm", 1))
    ]
    return {"schema": "1.1.1-chakra.0.0.4", "pid": 7, "nodes": nodes}


KINDS: dict[str, tuple[str, Callable[[], Document]]] = {
    "trace": ("trace.json", lambda: {"schemaVersion": 1, "traceEvents": two_steps()}),
    "graph": ("graph.json", _graph),
    "nsight": ("report.sqlite", test_foreign.report),
    "rocprof": ("results.db", lambda: test_foreign.rocpd(4)),
    "recorder": ("nccl_trace_rank_0", lambda: test_logs.job()[0]),
    "inspector": ("inspector.log", lambda: test_logs.record(1, 5.0, at_us=10)),
    "ascend": ("trace_view.json", test_ascend.timeline),
    "operations": (
        "job.csv",
        lambda: [line.split(",") for line in JOB.splitlines()],
    ),
}
"""The name of a file of each kind, and what it says."""


def _places(document: Document) -> Iterator[tuple[Any, Any]]:
    """Each value within, as its container and its key."""
    pairs: Any = []
    if isinstance(document, dict):
        pairs = document.items()
    elif isinstance(document, list):
        pairs = enumerate(document)
    for key, value in pairs:
        yield document, key
        yield from _places(value)


def _odd(rng: random.Random, document: Document) -> Document:
    """The document with one value that is odd, missing, doubled or nested deeply."""
    container, key = rng.choice([*_places(document)])
    change = rng.randrange(8)
    if change == 0:
        del container[key]
    elif change == 1 and isinstance(container, list):
        container.insert(key, copy.deepcopy(container[key]))
    elif change == 2:
        deep: Document = 1
        for _ in range(300):
            deep = [deep]
        container[key] = deep
    else:
        container[key] = rng.choice([*ODD.values()])
    return document


BYTES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _text: b"",
    "cut in the middle": lambda text: text[: len(text) // 2],
    "without its end": lambda text: text[:-3],
    "twice": lambda text: text * 2,
    "after a byte order mark": lambda text: b"\xef\xbb\xbf" + text,
    "in UTF-16": lambda text: text.decode("latin-1").encode("utf-16"),
    "not in UTF-8": lambda text: text.replace(b"e", b"\xff\xe9", 3),
    "with zeros at its end": lambda text: text + b"\0" * 4096,
    "compressed, with bytes at its end": lambda text: gzip.compress(text) + b"trailing",
    "compressed and cut": lambda text: gzip.compress(text)[:-12],
}


def _cell(value: Document) -> Document:
    """The value as a database can hold it."""
    if isinstance(value, bool | list | dict):
        return json.dumps(value)
    if isinstance(value, int) and not -MOST_INTEGER <= value < MOST_INTEGER:
        return str(value)
    return value


def _write(kind: str, document: Document, path: Path) -> None:
    """Write a document; what is not of its kind's form is written as JSON."""
    try:
        if path.suffix in {".sqlite", ".db"}:
            tables = {
                name: [{key: _cell(value) for key, value in row.items()} for row in own]
                for name, own in document.items()
                if own
            }
            test_foreign.write_sqlite(path, tables)
            return
        if kind == "operations":
            lines = (",".join(map(str, line)) for line in document)
            path.write_text("\n".join(lines))
            return
    except (AttributeError, TypeError):
        path.unlink(missing_ok=True)
    # PyTorch writes the fields of a flight recorder in this order.
    path.write_text(json.dumps(document, sort_keys=kind == "recorder"))


def files(kind: str, folder: Path) -> Iterator[Path]:
    """A whole file of a kind, and odd ones, each in a folder of its own."""
    name, base = KINDS[kind]
    whole = folder / f"{kind}, whole" / name
    whole.parent.mkdir()
    _write(kind, base(), whole)
    yield whole
    rng = random.Random(f"{SEED} {kind}")  # noqa: S311 (the same files every time)
    for number in range(PER_KIND):
        path = folder / f"{kind}-{number}" / name
        path.parent.mkdir()
        _write(kind, _odd(rng, copy.deepcopy(base())), path)
        yield path
    for how in rng.sample([*BYTES], BYTES_PER_KIND):
        path = folder / f"{kind}, {how}" / name
        path.parent.mkdir()
        _write(kind, base(), path)
        path.write_bytes(BYTES[how](path.read_bytes()))
        yield path


def _counts(database: tracedb.Database) -> list[tuple[Any, ...]]:
    tables = ("run", "trace", "event", "et_node", "ingest_issue")
    counts = (f"(SELECT count(*) FROM raw.{table})" for table in tables)
    return rows(database, f"SELECT {', '.join(counts)}")


def _faults(database: tracedb.Database, path: Path) -> Iterator[str]:
    """What is wrong with how a file is refused."""
    before = _counts(database)
    try:
        database.ingest([path])
    except tracedb.TracedbError as error:
        said = str(error)
        if "\n" in said or str(path) not in said:
            yield f"{path}: says {said!r}"
        if _counts(database) != before:
            yield f"{path}: left something behind"
    except Exception as error:  # noqa: BLE001 (any is a fault)
        yield f"{path}: {type(error).__name__}: {error}"


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A folder with the files of all kinds that were read, and what went wrong."""
    folder = tmp_path_factory.mktemp("odd")
    broken: list[str] = []
    with ingests_until("raw"), tracedb.open() as database:
        for path in (path for kind in KINDS for path in files(kind, folder)):
            count = len(database.info())
            broken += _faults(database, path)
            if len(database.info()) == count:
                path.unlink()
    return folder, broken


def test_each_file_is_read_or_refused(tried: tuple[Path, list[str]]) -> None:
    """A refusal is one line with the name of the file, and leaves nothing behind."""
    _, broken = tried
    assert broken == []


def test_what_is_read_has_answers(tried: tuple[Path, list[str]]) -> None:
    """All files that can be read, in one database: a summary of each run."""
    folder, _ = tried
    database = folder / "all.duckdb"
    for words in (("ingest", folder, "--db", database), ("summary", database)):
        done = CliRunner().invoke(command, [*map(str, words)])
        assert done.exit_code == 0, done.output
        assert done.exception is None
    kept = {kind for kind in KINDS if [*folder.glob(f"{kind}*/*")]}
    assert kept == {*KINDS}
