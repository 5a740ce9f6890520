"""Attention and grouped products of libraries, in the order of their arguments.

Signatures are PyTorch's own or, in its notation, those that the libraries declare. Work
is counted sequence by sequence, query by query.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from launched import Op, write
from support import ingests_until, rows

import tracedb

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BFLOAT, FLOAT, INT, LONG = "c10::BFloat16", "float", "int", "long int"
FLOAT8 = "c10::Float8_e4m3fn"
QKV = "Tensor q, Tensor k, Tensor v"
GRADIENT = f"Tensor dout, {QKV}, Tensor out, Tensor softmax_lse"
WRITTEN = "Tensor? dq, Tensor? dk, Tensor? dv"
STARTS = "Tensor? cu_seqlens_q, Tensor? cu_seqlens_k"
MOST = "int max_seqlen_q, int max_seqlen_k"
SCALED = "float dropout_p, float softmax_scale"
WINDOW = "int window_size_left, int window_size_right"
FLASH = f"{SCALED}, bool causal, {WINDOW}, float softcap, Tensor? alibi_slopes"
HOPPER = (
    f"{QKV}, Tensor? k_new, Tensor? v_new, Tensor? q_v, Tensor? out, {STARTS}, "
    "Tensor? cu_seqlens_k_new, Tensor? seqused_q, Tensor? seqused_k, "
    "int? max_seqlen_q, int? max_seqlen_k, Tensor? page_table, Tensor? kv_batch_idx, "
    "Tensor? leftpad_k, Tensor? rotary_cos, Tensor? rotary_sin, "
    "Tensor? seqlens_rotary, "
    "Tensor? q_descale, Tensor? k_descale, Tensor? v_descale, float? softmax_scale, "
    f"bool is_causal, {WINDOW}, int attention_chunk, float softcap, "
    "bool is_rotary_interleaved, Tensor? scheduler_metadata, int num_splits, "
    "bool? pack_gqa, int sm_margin"
)
EFFICIENT = f"{QKV}, Tensor? bias, {STARTS}, int? max_seqlen_q"
LIBRARIES = {
    "flash_attn::_flash_attn_forward": f"{QKV}, {FLASH}, bool return_softmax",
    "flash_attn::_flash_attn_backward": f"{GRADIENT}, {WRITTEN}, {FLASH}, bool more",
    "flash_attn::_flash_attn_varlen_forward": f"{QKV}, {STARTS}, {MOST}, {FLASH}, "
    "bool return_softmax, Tensor? block_table, Tensor? leftpad_k, Tensor? seqused_k",
    "flash_attn::_flash_attn_varlen_backward": f"{GRADIENT}, {WRITTEN}, {STARTS}, "
    f"{MOST}, {FLASH}, bool deterministic, Tensor? rng_state",
    "FlashAttnFunc": f"{QKV}, float dropout_p, float? softmax_scale, bool causal, "
    "int[] window_size, float softcap, Tensor? alibi_slopes, bool deterministic",
    "flash_attn_3::fwd": HOPPER,
    "sgl_kernel::fwd": HOPPER,
    "flash_attn_3::bwd": f"{GRADIENT}, {WRITTEN}, {STARTS}, Tensor? seqused_q, "
    "Tensor? seqused_k, int? max_seqlen_q, int? max_seqlen_k, float? softmax_scale, "
    f"bool is_causal, {WINDOW}, float softcap, bool deterministic, int sm_margin",
    "vllm::flash_attn_varlen_func": f"{QKV}, {STARTS}, {MOST}, float? softmax_scale, "
    "bool causal, int[]? window_size, float softcap",
    "_vllm_fa2_C::varlen_fwd": f"{QKV}, Tensor? out, {STARTS}, Tensor? seqused_k, "
    "Tensor? leftpad_k, Tensor? block_table, Tensor? alibi_slopes, "
    f"{MOST}, {SCALED}, bool zero_tensors, bool is_causal, {WINDOW}, float softcap",
    "xformers_flash::flash_fwd": f"{QKV}, {STARTS}, Tensor? seqused_k, {MOST}, "
    f"float p, float softmax_scale, bool is_causal, {WINDOW}, bool return_softmax",
    "xformers_flash::flash_bwd": f"{GRADIENT}, {WRITTEN}, {STARTS}, {MOST}, "
    f"float p, float softmax_scale, bool is_causal, {WINDOW}, Tensor rng_state",
    "xformers_flash3::flash_fwd": f"{QKV}, {STARTS}, Tensor? seqused_k, "
    f"Tensor? leftpad_k, {MOST}, float p, float softmax_scale, bool is_causal, "
    "Tensor? descale_q, Tensor? descale_k, Tensor? descale_v, Tensor? block_table, "
    f"bool use_kvsplit, {WINDOW}",
    "xformers_flash3::flash_bwd": f"bool grads_share_storage, {GRADIENT}, {STARTS}, "
    f"{MOST}, float softmax_scale, bool is_causal, {WINDOW}",
    "xformers::efficient_attention_forward_cutlass": f"{EFFICIENT}, "
    "int? max_seqlen_k, float dropout_p, int custom_mask_type, "
    "bool compute_log_sumexp, float? scale, Tensor? seqlen_k, int? window_size",
    "xformers::efficient_attention_forward_ck": f"{EFFICIENT}, float dropout_p, "
    "bool compute_logsumexp, int custom_mask_type, float? scale, Tensor? seqlen_k",
    "xformers::efficient_attention_backward_ck": f"Tensor grad_out, {QKV}, "
    f"Tensor? bias, {STARTS}, {MOST}, Tensor? seqlen_k, Tensor logsumexp, "
    "Tensor output, float dropout_p, int rng_seed, int rng_offset, "
    "int custom_mask_type, float? scale",
    "xformers::efficient_attention_backward_cutlass": f"Tensor grad_out, {QKV}, "
    f"Tensor? bias, Tensor out, {STARTS}, {MOST}, Tensor logsumexp, float dropout_p, "
    "Tensor philox_seed, Tensor philox_offset, int custom_mask_type, "
    "bool bias_requires_grad, float? scale, int num_splits_key, int? window_size",
    "aiter::fmha_v3_fwd": f"{QKV}, {SCALED}, bool is_causal, {WINDOW}, "
    "bool return_softmax_lse, bool return_dropout_randval, int how_v3_bf16_cvt",
    "aiter::mha_bwd": f"{GRADIENT}, {SCALED}, bool is_causal, {WINDOW}, bool more",
    "aiter::mha_varlen_fwd": f"{QKV}, {STARTS}, {MOST}, int min_seqlen_q, {SCALED}, "
    f"float logits_soft_cap, bool zero_tensors, bool is_causal, {WINDOW}",
}
"""Without defaults; a list of tensors of `?` may be absent."""
FUSED = re.compile(
    r"aten::_(scaled_dot_product_(flash|efficient|cudnn|fused)_.*"
    r"|(flash|efficient|cudnn)_attention_(forward|backward))"
)


def of_torch() -> dict[str, str]:
    """PyTorch's own fused attention on GPUs."""
    schemas = torch._C._jit_get_all_schemas()  # noqa: SLF001 (nothing else lists them)
    return {
        schema.name: ", ".join(
            re.sub(r"Optional\[(.*)\]", r"\1?", str(one.type)) + f" {one.name}"
            for one in schema.arguments
        )
        for schema in schemas
        if FUSED.fullmatch(schema.name)
        and not schema.overload_name
        and "for_cpu" not in schema.name
    }


SIGNATURES = LIBRARIES | of_torch()


class Attention(NamedTuple):
    """What is computed: pairs of lengths, heads, and which keys a query sees."""

    lengths: tuple[tuple[int, int], ...]
    heads: int = 6
    kv_heads: int = 2
    size: int = 16
    causal: bool = False
    window: tuple[int, int] = (-1, -1)

    def pairs(self) -> int:
        """Queries and keys that meet, one after the other."""
        return sum(self.sees(q + ks - qs, k) for qs, ks in self.lengths
                   for q in range(qs) for k in range(ks))  # fmt: skip

    def sees(self, position: int, key: int) -> bool:
        """Whether the query at a position among the keys sees one."""
        left, right = self.window
        if self.causal:
            right = 0
        return (left < 0 or key >= position - left) and (
            right < 0 or key <= position + right
        )

    def flops(self, products: int) -> int:
        """2 FLOPs for each element of a head that is multiplied."""
        return 2 * products * self.pairs() * self.heads * self.size

    def moved(self, *, is_backward: bool) -> tuple[int, int]:
        """[B] Read and written, two for each element."""
        queries = sum(q for q, _ in self.lengths) * self.heads * self.size
        keys = sum(k for _, k in self.lengths) * self.kv_heads * self.size
        if is_backward:
            return 2 * (3 * queries + 2 * keys), 2 * (queries + 2 * keys)
        return 2 * (queries + 2 * keys), 2 * queries


def recorded(name: str, work: Attention, *, is_ragged: bool) -> Op:
    """The op as the profiler records it: dimensions, types, and values of scalars."""
    batch = len(work.lengths)
    queries, keys = (sum(side) for side in zip(*work.lengths, strict=True))
    shapes = {"q": (queries, work.heads), "k": (keys, work.kv_heads)}
    dims: dict[str, list[int]] = {}
    for side, (tokens, heads) in shapes.items():
        if "scaled_dot" in name:
            dims[side] = [batch, heads, tokens // batch, work.size]
        elif not is_ragged:
            dims[side] = [batch, tokens // batch, heads, work.size]
        else:
            one = [1] if "efficient" in name else []
            dims[side] = [*one, tokens, heads, work.size]
    listed = [part.rsplit(" ", 1) for part in SIGNATURES[name].split(", ")]
    made = [
        argument(kind, each, work, dims, is_ragged=is_ragged) for kind, each in listed
    ]
    sizes, types, values = zip(*made, strict=True)
    return Op(name, sizes, types, values)


Argument = tuple[list[int], str, str]
"""Dimensions, type and value."""


def argument(
    kind: str,
    name: str,
    work: Attention,
    dims: dict[str, list[int]],
    *,
    is_ragged: bool,
) -> Argument:
    """One argument, by the names and types that signatures have for it."""
    is_optional = kind.endswith("?")
    if "Tensor" in kind:
        return tensor(name, work, dims, is_ragged=is_ragged, is_optional=is_optional)
    if "[" in kind:
        return [], "ScalarList", "[True, True, True, False]"
    if is_optional and not name.startswith("max"):
        return [], "", ""
    return [], "Scalar", value(kind, name, work)


def tensor(
    name: str,
    work: Attention,
    dims: dict[str, list[int]],
    *,
    is_ragged: bool,
    is_optional: bool,
) -> Argument:
    """Q, K, V, the result, their gradients, and starts of sequences; few others."""
    if re.match(r"cum?_seq", name) and not name.endswith("new") and is_ragged:
        return [len(work.lengths) + 1], INT, ""
    if re.fullmatch(r"d?[qkv]|query|key|value", name):
        side = "q" if name.lstrip("d").startswith("q") else "k"
        return dims[side], BFLOAT, ""
    is_absent = is_optional or name.startswith(("cu", "attn", "bias"))
    if is_absent:
        return [], "", ""
    if re.fullmatch(r"dout|grad_out_?|out|output", name):
        return dims["q"], BFLOAT, ""
    return [2], LONG, ""


def value(kind: str, name: str, work: Attention) -> str:
    """A scalar as the profiler writes it."""
    if name.startswith("max"):
        return str(max(pair[name.endswith("k")] for pair in work.lengths))
    if "causal" in name:
        return str(work.causal)
    if name == "custom_mask_type":
        return str(2 * work.causal)
    if name.startswith("window_size_"):
        return str(work.window[name.endswith("right")])
    return {"float": "0.", "bool": "False"}.get(kind.strip("?"), "1")


EQUAL, CROSS = ((9, 9),) * 3, ((4, 9),) * 2
RAGGED = ((3, 3), (9, 9), (6, 6))
DENSE = [Attention(EQUAL), Attention(EQUAL, causal=True), Attention(CROSS, causal=True)]
NO_DENSE = re.compile("varlen")
NO_RAGGED = re.compile("scaled_dot|fmha_v3|mha_bwd|FlashAttnFunc|_attn_(for|back)ward$")
HAS_WINDOW = [
    name
    for name, text in LIBRARIES.items()
    if "window_size_left" in text and not NO_DENSE.search(name)
]


def cases() -> Iterator[tuple[str, Attention, bool, bool]]:
    """Each op with each kind of work: is it ragged, and does its record say it all."""
    for name in SIGNATURES:
        if not NO_DENSE.search(name):
            yield from ((name, work, False, True) for work in DENSE)
        if not NO_RAGGED.search(name):
            yield from ((name, work, True, True) for work in DENSE)
            yield name, Attention(RAGGED, causal=True), True, False
    for name in HAS_WINDOW:
        yield name, Attention(EQUAL, causal=True, window=(3, 0)), False, True
        yield name, Attention(EQUAL, window=(2, 2)), False, True
        yield name, Attention(EQUAL, window=(3, 0)), False, True


CASES = list(cases())


def tensors(*named: tuple[tuple[int, ...], str], scalars: Sequence[str] = ()) -> Any:  # noqa: ANN401
    """Dimensions, types and values: tensors, then scalars."""
    dims = [*(list(sizes) for sizes, _ in named), *([] for _ in scalars)]
    types = [*(dtype for _, dtype in named), *("Scalar" for _ in scalars)]
    return dims, types, [*("" for _ in named), *scalars]


HEADS, PAGES, STARTING = ((10, 4, 8), BFLOAT), ((32, 16, 2, 8), BFLOAT), ((4,), INT)
PAGED = Op(
    "vllm::flash_attn_varlen_func",
    *tensors(
        HEADS, PAGES, PAGES, STARTING, STARTING, scalars=["8", "50", "0.1", "True"]
    ),
)
UNKNOWN = Op(
    "vllm::unified_attention_with_output", *tensors(HEADS, HEADS, HEADS, HEADS)
)
TOLD = [PAGED, UNKNOWN]


def group(name: str, *named: tuple[tuple[int, ...], str]) -> Op:
    """A product of groups."""
    return Op(name, *tensors(*named))


ENDS = ((4,), INT)
SCALES = [((10, 1), FLOAT), ((4, 6), FLOAT)]
GROUPED: list[tuple[Op, int, int, int, bool]] = [
    # 10 rows, divided among 4 matrices of 8 x 6.
    (
        group("aten::_grouped_mm", ((10, 8), BFLOAT), ((4, 8, 6), BFLOAT), ENDS),
        sum(2 * 8 * 6 * rows for rows in (1, 4, 0, 5)),
        2 * (10 * 8 + 4 * 8 * 6),
        2 * 10 * 6,
        False,
    ),
    # Of 64 matrices, 3 rows take 3.
    (
        group(
            "aten::_grouped_mm", ((3, 8), BFLOAT), ((64, 8, 6), BFLOAT), ((64,), INT)
        ),
        sum(2 * 8 * 6 for _ in range(3)),
        2 * (3 * 8 + 3 * 8 * 6),
        2 * 3 * 6,
        False,
    ),
    # 10 columns, divided among 4 matrices of 5 x 8.
    (
        group("aten::_grouped_mm", ((4, 5, 8), BFLOAT), ((8, 10), BFLOAT), ENDS),
        sum(2 * 5 * 8 * columns for columns in (1, 4, 0, 5)),
        2 * (4 * 5 * 8 + 8 * 10),
        2 * 5 * 10,
        False,
    ),
    # The gradient of 4 weights of 5 x 6, each the sum over some of 10 rows.
    (
        group("aten::_grouped_mm", ((5, 10), BFLOAT), ((10, 6), BFLOAT), ENDS),
        sum(2 * 5 * 6 * rows for rows in (1, 4, 0, 5)),
        2 * (5 * 10 + 10 * 6),
        2 * 4 * 5 * 6,
        False,
    ),
    (
        group("aten::_grouped_mm", ((4, 5, 8), BFLOAT), ((4, 8, 6), BFLOAT)),
        sum(2 * 5 * 8 * 6 for _ in range(4)),
        2 * 4 * (5 * 8 + 8 * 6),
        2 * 4 * 5 * 6,
        True,
    ),
    # fp8 in, bf16 out.
    (
        group(
            "aten::_scaled_grouped_mm",
            *[((10, 16), FLOAT8), ((4, 16, 6), FLOAT8), *SCALES, ENDS],
        ),
        2 * 10 * 16 * 6,
        10 * 16 + 4 * 16 * 6,
        2 * 10 * 6,
        False,
    ),
    # The result comes first.
    (
        group(
            "_C::cutlass_moe_mm",
            *[
                ((10, 6), BFLOAT),
                ((10, 16), FLOAT8),
                ((4, 16, 6), FLOAT8),
                *SCALES,
                ENDS,
            ],
        ),
        2 * 10 * 16 * 6,
        10 * 16 + 4 * 16 * 6,
        2 * 10 * 6,
        False,
    ),
    # Each matrix is transposed.
    (
        group(
            "fbgemm::bf16bf16bf16_grouped_stacked",
            *[((10, 8), BFLOAT), ((4, 6, 8), BFLOAT), ((4,), LONG)],
        ),
        2 * 10 * 8 * 6,
        2 * (10 * 8 + 4 * 8 * 6),
        2 * 10 * 6,
        False,
    ),
]


def products_of(name: str) -> int:
    """Backward, scores are computed again, and there are four gradients."""
    return 5 if re.search("backward|bwd", name) else 2


Counted = dict[int, tuple[Any, ...]]


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Counted:
    """What is counted of all ops, by number: attention, what it lacks, products."""
    ops = [recorded(name, work, is_ragged=ragged) for name, work, ragged, _ in CASES]
    path = tmp_path_factory.mktemp("library") / "trace.json"
    grouped = [op for op, *_ in GROUPED]
    query = """
        SELECT op.external_id, op, flops::BIGINT, read_bytes, written_bytes, is_exact
        FROM prediction.op_problem
        INNER JOIN staging.op AS op USING (op_id)
    """
    with tracedb.open() as database, ingests_until("prediction"):
        database.ingest([write(path, [*ops, *TOLD, *grouped])])
        return {number: tuple(row) for number, *row in rows(database, query)}


@pytest.mark.parametrize("name", SIGNATURES)
def test_attention_is_counted_pair_by_pair(counted: Counted, name: str) -> None:
    """FLOPs and bytes are those of loops; unknown lengths are said to be unknown."""
    for number, (of, work, is_ragged, is_known) in enumerate(CASES, 1):
        if of != name:
            continue
        products = products_of(name)
        moved = work.moved(is_backward=products > 2)
        kind = "backward" if products > 2 else "forward"
        flops: Any = work.flops(products)
        if not is_known:
            flops = pytest.approx(flops, rel=0.2)
        expected = (kind, flops, *moved, is_known)
        assert counted.get(number) == expected, (work, is_ragged)


def test_keys_in_pages_are_those_of_the_longest_sequence(counted: Counted) -> None:
    """10 queries of 3 sequences; each may have fewer keys than 50, which is said."""
    kind, _, read, _, is_exact = counted[len(CASES) + 1]
    assert (kind, is_exact) == ("forward", False)
    queries, keys = 10 * 4 * 8, 50 * 2 * 8
    assert read in [2 * (queries + 2 * keys * sequences) for sequences in (1, 2, 3)]


def test_sequences_that_nothing_tells_of_have_no_work(counted: Counted) -> None:
    """`unified_attention_with_output` takes their starts from elsewhere."""
    assert len(CASES) + 2 not in counted


@pytest.mark.parametrize("number", range(len(GROUPED)))
def test_grouped_products_are_counted_by_group(counted: Counted, number: int) -> None:
    """Each row meets one matrix; how many each has is said to be unknown."""
    assert counted[len(CASES) + len(TOLD) + 1 + number][1:] == GROUPED[number][1:]
