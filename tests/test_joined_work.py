"""GPU work that edits fuse or capture as a graph, compared with programs that do so.

The simulation decides which work is joined. Programs with that work joined are then
executed, and have to agree to the nanosecond. The same holds if the scenario also edits
or removes some of the work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import floor
from pathlib import Path
from typing import Any

import composed
import pytest
from executed import (
    Case,
    Predicted,
    assert_foretold,
    nested,
    one_thread,
    predict,
    warm_up,
)
from support import rows
from test_waits import Recording

import tracedb
from tracedb import Edit
from tracedb.errors import ScenarioError
from tracedb.synthetic import (
    Annotation,
    Await,
    Collective,
    Copy,
    Delays,
    DeviceSync,
    EventRecord,
    EventSync,
    Gap,
    GraphLaunch,
    Launch,
    Memset,
    Notify,
    Op,
    Program,
    Rank,
    StreamSync,
    StreamWait,
    Thread,
    Unseen,
    change,
    execute,
    step,
)
from tracedb.synthetic.program import DATA_PREFIX, STEP_PREFIX, Action

KERNELS = {"target": "gpu", "type": "kernel"}
ALL = {"target": "gpu", "action": "fuse"}
GRAPH = {"target": "gpu", "action": "graph"}
FAST = GRAPH | {"host_ns": 3_000, "gap_ns": 0}
LINEAR = r"^aten::(linear|matmul)$"
IN_LINEAR = composed.Where({}, lambda _, place: place.is_in(Op, LINEAR))
NO_LINEAR = {"target": "op", "name": f"/{LINEAR}/", "action": "remove", "gaps": "all"}
NO_MEMSETS = {"target": "gpu", "type": "memset", "action": "remove"}
NO_WAITS = {"target": "wait", "type": "host"}
OTHERS = ("memcpy", "memset")
no_memsets = change.without_work(Memset)
no_linear = change.without_ops(LINEAR)


def longer(ns: int) -> int:
    """Three times a time, plus a constant."""
    return 3 * ns + 2_000


SCENARIOS: dict[str, tuple[change.Change, list[dict[str, Any]]]] = {
    "fused": (change.nothing, [KERNELS | {"action": "fuse"}]),
    "fused into 10 us": (
        change.nothing,
        [KERNELS | {"action": "fuse", "gpu_ns": 10_000}],
    ),
    "fused, some x 3": (
        composed.of_work("kernel", IN_LINEAR, lambda ns: 3 * ns),
        [KERNELS | {"op": f"/{LINEAR}/", "factor": 3}, ALL],
    ),
    "fused, x 2, 10 us more each": (
        change.kernels(2, 10_000),
        [ALL, KERNELS | {"factor": 2, "add_ns": 10_000}],
    ),
    "fused, of 4 us each": (
        change.kernels(0, 4_000),
        [ALL, KERNELS | {"action": "set", "set_ns": 4_000}],
    ),
    "fused, no memsets": (no_memsets, [ALL, NO_MEMSETS]),
    "fused, no linear": (no_linear, [NO_LINEAR, ALL]),
    "fused, no host waits": (change.no_host_waits, [NO_WAITS, ALL]),
    "fused, no stream waits": (
        change.no_stream_waits,
        [ALL, {"target": "wait", "type": "stream"}],
    ),
    "fused into 10 us, x 3, 2 us more": (
        change.nothing,
        [ALL | {"gpu_ns": 10_000}, {"target": "gpu", "factor": 3, "add_ns": 2_000}],
    ),
    "a graph": (change.nothing, [GRAPH]),
    "a fast graph": (change.nothing, [FAST]),
    "a graph, no linear": (no_linear, [GRAPH, NO_LINEAR]),
    "a fast graph, no memsets": (no_memsets, [NO_MEMSETS, FAST]),
    "a graph, no host waits": (change.no_host_waits, [GRAPH, NO_WAITS]),
    "a graph as slow as a launch, no memsets": (
        no_memsets,
        [NO_MEMSETS, GRAPH | {"host_ns": Delays().launch_call_ns, "gap_ns": 0}],
    ),
}
"""Changes of the program before work is joined, and all edits."""
GRAPHS = {
    "a graph": (10_000, 1_000),
    "a fast graph": (3_000, 0),
    "a graph as slow as a launch": (Delays().launch_call_ns, 0),
}
"""Launch time, and the gap between kernels."""
BEHIND: dict[str, change.Change] = {
    "fused into 10 us, x 3, 2 us more": change.all_of(
        change.kernels(3, 2_000),
        *(composed.of_work(kind, composed.EVERYWHERE, longer) for kind in OTHERS),
    ),
}
"""Changes of work that is already joined."""
ALONE = ("fused", "fused into 10 us", "a graph", "a fast graph")
"""Used in all programs; combined with other edits in a few."""
FEW = 4
JOINED = """
    SELECT path, scenario, work.correlation, first.correlation AS first, given_ns,
        saved_ns / nullif(work.end_ns - work.start_ns, 0)
    FROM (
        SELECT scenario, gpu_op_id, first_gpu_op_id, given_ns, saved_ns
        FROM prediction.fused_work
        INNER JOIN prediction.fused_time USING (scenario, edit, gpu_op_id)
        UNION ALL
        SELECT scenario, gpu_op_id, first_gpu_op_id, NULL, NULL
        FROM prediction.captured_work
    ) AS joined
    INNER JOIN staging.gpu_op AS work ON joined.gpu_op_id = work.gpu_op_id
    INNER JOIN staging.gpu_op AS first ON first_gpu_op_id = first.gpu_op_id
    INNER JOIN staging.trace ON work.trace_id = staging.trace.trace_id
    ORDER BY ALL
"""


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Programs of a thread and 1 to 4 streams; half of them record synchronization."""
    return [
        make(seed, recorded=recorded)
        for make, count in ((one_thread, 11), (nested, 4))
        for seed in range(count)
        for recorded in (True, False)
    ]


@pytest.fixture(scope="module")
def predicted(cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> Predicted:
    """Predictions for all of them."""
    edits = {name: SCENARIOS[name][1] for name in ALONE}
    return predict(tmp_path_factory.mktemp("programs"), cases, edits, JOINED)


@pytest.fixture(scope="module")
def edited(cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> Predicted:
    """Predictions for a few of them, with other edits."""
    edits = {name: of for name, (_, of) in SCENARIOS.items() if name not in ALONE}
    folder = tmp_path_factory.mktemp("few")
    return predict(folder, cases[2 : 2 + FEW], edits, JOINED)


def joined(one: Case, scenario: str, predicted: Predicted) -> change.Change:
    """The change of a program that joins the same work.

    Work is identified by its launch, and by what remains launched.
    """
    names = predicted.works[one.name, 0]
    groups: dict[int, list[int]] = defaultdict(list)
    shares, given = {}, None
    for of, correlation, first, given_ns, share in predicted.answers[one.name, 0]:
        if of == scenario:
            number = names[correlation][2]
            groups[names[first][2]].append(number)
            shares[number], given = share or 0, given_ns
    assert groups, "nothing goes together"
    times = predicted.times[one.name, 0, scenario]
    kept = {int(number) for what, _, number in times if what == "work"}
    left = sorted(kept.union(*groups.values()))
    found = sorted(sorted(map(left.index, group)) for group in groups.values())
    before, edits = SCENARIOS[scenario]
    (joining,) = (of for of in edits if of.get("action") in {"fuse", "graph"})
    waits = NO_WAITS not in edits
    edited, _ = before(one.known, one.delays)
    if one.form.sync_events:
        blocking = [
            isinstance(work, Copy) and work.blocking
            for work in works_in(edited if waits else one.known)
        ]
        told = Together(
            blocking,
            of_graph=joining["action"] == "graph",
            of_memsets="type" not in joining,
            waits=waits,
        )
        assert found == told.groups(edited)

    def change_program(program: Program, delays: Delays) -> tuple[Program, Delays]:
        parts = [
            half_up(work.kernel_ns * (1 - shares.get(number, 0)))
            for number, work in zip(left, works_in(program), strict=True)
        ]
        lasting = {
            group[0]: given or sum(parts[number] for number in group) for group in found
        }
        return change.fuse({0: found}, lambda _, number: lasting[number])(
            program, delays
        )

    graph = scenario.partition(",")[0]
    if graph in GRAPHS:
        return change.capture({0: found}, *GRAPHS[graph])
    return change_program


@dataclass
class Together:
    """Which of a thread's launches are joined, by a plain loop."""

    blocking: list[bool]
    """Whether each launch's call waits for it as recorded."""
    of_graph: bool
    """A graph may span streams; fusion needs consecutive work on one stream."""
    of_memsets: bool
    waits: bool
    """Whether the thread waits; if not, calls without a wait separate nothing."""
    number: int = 0
    parted: int = 0
    """How often the thread has waited, or begun a step."""
    lasts: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    """The latest group by stream, and the count when it was started."""
    streams: set[int] = field(default_factory=set)
    """Streams with work."""
    marks: dict[str, set[int]] = field(default_factory=dict)
    """The streams of the work that events mark."""
    held: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The streams that a stream's next work waits for."""
    found: list[list[int]] = field(default_factory=list)

    def groups(self, program: Program) -> list[list[int]]:
        """Groups of joined launches, each by its ordinal on the only thread."""
        ((thread,),) = (rank.threads for rank in program.ranks)
        self._walk(thread.body)
        return [group for group in self.found if len(group) > 1]

    def _walk(self, body: tuple[Action, ...]) -> None:
        for done in body:
            action = done.call if isinstance(done, Unseen) else done
            if isinstance(action, Op | Annotation):
                self.parted += action.name.startswith((STEP_PREFIX, DATA_PREFIX))
                self._walk(action.body)
            elif isinstance(action, Launch | Copy | Memset):
                self._launch(action)
            elif isinstance(action, StreamSync | DeviceSync | EventSync):
                self.parted += self.waits
            elif isinstance(action, EventRecord):
                on_it = self.streams & {action.stream}
                self.marks[action.event] = on_it | self.held[action.stream]
            elif isinstance(action, StreamWait):
                other = self.marks.get(action.event, set()) - {action.stream}
                self.held[action.stream] |= other

    def _launch(self, action: Launch | Copy | Memset) -> None:
        blocks = self.blocking[self.number]
        goes = not blocks if self.of_graph else not isinstance(action, Copy)
        if isinstance(action, Memset) and not self.of_memsets and not self.of_graph:
            goes = False
        lane = -1 if self.of_graph else action.stream
        parted, last = self.lasts.pop(lane, (-1, []))
        waits = self.held.pop(action.stream, set()) and not self.of_graph
        if goes and (parted != self.parted or waits):
            last = []
            self.found.append(last)
        if goes:
            last.append(self.number)
            self.lasts[lane] = self.parted, last
        self.parted += blocks and self.waits
        self.streams.add(action.stream)
        self.number += 1


def works_in(program: Program) -> Iterator[Launch | Copy | Memset]:
    """What the only thread launches, in order."""

    def walk(body: tuple[Action, ...]) -> Iterator[Launch | Copy | Memset]:
        for action in body:
            if isinstance(action, Op | Annotation):
                yield from walk(action.body)
            elif isinstance(action, Launch | Copy | Memset):
                yield action

    ((thread,),) = (rank.threads for rank in program.ranks)
    return walk(thread.body)


def half_up(ns: float) -> int:
    """The nearest integer, rounded like SQL."""
    return floor(ns + 1 / 2)


@pytest.mark.parametrize("scenario", ALONE)
def test_joined_work_equals_a_program_that_joins_it(
    scenario: str, cases: list[Case], predicted: Predicted
) -> None:
    """All GPU ops, steps and periods agree to the nanosecond."""
    for one in cases:
        changed = joined(one, scenario, predicted)(one.known, one.delays)
        assert_foretold(one, scenario, predicted, *changed)


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name not in ALONE])
def test_other_edits_apply_before_joining(
    scenario: str, cases: list[Case], edited: Predicted
) -> None:
    """Each part has its edited time; removed work separates nothing."""
    before, _ = SCENARIOS[scenario]
    for one in cases[2 : 2 + FEW]:
        together = joined(one, scenario, edited)
        behind = BEHIND.get(scenario, change.nothing)
        changed = change.all_of(before, together, behind)(one.known, one.delays)
        assert_foretold(one, scenario, edited, *changed)


FLOATS = "float"
SIDE = 1024
BYTES = 4 * SIDE * SIDE
"""[B] A tensor of the ops below."""


WAITING = step(
    2,
    Op("aten::sin", (Launch(20, 300_000), EventRecord("sine", 20))),
    Op("aten::add", (Launch(7, 5_000),)),
    StreamWait(7, "sine"),
    Memset(7, 1_000),
    Op("aten::sub", (Launch(7, 5_000),)),
)
"""Two ops, and between them a memset that waits for another stream."""
PAIR = Op("aten::pair", (Launch(30, 2_000), Launch(30, 2_100)))
MIXED = step(
    3,
    Op("aten::three", (Launch(30, 2_000), Collective(30, 2_000), Launch(30, 2_000))),
    GraphLaunch((Launch(30, 2_000), Launch(30, 2_000)), 5_000, 600),
    PAIR,
    Notify("go"),
    Gap(60_000),
)
"""Of all on the stream, only the pair is launched by single calls in a row."""
BESIDE = Thread("beside", (Await("go", "fork"), Op("aten::one", (Launch(30, 2_000),))))
"""Another thread, which goes on with the stream."""
UNARY = ("aten::exp", "aten::tan", "aten::cos")


@pytest.fixture(scope="module")
def shaped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracedb.Database]:
    """Two ops of known bytes with a memset between them, and a recorded graph."""
    dims = ((SIDE, SIDE), (SIDE, SIDE))
    ops = (
        Op("aten::relu", (Launch(7, 30_000),), dims[:1], (FLOATS,)),
        Memset(7, 1_000),
        Op("aten::mul", (Launch(7, 50_000),), dims, (FLOATS, FLOATS)),
    )
    graph = GraphLaunch(tuple(Launch(7, 2_000) for _ in range(4)), 5_000, 600)
    body = (*warm_up((7,)), *ops, StreamSync(7), graph, StreamSync(7))
    unary = ((name, (Launch(7, 30_000),), dims[:1], (FLOATS,)) for name in UNARY)
    chain = step(4, *(Op(*one) for one in unary))
    main = Thread("main", (step(1, *body), WAITING, MIXED, chain))
    program = Program((Rank((main, BESIDE)),))
    path = execute(program, Delays())[0].write(
        tmp_path_factory.mktemp("shaped") / "trace.json"
    )
    with tracedb.open() as database:
        database.ingest([path])
        yield database


FUSED = """
    SELECT op.name, saved_bytes, saved_ns, fused_ns,
        floor(
            (work.end_ns - work.start_ns) * traffic_ns / roofline_ns
            * (saved_bytes / traffic_bytes)
        )::BIGINT
    FROM prediction.fused_time
    INNER JOIN staging.gpu_op AS work USING (gpu_op_id)
    INNER JOIN staging.op AS op ON work.op_id = op.op_id
    INNER JOIN prediction.kernel_roofline USING (gpu_op_id)
    ORDER BY work.start_ns
"""
FUSE = [
    Edit(scenario="fused", op="/relu|mul/", action="fuse", target="gpu"),
    Edit(scenario="fused", target="gpu", type="memset", step=1, action="remove"),
]
"""The memset between them is removed."""


def test_fusion_saves_intermediate_traffic(shaped: tracedb.Database) -> None:
    """Writing and reading one tensor is saved, as that share of the traffic's time."""
    with shaped.simulate(["replay"], FUSE) as beside:
        first, second = rows(beside, FUSED)
    assert first[:2] == ("aten::relu", BYTES)
    assert second[:2] == ("aten::mul", BYTES)
    assert all(abs(saved - told) <= 1 for _, _, saved, _, told in (first, second))
    assert 0 < first[2] < 30_000 / 2
    assert first[3] == 30_000 + 50_000 - first[2] - second[2]
    assert second[3] is None


def test_tensors_with_other_consumers_are_still_written(
    shaped: tracedb.Database,
) -> None:
    """Known data edges show it: one leads to the fused op, the other elsewhere."""
    ops = dict(rows(shaped, "SELECT name, op_id FROM staging.op"))
    first, second = ops["aten::relu"], ops["aten::mul"]
    for target in (second, ops["aten::warm_up"]):
        shaped.connection.execute(
            "INSERT INTO graph.data_edge VALUES (1, 1, ?, ?, 1)", [first, target]
        )
    with shaped.simulate(["replay"], FUSE) as beside:
        found = [row[1] for row in rows(beside, FUSED)]
    shaped.connection.execute("DELETE FROM graph.data_edge")
    assert found == [0, BYTES]


def test_data_passes_from_each_kernel_to_the_next(shaped: tracedb.Database) -> None:
    """Of three in a row, the middle one saves its read and its write."""
    fuse = Edit(scenario="fused", op="/exp|tan|cos/", action="fuse", target="gpu")
    with shaped.simulate(["replay"], [fuse]) as beside:
        found = [row[:2] for row in rows(beside, FUSED)]
    assert found == list(zip(UNARY, (BYTES, 2 * BYTES, BYTES), strict=True))


def test_only_single_launches_of_one_thread_are_fused(shaped: tracedb.Database) -> None:
    """Neither collectives, nor parts of graphs, nor work of another thread."""
    fuse = Edit(scenario="fused", stream=30, action="fuse", target="gpu")
    query = """
        SELECT end_ns - start_ns
        FROM prediction.fused_work INNER JOIN staging.gpu_op USING (gpu_op_id)
        ORDER BY ALL
    """
    with shaped.simulate(["replay"], [fuse]) as beside:
        assert rows(beside, query) == [(2_000,), (2_100,)]


def test_fused_work_on_another_gpu(shaped: tracedb.Database) -> None:
    """Each part takes its time there, minus the saved traffic in proportion."""
    there = Edit(scenario="there", target="gpu", action="set", to_gpu="A100")
    fuse = Edit(scenario="there", op="/exp|tan|cos/", action="fuse", target="gpu")
    alone = """
        SELECT time.gpu_op_id, predicted_ns
        FROM prediction.gpu_time AS time
        INNER JOIN prediction.variant USING (variant_id)
        WHERE scenario = 'there'
    """
    with shaped.simulate(["replay"], [there]) as beside:
        parts = dict(rows(beside, alone))
    query = """
        SELECT gpu_op_id, work_ns, saved_ns, fused_ns
        FROM prediction.fused_time
        INNER JOIN prediction.fused_work USING (scenario, edit, gpu_op_id)
        ORDER BY fused_ns NULLS LAST
    """
    with shaped.simulate(["replay"], [there, fuse]) as beside:
        found = rows(beside, query)
    expected = sum(
        round(parts[work] * (work_ns - saved_ns) / work_ns)
        for work, work_ns, saved_ns, _ in found
    )
    assert abs(found[0][3] - expected) <= len(found)
    recorded_ns = sum(work_ns - saved_ns for _, work_ns, saved_ns, _ in found)
    assert found[0][3] > 1.1 * recorded_ns


def test_work_of_a_graph_starts_as_its_first_would(
    tmp_path: Path, database: tracedb.Database
) -> None:
    """A graph that begins with a copy starts as late after its launch as copies do."""
    recording = Recording()
    copies = {"cat": "gpu_memcpy", "call": "cudaMemcpyAsync"}
    for number in range(30):
        at = 10_000 + 100 * number
        recording.work(9, at, begin=at + 11, duration=2, **copies)
    recording.add("user_annotation", "captured", 1, 20_000, 1_000)
    recording.work(9, 20_100, begin=20_111, duration=2, **copies)
    recording.work(8, 20_200, begin=20_206, duration=2)
    recording.ingest(tmp_path, database)
    graph = Edit(
        scenario="graph",
        target="gpu",
        annotation="captured",
        action="graph",
        host_ns=3_000,
        gap_ns=0,
    )
    query = """
        SELECT start_ns - 20_103_000
        FROM simulation.gpu_work_time
        INNER JOIN prediction.variant USING (variant_id)
        WHERE scenario = 'graph' AND start_ns > 20_000_000
    """
    with database.simulate(["replay"], [graph]) as beside:
        assert rows(beside, query) == [(7_000,), (7_000,)]


def test_waits_of_removed_work_are_inherited(shaped: tracedb.Database) -> None:
    """The next work is not fused with earlier work, unless the wait is removed too."""
    fuse = {"target": "gpu", "op": "/add|sub/", "action": "fuse"}
    edits = [
        Edit(scenario="fused", **edit) for edit in (fuse, NO_MEMSETS | {"step": 2})
    ]
    with (
        pytest.raises(ScenarioError, match="no two"),
        shaped.simulate(["replay"], edits),
    ):
        pass
    edits.append(Edit(scenario="fused", target="wait", type="stream", step=2))
    query = "SELECT count(*) FROM prediction.fused_work"
    with shaped.simulate(["replay"], edits) as beside:
        assert rows(beside, query) == [(2,)]


def test_graphs_take_the_times_of_recorded_ones(shaped: tracedb.Database) -> None:
    """Launch and gaps are learnt from recorded replays."""
    edits = [
        Edit(scenario="graph", target="op", name="/relu|mul/", action="graph"),
        Edit(scenario="graph", target="gpu", type="memset", step=1, action="remove"),
    ]
    with shaped.simulate(["replay"], edits) as beside:
        found = rows(
            beside, "SELECT DISTINCT host_ns, gap_ns FROM prediction.captured_work"
        )
    assert found == [(5_000, 600)]


def test_data_that_arrives_twice_is_read_once(shaped: tracedb.Database) -> None:
    """No kernel saves more than all of its traffic, however many edges lead to it."""
    ops = dict(rows(shaped, "SELECT name, op_id FROM staging.op"))
    first, second, last = (ops[name] for name in UNARY)
    for given, taken in (
        (first, second),
        (first, last),
        (second, last),
        (second, last),
    ):
        shaped.connection.execute(
            "INSERT INTO graph.data_edge VALUES (1, 1, ?, ?, 1)", [given, taken]
        )
    fuse = Edit(scenario="fused", op="/exp|tan|cos/", action="fuse", target="gpu")
    with shaped.simulate(["replay"], [fuse]) as beside:
        found = [row[1] for row in rows(beside, FUSED)]
    shaped.connection.execute("DELETE FROM graph.data_edge")
    assert found == [BYTES, 2 * BYTES, 2 * BYTES]


def alternating(threads: int) -> Program:
    """Launches on one stream, by one or two threads that never wait."""

    def op(name: str) -> Op:
        return Op(name, (Launch(7, 2_000),))

    body = (op("aten::one"), Gap(40_000), op("aten::three"), op("aten::four"))
    beside = (Gap(25_000), op("aten::two"))
    others = (Thread("beside", beside),) if threads > 1 else ()
    return Program((Rank((Thread("main", (step(1, *body),)), *others)),))


@pytest.mark.parametrize(("threads", "joined_ops"), [(1, 3), (2, 2)])
def test_work_of_another_thread_is_not_fused(
    threads: int, joined_ops: int, tmp_path: Path
) -> None:
    """Even if neither thread waits: only what the main thread launches in a row."""
    path = execute(alternating(threads), Delays())[0].write(tmp_path / "trace.json")
    fuse = Edit(scenario="fused", target="gpu", type="kernel", action="fuse")
    query = """
        SELECT op.name
        FROM prediction.fused_work
        INNER JOIN staging.gpu_op AS work USING (gpu_op_id)
        INNER JOIN staging.op AS op ON work.op_id = op.op_id
        ORDER BY work.start_ns
    """
    with tracedb.open() as database:
        database.ingest([path])
        with database.simulate(["replay"], [fuse]) as beside:
            found = [name for (name,) in rows(beside, query)]
    assert found == ["aten::one", "aten::three", "aten::four"][-joined_ops:]
