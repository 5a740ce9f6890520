"""Estimates of execution graphs match those of the code that was recorded."""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from code_and_graph import (
    attention,
    differences,
    of_function,
    recorded,
    shipped_table,
)
from support import CORPUS, ROOT
from torch import nn
from written_graphs import (
    COPY,
    THREAD,
    Graph,
    collective,
    node,
    product,
    tensor,
    values,
    written,
)

import tracedb
from tracedb.cli.main import tracedb as command
from tracedb.from_code.graph import GraphNode, Values, read
from tracedb.from_code.graph_memory import GraphMemory
from tracedb.from_code.graph_program import subject
from tracedb.from_code.graph_step import last_step
from tracedb.from_code.host_times import HostTimes
from tracedb.from_code.launches import LaunchTable, Work
from tracedb.from_code.program import launch
from tracedb.from_code.recordings import Source
from tracedb.from_code.subject import Subject

GPU = "NVIDIA A100-SXM4-80GB"


def trained(
    model: nn.Module,
    error: Callable[[], torch.Tensor],
    kind: Callable[..., torch.optim.Optimizer],
    **options: float | bool,
) -> Callable[[], None]:
    """A training step with an optimizer."""
    optimizer = kind(model.parameters(), **options)

    def step() -> None:
        optimizer.zero_grad()
        torch.autograd.backward(error())
        optimizer.step()

    return step


def perceptron() -> Callable[[], None]:
    """Linear layers, a layer norm and dropout; Adam (`foreach`)."""
    model = nn.Sequential(
        nn.Linear(64, 256),
        nn.LayerNorm(256),
        nn.Dropout(),
        nn.ReLU(),
        nn.Linear(256, 1),
    )
    return trained(
        model,
        lambda: model(torch.randn(32, 64)).square().mean(),
        torch.optim.Adam,
        foreach=True,
    )


def recommender() -> Callable[[], None]:
    """Embedding bags; Adagrad in a loop over parameters, as on CPUs."""
    tables = nn.ModuleList([nn.EmbeddingBag(n, 16, mode="sum") for n in (1000, 200)])
    top = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1))
    model = nn.ModuleList([tables, top])

    def error() -> torch.Tensor:
        rows = torch.zeros(32, 4, dtype=torch.long)
        found = torch.cat([table(rows) for table in tables], 1)
        return nn.functional.binary_cross_entropy_with_logits(
            top(found), torch.ones(32, 1)
        )

    return trained(model, error, torch.optim.Adagrad)


def images() -> Callable[[], None]:
    """Convolutions, a batch norm and pooling; SGD in a loop over parameters."""
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, bias=False), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(32, 10),
    )  # fmt: skip

    def error() -> torch.Tensor:
        classes = torch.zeros(4, dtype=torch.long)
        return nn.functional.cross_entropy(model(torch.randn(4, 3, 32, 32)), classes)

    return trained(model, error, torch.optim.SGD, momentum=0.9)


def words() -> Callable[[], None]:
    """Two transformer layers with dropout; AdamW in a loop over parameters."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
    body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    table, head = nn.Embedding(100, 32), nn.Linear(32, 100)

    def error() -> torch.Tensor:
        text = torch.zeros(4, 16, dtype=torch.long)
        found = head(body(table(text))).flatten(0, 1)
        return nn.functional.cross_entropy(found, text.flatten())

    return trained(nn.ModuleList([table, body, head]), error, torch.optim.AdamW)


MODELS = [perceptron, recommender, images, words]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the graphs."""
    return tmp_path_factory.mktemp("graphs")


@pytest.fixture(scope="module")
def graphs(folder: Path) -> dict[str, Path]:
    """Each model's graph, recorded on this CPU."""
    return {m.__name__: recorded(m, folder / f"{m.__name__}.json") for m in MODELS}


@pytest.fixture(scope="module")
def table() -> LaunchTable:
    """The shipped launch rules."""
    return shipped_table()


@pytest.fixture(scope="module")
def codes() -> dict[str, Subject]:
    """Each model's step, recorded from code."""
    return {m.__name__: Source(m(), (), GPU).at(None) for m in MODELS}


def of(path: Path) -> Subject:
    """The step of a graph."""
    return subject(read(path))


def launched(step: Subject, table: LaunchTable) -> list[tuple[Work, str, str]]:
    """The launched work, with the shapes and results of the launching ops."""
    found = []
    for launching in launch(step.root, table):
        op = launching.dispatched
        assert op is not None
        given = [shape for shape in op.tensors if shape.dims]
        # Ops over lists may or may not write to their arguments: not compared.
        made = [] if "_foreach" in op.name else op.results
        found += [(work, str(given), str(made)) for work in launching.work]
    return found


# What the code launches and a CPU's graph does not show: CUDA's attention copies
# gradients into another layout.
NOT_IN_GRAPH = {"words": {"copy": 8}}


@pytest.mark.parametrize("name", [model.__name__ for model in MODELS])
def test_a_graph_launches_what_its_code_does(
    name: str, graphs: dict[str, Path], codes: dict[str, Subject], table: LaunchTable
) -> None:
    """A CPU's graph gives the GPU's kernels, in order, with shapes and results.

    Memory is the same, except that `foreach` ops hold more than a loop.
    """
    found = of(graphs[name])
    ran, graph = launched(codes[name], table), launched(found, table)
    left_out = Counter(ran) - Counter(graph)
    counts = Counter(work.name for work, *_ in left_out.elements())
    assert counts == NOT_IN_GRAPH.get(name, {})
    # Each, in order, is one that the code launches.
    waiting = iter(ran)
    assert all(one in waiting for one in graph)
    assert found.source == "ProfilerStep#1, of 2 steps, recorded on a CPU"
    assert found.unsure == ()
    held, known = found.memory, codes[name].memory
    assert held.by_kind["parameter"] == known.by_kind["parameter"]
    if name != "recommender":
        assert held.peak_bytes == pytest.approx(known.peak_bytes, rel=0.1)


OTHERWISE_ON_A_CPU = (
    "F.silu(w).sum()",
    "F.mish(w).sum()",
    "F.dropout(w * 2, inplace=True).sum()",
    "(F.one_hot(rows[:, 0], 16) * w).sum()",
    "(w * 2).mul_(w).exp_().sum()",
    "F.hinge_embedding_loss(w, ones)",
    "w[mask].sum()",
    "checkpoint(lambda x: x.exp().sin(), w, use_reentrant=False).sum()",
)
"""What a CPU computes by other ops, or records otherwise, than a GPU."""


def test_what_a_cpu_does_otherwise(table: LaunchTable) -> None:
    """Kernels of a CPU, copies for gradients, ops of which one raises."""
    several = of_function("+".join(OTHERWISE_ON_A_CPU))
    assert differences(several, table, "A100") == []


def optimizers() -> Callable[[], None]:
    """Optimizers of one parameter, with an output argument, fused and in a loop."""
    made = torch.optim
    kinds: list[Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = [
        lambda one: made.SGD(one[:1], lr=0.1),
        lambda given: made.Adam(given, amsgrad=True),
        lambda given: made.Adam(given, fused=True),
        made.Adagrad,
        made.Adafactor,
    ]
    weights = [nn.Parameter(torch.ones(4, 8)), nn.Parameter(torch.ones(8))]
    several = [kind(weights) for kind in kinds]

    def step() -> None:
        torch.autograd.backward((weights[0] * weights[1]).square().mean())
        for one in several:
            one.step()
            one.zero_grad(set_to_none=False)

    return step


def test_optimizers_of_gpus(table: LaunchTable) -> None:
    """What an optimizer does with each parameter, a GPU does over lists."""
    assert differences(optimizers, table, "A100") == []


def test_attention_takes_the_way_of_code(table: LaunchTable) -> None:
    """Random types, sizes, layouts, masks and groups, on GPUs of two generations.

    Where a CPU computes otherwise, gradients have another layout, so copies differ.
    """
    draw = random.Random(5)  # noqa: S311 (not for secrets)
    calls = [attention(draw) for _ in range(10)]

    def several() -> Callable[[], None]:
        steps = [make() for make in calls]

        def step() -> None:
            for one in steps:
                one()

        return step

    found = differences(several, table, "V100", "A100")
    assert [line for line in found if not re.search(r"\d copy ", line)] == []


def test_scalar_tensors_at_one_address_are_no_parameter(
    graphs: dict[str, Path], codes: dict[str, Subject], tmp_path: Path
) -> None:
    """Scalar tensors of different types may reuse one address."""
    graph = json.loads(graphs["images"].read_text())
    numbers = [
        node["inputs"]["values"][1]
        for node in graph["nodes"]
        if node["name"] in {"aten::add_", "aten::mul_"}
        and node["inputs"]["shapes"][1] == []
        and node["inputs"]["types"][1].startswith("Tensor")
    ]
    assert len(numbers) > 2
    for number in numbers:
        number[:2] = numbers[0][:2]
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(graph))
    held, known = of(path).memory, codes["images"].memory
    assert held.by_kind["parameter"] == known.by_kind["parameter"]


def floats(storage: int, elements: int) -> Values:
    """An argument or a result that begins where its storage does."""
    value = [storage, storage, 0, elements, 4, "cpu"]
    return Values(value, [elements], "Tensor(float)")


def dispatched(
    number: int, name: str, inputs: list[Values], outputs: list[Values]
) -> GraphNode:
    """An op of a graph."""
    schema = f"aten::{name}(Tensor self) -> Tensor"
    return GraphNode(
        number, None, f"aten::{name}", 1, -1, 0, schema,
        is_op=True, inputs=inputs, outputs=outputs, attributes={}, place=number,
    )  # fmt: skip


def test_what_a_replaced_op_makes_within_is_another_storage() -> None:
    """It reuses the address of one that was freed, and is read in the backward pass.

    The freed storage (400 B) is not there until then; an op that is not replaced and
    reads what was made within counts it from its making.
    """

    def peak_bytes(*, is_read: bool) -> int:
        memory = GraphMemory()
        for given in (
            dispatched(1, "mm", [floats(1, 50)], [floats(2, 100)]),
            dispatched(2, "sum", [floats(2, 100)], [floats(3, 1)]),
        ):
            memory.op(given, "forward", is_on_gpu=True, is_view=False)
        memory.within(dispatched(3, "mul", [floats(3, 1)], [floats(2, 25)]), "forward")
        last = dispatched(4, "mm", [floats(1, 50)], [floats(4, 200)])
        memory.op(last, "forward", is_on_gpu=True, is_view=False)
        view = dispatched(5, "view", [floats(2, 25)], [floats(2, 25)])
        if is_read:
            memory.op(view, "backward", is_on_gpu=True, is_view=True)
        else:
            memory.made(view, "backward", is_view=True)
        return memory.peak().peak_bytes

    unread, read = peak_bytes(is_read=False), peak_bytes(is_read=True)
    assert unread == peak_of(200, 800)
    assert read == peak_of(200, 800, 100)


def peak_of(*sizes: int) -> int:
    """Sizes [B] in the blocks of 512 that a GPU's allocator has."""
    return sum(-(-size // 512) * 512 for size in sizes)


def test_a_graph_takes_as_long_as_its_code(
    graphs: dict[str, Path], tmp_path: Path
) -> None:
    """GPU active time equals that of the code; the step time is within 10 %.

    The database has the optimizer's range, autograd's thread and two steps.
    """
    path = tmp_path / "graph.json.gz"
    path.write_bytes(gzip.compress(graphs["images"].read_bytes()))
    code = tracedb.estimate(images(), gpu="A100")
    graph = tracedb.estimate(path, gpu="A100")
    assert graph.gpu_active_ns == code.gpu_active_ns
    assert graph.step_ns == pytest.approx(code.step_ns, rel=0.1)
    with graph.database as asked:
        steps = asked.sql("SELECT count(*) FROM staging.step").item()
        ranges = asked.sql("SELECT name FROM staging.annotation").to_series()
        autograd = asked.sql(
            "SELECT count(DISTINCT thread_id) FROM staging.op "
            "WHERE name LIKE 'autograd::engine::%'"
        ).item()
        replayed = asked.predict("replay")["error_share"]
    assert (steps, autograd) == (2, 1)
    assert "Optimizer.step#SGD.step" in list(ranges)
    assert replayed.abs().max() < 0.01  # type: ignore[operator]


def numberless(text: str) -> list[str]:
    """The output without figures, which depend on the kernel models."""
    return re.sub(r"[\d,.]+ (?:%|[mukM]?[sB]\b|GB)", "#", text).splitlines()


def test_the_example_in_the_docs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's code records a graph, and the command prints what the page shows."""
    page = (ROOT / "docs" / "estimate.md").read_text()
    section = page.partition("## From an execution graph")[2]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    shown = re.search(r"```console\n\$ tracedb (.*?)\n(.*?)```", section, re.DOTALL)
    assert code is not None
    assert shown is not None
    monkeypatch.chdir(tmp_path)
    exec(code[1], {})  # noqa: S102 (the page's own example)
    result = CliRunner().invoke(command, shown[1].split(), catch_exceptions=False)
    # Which storages are scalars depends on addresses, so it is not compared.
    assert numberless(result.stdout)[:6] == numberless(shown[2])[:6]


def spoilt(graph: Graph, how: str) -> str:
    """A damaged graph."""
    nodes = graph["nodes"]
    if how == "unknown":
        graph["schema"] = "9.9"
    elif how == "circle":
        parents = {node["id"]: node for node in nodes}
        inner = next(n for n in nodes if n["name"] == "aten::addmm")
        parents[inner["ctrl_deps"]]["ctrl_deps"] = inner["id"]
    elif how == "deep":
        for before, after in pairwise(nodes[:300]):
            next(a for a in after["attrs"] if a["name"] == "tid")["value"] = 1
            after["ctrl_deps"] = before["id"]
        nodes[0]["ctrl_deps"] = nodes[0]["id"]
    elif how == "twice":
        nodes.append(nodes[5])
    elif how == "no id":
        del nodes[5]["id"]
    elif how == "lists":
        nodes[5]["inputs"]["types"] = ["Tensor(float)"]
    elif how == "no ops":
        for node in nodes:
            node["attrs"] = [a for a in node["attrs"] if a["name"] != "op_schema"]
    text = json.dumps(graph)
    return text[: len(text) // 2] if how == "cut" else text


SPOILT = {
    "unknown": "an execution graph of schema 9.9; known are 1.0.1 to 1.1.1",
    "circle": "is its own ancestor",
    "deep": "levels deep, which no PyTorch step is",
    "twice": "two nodes have the id",
    "no id": "node 6 of the file has no id",
    "lists": "its arguments are not lists of values, dimensions and types of equal",
    "no ops": "nodes is an op with a schema",
    "cut": "cut off: the file ends within its list of events",
}


def refused(path: Path, *options: str) -> str:
    """The error line for a graph that cannot be estimated."""
    result = CliRunner().invoke(
        command, ["estimate", str(path), "--gpu", "A100", *options]
    )
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize("how", SPOILT)
def test_a_damaged_graph_is_one_line(
    how: str, graphs: dict[str, Path], tmp_path: Path
) -> None:
    """Damaged, unknown or cyclic graphs give one line with the place, exit code 2."""
    path = tmp_path / "graph.json"
    path.write_text(spoilt(json.loads(graphs["perceptron"].read_text()), how))
    assert SPOILT[how] in refused(path)


def test_what_is_not_a_graph_is_refused(
    graphs: dict[str, Path], tmp_path: Path
) -> None:
    """A trace, a missing file, `--largest-batch` and `--sweep`: one line each."""
    path = tmp_path / "trace.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2}
    path.write_text(json.dumps({"traceEvents": [event | {"pid": 1, "tid": 1}]}))
    assert "a trace, not an execution graph" in refused(path)
    assert "no such file" in refused(tmp_path / "none.json")
    assert "for code alone" in refused(graphs["images"], "--largest-batch")
    assert "a sweep takes code" in refused(graphs["images"], "--sweep", "batch=1..4")


def test_compute_waits_for_a_collective(tmp_path: Path) -> None:
    """A collective overlaps products until one of them reads its result."""
    path = written(
        [
            product(3, 2, 10, 11, 12),
            collective(4, 2, "allreduce", 20),
            product(5, 2, 10, 11, 13),
            product(6, 2, 20, 11, 14),
        ],
        tmp_path / "ranks.json",
    )
    found = tracedb.estimate(path, gpu="A100", ranks=8)
    with found.database as asked:
        work = asked.sql(
            "SELECT is_collective, start_ns, end_ns FROM staging.gpu_op "
            "ORDER BY start_ns, is_collective DESC LIMIT 4"
        ).rows()
        message = asked.sql(
            "SELECT kind, group_size, element_count FROM staging.collective LIMIT 1"
        ).row(0)
    (_, (_, begin, end), (_, beside, _), (_, needing, _)) = work
    assert [is_collective for is_collective, *_ in work] == [False, True, False, False]
    assert begin < beside < end <= needing
    assert message == ("all_reduce", 8, 1024 * 1024)
    assert found.unsure == ()
    alone = of(path)
    assert alone.unsure == (
        (
            "node 4 (record_param_comms): the number of ranks is not recorded "
            "(`--ranks`)"
        ),
    )


def test_copies_and_foreign_ops_of_a_gpu_graph(
    tmp_path: Path, table: LaunchTable
) -> None:
    """A non-blocking copy from the host is one pinned copy.

    Ops that are not PyTorch's and threads outside the step are reported.
    """
    moved = values("input", tensor(30, 8), tensor(31, 8, device="cpu"))
    nodes = [
        node(3, "aten::copy_", 2, COPY, **moved, **values("output", tensor(30, 8))),
        node(4, "fbgemm::sum", 2, "fbgemm::sum(Tensor self) -> Tensor",
             **values("input", tensor(30, 8)), **values("output", tensor(32, 8))),
        node(6, THREAD, 1, tid=3),
        product(7, 6, 10, 11, 12, tid=3),
    ]  # fmt: skip
    nodes[0]["inputs"].append(True)
    nodes[0]["input_shapes"].append([])
    nodes[0]["input_types"].append("Bool")
    found = of(written(nodes, tmp_path / "copies.json"))
    work = [work for work, *_ in launched(found, table)]
    assert work == [
        Work("memcpy", "Memcpy HtoD (Pinned -> Device)", 32),
        Work("kernel", "sum"),
    ]
    foreign, thread = found.unsure
    assert foreign.startswith("node 4 (fbgemm::sum): not a PyTorch op")
    assert thread.startswith("thread 3: left out 1 ops")


def test_backward_of_another_thread_is_in_the_range_that_waits(tmp_path: Path) -> None:
    """Autograd's thread belongs to the range that starts before and ends after it."""
    name = "autograd::engine::evaluate_function: MmBackward0"
    nodes = [
        product(4, 3, 10, 11, 12),
        node(3, "## forward ##", 2),
        product(8, 7, 10, 11, 13, tid=2),
        node(7, name, 6, scope=0, tid=2),
        product(9, 6, 10, 11, 14, tid=2),
        node(5, "## backward ##", 2),
        node(6, THREAD, 1, tid=2),
    ]
    found = of(written(nodes, tmp_path / "threads.json")).root
    forward, backward = found.children
    assert [child.name for child in forward.children] == ["aten::mm"]
    assert [child.name for child in backward.children] == [name, "aten::mm"]
    assert all(child.is_backward for child in backward.children)
    assert not forward.children[0].is_backward


def test_which_step_is_chosen(tmp_path: Path) -> None:
    """Repeated ranges are steps; the last one of the most common size is chosen."""
    nodes = []
    for step, count in enumerate((3, 2, 2, 1)):
        begin = 100 * step + 10
        nodes += [product(begin + i + 1, begin, 10, 11, 12) for i in range(count)]
        nodes.append(node(begin, f"[param|mm|{step}]", 2))
    path = written(nodes, tmp_path / "steps.json")
    chosen = last_step(read(path))
    assert chosen.words == "[param|mm|2], of 4 steps"


def test_a_generated_kernel_keeps_its_name(tmp_path: Path, table: LaunchTable) -> None:
    """A kernel generated by a compiler is launched under its own name."""
    name = "triton_poi_fused_add_0"
    path = written(
        [
            product(3, 2, 10, 11, 12),
            node(4, name, 2, scope=0, **values("input", tensor(12, 64, 64))),
        ],
        tmp_path / "compiled.json",
    )
    work = [work.name for work, *_ in launched(of(path), table)]
    assert work == ["sgemm", name]


CONVERT = (
    "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Device? device=None, "
    "bool non_blocking=False) -> Tensor"
)
EMPTY = "aten::empty_strided(SymInt[] size, SymInt[] stride) -> Tensor"
LOSS = (
    "aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, "
    "Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor"
)
PUT = (
    "aten::_index_put_impl_(Tensor(a!) self, Tensor?[] indices, Tensor values, "
    "bool accumulate=False) -> Tensor(a!)"
)
OTHER = "fbgemm::lookup(Tensor self) -> Tensor"
EXP = "aten::exp(Tensor self) -> Tensor"


def op(number: int, name: str, above: int, schema: str, device: str) -> Graph:
    """An op on a matrix."""
    given = tensor(40, 64, 64, device=device)
    result = tensor(40 + number, 64, 64, device=device)
    sides = values("input", given), values("output", result)
    return node(number, name, above, schema, **sides[0], **sides[1])


@pytest.mark.parametrize(
    ("schema", "own"),
    [
        (LOSS, ""),
        (PUT, "iota radix_sort_histogram radix_sort_scan"),
        (OTHER, "lookup"),
        (CONVERT, ""),
    ],
)
@pytest.mark.parametrize("device", ["cuda:0", "cpu"])
def test_ops_below_an_op(
    schema: str, own: str, device: str, table: LaunchTable, tmp_path: Path
) -> None:
    """A GPU's graph launches the child ops; a CPU's graph ignores them."""
    path = written(
        [
            op(4, "aten::empty_strided", 3, EMPTY, device),
            op(5, "aten::exp", 3, EXP, device),
            op(3, schema.partition("(")[0], 2, schema, device),
        ],
        tmp_path / "parts.json",
    )
    found = of(path)
    works = [work.name for work, *_ in launched(found, table)]
    parts = [part.name for part in found.root.walk() if part.is_part]
    if device == "cpu":
        assert parts == []
        assert "exp" not in works
        return
    assert parts == ["aten::empty_strided", "aten::exp"]
    assert works[0] == "exp"
    wanted = own.split()
    assert works[1 : 1 + len(wanted)] == wanted
    assert bool(works[1:]) == bool(wanted)


MADE, INPUT, ELSEWHERE = 43, 40, 90
BESIDE_PARTS = [
    ("index.Tensor(Tensor self)", "copy_", ELSEWHERE, "copy index"),
    ("relu(Tensor self)", "clamp_min", MADE, "clamp_min"),
    ("relu_(Tensor(a!) self)", "clamp_min_", INPUT, "clamp_min"),
    ("addmm(Tensor self)", "add_", MADE, "add sgemm"),
    ("mm(Tensor self)", "mm", MADE, "sgemm"),
    ("repeat(Tensor self)", "copy_", MADE, "copy"),
    ("zero_(Tensor(a!) self)", "fill_", INPUT, "fill"),
    (
        "max_pool2d_with_indices_backward(Tensor self)",
        *("fill_", MADE, "fill max_pool_backward"),
    ),
    ("mse_loss(Tensor self)", "mean", MADE + 1, "mean loss"),
]


@pytest.mark.parametrize("case", BESIDE_PARTS, ids=lambda case: case[0])
def test_an_op_launches_what_its_parts_do_not(
    case: tuple[str, str, int, str], table: LaunchTable, tmp_path: Path
) -> None:
    """A part that returns the op's result did its work; other parts prepare it."""
    called, part, storage, wanted = case
    schema = f"aten::{called} -> Tensor"
    mark = "(a!)" if part.endswith("_") else ""
    below = f"aten::{part}(Tensor{mark} self) -> Tensor{mark}"
    result = INPUT if "!" in schema else MADE
    given, made = tensor(INPUT, 64, 64), tensor(result, 64, 64)
    read_by_part = tensor(storage if mark else INPUT, 64, 64)
    path = written(
        [
            node(
                4, f"aten::{part}", 3, below, **values("input", read_by_part),
                **values("output", tensor(storage, 64, 64)),
            ),
            node(
                3, schema.partition("(")[0].partition(".")[0], 2, schema,
                **values("input", given), **values("output", made),
            ),
        ],
        tmp_path / "parts.json",
    )  # fmt: skip
    works = [work.name for work, *_ in launched(of(path), table)]
    assert works == wanted.split()


def test_child_ops_add_host_time(tmp_path: Path) -> None:
    """An op of a GPU's graph takes its own time plus that of its child ops."""
    alone = [op(3, "aten::_to_copy", 2, CONVERT, "cuda:0")]
    part = [op(4, "aten::empty_strided", 3, EMPTY, "cuda:0")]
    steps = [
        tracedb.estimate(
            written(nodes, tmp_path / f"{place}.json"), gpu="A100", profiled=True
        ).step_ns
        for place, nodes in enumerate(([*alone], [*part, *alone]))
    ]
    more = steps[1] - steps[0]
    own = HostTimes.shipped(recorded=True).own_ns("aten::empty_strided")
    # Times are rounded to whole nanoseconds.
    assert abs(more - own) < 10


def test_a_recorded_host_is_slower(graphs: dict[str, Path]) -> None:
    """`--profiled` makes the host slower and leaves the kernels as they are."""
    path = str(graphs["perceptron"])
    plain_run = tracedb.estimate(path, gpu="A100")
    recorded = tracedb.estimate(path, gpu="A100", profiled=True)
    assert recorded.step_ns > plain_run.step_ns
    assert recorded.kernel_count == plain_run.kernel_count
    arguments = ["estimate", path, "--gpu", "A100", "--profiled", "--format", "json"]
    result = CliRunner().invoke(command, arguments)
    assert json.loads(result.stdout)["step_ns"] == recorded.step_ns


KINDS = {
    "aten::never_seen": "op",
    "autograd::engine::evaluate_function: NeverSeenBackward0": "autograd",
    "NeverSeenBackward3": "function",
    "torch::autograd::NeverSeen": "function",
    "All2All_NeverSeen": "other",
}


def test_unknown_ops_take_the_typical_time_of_their_kind() -> None:
    """An op of unknown name takes the typical host time of its kind."""
    host = HostTimes.shipped(recorded=True)
    for name, kind in KINDS.items():
        assert host.own_ns(name) == host.own[kind] > 0
    launching = host.own_ns("aten::never_seen", launches=True)
    assert launching == host.own["launching"] > host.own["op"]
    assert host.own_ns("aten::add_", launches=True) == host.own["aten::add_"]


CORPUS_GRAPHS = {
    "chakra/1.0.2-chakra.0.0.4.json.gz": "the whole graph",
    "param/et/1.1.1_pt2_et.json.gz": "ProfilerStep#6, of 2 steps",
    "param/dlrm8/et/dlrm_eg_0.json.gz": "the whole graph",
}


@pytest.mark.skipif(not CORPUS.exists(), reason="../shared/corpus is absent")
@pytest.mark.parametrize("name", CORPUS_GRAPHS)
def test_graphs_of_all_versions_are_read(name: str, table: LaunchTable) -> None:
    """Each version gives a step with work, and one kernel per collective."""
    found = of(CORPUS / name)
    assert found.source == f"{CORPUS_GRAPHS[name]}, recorded on a GPU"
    works = [work for work, *_ in launched(found, table)]
    called = [
        node
        for node in found.root.walk()
        if node.message.get("Collective name", "wait") not in {"wait", "barrier"}
    ]
    collectives = [work for work in works if work.kind == "collective"]
    assert len(collectives) == len(called) < len(works)


def test_a_graph_needs_no_pytorch(graphs: dict[str, Path]) -> None:
    """Without PyTorch a graph is estimated, and code says what to install."""
    without = "import sys; sys.modules['torch'] = None; from tracedb.cli.start import "
    for step, code in ((graphs["perceptron"], 0), ("train.py:step", 2)):
        done = subprocess.run(  # noqa: S603  our own words
            [
                *(sys.executable, "-Ic", f"{without}tracedb; tracedb()"),
                *("estimate", str(step), "--gpu", "A100"),
            ],
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr
    assert done.stderr == (
        "tracedb: error: PyTorch, which runs the step, is not installed: "
        "pip install 'tracedb[record]'\n"
    )


def test_lines_fit_a_pipe(
    graphs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long ones break between words, under the column of their text."""
    long = "Memory  " + ", ".join(["1.09 MB of it"] * 8)
    monkeypatch.setattr("tracedb.cli.estimate.lines", lambda _: [long])
    words = ["estimate", str(graphs["perceptron"]), "--gpu", "A100"]
    first, second = CliRunner().invoke(command, words).stdout.splitlines()
    assert f"{first} {second.strip()}" == long
    assert len(first) <= 100
    assert second.startswith(" " * 8 + "1.09 MB")
