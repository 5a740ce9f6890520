"""A small trace with every kind of event that some layer reads."""

from __future__ import annotations

from typing import Any

Event = dict[str, Any]

FLOAT = "float"
# Ops with dimensions, dtypes (where not all float) and scalar arguments.
OPS: tuple[tuple[str, list[Any], list[str], list[str]], ...] = (
    ("aten::addmm", [[64], [32, 128], [128, 64], []], [], []),
    ("aten::bmm", [[8, 32, 16], [8, 16, 32]], [], []),
    ("aten::linear", [[32, 128], [64, 128], [64]], [], []),
    (
        "aten::conv2d",
        [[4, 3, 32, 32], [8, 3, 3, 3], [8]],
        [],
        ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "1"],
    ),
    (
        "aten::convolution_backward",
        [[4, 8, 16, 16], [4, 3, 32, 32], [8, 3, 3, 3]],
        [],
        ["", "", "", "[8]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"],
    ),
    (
        "aten::_scaled_dot_product_flash_attention",
        [[2, 4, 64, 32]] * 3,
        ["c10::Half"] * 3,
        ["", "", "", "0.", "True"],
    ),
    ("aten::embedding", [[1000, 64], [32, 8]], [FLOAT, "long int"], ["", "", "-1"]),
    ("aten::index_select", [[1000, 64], [], [32]], [], ["", "0", ""]),
    (
        "aten::_embedding_bag",
        [[1000, 64], [256], [32]],
        [FLOAT, "long int", "long int"],
        ["", "", "", "False", "0"],
    ),
    ("aten::embedding_dense_backward", [[32, 8, 64], [32, 8]], [], ["", "", "1000"]),
    ("aten::_softmax", [[32, 100]], [], ["", "-1", "False"]),
    ("aten::sum", [[32, 100]], [], ["", "[1]", "False", ""]),
    ("aten::native_layer_norm", [[32, 64], [], [64], [64]], [], ["", "[64]"]),
    (
        "aten::native_group_norm",
        [[4, 8, 16], [8], [8]],
        [],
        ["", "", "", "4", "8", "16", "2", "1e-05"],
    ),
    ("aten::native_batch_norm", [[4, 8, 16, 16], [8], [8]], [], []),
    (
        "aten::cat",
        [[[32, 4], [32, 8]], []],
        ["GenericList[Tensor(float),Tensor(float)]"],
        ["", "1"],
    ),
    ("aten::copy_", [[32, 64], [32, 64]], [FLOAT, "c10::Half"], []),
    ("aten::gather", [[32, 64], [], [32, 8]], [], ["", "1", ""]),
    ("aten::index_put_", [[32, 64], [], [8, 64]], [], []),
    ("aten::add", [[32, 1], [1, 64]], [], []),
    ("aten::mse_loss", [[32, 64], [32, 64]], [], ["", "", "1"]),
    ("aten::_foreach_add_", [[[64], [32]]], ["TensorList"], []),
)


def trace(steps: int = 2) -> dict[str, Any]:
    """Steps of these ops, with launches, GPU work, flows, waits and a collective."""
    events: list[Event] = [
        *_metadata(),
        *(event for step in range(steps) for event in _step(step)),
    ]
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "traceEvents": events,
    }


def _metadata() -> list[Event]:
    names = {1: "main", 2: "autograd", 3: "pin_memory"}
    return [
        {
            "ph": "M",
            "name": "thread_name",
            "pid": 10,
            "tid": tid,
            "ts": 0,
            "args": {"name": name},
        }
        for tid, name in names.items()
    ]


def _step(step: int) -> list[Event]:
    begin = 1_000.5 + 3_000 * step
    events = [
        _slice("user_annotation", f"ProfilerStep#{step}", begin, 2_900),
        _slice("user_annotation", "nccl:all_reduce", begin + 2_400, 100),
        _slice("python_function", "nn.Module: Net_0", begin + 5, 1_200),
        _slice("python_function", "nn.Module: Linear_0", begin + 40, 100),
    ]
    for place, op in enumerate(OPS):
        events += _op(op, begin + 10 + 100 * place, 100 * step + place)
    events += _collective(begin + 2_400, 100 * step + 50)
    events += _waits(begin + 2_600, 100 * step + 60)
    return events


def _slice(cat: str, name: str, ts: float, dur: float, **fields: object) -> Event:
    event = {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur}
    return {**event, "pid": 10, "tid": 1, "args": {}, **fields}


def _op(
    op: tuple[str, list[Any], list[str], list[str]], ts: float, number: int
) -> list[Event]:
    name, dims, types, inputs = op
    args = {
        "External id": number + 1,
        "Record function id": number + 1,
        "Sequence number": number,
        "Fwd thread id": 0,
        "Input Dims": dims,
        "Input type": types or [FLOAT if d else "Scalar" for d in dims],
        "Concrete Inputs": inputs or [""] * len(dims),
    }
    tid = 2 if "backward" in name else 1
    flow = {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": number, "bp": "e"}
    ends = [flow] if tid == 1 else [{**flow, "ph": "f", "id": number - 1}]
    return [
        _slice("cpu_op", name, ts, 80, tid=tid, args=args),
        *_launched(name, ts + 10, number + 1, tid),
        *({**end, "pid": 10, "tid": tid, "ts": ts} for end in ends),
    ]


def _launched(name: str, ts: float, number: int, tid: int) -> list[Event]:
    """A launch, its kernel and a copy, with the flow between them."""
    ids = {"External id": number, "correlation": number}
    shape = {"grid": [64, 1, 1], "block": [256, 1, 1], "registers per thread": 32}
    work = {"device": 0, "context": 1, "stream": 7 + number % 2, **ids}
    lane = {"pid": 0, "tid": work["stream"]}
    copy = {**work, "correlation": 1_000 + number, "bytes": 4_096}
    launch = {"cbid": 211, **ids}
    copied = {**launch, "correlation": 1_000 + number}
    flow = {"cat": "ac2g", "name": "ac2g", "id": number, "bp": "e"}
    return [
        _slice("cuda_runtime", "cudaLaunchKernel", ts, 8.125, tid=tid, args=launch),
        _slice("kernel", f"sgemm {name}", ts + 12, 30, args={**work, **shape}, **lane),
        {"ph": "s", "pid": 10, "tid": tid, "ts": ts, **flow},
        {"ph": "f", "ts": ts + 12, **lane, **flow},
        _slice("cuda_runtime", "cudaMemcpyAsync", ts + 20, 5, tid=tid, args=copied),
        _slice("gpu_memcpy", "Memcpy HtoD", ts + 45, 4, args=copy, **lane),
    ]


def _collective(ts: float, number: int) -> list[Event]:
    reported = {
        "Collective name": "allreduce",
        "In msg nelems": 4_096,
        "Out msg nelems": 4_096,
        "Group size": 2,
        "dtype": "Float",
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1]",
        "Seq": number,
    }
    op = {"External id": number + 1, "Input Dims": [[4_096]], "Input type": [FLOAT]}
    ids = {"External id": number + 1, "correlation": number + 1}
    gpu = {"device": 0, "stream": 20, **ids}
    kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    return [
        _slice("cpu_op", "record_param_comms", ts + 5, 60, args={**op, **reported}),
        _slice("cuda_runtime", "cudaLaunchKernelExC", ts + 10, 8, args=ids),
        _slice("kernel", kernel, ts + 25, 60, pid=0, tid=20, args={**gpu, **reported}),
    ]


def _waits(ts: float, number: int) -> list[Event]:
    sync = {"device": 0, "stream": 7, "External id": 0}
    event = {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": number}
    lane = {"pid": 0, "tid": 7}
    return [
        _slice("cuda_runtime", "cudaEventRecord", ts, 2, args={"correlation": number}),
        _slice(
            "cuda_sync",
            "Stream Wait Event",
            ts + 3,
            1,
            **lane,
            args={
                **sync,
                "stream": 8,
                "cuda_sync_kind": "Stream Wait Event",
                "correlation": number + 1,
                **event,
            },
        ),
        _slice(
            "cuda_runtime",
            "cudaStreamSynchronize",
            ts + 10,
            20,
            args={"correlation": number + 2},
        ),
        _slice(
            "cuda_sync",
            "Stream Sync",
            ts + 11,
            18,
            **lane,
            args={**sync, "cuda_sync_kind": "Stream Sync", "correlation": number + 2},
        ),
        _slice(
            "cuda_runtime",
            "cudaDeviceSynchronize",
            ts + 40,
            30,
            args={"correlation": number + 3},
        ),
    ]
