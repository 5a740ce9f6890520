"""A case: one op of one shape, and its memory."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from .errors import MicrobenchError

Shape: TypeAlias = Mapping[str, int]

_BAG = ("tables", "table_rows", "width", "bags", "pooling", "distinct_rows")
_LOOKUP = ("rows", "width", "table_rows")
_ROWS = ("rows", "width")

# The families that one device can run, with the columns of their shapes. Collectives
# need several.
SHAPES: Mapping[str, tuple[str, ...]] = {
    "gemm": ("batch", "m", "n", "k"),
    "convolution": (
        *("images", "channels_in", "channels_out", "height", "width"),
        *("kernel_height", "kernel_width", "stride", "padding", "dilation", "groups"),
    ),
    "attention": (
        *("images", "heads", "kv_heads", "queries", "keys", "head_dim", "causal"),
    ),
    "embedding": _LOOKUP,
    "embedding_backward": _LOOKUP,
    "embedding_bag": _BAG,
    "embedding_bag_backward": _BAG,
    **dict.fromkeys(
        ("elementwise", "fill", "random", "pooling"), ("elements", "inputs", "outputs")
    ),
    "reduction": _ROWS,
    "softmax": _ROWS,
    "normalisation": _ROWS,
    "scan": _ROWS,
    "concat": ("tensors", "rows", "width"),
    "copy": ("batch", "rows", "width"),
    "index": _ROWS,
    "memcpy": ("bytes",),
    "memset": ("bytes",),
    "optimizer": ("tensors", "elements"),
}

# Every column of a shape, in the order of the families.
COLUMNS = tuple(dict.fromkeys(name for names in SHAPES.values() for name in names))

DTYPE_BYTES: Mapping[str, int] = {
    "float64": 8,
    "float32": 4,
    "tf32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float8": 1,
    "int8": 1,
}

# The number of tensors that an elementwise op reads and writes, as in the relations.
ARITY: Mapping[str, tuple[int, int]] = {
    "add": (2, 1),
    "mul": (2, 1),
    "sub": (2, 1),
    "div": (2, 1),
    "rsub": (2, 1),
    "maximum": (2, 1),
    "minimum": (2, 1),
    "addcmul": (3, 1),
    "addcdiv": (3, 1),
    "neg": (1, 1),
    "abs": (1, 1),
    "clamp_min": (1, 1),
    "log": (1, 1),
    "pow": (1, 1),
    "rsqrt": (1, 1),
    "relu": (1, 1),
    "gelu": (1, 1),
    "silu": (1, 1),
    "sigmoid": (1, 1),
    "tanh": (1, 1),
    "exp": (1, 1),
    "sqrt": (1, 1),
    "cast": (1, 1),
    "threshold_backward": (2, 1),
    "gelu_backward": (2, 1),
    "sigmoid_backward": (2, 1),
    "tanh_backward": (2, 1),
    "silu_backward": (2, 1),
    "native_dropout": (1, 2),
}
# The same of ops of families that are counted as element-wise ones.
COUNTED_ALIKE: Mapping[str, tuple[int, int]] = {
    "fill": (0, 1),
    "bernoulli": (1, 1),
    "max_pool2d_with_indices": (1, 1),
    "max_pool2d_with_indices_backward": (2, 1),
}


@dataclass(frozen=True)
class Case:
    """One op of one dtype and shape; a shape has every column of its family."""

    family: str
    op: str
    dtype: str
    shape: Shape

    def __post_init__(self) -> None:
        """Raise for a family, a dtype or a shape that cannot be measured."""
        if self.family not in SHAPES:
            raise MicrobenchError(
                f"{self.family}: not a family of one device; available: "
                f"{', '.join(SHAPES)}"
            )
        if self.dtype not in DTYPE_BYTES:
            raise MicrobenchError(
                f"{self.dtype}: unknown dtype; available: {', '.join(DTYPE_BYTES)}"
            )
        if set(self.shape) != set(SHAPES[self.family]):
            raise MicrobenchError(
                f"{self.family}: a shape has {', '.join(SHAPES[self.family])}, not "
                f"{', '.join(self.shape) or 'nothing'}"
            )

    @property
    def key(self) -> str:
        """The case as one line of text: equal cases have equal keys."""
        shape = {name: self.shape[name] for name in SHAPES[self.family]}
        return json.dumps([self.family, self.op, self.dtype, shape])

    @classmethod
    def of_key(cls, key: str) -> "Case":
        """Read a case from its key."""
        return cls(*json.loads(key))

    @property
    def memory_bytes(self) -> int:
        """[B] The memory of the case's tensors, inputs and results."""
        elements = _ELEMENTS[self.family](self.shape)
        return sum(elements) * DTYPE_BYTES[self.dtype]


def of_families(cases: Iterable[Case], families: Iterable[str]) -> list[Case]:
    """The cases of these families; all if none are given."""
    wanted = set(families) or set(SHAPES)
    if unknown := wanted - set(SHAPES):
        raise MicrobenchError(
            f"{', '.join(sorted(unknown))}: unknown family; available: "
            f"{', '.join(SHAPES)}"
        )
    return [case for case in cases if case.family in wanted]


def pixels_out(shape: Shape) -> int:
    """The number of output pixels of a convolution, per image and channel.

    >>> pixels_out(dict(height=7, width=9, kernel_height=3, kernel_width=3,
    ...                 stride=2, padding=1, dilation=1))
    20
    """
    reach = 2 * shape["padding"] - 1
    return prod(
        (shape[side] + reach - shape["dilation"] * (shape[f"kernel_{side}"] - 1))
        // shape["stride"]
        + 1
        for side in ("height", "width")
    )


# Elements of every tensor of a case. Indices count as half as many elements of fp32.


def _gemm(s: Shape) -> Iterable[int]:
    return (s["batch"] * s[a] * s[b] for a, b in ("mk", "kn", "mn"))


def _convolution(s: Shape) -> Iterable[int]:
    weights = s["channels_in"] // s["groups"] * s["kernel_height"] * s["kernel_width"]
    return (
        s["images"] * s["channels_in"] * s["height"] * s["width"],
        s["channels_out"] * weights,
        s["images"] * s["channels_out"] * pixels_out(s),
    )


def _attention(s: Shape) -> Iterable[int]:
    token = s["images"] * s["head_dim"]
    return (
        2 * token * s["heads"] * s["queries"],
        2 * token * s["kv_heads"] * s["keys"],
    )


def _bags(s: Shape) -> Iterable[int]:
    lookups = s["tables"] * s["bags"] * s["pooling"]
    table = s["tables"] * s["table_rows"] * s["width"]
    return table, s["tables"] * s["bags"] * s["width"], 2 * lookups


def _bags_backward(s: Shape) -> Iterable[int]:
    lookups = s["tables"] * s["bags"] * s["pooling"]
    return *_bags(s), 2 * lookups * s["width"]


def _lookup(s: Shape) -> Iterable[int]:
    return s["table_rows"] * s["width"], s["rows"] * s["width"], 2 * s["rows"]


def _elementwise(s: Shape) -> Iterable[int]:
    return (s["elements"] * (s["inputs"] + s["outputs"]),)


def _twice(s: Shape) -> Iterable[int]:
    return (2 * s.get("batch", 1) * s["rows"] * s["width"],)


def _bytes(s: Shape) -> Iterable[int]:
    return (2 * s["bytes"],)


_ELEMENTS: Mapping[str, Callable[[Shape], Iterable[int]]] = {
    "gemm": _gemm,
    "convolution": _convolution,
    "attention": _attention,
    "embedding": _lookup,
    "embedding_backward": lambda s: (*_lookup(s), s["table_rows"] * s["width"]),
    "embedding_bag": _bags,
    "embedding_bag_backward": _bags_backward,
    **dict.fromkeys(("elementwise", "fill", "random", "pooling"), _elementwise),
    "reduction": _twice,
    "softmax": _twice,
    "normalisation": _twice,
    "scan": lambda s: (4 * s["rows"] * s["width"],),
    "concat": _twice,
    "copy": _twice,
    "index": lambda s: (4 * s["rows"] * s["width"],),
    "memcpy": _bytes,
    "memset": _bytes,
    "optimizer": lambda s: (4 * s["elements"],),
}
