"""Rejections rest on evidence that was seen twice; what is seen once is no verdict."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from mucc.agent.audit.findings import Severity, unsure
from mucc.agent.audit.verdict import Verdict

NAME = "noise"


def needs_another(verdict: Verdict) -> bool:
    """Whether a second audit has to see what the first has seen."""
    if verdict.failure is not None:
        return verdict.failure.cause != "time"  # a limit that somebody has set, and waited for
    rejections = [f for f in verdict.findings if f.severity is Severity.REJECT]
    return bool(rejections) and not any(f.is_repeated for f in rejections)


def confirmed(first: Verdict, second: Verdict) -> Verdict:
    """Return the verdict of two audits, the first of which would reject: it stands where they agree."""
    if first.failure is not None or second.failure is not None:
        same = first.failure is not None and second.failure is not None
        return _with_seconds(second, first) if same or not second.accepted else _doubt(second, first)
    if evidence(first) & evidence(second):
        return _with_seconds(second, first)
    return _doubt(first if second.accepted else second, first)


def evidence(verdict: Verdict) -> Set[str]:
    """Return the detectors that reject."""
    return {f.detector for f in verdict.findings if f.severity is Severity.REJECT}


def _with_seconds(verdict: Verdict, other: Verdict) -> Verdict:
    names = {*verdict.seconds, *other.seconds}
    total = {n: verdict.seconds.get(n, 0.0) + other.seconds.get(n, 0.0) for n in names}
    return replace(verdict, seconds=total)


def _doubt(shown: Verdict, first: Verdict) -> Verdict:
    """Return a verdict that tells what only one of two audits has seen."""
    once = [f.message for f in first.findings if f.severity is Severity.REJECT]
    once += [first.failure.message] if first.failure else []
    kept = [f for f in shown.findings if f.severity is not Severity.REJECT]
    said = f"one of two audits has seen this: {'; '.join(once)}; audit again when the machine does less"
    return replace(shown, failure=None, findings=[*kept, unsure(NAME, said)])
