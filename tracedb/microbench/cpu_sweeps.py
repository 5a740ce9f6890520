"""Cases to measure a CPU with, for estimates of steps: ops of every kind.

Tensors of a step on a CPU range from a few elements to tens of megabytes. For the
smallest, the overhead of the call dominates, which is measured as well.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from .case import ARITY, COUNTED_ALIKE, Case, Shape, pixels_out
from .indices import expected_distinct
from .sweeps import cases, grid, octaves, square_convolution

_FLOAT = ("float32",)
_CONVOLUTIONS = ("forward", "backward_input", "backward_weight")
_LAYER_NORM = ("layer_norm", "layer_norm_backward")
_BATCH_NORM = tuple(
    f"batch_norm_{layout}{end}"
    for layout in ("nchw", "nhwc")
    for end in ("", "_backward")
)
"""By what lies in one piece: a channel of an image, or all channels of an example."""
_SOFTMAX = (*("softmax", "softmax_backward", "log_softmax", "log_softmax_backward"),)
_LEAST_GFLOP, _MOST_GFLOP = 1e-4, 0.4
_COLOURS, _FILTERS = 3, (1, 3, 5, 7)
_SIDES = (*octaves(8, 1024, 2), 13, 27, 100, 479)


def _products() -> Iterator[Case]:
    flat = [s for s in grid(batch=(1,), m=_SIDES, n=_SIDES, k=_SIDES) if _is_quick(s)]
    yield from cases("gemm", ("mm",), _FLOAT, flat[::2])
    yield from cases("gemm", ("addmm",), _FLOAT, flat[1::2])


def _batched_products() -> Iterator[Case]:
    sides = (*octaves(8, 128, 2), 9, 27)
    shapes = grid(batch=octaves(4, 1024, 1), m=sides, n=sides, k=sides)
    yield from cases("gemm", ("bmm",), _FLOAT, filter(_is_quick, shapes))


def _is_quick(s: Shape) -> bool:
    return 2e-9 * s["batch"] * s["m"] * s["n"] * s["k"] <= _MOST_GFLOP


def _elementwise(family: str, ops: Sequence[str], low: int) -> Iterator[Case]:
    for op in ops:
        inputs, outputs = {**ARITY, **COUNTED_ALIKE}[op]
        sizes = grid(
            elements=octaves(low, 2**22, 4), inputs=(inputs,), outputs=(outputs,)
        )
        yield from cases(family, (op,), _FLOAT, sizes)


def _simple() -> Iterator[Case]:
    yield from _elementwise(
        "elementwise",
        (
            *("add", "mul", "div", "sqrt", "relu", "threshold_backward"),
            *("gelu", "gelu_backward", "sigmoid", "sigmoid_backward"),
            *("tanh", "tanh_backward", "exp", "addcmul", "addcdiv"),
            *("silu", "silu_backward"),
        ),
        16,
    )


def _made() -> Iterator[Case]:
    yield from _elementwise("fill", ("fill",), 16)
    yield from _elementwise("random", ("bernoulli",), 16)


def _pooled() -> Iterator[Case]:
    ops = ("max_pool2d_with_indices", "max_pool2d_with_indices_backward")
    yield from _elementwise("pooling", ops, 2**10)


def _by_rows(low: int, high: int) -> list[dict[str, int]]:
    """Rows by size, with at most `high` elements in total."""
    found = grid(rows=octaves(low, high, 1), width=octaves(low, high, 1))
    return [s for s in found if 2**8 <= s["rows"] * s["width"] <= 2**20]


def _rows() -> Iterator[Case]:
    yield from cases("reduction", ("sum", "mean"), _FLOAT, _by_rows(1, 2**16))
    yield from cases("reduction", ("mse_loss",), _FLOAT, _by_rows(1, 2**16))
    yield from cases("softmax", _SOFTMAX, _FLOAT, _by_rows(4, 2**13))
    yield from cases("normalisation", _LAYER_NORM, _FLOAT, _by_rows(16, 2**13))


def _batch_norm() -> Iterator[Case]:
    sides = (2, 3, 4, 7, 8, 14, 16, 28, 32, 56)
    pixels = [side * side for side in sides]
    images = grid(rows=octaves(16, 2**16, 1), width=pixels)
    yield from cases("normalisation", _BATCH_NORM[:2], _FLOAT, _small(images))
    examples = grid(rows=octaves(8, 2**12, 1), width=octaves(16, 1024, 1))
    yield from cases("normalisation", _BATCH_NORM[2:], _FLOAT, _small(examples))


def _small(shapes: Iterable[Shape]) -> list[Shape]:
    return [s for s in shapes if s["rows"] * s["width"] <= 2**20]


def _convolutions() -> Iterator[Case]:
    yield from cases("convolution", _CONVOLUTIONS, _FLOAT, _convolution_shapes())


def _convolution_shapes() -> Iterator[Shape]:
    sizes = grid(
        images=octaves(4, 128, 1),
        channels_in=(_COLOURS, *octaves(16, 512, 1)),
        channels_out=octaves(16, 512, 1),
        height=(2, 4, 7, 8, 14, 16, 28, 32, 56),
        kernel_height=_FILTERS,
        stride=(1, 2),
    )
    for size in sizes:
        side, kernel = size["height"], size["kernel_height"]
        inputs, outputs = size["channels_in"], size["channels_out"]
        is_depthwise = inputs == outputs and kernel == _FILTERS[2]
        shape = square_convolution(size | {"dilation": 1}, is_depthwise=is_depthwise)
        depth = inputs // shape["groups"] * kernel**2
        work = 2e-9 * size["images"] * outputs * depth * pixels_out(shape)
        # Only the first layer has few channels and a large filter.
        is_first = inputs == _COLOURS
        is_usual = is_first or (kernel < max(_FILTERS) and inputs < 8 * outputs)
        if side >= kernel and is_usual and _LEAST_GFLOP <= work <= _MOST_GFLOP:
            yield shape


def _lookups() -> Iterator[Case]:
    sizes = grid(
        rows=octaves(16, 8192, 1),
        width=octaves(16, 512, 1),
        table_rows=(100, 1_000, 10_000, 50_000),
    )
    shapes = list(sizes)
    yield from cases("embedding", ("embedding",), _FLOAT, shapes)
    yield from cases("embedding_backward", ("embedding",), _FLOAT, shapes)


def _bags() -> Iterator[Case]:
    sizes = grid(
        tables=(1,),
        table_rows=(500, 2_000, 10_000, 50_000),
        width=octaves(16, 128, 1),
        bags=octaves(16, 2048, 1),
        pooling=(1, 4, 10, 32),
    )
    shapes = [
        s
        | {
            "distinct_rows": expected_distinct(
                s["table_rows"], s["bags"] * s["pooling"], 0
            )
        }
        for s in sizes
        if s["bags"] * s["pooling"] <= 2**15
    ]
    yield from cases("embedding_bag", ("sum",), _FLOAT, shapes)
    yield from cases("embedding_bag_backward", ("dense_sum",), _FLOAT, shapes)


def _moved() -> Iterator[Case]:
    rows = _by_rows(8, 2**12)
    joined = [
        {"tensors": n, **s} for n in (2, 4, 9) for s in rows if s["width"] >= 2 * n
    ]
    yield from cases("concat", ("cat",), _FLOAT, joined)
    batched = [{"batch": n, **s} for n in (1, 4, 16) for s in rows]
    yield from cases("copy", ("copy", "contiguous", "transpose"), _FLOAT, batched)
    yield from cases("index", ("index", "gather", "tril"), _FLOAT, rows)


def _attention() -> Iterator[Case]:
    sizes = grid(
        images=octaves(1, 16, 1),
        kv_heads=(2, 4, 8, 12),
        queries=octaves(16, 256, 1),
        head_dim=(16, 32, 64),
        causal=(0, 1),
    )
    shapes: Iterable[Shape] = [
        {**size, "keys": size["queries"], "heads": size["kv_heads"]} for size in sizes
    ]
    yield from cases("attention", ("forward", "backward"), _FLOAT, shapes)


_TINY = (1, 2, 4, 8)


def _tiny() -> Iterator[Case]:
    """Ops of a handful of numbers: what the call itself takes."""
    cubes = [{"batch": 1, "m": n, "n": n, "k": n} for n in _TINY]
    yield from cases("gemm", ("mm", "addmm"), _FLOAT, cubes)
    yield from cases("gemm", ("bmm",), _FLOAT, [s | {"batch": 2} for s in cubes])
    squares = [{"rows": n, "width": 2 * n} for n in _TINY]
    for family, ops in {
        "reduction": ("sum", "mean", "mse_loss"),
        "softmax": _SOFTMAX,
        "normalisation": _LAYER_NORM,
        "index": ("index", "gather", "tril"),
    }.items():
        yield from cases(family, ops, _FLOAT, squares)
    # A batch norm takes two examples.
    pairs = [{"rows": n + 1, "width": 2 * n} for n in _TINY]
    yield from cases("normalisation", _BATCH_NORM, _FLOAT, pairs)
    copied = [{"batch": 1, **s} for s in squares]
    yield from cases("copy", ("copy", "contiguous", "transpose"), _FLOAT, copied)
    yield from cases("concat", ("cat",), _FLOAT, [{"tensors": 2, **s} for s in squares])
    looked_up = [{"rows": n, "width": 2 * n, "table_rows": 8} for n in _TINY]
    yield from cases("embedding", ("embedding",), _FLOAT, looked_up)
    yield from cases("embedding_backward", ("embedding",), _FLOAT, looked_up)
    yield from _tiny_bags()
    yield from _tiny_layers()


def _tiny_bags() -> Iterator[Case]:
    bags = [
        {
            "tables": 1,
            "table_rows": 8,
            "width": 2 * n,
            "bags": n,
            "pooling": 2,
            "distinct_rows": expected_distinct(8, 2 * n, 0),
        }
        for n in _TINY
    ]
    yield from cases("embedding_bag", ("sum",), _FLOAT, bags)
    yield from cases("embedding_bag_backward", ("dense_sum",), _FLOAT, bags)


def _tiny_layers() -> Iterator[Case]:
    images = [
        {
            "images": 1,
            **dict.fromkeys(("channels_in", "channels_out", "height", "width"), n),
            **dict.fromkeys(("kernel_height", "kernel_width"), k),
            "padding": k // 2,
            **dict.fromkeys(("stride", "dilation", "groups"), 1),
        }
        for n in _TINY
        for k in (1, 3)
    ]
    yield from cases("convolution", _CONVOLUTIONS, _FLOAT, images)
    heads = [
        {
            **dict.fromkeys(("images", "heads", "kv_heads"), 1),
            **dict.fromkeys(("queries", "keys"), n),
            "head_dim": 2 * n,
            "causal": 0,
        }
        for n in _TINY
    ]
    yield from cases("attention", ("forward", "backward"), _FLOAT, heads)


PARTS: Mapping[Callable[[], Iterable[Case]], int] = {
    _tiny: 140,
    _products: 220,
    _batched_products: 100,
    _simple: 17 * 48,
    _made: 96,
    _pooled: 96,
    _rows: 9 * 60,
    _batch_norm: 160,
    _convolutions: 330,
    _lookups: 120,
    _bags: 120,
    _moved: 7 * 50,
    _attention: 100,
}
"""The sweeps, with the number of cases to measure."""
