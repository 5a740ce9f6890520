"""What an edit does to its targets: the actions, and the values that each takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from tracedb.errors import ScenarioError

if TYPE_CHECKING:
    import duckdb

    from tracedb.scenario import Change

Action = Literal["scale", "set", "remove", "unsync", "insert", "move"]
ACTIONS: tuple[str, ...] = get_args(Action)


@dataclass(frozen=True)
class Rule:
    """What an action goes with."""

    targets: tuple[str, ...]
    """What it can be done to."""
    some: tuple[str, ...] = ()
    """The values of which it takes one or more."""
    needs: tuple[str, ...] = ()
    """The values that it has to have."""
    takes: tuple[str, ...] = ()
    """The values that it may have besides."""
    times: tuple[str, ...] = ()
    """Of which targets it changes how long they last, and nothing else: what waits for
    what stays, so arrays can evaluate it (`tracedb.twin`)."""

    @property
    def values(self) -> tuple[str, ...]:
        """All values that it goes with."""
        return self.some + self.needs + self.takes


RULES: dict[str, Rule] = {
    "scale": Rule(
        ("host", "gpu", "op", "delay", "profiler"),
        some=("factor", "add_ns"),
        times=("host", "gpu", "op", "profiler"),
    ),
    "set": Rule(("host", "gpu"), needs=("set_ns",), times=("host", "gpu")),
    "remove": Rule(("host", "gpu", "op")),
    "unsync": Rule(("wait",)),
    "insert": Rule(("gpu",), needs=("place", "gpu_ns"), takes=("host_ns",)),
    "move": Rule(("gpu",), needs=("to_stream",)),
}
VALUES = tuple(dict.fromkeys(value for rule in RULES.values() for value in rule.values))
"""All values that actions take."""


def action_of(edit: Change) -> str:
    """The action of an edit: one that names none scales, or takes waits out."""
    return edit.action or ("unsync" if edit.target == "wait" else "scale")


def wrong_action(edit: Change) -> str | None:
    """What is wrong with the action of an edit and its values, if anything."""
    action = action_of(edit)
    rule = RULES[action]
    given = [value for value in VALUES if getattr(edit, value) is not None]
    strange = [value for value in given if value not in rule.values]
    missing = [value for value in rule.needs if value not in given]
    if edit.target not in rule.targets:
        return _wrong_target(edit.target, action)
    if strange:
        return f"{_DEEDS[action]}; leave {' and '.join(strange)} out"
    if rule.some and not given:
        return f"an edit changes nothing; give it a {' or '.join(rule.some)}"
    if missing:
        return f"{_DEEDS[action]}; give it a {' and '.join(missing)}"
    return None


_CONFLICTS = """
WITH twice AS (
    SELECT variant_id, 'set the time of' AS deed
    FROM prediction.host_edit WHERE set_count > 1
    UNION ALL
    SELECT variant_id, 'set the time of' FROM prediction.gpu_edit WHERE set_count > 1
    UNION ALL
    SELECT variant_id, 'move' FROM prediction.gpu_edit WHERE stream_count > 1
    UNION ALL
    SELECT variant_id, 'remove, and insert beside,'
    FROM prediction.gpu_edit WHERE is_removed AND is_anchor
)
SELECT scenario, deed, count(*)
FROM twice INNER JOIN prediction.variant USING (variant_id)
GROUP BY scenario, variant_id, deed ORDER BY variant_id, deed
LIMIT 1
"""


def check_conflicts(connection: duckdb.DuckDBPyConnection) -> None:
    """Raise `ScenarioError` for the first scenario with two values for one target."""
    found = connection.execute(_CONFLICTS).fetchone()
    if found:
        scenario, deed, count = found
        raise ScenarioError(
            f"scenario {scenario}: two edits {deed} the same {count} target(s)"
            "; leave one of them out"
        )


def _wrong_target(target: str, action: str) -> str:
    possible = [name for name, rule in RULES.items() if target in rule.targets]
    return f"{target} has no action {action}; it may be {', '.join(possible)}"


_DEEDS = {
    "scale": "times are scaled by factor and add_ns",
    "set": "times are set to set_ns",
    "remove": "what is removed takes no time",
    "unsync": "waits are removed",
    "insert": "GPU work of gpu_ns is inserted, in a place, by a launch of host_ns",
    "move": "GPU work is moved to_stream",
}
"""What an action does, for who gave it other values."""
