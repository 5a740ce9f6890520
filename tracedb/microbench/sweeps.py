"""Sweeps over shapes, family by family: those of Lin et al. (2022, 2024), and more.

The paper's sweeps are named where they are taken over: their values are those that its
scripts list, or as many in the same range where only the range is known. What a
measurement does not state (the probability of dropout, the diagonal of tril) is left
out, so those sweeps are shorter. Attention, optimizers and dtypes are ours.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from .case import ARITY, Case, Shape, pixels_out
from .indices import expected_distinct

_FLOATS = ("float32", "bfloat16")
_BATCHES = (1, 128, 256, 512, 1024, 2048, 4096)
_SKEWS = (0.0, 0.6, 1.05)
"""Exponents of Zipf's law: even, mild, as click logs have it."""

_GEMM_DTYPES = ("float32", "tf32", "bfloat16", "float16")
_TABLE_ROWS = (
    *(1_000, 2_000, 5_000, 7_500, 10_000, 20_000, 50_000, 75_000, 100_000),
    *(200_000, 500_000, 750_000, 1_000_000, 2_000_000, 5_000_000, 7_500_000),
    *(10_000_000, 20_000_000, 50_000_000),
)


def octaves(low: int, high: int, parts: int) -> tuple[int, ...]:
    """List numbers from `low` to `high`, so many in each doubling, evenly spaced.

    >>> octaves(32, 128, 2)
    (32, 48, 64, 96, 128)
    """
    found, base = {high}, low
    while base < high:
        found |= {base + base * part // parts for part in range(parts)}
        base *= 2
    return tuple(sorted(number for number in found if number <= high))


def grid(**columns: Iterable[int]) -> Iterator[dict[str, int]]:
    """Yield every combination of the values of some columns."""
    for values in product(*columns.values()):
        yield dict(zip(columns, values, strict=True))


def cases(
    family: str, ops: Iterable[str], dtypes: Iterable[str], shapes: Iterable[Shape]
) -> Iterator[Case]:
    """Yield a case for every op, dtype and shape."""
    kept = list(shapes)
    for op, dtype, shape in product(ops, dtypes, kept):
        yield Case(family, op, dtype, shape)


def gemm() -> Iterator[Case]:
    """Products as the paper has them (B = 1 by 33 values, bmm by 25), in four dtypes.

    A few sizes are no multiples of 8, as real layers have them.
    """
    sizes = sorted({*octaves(32, 4096, 4), 4104, 100, 479, 1000})
    small = sorted({*octaves(32, 1024, 4), 1032, 27, 100, 479})
    flat = list(grid(batch=(1,), m=sizes, n=sizes, k=sizes))
    batched = list(grid(batch=octaves(64, 4096, 1), m=small, n=small, k=small))
    for op, shapes in {
        "mm": flat[::3],
        "addmm": flat[1::3],
        "linear": flat[2::3],
    }.items():
        yield from cases("gemm", (op,), _GEMM_DTYPES, shapes)
    yield from cases("gemm", ("bmm",), _GEMM_DTYPES, batched[::7])


def embedding_bag() -> Iterator[Case]:
    """Bags of the paper's tables, at three skews; forward and backward."""
    sizes = {
        "tables": (1, 8, 32, 64, 128, 256),
        "table_rows": _TABLE_ROWS,
        "width": (32, 64, 128, 256),
        "bags": octaves(128, 4096, 1),
        "pooling": (1, 8, 16, 32, 38, 64, 128),
    }
    yield from _bags(list(grid(**sizes)), _SKEWS)


def _bags(shapes: Iterable[Shape], skews: Iterable[float]) -> Iterator[Case]:
    """Yield bags forward and backward; skews take turns over the shapes."""
    turns = tuple(skews)
    known: dict[tuple[int, int, float], int] = {}
    for place, shape in enumerate(shapes):
        lookups = shape["bags"] * shape["pooling"]
        law = (shape["table_rows"], lookups, turns[place % len(turns)])
        if law not in known:
            known[law] = expected_distinct(*law)
        whole = {**shape, "distinct_rows": shape["tables"] * known[law]}
        family = (
            "embedding_bag_backward" if place // len(turns) % 2 else "embedding_bag"
        )
        yield Case(family, "sum", "float32", whole)


def embedding() -> Iterator[Case]:
    """Single rows, as of language models; the gradient is dense."""
    sizes = {
        "rows": octaves(256, 65536, 1),
        "width": octaves(64, 8192, 1),
        "table_rows": (1_000, 10_000, 32_000, 50_257, 128_256, 1_000_000),
    }
    yield from cases("embedding", ("embedding",), _FLOATS, grid(**sizes))
    yield from cases("embedding", ("index_select",), _FLOATS, grid(**sizes))
    yield from cases("embedding_backward", ("embedding",), _FLOATS, grid(**sizes))


def convolution() -> Iterator[Case]:
    """Images of the paper's sweep, with its bounds, depth-wise or not."""
    channels = (*octaves(32, 1024, 2), 3, 80, 160, 224, 448, 2048)
    shapes = _convolutions(
        grid(
            images=(1, 16, 64),
            channels_in=channels,
            channels_out=channels,
            height=(7, 8, 14, 17, 28, 35, 56, 71, 73, 112, 147, 149, 224, 299),
            kernel_height=(1, 3, 5),
            stride=(1, 2),
            dilation=(1, 2),
        )
    )
    ops = ("forward", "backward_input", "backward_weight")
    yield from cases("convolution", ops, ("float32", "bfloat16"), shapes)


def square_convolution(size: Mapping[str, int], *, is_depthwise: bool) -> Shape:
    """Complete a convolution of square, padded images and square filters."""
    kernel = size["kernel_height"]
    return {
        **size,
        "width": size["height"],
        "kernel_width": kernel,
        "padding": kernel // 2,
        "groups": size["channels_in"] if is_depthwise else 1,
    }


def _convolutions(sizes: Iterable[Mapping[str, int]]) -> Iterator[Shape]:
    """Complete the shapes; depth-wise where as many channels go out as in."""
    for size in sizes:
        side, kernel = size["height"], size["kernel_height"]
        inputs, outputs = size["channels_in"], size["channels_out"]
        shape = square_convolution(size, is_depthwise=inputs == outputs and kernel > 1)
        is_usual = 1500 <= inputs * side <= 15000 and inputs < 8 * outputs < 64 * inputs  # noqa: PLR2004
        if is_usual and pixels_out(shape) > 0 and side > size["dilation"] * kernel:
            yield shape


def attention() -> Iterator[Case]:
    """Self-attention, causal or not, with shared keys or own ones."""
    shapes = [
        {**size, "keys": size["queries"], "heads": size["kv_heads"] * sharing}
        for size in grid(
            images=(1, 2, 4, 8, 16, 32, 64),
            kv_heads=(2, 8, 12, 16, 32),
            queries=octaves(64, 8192, 1),
            head_dim=(32, 64, 128),
            causal=(0, 1),
        )
        for sharing in (1, 4)
    ]
    yield from cases(
        "attention", ("forward", "backward"), ("bfloat16", "float32"), shapes
    )


def elementwise() -> Iterator[Case]:
    """All ops that are known, from thousands of elements to hundreds of millions."""
    yield from _elementwise(
        (op for op in ARITY if op != "native_dropout"), 2**10, 2**28
    )


def _elementwise(ops: Iterable[str], low: int, high: int) -> Iterator[Case]:
    for op in ops:
        inputs, outputs = ARITY[op]
        sizes = grid(
            elements=octaves(low, high, 2), inputs=(inputs,), outputs=(outputs,)
        )
        yield from cases("elementwise", (op,), _FLOATS, sizes)


def dropout() -> Iterator[Case]:
    """Elements of the paper's sweep, B x M x N."""
    sides = octaves(16, 4096, 4)
    counts = sorted(
        {b * m * n for b, m, n in product((1, 8, 16, 32, 64), sides, sides)}
    )
    shapes = grid(elements=counts, inputs=(1,), outputs=(2,))
    yield from cases("elementwise", ("native_dropout",), _FLOATS, shapes)


def _by_rows(low: int, high: int) -> list[dict[str, int]]:
    return list(grid(rows=octaves(low, high, 1), width=octaves(low, high, 2)))


def reduction() -> Iterator[Case]:
    """Rows reduced to numbers, and losses."""
    ops = ("sum", "mean", "amax", "linalg_vector_norm", "mse_loss")
    yield from cases("reduction", ops, _FLOATS, _by_rows(1, 2**17))


def softmax() -> Iterator[Case]:
    """Softmax over classes and keys, forward and backward."""
    ops = [
        f"{op}{end}" for op in ("softmax", "log_softmax") for end in ("", "_backward")
    ]
    yield from cases("softmax", ops, _FLOATS, _by_rows(8, 2**17))


def layer_norm() -> Iterator[Case]:
    """The paper's B x M rows of N elements; RMS norm, too."""
    sides = octaves(16, 4096, 2)
    rows = sorted({b * m for b, m in product((1, 8, 16, 32, 64, 128), sides)})
    ops = [
        f"{op}{end}" for op in ("layer_norm", "rms_norm") for end in ("", "_backward")
    ]
    yield from cases("normalisation", ops, _FLOATS, grid(rows=rows, width=sides))


def batch_norm() -> Iterator[Case]:
    """The paper's images, sides and channels."""
    sides = (7, 8, 14, 17, 28, 35, 56, 71, 73, 112, 147, 149, 224, 299)
    shapes = [
        {"rows": channels, "width": images * side * side}
        for images, side, channels in product(
            (1, 16, 32, 64, 128), sides, (*octaves(32, 1024, 2), 3, 80, 160, 448, 2048)
        )
        if channels * side <= 15000  # noqa: PLR2004 (as of convolutions)
    ]
    yield from cases(
        "normalisation", ("batch_norm", "batch_norm_backward"), _FLOATS, shapes
    )


def scan() -> Iterator[Case]:
    """Cumulative sums and sorts of rows."""
    ops = ("cumsum", "logcumsumexp", "cummax", "sort")
    yield from cases("scan", ops, _FLOATS, _by_rows(8, 2**17))


def concat() -> Iterator[Case]:
    """From two tensors to a recommender's 27, and back."""
    sizes = grid(
        tensors=(2, 3, 5, 9, 27, 64),
        rows=(*_BATCHES, 16384, 65536),
        width=(64, 128, 256, 479, 1024, 3456, 8192, 32768),
    )
    shapes = [size for size in sizes if size["width"] >= 2 * size["tensors"]]
    yield from cases("concat", ("cat", "split"), _FLOATS, shapes)


def transpose() -> Iterator[Case]:
    """The paper's batches of matrices, transposed, copied, cut out."""
    sides = octaves(64, 65536, 2)
    shapes = list(grid(batch=_BATCHES, rows=sides, width=sides))
    yield from cases("copy", ("transpose",), _FLOATS, shapes)
    yield from cases("copy", ("copy", "contiguous"), _FLOATS, shapes[::4])


def index() -> Iterator[Case]:
    """The paper's small triangles (B x M rows of N), and gathering in larger rows."""
    batches = (1, 64, *_BATCHES[1:])
    triangles = [
        {"rows": batch * side, "width": side}
        for batch, side in product(batches, range(5, 41))
    ]
    yield from cases("index", ("index", "tril"), ("float32",), triangles)
    ops = ("gather", "index", "scatter")
    yield from cases("index", ops, _FLOATS, _by_rows(16, 2**17))


def memcpy() -> Iterator[Case]:
    """Every direction, from a few bytes to a GB; memset, too."""
    ops = ("h2d", "d2h", "h2d_pageable", "d2h_pageable", "d2d")
    sizes = list(grid(bytes=octaves(4, 2**30, 2)))
    yield from cases("memcpy", ops, ("int8",), sizes)
    yield from cases("memset", ("memset",), ("int8",), sizes)


def optimizer() -> Iterator[Case]:
    """Steps over few or many tensors, foreach and fused."""
    ops = [f"{how}{op}" for how in ("", "fused_") for op in ("sgd", "adam", "adagrad")]
    shapes = [
        {"tensors": tensors, "elements": tensors * each}
        for tensors, each in product((1, 4, 16, 62, 160), octaves(64, 2**22, 1))
    ]
    yield from cases("optimizer", ops, ("float32",), shapes)


# The quick plan's: small enough for two cores of a CPU, and of every family.


def quick_gemm() -> Iterator[Case]:
    """Products of up to a GFLOP, flat and batched."""
    sizes = (*octaves(16, 2048, 2), 100, 479)
    small = (*octaves(16, 128, 2), 27)
    flat = [s for s in grid(batch=(1,), m=sizes, n=sizes, k=sizes) if _gflop(s) <= 1]
    batched = grid(batch=octaves(4, 1024, 1), m=small, n=small, k=small)
    yield from cases("gemm", ("mm",), ("float32",), flat[::2])
    yield from cases("gemm", ("addmm",), ("float32",), flat[1::2])
    yield from cases(
        "gemm", ("bmm",), ("float32",), (s for s in batched if _gflop(s) <= 1)
    )


def quick_int8() -> Iterator[Case]:
    """Products of FBGEMM: linear layers in int8."""
    sizes = (*octaves(16, 2048, 2), 479)
    flat = grid(batch=(1,), m=sizes, n=sizes, k=sizes)
    yield from cases(
        "gemm", ("linear",), ("int8",), (s for s in flat if _gflop(s) <= 1)
    )


def _gflop(s: Shape) -> float:
    return 2e-9 * s["batch"] * s["m"] * s["n"] * s["k"]


def quick_bags() -> Iterator[Case]:
    """Bags of tables that fit into little memory."""
    sizes = {
        "tables": (1, 2, 4, 8, 16),
        "table_rows": (1_000, 10_000, 50_000, 200_000, 1_000_000),
        "width": (16, 32, 64, 128),
        "bags": octaves(32, 1024, 1),
        "pooling": (1, 4, 10, 32, 100),
    }
    yield from _bags(list(grid(**sizes)), _SKEWS)


def quick_rows() -> Iterator[Case]:
    """Reductions, softmax and normalisation of small matrices."""
    shapes = list(grid(rows=octaves(16, 4096, 1), width=octaves(16, 4096, 1)))
    for family, ops in {
        "reduction": ("sum", "mean", "mse_loss"),
        "softmax": ("softmax", "log_softmax", "softmax_backward"),
        "normalisation": ("layer_norm", "layer_norm_backward", "batch_norm"),
    }.items():
        yield from cases(family, ops, ("float32",), shapes)


def quick_movement() -> Iterator[Case]:
    """Concatenation, copies, indexing, memory."""
    rows = list(grid(rows=octaves(16, 4096, 1), width=octaves(16, 4096, 1)))
    joined = [{"tensors": n, **s} for n in (2, 4, 8) for s in rows]
    yield from cases("concat", ("cat", "split"), ("float32",), joined)
    batched = [{"batch": n, **s} for n in (1, 4, 16) for s in rows]
    ops = ("copy", "transpose", "contiguous")
    yield from cases("copy", ops, ("float32",), batched)
    yield from cases("index", ("tril", "index", "gather"), ("float32",), rows)
    sizes = list(grid(bytes=octaves(2**10, 2**25, 1)))
    yield from cases("memcpy", ("d2d",), ("int8",), sizes)
    yield from cases("memset", ("memset",), ("int8",), sizes)


def quick_elementwise() -> Iterator[Case]:
    """The ops of recommenders and transformers, dropout too."""
    ops = ("add", "mul", "relu", "gelu", "sigmoid", "threshold_backward")
    for op in (*ops, "native_dropout"):
        inputs, outputs = ARITY[op]
        sizes = grid(
            elements=octaves(2**10, 2**24, 2), inputs=(inputs,), outputs=(outputs,)
        )
        yield from cases("elementwise", (op,), ("float32",), sizes)


def quick_embedding() -> Iterator[Case]:
    """Single rows of tables that fit into little memory."""
    shapes = list(
        grid(
            rows=octaves(64, 16384, 1),
            width=octaves(16, 256, 1),
            table_rows=(1_000, 10_000, 100_000),
        )
    )
    yield from cases("embedding", ("embedding",), ("float32",), shapes)
    yield from cases("embedding_backward", ("embedding",), ("float32",), shapes)


def quick_optimizer() -> Iterator[Case]:
    """Steps over a small model's tensors."""
    shapes = [
        {"tensors": tensors, "elements": tensors * each}
        for tensors, each in product((1, 4, 16), octaves(64, 2**18, 1))
    ]
    ops = ("sgd", "adam", "fused_sgd", "fused_adam")
    yield from cases("optimizer", ops, ("float32",), shapes)


def quick_layers() -> Iterator[Case]:
    """Convolutions and attention of small networks."""
    shapes = _convolutions(
        grid(
            images=(1, 4, 8),
            channels_in=(16, 32, 64, 128),
            channels_out=(16, 32, 64, 128),
            height=(28, 56, 112),
            kernel_height=(1, 3),
            stride=(1, 2),
            dilation=(1,),
        )
    )
    ops = ("forward", "backward_input", "backward_weight")
    yield from cases("convolution", ops, ("float32",), shapes)
    heads = [
        {**size, "keys": size["queries"], "heads": size["kv_heads"]}
        for size in grid(
            images=(1, 2, 4),
            kv_heads=(2, 4, 8),
            queries=octaves(32, 256, 1),
            head_dim=(32, 64),
            causal=(0, 1),
        )
    ]
    yield from cases("attention", ("forward", "backward"), ("float32",), heads)
