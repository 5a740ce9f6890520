"""Work of ops of inference servers and trainers, computed by hand from their schemas.

Arguments are in the order that the libraries declare. Autograd functions record
tensors, numbers, flags and None, but no strings and objects.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pytest
from launched import Op, write
from support import Amount, ingests_until, rows

import tracedb
from tracedb import kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

BF, FP32, FP8 = "c10::BFloat16", "float", "c10::Float8_e4m3fn"
INT, LONG, BYTE, CHAR = "int", "long int", "unsigned char", "signed char"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"


class T(NamedTuple):
    """A tensor argument: its sizes and its type."""

    dims: tuple[int, ...]
    dtype: str = BF


Argument = T | list[T] | str | None
"""A tensor, a list of them, a number or a flag as text; None: absent."""


def call(name: str, *arguments: Argument, kernels: Sequence[str] = ("kernel",)) -> Op:
    """An op as the profiler records it."""
    dims: list[Any] = []
    types, values = [], []
    for one in arguments:
        if isinstance(one, T):
            dims.append(list(one.dims))
            types.append(one.dtype)
        elif isinstance(one, list):
            dims.append([list(each.dims) for each in one])
            types.append(f"GenericList[{','.join(each.dtype for each in one)}]")
        else:
            dims.append([])
            types.append("" if one is None else "Scalar")
        values.append(one if isinstance(one, str) else "")
    return Op(name, dims, types, values, kernels)


class Case(NamedTuple):
    """An op, and its work: FLOPs per element written, or in total; bytes."""

    op: Op
    family: str
    flops: int
    read: int
    written: int
    unit: str = "fp32"


# 7 tokens, 48 elements each; two bytes per element.
ROWS = T((7, 48))
HALF = T((7, 24))
SCALE = T((1,), FP32)
NORM = T((48,))
N = 7 * 48


def norm(name: str, *arguments: Argument, read: int, written: int) -> Case:
    """A norm of 7 rows of 48 elements."""
    return Case(call(name, *arguments), "normalisation", 5 * N, read, written)


NORMS = [
    # vLLM: the result, the input, the weight.
    norm("_C::rms_norm", ROWS, ROWS, NORM, "1e-6", read=2 * N, written=2 * N),
    norm("sgl_kernel::rmsnorm", ROWS, ROWS, NORM, "1e-6", "True",
         read=2 * N, written=2 * N),
    norm("sgl_kernel::gemma_rmsnorm", ROWS, ROWS, NORM, "1e-6", "True",
         read=2 * N, written=2 * N),
    norm("aiter::rms_norm", ROWS, NORM, "1e-6", read=2 * N, written=2 * N),
    # Scales in fp32 are none of the rows.
    norm("_C::rms_norm", ROWS, ROWS, T((48,), FP32), "1e-6",
         read=2 * N, written=2 * N),
    # The input and the residual are read, and overwritten by the norm and the sum.
    norm("_C::fused_add_rms_norm", ROWS, ROWS, NORM, "1e-6",
         read=4 * N, written=4 * N),
    norm("sgl_kernel::gemma_fused_add_rmsnorm", ROWS, ROWS, NORM, "1e-6", "True",
         read=4 * N, written=4 * N),
    norm("aiter::rmsnorm2d_fwd_with_add", ROWS, ROWS, ROWS, ROWS, NORM, "1e-6",
         read=4 * N, written=4 * N),
    # To one byte per element.
    norm("_C::rms_norm_static_fp8_quant", T((7, 48), FP8), ROWS, NORM, SCALE, "1e-6",
         read=2 * N, written=N),
    norm("_C::fused_add_rms_norm_static_fp8_quant",
         T((7, 48), FP8), ROWS, ROWS, NORM, SCALE, "1e-6",
         read=4 * N, written=2 * N + N),
    norm("_C::rms_norm_dynamic_per_token_quant",
         T((7, 48), FP8), ROWS, NORM, T((7, 1), FP32), "1e-6", None, None,
         read=2 * N, written=N),
    norm("_C::rms_norm_dynamic_per_token_quant",
         T((7, 48), FP8), ROWS, NORM, T((7, 1), FP32), "1e-6", None, ROWS,
         read=4 * N, written=2 * N + N),
    norm("FusedLayerNormAffineFunction", ROWS, NORM, NORM, "1e-5", "False",
         read=2 * N, written=2 * N),
    norm("LigerRMSNormFunction", ROWS, NORM, "1e-6", "0.", "True", None,
         read=2 * N, written=2 * N),
    # Backward, the gradient and what was saved.
    norm("LigerRMSNormFunctionBackward", ROWS,
         read=4 * N, written=2 * N)._replace(flops=10 * N),
    norm("FusedLayerNormAffineFunctionBackward", ROWS,
         read=4 * N, written=2 * N)._replace(flops=10 * N),
    Case(
        call("aiter::_groupnorm_run", T((3, 8, 4, 5)), "2", T((8,)), T((8,)), "1e-6"),
        "normalisation", 5 * 480, 2 * 480, 2 * 480,
    ),
]  # fmt: skip


def passing(op: Op, family: str, flops: int, read: int, written: int) -> Case:
    """An op that passes some of its arguments."""
    return Case(op, family, flops, read, written)


E8 = T((7, 48), FP8)
PAGES = T((100, 16, 2, 8))
KEYS = T((7, 2, 8))
GATES = T((7, 64), FP32)
MEMORY = [
    # A gate and a value per element of the result.
    passing(call("_C::silu_and_mul", HALF, ROWS), "elementwise",
            5 * N // 2, 2 * N, N),
    passing(call("sgl_kernel::gelu_tanh_and_mul", HALF, ROWS), "elementwise",
            5 * N // 2, 2 * N, N),
    passing(call("_C::silu_and_mul", T((3, 7, 24)), T((3, 7, 48))), "elementwise",
            5 * 3 * N // 2, 3 * 2 * N, 3 * N),
    passing(call("_C::silu_and_mul_quant", T((7, 24), FP8), ROWS, SCALE),
            "elementwise", 6 * N // 2, 2 * N, N // 2),
    passing(
        call("_C::silu_and_mul_per_block_quant", T((7, 24), FP8), ROWS,
             T((7, 3), FP32), "8", None, "False"),
        "elementwise", 7 * (7 * 24 + 21), 2 * N, 7 * 24 + 4 * 21),
    passing(call("_C::gelu_new", ROWS, ROWS), "elementwise", 5 * N, 2 * N, 2 * N),
    passing(call("SwiGLUFunctionBackward", ROWS), "elementwise",
            5 * 2 * N, 6 * N, 4 * N),
    passing(call("LigerSiLUMulFunction", ROWS, ROWS), "elementwise",
            5 * N, 4 * N, 2 * N),
    passing(call("LigerSiLUMulFunctionBackward", ROWS), "elementwise",
            5 * 2 * N, 6 * N, 4 * N),
    passing(call("_C::static_scaled_fp8_quant", E8, ROWS, SCALE), "elementwise",
            2 * N, 2 * N, N),
    # First for the largest element.
    passing(call("_C::dynamic_scaled_fp8_quant", E8, ROWS, SCALE), "elementwise",
            3 * N, 2 * 2 * N, N),
    passing(
        call("_C::dynamic_per_token_scaled_fp8_quant", E8, ROWS, T((7, 1), FP32), None),
        "elementwise", 3 * (N + 7), 2 * N, N + 4 * 7),
    passing(
        call("_C::dynamic_scaled_int8_quant",
             T((7, 48), CHAR), ROWS, T((7, 1), FP32), None),
        "elementwise", 3 * (N + 7), 2 * N, N + 4 * 7),
    # Two of four bits per byte; scales of 16 elements each.
    passing(
        call("_C::scaled_fp4_quant", T((7, 24), BYTE), ROWS, T((7, 3), FP8), SCALE),
        "elementwise", 3 * (7 * 24 + 21), 2 * N, 7 * 24 + 21),
    passing(
        call("sgl_kernel::sgl_per_token_group_quant_fp8",
             ROWS, E8, T((7, 3), FP32), "16", "1e-10", "-448.0", "448.0", "False"),
        "elementwise", 3 * (N + 21), 2 * N, N + 4 * 21),
    # Nothing has the type of what is returned.
    passing(call("fbgemm::quantize_fp8_per_row", ROWS, None, None), "elementwise",
            3 * N, 2 * N, N),
    # Pages are as large as memory; what is written is as large as keys and values.
    passing(
        call("_C_cache_ops::reshape_and_cache_flash", KEYS, KEYS, PAGES, PAGES,
             T((7,), LONG), None, SCALE, SCALE),
        "index", 0, 2 * 2 * 112, 2 * 2 * 112),
    # Of 8 padded rows 7 have a place.
    passing(
        call("_C_cache_ops::reshape_and_cache_flash", T((8, 2, 8)), T((8, 2, 8)),
             PAGES, PAGES, T((7,), LONG), None, "1.", "1."),
        "index", 0, 2 * 2 * 112, 2 * 2 * 112),
    # As one byte each.
    passing(
        call("_C_cache_ops::reshape_and_cache_flash", KEYS, KEYS,
             T((100, 16, 2, 8), BYTE), T((100, 16, 2, 8), BYTE), T((7,), LONG), None,
             SCALE, SCALE),
        "index", 0, 2 * 2 * 112, 2 * 112),
    passing(
        call("_C_cache_ops::concat_and_cache_mla", T((7, 32)), T((7, 8)),
             T((100, 16, 40)), T((7,), LONG), None, SCALE),
        "index", 0, 2 * 7 * 40, 2 * 7 * 40),
    passing(
        call("sgl_kernel::store_kv_cache", T((999, 2, 8)), T((999, 2, 8)),
             T((7,), LONG), KEYS, KEYS),
        "index", 0, 2 * 2 * 112, 2 * 2 * 112),
    # 4 heads of queries and 2 of keys, of 8 elements; angles as wide as a head.
    passing(
        call("_C::rotary_embedding", T((7,), LONG), T((7, 32)), T((7, 16)), "8",
             T((999, 8)), "True"),
        "elementwise", 3 * 7 * 48, 2 * N, 2 * N),
    # As wide as half a head; no keys.
    passing(
        call("_C::rotary_embedding", T((7,), LONG), T((7, 32)), None, "8",
             T((999, 4)), "True"),
        "elementwise", 3 * 7 * 16, 2 * 7 * 16, 2 * 7 * 16),
    passing(
        call("sgl_kernel::apply_rope_pos_ids_cos_sin_cache", T((7, 4, 8)), KEYS,
             T((7, 4, 8)), KEYS, T((999, 8), FP32), T((7,), LONG), "False", "0"),
        "elementwise", 3 * 7 * 48, 2 * N, 2 * N),
    passing(call("FusedRoPEFunc", T((9, 2, 4, 8)), T((9, 1, 1, 8), FP32)),
            "elementwise", 3 * 576, 2 * 576, 2 * 576),
    # 3 of 64 experts; their weights, their numbers, and places of tokens.
    passing(
        call("_moe_C::topk_softmax", T((7, 3), FP32), T((7, 3), INT), T((7, 3), INT),
             GATES, "True"),
        "softmax", 180 * 63, 4 * 448, 4 * 63),
    passing(
        call("sgl_kernel::topk_softmax", T((7, 3), FP32), T((7, 3), INT), GATES,
             "True"),
        "softmax", 180 * 42, 4 * 448, 4 * 42),
    passing(
        call("_moe_C::moe_align_block_size", T((7, 3), INT), "64", "16",
             T((981,), INT), T((62,), INT), T((1,), INT), None),
        "index", 981 + 62 + 1, 2 * 4 * 21, 4 * (981 + 62 + 1)),
    passing(call("_moe_C::moe_sum", T((7, 3, 48)), ROWS), "reduction",
            N, 3 * 2 * N, 2 * N),
    passing(
        call("vllm::merge_attn_states", T((7, 4, 8)), None, T((7, 4, 8)),
             T((4, 7), FP32), T((7, 4, 8)), T((4, 7), FP32)),
        "elementwise", 3 * 224, 2 * (2 * 224 + 4 * 28), 2 * 224),
    # Half of a square, and the other half is written as zeros.
    passing(call("ScaledUpperTriangMaskedSoftmax", T((6, 20, 20)), "0.125"),
            "softmax", 174 * 2400, 2400, 2 * 2400),
    passing(
        call("ScaledMaskedSoftmax", T((2, 3, 20, 30)), T((2, 1, 20, 30), "bool"), "1."),
        "softmax", 174 * 3600, 2 * 3600, 2 * 3600),
    passing(call("ScaledMaskedSoftmaxBackward", T((2, 3, 20, 30))), "softmax",
            2 * 3600, 2 * 2 * 3600, 2 * 3600),
]  # fmt: skip

A8, B8 = T((7, 64), FP8), T((64, 40), FP8)
GEMMS = [
    # The result, A, B: [m, k] x [k, n], of one byte each.
    Case(
        call("_C::cutlass_scaled_mm", T((7, 40)), A8, B8, SCALE, SCALE, None),
        "gemm", 2 * 7 * 40 * 64, 7 * 64 + 64 * 40, 2 * 280, "byte",
    ),
    Case(
        call("_C::cutlass_scaled_mm_azp", T((7, 40)), T((7, 64), CHAR),
             T((64, 40), CHAR), T((7, 1), FP32), T((1, 40), FP32), T((40,), INT),
             None, T((40,))),
        "gemm", 2 * 7 * 40 * 64, 7 * 64 + 64 * 40, 2 * 280, "byte",
    ),
    # Two numbers in a byte: 64 of them along k.
    Case(
        call("_C::cutlass_scaled_fp4_mm", T((7, 40)), T((7, 32), BYTE),
             T((40, 32), BYTE), T((128, 4), FP8), T((128, 4), FP8), SCALE),
        "gemm", 2 * 7 * 40 * 64, 7 * 32 + 32 * 40, 2 * 280, "fp4",
    ),
    Case(
        call("sgl_kernel::fp8_scaled_mm", A8, B8, T((7, 1), FP32), T((40, 1), FP32),
             "15", None),
        "gemm", 2 * 7 * 40 * 64, 7 * 64 + 64 * 40, 2 * 280, "byte",
    ),
    Case(
        call("sgl_kernel::bmm_fp8", T((3, 7, 64), FP8), T((3, 64, 40), FP8),
             T((3, 7, 40)), SCALE, SCALE, T((999,), BYTE), "1", "2"),
        "gemm", 3 * 2 * 7 * 40 * 64, 3 * (7 * 64 + 64 * 40), 3 * 2 * 280, "byte",
    ),
    Case(
        call("flashinfer::bmm_fp8", T((999,), BYTE), T((3, 7, 64), FP8),
             T((3, 64, 40), FP8), T((3, 7, 40)), SCALE, SCALE),
        "gemm", 3 * 2 * 7 * 40 * 64, 3 * (7 * 64 + 64 * 40), 3 * 2 * 280, "byte",
    ),
    # Transformer Engine before 2.0: forward, and both transposed for a weight's
    # gradient. The result may be in bytes, too.
    *[
        Case(
            call("tex_ts::te_gemm_ts", a, SCALE, "0", "5", "1", b, SCALE, "0", "5",
                 "0", T((7, 40)), T((0,)), "6", T((0,)), T((0,)), "6", T((0,)), "0",
                 T((999,), BYTE), "999", "0", "0"),
            "gemm", 2 * 7 * 40 * 64, 2 * (7 * 64 + 64 * 40), 2 * 280, "half",
        )
        for a, b in [(T((7, 64)), T((40, 64))), (T((64, 7)), T((64, 40)))]
    ],
    # B is transposed.
    Case(
        call("fbgemm::f8f8bf16_rowwise", A8, T((40, 64), FP8), T((7,), FP32),
             T((40,), FP32), None, "True"),
        "gemm", 2 * 7 * 40 * 64, 7 * 64 + 64 * 40, 2 * 280, "byte",
    ),
    Case(
        call("aiter::gemm_a8w8_blockscale", A8, T((40, 64), FP8), T((7, 1), FP32),
             T((1, 1), FP32), "15"),
        "gemm", 2 * 7 * 40 * 64, 7 * 64 + 64 * 40, 2 * 280, "byte",
    ),
    Case(
        call("vllm::rocm_unquantized_gemm", T((7, 64)), T((40, 64)), None),
        "gemm", 2 * 7 * 40 * 64, 2 * (7 * 64 + 64 * 40), 2 * 280, "half",
    ),
    # The input is quantized on the way.
    Case(
        call("vllm::apply_w8a8_block_fp8_linear", T((7, 64)), T((40, 64), FP8),
             T((1, 1), FP32), None),
        "gemm", 2 * 7 * 40 * 64, 2 * 7 * 64 + 64 * 40, 2 * 280, "byte",
    ),
    # Eight numbers of four bits in an int; n is only a value.
    Case(
        call("_C::gptq_marlin_gemm", T((7, 64)), None, T((4, 80), INT), None,
             T((1, 40)), None, None, None, None, T((99,), INT), "8", "7", "40", "64",
             "True", "False", "True", "False"),
        "gemm", 2 * 7 * 40 * 64, 2 * 7 * 64 + 64 * 40 // 2, 2 * 280, "half",
    ),
    # 7 tokens go to 3 of 64 experts each, so at most 21 have a token. 32 are the
    # gate and the projection of 16.
    Case(
        call("vllm::outplace_fused_experts", T((7, 48)), T((64, 32, 48)),
             T((64, 48, 16)), T((7, 3), FP32), T((7, 3), INT), None, "False",
             kernels=("moe_align_block_size_kernel", "fused_moe_kernel")),
        "gemm",
        2 * 21 * (48 * 32 + 16 * 48),
        2 * (7 * 48 + 21 * (32 * 48 + 48 * 16) + 21 * 16),
        2 * 21 * (32 + 48),
        "half",
    ),
    # 40 tokens reach all 4 experts, of one byte per element.
    Case(
        call("vllm::inplace_fused_experts", T((40, 48)), T((4, 32, 48), FP8),
             T((4, 48, 16), FP8), T((40, 3), FP32), T((40, 3), INT), None, "False",
             "True", kernels=("fused_moe_kernel",)),
        "gemm",
        2 * 120 * (48 * 32 + 16 * 48),
        2 * 40 * 48 + 4 * (32 * 48 + 48 * 16) + 120 * 16,
        2 * 120 * (32 + 48),
        "byte",
    ),
    # Weights of four bits, two per byte; they are multiplied as bf16.
    Case(
        call("vllm::outplace_fused_experts", T((40, 48)), T((4, 32, 24), BYTE),
             T((4, 48, 8), BYTE), T((40, 3), FP32), T((40, 3), INT),
             kernels=("fused_moe_kernel_gptq_awq",)),
        "gemm",
        2 * 120 * (48 * 32 + 16 * 48),
        2 * 40 * 48 + 4 * (32 * 24 + 48 * 8) + 2 * 120 * 16,
        2 * 120 * (32 + 48),
        "half",
    ),
]  # fmt: skip
CASES = [*NORMS, *MEMORY, *GEMMS]

# Their work is in values that nothing records.
UNKNOWN = [
    call("_C::paged_attention_v1", T((7, 4, 8)), T((7, 4, 8)), PAGES, PAGES, "2",
         "0.3", T((7, 99), INT), T((7,), INT), "16", "1584"),
    call("_C::persistent_masked_m_silu_mul_quant", T((9, 64, 48)), T((9,), INT),
         T((9, 64, 24), FP8), T((9, 64, 1), FP32), "False"),
    call("sgl_kernel::top_k_top_p_sampling_from_probs", GATES, T((7,), INT), None,
         T((7,), FP32), "0.", None, "0.9", "True", None),
    # Scalars or tensors that a formula needs are missing.
    call("_C::silu_and_mul", None, ROWS),
    call("_C::gptq_marlin_gemm", T((7, 64)), None, T((4, 80), INT)),
    call("vllm::outplace_fused_experts", ROWS, T((64, 32, 48)), T((64, 48, 16))),
    call("_C::cutlass_scaled_mm", T((7, 40)), T((0, 64), FP8), B8, SCALE, SCALE, None),
    call("FusedAttnFunc", "True", "9", "9", T((3,), INT), T((3,), INT),
         T((9, 2, 4, 8)), T((9, 2, 4, 8)), T((9, 2, 4, 8)), "0.3", "0.", "True"),
]  # fmt: skip


def with_number(op: Op, number: int, *, is_backward: bool) -> Op:
    """An op of autograd, which shares its number with the op of the other direction."""
    more = {"Sequence number": number, "Fwd thread id": int(is_backward)}
    return replace(op, more=tuple(more.items()))


def layer(number: int, op: Op, gradient: T) -> list[Op]:
    """A forward op and its backward op."""
    back = call(f"{op.name}Backward", gradient, kernels=(GEMM, GEMM, "cast"))
    return [
        with_number(op, number, is_backward=False),
        with_number(back, number, is_backward=True),
    ]


KERNELS = (GEMM, "ln_fwd_tuned_kernel")
X, W = T((9, 2, 48)), T((40, 48))
"""18 rows; 40 columns."""
LAYERS: list[tuple[list[Op], int, tuple[int, int], tuple[int, int]]] = [
    # The weight comes first, in earlier versions with copies.
    (
        layer(11, call("_Linear", W, X, T((40,)), "True", kernels=KERNELS),
              T((9, 2, 40))),
        2 * 18 * 48 * 40,
        (18 * 48 + 40 * 48, 18 * 40),
        (2 * 18 * 40 + 40 * 48 + 18 * 48, 18 * 48 + 40 * 48),
    ),
    (
        layer(12, call("_Linear", W, W, X, T((40,)), kernels=KERNELS), T((9, 2, 40))),
        2 * 18 * 48 * 40,
        (18 * 48 + 40 * 48, 18 * 40),
        (2 * 18 * 40 + 40 * 48 + 18 * 48, 18 * 48 + 40 * 48),
    ),
    (
        layer(13, call("_LayerNormLinear", X, T((48,)), T((48,)), W, T((40,)), "1e-5",
                       kernels=KERNELS), T((9, 2, 40))),
        2 * 18 * 48 * 40,
        (18 * 48 + 40 * 48, 18 * 40),
        (2 * 18 * 40 + 40 * 48 + 18 * 48, 18 * 48 + 40 * 48),
    ),
    # To 64, of which a gate leaves 32, and back to 48.
    (
        layer(14, call("_LayerNormMLP", X, T((48,)), None, T((64, 48)), None,
                       T((48, 32)), None, "1e-5", kernels=KERNELS), T((9, 2, 48))),
        2 * 18 * 48 * (64 + 32),
        (18 * (48 + 32) + 48 * (64 + 32), 18 * (64 + 48)),
        (
            18 * (2 * 64 + 48) + 48 * 64 + 18 * (2 * 48 + 32) + 48 * 32,
            18 * 48 + 48 * 64 + 18 * 32 + 48 * 32,
        ),
    ),
]  # fmt: skip

Found = dict[int, tuple[Any, ...]]
"""By number of the op."""
QUERY = """
    SELECT op.external_id, family, flops, read_bytes, written_bytes, unit
    FROM prediction.op_work
    INNER JOIN staging.op AS op USING (op_id)
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> tracedb.Database:
    """All ops, in one trace."""
    path = tmp_path_factory.mktemp("serving") / "trace.json"
    layers = [op for pair, *_ in LAYERS for op in pair]
    made = tracedb.open()
    with ingests_until("prediction"):
        made.ingest([write(path, [*(c.op for c in CASES), *UNKNOWN, *layers])])
    return made


@pytest.fixture(scope="module")
def counted(database: tracedb.Database) -> Found:
    """Family, FLOPs, bytes read and written, and units of each op."""
    return {number: tuple(row) for number, *row in rows(database, QUERY)}


@pytest.mark.parametrize(
    "number", range(1, len(CASES) + 1), ids=[case.op.name for case in CASES]
)
def test_work_is_that_of_the_schema(counted: Found, number: int) -> None:
    """FLOPs and bytes are those of what the op computes, reads and writes."""
    case = CASES[number - 1]
    assert counted.get(number) == tuple(case[1:])


def test_products_have_their_sizes(database: tracedb.Database) -> None:
    """Models take m, n and k, also of packed types and transposed matrices."""
    query = """
        SELECT m, n, k
        FROM prediction.op_problem
        INNER JOIN staging.op AS op USING (op_id)
        WHERE op IN ('mm', 'bmm')
    """
    found = rows(database, query)
    assert len(found) == len([case for case in GEMMS if "experts" not in case.op.name])
    assert set(map(tuple, found)) == {(7, 40, 64)}


def test_elements_are_counted_as_they_are_written(database: tracedb.Database) -> None:
    """A scale has another type, which is not that of what is written."""
    query = """
        SELECT written_elements
        FROM prediction.op_work
        INNER JOIN staging.op AS op USING (op_id)
        WHERE op.name LIKE '%reshape_and_cache%'
    """
    assert rows(database, query) == [(2 * 112,)] * 3


@pytest.mark.parametrize("place", range(len(UNKNOWN)), ids=[op.name for op in UNKNOWN])
def test_work_that_values_decide_is_unknown(counted: Found, place: int) -> None:
    """Lengths, counts and draws are not recorded: nothing is guessed."""
    assert len(CASES) + 1 + place not in counted


@pytest.mark.parametrize("place", range(len(LAYERS)))
def test_backward_has_the_sizes_of_its_forward_op(counted: Found, place: int) -> None:
    """A layer is a product, its gradients are two of the same sizes."""
    _, flops, moved, moved_back = LAYERS[place]
    first = len(CASES) + len(UNKNOWN) + 1 + 2 * place
    forward = ("gemm", flops, *(2 * elements for elements in moved), "half")
    backward = ("gemm", 2 * flops, *(2 * elements for elements in moved_back), "half")
    assert [counted.get(first), counted.get(first + 1)] == [forward, backward]


def test_kernels_with_other_work_have_none_of_the_product(
    database: tracedb.Database,
) -> None:
    """Only kernels that multiply have it; of a norm in the layer nothing is known."""
    found = rows(
        database,
        """
        SELECT op.name, work.name, flops IS NOT NULL
        FROM staging.gpu_op AS work
        INNER JOIN staging.op AS op USING (op_id)
        LEFT JOIN prediction.kernel_work USING (gpu_op_id)
        WHERE regexp_matches(op.name, '^_L|_experts$') AND op.external_id > 0
        """,
    )
    known = re.compile("gemm|fused_moe")
    expected = {(op, kernel, bool(known.search(kernel))) for op, kernel, _ in found}
    # Experts without their list have no work at all.
    assert set(map(tuple, found)) - expected <= {
        ("vllm::outplace_fused_experts", "kernel", False)
    }
    assert {kernel for _, kernel, is_known in found if is_known} > {GEMM}


def test_each_op_has_one_rule(database: tracedb.Database) -> None:
    """No name matches two patterns, so that no op has its work twice."""
    names = {case.op.name for case in CASES} | {op.name for op in UNKNOWN}
    patterns = [
        p for (p,) in rows(database, "SELECT pattern FROM prediction.memory_op")
    ]
    for name in names:
        assert sum(bool(re.fullmatch(p, name)) for p in patterns) <= 1, name


NAMES = {
    # Types of A, B and what is summed; a cache is no operand, weights are unpacked.
    "nvjet_tst_128x128_64x6_2x1_v_bz_TNT": "",
    "sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128": "byte",
    "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<"
    "cutlass::gemm::kernel::GemmUniversal<cutlass::float_e4m3_t>>>": "byte",
    "Cijk_Alik_Bljk_F8BS_BH_Bias_SHB_MT128x128x128_MI16x16x1": "byte",
    "void marlin::Marlin<__nv_bfloat16, vllm::kFE4M3fn.id(), 256, 1, 8>": "",
    "Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x128x64": "",
}


def test_kernels_of_quantized_products_are_known_by_name(tmp_path: Path) -> None:
    """A layer that quantizes its matrices records them as they were before."""
    ops = [call("aten::mm", T((64, 48)), T((48, 40)), kernels=(k,)) for k in NAMES]
    with tracedb.open() as database, ingests_until("prediction"):
        database.ingest([write(tmp_path / "trace.json", ops)])
        query = """
            SELECT name, unit FROM prediction.kernel_work
            INNER JOIN staging.gpu_op USING (gpu_op_id)
        """
        found = dict(map(tuple, rows(database, query)))
    assert found == {name: unit or "half" for name, unit in NAMES.items()}


DATA = Path(__file__).resolve().parents[2] / "shared" / "kerneldata"
MEASURED = {
    "_C::static_scaled_fp8_quant": (
        "aic_quant_memory_ops.csv.gz",
        pl.col("kernel_source") == "static_scaled_fp8_quant",
        pl.col("k"),
    ),
    # A layer without a gate has the name, too.
    "_C::silu_and_mul": (
        "vidur_ops.csv.gz",
        (pl.col("op") == "silu_mul") & (pl.col("model") != "microsoft/phi-2"),
        pl.col("N"),
    ),
}
"""Published times of such kernels: file, rows, and elements written per row."""
ARGUMENTS = {
    "_C::static_scaled_fp8_quant": lambda m, n: [T((m, n), FP8), T((m, n)), SCALE],
    "_C::silu_and_mul": lambda m, n: [T((m, n)), T((m, 2 * n))],
}


@pytest.mark.skipif(not DATA.exists(), reason="../shared/kerneldata is absent")
@pytest.mark.parametrize("name", MEASURED)
def test_no_published_kernel_is_faster_than_memory(name: str, tmp_path: Path) -> None:
    """Of large shapes on each GPU, rates are between a third and all of the peak."""
    file, is_meant, width = MEASURED[name]
    shape = [pl.col("^[mM]$").alias("m"), width.alias("n")]
    large = (
        pl.read_csv(DATA / file, infer_schema_length=None)
        .filter(is_meant)
        .select("device", *shape, pl.col("time_ms"))
        .filter(pl.col("m") * pl.col("n") > 4e7)
        .group_by("device")
        .head(40)
    )
    ops = [call(name, *ARGUMENTS[name](m, n)) for m, n in large["m", "n"].iter_rows()]
    with tracedb.open() as database, ingests_until("prediction"):
        database.ingest([write(tmp_path / "trace.json", ops)])
        moved = {number: r + w for number, _, _, r, w, _ in rows(database, QUERY)}
    hardware = kernels.shipped().hardware
    rates = [
        moved[number] / (milliseconds / 1e3)
        / hardware.find(device.split("_")[0].upper()).figures["dram_bytes_per_second"]
        for number, (device, *_, milliseconds) in enumerate(large.iter_rows(), 1)
    ]  # fmt: skip
    assert 1 / 3 < min(rates) < max(rates) <= 1
    assert len(rates) > len(set(large["device"])) > 1


ODD_SIZES = (0, 1, 3, -1, 2**31, 2**45, 2**49)
ODD_TYPES = ("float", "c10::Half", "weird", "", "Scalar", "c10::complex<float>")
ODD_VALUES = ("", "None", "True", "9" * 25, "-1", "0", "nan", "1e300", "[1, 2]")


def spoiled(op: Op, draw: random.Random) -> Op:
    """An op with one to four arguments that are absent, moved or of odd sizes."""
    made = list(zip(op.dims, op.types, op.concrete, strict=True))
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(made))
        sizes, dtype, value = made[place]
        odd = [draw.choice(ODD_SIZES) for _ in range(draw.randrange(5))]
        made[place : place + 1] = draw.choice(
            [
                [([], "", "")],
                [(odd, dtype, value)],
                [(sizes, draw.choice(ODD_TYPES), value)],
                [(sizes, dtype, draw.choice(ODD_VALUES))],
                [([3, 4], "float", ""), (sizes, dtype, value)],
                [([[2, 3], [4]], "GenericList[c10::Half,c10::Half]", "")],
                [(sizes, dtype, value)] if len(made) == 1 else [],
            ]
        )
    sides = zip(*made, strict=True)
    dims, types, values = map(list, sides)
    return replace(op, dims=dims, types=types, concrete=values)


def test_odd_arguments_stop_nothing(tmp_path: Path, amount: Amount) -> None:
    """Work is unknown then, or of what there is; each op has it at most once."""
    draw = random.Random(7)  # noqa: S311 (no secret)
    known = [case.op for case in CASES] + [op for pair, *_ in LAYERS for op in pair]
    ops = [spoiled(op, draw) for op in known for _ in range(amount(8, 80))]
    with tracedb.open() as database, ingests_until("prediction"):
        database.ingest([write(tmp_path / "trace.json", ops)])
        found = rows(database, QUERY)
    assert len({number for number, *_ in found}) == len(found) > len(ops) / 4
    assert all(min(flops, *moved) >= 0 for _, _, flops, *moved, _ in found)


def test_sizes_of_many_tokens_and_experts_stop_nothing(tmp_path: Path) -> None:
    """Bytes of possible tensors that are beyond any integer are unknown."""
    many = 2**30
    experts = call(
        "vllm::inplace_fused_experts",
        *(T((1024, 64)), T((8, many, 64)), T((8, 64, many // 2))),
        *(T((1024, many), FP32), T((1024, many), INT)),
    )
    with tracedb.open() as database:
        database.ingest([write(tmp_path / "trace.json", [experts])])
        query = "SELECT flops, input_bytes, output_bytes FROM prediction.op_experts"
        assert rows(database, query) == [
            (2.0 * 1024 * many * 64 * 3 * many / 2, None, None)
        ]
