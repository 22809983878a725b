"""What an audit comes to: a label, its evidence, and times; as values, JSON and text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mucc.agent.audit.findings import GRAVEST_FIRST, Finding, Label, Severity
from mucc.agent.audit.observations import Bound, Call, Work
from mucc.agent.core.attempts import CaseJson, FailureJson, VerdictJson
from mucc.api.sandbox import Isolation


@dataclass(frozen=True)
class Failure:
    """Why a candidate gave no results."""

    message: str
    printed: str = ""
    cause: str = ""


@dataclass(frozen=True)
class Verdict:
    """Whether a solution counts as a replacement of a problem, and why. Times in ms."""

    problem: str
    solution: str
    device: str
    card: str
    precision: str
    seed: int
    findings: Sequence[Finding] = ()
    calls: Sequence[Call] = ()
    time_ms: float | None = None
    interval_ms: tuple[float, float] | None = None
    """Holds the median of times like these in 99 of 100 cases (`noise.interval`)."""
    wall_ms: float | None = None
    reference_ms: float | None = None
    bound: Bound | None = None
    own_share: float | None = None
    kernels: Sequence[tuple[Work, bool]] = ()
    """What one call ran, each with whether it is the solution's own."""
    failure: Failure | None = None
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    isolation: str = Isolation.NONE.value
    layers: Sequence[str] = ()
    """The layers that confined its process."""

    @property
    def correct(self) -> bool:
        judged = [c.comparison for c in self.calls if c.comparison.judged]
        return self.failure is None and bool(judged) and all(c.correct for c in judged)

    @property
    def label(self) -> Label:
        if self.failure is not None:
            return Label.FAILED
        found = {f.label for f in self.findings if f.severity is not Severity.NOTE}
        return next((label for label in GRAVEST_FIRST if label in found), Label.NO_ISSUES)

    @property
    def accepted(self) -> bool:
        return self.label.accepted

    @property
    def state(self) -> str:
        """What follows: "accepted", "accepted with notes", "rejected" or "inconclusive"."""
        match self.label:
            case Label.NO_ISSUES:
                return "accepted"
            case Label.MINOR_ISSUES:
                return "accepted with notes"
            case Label.INCONCLUSIVE:
                return "inconclusive"
            case _:
                return "rejected"

    @property
    def speedup(self) -> float | None:
        if not self.reference_ms or not self.time_ms:
            return None
        return self.reference_ms / self.time_ms

    @property
    def gap(self) -> float | None:
        if self.bound is None or not self.bound.whole or not self.bound.ms or not self.time_ms:
            return None
        return self.time_ms / self.bound.ms

    def to_json(self) -> VerdictJson:
        """Return the verdict as plain values; docs/audit.md says what they mean."""
        return {
            "problem": self.problem,
            "solution": self.solution,
            "device": self.device,
            "card": self.card,
            "precision": self.precision,
            "label": self.label.value,
            "accepted": self.accepted,
            "verdict": self.state,
            "correct": self.correct,
            "findings": [f.to_json() for f in self.findings],
            "time_ms": self.time_ms,
            "interval_ms": self.interval_ms and [*self.interval_ms],
            "wall_ms": self.wall_ms,
            "reference_ms": self.reference_ms,
            "speedup": self.speedup,
            "bound_ms": self.bound.ms if self.bound else None,
            "gap": self.gap,
            "bound_note": self.bound.note if self.bound else None,
            "bound_whole": self.bound.whole if self.bound else None,
            "own_share": self.own_share,
            "kernels": [
                {"name": w.name, "calls": w.calls, "us": w.us, "own": own} for w, own in self.kernels
            ],
            "seed": self.seed,
            "cases": [_case_json(c) for c in self.calls],
            "failure": self.failure
            and FailureJson(message=self.failure.message, printed=self.failure.printed),
            "seconds": {name: round(s, 3) for name, s in self.seconds.items()},
            "isolation": {"asked": self.isolation, "layers": [*self.layers]},
        }

    def as_text(self) -> str:
        """Return the verdict as lines for people."""
        lines = [f"{self.solution}: {self.label.value}, {self.state}"]
        if self.failure:
            lines.append(f"  {_one_line(self.failure.message)}")
            lines += [f"    | {line}" for line in self.failure.printed.splitlines()]
        for finding in sorted(self.findings, key=lambda f: list(Severity).index(f.severity)):
            lines.append(f"  {finding.severity.value:<6}  {finding.detector}: {_one_line(finding.message)}")
        lines += self._results()
        lines += self._times()
        lines.append(f"  seed {self.seed}, precision {self.precision}, on {self.card or self.device}")
        lines.append(f"  isolation {self.isolation}: {', '.join(self.layers) or 'no layer'}")
        return "\n".join(lines) + "\n"

    def _results(self) -> list[str]:
        judged = [c for c in self.calls if c.comparison.judged]
        if not judged:
            return []
        wrong = [c.case.name for c in judged if not c.comparison.correct]
        worst = max(c.comparison.excess for c in judged)
        if wrong:
            return [f"  wrong in {len(wrong)} of {len(judged)} cases: {', '.join(wrong)}"]
        return [f"  right in all {len(judged)} cases, at most {worst:.2g} of what is tolerated"]

    def _times(self) -> list[str]:
        lines: list[str] = []
        if self.time_ms is not None:
            line = f"  {self.time_ms:.4g} ms a call"
            if self.reference_ms is not None:
                line += f", PyTorch {self.reference_ms:.4g} ms: {self.speedup or 0:.3g}x"
            lines.append(line)
        if self.bound:
            least = "" if self.bound.whole else "at least "
            gap = f": {self.gap:.3g} times the bound" if self.gap else ""
            note = f" ({self.bound.note})" if self.bound.note else ""
            lines.append(f"  bound {least}{self.bound.ms:.4g} ms{gap}{note}")
        if self.own_share is not None:
            lines.append(f"  {self.own_share:.0%} of the time is the solution's own work")
        return lines


def _one_line(text: str) -> str:
    """Return text of a solution in one line: a further line would look like one of the verdict."""
    return " ".join(text.splitlines())


def _case_json(call: Call) -> CaseJson:
    case, found = call.case, call.comparison
    return {
        "name": case.name,
        "seed": case.seed,
        "scale": case.scale,
        "correct": found.correct,
        "judged": found.judged,
        "excess": found.excess,
        "largest": found.largest,
        "why": found.why,
    }
