"""The actions of edits, and the values that each takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from tracedb.errors import ScenarioError
from tracedb.whatif.selection import wrong_expression
from tracedb.words import counted, shortened

if TYPE_CHECKING:
    import duckdb

    from tracedb.whatif.scenario import Change

Action = Literal[
    "scale",
    "set",
    "ideal",
    "remove",
    "unsync",
    "insert",
    "move",
    "overlap",
    "fuse",
    "graph",
]
ACTIONS: tuple[str, ...] = get_args(Action)
Statistic = Literal["step_median", "rank_median", "rank_min"]
STATISTICS: tuple[str, ...] = get_args(Statistic)


Dtype = Literal["fp32", "tf32", "bf16", "fp16", "fp8"]
DTYPES: tuple[str, ...] = get_args(Dtype)
ELSEWHERE = ("to_gpu", "to_dtype", "to_batch", "to_ranks")
"""The values that `tracedb.whatif.changed_work` handles: work elsewhere."""


@dataclass(frozen=True)
class Rule:
    """The targets and values of an action."""

    targets: tuple[str, ...]
    """The targets that it applies to."""
    some: tuple[str, ...] = ()
    """It takes one or more of these values."""
    one: tuple[str, ...] = ()
    """It takes exactly one of these values."""
    needs: tuple[str, ...] = ()
    """Required values."""
    takes: tuple[str, ...] = ()
    """Optional values."""
    times: tuple[str, ...] = ()
    """The targets of which it changes only durations, not dependencies: arrays can
    evaluate these (`tracedb.whatif.twin`)."""

    @property
    def values(self) -> tuple[str, ...]:
        """All values that it takes."""
        return self.some + self.one + self.needs + self.takes


RULES: dict[str, Rule] = {
    "scale": Rule(
        ("host", "gpu", "op", "delay", "profiler"),
        some=("factor", "add_ns"),
        times=("host", "gpu", "op", "profiler"),
    ),
    "set": Rule(
        ("host", "gpu", "op"),
        one=("set_ns", "set_to", "from_run", *ELSEWHERE),
        takes=("from_batch", "ranks_per_node", "network"),
        times=("host", "gpu", "op"),
    ),
    "ideal": Rule(("host", "gpu", "op"), times=("host", "gpu", "op")),
    "remove": Rule(("host", "gpu", "op"), takes=("gaps",)),
    "unsync": Rule(("wait",)),
    "insert": Rule(("gpu", "op"), needs=("place",), takes=("gpu_ns", "host_ns")),
    "move": Rule(("gpu",), needs=("to_stream",)),
    "overlap": Rule(
        ("gpu", "host"), takes=("until", "to_stream", "workers", "ahead", "host_ns")
    ),
    "fuse": Rule(("gpu", "op"), takes=("gpu_ns",)),
    "graph": Rule(("gpu", "op"), takes=("host_ns", "gap_ns")),
}
VALUES = tuple(dict.fromkeys(value for rule in RULES.values() for value in rule.values))
"""All values that actions take."""


def action_of(edit: Change) -> str:
    """The action of an edit; by default scale, or unsync for waits."""
    return edit.action or ("unsync" if edit.target == "wait" else "scale")


def wrong_action(edit: Change) -> str | None:
    """What is wrong with the action of an edit and its values, if anything."""
    action = action_of(edit)
    if edit.target not in RULES[action].targets:
        return _wrong_target(edit.target, action)
    return (
        _wrong_values(edit, action)
        or _wrong_set(edit)
        or _wrong_gaps(edit)
        or _wrong_part(edit, action)
        or _wrong_insert(edit, action)
        or _wrong_overlap(edit, action)
    )


def _wrong_values(edit: Change, action: str) -> str | None:
    """Which values the action does not take, or lacks."""
    rule = RULES[action]
    given = [value for value in VALUES if getattr(edit, value) is not None]
    strange = [value for value in given if value not in rule.values]
    missing = [value for value in rule.needs if value not in given]
    if strange:
        return f"{_ACTION_HELP[action]}; remove {' and '.join(strange)}"
    if rule.some and not given:
        fields = " or ".join(rule.some)
        return f"the edit changes nothing; add x0.5, +2us or -2us (as fields: {fields})"
    if missing:
        return f"{_ACTION_HELP[action]}; add {' and '.join(missing)}"
    if rule.one and len([value for value in given if value in rule.one]) != 1:
        return f"{_ACTION_HELP[action]}; add one of {', '.join(rule.one)}"
    return None


def _wrong_set(edit: Change) -> str | None:
    """Whether host time gets what only GPU work has, or ops a single time."""
    for field in ELSEWHERE:
        if edit.target == "host" and getattr(edit, field) is not None:
            return f"{field} applies to GPU work; use the target gpu or op, not host"
    if edit.to_ranks is not None and (edit.target, edit.type) != ("gpu", "collective"):
        return "to_ranks applies to collectives; write gpu:collective"
    if edit.from_batch is not None and edit.to_batch is None:
        return "from_batch is the recorded batch size; add to_batch"
    for field in ("ranks_per_node", "network") if edit.to_ranks is None else ():
        if getattr(edit, field) is not None:
            return f"{field} is about other ranks; add to_ranks"
    if edit.target == "op" and edit.set_ns is not None:
        return "an op has several times; use set_ns with host or gpu, or use set_to"
    return None


def _wrong_gaps(edit: Change) -> str | None:
    """Whether gaps are given for a target other than ops."""
    if edit.target != "op" and edit.gaps is not None:
        return "gaps is about the gaps around removed ops; remove gaps"
    return None


def _wrong_part(edit: Change, action: str) -> str | None:
    """Whether a part of ops is selected for an action on whole ops."""
    if edit.target == "op" and edit.part is not None and action in _OF_WHOLE_OPS:
        return f"{action} applies to whole ops; remove part"
    return None


_OF_WHOLE_OPS = ("insert", "graph")


def _wrong_insert(edit: Change, action: str) -> str | None:
    """Whether an insertion lacks its time, or has one of the other target."""
    if action != "insert":
        return None
    needed, other = ("gpu_ns", None) if edit.target == "gpu" else ("host_ns", "gpu_ns")
    if getattr(edit, needed) is None:
        return f"{_ACTION_HELP[action]}; add {needed}"
    if other is not None and getattr(edit, other) is not None:
        return f"{_ACTION_HELP[action]}; remove {other}"
    return None


_OVERLAPPED = {
    "gpu": ("until", "to_stream"),
    "host": ("workers", "ahead", "host_ns"),
}
"""The values of an overlap, by target."""


def _wrong_overlap(edit: Change, action: str) -> str | None:
    """Whether an overlap has values of the other target, or a wrong pattern."""
    if action != "overlap":
        return None
    values = _OVERLAPPED[edit.target]
    for other in RULES[action].takes:
        if other not in values and getattr(edit, other) is not None:
            return (
                f"overlapping {edit.target} takes {', '.join(values)}; remove {other}"
            )
    return wrong_expression("until", edit.until)


_IDLE = """
WITH
done AS (
    SELECT scenario, edit FROM prediction.set_time
    UNION
    SELECT DISTINCT scenario, edit
    FROM prediction.chosen_work
    INNER JOIN prediction.changed_time USING (scenario, gpu_op_id)
    WHERE basis <> 'unchanged' OR change LIKE '%batch=%'
    UNION
    SELECT scenario, edit FROM prediction.fused_work
    UNION
    SELECT scenario, edit FROM prediction.captured_work
    UNION
    SELECT scenario, edit FROM prediction.overlap_consumer
    UNION
    SELECT scenario, edit FROM prediction.overlapped_span
)

SELECT
    edit.scenario,
    edit.position,
    CASE
        WHEN until IS NOT NULL THEN action || ' until'
        WHEN action = 'overlap' THEN action || ' ' || target
        WHEN edit.to_dtype IS NOT NULL THEN 'to_dtype'
        WHEN edit.to_ranks IS NOT NULL THEN 'to_ranks'
        ELSE action
    END,
    edit.from_run
FROM prediction.scenario_edit AS edit
LEFT JOIN done ON edit.scenario = done.scenario AND edit.position = done.edit
WHERE
    (
        set_to IS NOT NULL
        OR from_run IS NOT NULL
        OR to_dtype IS NOT NULL
        OR to_ranks IS NOT NULL
        OR action IN ('fuse', 'graph', 'overlap')
    )
    AND done.edit IS NULL
ORDER BY scenario_position, edit.position
LIMIT 1
"""


def check_effects(connection: duckdb.DuckDBPyConnection) -> None:
    """Raise `ScenarioError` for the first edit that has no effect."""
    found = connection.execute(_IDLE).fetchone()
    if found is not None:
        scenario, edit, action, run = found
        why = _ALONE.get(action) or _no_times(connection, run)
        raise ScenarioError(f"scenario {scenario}, edit {edit}: {why}")


def _no_times(connection: duckdb.DuckDBPyConnection, run: int | None) -> str:
    """Why no times of other steps, ranks or runs exist for an edit."""
    if run is None:
        return (
            "nothing that it selects is in a step; times of other steps and ranks "
            "exist only within steps"
        )
    rows = connection.execute("SELECT DISTINCT run_id FROM raw.trace ORDER BY ALL")
    runs = [known for (known,) in rows.fetchall()]
    if run not in runs:
        return f"no run {run}; available: {', '.join(map(str, runs))}"
    return f"run {run} has nothing that it selects within a step"


_ALONE = {
    "to_dtype": (
        "nothing that it selects has known shapes and types; record with "
        "record_shapes=True"
    ),
    "to_ranks": "the message of no collective that it selects is known",
    "fuse": (
        "no two kernels that it selects follow each other on a stream without a "
        "wait in between"
    ),
    "graph": (
        "no two launches that it selects follow each other on a thread without a "
        "wait or another launch in between"
    ),
    "overlap host": (
        "nothing that it selects can be done ahead: idle time, launches and waits "
        "are not work of the thread"
    ),
    "overlap gpu": (
        "no GPU work is known to use the result; name the op or range until which "
        "it may overlap: until=NAME"
    ),
    "overlap until": (
        "no op or range that matches until starts after it and launches GPU work; "
        "name another"
    ),
}
"""Why an edit has no effect on what it selects."""

_CONFLICTS = """
WITH twice AS (
    SELECT variant_id, 'set the time of' AS verb
    FROM prediction.host_edit WHERE set_count > 1
    UNION ALL
    SELECT variant_id, 'set the time of' FROM prediction.gpu_edit WHERE set_count > 1
    UNION ALL
    SELECT variant_id, 'change the GPU, the type, the batch size or the ranks of'
    FROM prediction.work_change
    INNER JOIN prediction.variant USING (scenario)
    WHERE value_count > 1
    UNION ALL
    SELECT variant_id, 'change the batch size of'
    FROM prediction.op_change
    INNER JOIN prediction.variant USING (scenario)
    WHERE value_count > 1
    UNION ALL
    SELECT variant_id, 'move' FROM prediction.gpu_edit WHERE stream_count > 1
    UNION ALL
    SELECT variant_id, 'remove, and insert beside,'
    FROM prediction.gpu_edit WHERE is_removed AND is_anchor
    UNION ALL
    SELECT variant_id, 'overlap'
    FROM prediction.overlapped_span
    INNER JOIN prediction.variant USING (scenario)
    GROUP BY variant_id, thread_id, position HAVING count(*) > 1
    UNION ALL
    SELECT variant_id, 'fuse, or capture,'
    FROM (
        SELECT scenario, gpu_op_id FROM prediction.fused_work
        UNION ALL
        SELECT scenario, gpu_op_id FROM prediction.captured_work
    )
    INNER JOIN prediction.variant USING (scenario)
    GROUP BY variant_id, gpu_op_id HAVING count(*) > 1
)
SELECT scenario, verb, count(*)
FROM twice INNER JOIN prediction.variant USING (variant_id)
GROUP BY scenario, variant_id, verb ORDER BY variant_id, verb
LIMIT 1
"""


def check_conflicts(connection: duckdb.DuckDBPyConnection) -> None:
    """Raise `ScenarioError` for the first scenario with two values for one target."""
    found = connection.execute(_CONFLICTS).fetchone()
    if found:
        scenario, verb, count = found
        raise ScenarioError(
            f"scenario {scenario}: two edits {verb} the same "
            f"{counted(count, 'target')}; remove one of them"
        )


# Edits of the number of ranks that select groups with different ranks on one rank.
_GROUPS = """
SELECT edit.scenario, edit.position, list(DISTINCT known.name ORDER BY known.name)
FROM prediction.scenario_edit AS edit
INNER JOIN prediction.chosen_work AS work
    ON edit.scenario = work.scenario AND edit.position = work.edit
INNER JOIN (
    SELECT
        *,
        process_group AS name,
        regexp_extract(name, '\\[.*') AS members,
        CASE members WHEN '' THEN group_size::VARCHAR ELSE members END AS ranks
    FROM staging.collective
) AS known
    ON gpu_op_id = node_id
WHERE to_ranks IS NOT NULL AND kind NOT IN ('send', 'recv')
GROUP BY edit.scenario, scenario_position, edit.position, known.trace_id
HAVING count(DISTINCT known.ranks) > 1
ORDER BY scenario_position, edit.position
LIMIT 1
"""


def check_groups(connection: duckdb.DuckDBPyConnection) -> None:
    """Raise `ScenarioError` for an edit that gives other ranks to unlike groups."""
    found = connection.execute(_GROUPS).fetchone()
    if found:
        scenario, edit, groups = found
        listed = ", ".join(f'"{shortened(group, 40)}"' for group in groups)
        raise ScenarioError(
            f"scenario {scenario}, edit {edit}: it selects process groups of different "
            f"ranks: {listed}; add process_group=PATTERN"
        )


def _wrong_target(target: str, action: str) -> str:
    possible = [name for name, rule in RULES.items() if target in rule.targets]
    return f"{target} has no action {action}; available: {', '.join(possible)}"


_ACTION_HELP = {
    "scale": "scale changes times by factor and add_ns",
    "set": (
        "set sets times to set_ns, to those of others of the kind (set_to) or from "
        "from_run, or changes the GPU, type, batch size or ranks of GPU work"
    ),
    "ideal": "ideal gives all ranks the mean time of the ranks",
    "remove": "remove makes the time 0",
    "unsync": "unsync removes waits",
    "insert": (
        "insert adds GPU work of gpu_ns at a place, with a launch of host_ns; "
        "next to ops, an op of host_ns"
    ),
    "move": "move moves GPU work to_stream",
    "overlap": (
        "overlap lets GPU work run beside other work until its result is used, "
        "and host time run ahead"
    ),
    "fuse": "fuse makes GPU work one launch, of the sum less the traffic or of gpu_ns",
    "graph": "graph launches GPU work at once, in host_ns, with gap_ns between",
}
"""What each action does, for error messages."""
