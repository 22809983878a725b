"""Render an analysis as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from mucc.agent.core.analysis import Advice, Analysis

WIDTH = 110


def as_text(what: str, card: str, analysis: Analysis, tools: Sequence[str]) -> str:
    """Return the limit of a program, findings with advice, the tools that ran, and what they lacked."""
    gap = f", {analysis.gap:.3g} times the bound" if analysis.gap is not None else ""
    lines = [f"{what} on {card}: limited by {analysis.limit.value}{gap}"]
    for finding in analysis.advice:
        lines += ["", *_finding(finding)]
    if not analysis.advice:
        lines.append("  no tool has anything to say")
    lines += ["", *_filled(f"looked: {', '.join(tools)}", "  ", "          ")]
    for text in analysis.missing:
        lines += _filled(f"not read: {text}", "  ", "            ")
    lines.append(f"  {analysis.seconds:.1f} s")
    return "\n".join(lines) + "\n"


def _finding(finding: Advice) -> Iterator[str]:
    where = f"{finding.stage}: " if finding.stage else ""
    head = f"{finding.severity.value:<9} {finding.tool:<13} {where}{finding.cause}"
    yield from _filled(head, "  ", " " * 26)
    for text in finding.advice:
        yield from _filled(f"- {text}", " " * 26, " " * 28)
    if finding.levers:
        yield f"{'':26}levers: {', '.join(finding.levers)}"


def _filled(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest)
