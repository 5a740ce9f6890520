"""Fill a lake: find files, number them, distribute them, report the outcomes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tracedb import remote
from tracedb.duck import own_errors
from tracedb.errors import LakeError
from tracedb.ingest import default_memory, files, runs, steps
from tracedb.lake.manifest import Manifest
from tracedb.lake.place import verify_run
from tracedb.lake.worker import Task
from tracedb.words import natural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tracedb.lake.runner import Runner
    from tracedb.lake.worker import Outcome

    Progress = Callable[[str], None]


def _ignore(_line: str) -> None:
    """Ignore a line of progress."""


@own_errors()
def ingest(  # noqa: PLR0913 (the options of one command)
    paths: Iterable[str | Path],
    root: str | Path,
    runner: Runner,
    *,
    run: str | None = None,
    step_mark: str | None = None,
    step_from: str | None = None,
    one_step: bool = False,
    memory: int | None = None,
    mapping: Mapping[str, str] | None = None,
    progress: Progress = _ignore,
) -> Counter[str]:
    """Ingest files into a lake, each separately; a failure does not stop the others.

    Returns the numbers of files that were `new`, `known`, `skipped` (in a folder, and
    not traces) or `failed`; the manifest has the reasons. The run of a file is `run`,
    by default the name of its folder. `memory` is the limit of each worker in bytes;
    `step_mark`, `step_from`, `one_step` and `mapping` are as for `Database.ingest`. The
    lake and the files may be in an object store, by URI (`s3://bucket/lake`).

    Raises `IngestError` for a missing path, `LakeError` if the folder is neither a lake
    nor empty, `MissingPackageError` if the store's package is missing.
    """
    paths = [*paths]
    steps.chosen(step_mark, step_from, one_step=one_step)
    run = runs.run_name(run)
    verify_run(run or "")
    manifest = Manifest(root)
    with TemporaryDirectory(prefix="tracedb-") as scratch:
        found = [
            one
            for one in _found(paths, Path(scratch), runner)
            if one.is_named or not _is_below(one.path, root)
        ]
        manifest.make()
        manifest.tidy()
        _forget_removed(manifest, paths, found)
        with manifest.storage.job() as job:
            pattern = Task(
                root=manifest.storage.name,
                job=job,
                memory=memory or default_memory() // runner.workers,
                step_mark=step_mark,
                step_from=step_from,
                one_step=one_step,
                mapping=dict(mapping or {}),
            )
            tasks = _tasks(manifest, found, run, pattern)
            counts: Counter[str] = Counter()
            for number, outcome in enumerate(_outcomes(manifest, tasks, runner), 1):
                counts[outcome.kind] += 1
                progress(f"[{number}/{len(tasks)}] {outcome}")
    return counts


class _Found(NamedTuple):
    """A file to ingest."""

    source: str
    """Its name in the manifest: a path or a URI."""
    path: str
    """The path or URI to read."""
    is_named: bool
    why_not: str = ""
    part: int | None = None


def _found(paths: Iterable[str | Path], scratch: Path, runner: Runner) -> list[_Found]:
    """The files to ingest, by name, without duplicates."""
    paths = [*paths]
    if "-" in map(str, paths):
        raise LakeError("-: a lake needs file paths; write the stream to a file")
    found, here = [], []
    for path in paths:
        if not remote.is_remote(path):
            here.append(path)
            continue
        for uri, is_named in files.below_uri(str(path)):
            if files.is_archive(uri):
                here.append(uri)
            else:
                found.append(_Found(uri, uri, is_named))
    for source in files.expand(here, scratch):
        if runner.is_elsewhere and source.path.is_relative_to(scratch):
            raise LakeError(
                f"{source.name}: an archive is unpacked locally, where workers cannot "
                "read it; unpack it next to the lake, or use the local runner"
            )
        name = source.name
        if not remote.is_remote(name):
            name = str(Path(name).absolute())
        path = str(source.path.absolute())
        found.append(_Found(name, path, source.is_named, source.why_not, source.part))
    by_name = {one.source: one for one in found}
    return [by_name[name] for name in sorted(by_name, key=natural)]


def _is_below(path: str, root: str | Path) -> bool:
    """Whether a file is below a folder, such as a lake among the traces."""
    if remote.is_remote(path) or remote.is_remote(root):
        return path.startswith(f"{str(root).rstrip('/')}/")
    return Path(path).absolute().is_relative_to(Path(root).absolute())


def _forget_removed(
    manifest: Manifest, paths: Iterable[str | Path], found: Sequence[_Found]
) -> None:
    """Forget failures of files below the given paths that no longer exist."""
    there = {one.source for one in found}
    below = [Path(p).absolute() for p in paths if not remote.is_remote(p)]
    for failure in manifest.failures():
        source = Path(failure.source)
        is_below = any(source.is_relative_to(path) for path in below)
        if is_below and failure.source not in there:
            manifest.forget(failure)


def _tasks(
    manifest: Manifest, found: Sequence[_Found], run: str | None, pattern: Task
) -> list[Task]:
    """The tasks, by number."""
    numbers = manifest.numbered([one.source for one in found], run)
    return [
        msgspec.structs.replace(
            pattern,
            number=numbered.number,
            run=numbered.run,
            run_id=numbered.run_id,
            path=os.fsencode(one.path),
            source=one.source,
            is_named=one.is_named,
            why_not=one.why_not,
            part=one.part,
        )
        for one, numbered in zip(found, numbers, strict=True)
    ]


def _outcomes(
    manifest: Manifest, tasks: Sequence[Task], runner: Runner
) -> Iterator[Outcome]:
    """The outcome of each file.

    A file is run again if it had the content of another file that has changed since.
    """
    done: list[Outcome] = []
    for outcome in runner.run(tasks):
        done.append(outcome)
        yield outcome
    there = {entry.sha256 for entry in manifest.entries()}
    lost = {o.number for o in done if o.kind == "known" and o.sha256 not in there}
    if lost:
        manifest.drop_replaced()
        for _ in runner.run([task for task in tasks if task.number in lost]):
            pass
