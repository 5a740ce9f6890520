"""Parse the text of NVTX ranges: PyTorch's `emit_nvtx` writes ops as ranges."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from tracedb.ingest.foreign.event import integer

# `emit_nvtx` appends these in this order, if known.
_TAILS = {
    ", input_op_ids = ": "input_op_ids",
    ", sizes = ": "Input Dims",
    ", op_id = ": "External id",
    ", seq = ": "Sequence number",
}
_DIMS = msgspec.json.Decoder(list[list[int]])
_OP = re.compile(r"(aten|autograd|c10d?|prims?|torch|quantized|inductor|nested)::.*")
# Ops without a namespace.
_BARE_OPS = frozenset({"detach", "detach_", "record_param_comms"})


class Range(NamedTuple):
    """A user range, or an op written as one."""

    name: str
    is_op: bool
    args: dict[str, Any]


def parse(text: str) -> Range:
    """Distinguish ops from user ranges, and parse their names.

    >>> parse("aten::mm, seq = 12, op_id = 5, sizes = [[8, 16], [16, 4]]").args
    {'Input Dims': [[8, 16], [16, 4]], 'External id': 5, 'Sequence number': 12}
    >>> parse("MmBackward0, seq = 12").is_op
    True
    >>> parse("epoch 3, part 2")
    Range(name='epoch 3, part 2', is_op=False, args={})
    """
    name, args = text, {}
    for mark, key in _TAILS.items():
        head, found, tail = name.partition(mark)
        if found:
            name, args[key] = head, _value(tail, key)
    if None in args.values():
        return Range(text, is_op=False, args={})
    is_op = "Sequence number" in args or name in _BARE_OPS or bool(_OP.fullmatch(name))
    is_op = is_op or ("External id" in args and "::" in name)
    return Range(name, is_op, args)


def _value(text: str, key: str) -> object:
    if key == "input_op_ids":
        return text
    if key != "Input Dims":
        return integer(text)
    try:
        return _DIMS.decode(text)
    except msgspec.DecodeError:
        return None
