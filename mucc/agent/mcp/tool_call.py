"""Run the command of a tool call in its own process."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any, cast

from mucc.agent.core.command import Ended, python, run
from mucc.agent.mcp.fields import Order
from mucc.agent.propose.llm.redaction import SECRET_NAMES
from mucc.api.diagnostics import Diagnostic, ExitStatus, to_json
from mucc.api.json_types import Json

LONGEST = 1 << 20
"""Bytes of the longest answer."""

PRINTED = 2000
"""Characters of what a command printed beside its diagnostics that are answered."""


VERDICTS = (ExitStatus.GOOD, ExitStatus.REJECTED, ExitStatus.INCONCLUSIVE)
"""Statuses of commands that did what they were asked for."""

PROBLEM = re.compile(r"^error\[(MU\d{4})\]: (.*)$", re.MULTILINE)
"""How a command prints a problem."""


def call(order: Order, folder: str, seconds: float, stop: threading.Event) -> Json:
    """Return the answer to a tool's call: `exit_status`, `diagnostics`, and `result` (JSON), `text` or
    `output`.
    """
    words, env = python(order.module)
    words += [*order.words, "--diagnostics=json"]
    ended = run(
        words,
        seconds=seconds,
        given=order.given,
        longest=LONGEST,
        folder=folder,
        env=without_secrets(env),
        stops=(stop,),
    )
    if ended.stopped:
        return _stopped(ended)
    answer: Json = {"exit_status": ended.status, **_said(ended)}
    if order.writes and ended.status == 0:
        answer["output"] = os.path.normpath(order.writes)
    if order.text:
        answer["text"] = ended.out
    elif (result := _json(ended.out)) is not None:
        answer["result"] = result
    return answer


def refused(diagnostics: Sequence[Diagnostic]) -> Json:
    """Return the answer to a call with wrong arguments."""
    return {"exit_status": int(ExitStatus.USAGE), "diagnostics": [to_json(d) for d in diagnostics]}


def is_error(answer: Mapping[str, Any]) -> bool:
    """Whether an answer is one of failure; a verdict that rejects is none."""
    return answer["exit_status"] not in VERDICTS


def _stopped(ended: Ended) -> Json:
    helps = ("start the server with a larger --time-limit, or ask for less at a time",)
    diagnostic = Diagnostic("MU7252", f"the command {ended.how}", helps=helps)
    return {"exit_status": int(ExitStatus.TOOLCHAIN), "diagnostics": [to_json(diagnostic)]}


def _said(ended: Ended) -> Json:
    """Diagnostics, and the rest of stderr."""
    start = ended.err.rfind("\n[") + 1 if not ended.err.startswith("[") else 0
    found = _json(ended.err[start:])
    said: Json = {"diagnostics": []}
    printed = ended.err.strip()
    if isinstance(found, list):
        said["diagnostics"] = cast("list[Any]", found)
        printed = ended.err[:start].strip()
    if not said["diagnostics"] and ended.status not in VERDICTS:
        said["diagnostics"] = [to_json(d) for d in _coded(printed, ended.status)]
    if printed:
        said["printed"] = printed[-PRINTED:]
    return said


def _coded(printed: str, status: int) -> list[Diagnostic]:
    """Return what a command has printed as diagnostics: no problem is in printed text alone."""
    found = [Diagnostic(code, message) for code, message in PROBLEM.findall(printed)]
    said = f"the command ended with status {status}, and named no problem"
    return found or [Diagnostic("MU9001", said, notes=tuple(printed.splitlines()[-3:]))]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def without_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that are not named like secrets."""
    return {n: v for n, v in env.items() if not any(s in n.upper() for s in SECRET_NAMES)}
