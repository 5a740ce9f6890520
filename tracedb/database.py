"""The database of traces: open, ingest, query."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

import tracedb
from tracedb import (
    attachment,
    calibration,
    catalog,
    estimates,
    hardware,
    lookup,
    renamed,
    sandbox,
    template,
)
from tracedb import part as parts
from tracedb.attachment import MEMORY
from tracedb.depends import find_node, rows_query
from tracedb.duck import (
    connections,
    frame,
    one_line,
    own_errors,
    scalar,
    size_in,
    stoppable,
)
from tracedb.errors import DatabaseError, QueryError
from tracedb.part import whole_number
from tracedb.user_rows import user_rows
from tracedb.whatif.ranking import ranked_edits
from tracedb.whatif.scenario import check, read_scenarios, stored_edits
from tracedb.whatif.sweep import swept
from tracedb.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self, Unpack

    import polars as pl

    from tracedb.diff import Difference
    from tracedb.part import Part, Within
    from tracedb.summary import Summary
    from tracedb.whatif.scenario import Edit

    Pair = tuple[int | None, int | None]

_LIN2022 = ("lin2022", "lin2022_as_profiled")
_MEASURED = "measured"
"""The method of the measured variant."""

_NUMBERED = {
    "node": ("node", "graph.node", "node_id"),
    "step": ("step_id", "staging.step", "step_id"),
    "a": ("run", "raw.run", "run_id"),
    "b": ("run", "raw.run", "run_id"),
}
"""Parameters of questions, with a noun, the relation and the column of its numbers."""

_INFO = """
SELECT
    run_id,
    raw.run.name AS run,
    trace_id,
    coalesce(profiler, 'execution graph') AS recorded_by,
    rank,
    event_count,
    (
        SELECT count(*) FROM staging.op
        WHERE trace_id = trace.trace_id AND NOT is_annotation
    ) AS op_count,
    (SELECT count(*) FROM staging.call WHERE trace_id = trace.trace_id)
    AS call_count,
    (SELECT count(*) FROM staging.gpu_op WHERE trace_id = trace.trace_id)
    AS gpu_op_count,
    (SELECT count(*) FROM staging.step WHERE trace_id = trace.trace_id) AS step_count,
    path,
    format,
    paired_trace_id,
    pairing
FROM staging.trace AS trace
INNER JOIN raw.run USING (run_id)
LEFT JOIN staging.recording USING (trace_id)
ORDER BY run_id, rank, trace_id
"""
_ISSUES = """
SELECT trace_id, path, kind, issue.occurrences, first_bytes, issue.detail, is_note
FROM raw.ingest_issue AS issue
INNER JOIN staging.ingest_issue USING (trace_id, kind)
INNER JOIN staging.trace USING (trace_id)
ORDER BY trace_id, kind
"""


def _ignore(_line: str) -> None:
    """Ignore a line of progress."""


def _methods(
    methods: str | Sequence[str] | None, library: str | Path | None
) -> Sequence[str]:
    """The methods of a simulation; none given: a library's if there is one."""
    if methods is None:
        methods = "replay" if library is None else "library"
    return (methods,) if isinstance(methods, str) else methods


def open_database(
    path: str | Path = MEMORY, *, read_only: bool = False, allow_files: bool = False
) -> Database:
    """Open a database of traces; without `read_only`, create it if it is missing.

    Missing parent folders are created as well. Queries can read files only with
    `allow_files`. A lake (`tracedb.lake`), or a run or rank in it
    (`fleet/run=job1/rank=0`), is opened read-only. Raises `DatabaseError` if the file
    is missing, is not a tracedb database, or is in use by a process that writes.
    """
    place = attachment.in_lake(path)
    if place is not None:
        from tracedb.lake import opened

        return opened(place, allow_files=allow_files)
    return Database(path, read_only=read_only, allow_files=allow_files)


class Database:
    """Traces in a DuckDB file, with relations to query."""

    @own_errors()
    def __init__(
        self,
        path: str | Path = MEMORY,
        *,
        read_only: bool = False,
        allow_files: bool = False,
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> None:
        """Open the file (see `open_database`), or use an open connection."""
        self.path = attachment.path_text(path)
        self.is_of_lake = False
        self._allow_files = allow_files
        self._is_made_here = False
        self._shared: tuple[str, ...] = ()
        if connection is not None:
            self._connection = connection
            return
        attachment.check_path(self.path, read_only=read_only)
        self._open(read_only=read_only, allow_files=allow_files)

    def _open(self, *, read_only: bool, allow_files: bool) -> None:
        is_missing = self.path != MEMORY and not Path(self.path).exists()
        self._connection = duckdb.connect(config={**attachment.CONFIG})
        connections.add(self._connection)
        try:
            if is_missing and not read_only:
                template.copy(Path(self.path))
            attachment.attach(self._connection, self.path, read_only=read_only)
            # Only now: another process may have created it in the meantime.
            self._is_made_here = is_missing
            self._prepare(read_only=read_only)
            sandbox.seal(self._connection, read_only=read_only, allow_files=allow_files)
        except BaseException:
            # A Ctrl-C may have come between the creation of the file and its note.
            self._is_made_here = is_missing and attachment.is_held(
                self._connection, self.path
            )
            self.close()
            raise

    def __enter__(self) -> Self:
        """Enter a `with` block, which closes the database at its end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the database."""
        self.close()

    def close(self) -> None:
        """Close the file; remove it if it was created here and is empty."""
        try:
            self._close()
        except (KeyboardInterrupt, duckdb.InterruptException):
            # A Ctrl-C can come at any line, and stops any query: close it all the same.
            self._close()
            raise

    def _close(self) -> None:
        is_unused = self._is_unused
        self._connection.close()
        if is_unused:
            Path(self.path).unlink(missing_ok=True)
            Path(f"{self.path}.wal").unlink(missing_ok=True)

    @cached_property
    def _is_unused(self) -> bool:
        """Whether nothing is left to keep when it is closed."""
        return self._is_made_here and not self._holds_anything()

    def _holds_anything(self) -> bool:
        """Whether it holds anything that a user may want to keep."""
        with suppress(duckdb.CatalogException):
            for table in ("raw.trace", "reference.sharding"):
                if scalar(self._connection, f"SELECT true FROM {table} LIMIT 1"):
                    return True
        # Last, because listing tables is slow: DuckDB generates the SQL of each.
        declared = {relation.full_name for relation in catalog.relations()}
        tables = self._connection.execute(
            "SELECT schema_name || '.' || table_name FROM duckdb_tables()"
        ).fetchall()
        return any(name not in declared for (name,) in tables)

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection, for anything that this class does not offer.

        It may change the database, but can read and write other files only if the
        database was opened with `allow_files`. A cursor made from it needs `USE
        tracedb` first.
        """
        return self._connection

    @own_errors()
    def ingest(  # noqa: PLR0913 (the options of one command)
        self,
        paths: Iterable[str | Path],
        *,
        run: str | None = None,
        pair: bool = False,
        step_mark: str | None = None,
        step_from: str | None = None,
        one_step: bool = False,
        memory: int | str | None = None,
        mapping: Mapping[str, str] | None = None,
        progress: Callable[[str], None] = _ignore,
    ) -> pl.DataFrame:
        """Ingest traces and execution graphs: all files, or none if there is an error.

        A folder means all traces below it, compressed or not. Files that are already in
        the database are skipped. `run` names the run of all files; by default, ranks
        and execution graphs are matched automatically. With `pair`, it is an error if
        an execution graph matches no trace. `step_mark` is a regular expression for
        what marks steps, instead of the profiler's marks: user ranges and ops; if none
        has such a name, Python functions; otherwise launches and other calls.
        `step_from` is one for what starts a step, which lasts until the next start.
        With `one_step`, each trace is one step as a whole. These three also apply to
        given files that are already in the database. `memory` is the memory limit, in
        bytes or as `4GB`; by default, 40 % of the machine's. `mapping` maps columns of
        tables of operations to the fields that they hold (`{"kind": "type"}`), and
        custom names of operations to their types (`{"fwd": "forward-compute"}`).
        Returns the new rows of `staging.trace`.
        """
        self._refuse_of_lake()
        from tracedb.ingest import ingest

        if isinstance(memory, str):
            memory = size_in(memory)
        paths = [paths] if isinstance(paths, (str, Path)) else paths
        new = ingest(
            self._connection,
            paths,
            run=run,
            pair=pair,
            step_mark=step_mark,
            step_from=step_from,
            one_step=one_step,
            memory=memory,
            mapping=mapping,
            progress=progress,
        )
        numbers = ", ".join(map(str, new)) or "NULL"
        return self._rows(
            f"FROM staging.trace WHERE trace_id IN ({numbers}) ORDER BY trace_id"
        )

    @own_errors()
    def sql(self, query: str, most: int | None = None) -> pl.DataFrame:
        """Run one read-only query.

        `most` limits the number of rows. The query can read files only if the database
        was opened with `allow_files`. Raises `QueryError` with the first line of
        DuckDB's message if the query fails.
        """
        sandbox.check(self._connection, query, allow_files=self._allow_files)
        try:
            return stoppable(self._connection, lambda: self._rows_of_any(query, most))
        except (duckdb.BinderException, duckdb.CatalogException) as error:
            message = lookup.without_relation(one_line(error), query)
            if message is None:
                raise
            raise QueryError(message) from error

    def _rows_of_any(self, query: str, most: int | None) -> pl.DataFrame:
        """The rows of a user's query."""
        relation = self._connection.sql(query)
        return user_rows(relation if most is None else relation.limit(most))

    def _rows(self, query: str) -> pl.DataFrame:
        """The rows of one of tracedb's own queries."""
        return stoppable(self._connection, lambda: frame(self._connection.sql(query)))

    @own_errors()
    def relation(
        self, name: str, step: int | None = None, **within: Unpack[Within]
    ) -> pl.DataFrame:
        """All rows of a relation, in its own order or by key; or a part of them.

        A part is one `step`, `rank`, `run`, `trace` or `device`, by its number: its
        rows, or if the relation has no such column, sums over that part alone. Raises
        `QueryError` if neither exists (`Counts:` in the schema), or if the number does
        not.
        """
        declared = lookup.find_relation(name)
        if declared.parameters:
            raise QueryError(f"{name} takes values: {declared.signature}")
        chosen = parts.choice(declared, {"step": step, **within}, self._rows)
        self._store_shared(declared.full_name)
        order = "" if declared.is_ordered else f"ORDER BY {', '.join(declared.key)}"
        # To find out what is empty in a lake, its files would have to be read.
        query = catalog.rows(
            self._connection,
            declared,
            chosen.counted,
            is_planned_whole=self.is_of_lake,
        )
        return self._rows(f"{query} {chosen.where} {order}")

    def _store_shared(self, name: str) -> None:
        """Store what this answer about scenarios reads and others read, too."""
        if not self._shared:
            return
        from tracedb.whatif.simulation import store

        read = catalog.sources(name) | {name}
        store(self._connection, [view for view in self._shared if view in read])
        self._shared = tuple(view for view in self._shared if view not in read)

    def overheads(
        self, step: int | None = None, **within: Unpack[Within]
    ) -> pl.DataFrame:
        """Time per overhead type, host thread and step: `question.overhead`."""
        return self.relation("question.overhead", step, **within)

    @own_errors()
    def critical_path(
        self,
        step: int | None = None,
        *,
        scope: str | None = None,
        summary: bool = False,
        method: str | None = None,
        **within: Unpack[Within],
    ) -> pl.DataFrame:
        """What bounds each step, interval by interval: `question.path_interval`.

        `scope` is `period` (from when the host and the GPU have finished the previous
        step to when both have finished this one), `step` (its mark on the host),
        `trace` (the whole trace) or `run` (each step across all ranks); the default is
        the period, and the trace for traces without steps. With `summary`,
        returns the time by kind, `question.critical_path`. Without a method, the path
        is the measured one. With a method, it is the predicted path of steps and runs;
        in a `simulate` block, of all scenarios as well. The other arguments are those
        of `relation`; for the path of a run, they select the part within a rank.

        Raises `QueryError` for an unknown scope or method.
        """
        if scope is not None and scope not in tracedb.SCOPES:
            raise QueryError(
                f"no scope {scope}; available: {', '.join(tracedb.SCOPES)}"
            )
        if method is not None and scope == "trace":
            raise QueryError(
                "paths can be predicted for steps and runs, not for traces"
            )
        if method is not None:
            self._check_method(method)
        if method in _LIN2022:
            raise QueryError(f"method {method} has no graph; choose another")
        if method is not None and not self._is_asked(method):
            with self.simulate((method,)) as beside:
                return beside.critical_path(
                    step, scope=scope, summary=summary, method=method, **within
                )
        name = "question.critical_path" if summary else "question.path_interval"
        frame = self.relation(name, step, **within)
        own = frame.filter(frame["method"] == (method or _MEASURED))
        if scope is not None:
            return own.filter(own["scope"] == scope)
        stepped = self._rows("SELECT DISTINCT trace_id FROM staging.step")["trace_id"]
        bounds = (own["scope"] == "trace") & ~own["trace_id"].is_in(stepped.implode())
        return own.filter((own["scope"] == "period") | bounds)

    @own_errors()
    def slack(
        self,
        step: int | None = None,
        *,
        kind: str | None = None,
        **within: Unpack[Within],
    ) -> pl.DataFrame:
        """How much later each op, call and GPU op could end: `question.slack`.

        That is, without delaying the step on its rank (`slack_ns`) or in its run
        (`run_slack_ns`). The least slack on a rank comes first. `kind` selects nodes of
        one kind (`tracedb.NODE_KINDS`). Raises `QueryError` for an unknown kind.
        """
        if kind is not None and kind not in tracedb.NODE_KINDS:
            known = ", ".join(tracedb.NODE_KINDS)
            raise QueryError(f"no kind {kind}; available: {known}")
        frame = self.relation("question.slack", step, **within)
        return frame if kind is None else frame.filter(frame["kind"] == kind)

    @own_errors()
    def predict(
        self,
        method: str | None = None,
        *,
        library: str | Path | None = None,
        **part: Unpack[Part],
    ) -> pl.DataFrame:
        """Measured and predicted time of each step: `critical_path.step_time`.

        Without a method, returns the stored methods; other methods are simulated on
        demand. The method `library` learns host times from a file that `tracedb
        overheads learn` wrote; it is the default if `library` is given. Without a file,
        it has the host times that ship with tracedb. The other arguments select a part
        of the steps, as in `relation`. Raises `QueryError` for a method that is not in
        `tracedb.METHODS`, `LibraryError` for a file that is not a library.
        """
        return self._of_method("critical_path.step_time", method, library, part)

    @own_errors()
    def evaluate(self, *, library: str | Path | None = None) -> pl.DataFrame:
        """How well each method predicts the steps: `question.prediction_score`.

        Methods that are not stored are simulated, which takes time. The method
        `library` is included if `library` is given.
        """
        methods = [r for r in tracedb.METHODS if library is not None or r != "library"]
        with self.simulate(methods, library=library) as beside:
            return beside.relation("question.prediction_score")

    @own_errors()
    def bands(
        self,
        method: str | None = None,
        *,
        library: str | Path | None = None,
        **part: Unpack[Part],
    ) -> pl.DataFrame:
        """The interval in which each step is expected: `question.prediction_band`.

        For the stored methods, or for one, as in `predict`.
        """
        return self._of_method("question.prediction_band", method, library, part)

    @own_errors()
    def scenarios(
        self,
        edits: str | Path | Sequence[Edit],
        method: str | None = None,
        *,
        library: str | Path | None = None,
    ) -> pl.DataFrame:
        """What scenarios do to each step: `question.scenario_effect`.

        The scenarios are a file (`tracedb.whatif.scenario`) or edits; the method
        predicts everything else: `replay`, or `library` if that file is given.
        `question.scenario_match` in a `simulate` block shows
        what each edit matches. Raises `ScenarioError` for an edit that cannot be
        carried out or matches nothing, `QueryError` for a method that is not in
        `tracedb.METHODS`, `LibraryError` for a file that is not a library.
        """
        with self.simulate(method, edits, library, only_steps=True) as beside:
            return beside.relation("question.scenario_effect")

    @contextmanager
    def simulate(
        self,
        methods: str | Sequence[str] | None = None,
        edits: str | Path | Sequence[Edit] | None = None,
        library: str | Path | None = None,
        *,
        only_steps: bool = False,
    ) -> Iterator[Database]:
        """All relations for some methods and scenarios, in a `with` block.

        Answers in the block are for these methods only (if none is given: `replay`, or
        `library` if that file is given): for the baseline, and for each scenario of the
        edits, which may also be a file (`tracedb.whatif.scenario`). This database does
        not change. `library` is the file that the method `library` learns from; without
        one, it has the host times that ship with tracedb. With
        `only_steps`, scenarios that change only durations are evaluated with arrays,
        which is much faster: step times (`question.scenario_effect`,
        `critical_path.step_period`) are the same, and other relations lack these
        scenarios.

        >>> with tracedb.open() as db, db.simulate(["replay"]) as beside:
        ...     beside.ask("gpu_active").height
        0

        Raises `QueryError` for a method that is not in `tracedb.METHODS`,
        `ScenarioError` for edits that cannot be carried out or match nothing,
        `LibraryError` for a file that is not a library.
        """
        from tracedb.whatif.simulation import SHARED, simulated

        methods = _methods(methods, library)
        for method in methods:
            self._check_method(method)
            if edits is not None and method in _LIN2022:
                raise QueryError(f"method {method} has no scenarios; choose another")
        if library is not None and "library" not in methods:
            raise QueryError(
                f"the library {library} is for the method library, not "
                f"{', '.join(methods)}; remove one of the two"
            )
        if isinstance(edits, (str, Path)):
            edits = read_scenarios(edits)
        elif edits is not None:
            check(list(edits))
        with simulated(
            self._connection,
            methods,
            edits or (),
            library,
            allow_files=self._allow_files,
            only_steps=only_steps,
        ) as connection:
            beside = Database(
                self.path, connection=connection, allow_files=self._allow_files
            )
            beside._shared = SHARED if edits else ()
            yield beside

    def stored_edits(self) -> list[Edit]:
        """The edits of the scenarios stored in `reference.scenario`.

        Raises `ScenarioError` if there are none, or if a row is not an edit.
        """
        return stored_edits(self._connection)

    @own_errors()
    def sweep(self, edits: Sequence[Edit], sweep: str) -> list[Edit]:
        """Each scenario once for each value of a sweep such as `factor=0.1..1:10`.

        The values may come from a query: `add_ns=SELECT ...`. A sweep of a setting,
        such as `ranks=8..64`, needs no edits. Raises `ScenarioError`.
        """
        return swept(edits, sweep, lambda query: self.sql(query).to_series().to_list())

    @own_errors()
    def ranking(
        self,
        method: str | None = None,
        candidates: int = 8,
        *,
        library: str | Path | None = None,
        **part: Unpack[Part],
    ) -> pl.DataFrame:
        """What steps gain if something took no time, half of it, or its roofline's.

        `candidates` limits the number of candidates of each kind: those with the most
        time on the measured critical paths, then overall. Returns `question.ranking`,
        from one simulation of all, with a method as in `scenarios`. `part` selects the
        steps whose time and gain count, as in `relation`; what is edited is edited in
        all of them. Raises `QueryError` for an unknown method, `LibraryError` for a
        file that is not a library.
        """
        found = self.relation("question.ranking_candidate", **part)
        edits = ranked_edits(found, whole_number(candidates))
        if not edits:
            return lookup.declared_rows("question.ranking")
        with self.simulate(method, edits, library, only_steps=True) as beside:
            return beside.ask("ranking", **part)

    def _refuse_of_lake(self) -> None:
        """Raise `DatabaseError` if a lake is to be changed."""
        if self.is_of_lake:
            raise DatabaseError(
                f"{self.path}: a lake is read-only here; use `tracedb lake ingest` to "
                "add files, or ingest into a database"
            )

    def _is_asked(self, method: str) -> bool:
        """Whether the method is simulated here, next to what was measured."""
        asked = self._rows("SELECT method FROM prediction.variant WHERE is_asked")
        return method in asked["method"]

    def _of_method(
        self, name: str, method: str | None, library: str | Path | None, part: Part
    ) -> pl.DataFrame:
        if method is not None:
            self._check_method(method)
        if library is not None:
            method = method or "library"
        known = self._rows("SELECT method FROM prediction.variant")["method"]
        if method is not None and (library is not None or method not in known):
            with self.simulate((method,), library=library) as beside:
                return beside.relation(name, **part)
        stored = self.relation(name, **part)
        return stored if method is None else stored.filter(stored["method"] == method)

    def _check_number(self, parameter: str, number: int) -> None:
        """Raise `QueryError` if a number that a question takes does not exist."""
        if parameter not in _NUMBERED:
            return
        noun, relation, column = _NUMBERED[parameter]
        query = f"SELECT count(*) FROM {relation} WHERE {column} = ?"
        if not scalar(self._connection, query, [number]):
            raise QueryError(f"no {noun} {number}; {relation} lists them")

    def _check_method(self, method: str) -> None:
        if method not in tracedb.METHODS:
            known = ", ".join(tracedb.METHODS)
            new = renamed.METHODS.get(str(method))
            hint = f"it was renamed to {new}" if new else f"available: {known}"
            raise QueryError(f"no method {method}; {hint}")

    @own_errors()
    def apply_models(
        self, models: str | Path | estimates.Models | None = None
    ) -> pl.DataFrame:
        """Predict kernel times with trained models: a file, a folder or an object.

        Kernels that the given files do not cover are predicted by the models that ship
        with tracedb; without any models, all kernels are. The predictions replace
        earlier ones and the roofline's, and everything that reads them is recomputed.
        Returns `question.kernel_coverage`. Raises `KernelModelError` for a broken file,
        `QueryError` if no shapes of GPU work are known.
        """
        self._refuse_of_lake()
        if models is None or isinstance(models, (str, Path)):
            from tracedb.kernels import load, shipped

            own = shipped(self._connection)
            models = own if models is None else load(models, self._connection).over(own)
        estimates.apply(self._connection, models)
        return self.relation("question.kernel_coverage")

    @own_errors()
    def calibrate(self, source: str | Path) -> pl.DataFrame:
        """Calibrate kernel times with the traces of another database, on the same GPUs.

        Each trace is already calibrated with its own kernels at ingest
        (`prediction.kernel_factor`); other traces count where that gives little data.
        Everything that reads kernel times is recomputed. Returns what was learned by
        hardware, family and basis: traces, shapes, and the factor by which kernels took
        longer than predicted. Raises `DatabaseError` if the source cannot be opened,
        `QueryError` if there is nothing to learn.
        """
        self._refuse_of_lake()
        return calibration.calibrate(self._connection, source)

    @own_errors()
    def add_hardware(self, path: str | Path) -> list[str]:
        """Add the devices of a JSON or CSV file to `prediction.hardware`.

        Returns their names. Raises `HardwareError` for an invalid row.
        """
        self._refuse_of_lake()
        return hardware.add(self._connection, path)

    @own_errors()
    def depends(
        self,
        node: int | str,
        *,
        direction: str | None = None,
        waits: bool = False,
        step: int | None = None,
        rank: int | None = None,
    ) -> pl.DataFrame:
        """What a node depends on (`up`), and what depends on it (`down`), by distance.

        The node is given by its number in `graph.node`, or by its exact name if that is
        unique within the step or rank, if they are given. With `waits`, the rows are
        what it waits for and what it delays, each with the time. Raises `QueryError` if
        there is no such node, or more than one.
        """
        if step is not None:
            step = whole_number(step)
            parts.check("step", step, self._rows)
        number = find_node(self._connection, node, step, rank)
        return self._rows(rows_query(number, direction, waits=waits))

    def questions(self) -> pl.DataFrame:
        """The questions that `ask` answers, by subject, with their meaning."""
        import polars as pl

        rows = [
            (subject, relation.signature.removeprefix("question."), relation.meaning)
            for subject, relations in catalog.by_subject().items()
            for relation in relations
            if relation.layer == "question" and not relation.is_function
        ]
        return pl.DataFrame(
            rows, schema=["subject", "question", "meaning"], orient="row"
        )

    @own_errors()
    def ask(self, question: str, *values: int, **part: Unpack[Part]) -> pl.DataFrame:
        """Answer a question by its name: the rows of `question.<name>`.

        Some questions take values, such as the number of a node. `part` selects a part
        of the database, as in `relation`, if the answer has such a column. Raises
        `QueryError` if the number of values is wrong.
        """
        if not isinstance(question, str):
            raise QueryError(f"{question!r} is not the name of a question")
        declared = lookup.find_question(question)
        if len(values) != len(declared.parameters):
            raise QueryError(
                f"{declared.full_name} takes "
                f"{counted(len(declared.parameters), 'value')}, not {len(values)}: "
                f"{declared.signature}"
            )
        if not declared.is_macro:
            return self.relation(declared.full_name, **part)
        numbers = [*map(whole_number, values)]
        for parameter, number in zip(declared.parameters, numbers, strict=True):
            self._check_number(parameter, number)
        call = declared.call(*numbers)
        chosen = parts.choice(declared, part, self._rows)
        return self._rows(f"FROM {declared.full_name}{call} {chosen.where}")

    @own_errors()
    def report(  # noqa: PLR0913 (the options of one command)
        self,
        path: str | Path,
        run: int | None = None,
        *,
        rank: int | None = None,
        trace: int | None = None,
        against: Database | None = None,
        scenarios: str | Path | Sequence[Edit] | None = None,
    ) -> dict[str, Any]:
        """Write a report of a run, a rank or a trace: one HTML file that works offline.

        By default, the run is the one with the most events. The report starts with the
        summary, followed by what changed since the largest run of another database
        (`against`, see `diff`; of a rank, since the same rank), and by what scenarios
        would do (see `simulate`). Returns what was written: the run, the size, and what
        was left out. Raises `QueryError` if there is no such run, rank or trace,
        `ReportError` if the file cannot be written, `ScenarioError` for edits that
        cannot be carried out.
        """
        from tracedb.report import find_run, write_report

        number = None if run is None else whole_number(run)
        part = parts.chosen({"rank": rank, "trace": trace}, self._rows)
        chosen = find_run(self._connection, number, jobs=True, part=part).run_id
        beside = [
            *self._difference(chosen, against, part),
            *self._effects(chosen, scenarios, part),
        ]
        return stoppable(
            self._connection,
            lambda: write_report(self, path, chosen, beside, part),
        )

    def _difference(
        self, run: int, against: Database | None, part: Part
    ) -> list[dict[str, Any]]:
        """The sections of a report that compare a run with another database's."""
        from tracedb.report import find_run
        from tracedb.report.beside import difference_sections

        if against is None:
            return []
        if "trace" in part:
            raise QueryError(
                "single traces are not compared with another run: choose a rank"
            )
        rank = part.get("rank")
        other = find_run(against.connection, None).run_id
        found = against.diff(self, run=(other, run), rank=(rank, rank))
        return difference_sections(found)

    def _effects(
        self, run: int, edits: str | Path | Sequence[Edit] | None, part: Part
    ) -> list[dict[str, Any]]:
        """The sections of a report about what scenarios would do to a run."""
        from tracedb.report.beside import scenario_sections

        if edits is None:
            return []
        with self.simulate(["replay"], edits) as beside:
            return scenario_sections(beside.connection, run, part)

    @own_errors()
    def plot(self, name: str, run: int | None = None) -> Any:  # noqa: ANN401 (of a package that may be missing)
        """Draw an Altair chart of a run: `tracedb.plots.PLOTS`.

        The charts are those of a report: periods, bounds, path, idle, overheads,
        kernels, modules, roofline, predictions. By default, the run is the one with the
        most events. Raises `QueryError` for an unknown chart or run,
        `MissingPackageError` without the extra `notebook`.
        """
        from tracedb.plots import plot

        number = None if run is None else whole_number(run)
        return stoppable(self._connection, lambda: plot(self._connection, name, number))

    def __repr__(self) -> str:
        """The path.

        >>> tracedb.open()
        <tracedb.Database :memory:>
        """
        return f"<tracedb.Database {self.path}>"

    def _repr_html_(self) -> str | None:
        """The traces in the database, for notebooks; empty once it is closed."""
        from tracedb.markup import table

        try:
            rows = self.info().drop("path", "format", "paired_trace_id", "pairing")
        except QueryError:
            return None
        return table(f"tracedb {self.path}", rows.iter_rows(named=True))

    @own_errors()
    def summary(
        self,
        run: int | None = None,
        *,
        step: int | None = None,
        rank: int | None = None,
        trace: int | None = None,
    ) -> Summary:
        """The answers of the summary by question; for everything, or for a part.

        Displayed, they are the text of `tracedb summary`. The questions are
        `tracedb.summary.PARTS`; of a step, `idle_share` and `idle_cause` replace
        `device_time`. Raises `QueryError` if there is no such run, step, rank or trace.
        """
        from tracedb.summary import summary

        part: Part = {"run": run, "step": step, "rank": rank, "trace": trace}
        return summary(self, parts.chosen(part))

    @own_errors()
    def export(
        self,
        path: str | Path,
        *,
        step: int | None = None,
        run: int | None = None,
        rank: int | None = None,
        format: str | None = None,  # noqa: A002 (as the command has it)
    ) -> int:
        """Export a run, a step or a rank, with its critical path, for another tool.

        The format is `chrome` JSON, Perfetto's own `pftrace`, `speedscope`, or graphs
        for MLCommons `chakra` with a file per rank (`x.et` gives `x.0.et`, ...). By
        default, the ending of the path tells the format, and the run is the one with
        the most events. In a `simulate` block, the export has the simulation next to
        the measurement. Returns the number of events, or of profiles for speedscope.
        Raises `QueryError` if there is no such run, step, rank or format, `ReportError`
        if the file cannot be written.
        """
        from tracedb.export.chakra import write_chakra
        from tracedb.export.perfetto import format_of, write_chrome, write_pftrace
        from tracedb.export.speedscope import write_speedscope
        from tracedb.report import find_run

        writers = {
            "chrome": write_chrome,
            "pftrace": write_pftrace,
            "speedscope": write_speedscope,
            "chakra": write_chakra,
        }
        form = format_of(path) if format is None else format
        if form not in writers:
            raise QueryError(f"no format {form}; available: {', '.join(writers)}")
        wanted, *part = [
            None if number is None else whole_number(number)
            for number in (run, step, rank)
        ]
        chosen = find_run(self._connection, wanted).run_id
        return stoppable(
            self._connection,
            lambda: writers[form](self._connection, path, chosen, *part),
        )

    @own_errors()
    def diff(
        self,
        other: Database | None = None,
        *,
        run: Pair = (None, None),
        step: Pair = (None, None),
        rank: Pair = (None, None),
    ) -> Difference:
        """What changed in another run: its period, critical path, ops and kernels.

        The other run is in another database, or is the second run of this one. Each
        pair gives the run, step or rank of both sides. `diff["period"]`, `"kind"`,
        `"path"` and `"work"` are the answers of `question.diff_period` and so on.
        Raises `QueryError` if there is no such run, step or rank.
        """
        from tracedb.diff import choose, difference, runs_of

        if other is None and run == (None, None) and step == rank == (None, None):
            runs = runs_of(self._connection)
            if len(runs) != 2:  # noqa: PLR2004 (this one and the other)
                raise QueryError(
                    f"{self.path}: {counted(len(runs), 'run')}; give another database, "
                    "or choose both sides with --run, --step or --rank"
                )
            first, second = runs
            run = first, second
        one, two = (
            choose(
                database.connection,
                database.path,
                run=run[place],
                step=step[place],
                rank=rank[place],
            )
            for place, database in enumerate((self, other or self))
        )
        return stoppable(self._connection, lambda: difference(one, two))

    @own_errors()
    def check(
        self,
        baseline: Database,
        *,
        run: Pair = (None, None),
        tolerance: float | None = None,
    ) -> pl.DataFrame:
        """Whether steps are slower than in a baseline, by more than its noise.

        Returns a row per measure, the period first, as in `question.diff_noise`, with
        the limit of the change and whether it is within that limit. The limit is the
        noise, but at least the tolerance, a share of the baseline's period (default 1
        %). `run` is the run of the baseline and the run of this database. If the
        baseline has several runs and none is chosen, the noise is how much they differ
        (`question.start_noise`). Raises `QueryError` if there is no such run, or if
        the baseline has too few steps or runs to estimate the noise and no tolerance
        is given.
        """
        from tracedb.diff import baseline_runs, checked, checked_by_starts, choose

        after = choose(self._connection, self.path, run=run[1])
        is_same = baseline is self or baseline.path == self.path != ":memory:"
        own = after.run if is_same else None
        before = baseline_runs(baseline.connection, baseline.path, run[0], own)
        if len(before) > 1:
            return stoppable(
                self._connection, lambda: checked_by_starts(before, after, tolerance)
            )
        only = before[0]
        return stoppable(self._connection, lambda: checked(only, after, tolerance))

    @own_errors()
    def info(self) -> pl.DataFrame:
        """The runs and their files, and how many events of each type a file has."""
        return self._rows(_INFO)

    @own_errors()
    def issues(self) -> pl.DataFrame:
        """What ingest repaired or left out, and notes on what it kept (`is_note`)."""
        return self._rows(_ISSUES)

    @own_errors()
    def schema(
        self, relation: str | None = None, *, internal: bool = False
    ) -> pl.DataFrame:
        """The public relations in reading order, and internal ones if asked for.

        Or the columns of one relation.
        """
        return lookup.schema(relation, self._connection, internal=internal)

    def _prepare(self, *, read_only: bool) -> None:
        known = attachment.stored_fingerprint(self._connection, self.path)
        if known == catalog.fingerprint():
            return
        if known is not None:
            template.refuse_newer(self._connection, self.path)
        if read_only and known is None:
            raise DatabaseError(f"{self.path}: empty; fill it with `tracedb ingest`")
        if read_only:
            raise DatabaseError(
                f"{self.path}: written by another version of tracedb; run `tracedb "
                f"upgrade {self.path}`"
            )
        if known is None:
            template.create(self._connection)
        else:
            from tracedb.ingest import rebuild

            rebuild(self._connection, _ignore)
            template.sign(self._connection)
