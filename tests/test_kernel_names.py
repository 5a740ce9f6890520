"""Names of kernels and copies: what multiplies, which gradient, which way, which GPU.

The names are those of CUDA's, AMD's and Intel's libraries, and of what PyTorch is used
with. What is communication by its name is in `test_other_vendors.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from launched import HALF, Op, tensors, write
from support import ingests_until

import tracedb

if TYPE_CHECKING:
    from pathlib import Path

MULTIPLYING = (
    # cuBLAS, cuBLASLt, CUTLASS, Magma
    "volta_sgemm_128x64_nn",
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x128x32_stage4_warpsize2x2x1_tensor16x8x16",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute",
    "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT",
    "nvjet_sm100_tst_64x16_64x16_2x4_2cta_h_bz_splitK_TNN",
    "nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_alignCD4_bz_TNNN",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>()",
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<int>>()",
    "cutlass3x_sm100_tensorop_gemm_f16_f16_f32_f16_f16_128x256x64_0x0x1_0_tnn_align8",
    "void gemmSN_NN_kernel<float, 256, 4, 2, 8, 4, 4, false>(cublasGemmSmallNParams)",
    "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16>(gemvParams)",
    "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>()",
    "void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float const>>>()",
    "magma_sgemmEx_kernel",
    "void deep_gemm::fp8_gemm_kernel<7168, 2048, 128, 128>(__nv_bfloat16*)",
    "sm90_fp8_gemm_1d2d_impl",
    # cuDNN 7 to 9
    "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
    "volta_hcudnn_128x32_relu_small_nn_v1",
    "volta_fp16_s884cudnn_fp16_128x128_ldg8_splitK_relu_f2f_exp_small_nhwc_tn_v1",
    "turing_fp16_s1688cudnn_fp16_256x128_ldg8_relu_f2f_exp_small_nhwc_tn_v1",
    "cudnn_ampere_scudnn_128x64_relu_xregs_large_nn_v1",
    "Volta_hmma_implicit_gemm_fprop_fp32_nhwc_128x128x64x1_1x3x3x0x1",
    "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int)",
    "void cudnn::cnn::wgrad_alg0_engine<float, 512, 6, 5, 3, 3, 3, false, 512>(int)",
    "void cudnn::cnn::conv2d_grouped_direct_kernel<false, true, __half>()",
    "void implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1>()",
    "precomputed_convolve_sgemm",
    "void fft2d_r2c_32x32<float, false, 0u, false>(float2*, float const*)",
    "cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_128x64>",
    # PyTorch
    "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<1>()",
    # rocBLAS, hipBLASLt, Composable Kernel, AITER, vLLM, MIOpen
    "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN.kd",
    "Custom_Cijk_Alik_Bljk_BBS_BH_UserArgs_MT256x256x64_MI16x16x1",
    "void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<>>()",
    "void ck_tile::kentry<1, ck_tile::GroupedGemmKernel<ck_tile::GemmSpatially>>()",
    "void ck_tile::kentry<256, 1, ck_tile::GroupedConvolutionForwardKernel<>>()",
    "void wvSplitK_hf_sml_<__hip_bfloat16, 64, 2, 16, 8, 2, 4>(int, int)",
    "wvSplitKrc_",
    "void LLGemm1_kernel<__half, 4>(void const*, void const*, void*, int)",
    "miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1",
    "miopenSp3AsmConv_fury_v1_1_1_gfx11_fp16",
    "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x256x32",
    "gridwise_convolution_implicit_gemm_v4r1_nchw_kcyx_nkhw_lds_double_buffer",
    "naive_conv_ab_nonpacked_fwd_nchw_float_double_float",
    "MIOpenConvUni",
    # Inductor's templates, TensorRT-LLM, Marlin, vLLM, AITER
    "triton_tem_fused_addmm_relu_12",
    "triton_mm",
    "_w8a8_triton_block_scaled_mm",
    "_scaled_grouped_mm",
    "bmm_Bfloat16_E2m1E2m1_Fp32_t128x8x512_s4_et128x8",
    "void marlin::Marlin<half, 256, 1, 8, 8, 4, 8>(int4 const*, int4 const*)",
    "fused_moe_kernel",
    "aiter::fmoe_bf16_blockscaleFp8_g1u1",
    # oneDNN, Ascend, Cambricon
    "gen_conv_kernel",
    "gemm_kernel",
    "aclnnMatmul_MatMulV3Common_MatMulV3",
    "cnnl::kernels::MatMulKernel",
)
HELPING = (
    "void at::cuda::detail::prepare_grouped_gemm_data<cutlass::bfloat16_t, float>()",
    "void splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, float, true>()",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __half, float, __half>()",
    "void cublasLt::epilogue::impl::globalKernel<8, 32, float, __half, float>()",
    "void reduce_1Block_kernel<float, 128, 7, cublasGemvTensorStridedBatched<float>>()",
    "void cutlass::Kernel<cutlass::reduction::kernel::ReduceSplitK<cutlass::Matrix>>",
    "void cudnn::gemm::computeOffsetsKernel(cudnn::gemm::ComputeOffsetsParams)",
    "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true>()",
    "void cudnn::winograd::generateWinogradTilesKernel<0, float, float>()",
    "void flip_filter<float, float>(float*, float const*, int, int, int, int)",
    "void im2col_kernel<float>(long, float const*, long, long)",
    "batched_transpose_16x32_half.kd",
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor>()",
    "__amd_rocclr_fillBufferAligned.kd",
    "Im2d2Col_v2",
    "triton_poi_fused_convolution_relu_3",
    "triton_red_fused_mm_sum_0",
    "void at::native::convert_kernel<float>(int)",
    "SubTensorOpWithScalar1d",
    "void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<>()",
    "void transformer_engine::detail::cast_transpose_general_kernel<>()",
    "moe_align_block_size_kernel",
    "void two_shot_multimem_kernel<float>(float*)",
)


@pytest.mark.until("prediction")
def test_what_multiplies(tmp_path: Path) -> None:
    """The arithmetic of a GEMM is its multiplying kernels'; helpers have none of it."""
    names = [*MULTIPLYING, *HELPING]
    ops = [
        Op("aten::mm", **tensors((64, 64), (64, 64), dtype=HALF), kernels=[name])
        for name in names
    ]
    query = """
        SELECT name
        FROM prediction.kernel_work INNER JOIN staging.gpu_op USING (gpu_op_id)
        WHERE is_main ORDER BY gpu_op_id
    """
    with tracedb.open() as database, ingests_until("prediction"):
        database.ingest([write(tmp_path / "trace.json", ops)])
        found = [name for (name,) in database.sql(query).rows()]
    assert found == list(MULTIPLYING)


COPIES = {
    "Memcpy HtoD (Pageable -> Device)": "h2d",
    "Memcpy DtoH (Device -> Pinned)": "d2h",
    "Memcpy DtoD (Device -> Device)": "d2d",
    "Memcpy PtoP (Device -> Device)": "p2p",
    "CopyHostToDevice": "h2d",
    "CopyDeviceToHost": "d2h",
    "CopyDeviceToDevice": "d2d",
    "Memcpy M2D (MEMORY(Unknown) -> DEVICE)": "h2d",
    "Memcpy D2M (DEVICE -> MEMORY(Unknown))": "d2h",
    "Memcpy D2D (DEVICE -> DEVICE)": "d2d",
    "Memory copy (Host -> Device)": "h2d",
}


def test_which_way_copies_go() -> None:
    """Profilers of three vendors name the direction of a copy."""
    names = ", ".join(f"('{name}')" for name in COPIES)
    query = (
        f"SELECT name, staging.copy_direction(name) FROM (VALUES {names}) AS n (name)"
    )
    with tracedb.open() as database:
        assert dict(database.sql(query).rows()) == COPIES


GRADIENTS = {
    "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)": "input",
    "void cudnn::cnn::wgrad2d_grouped_direct_kernel<false, true>()": "weight",
    "igemm_bwd_gtcx3_nhwc_bf16_bx0_ex0_bt256x256x32": "input",
    "igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt256x128x32": "weight",
    "void ck::kernel_grouped_conv_bwd_weight_xdl_cshuffle_v3<>()": "weight",
    "void ck::kernel_grouped_conv_bwd_data_multiple_d_xdl_cshuffle<>()": "input",
    "gridwise_convolution_backward_weights_implicit_gemm_v4r4": "weight",
    "naive_conv_ab_nonpacked_bwd_nchw_float_double_float": "input",
    "void at::native::conv_depthwise2d_backward_kernel<3, 1, float>()": "input",
    "void at::native::conv_depthwise2d_grad_weight_kernel<float>()": "weight",
}


@pytest.mark.until("prediction")
def test_which_gradient_a_convolution_computes(tmp_path: Path) -> None:
    """Names tell the two gradients of an op apart, in whichever order they come."""
    inputs = [name for name, what in GRADIENTS.items() if what == "input"]
    weights = [name for name, what in GRADIENTS.items() if what == "weight"]
    sizes = tensors((1, 4, 3, 3), (1, 2, 5, 5), (4, 2, 3, 3), dtype=HALF)
    both = [*[""] * 10, "[True, True, False]"]
    pairs = zip([*weights, *inputs], [*inputs, *weights], strict=True)
    ops = [
        Op("aten::convolution_backward", **sizes, concrete=both, kernels=pair)
        for pair in pairs
    ]
    query = """
        SELECT DISTINCT name, regexp_extract(problem.op, '[a-z]*$')
        FROM prediction.kernel_problem AS problem
        INNER JOIN staging.gpu_op USING (gpu_op_id)
    """
    with tracedb.open() as database, ingests_until("prediction"):
        database.ingest([write(tmp_path / "trace.json", ops)])
        found = database.sql(query).rows()
    assert sorted(found) == sorted(GRADIENTS.items())


ARCHITECTURES = {
    "nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_alignCD4_bz_TNNN": "RTX PRO 6000",
    "nvjet_sm103_tst_64x16_64x16_2x4_2cta_h_bz_TNN": "B300",
    "cutlass3x_sm100_tensorop_gemm_f16_f16_f32": "B200",
    "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT": "H100",
    "sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n": "L40S",
    "ampere_sgemm_128x64_nn": "A100 40GB",
    "turing_fp16_s1688cudnn_fp16_256x128_ldg8_relu": "T4",
    "volta_sgemm_128x64_nn": "V100",
    "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64": "MI300X",
}


@pytest.mark.until("prediction")
def test_which_gpu_kernels_were_made_for(tmp_path: Path) -> None:
    """Without the name of the GPU, names of kernels show its generation."""
    op = Op("aten::mm", **tensors((64, 64), (64, 64), dtype=HALF))
    for number, name in enumerate(ARCHITECTURES):
        folder = tmp_path / str(number)
        folder.mkdir()
        write(folder / "trace.json", [replace(op, kernels=[name])], device="")
    query = """
        SELECT DISTINCT name, hardware
        FROM prediction.kernel_device INNER JOIN staging.gpu_op USING (trace_id, device)
    """
    with tracedb.open() as database, ingests_until("prediction"):
        database.ingest([tmp_path])
        assert dict(database.sql(query).rows()) == ARCHITECTURES
