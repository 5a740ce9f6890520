"""Phases of steps: what recorded programs say of themselves, and plain loops.

Each program wraps its parts in ranges. Their names tell nothing to tracedb, but tell
the tests which phase each op belongs to.
"""

from __future__ import annotations

import time
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Any

import pytest
from support import rows

import tracedb

torch = pytest.importorskip("torch", reason="recording needs tracedb[record]")
torch.set_num_threads(1)  # other tests run beside these

SLEEP_S = 0.005
LONG_NS = 200_000
"""[ns] Shorter gaps before a phase belong to it."""
PARTS = {
    "part a": "forward",
    "part b": "backward",
    "part c": "optimizer",
    "part d": "data_loading",
    "part e": "other",
    "part f": "gradients",
    "part g": "inference",
}


def part(letter: str) -> Any:  # noqa: ANN401 (PyTorch is not typed)
    """A range that says which phase it is."""
    return torch.profiler.record_function(f"part {letter}")


def network() -> Any:  # noqa: ANN401
    """A few layers."""
    return torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)
    )


def layers() -> Any:  # noqa: ANN401
    """A few more layers."""
    grown = (torch.nn.Linear(size, size) for size in (4, 4, 4))
    return torch.nn.Sequential(network(), *grown, torch.nn.Linear(4, 16))


def learn(loss: Any, optimizer: Any) -> None:  # noqa: ANN401
    """A backward pass and an update."""
    with part("b"):
        loss.backward()
    with part("c"):
        optimizer.step()
        optimizer.zero_grad()


def training(net: Any, optimizer: Any) -> Callable[[], None]:  # noqa: ANN401
    """A step of forward, backward and update."""

    def step() -> None:
        x = torch.rand(8, 16)
        with part("a"):
            loss = net(x).square().mean()
        learn(loss, optimizer)

    return step


def plain() -> Callable[[], None]:
    """Gradients are filled with zeros first, and averaged weights kept at the end."""
    net = network()
    sgd = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    mean = [weight.detach().clone() for weight in net.parameters()]
    net(torch.rand(2, 16)).sum().backward()

    def step() -> None:
        with part("c"):
            sgd.zero_grad(set_to_none=False)
        with part("a"):
            loss = net(torch.rand(8, 16)).square().mean()
        with part("b"):
            loss.backward()
        with part("f"):
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        with part("c"):
            sgd.step()
        with part("e"), torch.no_grad():
            for kept, weight in zip(mean, net.parameters(), strict=True):
                kept.lerp_(weight, 0.1)

    return step


def accumulation() -> Callable[[], None]:
    """Two passes before an update, in bfloat16."""
    net = network()
    adam = torch.optim.Adam(net.parameters(), foreach=True)

    def step() -> None:
        for _ in range(2):
            with part("a"), torch.autocast("cpu", torch.bfloat16):
                loss = net(torch.rand(8, 16)).square().mean() / 2
            learn(loss, adam)

    return step


def adversaries() -> Callable[[], None]:
    """Two networks with optimizers of their own; gradients of the first are clipped."""
    maker, judge = network(), torch.nn.Linear(4, 1)
    first = torch.optim.RMSprop(judge.parameters())
    second = torch.optim.Adam(maker.parameters())

    def step() -> None:
        with part("a"):
            made = maker(torch.rand(8, 16)).detach()
            loss = judge(made).mean() - judge(torch.rand(8, 4)).mean()
        with part("b"):
            loss.backward()
        with part("f"):
            torch.nn.utils.clip_grad_value_(judge.parameters(), 0.5)
        with part("c"):
            first.step()
            first.zero_grad()
        with part("a"):
            loss = -judge(maker(torch.rand(8, 16))).mean()
        learn(loss, second)

    return step


def closure() -> Callable[[], None]:
    """The optimizer calls what computes the loss and its gradients, as in Lightning."""
    net = network()
    adam = torch.optim.AdamW(net.parameters())

    def loss_of() -> object:
        with part("a"):
            loss = net(torch.rand(8, 16)).square().mean()
        with part("c"):
            adam.zero_grad()
        with part("b"):
            loss.backward()
        return loss

    def step() -> None:
        with part("a"):
            torch.rand(3).double()
        with part("c"):
            adam.step(loss_of)

    return step


def several_closures() -> Callable[[], None]:
    """The optimizer calls its closure again and again, and computes in between."""
    net = network()
    lbfgs = torch.optim.LBFGS(net.parameters(), max_iter=4)
    x, y = torch.rand(8, 16), torch.rand(8, 4)

    def loss_of() -> object:
        lbfgs.zero_grad()
        with part("a"):
            loss = (net(x) - y).square().mean()
        with part("b"):
            loss.backward()
        return loss

    def step() -> None:
        with part("c"):
            lbfgs.step(loss_of)

    return step


def checkpoints() -> Callable[[], None]:
    """Activations are computed again; `autograd.grad` runs a pass of its own."""
    from torch.utils.checkpoint import checkpoint

    first, second = network(), torch.nn.Linear(4, 4)
    sgd = torch.optim.SGD([*first.parameters(), *second.parameters()], 0.1)

    def step() -> None:
        with part("a"):
            x = torch.rand(8, 16, requires_grad=True)
            hidden = checkpoint(first, x, use_reentrant=True)
            out = checkpoint(second, hidden, use_reentrant=False).sum()
            score = second(first(x)).sum()
        with part("b"):
            (slope,) = torch.autograd.grad(score, x, create_graph=True)
        with part("a"):
            loss = out + slope.square().sum()
        learn(loss, sgd)

    return step


def within_backward() -> Callable[[], None]:
    """Each weight is updated as soon as its gradient is there."""
    net = network()
    updates = {weight: torch.optim.SGD([weight], 0.1) for weight in net.parameters()}

    def update(weight: object) -> None:
        with part("c"):
            updates[weight].step()
            updates[weight].zero_grad()

    for weight in net.parameters():
        weight.register_post_accumulate_grad_hook(update)

    def step() -> None:
        with part("a"):
            loss = net(torch.rand(8, 16)).square().mean()
        with part("b"):
            loss.backward()

    return step


def loader() -> Callable[[], None]:
    """Batches are made by ops that autograd records; every other step evaluates."""
    made = [torch.rand(16) for _ in range(400)]
    batches = iter(torch.utils.data.DataLoader(made, 8, collate_fn=torch.stack))
    net = network()
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    turns = iter(range(100))

    def step() -> None:
        with part("d"):
            batch = next(batches)
        if next(turns) % 2:
            with part("g"), torch.no_grad():
                net(batch).argmax(1)
            return
        with part("a"):
            loss = torch.nn.functional.cross_entropy(net(batch), torch.ones(8).long())
        learn(loss, sgd)

    return step


def fetched() -> Callable[[], None]:
    """A step saves weights before it fetches a batch; every other has one already."""
    made = [torch.rand(16) for _ in range(400)]
    batches = iter(torch.utils.data.DataLoader(made, 8))
    net = network()
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    turns = iter(range(100))
    kept: list[Any] = []

    def fetch() -> None:
        with part("d"):
            kept.append(next(batches))

    def step() -> None:
        is_ahead = next(turns) % 2
        if not is_ahead:
            with part("e"):
                [weight.detach().clone() for weight in net.parameters()]
            fetch()
        with part("a"):
            loss = net(kept.pop().double().float()).square().mean()
        if not is_ahead:
            fetch()
        learn(loss, sgd)

    return step


def scaled() -> Callable[[], None]:
    """Gradients of a scaled loss are unscaled and clipped, after two passes."""
    net = network()
    adam = torch.optim.Adam(net.parameters())
    scaler = torch.amp.GradScaler("cpu")

    def step() -> None:
        for _ in range(2):
            with part("a"):
                loss = scaler.scale(net(torch.rand(8, 16)).square().mean())
            with part("b"):
                loss.backward()
        with part("f"):
            scaler.unscale_(adam)
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(adam)
        with part("e"):
            scaler.update()
        with part("c"):
            adam.zero_grad()

    return step


def rollouts() -> Callable[[], None]:
    """The network acts before it learns; what it does is recorded in between."""
    net = layers()
    adam = torch.optim.Adam(net.parameters())

    def step() -> None:
        seen = torch.rand(8, 16)
        with part("g"):
            for _ in range(3):
                with torch.no_grad():
                    acted = net(seen)
                seen = seen + acted.mean().clamp(0, 1)
            with torch.no_grad():
                net(seen).argmax(1)
        for _ in range(2):
            with part("a"):
                loss = net(seen).square().mean()
            learn(loss, adam)

    return step


def taught() -> Callable[[], None]:
    """A teacher runs without gradients; frozen layers are part of the network."""
    teacher, net = layers(), layers()
    net[0].requires_grad_(requires_grad=False)
    sgd = torch.optim.SGD(net.parameters(), 0.1)

    def step() -> None:
        x = torch.rand(8, 16)
        with part("g"), torch.no_grad():
            wanted = teacher(x)
        with part("a"):
            loss = (net(x) - wanted).square().mean()
        learn(loss, sgd)

    return step


def validated() -> Callable[[], None]:
    """The network is validated before it is trained, or afterwards."""
    net = layers()
    batches = torch.utils.data.DataLoader([torch.rand(16) for _ in range(16)], 8)
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    mean = [weight.detach().clone() for weight in net.parameters()]
    train = training(net, sgd)
    turns = iter(range(100))

    def validate() -> None:
        with torch.inference_mode():
            for batch in batches:
                with part("g"):
                    net(batch).argmax(1)

    def step() -> None:
        before = next(turns) % 2
        if before:
            validate()
        train()
        with part("e"), torch.no_grad():
            for kept, weight in zip(mean, net.parameters(), strict=True):
                kept.lerp_(weight, 0.1)
        if not before:
            validate()

    return step


def unrecorded() -> Callable[[], None]:
    """The host sleeps before a step's first op, in a module, and before the update."""
    net = torch.nn.Sequential(Sleeping(), network())
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    x = torch.rand(8, 16)

    def step() -> None:
        time.sleep(SLEEP_S)
        with part("a"):
            loss = net(x).square().mean()
        with part("b"):
            loss.backward()
        time.sleep(SLEEP_S)
        with part("c"):
            sgd.step()
            sgd.zero_grad()

    return step


class Sleeping(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A module that works on the host, and then runs an op."""

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        """Sleep for most of the time before the first op, then add."""
        time.sleep(2 * SLEEP_S)
        return x + 1


def compiled() -> Callable[[], None]:
    """The network is compiled, ahead of time but with PyTorch's own kernels."""
    net = network()
    fast = torch.compile(net, backend="aot_eager")
    sgd = torch.optim.SGD(net.parameters(), 0.1)

    return training(fast, sgd)


def compiled_whole() -> Callable[[], None]:
    """The whole step is compiled: it breaks its graph, and goes on in the region."""
    net = network()
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    train = torch.compiler.disable(training(net, sgd))

    @torch.compile(backend="aot_eager")  # type: ignore[untyped-decorator]
    def step(scale: Any) -> Any:  # noqa: ANN401
        scaled = scale * 2
        train()
        return scaled + 1

    return lambda: step(torch.ones(2))


def pipelined() -> Callable[[], None]:
    """Microbatches pass a stage of a pipeline, whose ranges PyTorch names."""
    net = network()
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    named = torch.profiler.record_function

    def step() -> None:
        losses = []
        for number in range(2):
            with named(f"PP:0F{number}"), part("a"):
                losses.append(net(torch.rand(8, 16)).square().mean())
        for number, loss in enumerate(losses):
            with named(f"PP:0B{number}"), part("b"):
                edges = [weight.view_as(weight).grad_fn for weight in net.parameters()]
                assert all(edges)
                loss.backward()
            with named(f"PP:0SEND_B{number}"), part("b"):
                net[0].weight.grad.clone()
        with named("PP:0REDUCE_GRAD"), part("b"):
            for weight in net.parameters():
                weight.grad.div_(2)
        with part("c"):
            sgd.step()
            sgd.zero_grad()

    return step


def distributed() -> Callable[[], None]:
    """Gradients are reduced while others are computed."""
    net = torch.nn.parallel.DistributedDataParallel(network())
    sgd = torch.optim.SGD(net.parameters(), 0.1)

    return training(net, sgd)


def sharded() -> Callable[[], None]:
    """Weights are gathered before a layer, and gradients scattered after it."""
    from torch.distributed.fsdp import fully_shard

    net = network()
    for layer in (*net, net):
        fully_shard(layer)
    adam = torch.optim.Adam(net.parameters())

    return training(net, adam)


PROGRAMS = (
    *(plain, accumulation, adversaries, closure, several_closures, checkpoints),
    *(within_backward, loader, compiled, compiled_whole, pipelined),
    *(distributed, sharded),
    *(fetched, scaled, rollouts, taught, validated, unrecorded),
)
WITHOUT_STEPS = "distributed_without_steps"


@pytest.fixture(scope="module", params=[False, True], ids=["", "stacks"])
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tracedb.Database]:
    """All programs, each as a run of its own; with Python stacks, or without."""
    folder = tmp_path_factory.mktemp("phases")
    store = torch.distributed.FileStore(str(folder / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    with tracedb.open() as database:
        for program in PROGRAMS:
            path = folder / f"{program.__name__}.json"
            with torch.profiler.profile(
                schedule=torch.profiler.schedule(wait=0, warmup=1, active=9),
                with_stack=request.param,
            ) as profiler:
                step = program()
                for _ in range(9):
                    step()
                    profiler.step()
            profiler.export_chrome_trace(str(path))
        step = distributed()
        with torch.profiler.profile() as profiler:
            step()
            step()
        profiler.export_chrome_trace(str(folder / f"{WITHOUT_STEPS}.json"))
        torch.distributed.destroy_process_group()
        database.ingest(sorted(folder.glob("*.json")))
        yield database


@pytest.mark.parametrize("program", [*(p.__name__ for p in PROGRAMS), WITHOUT_STEPS])
def test_ops_belong_to_the_phases_of_their_programs(
    program: str, recorded: tracedb.Database
) -> None:
    """Every top-level op has the phase of the innermost range around it."""
    told = phases_of_ops(recorded, program)
    wrong = Counter(
        (name, expected, phase)
        for name, expected, phase in told
        if expected not in (None, phase)
    )
    assert not wrong
    assert len({expected for _, expected, _ in told} - {None}) >= 2


def phases_of_ops(
    database: tracedb.Database, program: str
) -> list[tuple[str, str | None, str]]:
    """Each top-level op: its name, the phase of its program's part, the one found."""
    ranges = _by(database, "staging.annotation", "thread_id")
    query = f"""
        SELECT op.name, phase.thread_id, event_ns, phase
        FROM graph.phase AS phase
        INNER JOIN staging.op AS op ON node_id = op_id
        INNER JOIN staging.trace AS trace ON phase.trace_id = trace.trace_id
        WHERE path LIKE '%/{program}.json'
    """
    return [
        (name, _part_at(ranges[thread], at), phase)
        for name, thread, at, phase in rows(database, query)
    ]


def _part_at(ranges: list[dict[str, Any]], at: int) -> str | None:
    around = [
        row
        for row in ranges
        if row["name"] in PARTS and row["start_ns"] <= at < row["end_ns"]
    ]
    inner = max(around, key=lambda row: row["start_ns"], default=None)
    return PARTS[inner["name"]] if inner else None


def test_steps_are_on_the_main_thread(recorded: tracedb.Database) -> None:
    """Whether they are marked or not, and whatever threads of process groups do."""
    query = """
        SELECT DISTINCT role
        FROM staging.annotation AS range INNER JOIN staging.thread USING (thread_id)
        WHERE range.name LIKE 'part %'
    """
    assert rows(recorded, query) == [("main",)]


def check_sums(database: tracedb.Database) -> None:
    """Phases by step equal a plain loop; shares add up to 1."""
    found = database.sql("FROM question.phase_by_step").rows(named=True)
    host = {
        (row["trace_id"], row["step_id"], row["phase"]): row["host_ns"] for row in found
    }
    told = Counter({key: ns for key, ns in host.items() if ns})
    assert told == _host_times(database)
    for share in ("host_share", "path_share"):
        shares: Counter[tuple[int, int | None]] = Counter()
        for row in found:
            if row[share] is not None:
                shares[row["trace_id"], row["step_id"]] += row[share]
        assert shares == pytest.approx(dict.fromkeys(shares, 1))
    check_paths(database)


def check_paths(database: tracedb.Database) -> None:
    """Times on the path and on the GPU add up to those of the steps."""
    for query in (
        """
        SELECT step_id, sum(path_ns) FROM question.phase_by_step
        WHERE step_id > 0 GROUP BY step_id
        EXCEPT ALL
        SELECT step_id, end_ns - start_ns FROM critical_path.path WHERE scope = 'period'
        """,
        """
        SELECT step_id, sum(gpu_ns) AS gpu_ns FROM question.phase_by_step
        WHERE step_id > 0 GROUP BY step_id HAVING gpu_ns > 0
        EXCEPT ALL
        SELECT step_id, sum(end_ns - start_ns)
        FROM staging.step_work INNER JOIN staging.gpu_op USING (gpu_op_id)
        WHERE call_id > 0 GROUP BY step_id
        """,
    ):
        assert not rows(database, query)


def _host_times(database: tracedb.Database) -> Counter[tuple[int, int | None, str]]:
    """[ns] The time of each step by phase, from event to event."""
    events = _by(database, "graph.phase ORDER BY event_ns", "thread_id")
    passes = _by(
        database,
        "graph.backward_range WHERE NOT is_named ORDER BY start_ns",
        "trace_id",
    )
    united = {trace: _united(each) for trace, each in passes.items()}
    loads = _by(database, "staging.data_loading ORDER BY start_ns", "thread_id")
    loading = defaultdict(
        list, {thread: _united(each) for thread, each in loads.items()}
    )
    with_ops = {trace for (trace,) in rows(database, "SELECT trace_id FROM staging.op")}
    steps = database.sql("FROM staging.step").rows(named=True)
    found: Counter[tuple[int, int | None, str]] = Counter()
    for step in [*steps, *_whole(database, events)]:
        if step["trace_id"] not in with_ops:
            continue
        first, last = step["start_ns"], step["end_ns"]
        mine = _near(events[step["thread_id"]], first, last)
        around = united.get(step["trace_id"], [])
        times = [at for each in mine for at in (each["event_ns"], each["end_ns"])]
        cuts = {first, last, *times, *(at for pair in around for at in pair)}
        ends = [event["end_ns"] for event in mine]
        fetched = loading[step["thread_id"]]
        cuts |= {at for pair in fetched for at in pair}
        for start, end in pairwise(sorted(at for at in cuts if first <= at <= last)):
            place = bisect(ends, start)
            event = mine[place] if place < len(mine) else None
            phase = _phase(event, start, last, (around, fetched))
            found[step["trace_id"], step["step_id"], phase] += end - start
    return found


def _near(events: list[dict[str, Any]], first: int, last: int) -> list[dict[str, Any]]:
    """Those that end later, up to the first that starts later."""
    begin = bisect(events, first, key=itemgetter("end_ns"))
    end = bisect(events, last, key=itemgetter("event_ns"))
    return events[begin : end + 1]


def _phase(
    event: dict[str, Any] | None,
    at: int,
    end: int,
    ranges: tuple[list[tuple[int, int]], list[tuple[int, int]]],
) -> str:
    passes, loads = ranges
    if event is not None and event["event_ns"] <= at:
        return str(event["phase"])
    if _is_within(at, loads):
        return "data_loading"
    if _is_within(at, passes):
        return "backward"
    later = [start for start, _ in loads if start > at]
    until = min([end, *later])
    following = min((start for start, _ in passes if start > at), default=until)
    if following < (min(until, event["event_ns"]) if event else until):
        return "backward" if following - at < LONG_NS else "other"
    if event is None or event["event_ns"] >= until or at < _claim(event, at, passes):
        return "other"
    return str(event["phase"])


def _claim(event: dict[str, Any], at: int, passes: list[tuple[int, int]]) -> int:
    """[ns] From when on the time before an event belongs to it: a gap is one."""
    ended = max((end for start, end in passes if start <= at), default=at)
    is_short = event["event_ns"] - ended < LONG_NS
    return min(event["start_ns"], ended) if is_short else int(event["start_ns"])


def _is_within(at: int, ranges: list[tuple[int, int]]) -> bool:
    before = bisect(ranges, (at, 1 << 62)) - 1
    return before >= 0 and at < ranges[before][1]


def _by(
    database: tracedb.Database, relation: str, key: str
) -> dict[int, list[dict[str, Any]]]:
    found = defaultdict(list)
    for row in database.sql(f"FROM {relation}").rows(named=True):
        found[row[key]].append(row)
    return found


def _united(ranges: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Ranges in order, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for row in ranges:
        start, end = row["start_ns"], row["end_ns"]
        if found and start <= found[-1][1]:
            start, end = found[-1][0], max(end, found.pop()[1])
        found.append((start, end))
    return found


def _whole(
    database: tracedb.Database, events: dict[int, list[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """The main threads of traces without steps, as if each were a step."""
    query = """
        FROM staging.thread
        WHERE role = 'main' AND trace_id NOT IN (SELECT trace_id FROM staging.step)
    """
    for thread in database.sql(query).rows(named=True):
        if mine := events[thread["thread_id"]]:
            yield thread | {
                "step_id": None,
                "start_ns": min(event["event_ns"] for event in mine),
                "end_ns": max(event["end_ns"] for event in mine),
            }


def check_gaps(database: tracedb.Database) -> None:
    """What precedes each event and belongs to its phase equals a plain loop."""
    told = dict(rows(database, "SELECT node_id, start_ns FROM graph.phase"))
    events = _by(database, "graph.event_phase ORDER BY start_ns, node_id", "thread_id")
    codes = defaultdict(list)
    for query in ("staging.module_call", "staging.annotation"):
        for row in database.sql(f"FROM {query}").rows(named=True):
            if "path" in row or row["name"].startswith("Optimizer."):
                codes[row["thread_id"]].append((row["start_ns"], row["end_ns"]))
    for thread, mine in events.items():
        for before, event in pairwise([None, *mine]):
            assert event is not None
            expected = _claimed(before, event, codes[thread])
            assert told[event["node_id"]] == expected, event


def _claimed(
    before: dict[str, Any] | None, event: dict[str, Any], codes: list[tuple[int, int]]
) -> int:
    """[ns] From when on an event's phase lasts."""
    start: int = event["start_ns"]
    if event["previous_end_ns"] is None:
        return start
    begin: int = event["previous_end_ns"]
    is_same = before is None or before["phase"] == event["phase"]
    if is_same or start - begin < LONG_NS:
        return begin
    half = begin + (start - begin) // 2
    is_own = any(begin <= first <= half and last > start for first, last in codes)
    return begin if is_own else start


def test_gaps_before_phases(recorded: tracedb.Database) -> None:
    """Long gaps between two phases belong to neither, except in a module's call."""
    check_gaps(recorded)


@pytest.mark.parametrize("traces", ["generated", "behind", "corpus"])
def test_gaps_before_phases_of_traces(
    traces: str, request: pytest.FixtureRequest
) -> None:
    """Where autograd has a thread of its own, and in real traces."""
    check_gaps(request.getfixturevalue(traces))


def test_what_was_not_recorded_is_in_no_phase(recorded: tracedb.Database) -> None:
    """Sleeps between phases are in `other`, but mostly in a module, as stacks show.

    In quick steps: on a busy machine, others sleep longer than they asked for.
    """
    query = """
        SELECT phase, quantile_disc(host_ns, 0.25) / 1e9
        FROM question.phase_by_step INNER JOIN staging.trace USING (trace_id)
        WHERE path LIKE '%/unrecorded.json'
        GROUP BY phase
    """
    found = dict(rows(recorded, query))
    has_stacks = bool(rows(recorded, "FROM staging.module_call LIMIT 1"))
    in_forward = 3 * has_stacks
    for phase, sleeps in {
        "forward": in_forward, "backward": 0, "optimizer": 0, "other": 4 - in_forward
    }.items():  # fmt: skip
        assert 0 < found[phase] - sleeps * SLEEP_S < SLEEP_S, phase


def test_phases_of_programs_add_up(recorded: tracedb.Database) -> None:
    """With backward passes and optimizers in any order."""
    check_sums(recorded)


@pytest.mark.parametrize("traces", ["generated", "behind", "corpus"])
def test_phases_add_up(traces: str, request: pytest.FixtureRequest) -> None:
    """Also where autograd has a thread of its own, and in real traces."""
    check_sums(request.getfixturevalue(traces))
