"""Each family's formula, compared with PyTorch's counter, loops and real tensors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tracedb import catalog, kernels
from tracedb.kernels.relations import counted, declared
from tracedb.kernels.work import Op, shapes_of
from tracedb.microbench.case import SHAPES, Case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

torch = pytest.importorskip("torch")
flop_counter = pytest.importorskip("torch.utils.flop_counter")
dispatch = pytest.importorskip("torch.utils._python_dispatch")
builders = pytest.importorskip("tracedb.microbench.torch_ops")

PARTS = [r for r in catalog.relations() if r.part_of == "prediction.op_problem"]
SMALL = 0.05
"""Biases, scales and statistics are small (one dimension) and not counted."""

CONV = {
    "images": 2,
    "channels_in": 6,
    "channels_out": 4,
    "height": 9,
    "width": 8,
    "kernel_height": 3,
    "kernel_width": 3,
    "stride": 2,
    "padding": 1,
    "dilation": 1,
    "groups": 2,
}
ATTENTION = {
    "images": 2,
    "heads": 4,
    "kv_heads": 4,
    "queries": 24,
    "keys": 24,
    "head_dim": 16,
    "causal": 0,
}
PRODUCT = {"batch": 1, "m": 30, "n": 40, "k": 50}
ROWS = {"rows": 64, "width": 96}
BAGS = {
    "tables": 3,
    "table_rows": 50,
    "width": 8,
    "bags": 4,
    "pooling": 5,
    "distinct_rows": 30,
}
LOOKUP = {"rows": 20, "width": 8, "table_rows": 50}


def elements(inputs: int, outputs: int = 1) -> dict[str, int]:
    """Sizes of an elementwise op."""
    return {"elements": 960, "inputs": inputs, "outputs": outputs}


CASES = [
    Case("gemm", "mm", "float32", PRODUCT),
    Case("gemm", "addmm", "float32", PRODUCT),
    Case("gemm", "linear", "float32", PRODUCT),
    Case("gemm", "bmm", "float32", PRODUCT | {"batch": 3}),
    Case("gemm", "baddbmm", "float32", PRODUCT | {"batch": 3}),
    Case("convolution", "forward", "float32", CONV),
    Case("convolution", "backward_input", "float32", CONV),
    Case("convolution", "backward_weight", "float32", CONV),
    Case("attention", "forward", "float32", ATTENTION),
    Case("attention", "forward", "float32", ATTENTION | {"queries": 1}),
    Case("elementwise", "add", "float32", elements(2)),
    Case("elementwise", "addcmul", "float32", elements(3)),
    Case("elementwise", "gelu", "bfloat16", elements(1)),
    Case("elementwise", "cast", "float32", elements(1)),
    Case("elementwise", "cast", "bfloat16", elements(1)),
    Case("elementwise", "threshold_backward", "float32", elements(2)),
    Case("elementwise", "native_dropout", "float32", elements(1, 2)),
    Case("reduction", "sum", "float32", ROWS),
    Case("reduction", "mse_loss", "float32", ROWS),
    Case("softmax", "softmax", "float32", ROWS),
    Case("softmax", "log_softmax_backward", "float32", ROWS),
    Case("normalisation", "layer_norm", "float32", ROWS),
    Case("normalisation", "layer_norm_backward", "float32", ROWS),
    Case("normalisation", "batch_norm", "float32", ROWS),
    Case("normalisation", "batch_norm_backward", "float32", ROWS),
    Case("scan", "cumsum", "float32", ROWS),
    Case("scan", "cummax", "float32", ROWS),
    Case("scan", "sort", "float32", ROWS),
    Case("concat", "cat", "float32", ROWS | {"tensors": 4}),
    Case("concat", "split", "float32", ROWS | {"tensors": 4}),
    Case("copy", "transpose", "float32", ROWS | {"batch": 2}),
    Case("index", "gather", "float32", ROWS),
    Case("index", "index", "float32", ROWS),
    Case("index", "tril", "float32", ROWS),
    Case("memcpy", "d2d", "int8", {"bytes": 4096}),
    Case("memset", "memset", "int8", {"bytes": 4096}),
    Case("optimizer", "fused_adam", "float32", {"tensors": 3, "elements": 3000}),
    Case("optimizer", "fused_sgd", "float32", {"tensors": 3, "elements": 3000}),
]
"""Ops that access each tensor once, at sizes that are quick on a CPU."""
LOOPED = ("embedding", "embedding_backward", "embedding_bag", "embedding_bag_backward")
"""Families that access parts of tables: accesses are counted in loops."""

IN_PLACE = {"fill": ("fill", 0), "random": ("bernoulli", 1)}
"""Families that overwrite their input; pooling windows that overlap."""

each_case = pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.family}-{case.op}-{case.dtype}"
)


def work(case: Case) -> Any:  # noqa: ANN401 (arrays by name)
    """What the family's relation gives for a case."""
    frame = pl.DataFrame({name: [size] for name, size in case.shape.items()})
    family = kernels.FAMILIES[case.family]
    return shapes_of(family, frame, Op(case.family, case.op, case.dtype))


@dataclass
class Tensors:
    """Bytes that ops read and write."""

    read: int = 0
    written: int = 0
    names: list[str] = field(default_factory=list)


def touched(run: Callable[[], object]) -> Tensors:
    """Run something and sum up the tensors of its ops, except views."""
    found = Tensors()

    class Watch(dispatch.TorchDispatchMode):  # type: ignore[misc,name-defined]
        """Intercept each op with its arguments and results."""

        def __torch_dispatch__(
            self,
            func: Any,  # noqa: ANN401 (an operator)
            types: object,
            args: tuple[Any, ...] = (),
            kwargs: dict[str, Any] | None = None,
        ) -> object:
            del types
            results = func(*args, **(kwargs or {}))
            read, written = of_op(func, [*args, *(kwargs or {}).values()], results)
            if read or written:
                found.read += read
                found.written += written
                found.names.append(str(func))
            return results

    with Watch():
        run()
    return found


def of_op(func: Any, args: list[Any], results: object) -> tuple[int, int]:  # noqa: ANN401
    """Bytes that one op reads and writes, itself or in place."""
    schema = func._schema  # noqa: SLF001 (no other way to know what is written)
    if func.is_view or schema.name.startswith(("aten::empty", "aten::detach")):
        return 0, 0
    changed = [
        arg
        for arg, declared in zip(args, schema.arguments, strict=False)
        if declared.alias_info is not None and declared.alias_info.is_write
    ]
    name = schema.name.removeprefix("aten::")
    if name == "convolution_backward":
        args = [args[0], *(args[2:3] if args[-1][0] else args[1:2])]
    if name.startswith("_fused_"):
        # Gradients are unscaled in place if there is a scale.
        changed = [arg for arg in changed if arg is not args[1]]
    only_written = changed if name in ("copy_", "zero_") else []
    read = [arg for arg in args if not any(arg is other for other in only_written)]
    return sum(map(size, tensors(read))), sum(map(size, tensors(changed or results)))


def tensors(value: object) -> Iterator[Any]:
    """All tensors of some arguments."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)


def size(tensor: Any) -> int:  # noqa: ANN401 (a tensor)
    """[B] Of a tensor."""
    return int(tensor.numel() * tensor.element_size())


@each_case
def test_bytes_are_those_of_tensors(case: Case) -> None:
    """Bytes of a real op equal those computed from its sizes."""
    run = builders.BUILDERS[case.family](case, torch.device("cpu"))
    found, said = touched(run), work(case)
    assert said["read_bytes"][0] == pytest.approx(found.read, rel=SMALL), found.names
    written = pytest.approx(found.written, rel=SMALL, abs=1100)
    assert said["written_bytes"][0] == written, found.names


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(("queries", "keys"), [(1, 7), (5, 7), (7, 7), (7, 5)])
def test_attention_is_a_loop_over_pairs(causal: int, queries: int, keys: int) -> None:
    """With a causal mask the last query attends to all keys, earlier ones to fewer."""
    seen = sum(
        1
        for query, key in product(range(queries), range(keys))
        if not causal or queries > keys or key <= query + keys - queries
    )
    if causal and queries > keys:
        # Queries before the first key attend to none.
        seen = sum(min(max(q + 1 - (queries - keys), 0), keys) for q in range(queries))
    sizes = {"queries": queries, "keys": keys, "causal": causal}
    said = work(Case("attention", "forward", "float32", ATTENTION | sizes))
    assert said["flops"][0] == 2 * 4 * seen * 2 * 2 * 16


def test_convolution_is_a_loop() -> None:
    """Each output pixel has a multiply-add per filter element and input channel."""
    pixels = len(range(0, 9 + 2 - 3 + 1, 2)) * len(range(0, 8 + 2 - 3 + 1, 2))
    adds = sum(
        1 for _ in product(range(2), range(pixels), range(4), range(3), range(9))
    )
    for op in ("forward", "backward_input", "backward_weight"):
        assert work(Case("convolution", op, "float32", CONV))["flops"][0] == 2 * adds


@pytest.mark.parametrize("family", ["gemm", "convolution"])
def test_flops_equal_those_of_torch(family: str) -> None:
    """PyTorch's counter covers products and convolutions (it overcounts groups)."""
    for case in CASES:
        if case.family != family:
            continue
        ungrouped = {name: 1 for name in case.shape if name == "groups"}
        case = replace(case, shape={**case.shape, **ungrouped})  # noqa: PLW2901
        run = builders.BUILDERS[family](case, torch.device("cpu"))
        with flop_counter.FlopCounterMode(display=False) as counter:
            run()
        assert counter.get_total_flops() == work(case)["flops"][0], case


def test_attention_flops_equal_those_of_torch() -> None:
    """Without a mask, on the meta device: the counter lacks the CPU's op."""
    query = torch.ones(2, 4, 24, 16, device="meta")
    attend = torch.nn.functional.scaled_dot_product_attention
    with flop_counter.FlopCounterMode(display=False) as counter:
        attend(query, query, query)
    said = work(Case("attention", "forward", "float32", ATTENTION))
    assert counter.get_total_flops() == said["flops"][0]


def test_lookups_are_loops() -> None:
    """Each index reads a row, which is written or added to a bag."""
    forward = work(Case("embedding", "embedding", "float32", LOOKUP))
    bags = work(Case("embedding_bag", "sum", "float32", BAGS))
    read = written = flops = 0
    for _ in range(LOOKUP["rows"]):
        read += 8 + 4 * LOOKUP["width"]
        written += 4 * LOOKUP["width"]
    assert (forward["read_bytes"][0], forward["written_bytes"][0]) == (read, written)
    read = written = 0
    for _ in product(range(BAGS["tables"]), range(BAGS["bags"])):
        read += 8
        written += 4 * BAGS["width"]
        for _ in range(BAGS["pooling"]):
            read += 8 + 4 * BAGS["width"]
            flops += BAGS["width"]
    assert (bags["read_bytes"][0], bags["written_bytes"][0]) == (read, written)
    assert bags["flops"][0] == flops
    # The backward pass also reads the bags' gradients; rows are scaled, added, written.
    back = work(Case("embedding_bag_backward", "sum", "float32", BAGS))
    assert back["read_bytes"][0] == read + written
    assert back["written_bytes"][0] == 4 * flops
    assert back["flops"][0] == 2 * flops


def test_the_gradient_of_a_table_is_zeroed_and_added_to() -> None:
    """20 lookups of 50 rows meet 16.6 on average; all 50 are zeroed first."""
    said = work(Case("embedding_backward", "embedding", "float32", LOOKUP))
    missed = 50.0
    for _ in range(LOOKUP["rows"]):
        missed *= 1 - 1 / 50
    met = 50 - missed
    assert said["written_bytes"][0] == pytest.approx(4 * 8 * (50 + met), abs=1)
    assert said["flops"][0] == LOOKUP["rows"] * LOOKUP["width"]


@pytest.mark.parametrize("lookups", [1, 10, 999, 10**5, 10**8])
@pytest.mark.parametrize("rows", [1, 7, 10**4, 10**7, 10**13])
def test_distinct_rows_are_exact_at_extremes(lookups: int, rows: int) -> None:
    """The expected number is right for few lookups of many rows, and vice versa."""
    from math import expm1, log1p

    expected = -rows * expm1(log1p(-1 / rows) * lookups) if rows > 1 else 1
    sizes = {"rows": lookups, "width": 1, "table_rows": rows}
    found = work(Case("embedding", "embedding", "float32", sizes))
    assert found["distinct_rows"][0] == pytest.approx(expected, rel=1e-6, abs=0.51)


def test_int8_products_write_the_output_type() -> None:
    """`_int_mm` gives int32; FBGEMM's linear layer writes one byte per element."""
    one, other = (torch.ones(32, 32, dtype=torch.int8) for _ in range(2))
    made = torch._int_mm(one, other)  # noqa: SLF001
    sizes = {"batch": 1, "m": 32, "n": 32, "k": 32}
    assert work(Case("gemm", "mm", "int8", sizes))["written_bytes"][0] == size(made)
    assert work(Case("gemm", "linear", "int8", sizes))["written_bytes"][0] == 32 * 32


def test_every_measured_family_is_compared() -> None:
    """A family that can be measured is compared with tensors, or with a loop."""
    compared = {case.family for case in CASES} | set(LOOPED) | {*IN_PLACE, "pooling"}
    assert compared == set(SHAPES)


@pytest.mark.parametrize("family", IN_PLACE)
def test_in_place_writes_are_counted(family: str) -> None:
    """Zeros are only written; random numbers also count as read."""
    op, inputs = IN_PLACE[family]
    found = work(Case(family, op, "float32", elements(inputs)))
    assert found["read_bytes"][0] == 4 * 960 * inputs
    assert found["written_bytes"][0] == 4 * 960


LIBRARIES = {"op_memory", "op_library_gemm", "op_function_gemm", "op_experts"}
"""Ops of libraries belong to families that other relations define."""


def test_every_family_has_a_relation() -> None:
    """Each family has an existing relation; the collective one has a part."""
    known = {relation.full_name for relation in PARTS if relation.name not in LIBRARIES}
    known.add("prediction.gpu_copy")
    assert {family.relation for family in kernels.FAMILIES.values()} == known


def test_ops_of_libraries_have_known_families() -> None:
    """What they reach of the peaks, and which models fit, is known by the family."""
    named = {row["family"] for row in declared("prediction.memory_op")}
    assert named <= kernels.FAMILIES.keys()


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_each_part_counts_any_problem(part: catalog.Relation) -> None:
    """The last SELECT of a family's relation reads `problem` only."""
    columns = [name for name in part.columns if name not in ("op_id", "run_id")]
    found = counted(part.full_name, pl.DataFrame({"op": ["any"], "dtype": ["int8"]}))
    assert set(columns) <= set(found.columns)
    assert found.height == 1
