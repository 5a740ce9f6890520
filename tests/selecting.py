"""What edits select, by plain loops over the rows of a database."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, get_args

import odd_traces

import tracedb
from tracedb import Edit
from tracedb.synthetic.program import seeded
from tracedb.whatif.selection import FIELDS as SELECTING
from tracedb.whatif.selection import (
    TYPES,
    Phase,
    is_expression,
    ranges,
    used,
    wrong_selection,
)

Row = dict[str, Any]
Times = list[tuple[int, int]]
Works = set[tuple[str, int]]
"""What of GPU work is selected: for `gpu` its type, for `op` `gpu`, else the delay."""
Waits = set[tuple[int, int]]
"""Which waits of GPU work for other GPU work are selected."""
AWAITED = ("awaited", "awaited_op", "awaited_stream", "awaited_device")
GPU_WAITS = ("wait_stream", "wait_device", "wait_event", "wait_copy", "wait_queue")
SPAN_TYPES: dict[tuple[str, str | None], tuple[str, ...]] = {
    ("host", None): ("T1", "T2", "T3", "T4", "T5"),
    ("op", None): ("T2", "T3", "T4", "T5", "wait_data", *GPU_WAITS),
    ("wait", None): (*GPU_WAITS, "wait_thread"),
    ("wait", "host"): GPU_WAITS,
    ("wait", "thread"): ("wait_thread",),
    ("delay", None): (*GPU_WAITS, "wait_thread"),
    ("delay", "return"): GPU_WAITS,
    ("delay", "thread"): ("wait_thread",),
}


def matches(pattern: str, text: str | None) -> bool:
    """Whether a text matches a pattern, unless some text equals the pattern."""
    if text is None:
        return False
    if is_expression(pattern):
        return re.search(pattern[1:-1], text) is not None
    literal = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(literal, text, re.DOTALL) is not None


def among(numbers: int | str | None, number: int | None) -> bool:
    """Whether a number is among the selected ones."""
    return numbers is None or (
        number is not None and any(a <= number <= b for a, b in ranges(numbers))
    )


def overlap(times: list[Times], start: int, end: int) -> int:
    """How much of a span is within the intersection of several lists of times."""
    cuts = {start, end}
    for chosen in times:
        cuts |= {at for pair in chosen for at in pair if start < at < end}
    ordered = sorted(cuts)
    return sum(
        after - at
        for at, after in pairwise(ordered)
        if all(any(a <= at < b for a, b in chosen) for chosen in times)
    )


_NAMES_OF = {
    "host": ("op", "call"),
    "gpu": ("gpu_op",),
    "op": ("op",),
    "wait": ("call", "gpu_op"),
    "delay": ("call", "gpu_op"),
}
"""What the field `name` of a target may be the name of."""
_TEXTS = {
    "op": "SELECT name FROM staging.op WHERE NOT is_annotation",
    "call": "SELECT name FROM staging.call",
    "gpu_op": "SELECT name FROM staging.gpu_op",
    "annotation": "SELECT name FROM staging.annotation",
    "function": "SELECT name FROM staging.python_frame UNION "
    "SELECT split_part(name, ' (', 1) FROM staging.python_frame",
    "shape": "SELECT input_dims::VARCHAR FROM staging.op WHERE NOT is_annotation",
    "module": "SELECT path FROM staging.module_call",
    "family": "SELECT family FROM prediction.kernel_roofline",
    "process_group": "SELECT process_group FROM staging.collective",
    "awaited": "SELECT name FROM staging.gpu_op",
    "awaited_op": "SELECT name FROM staging.op WHERE NOT is_annotation",
    "thread": "SELECT unnest([role, name, tid::VARCHAR]) FROM staging.thread",
}


class Rows:
    """A database's rows, and what edits select from them, by a loop."""

    def __init__(self, database: tracedb.Database) -> None:
        """Read all rows."""
        self.database = database
        self._times: dict[tuple[Edit, int], dict[str, Times]] = {}
        self._texts: dict[str, set[str]] = {}

    def matches(self, edit: Edit, field: str, text: str | None) -> bool:
        """Whether a text matches a field; one that equals the pattern does alone."""
        pattern: str | None = getattr(edit, field)
        if pattern is None:
            return True
        of_names = _NAMES_OF[edit.target] if field == "name" else (field,)
        if any(pattern in self.texts(kind) for kind in of_names):
            return text == pattern
        return matches(pattern, text)

    def texts(self, kind: str) -> set[str]:
        """All texts of a kind."""
        if kind not in self._texts:
            rows = self.database.sql(_TEXTS[kind]).rows()
            self._texts[kind] = {text for (text,) in rows if text is not None}
        return self._texts[kind]

    def _read(self, query: str) -> list[Row]:
        return list(self.database.sql(query).iter_rows(named=True))

    @cached_property
    def ops(self) -> list[Row]:
        """Ops other than user ranges, outer ones first."""
        return self._read(
            "SELECT op_id AS node, * FROM staging.op WHERE NOT is_annotation "
            "ORDER BY start_ns, end_ns DESC, op_id"
        )

    @cached_property
    def spans(self) -> list[Row]:
        """Spans of host time with their names; idle spans as in the partition."""
        return self._read(
            """
            SELECT
                span.* EXCLUDE (type),
                CASE
                    WHEN span.type <> 'T1' OR interval.type IS NULL
                        AND step.step_id IS NULL
                        AND span.position BETWEEN first AND last
                        THEN span.type
                    ELSE coalesce(interval.type, 'idle')
                END AS type,
                CASE
                    WHEN span.type = 'T4' OR span.type LIKE 'wait%' AND call_id > 0
                        THEN call.name
                    ELSE op.name
                END AS name,
                coalesce(
                    CASE
                        WHEN span.type = 'T4' OR span.type LIKE 'wait%' AND call_id > 0
                            THEN call.start_ns
                        ELSE op.start_ns
                    END,
                    span.start_ns
                ) AS named_ns
            FROM overhead.timeline AS span
            INNER JOIN (
                SELECT
                    thread_id,
                    min(position) FILTER (op_id > 0 OR call_id > 0) AS first,
                    max(position) FILTER (op_id > 0 OR call_id > 0) AS last
                FROM overhead.timeline GROUP BY ALL
            ) USING (thread_id)
            LEFT JOIN staging.op AS op USING (op_id)
            LEFT JOIN staging.call AS call USING (call_id)
            LEFT JOIN staging.step AS step
                ON span.trace_id = step.trace_id
                AND span.start_ns BETWEEN step.start_ns AND step.end_ns - 1
            LEFT JOIN (
                SELECT thread_id, position, min(type) AS type
                FROM overhead.interval GROUP BY ALL
            ) AS interval
                ON span.thread_id = interval.thread_id
                AND span.position = interval.position
            ORDER BY span.thread_id, span.position
            """
        )

    @cached_property
    def works(self) -> list[Row]:
        """GPU work, and when and where it was launched."""
        return self._read(
            "SELECT work.*, call.thread_id, call.start_ns AS at_ns, process_group, "
            "wait.gpu_op_id IS NOT NULL AS waits, "
            "position.previous_gpu_op_id IS NOT NULL AS follows, family, "
            "CASE WHEN is_collective THEN 'collective' ELSE work.kind END AS type "
            "FROM staging.gpu_op AS work "
            "LEFT JOIN graph.stream_position AS position "
            "ON work.gpu_op_id = position.gpu_op_id "
            "LEFT JOIN prediction.kernel_roofline AS roofline "
            "ON work.gpu_op_id = roofline.gpu_op_id "
            "LEFT JOIN staging.call AS call ON work.call_id = call.call_id "
            "LEFT JOIN staging.collective AS collective ON work.gpu_op_id = node_id "
            "LEFT JOIN graph.stream_wait AS wait ON work.gpu_op_id = wait.gpu_op_id "
            "ORDER BY work.gpu_op_id"
        )

    @cached_property
    def awaited(self) -> dict[int, list[Row]]:
        """What each GPU op waits for on other streams."""
        works = {work["gpu_op_id"]: work for work in self.works}
        found = defaultdict(list)
        for row in self._read("FROM graph.gpu_awaited"):
            found[row["gpu_op_id"]].append(works[row["awaited_gpu_op_id"]])
        return found

    def is_awaited(self, edit: Edit, work: Row) -> bool:
        """Whether an edit selects waits for this work."""
        return (
            self.matches(edit, "awaited", work["name"])
            and among(edit.awaited_stream, work["stream"])
            and among(edit.awaited_device, work["device"])
            and (
                edit.awaited_op is None
                or any(
                    op["thread_id"] == work["thread_id"]
                    and op["start_ns"] <= work["at_ns"] < op["end_ns"]
                    and self.matches(edit, "awaited_op", op["name"])
                    for op in self.ops
                )
            )
        )

    @cached_property
    def threads(self) -> dict[int, Row]:
        """The host threads."""
        found = self._read(
            "SELECT thread.*, rank FROM staging.thread AS thread "
            "INNER JOIN staging.trace USING (trace_id)"
        )
        return {row["thread_id"]: row for row in found}

    @cached_property
    def ranks(self) -> dict[int, int]:
        """The rank of each trace."""
        return dict(
            self.database.sql("SELECT trace_id, rank FROM staging.trace").rows()
        )

    @cached_property
    def annotations(self) -> list[Row]:
        """The user ranges."""
        return self._read("SELECT annotation_id AS node, * FROM staging.annotation")

    @cached_property
    def functions(self) -> list[Row]:
        """The calls of Python functions."""
        return self._read("FROM staging.python_frame")

    def _is_function(self, edit: Edit, name: str) -> bool:
        texts = (name, name.split(" (", maxsplit=1)[0])
        return any(self.matches(edit, "function", text) for text in texts)

    @cached_property
    def steps(self) -> list[Row]:
        """The steps."""
        return self._read("FROM staging.step")

    @cached_property
    def module_calls(self) -> list[Row]:
        """Calls of modules, and backward ops of modules."""
        return self._read(
            "SELECT thread_id, path, start_ns, end_ns FROM staging.module_call "
            "UNION ALL SELECT op.thread_id, path, op.start_ns, op.end_ns "
            "FROM graph.op_module "
            "INNER JOIN staging.module_call USING (module_call_id) "
            "INNER JOIN staging.op AS op USING (op_id) WHERE is_backward"
        )

    def _is_in_module(self, edit: Edit, path: str) -> bool:
        parts = path.split("/")
        ends = range(1, len(parts) + 1)
        outer = ["/".join(parts[:end]) for end in ends]
        known = self.texts("module")
        return any(self.matches(edit, "module", of) for of in outer if of in known)

    @cached_property
    def phases(self) -> list[Row]:
        """The phase of each top-level event, and the fetching of batches."""
        return self._read(
            "SELECT thread_id, start_ns, end_ns, phase FROM graph.phase UNION ALL "
            "SELECT thread_id, start_ns, end_ns, 'data_loading' "
            "FROM staging.data_loading"
        )

    @cached_property
    def nodes(self) -> list[Row]:
        """The nodes."""
        return self._read("SELECT node_id AS node, * FROM graph.node")

    def times(self, edit: Edit, thread: int) -> dict[str, Times]:
        """The times on a thread at which each of an edit's fields holds (cached)."""
        if (edit, thread) not in self._times:
            self._times[edit, thread] = self._times_of(edit, thread)
        return self._times[edit, thread]

    def _times_of(self, edit: Edit, thread: int) -> dict[str, Times]:
        row = self.threads[thread]

        def on(rows: list[Row], chosen: Callable[[Row], bool]) -> Times:
            here = [r for r in rows if r["thread_id"] == thread and chosen(r)]
            return [(r["start_ns"], r["end_ns"]) for r in here]

        found: dict[str, Times] = {}
        if edit.annotation is not None:
            found["annotation"] = on(
                self.annotations, lambda r: self.matches(edit, "annotation", r["name"])
            )
        if edit.function is not None:
            found["function"] = on(
                self.functions, lambda r: self._is_function(edit, r["name"])
            )
        if edit.module is not None:
            found["module"] = on(
                self.module_calls, lambda r: self._is_in_module(edit, r["path"])
            )
        if edit.phase is not None:
            found["phase"] = on(self.phases, lambda r: r["phase"] == edit.phase)
        if edit.node is not None:
            found["node"] = on(self.nodes, lambda r: among(edit.node, r["node"]))
        if edit.step is not None:
            found["step"] = [
                (s["start_ns"], s["end_ns"])
                for s in self.steps
                if s["trace_id"] == row["trace_id"] and among(edit.step, s["step"])
            ]
        if edit.thread is not None:
            texts = (row["role"], row["name"], str(row["tid"]))
            is_it = any(self.matches(edit, "thread", text) for text in texts)
            found["thread"] = [(-(2**63), 2**63)] if is_it else []
        return found

    def chosen_ops(self, edit: Edit) -> list[Row]:
        """The outermost ops that an edit names."""
        field = "name" if edit.target == "op" else "op"
        found: list[Row] = []
        until: dict[int, int] = {}
        for op in self.ops:
            thread = op["thread_id"]
            times = self.times(edit, thread).values()
            if (
                self.matches(edit, field, op["name"])
                and self.matches(edit, "shape", op["input_dims"])
                and among(edit.rank, self.ranks[op["trace_id"]])
                and all(any(a <= op["start_ns"] < b for a, b in t) for t in times)
                and (edit.part or op["start_ns"] >= until.get(thread, 0))
            ):
                until[thread] = op["end_ns"]
                found.append(op)
        return self.instances(edit, found, lambda op: (op["start_ns"], op["op_id"]))

    def instances(
        self, edit: Edit, found: list[Row], key: Callable[[Row], tuple[int, int]]
    ) -> list[Row]:
        """Those whose ordinal in their step is selected."""
        if edit.instance is None:
            return found
        groups: dict[tuple[int, int | None], list[Row]] = {}
        for row in found:
            at = row.get("at_ns") or row["start_ns"]
            step = next(
                (
                    s["step_id"]
                    for s in self.steps
                    if s["trace_id"] == row["trace_id"]
                    and s["start_ns"] <= at < s["end_ns"]
                ),
                None,
            )
            groups.setdefault((row["trace_id"], step), []).append(row)
        return [
            row
            for rows in groups.values()
            for number, (_, equal) in enumerate(groupby(sorted(rows, key=key), key), 1)
            if among(edit.instance, number)
            for row in equal
        ]

    def fields(self, edit: Edit, thread: int, ops: list[Row]) -> dict[str, Times]:
        """The times at which each of an edit's fields holds."""
        fields = {**self.times(edit, thread)} if edit.target != "op" else {}
        if edit.target == "op" or edit.op is not None or edit.shape is not None:
            own = [op for op in ops if op["thread_id"] == thread]
            fields["op"] = [time for op in own for time in self.times_in(edit, op)]
        return fields

    def times_in(self, edit: Edit, op: Row) -> Times:
        """The time of an op, or its time outside inner ops."""
        found = [(op["start_ns"], op["end_ns"])]
        for inner in self.within[op["op_id"]] if edit.part else ():
            start, end = inner["start_ns"], inner["end_ns"]
            found = [
                piece
                for a, b in found
                for piece in ((a, min(b, start)), (max(a, end), b))
                if piece[0] < piece[1]
            ]
        return found

    @cached_property
    def within(self) -> dict[int, list[Row]]:
        """All ops within each op, at any depth."""
        parents = dict(
            self.database.sql("SELECT op_id, parent_op_id FROM staging.op").rows()
        )
        found = defaultdict(list)
        for op in self.ops:
            above = parents[op["op_id"]]
            while above is not None:
                found[above].append(op)
                above = parents[above]
        return found

    def chosen_spans(self, edit: Edit) -> dict[tuple[int, int], int]:
        """The spans that an edit selects, and how much of each."""
        types = SPAN_TYPES.get((edit.target, edit.type), (str(edit.type),))
        if (edit.target, edit.type) == ("host", None) and edit.function is not None:
            types = (*types, "idle")
        ops = self.chosen_ops(edit)
        found, chosen = {}, []
        for span in self.spans:
            if (
                span["type"] not in types
                or (edit.target in ("gpu", "profiler"))
                or not among(edit.rank, self.ranks[span["trace_id"]])
                or (
                    edit.target != "op" and not self.matches(edit, "name", span["name"])
                )
            ):
                continue
            times = [*self.fields(edit, span["thread_id"], ops).values()]
            part = overlap(times, span["start_ns"], span["end_ns"])
            if part:
                chosen.append(span)
                found[span["thread_id"], span["position"]] = part
        if edit.op or edit.shape or edit.target == "op":
            return found
        # Spans that are calls.
        numbered = self.instances(
            edit, chosen, lambda s: (s["named_ns"], s["thread_id"])
        )
        keys = [(span["thread_id"], span["position"]) for span in numbered]
        return {key: found[key] for key in keys}

    def chosen_works(self, edit: Edit) -> Works:
        """GPU work, and what of it an edit selects."""
        ops = self.chosen_ops(edit)
        found: Works = set()
        for type_ in _PARTS[edit.target]:
            own = [w for w in self.works if self._is_chosen(edit, type_, w, ops)]
            if edit.op is None and edit.shape is None and edit.target != "op":
                own = self.instances(
                    edit, own, lambda w: (w["at_ns"] or w["start_ns"], w["gpu_op_id"])
                )
            found |= {
                (work["type"] if type_ == "work" else type_, work["gpu_op_id"])
                for work in own
            }
        return found

    def chosen_waits(self, edit: Edit) -> Waits:
        """The waits of GPU work for other streams that an edit selects."""
        type_ = {"wait": "stream", "delay": "stream_wait"}.get(edit.target)
        return {
            (work, of["gpu_op_id"])
            for kind, work in self.chosen_works(edit)
            if kind == type_
            for of in self.awaited[work]
            if self.is_awaited(edit, of)
        }

    def _is_chosen(self, edit: Edit, type_: str, work: Row, ops: list[Row]) -> bool:
        has = {
            "work": edit.type in (None, work["type"]),
            "gpu": work["thread_id"] is not None,
            "launch": work["thread_id"] is not None,
            "stream": work["follows"],
            "stream_wait": work["waits"],
        }
        has["stream"] = work["waits"] if edit.target == "wait" else work["follows"]
        return (
            has[type_]
            and (type_ == "work" or edit.type in (None, type_))
            and (edit.target == "op" or self.matches(edit, "name", work["name"]))
            and self.matches(edit, "process_group", work["process_group"])
            and self.matches(edit, "family", work["family"])
            and among(edit.rank, self.ranks[work["trace_id"]])
            and among(edit.stream, work["stream"])
            and among(edit.device, work["device"])
            and (
                not {*AWAITED} & {*used(edit)}
                or any(
                    self.is_awaited(edit, of) for of in self.awaited[work["gpu_op_id"]]
                )
            )
            and self._is_within(edit, work, ops)
        )

    def _is_within(self, edit: Edit, work: Row, ops: list[Row]) -> bool:
        """Whether its launch lies in all of an edit's fields, or it is a node of it."""
        thread = work["thread_id"]
        fields = used(edit)
        if thread is None:
            timed = {
                "op",
                "shape",
                "annotation",
                "function",
                "module",
                "phase",
                "step",
                "thread",
            }
            is_node = edit.node is None or among(edit.node, work["gpu_op_id"])
            return is_node and edit.target != "op" and not timed & {*fields}
        for field, times in self.fields(edit, thread, ops).items():
            is_node = field == "node" and among(edit.node, work["gpu_op_id"])
            if not is_node and not any(a <= work["at_ns"] < b for a, b in times):
                return False
        return True


_PARTS = {
    "host": (),
    "gpu": ("work",),
    "op": ("gpu",),
    "wait": ("stream",),
    "delay": ("launch", "stream", "stream_wait"),
}
"""What of GPU work an edit may select."""


def found(
    database: tracedb.Database, edits: list[Edit]
) -> dict[str, tuple[dict[tuple[int, int], int], Works, Waits]]:
    """What edits select, each in its own scenario: spans, GPU work, and its waits."""
    from tracedb.whatif.simulation import beside

    chosen: dict[str, tuple[dict[tuple[int, int], int], Works, Waits]] = {
        edit.scenario: ({}, set(), set()) for edit in edits
    }
    with beside(database.connection, [], edits) as (cursor, _):
        for scenario, thread, position, part in cursor.execute(
            "SELECT scenario, thread_id, position, chosen_ns "
            "FROM prediction.chosen_span"
        ).fetchall():
            chosen[scenario][0][thread, position] = part
        for scenario, type_, work in cursor.execute(
            "SELECT scenario, type, gpu_op_id FROM prediction.chosen_work"
        ).fetchall():
            chosen[scenario][1].add((type_, work))
        for scenario, *pair in cursor.execute(
            "SELECT scenario, gpu_op_id, awaited_gpu_op_id FROM prediction.chosen_wait"
        ).fetchall():
            chosen[scenario][2].add((pair[0], pair[1]))
    return chosen


def made(scenario: str, fields: dict[str, Any]) -> Edit:
    """An edit with a selection."""
    change: dict[str, Any] = {} if fields["target"] == "wait" else {"factor": 0.5}
    return Edit(scenario=scenario, **fields, **change)


TARGETS: dict[str, tuple[str | None, ...]] = {
    "host": (None, *TYPES["host"]),
    "gpu": (None, *TYPES["gpu"]),
    "op": (None,),
    "wait": (None, "host", "thread", "stream"),
    "delay": (None, *TYPES["delay"]),
}
FIELDS = [field for field in SELECTING if field != "sql"]


def values(rows: Rows, field: str, random: Random) -> Any:  # noqa: ANN401 (any field's)
    """A random value of a field: a text or number of the database, or a pattern."""
    if field in _GIVEN:
        return random.choice(_GIVEN[field])
    if field == "node":
        first = random.choice([row["node"] for row in rows.nodes] or [1])
        return random.choice((first, f"{first}..{first + 20}"))
    if field in _NUMBERS_OF:
        known = [
            n for (n,) in rows.database.sql(_NUMBERS_OF[field]).rows() if n is not None
        ]
        first = random.choice(known or [0])
        return random.choice((first, f"{first}..{first + 2}"))
    kinds = _NAMES_OF[random.choice(("host", "gpu"))] if field == "name" else (field,)
    texts = sorted(set().union(*map(rows.texts, kinds)))
    if not texts:
        return "*"
    text = random.choice(texts)
    middle = re.sub(r"[^\w:]", "?", text[1:-1])
    start = re.escape(text[: len(text) // 2])
    return random.choice(
        (text, text, f"*{middle}*", f"*{middle[2:]}?", f"/^{start}/", "*")
    )


_GIVEN: dict[str, tuple[int | str, ...]] = {
    "part": ("self",),
    "phase": get_args(Phase),
    "instance": (1, 2, "2..3", "1,4"),
}
_NUMBERS_OF = {
    "step": "SELECT DISTINCT step FROM staging.step ORDER BY ALL",
    "rank": "SELECT DISTINCT rank FROM staging.trace ORDER BY ALL",
    "stream": "SELECT DISTINCT stream FROM staging.gpu_op ORDER BY ALL",
    "device": "SELECT DISTINCT device FROM staging.gpu_op ORDER BY ALL",
    "awaited_stream": "SELECT DISTINCT stream FROM staging.gpu_op ORDER BY ALL",
    "awaited_device": "SELECT DISTINCT device FROM staging.gpu_op ORDER BY ALL",
}


def drawn(rows: Rows, random: Random, count: int) -> list[Edit]:
    """Random edits that are allowed."""
    found: list[Edit] = []
    while len(found) < count:
        target = random.choice([*TARGETS])
        fields: dict[str, Any] = {
            "target": target,
            "type": random.choice(TARGETS[target]),
        }
        for field in random.sample(FIELDS, random.choice((0, 1, 1, 2, 2, 3))):
            fields[field] = values(rows, field, random)
        edit = made(str(len(found)), fields)
        if wrong_selection(edit) is None:
            found.append(edit)
    return found


def differences(database: tracedb.Database, edits: list[Edit], rows: Rows) -> list[str]:
    """The edits that select other things than a loop does."""
    wrong = []
    for edit, (spans, works, waits) in zip(
        edits, found(database, edits).values(), strict=True
    ):
        for what, got, wanted in (
            ("spans", spans, rows.chosen_spans(edit)),
            ("works", works, rows.chosen_works(edit)),
            ("waits", waits, rows.chosen_waits(edit)),
        ):
            if got != wanted:
                more = [*({*got} - {*wanted})][:3]
                less = [*({*wanted} - {*got})][:3]
                wrong.append(f"{what} {used_of(edit)} more {more} less {less}")
    return wrong


def used_of(edit: Edit) -> str:
    """The selection of an edit, for messages."""
    fields = {field: getattr(edit, field) for field in used(edit)}
    return f"{edit.target}:{edit.type} {fields}"


def search(first: int, last: int, count: int = 60) -> int:
    """Compare random edits on odd traces; the number of wrong ones."""
    wrong = 0
    for seed in range(first, last):
        for change in odd_traces.CHANGES:
            joined = seed % 2 == 1
            with TemporaryDirectory() as folder, tracedb.open() as database:
                database.ingest(
                    odd_traces.write(Path(folder), seed, change, joined=joined)
                )
                rows = Rows(database)
                edits = drawn(rows, seeded(seed, change), count)
                # Steps of two processes overlap: no match has one ordinal.
                edits = [e for e in edits if not joined or e.instance is None]
                for line in differences(database, edits, rows):
                    wrong += 1
                    sys.stdout.write(f"{seed} {change}: {line}\n")
    return wrong


if __name__ == "__main__":
    sys.exit(search(*map(int, sys.argv[1:])) > 0)
