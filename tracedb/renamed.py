"""Names of earlier versions, and their new names.

Old names do not work. A query that uses one gets an error with the new name, and
`tracedb upgrade` moves users' data to their new tables.
"""

from __future__ import annotations

import re

RELATIONS = {
    "raw.calibration": "prediction.kernel_factor",
    "raw.hardware": "reference.hardware",
    "raw.kernel_estimate": "reference.kernel_estimate",
    "raw.library_sample": "reference.library_sample",
    "reference.calibration": "prediction.kernel_factor",
    "staging.arrow": "staging.flow",
    "staging.calibration": "prediction.kernel_factor",
    "staging.hardware": "prediction.hardware",
    "staging.kernel_estimate": "reference.kernel_estimate",
    "staging.launch": "staging.call",
    "staging.library_sample": "reference.library_sample",
    "graph.activity": "graph.top_level_event",
    "graph.held_launch": "graph.launch_submission",
    "graph.stalled_launch": "graph.launch_submission",
    "graph.last_moment": "graph.last_resume",
    "graph.replayed_kernel": "graph.replayed_gpu_op",
    "graph.usual_delay": "graph.typical_delay",
    "graph.usual_return": "graph.typical_return",
    "graph.usual_start": "graph.typical_start",
    "prediction.edited_piece": "prediction.edited_span",
    "prediction.kernel_shape": "prediction.kernel_problem",
    "prediction.op_bag": "prediction.op_embedding_bag",
    "prediction.op_extent": "prediction.op_problem",
    "prediction.op_lookup": "prediction.op_embedding",
    "prediction.op_message": "prediction.op_collective",
    "prediction.op_piece": "prediction.op_problem",
    "prediction.op_product": "prediction.op_gemm",
    "prediction.rung": "prediction.method",
    "critical_path.awaited_work": "simulation.awaited_work",
    "critical_path.binding": "simulation.binding",
    "critical_path.gpu_moment": "critical_path.gpu_outcome",
    "critical_path.gpu_offset": "simulation.gpu_offset",
    "critical_path.gpu_place": "simulation.gpu_placement",
    "critical_path.gpu_work_time": "simulation.gpu_work_time",
    "critical_path.host_moment": "critical_path.host_outcome",
    "critical_path.host_offset": "simulation.host_offset",
    "critical_path.host_out": "critical_path.host_successor",
    "critical_path.host_piece_time": "simulation.host_span_time",
    "critical_path.origin": "simulation.origin",
    "critical_path.predicted_end": "critical_path.simulated_end",
    "critical_path.predicted_hop": "critical_path.simulated_hop",
    "critical_path.predicted_interval": "critical_path.simulated_interval",
    "critical_path.predicted_path": "critical_path.path",
    "critical_path.predicted_step": "critical_path.step_period",
    "critical_path.predicted_work": "critical_path.simulated_work",
    "critical_path.published_time": "critical_path.lin2022_time",
    "critical_path.segment_edge": "simulation.segment_edge",
    "critical_path.segment_time": "simulation.segment_time",
    "critical_path.step_moment": "critical_path.step_outcome",
    "critical_path.step_piece": "simulation.step_span",
    "critical_path.work_end": "simulation.work_end",
    "question.predicted_idle": "question.idle_cause",
    "question.predicted_path": "question.critical_path",
    "question.predicted_path_interval": "question.path_interval",
}
"""Relations."""

NARROWED = {"staging.kernel": "staging.gpu_op (staging.kernel has only kernels)"}
"""Names that now belong to a relation with only some of the rows."""

COLUMNS = {
    "arrow_id": "flow_id",
    "awaited_kernel_id": "awaited_gpu_op_id",
    "captured_launch_id": "captured_call_id",
    "cause_kernel_id": "cause_gpu_op_id",
    "cause_moment": "cause_resume_id",
    "held_ns": "submit_ns",
    "stalled_ns": "submit_ns",
    "kernel_count": "gpu_op_count",
    "kernel_end_ns": "gpu_op_end_ns",
    "kernel_id": "gpu_op_id",
    "kernel_time_ns": "gpu_op_time_ns",
    "last_kernel_id": "last_gpu_op_id",
    "launch_id": "call_id",
    "moment": "resume_id",
    "next_last_kernel_id": "next_last_gpu_op_id",
    "piece_count": "span_count (of question.kernel_error: problem_count)",
    "piece_ns": "span_ns",
    "piece_share": "problem_share",
    "place": "ordinal",
    "place_count": "ordinal_count",
    "place_in_name": "ordinal_in_name",
    "place_key": "ordinal_key",
    "previous_kernel_id": "previous_gpu_op_id",
    "reference_kernel_id": "reference_node_id",
    "rung": "method",
    "source_moment": "source_endpoint",
    "target_kernel_id": "target_gpu_op_id",
    "target_moment": "target_resume_id (of graph.step_edge: target_endpoint)",
    "usual_wait_ns": "typical_wait_ns",
}
"""Columns of any relation."""

METHODS = {
    "published": "lin2022",
    "published_as_profiled": "lin2022_as_profiled",
}
"""Methods of prediction."""

OPTIONS = {"--rung": "--method"}
"""Options of commands."""

KEPT_COLUMNS = {
    "reference.hardware": {"place": "ordinal"},
    "reference.kernel_estimate": {"event_id": "gpu_op_id"},
    "reference.library_sample": {"place": "ordinal", "place_count": "ordinal_count"},
}
"""Renamed columns of tables that an upgrade keeps, by table."""

_TEXT = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"\w+\.\w+|\w+")


def hint(query: str) -> str:
    """List the old names in a query with their new names; empty if there are none.

    >>> hint("SELECT launch_id FROM staging.launch")
    'launch_id was renamed to call_id; staging.launch was renamed to staging.call'
    >>> hint("SELECT call_id FROM staging.call -- not staging.launch")
    ''
    """
    known = RELATIONS | NARROWED | COLUMNS
    found: dict[str, str] = {}
    for word in _WORD.findall(_TEXT.sub(" ", query).lower()):
        for name in (word, word.rpartition(".")[2]):
            if name in known:
                found[name] = known[name]
                break
    return "; ".join(f"{old} was renamed to {new}" for old, new in found.items())
