"""Gradients whose formulas take another way for fake tensors.

PyTorch computes the gradients of `prod` and `cumprod` from their results, unless an
element is zero. It cannot ask a fake tensor, and then takes the way that is right for
zeros, too: with more memory. Here no element is zero, and the answer says so. Nor can
it ask on a CPU whether `max`, `min` or `median` of a whole tensor is a NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tracedb.from_code import in_place, place
from tracedb.from_code.changed import changed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracedb.from_code.recorder import Recorder

    _Op = Callable[..., object]

_aten: Any = torch.ops.aten
_BEGIN = (_aten.ones.default, _aten.clone.default)
"""What the way of `prod` for zeros begins with."""
_OF_ALL = "ProdBackward0"
"""The gradient of a product of all elements."""

_EXTREMES = ("MaxBackward1", "MinBackward1", "MedianBackward0", "NanmedianBackward0")
"""The gradients of an extreme of all elements, which all equal ones share."""

_SUMS = 2
"""The way of `cumprod` for zeros puts sums in place so often, the last time at its end:
from the first zero on, and before it."""


class Formulas:
    """Hides the ops of such a formula, and runs the usual ones when its last comes."""

    def __init__(self, recorder: Recorder) -> None:
        """Take the recorder of ops."""
        self._recorder = recorder
        self._hidden: list[torch.Tensor] = []
        self._given: Any = None
        self._product: Any = None
        self._gradient: Any = None
        self._dim = self._sums_to_come = 0
        self._is_usual = False

    def parts(self, func: object, args: tuple[Any, ...]) -> _Op | None:
        """What runs instead of an op of such a formula; None for all other ops."""
        name = "" if self._is_usual else in_place.formula()
        if name.startswith("ProdBackward"):
            return self._of_product(func, args, is_of_all=name == _OF_ALL)
        if name in _EXTREMES and not self._recorder.has_gpu:
            return self._of_extreme(func, args)
        return self._of_products(func, args) if name == "CumprodBackward0" else None

    def _of_product(
        self, func: object, args: tuple[Any, ...], *, is_of_all: bool
    ) -> _Op | None:
        if not self._hidden and func not in _BEGIN:
            return None
        if func is _aten.mul.Tensor and not self._is_hidden(args[0]):
            usual = self._of_all if is_of_all else self._of_rows
            return self._usual(lambda gradient, _: usual(gradient, self._given))
        if self._given is None and isinstance(args[0], torch.Tensor):
            self._given = args[0]
        return self._hide(func)

    def _of_all(self, gradient: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        """Look for zeros, of which there are none, and divide the product.

        The gradient stands for the product, which is as large.
        """
        is_zero = given == 0
        with self._recorder.apart():
            found = is_zero.new_empty((0, is_zero.dim()), dtype=torch.long)
        name = "aten::nonzero"
        self._recorder.computed(name, [is_zero], [found], (name, [is_zero]))
        del is_zero
        return gradient * (gradient / given).conj()

    def _of_rows(self, gradient: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        """Count the zeros in each row, and divide the products."""
        is_zero: Any = given == 0
        sizes = enumerate(zip(gradient.shape, given.shape, strict=True))
        reduced = [i for i, (one, of_all) in sizes if one != of_all]
        counts = is_zero.sum(reduced, keepdim=True)
        with changed(self._recorder, {"is_number_passed_on": True}):
            _aten._local_scalar_dense(counts.sum())  # noqa: SLF001
        return gradient * (gradient / given).conj()

    def _of_extreme(self, func: object, args: tuple[Any, ...]) -> _Op | None:
        """On a CPU: its way for tensors of a subclass, which begins with `isnan`."""
        if func is _aten.isnan.default and self._given is None:
            self._given = args[0]
        elif self._given is None:
            return None
        elif func is _aten.eq.Tensor:
            self._product = args[1]
        elif func is _aten.div.Tensor:
            self._gradient = args[0]
        elif func is _aten.mul.Tensor:
            return self._instead(self._shared)
        return self._hide(func)

    def _shared(self, *_: object) -> torch.Tensor:
        """Look whether the extreme is a NaN, and divide by how many are equal."""
        given, extreme, gradient = self._given, self._product, self._gradient
        self._hidden.clear()
        self._given = self._product = self._gradient = None
        _aten._local_scalar_dense(extreme.isnan())  # noqa: SLF001
        mask = given == extreme
        made = gradient.new_zeros(given.shape, dtype=given.dtype)
        found: torch.Tensor = made.masked_fill_(mask, gradient / mask.sum())
        return found

    def _of_products(self, func: object, args: tuple[Any, ...]) -> _Op | None:
        if func is _aten.mul.Tensor and self._product is None:
            return self._instead(self._multiply)
        if func is _aten.eq.Scalar and self._given is None:
            return self._instead(self._compare)
        if func is _aten.where.self:
            self._sums_to_come -= 1
            if not self._sums_to_come:
                return self._usual(self._sums)
        if func is _aten.cumsum.default:
            self._dim = args[1]
        return None if self._given is None else self._hide(func)

    def _multiply(self, products: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        self._product = products * gradient
        return self._product  # type: ignore[no-any-return]

    def _compare(self, given: torch.Tensor, zero: float) -> torch.Tensor:
        self._given, self._sums_to_come = given, _SUMS
        is_zero: Any = given == zero
        _aten._local_scalar_dense(is_zero.any())  # noqa: SLF001
        return is_zero  # type: ignore[no-any-return]

    def _sums(self, *_: object) -> torch.Tensor:
        """Divide the sums of what comes after each element."""
        reverse = self._product.flip(self._dim)
        sums = reverse.cumsum(self._dim)
        found = sums.flip(self._dim)
        del reverse, sums
        return found / self._given  # type: ignore[no-any-return]

    def _is_hidden(self, tensor: torch.Tensor) -> bool:
        storage = tensor.untyped_storage()._cdata  # noqa: SLF001 (it has no public name)
        return any(
            made.untyped_storage()._cdata == storage  # noqa: SLF001
            for made in self._hidden
        )

    def _hide(self, func: Any) -> _Op:  # noqa: ANN401 (an overload of an op)
        def run(*args: object, **kwargs: object) -> object:
            self._recorder.leave_out()
            with self._recorder.apart():
                made = func(*args, **kwargs)
            self._hidden += made if isinstance(made, (list, tuple)) else [made]
            return made

        return run

    def _instead(self, function: _Op) -> _Op:
        """The function, whose ops are recorded instead of the one it stands for."""

        def run(*args: object, **kwargs: object) -> object:
            self._recorder.leave_out()
            with changed(self, {"_is_usual": True}):
                return function(*args, **kwargs)

        return self._recorder.recorded(run)

    def _usual(self, function: _Op) -> _Op:
        """The last op: it runs the usual way."""

        def run(*args: object, **kwargs: object) -> object:
            try:
                return function(*args, **kwargs)
            finally:
                self._recorder.assumptions.tell(
                    f"{place.of_caller()}: no element of a product is assumed to be 0"
                )
                self._hidden.clear()
                self._given = self._product = None

        return self._instead(run)
