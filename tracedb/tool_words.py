"""Say with the calls of tools what a text says with commands.

Messages and summaries name the command to run next. An assistant has tools instead,
with arguments of their own; what none of them does stays a command, for its user.
"""

from __future__ import annotations

import re
import shlex

_QUOTED = re.compile(r"`tracedb ([a-z-]+)([^`]*)`")
_AFTER_ARROW = re.compile(r"(?<=-> )tracedb ([a-z-]+)(.*)$", re.MULTILINE)
_OPTION = re.compile(r" --(step|rank|run|trace|device) (\d+)")
_INTERVALS = " --intervals"
_QUESTIONS = {
    "critical-path": "critical_path",
    "info": "recording",
    "overheads": "overhead",
    "slack": "slack",
}
"""Commands that print the rows of a question."""


def for_tools(text: str) -> str:
    """The text with calls of tools in the place of commands.

    >>> for_tools("see `tracedb ask DB host_gap --rank 3`; `tracedb ingest` adds some")
    'see `ask(question="host_gap", rank=3)`; `tracedb ingest` adds some'
    """
    text = _QUOTED.sub(lambda found: f"`{_call(*found.groups())}`", text)
    text = _AFTER_ARROW.sub(lambda found: _call(*found.groups()), text)
    return text.replace("`--memory`", "`tracedb mcp --memory`")


def _call(command: str, rest: str) -> str:
    """The call that does what a command does; the command if none does.

    >>> _call("ask", " DB waits_for 4711"), _call("ask", " DB")
    ('ask(question="waits_for", values=[4711])', 'questions()')
    >>> _call("summary", " run.duckdb --run 4"), _call("whatif", "")
    ('summary(run=4)', 'whatif()')
    >>> _call("critical-path", " 'my run.duckdb' --intervals --rank 1")
    'ask(question="path_interval", rank=1)'
    >>> _call("schema", ""), _call("schema", " question.lever")
    ('relations()', 'relations(name="question.lever")')
    >>> _call("whatif", " DB --edit 'host x0.5'")
    "tracedb whatif DB --edit 'host x0.5'"
    """
    numbers = [f"{name}={number}" for name, number in _OPTION.findall(rest)]
    bare = _OPTION.sub("", rest).replace(_INTERVALS, "")
    known = {*_QUESTIONS, "ask", "schema", "summary", "whatif"}
    if "--" in bare or command not in known:
        return f"tracedb {command}{rest}"
    if command == "schema":
        numbers, command = [f'name="{name}"' for name in bare.split()], "relations"
    question = _QUESTIONS.get(command)
    if command == "ask":
        _, *words = shlex.split(bare)
        question, command = next(iter(words), None), "questions"
        if words[1:]:
            numbers = [f"values=[{', '.join(words[1:])}]", *numbers]
    if _INTERVALS in rest:
        question = "path_interval"
    if question:
        numbers, command = [f'question="{question}"', *numbers], "ask"
    return f"{command}({', '.join(numbers)})"
