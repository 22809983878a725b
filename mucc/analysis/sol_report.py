"""Print a speed-of-light analysis as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.analysis.bound import DRAM, Bound, Limit
from mucc.analysis.sol import Sol
from mucc.analysis.sol_json import BoundJson, SolReport
from mucc.diagnostics.core import Diagnostic, Severity

FASTER = 0.9
"""The fraction of the bound below which a measured time is not explained by rounding."""


def warnings(sol: Sol, measured_ms: float | None) -> Iterator[Diagnostic]:
    """Build the warning MU5407 for a measured time below the bound."""
    least = sol.least_seconds
    if measured_ms is None or not least or measured_ms >= FASTER * least * 1e3:
        return
    share = measured_ms / (least * 1e3)
    yield Diagnostic(
        "MU5407",
        f"{sol.kernel}: {measured_ms:g} ms is {share:.0%} of what {sol.bound.binding} needs at the least",
        severity=Severity.WARNING,
        notes=(f"no implementation of the program takes less than {_time(least)} on {sol.device}",),
        helps=(
            "look whether all of the work was done, in the declared formats, and within the timed interval",
        ),
    )


def as_text(sol: Sol, measured_ms: float | None = None, baseline_ms: float | None = None) -> str:
    """Print the report as text."""
    dims = " ".join(f"{name}={value}" for name, value in sol.dims.items())
    least = "" if sol.is_whole else "at least "
    lines = [f"{sol.kernel} on {sol.device}{': ' if dims else ''}{dims}"]
    if not sol.bound.seconds and sol.is_whole:
        lines.append("  nothing to do: the bound is 0")
    else:
        reach = "" if sol.reachable == sol.bound else f"; {_time(sol.reachable.seconds)} at measured rates"
        by = f", by {sol.bound.binding}" if sol.bound.binding else ""
        lines.append(f"  bound {least}{_time(sol.bound.seconds)}{by}{reach}")
        if not sol.is_whole:
            lines.append(f"  not counted: {', '.join(sol.missing)}")
        lines.append(f"  {'unit':<13}{'amount':>13}{'rate':>16}{'time':>12}")
        lines += [f"  {_limit(x)}" for x in sol.bound.limits if x.amount]
        lines += _intensity(sol)
    for assumption in sol.assumptions[1:]:
        bound = assumption.bound
        lines.append(f"  {assumption.name}: {least}{_time(bound.seconds)}, by {bound.binding}")
    lines += [f"  {fact}" for fact in sol.facts]
    lines += _staged(sol)
    if measured_ms is not None:
        most = "" if sol.is_whole else ", of which a part is not counted"
        lines.append(f"  measured {measured_ms:g} ms: {sol.gap(measured_ms / 1e3):.3g} times the bound{most}")
        if baseline_ms is not None and sol.is_whole:
            score = sol.score(measured_ms / 1e3, baseline_ms / 1e3)
            lines.append(f"  SOL score {score:.3f} (0.5 is the baseline of {baseline_ms:g} ms, 1 the bound)")
    if sol.hints:
        lines.append("  what would lower the bound:")
        lines += [f"    {hint.text}: {_time(hint.seconds)}" for hint in sol.hints]
    return "\n".join(lines) + "\n"


def _intensity(sol: Sol) -> Iterator[str]:
    moved = sol.bound.limit(DRAM)
    work = next((x for x in sol.bound.limits if x.unit != DRAM and x.amount), None)
    if moved and moved.amount and work and moved.rate:
        ridge = work.rate / moved.rate
        intensity = work.amount / moved.amount
        yield f"  {intensity:.3g} operations per byte; {work.unit} and {DRAM} balance at {ridge:.3g}"


def _staged(sol: Sol) -> Iterator[str]:
    if len(sol.stages) < 2:
        return
    moved = sol.bound.limit(DRAM)
    fused = f" ({_bytes(moved.amount if moved else 0)} fused)"
    yield (
        f"  as {len(sol.stages)} stages: {_bytes(sol.staged_bytes)}"
        f"{'' if sol.has_calls else fused}, {_time(sol.staged_seconds)}"
    )
    width = max(len(s.name) for s in sol.stages)
    for s in sol.stages:
        bound = f"{_time(s.bound.seconds)}, by {s.bound.binding}"
        yield f"    {s.name:<{width}}  {s.kind:<11}  {_bytes(s.bytes):>9}  {bound}"


def _limit(x: Limit) -> str:
    unit = "B" if x.unit == DRAM else "op"
    return (
        f"{x.unit:<13}{_scaled(x.amount, unit):>13}{_scaled(x.rate, unit + '/s'):>16} {_time(x.seconds):>11}"
    )


def _bytes(amount: float) -> str:
    return _scaled(amount, "B")


def _scaled(amount: float, unit: str) -> str:
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if amount >= factor:
            return f"{amount / factor:.4g} {prefix}{unit}"
    return f"{amount:.4g} {unit}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.4g} us"


def as_json(sol: Sol, measured_ms: float | None = None, baseline_ms: float | None = None) -> SolReport:
    """Convert the report to JSON. Times are in microseconds, sizes in bytes, rates per second.

    Of a bound that is not `whole`, `missing` names what it leaves out, and there is neither gap nor score.
    """
    report: SolReport = {
        "kernel": sol.kernel,
        "device": sol.device,
        "dims": dict(sol.dims),
        **_bound_json(sol.bound),
        "whole": sol.is_whole,
        "missing": list(sol.missing),
        "reachable": _bound_json(sol.reachable),
        "assumptions": {a.name: _bound_json(a.bound) for a in sol.assumptions},
        "stages": [
            {"name": s.name, "kind": s.kind, "bytes": s.bytes, **_bound_json(s.bound)} for s in sol.stages
        ],
        "cached": sol.cached,
        "staged_bytes": sol.staged_bytes,
        "staged_us": sol.staged_seconds * 1e6,
        "structure": list(sol.facts),
        "hints": [{"text": h.text, "bound_us": h.seconds * 1e6} for h in sol.hints],
    }
    if measured_ms is not None:
        report["measured_us"] = measured_ms * 1e3
        report["gap"] = sol.gap(measured_ms / 1e3) if sol.is_whole else None
        report["faster_than_light"] = bool(list(warnings(sol, measured_ms)))
        if baseline_ms is not None and sol.is_whole:
            report["score"] = sol.score(measured_ms / 1e3, baseline_ms / 1e3)
    return report


def _bound_json(bound: Bound) -> BoundJson:
    return {
        "bound_us": bound.seconds * 1e6,
        "binding": bound.binding,
        "limits": {
            x.unit: {"amount": x.amount, "rate": x.rate, "us": x.seconds * 1e6}
            for x in bound.limits
            if x.amount
        },
    }
