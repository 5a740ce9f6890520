"""Ops whose results have as many elements as some values say, and what is assumed.

Masks select all elements, all values are distinct, and all sequences have the full
length, unless the values are known. The answer tells each.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from tracedb.errors import EstimateError
from tracedb.from_code import place, synchronized
from tracedb.from_code.fake_mesh import really
from tracedb.from_code.known import know
from tracedb.from_code.spread import choices, share, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracedb.from_code.recorder import Recorder

_ATEN: Any = torch.ops.aten
_MASKS = (torch.bool, torch.uint8)
_INDEXED = frozenset(
    (
        _ATEN.index.Tensor,
        _ATEN.index_put.default,
        _ATEN.index_put_.default,
        _ATEN._index_put_impl_.default,
    )
)
_ACCUMULATED = 3
"""The argument of `index_put_` that asks to add up values."""


class Selecting:
    """Makes the results of such ops."""

    def __init__(self, recorder: Recorder) -> None:
        """Take the recorder, which notes assumptions."""
        self._recorder = recorder
        self._made: dict[Any, Callable[..., object]] = {
            _ATEN.nonzero.default: self._nonzero,
            _ATEN.masked_select.default: self._masked_select,
            _ATEN._unique2.default: self._unique,  # noqa: SLF001
            _ATEN.unique_consecutive.default: self._unique_consecutive,
            _ATEN.unique_dim.default: self._unique_dim,
            _ATEN.bincount.default: self._bincount,
            _ATEN.repeat_interleave.Tensor: _repeated,
            _ATEN._ctc_loss.default: self._ctc_loss,  # noqa: SLF001
            _ATEN._ctc_loss.Tensor: self._ctc_loss,  # noqa: SLF001
            _ATEN._pack_padded_sequence.default: self._packed,  # noqa: SLF001
        }

    def parts(self, func: Any, args: tuple[Any, ...]) -> Callable[..., object] | None:  # noqa: ANN401
        """What indexing by masks consists of; None for all other ops."""
        if func not in _INDEXED or synchronized.takes_all(func):
            return None
        masks = [i for i in args[1] if i is not None and i.dtype in _MASKS]
        if not masks:
            return None
        is_filled = func is not _ATEN.index.Tensor and (
            len(args[1]) == 1
            and args[2].numel() == 1
            and not any(args[_ACCUMULATED:][:1])
        )
        if is_filled:
            is_in_place = func is not _ATEN.index_put.default
            return _filled_ if is_in_place else _filled
        return partial(_indexed, func)

    def result(
        self,
        func: Any,  # noqa: ANN401
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> object:
        """The result of an op, as assumed; NotImplemented for all others."""
        made = self._made.get(func)
        return NotImplemented if made is None else made(*args, **kwargs)

    def _tell(self, what: str) -> None:
        self._recorder.assumptions.tell(f"{place.of_caller()}: {what}")

    def _nonzero(self, mask: torch.Tensor) -> torch.Tensor:
        count = self._selected(mask)
        return mask.new_empty((count, mask.dim()), dtype=torch.long)

    def _selected(self, mask: torch.Tensor, *, copies: int = 1) -> int:
        """How many elements a mask selects: all, unless indices are spread."""
        count, part = mask.numel() * copies, share(mask)
        if part is None:
            self._tell(f"a mask is assumed to select all of its {count:,} elements")
            return count
        found = round(count * part)
        self._tell(
            f"a mask is assumed to select {found:,} of its {count:,} elements: indices "
            "are evenly spread"
        )
        return found

    def _masked_select(self, given: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        shapes: Any = torch.broadcast_shapes(given.shape, mask.shape)  # type: ignore[no-untyped-call]
        copies = shapes.numel() // max(mask.numel(), 1)
        return given.new_empty(self._selected(mask, copies=copies))

    def _distinct(self, count: int) -> None:
        self._tell(f"all {count:,} values are assumed to be distinct")

    def _unique(
        self,
        given: torch.Tensor,
        _is_sorted: bool = True,  # noqa: FBT001, FBT002 (as PyTorch has it)
        has_inverse: bool = False,  # noqa: FBT001, FBT002
        has_counts: bool = False,  # noqa: FBT001, FBT002
    ) -> tuple[torch.Tensor, ...]:
        count = given.numel()
        self._distinct(count)
        return (
            given.new_empty(count),
            _numbers(given, given.shape if has_inverse or has_counts else (0,)),
            _numbers(given, (count if has_counts else 0,)),
        )

    def _unique_consecutive(
        self,
        given: torch.Tensor,
        has_inverse: bool = False,  # noqa: FBT001, FBT002
        has_counts: bool = False,  # noqa: FBT001, FBT002
        dim: int | None = None,
    ) -> tuple[torch.Tensor, ...]:
        count = given.numel() if dim is None else given.shape[dim]
        self._distinct(count)
        shape = given.shape if dim is None else (count,)
        return (
            given.new_empty(count) if dim is None else torch.empty_like(given),
            _numbers(given, shape if has_inverse else (0,)),
            _numbers(given, (count if has_counts else 0,)),
        )

    def _unique_dim(
        self, given: torch.Tensor, dim: int, *_: object
    ) -> tuple[torch.Tensor, ...]:
        count = given.shape[dim]
        self._distinct(count)
        numbers = [_numbers(given, (count,)) for _ in range(2)]
        return torch.empty_like(given), *numbers

    def _bincount(
        self, given: torch.Tensor, weights: torch.Tensor | None = None, least: int = 0
    ) -> torch.Tensor:
        if not least:
            _refuse("how many bins there are", "give bincount() `minlength`")
        self._tell(f"no value is assumed to be more than {least - 1:,} (`minlength`)")
        made = given.new_empty(
            least, dtype=torch.long if weights is None else torch.double
        )
        of = choices(given)
        if of is not None and of <= least and weights is None:
            with really():
                counts = spread(given.numel(), of) + [0] * (least - of)
                known = torch.tensor(counts)
            know(made, known)
            self._tell(f"the {of:,} values that are counted are equally often")
        return made

    def _ctc_loss(
        self,
        chances: torch.Tensor,
        targets: torch.Tensor,
        _lengths: object,
        target_lengths: Sequence[int] | torch.Tensor,
        *_: object,
        **__: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not isinstance(target_lengths, torch.Tensor):
            longest = max(target_lengths, default=0)
        elif targets.dim() > 1:
            longest = targets.shape[1]
            self._tell(f"the longest target is assumed to have {longest:,} labels")
        else:
            _refuse("the length of targets", "give targets of two dimensions")
        steps, batch = chances.shape[0], chances.shape[1] if chances.dim() > 2 else 1  # noqa: PLR2004
        found = (batch,) if chances.dim() > 2 else ()  # noqa: PLR2004
        return (
            chances.new_empty(found),
            chances.new_empty((batch, steps, 2 * longest + 1)),
        )

    def padded(
        self,
        data: torch.Tensor,
        of_steps: torch.Tensor,
        is_batch_first: bool,  # noqa: FBT001 (as PyTorch has it)
        padding: float,
        length: int = 0,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Undo packing by the ops of PyTorch's own code, which writes the lengths."""
        sizes: list[int] = self._recorder.known_values(of_steps)
        longest = max(length, len(sizes))
        made = data.new_full((longest, sizes[0], *data.shape[1:]), padding)
        begin = offset = 0
        for end in range(1, len(sizes) + 1):
            if end < len(sizes) and sizes[end] == sizes[begin]:
                continue
            count = sizes[begin]
            shape = (end - begin, count, *data.shape[1:])
            part = data[offset : offset + (end - begin) * count].view(shape)
            made[begin:end, :count].copy_(part)
            begin, offset = end, offset + (end - begin) * count
        lengths = [sum(size > one for size in sizes) for one in range(sizes[0])]
        return made.transpose(0, 1) if is_batch_first else made, self._known(lengths)

    def _known(self, values: list[int]) -> torch.Tensor:
        """A real tensor on the host, whose values PyTorch's own code reads."""
        with really():
            made = torch.tensor(values)
        self._recorder.holding(made).is_on_gpu = False
        return made

    def _packed(
        self,
        given: torch.Tensor,
        lengths: torch.Tensor,
        is_batch_first: bool,  # noqa: FBT001
    ) -> tuple[torch.Tensor, torch.Tensor]:
        batch, longest = given.shape[:2] if is_batch_first else given.shape[1::-1]
        known = self._recorder.known_values(lengths)
        if known is None:
            self._tell(f"all sequences are assumed to have the full length {longest:,}")
            known = [longest] * batch
        sizes = [sum(one > step for one in known) for step in range(max(known))]
        data = given.new_empty((sum(sizes), *given.shape[2:]))
        return data, self._known(sizes)


def _numbers(like: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    return like.new_empty(tuple(shape), dtype=torch.long)


def _repeated(_repeats: torch.Tensor, **_: object) -> NoReturn:
    _refuse("how much is repeated", "give repeat_interleave() `output_size`")


def _refuse(what: str, remedy: str) -> NoReturn:
    raise EstimateError(
        f"{place.of_caller()}: {what} depends on a value that is known only in a real "
        f"run; {remedy}"
    )


def _filled_(
    into: torch.Tensor, masks: Sequence[torch.Tensor], value: torch.Tensor, *_: object
) -> torch.Tensor:
    """What fills by a mask, as PyTorch does for a single value."""
    mask = masks[0]
    missing = into.dim() - mask.dim()
    wide = mask.view(*mask.shape, *[1] * missing) if missing else mask
    return into.masked_fill_(wide.to(dtype=torch.bool), value.view(()))


def _filled(
    given: torch.Tensor, masks: Sequence[torch.Tensor], value: torch.Tensor, *_: object
) -> torch.Tensor:
    return _filled_(given.clone(), masks, value)


def _indexed(
    func: Any,  # noqa: ANN401
    given: torch.Tensor,
    indices: Sequence[torch.Tensor | None],
    *more: object,
    **kwargs: object,
) -> object:
    """Index by the places of what masks select."""
    places: list[torch.Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in _MASKS:
            places.append(index)
        else:
            places += torch.nonzero(index).unbind(1)
    return func(given, places, *more, **kwargs)
