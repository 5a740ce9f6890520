"""A fake GPU that PyTorch code finds and uses.

All tensors are fake CPU tensors, so that any build of PyTorch works; the recorder
tracks which of them would be on the GPU. Where a GPU has its own op (attention,
dropout), that op is dispatched.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from operator import index
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional
from torch.nn.attention import flex_attention
from torch.nn.parameter import is_lazy
from torch.nn.utils import clip_grad
from torch.optim import optimizer as _optimizer
from torch.overrides import TorchFunctionMode
from torch.utils import _foreach_utils, checkpoint
from torch.utils._device import DeviceContext

from tracedb.errors import EstimateError
from tracedb.from_code import lazy, place
from tracedb.from_code.attention import Attention
from tracedb.from_code.capability import known_capability
from tracedb.from_code.casting import HALF
from tracedb.from_code.changed import changed
from tracedb.from_code.checks import FOUND
from tracedb.from_code.cuda_names import (
    CONSTANT,
    CUDA,
    GRAPHS,
    HELD,
    HISTORY,
    NCCL,
    TYPED,
    Generator,
    Properties,
    capability,
)
from tracedb.from_code.fake_cuda import STREAMS, Nvtx, nothing, told
from tracedb.from_code.fake_mesh import really
from tracedb.from_code.fused_lookup import FusedLookup
from tracedb.from_code.known import know
from tracedb.from_code.spread import note_classes, spread
from tracedb.from_code.unknown import Count, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from tracedb.from_code.recorder import Recorder

_own_scale = torch.amp.GradScaler.get_scale
_GPU = torch.device("cuda", 0)
_CPU = torch.device("cpu")
_LISTED = (_foreach_utils._foreach_supported_types, _optimizer._foreach_supported_types)  # noqa: SLF001
"""Tensor types for which optimizers and clipping use `foreach` ops on a GPU."""

# What CUDA's autocast computes in fp32 and the CPU's does not (PyTorch's documentation,
# "CUDA Ops that autocast to float32").
_IN_FP32 = frozenset(
    [
        "acos",
        "asin",
        "cosh",
        "exp",
        "expm1",
        "log",
        "log10",
        "log1p",
        "log2",
        "pow",
        "reciprocal",
        "rsqrt",
        "sinh",
        "tan",
        "softmax",
        "log_softmax",
        "softmin",
        "softplus",
        "layer_norm",
        "group_norm",
        "norm",
        "cumsum",
        "cumprod",
        "prod",
        "sum",
        "dist",
        "cosine_similarity",
        "cross_entropy",
        "cross_entropy_loss",
        "nll_loss",
        "nll_loss_nd",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "kl_div",
        "binary_cross_entropy_with_logits",
    ]
)


_PARSE: Any = torch._C._nn._parse_to  # noqa: SLF001 (it has no public name)
"""PyTorch's parser of the arguments of `to`."""
_PADS: Any = torch._C._VariableFunctions._pad_packed_sequence  # noqa: SLF001 (it has no public name)
_COPY = 3
"""Position of the argument `copy` of `Tensor.to`."""
_SPLITS: tuple[Any, ...] = (
    *(torch.split, torch.Tensor.split),
    *(torch.split_with_sizes, torch.Tensor.split_with_sizes),
)


def _parsed(
    *args: object, **kwargs: object
) -> tuple[torch.device | None, torch.dtype | None, bool, torch.memory_format | None]:
    """The device, dtype, `non_blocking` and memory format that `to` is asked for."""
    if args and isinstance(args[0], int):
        args = (_device(args[0]), *args[1:])
    if isinstance(kwargs.get("device"), int):
        kwargs["device"] = _device(kwargs["device"])
    with torch._C.DisableTorchFunction():  # noqa: SLF001 (it has no public name)
        found: tuple[Any, Any, bool, Any] = _PARSE(*args, **kwargs)
    return found


def _device(*args: Any, **kwargs: Any) -> torch.device:  # noqa: ANN401
    """The device that code names: a bare number is a GPU."""
    named = args or (*kwargs.values(),)
    if isinstance(named[0], int):
        return torch.device("cuda", named[0])
    with torch._C.DisableTorchFunction():  # noqa: SLF001 (it has no public name)
        return torch.device(*args, **kwargs)


def is_gpu(value: object) -> bool:
    """Whether a value names a GPU."""
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and value.partition(":")[0] == "cuda"


def _is_cpu(value: object) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cpu"
    return isinstance(value, str) and value == "cpu"


class FakeGpu(TorchFunctionMode):
    """Makes PyTorch functions behave as with a GPU."""

    def __init__(self, recorder: Recorder, name: str = "") -> None:
        """Take the recorder of ops and the GPU's name."""
        super().__init__()
        self._name = name
        self.is_name_asked = False
        self._recorder = recorder
        self._side = recorder.side
        self._lookups = FusedLookup(recorder)
        own: dict[Any, Callable[..., object]] = {
            torch.device: _device,
            _PARSE: _parsed,
            torch.Tensor.device.__get__: self.device,
            torch.Tensor.is_cuda.__get__: self._is_on_gpu,  # type: ignore[attr-defined]
            torch.Tensor.is_cpu.__get__: lambda t, *_: not self._is_on_gpu(t),  # type: ignore[attr-defined]
            torch.Tensor.get_device: lambda t: self.device(t).index or 0,
            torch.Tensor.item: self._item,
            torch.Tensor.__float__: lambda t: float(self._item(t)),
            torch.Tensor.__bool__: lambda t: bool(self._item(t)),
            torch.Tensor.__int__: lambda t: int(self._item(t)),
            torch.Tensor.__index__: lambda t: index(self._item(t)),
            torch.Tensor.__format__: self._formatted,
            torch.Tensor.tolist: self.listed,
            torch.Tensor.__getitem__: partial(self._at, torch.Tensor.__getitem__),
            torch.Tensor.__setitem__: partial(self._at, torch.Tensor.__setitem__),
            torch.Tensor.numpy: self._array,
            torch.Tensor.__array__: self._array,
            torch.Tensor.is_pinned: lambda *_, **__: False,
            torch.Tensor.to: self._to,
            torch.Tensor.cuda: lambda t, *_, **more: self._to(t, _GPU, **more),
            torch.Tensor.cpu: lambda t, *_, **__: self._to(t, _CPU),
            torch.Tensor.__deepcopy__: _copied,
            torch.Tensor.data.__set__: _replaced,  # type: ignore[attr-defined]
            torch.Tensor.pin_memory: lambda t, *_, **__: t,
            torch.Tensor.backward: self._backward,
            torch.dropout: self.dropout,
            functional.dropout: self.dropout,
            functional.scaled_dot_product_attention: self.attention,
            functional.one_hot: self._one_hot,
        }
        own |= {split: partial(self._split, split) for split in _SPLITS}
        own[_PADS] = recorder.selecting.padded
        for check, each in FOUND.items():
            own[check] = partial(self._checked, check, each)
        self._own = own

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 (as PyTorch has it)
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Do what the function does on a GPU."""
        del types
        kwargs = kwargs or {}
        # Pinned memory needs a driver; fake tensors have no memory.
        kwargs.pop("pin_memory", None)
        with _cast_as_on_gpu() as is_cast:
            if is_cast and getattr(func, "__name__", "") in _IN_FP32:
                args, kwargs = _in_fp32(args), _in_fp32(kwargs)
            own = self._own.get(func) or self._lookups.instead(func)
            if own is not None:
                return own(*args, **kwargs)
            return self._placed(func, args, kwargs)

    def _placed(
        self,
        func: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        """Call a function, whose arguments may name the device of its result."""
        if isinstance(kwargs.get("device"), int):
            kwargs = {**kwargs, "device": _device(kwargs["device"])}
        named = [v for v in (*args, *kwargs.values()) if is_gpu(v) or _is_cpu(v)]
        if not named:
            return func(*args, **kwargs)
        on_gpu = not self._stays_on_host(named[-1]) and self._names(named[-1])
        args = tuple(_CPU if is_gpu(value) else value for value in args)
        kwargs = {k: _CPU if is_gpu(v) else v for k, v in kwargs.items()}
        with self._side.placing(on_gpu=on_gpu, is_given=True):
            return func(*args, **kwargs)

    def _stays_on_host(self, device: object) -> bool:
        """Whether PyTorch's own code creates something there, such as step counts."""
        return _is_cpu(device) and place.is_torch_calling()

    def _names(self, device: object) -> bool:
        """Whether a device that the code names stands for the GPU.

        In code that never names a GPU, every device does.
        """
        if is_gpu(device) and place.is_asked_by_user():
            self.is_named()
        return is_gpu(device) or not self._side.is_gpu_named

    def is_asked(self) -> None:
        """Note that the code, not PyTorch's own, asks for a GPU."""
        if not place.is_torch_calling():
            self.is_named()

    def is_named(self) -> None:
        """From now on a CPU is the host, where all is that the code made before."""
        if not self._side.is_gpu_named:
            self._side.is_gpu_named = True
            self._side.is_on_gpu = False
            self._recorder.ledger.leave_gpu()

    def _is_on_gpu(self, tensor: torch.Tensor, *_: object) -> bool:
        return self._recorder.holding(tensor).is_on_gpu

    def device(self, tensor: torch.Tensor, *_: object) -> torch.device:
        """The device that a tensor would be on."""
        return _GPU if self._is_on_gpu(tensor) else _CPU

    def _item(self, tensor: torch.Tensor) -> Any:  # noqa: ANN401 (a number)
        known = self._recorder.known_number(tensor)
        with changed(self._recorder, {"is_number_passed_on": True}):
            torch.Tensor.item(tensor)
        if known is not None:
            return known
        return _unknown(tensor)

    def _one_hot(self, tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
        """Make classes, whose number is known."""
        if num_classes == -1 and self._recorder.known_values(tensor) is None:
            raise EstimateError(
                f"{place.of_caller()}: the number of classes depends on a value that "
                "is known only in a real run; give one_hot() `num_classes`"
            )
        if num_classes == -1 or tensor.dtype is not torch.int64:
            return functional.one_hot(tensor, num_classes)
        # Fake tensors are compared with all classes instead.
        made = tensor.new_zeros((*tensor.shape, num_classes))
        if tensor.numel():
            # What is noted of a tensor holds until it is written to the next time.
            made = made.scatter_(-1, tensor.unsqueeze(-1), 1).data
        note_classes(tensor, made)
        return made

    def _split(
        self,
        split: Callable[..., object],
        tensor: torch.Tensor,
        sizes: Any,  # noqa: ANN401 (a number, or a list of them)
        dim: int = 0,
    ) -> object:
        """Split a tensor: pieces of unknown sizes are as large as each other."""
        is_unknown = [isinstance(one, Unknown) for one in _listed(sizes)]
        if any(is_unknown):
            known = sum(one for one in sizes if not isinstance(one, Unknown))
            left = tensor.shape[dim] - known
            parts = iter(spread(left, sum(is_unknown)))
            sizes = [next(parts) if isinstance(s, Unknown) else s for s in sizes]
            self._recorder.assumptions.tell(
                f"{place.of_caller()}: {len(sizes):,} pieces of unknown sizes are "
                "assumed to be equally large"
            )
        return split(tensor, sizes, dim)

    def _at(
        self,
        func: Callable[..., object],
        tensor: torch.Tensor,
        places: object,
        *value: object,
    ) -> object:
        """Index a tensor: an unknown number selects as much as any other."""
        each = places if isinstance(places, tuple) else (places,)
        is_number = any(isinstance(p, torch.Tensor) and not p.dim() for p in each)
        with changed(self._recorder, {"is_number_passed_on": is_number}):
            return func(tensor, places, *value)

    def _checked(
        self,
        check: Callable[..., object],
        each: float,
        *args: object,
        **kwargs: object,
    ) -> object:
        """Check for overflow, of which there is none."""
        result = check(*args, **kwargs)
        self._recorder.checks.found(result, each)
        return result

    def _formatted(self, tensor: torch.Tensor, form: str) -> str:
        """A number is read from the GPU; a larger tensor is printed as a fake one."""
        return format(self._item(tensor) if not tensor.dim() else repr(tensor), form)

    def listed(self, tensor: torch.Tensor) -> object:
        """The values as a list, after one copy to the host."""
        known = self._recorder.known_values(tensor)
        if known is not None:
            self._to(tensor, _CPU)
            return known
        return self._array(self._to(tensor, _CPU)).tolist()

    @staticmethod
    def _array(tensor: torch.Tensor, *_: object, **__: object) -> Any:  # noqa: ANN401
        """The values: those of a real tensor are known."""
        import numpy as np

        if isinstance(tensor, FakeTensor):
            values = np.empty(tuple(tensor.shape), dtype=object)
            values.fill(_unknown(tensor))
            return values
        with really():
            return tensor.numpy(force=True)

    def _to(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ANN401
        """Copy between host and GPU where the tensor is on the other device."""
        if args and isinstance(args[0], torch.Tensor):
            args = (self.device(args[0]), args[0].dtype, *args[1:])
        is_copy = bool(kwargs.pop("copy", False) or any(args[_COPY:]))
        device, dtype, is_async, layout = _parsed(*args[:_COPY], **kwargs)
        if device is not None and device.type == "meta":
            return tensor.to(device, dtype)
        on_gpu = self._is_on_gpu(tensor) if device is None else self._names(device)
        if on_gpu and device is not None and self._is_given_on_host(tensor):
            self._recorder.holding(tensor).is_on_gpu = False
        given: dict[str, Any] = {"dtype": dtype or tensor.dtype}
        if layout is not None:
            given["memory_format"] = layout
        if on_gpu == self._is_on_gpu(tensor):
            return tensor.to(**given, copy=is_copy)
        way = ("HtoD" if on_gpu else "DtoH") + " async" * is_async
        with self._side.placing(on_gpu=on_gpu, transfer=way):
            made = tensor.to(**given, copy=True)
        if made.requires_grad:
            # To autograd, both are on one device.
            source = _CPU if on_gpu else _GPU
            moved: Any = made  # its type stub of hooks has no types
            moved.register_hook(lambda gradient: self._to(gradient, source))
        return made

    @staticmethod
    def _is_given_on_host(tensor: torch.Tensor) -> bool:
        """Whether a tensor that code moves to the GPU is a real one on the host."""
        if isinstance(tensor, FakeTensor) or place.is_torch_calling():
            return False
        with torch._C.DisableTorchFunction():  # noqa: SLF001 (it has no public name)
            return tensor.device.type == "cpu"

    def _backward(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        """Stay active for recomputation in the backward pass."""
        names = ("gradient", "retain_graph", "create_graph", "inputs")
        kwargs.update(zip(names, args, strict=False))
        kwargs["grad_tensors"] = kwargs.pop("gradient", None)
        with self:
            torch.autograd.backward(tensor, **kwargs)

    def dropout(
        self,
        input: torch.Tensor,  # noqa: A002 (as PyTorch has it)
        p: float = 0.5,
        training: bool = True,  # noqa: FBT001, FBT002 (as PyTorch has it)
        inplace: bool = False,  # noqa: FBT001, FBT002
        *,
        train: bool | None = None,
    ) -> torch.Tensor:
        """Dispatch CUDA's op for dropout, which is one kernel unless it is in place."""
        is_training = training if train is None else train
        if not is_training or p == 0:
            return input
        if inplace:
            return torch.dropout_(input, p, is_training)
        return torch.native_dropout(input, p, is_training)[0]

    def attention(self, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ANN401
        """Dispatch the ops of CUDA's attention."""
        given = Attention(*args, **kwargs | {"gpu": known_capability(self._name)})
        made: torch.Tensor = given.cast().on_gpu(self.dropout)
        return made

    def flex_attention(  # noqa: PLR0913, PLR0917 (as PyTorch has it)
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        score_mod: object = None,
        block_mask: object = None,
        scale: float | None = None,
        enable_gqa: bool = False,  # noqa: FBT001, FBT002
        return_lse: bool = False,  # noqa: FBT001, FBT002
        **_: object,
    ) -> object:
        """Compute all blocks, as attention without a mask does."""
        if score_mod is not None or block_mask is not None:
            self._recorder.assumptions.tell(
                f"{place.of_caller()}: flex attention is assumed to compute all "
                "blocks, and to change scores at no cost"
            )
        made = self.attention(query, key, value, scale=scale, enable_gqa=enable_gqa)
        if not return_lse:
            return made
        return made, made.new_empty(made.shape[:-1], dtype=torch.float32)


def _listed(sizes: object) -> Sequence[object]:
    return sizes if isinstance(sizes, (list, tuple)) else ()


def _unknown(tensor: torch.Tensor) -> Unknown:
    """What is known of an element: whether it is an integer."""
    is_number = tensor.is_floating_point() or tensor.dtype is torch.bool
    return Unknown() if is_number else Count()


def _copied(tensor: torch.Tensor, memo: dict[int, object]) -> object:
    """A deep copy; PyTorch's own sets the address of the copy's memory."""
    if not isinstance(tensor, FakeTensor):
        return tensor.__deepcopy__(memo)  # type: ignore[no-untyped-call]
    if id(tensor) not in memo:
        copied = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        memo[id(tensor)] = copied
    return memo[id(tensor)]


def _replaced(tensor: torch.Tensor, data: torch.Tensor) -> None:
    """Set the data of a tensor, whose known values are those of the data."""
    torch.Tensor.data.__set__(tensor, data)  # type: ignore[attr-defined]
    know(tensor, data.constant if isinstance(data, FakeTensor) else None)


@contextmanager
def _cast_as_on_gpu() -> Iterator[bool]:
    """Emulate CUDA's autocast, which ignores CPU tensors; yield if it is active."""
    if not torch.is_autocast_enabled("cuda"):
        yield False
    elif torch.is_autocast_enabled("cpu"):
        yield True
    else:
        with torch.autocast("cpu", dtype=torch.get_autocast_dtype("cuda")):
            yield True


def _in_fp32(values: Any) -> Any:  # noqa: ANN401
    """The arguments with half-precision tensors cast to fp32."""
    if isinstance(values, dict):
        return {name: _in_fp32((value,))[0] for name, value in values.items()}
    return tuple(
        v.to(dtype=torch.float32)
        if isinstance(v, torch.Tensor) and v.dtype in HALF
        else v
        for v in values
    )


def _answers(
    gpu: FakeGpu, name: str, count: int, recorder: Recorder
) -> dict[str, object]:
    """The replacements for functions of `torch.cuda`."""

    def available() -> bool:
        gpu.is_asked()
        return True

    def named(device: object = None) -> str:
        del device
        gpu.is_name_asked = True
        return name

    def held(*_: object, **__: object) -> int:
        there = (h for h in recorder.ledger.held if h.is_on_gpu and h.end is None)
        return sum(h.size_bytes for h in there)

    def generator_state(*_: object) -> torch.Tensor:
        with really():
            return torch.get_rng_state()

    return {
        "is_available": available,
        "get_rng_state": generator_state,
        "set_rng_state": nothing,
        **STREAMS,
        **GRAPHS,
        **TYPED,
        "get_device_properties": lambda *_: Properties(named()),
        "get_device_capability": lambda *_: capability(named()),
        "is_current_stream_capturing": lambda: False,
        "memory_summary": lambda *_, **__: "",
        "device_count": lambda: count,
        "get_device_name": named,
        "is_bf16_supported": lambda *_, **__: True,
        **dict.fromkeys(HELD, held),
        **CONSTANT,
    }


@contextmanager
def with_foreach() -> Iterator[None]:
    """Let optimizers and clipping use `foreach` ops for fake tensors, too."""
    for types in _LISTED:
        types.append(FakeTensor)
    try:
        yield
    finally:
        for types in _LISTED:
            types.remove(FakeTensor)


def _is_overridden(*tensors: object) -> bool:
    """Whether a class of the user's own does what a function does."""
    own = (one for one in tensors if type(one) is not torch.Tensor)
    plain = torch._C._disabled_torch_function_impl  # noqa: SLF001 (as its subclasses have it)
    return any(
        getattr(type(one), "__torch_function__", plain) is not plain for one in own
    )


def python_functions(**own: Callable[..., object]) -> AbstractContextManager[None]:
    """Replace some of PyTorch's functions in Python, and let the others run directly.

    Through function modes their arguments would live until they return, also those that
    they replace. Each has the name of what it replaces: code that replaces it in turn
    (`context_parallel`) asks for it.
    """
    asked: dict[str, object] = {
        "has_torch_function": lambda tensors: _is_overridden(*tensors),
        **dict.fromkeys(
            ("has_torch_function_unary", "has_torch_function_variadic"), _is_overridden
        ),
    }
    named = {name: _named(name, function) for name, function in own.items()}
    return changed(functional, asked | named)


def _named(name: str, function: Callable[..., object]) -> Callable[..., object]:
    """A function with the name and documentation of one of `torch.nn.functional`."""

    @wraps(getattr(functional, name))
    def called(*args: object, **kwargs: object) -> object:
        return function(*args, **kwargs)

    return called


def staying() -> AbstractContextManager[None]:
    """Keep function modes in the backward pass, where layers are computed again."""
    return changed(torch.autograd, {"has_torch_function": lambda _tensors: False})


@contextmanager
def _without_onednn() -> Iterator[None]:
    """Expand recurrent layers, which oneDNN computes as one op."""
    before = torch._C._get_mkldnn_enabled()  # noqa: SLF001 (the public switch warns)
    torch._C._set_mkldnn_enabled(False)  # noqa: SLF001, FBT003
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)  # noqa: SLF001


def _scale(scaler: torch.amp.GradScaler) -> float:
    """Read the scale from the GPU; without overflow, it is the first one."""
    _own_scale(scaler)
    return scaler._init_scale if scaler.is_enabled() else 1.0  # noqa: SLF001


_GENERIC = ("current_stream", "set_stream", "synchronize")
"""What `torch.accelerator` calls as `torch.cuda` does."""


def _accelerator(gpu: FakeGpu, count: int) -> dict[str, object]:
    """The replacements for functions of `torch.accelerator`."""

    def current(*_: object, **__: object) -> torch.device:
        gpu.is_asked()
        return torch.device("cuda")

    def available() -> bool:
        gpu.is_asked()
        return True

    return {
        **dict.fromkeys(HELD, torch.cuda.memory_allocated),
        **dict.fromkeys(("empty_cache", "reset_peak_memory_stats"), nothing),
        "is_available": available,
        "device_count": lambda: count,
        "current_accelerator": current,
        **{name: STREAMS[name] for name in _GENERIC},
        **dict.fromkeys(
            ("current_device_index", "current_device_idx", "set_device_index"), nothing
        ),
    }


def _grouped(gpu: FakeGpu) -> dict[str, object]:
    """The function that groups tensors by device and type, where fake ones are."""
    own: Any = _foreach_utils._group_tensors_by_device_and_dtype  # noqa: SLF001

    def grouped(lists: list[list[Any]], with_indices: bool = False) -> object:  # noqa: FBT001, FBT002
        found: dict[object, tuple[list[list[Any]], list[int]]] = {}
        for (_, dtype), (columns, numbers) in own(lists, with_indices).items():
            for at, first in enumerate(columns[0]):
                of_kind = found.setdefault(
                    (gpu.device(first), dtype), ([[] for _ in columns], [])
                )
                for kept, column in zip(of_kind[0], columns, strict=True):
                    kept.extend(column[at : at + 1])
                of_kind[1].extend(numbers[at : at + 1])
        return found

    return {"_group_tensors_by_device_and_dtype": grouped}


def _recomputed(gpu: FakeGpu) -> dict[str, object]:
    """How a checkpoint compares what it recomputes: real tensors may be on the GPU."""
    name = "_allowed_determinism_checks_to_fns"

    def form(tensor: torch.Tensor) -> object:
        return tensor.shape, tensor.dtype, gpu.device(tensor)

    return {name: {**getattr(checkpoint, name), "default": form}}


def _resized(recorder: Recorder) -> Callable[..., object]:
    """A `resize_` of storages that records the new size."""
    resize = torch.UntypedStorage.resize_

    def resized(storage: torch.UntypedStorage, size: int) -> object:
        found = resize(storage, size)
        recorder.ledger.resize(storage, size)
        return found

    return resized


def converted_in_place(
    module: nn.Module,
    convert: Callable[[torch.Tensor], torch.Tensor],
    recurse: bool = True,  # noqa: FBT001, FBT002 (as PyTorch has it)
) -> nn.Module:
    """Convert a model's tensors in place: swapping fake ones mostly fails."""
    for child in module.children() if recurse else ():
        converted_in_place(child, convert)
    for name, parameter in module.named_parameters(recurse=False):
        if is_lazy(parameter):
            lazy.convert(parameter, convert)
            continue
        with torch.no_grad():
            converted = convert(parameter)
        if converted is parameter or not isinstance(parameter, FakeTensor):
            continue
        if torch._has_compatible_shallow_copy_type(parameter, converted):  # noqa: SLF001 (as nn.Module asks)
            parameter.data = converted
        else:
            setattr(module, name, nn.Parameter(converted, parameter.requires_grad))
    for name, buffer in module.named_buffers(recurse=False):
        if is_lazy(buffer):
            lazy.convert(buffer, convert)
        else:
            setattr(module, name, convert(buffer))
    return module


def _entered(gpu: FakeGpu) -> Callable[[DeviceContext], object]:
    """An `__enter__` of default devices by which code names the GPU."""
    enter = DeviceContext.__enter__

    def entered(context: DeviceContext) -> object:
        if is_gpu(context.device):
            gpu.is_named()
        return enter(context)  # type: ignore[no-untyped-call]

    return entered


@contextmanager
def present(gpu: FakeGpu, name: str, count: int, recorder: Recorder) -> Iterator[None]:
    """Make PyTorch find `count` GPUs of that name within the block."""
    own = FakeTensor.device.fget  # type: ignore[attr-defined]

    def device(tensor: FakeTensor) -> torch.device:
        """Replace the Python property, which bypasses function modes."""
        found: torch.device = own(tensor) if recorder.is_running else gpu.device(tensor)
        return found

    with ExitStack() as stack:
        stack.enter_context(told(recorder))
        stack.enter_context(changed(torch.cuda, _answers(gpu, name, count, recorder)))
        generic = {name: STREAMS[name] for name in ("Stream", "Event")}
        stack.enter_context(changed(torch, {"Generator": Generator, **generic}))
        built = {"cuda": torch.version.cuda or CUDA}
        stack.enter_context(changed(torch.version, built))
        stack.enter_context(changed(torch.cuda.nccl, {"version": lambda: NCCL}))
        stack.enter_context(changed(torch.amp.GradScaler, {"get_scale": _scale}))
        stack.enter_context(_without_onednn())
        refused = {"is_acceptable": lambda _tensor: False}
        stack.enter_context(changed(torch.backends.cudnn, refused))
        # `DataParallel` has one GPU: it passes on what it is given.
        alone = {"_get_available_device_type": lambda: None}
        parallel = sys.modules["torch.nn.parallel.data_parallel"]
        stack.enter_context(changed(parallel, alone))
        stack.enter_context(changed(torch.cuda.nvtx, Nvtx().functions))
        stack.enter_context(changed(torch.cuda.memory, HISTORY))
        accelerator = _accelerator(gpu, count)
        stack.enter_context(changed(torch.accelerator, accelerator))
        stack.enter_context(changed(DeviceContext, {"__enter__": _entered(gpu)}))
        # PyTorch's own code calls it by this name.
        there = {"_get_accelerator": accelerator["current_accelerator"]}
        stack.enter_context(changed(torch._C, there))  # noqa: SLF001
        resized = {"resize_": _resized(recorder)}
        stack.enter_context(changed(torch.UntypedStorage, resized))
        stack.enter_context(changed(torch.Tensor, {"record_stream": nothing}))
        stack.enter_context(staying())
        stack.enter_context(changed(nn.Module, {"_apply": converted_in_place}))
        # Python code calls these by name, which bypasses the function mode.
        stack.enter_context(
            python_functions(
                scaled_dot_product_attention=gpu.attention, dropout=gpu.dropout
            )
        )
        flexible = {"flex_attention": gpu.flex_attention}
        stack.enter_context(changed(flex_attention, flexible))

        def listed(tensor: FakeTensor) -> object:
            """Become a method of tensors, which a bound method would not."""
            return gpu.listed(tensor)

        methods = {"device": property(device), "tolist": listed}
        stack.enter_context(changed(FakeTensor, methods))
        stack.enter_context(with_foreach())
        stack.enter_context(changed(checkpoint, _recomputed(gpu)))
        for module in (_foreach_utils, _optimizer, clip_grad):
            stack.enter_context(changed(module, _grouped(gpu)))
        yield
