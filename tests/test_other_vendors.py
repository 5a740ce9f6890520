"""Other vendors' accelerators: names of calls, copies and collectives are understood.

The same program is written with another vendor's names; every answer has to be equal.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import rows

import tracedb
from tracedb.synthetic import Delays, execute, random_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Event = dict[str, Any]
Trace = dict[str, Any]
Words = dict[str, str]

SEEDS = (1, 2)

# Category and call names for those of CUDA; `cuda` is the prefix of other names.
VENDORS: dict[str, Words] = {
    "intel": {
        "cuda_runtime": "xpu_runtime",
        "cuda_driver": "xpu_driver",
        "cudaLaunchKernel": "urEnqueueKernelLaunchWithArgsExp",
        "cudaLaunchKernelExC": "urEnqueueKernelLaunch",
        "cuLaunchKernel": "zeCommandListAppendLaunchKernelWithArguments",
        "cudaMemcpyAsync": "urEnqueueUSMMemcpy",
        "cudaMemsetAsync": "urEnqueueUSMFill",
        "cudaStreamSynchronize": "urQueueFinish",
        "cudaEventSynchronize": "urEventWait",
        "cudaStreamWaitEvent": "urEnqueueEventsWaitWithBarrierExt",
        "cuda": "ur",
        "nccl:": "xccl:",
        "ncclDevKernel_": "oneccl_",
    },
    "cambricon": {
        "cuda_runtime": "mlu_runtime",
        "cuda_driver": "mlu_runtime",
        "gpu_memcpy": "mlu_memcpy",
        "gpu_memset": "mlu_memset",
        "cudaLaunchKernel": "cnInvokeKernel",
        "cudaLaunchKernelExC": "cnrtInvokeKernel",
        "cuLaunchKernel": "cnInvokeKernelEx",
        "cudaMemcpyAsync": "cnMemcpyHtoDAsync",
        "cudaMemsetAsync": "cnMemsetD8Async",
        "cudaStreamSynchronize": "cnrtQueueSync",
        "cudaDeviceSynchronize": "cnrtSyncDevice",
        "cudaEventSynchronize": "cnrtWaitNotifier",
        "cudaStreamWaitEvent": "cnrtQueueWaitNotifier",
        "cuda": "cnrt",
        "nccl:": "cncl:",
        "ncclDevKernel_": "cnclKernel_",
    },
    "moore threads": {
        "cuda_runtime": "privateuse1_runtime",
        "cuda_driver": "privateuse1_driver",
        "cuLaunchKernel": "muLaunchKernel",
        "cuda": "musa",
        "nccl:": "mccl:",
        "ncclDevKernel_": "mcclKernel_",
    },
    "ascend": {
        "cuda_runtime": "privateuse1_runtime",
        "cuda_driver": "privateuse1_runtime",
        "cudaLaunchKernel": "aclrtLaunchKernelWithConfig",
        "cudaLaunchKernelExC": "aclrtLaunchKernel",
        "cuLaunchKernel": "aclrtLaunchKernelV2",
        "cudaMemcpyAsync": "aclrtMemcpyAsync",
        "cudaMemsetAsync": "aclrtMemsetAsync",
        "cudaStreamSynchronize": "aclrtSynchronizeStream",
        "cudaDeviceSynchronize": "aclrtSynchronizeDevice",
        "cudaEventSynchronize": "aclrtSynchronizeEvent",
        "cudaStreamWaitEvent": "aclrtStreamWaitEvent",
        "cuda": "aclrt",
        "nccl:": "hccl:",
        "ncclDevKernel_": "hcclKernel_",
    },
}


def spoken(event: Event, words: Words) -> Event:
    """The event with a vendor's names."""
    name = str(event.get("name", ""))
    for old in ("cuda", "nccl:", "ncclDevKernel_"):
        if name.startswith(old) and name not in words and old in words:
            name = words[old] + name.removeprefix(old)
    cat = event.get("cat", "")
    return event | {"name": words.get(name, name), "cat": words.get(cat, cat)}


def programs(words: Words) -> Iterator[Trace]:
    """Traces of one and of two ranks, with a vendor's or CUDA's names."""
    for seed in SEEDS:
        program = random_program(
            seed, threads=1 + seed % 2, streams=1 + seed % 3, ranks=1 + seed % 2, ops=12
        )
        for trace in execute(program, Delays(jitter=0.2), seed):
            text = json.loads(trace.json_text())
            events = [spoken(event, words) for event in text["traceEvents"]]
            yield text | {"traceEvents": events}


ANSWERS = {
    "calls": """
        SELECT kind, target, count(*) FROM staging.call GROUP BY ALL ORDER BY ALL
    """,
    "work": """
        SELECT trace_id, gpu_op_id, kind, call_id, is_collective
        FROM staging.gpu_op ORDER BY ALL
    """,
    "collectives": """
        SELECT node_id, kind, process_group, sequence, ordinal
        FROM staging.collective ORDER BY ALL
    """,
    "edges": "SELECT * FROM graph.edge ORDER BY ALL",
    "waits": "SELECT * FROM graph.wait_candidate ORDER BY ALL",
    "intervals": "SELECT * FROM critical_path.interval ORDER BY ALL",
    "steps": "SELECT * FROM critical_path.step_time ORDER BY ALL",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Every answer for the programs with CUDA's names."""
    return answered({}, tmp_path_factory.mktemp("cuda"))


def answered(words: Words, folder: Path) -> dict[str, list[Any]]:
    """Every answer for the programs with a vendor's names."""
    with ingested(programs(words), folder) as database:
        return {name: rows(database, query) for name, query in ANSWERS.items()}


@contextmanager
def ingested(traces: Iterable[Trace], folder: Path) -> Iterator[tracedb.Database]:
    """A database of traces."""
    for number, trace in enumerate(traces):
        (folder / f"{number}.json").write_text(json.dumps(trace))
    with tracedb.open() as database:
        database.ingest(sorted(folder.iterdir()))
        yield database


@pytest.mark.parametrize("vendor", VENDORS)
def test_names_of_another_vendor(
    vendor: str, answers: dict[str, list[Any]], tmp_path: Path
) -> None:
    """Calls, waits, edges, collectives and step times equal those with CUDA's names."""
    found = answered(VENDORS[vendor], tmp_path)
    for name, expected in answers.items():
        assert found[name] == expected, name


def with_driver_calls(trace: Trace) -> Trace:
    """The trace with a driver call of the same correlation in each runtime call."""
    inner = [
        event
        | {"name": "zeCommandListAppendLaunchKernel", "cat": "xpu_driver"}
        | {"ts": event["ts"] + event["dur"] / 4, "dur": event["dur"] / 2}
        for event in trace["traceEvents"]
        if event.get("cat") == "xpu_runtime"
    ]
    return trace | {"traceEvents": trace["traceEvents"] + inner}


@pytest.mark.until("graph")
def test_an_inner_driver_call_launches_nothing_more(tmp_path: Path) -> None:
    """The runtime call around it is the only launch."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    traces = list(programs(VENDORS["intel"]))
    found = []
    nested = map(with_driver_calls, traces)
    for given, folder in ((traces, before), (nested, after)):
        with ingested(given, folder) as database:
            launches = "SELECT count(*) FROM staging.call WHERE kind = 'launch'"
            works = """
                SELECT trace_id, name, stream, position, launch_start_ns
                FROM graph.stream_position INNER JOIN staging.gpu_op USING (gpu_op_id)
            """.replace(
                "trace_id, name, stream", "gpu_op.trace_id, name, gpu_op.stream"
            )
            found.append(
                (rows(database, launches), rows(database, f"{works} ORDER BY ALL"))
            )
    assert found[0] == found[1]
    assert found[0][1]


@pytest.mark.until("graph")
def test_work_of_a_device_among_driver_calls(tmp_path: Path) -> None:
    """With a device, it is work, linked to its op; freed memory is none."""

    def event(cat: str, name: str, ts: float, tid: int, **args: object) -> Event:
        lane = {"pid": 1 if tid == 1 else 0, "tid": tid, "dur": 10, "ph": "X"}
        return {"cat": cat, "name": name, "ts": ts, "args": args, **lane}

    events = [
        event("cpu_op", "aten::mm", 0, 1, **{"External id": 5}),
        event("privateuse1_runtime", "nrt_execute", 2, 1, correlation=9),
        event("privateuse1_driver", "nrt_mm", 20, 2, device=3, correlation=9),
        event(
            "privateuse1_driver", "Memory (Release)", 40, 4, device=3, call="Release"
        ),
        event("privateuse1_driver", "muLaunchKernel", 12, 1, correlation=8),
    ]
    with ingested([{"traceEvents": events}], tmp_path) as database:
        work = "SELECT name, kind, device FROM staging.gpu_op ORDER BY start_ns"
        assert rows(database, work) == [
            ("nrt_mm", "kernel", 3),
            ("Memory (Release)", "other", 3),
        ]
        calls = "SELECT name FROM staging.call ORDER BY start_ns"
        assert rows(database, calls) == [("nrt_execute",), ("muLaunchKernel",)]


KERNELS = {
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs4Ks)": "all_reduce",
    "void vllm::cross_device_reduce_1stage<float, 8>(vllm::RankData*)": "all_reduce",
    "two_shot_all_reduce_kernel_inplace": "all_reduce",
    "(anonymous namespace)::multimem_all_gather_kernel": "all_gather",
    "void deep_ep::intranode::dispatch<4, 768>(int4*, float*)": "all_to_all",
    "oneccl_reduce_scatter": "reduce_scatter",
    "ncclAllReduceRingLLKernel_sum_f32(ncclColl)": "all_reduce",
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)": "all_to_all",
    "ncclSymkDevKernel_ReduceScatter_LL_sum_f32": "reduce_scatter",
    "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)": "other",
    "void mscclpp::allreduce2<__half>(mscclpp::SmChannelDeviceHandle*)": "all_reduce",
    "void trtllm::twoShotAllReduceKernel<__nv_bfloat16, 8>()": "all_reduce",
    "void quickreduce::allreduce_prototype_twoshot<half>()": "all_reduce",
    "hcom_broadcast__360_0": "broadcast",
    "nvshmemi_put_kernel": "other",
    "void userbuffers_fp16_sum_inplace_gpu_rw_ag<4>(int, int)": "other",
    "cnclKernelAllToAll": "all_to_all",
    "void rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)": "other",
    "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*)": "other",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion<1>()": "all_reduce",
    "void aiter::cross_device_reduce_2stage<__hip_bfloat16, 8>()": "all_reduce",
    "void primus_turbo::deep_ep::intranode::cached_notify_dispatch<8>()": "all_to_all",
    "void tensorrt_llm::kernels::moe_comm::moeAllToAllKernel<8>()": "all_to_all",
    "c10d::symmetric_memory::barrier_kernel(unsigned int**, int)": "barrier",
    "kuserbuffers_pushsend(int*, int*)": "send",
    "void deep_ep::internode_ll::combine<true, 7168, 9, 4>(void*, int*)": "all_to_all",
    "void moeA2ADispatchKernel<8, false, true>(int const*, Pointers)": "all_to_all",
    "tensorrt_llm::kernels::mnnvl_throughput::moeA2ACombineKernel(int)": "all_to_all",
    "void tensorrt_llm::kernels::fusedMoeCommKernel<4>(FusedMoeParam)": "all_to_all",
    "void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>()": "all_to_all",
    "EpCombineInterNodeV1Kernel_bf16": "all_to_all",
    "void hybrid_ep::dispatch_kernel<unsigned short, 4>(int)": "all_to_all",
    "void hybrid_ep::device_sync_kernel<false>(unsigned int*)": "barrier",
    "void uccl::internode_ll::dispatch<true, false, 7168>(void*)": "all_to_all",
    "mooncake_ep_jit_combine_kernel": "all_to_all",
    "nccl_ep_jit_ht_dispatch_kernel": "all_to_all",
    "void a2a_kernels::a2a_combine_recv_kernel<16, true>(int)": "all_to_all",
    "void all2all_kernel<__nv_bfloat16>(void*)": "all_to_all",
    "void multimem_one_shot_reduce_kernel<c10::BFloat16, 16>(float*)": "reduce",
    "void barrier_on_stream_kernel_threadgroup<(threadgroup_t)1>(int, int)": "barrier",
    "sync_all_on_stream_kernel_warp()": "barrier",
    "rocshmem::rocshmem_barrier_all_kernel()": "barrier",
    "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)": None,
    "void uccl::layout::get_dispatch_layout<256, 32, 8>(long const*)": None,
    "void moeA2APrepareDispatchKernel(int*, int*, int, int)": None,
    "void hybrid_ep::scan<2, 4>(bool const*, int*)": None,
    "void permute_kernel<__nv_bfloat16>(float*)": None,
    "void tensorrt_llm::kernels::cutlass_kernels::expandInputRowsKernel<8>()": None,
    "void small_reduce_kernel<float>(float*)": None,
    "void small_gather_kernel<float>(float*)": None,
    "triton_red_fused_all_gather_into_tensor_add_3": None,
    "void at::native::reduce_kernel<512, 1>(at::native::ReduceOp)": None,
    "void occlusion_kernel<float>(float*)": None,
    "void fuse<all_reduce_tag>(float*)": None,
}


@pytest.mark.until("staging")
def test_communication_kernels_by_name(tmp_path: Path) -> None:
    """Kernels of libraries and ones that read other GPUs' memory; not similar names."""
    lane = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "dur": 1}
    events = [lane | {"name": name, "ts": ts} for ts, name in enumerate(KERNELS)]
    query = """
        SELECT gpu_op.name, collective.kind
        FROM staging.gpu_op AS gpu_op
        LEFT JOIN staging.collective AS collective ON gpu_op_id = node_id
    """
    with ingested([{"traceEvents": events}], tmp_path) as database:
        assert dict(rows(database, query)) == KERNELS


# Words of process groups (ranges of backends, `c10d` ops, `record_param_comms`,
# op types of logs), of functional collectives, and of kernels and tasks of libraries.
SPOKEN = {
    "all_reduce": """
        gloo:all_reduce gloo:sparse_all_reduce nccl:all_reduce xccl:allreduce allreduce
        c10d::allreduce_ c10d::allreduce_coalesced_ ALLREDUCE_COALESCED
        _ALLREDUCE_SPARSE allreduce_sparse _c10d_functional::all_reduce_coalesced_
        symm_mem::two_shot_all_reduce_ hcom_allReduce__428_0_1 HcclAllreduce
        symm_mem::multimem_all_reduce_ mscclpp::allreduce7 nccl:allreduce_coalesced
    """,
    "all_gather": """
        gloo:all_gather c10d::_allgather_base_ _ALLGATHER_BASE nccl:_all_gather_base
        c10d::allgather_into_tensor_coalesced_ ALLGATHER_COALESCED hcom_allGather__1_0_1
        _c10d_functional::all_gather_into_tensor hcom_allGatherV__1_0_1 mpi:all_gather
        symm_mem::multimem_all_gather_out allgather_into_tensor_coalesced
        oneccl_allgatherv
    """,
    "reduce_scatter": """
        c10d::reduce_scatter_ c10d::_reduce_scatter_base_
        REDUCE_SCATTER_TENSOR_COALESCED _REDUCE_SCATTER_BASE
        nccl:reduce_scatter_tensor_coalesced
        hcom_reduceScatter__1_0_1
        _c10d_functional::reduce_scatter_tensor symm_mem::reduce_scatter_out
        ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL hcom_reduceScatterV__1_0_1
    """,
    "all_to_all": """
        gloo:all_to_all c10d::alltoall_base_ ALLTOALL_BASE c10d::alltoall_ all_to_allv
        _c10d_functional::all_to_all_single hcom_alltoallv__1_0_1 HcclAlltoAllVC
        symm_mem::all_to_all_vdev_2d symm_mem::nvshmem_all_to_all nccl:all_to_all
        ncclDevKernel_SendRecv torch_dist_all2all hcom_batchSendRecv__1_0_1
    """,
    "broadcast": """
        gloo:broadcast c10d::broadcast_ BROADCAST nccl:_broadcast_oop _broadcast_oop
        hcom_broadcast__303_1_1 symm_mem::nvshmem_broadcast ncclBcast mccl:bcast
    """,
    "reduce": """
        gloo:reduce c10d::reduce_ REDUCE nccl:_reduce_oop _reduce_oop hcom_reduce__1_0_1
        symm_mem::multimem_one_shot_reduce_out ncclDevKernel_Reduce_Sum_f32_RING_LL
    """,
    "gather": "gloo:gather c10d::gather_ GATHER nccl:gather mpi:gather ncclGather",
    "scatter": """
        gloo:scatter c10d::scatter_ SCATTER nccl:scatter hcom_scatter__1_0_1 HcclScatter
    """,
    "barrier": """
        gloo:barrier c10d::barrier BARRIER barrier c10d::monitored_barrier_ nccl:barrier
        nccl:all_reduce_barrier symm_mem::_barrier mpi:barrier HcclBarrier
    """,
    "send": """
        gloo:send c10d::send SEND nccl:send hcom_send__1_0_1 _c10d_functional::isend
    """,
    "recv": """
        gloo:recv gloo:recvAnySource c10d::recv_any_source_ RECVANYSOURCE c10d::recv_
        nccl:recv_any_source hcom_receive__1_0_1 _c10d_functional::irecv HcclRecv
    """,
    "other": """
        COALESCED UNKNOWN nccl:coalesced wait init symm_mem::_rendezvous
        c10d::check_for_nan _c10d_functional::wait_tensor
    """,
}


def test_every_word_for_a_collective(database: tracedb.Database) -> None:
    """Each name that PyTorch and its libraries give has the kind that it means."""
    found = {
        kind: [
            rows(database, f"SELECT staging.collective_kind(lower('{name}'))")[0][0]
            for name in names.split()
        ]
        for kind, names in SPOKEN.items()
    }
    assert found == {kind: [kind] * len(kinds) for kind, kinds in found.items()}
