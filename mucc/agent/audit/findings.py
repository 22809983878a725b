"""What an audit says: labels, and findings with their evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mucc.agent.core.attempts import FindingJson


class Label(StrEnum):
    """What a solution is called in the end; the first two count, the last says nothing against it, the others
    do not count."""

    NO_ISSUES = "No Issues"
    MINOR_ISSUES = "Minor Issues"
    SOL_CEILING = "SOL-ceiling"
    ORIGINAL_GAMING = "Original Gaming"
    INHERITED_GAMING = "Inherited Gaming"
    PYTORCH_ONLY = "PyTorch-only"
    INCORRECT = "Incorrect"
    FAILED = "Failed"
    INCONCLUSIVE = "Inconclusive"

    @property
    def accepted(self) -> bool:
        return self in (Label.NO_ISSUES, Label.MINOR_ISSUES)


GRAVEST_FIRST = (
    Label.FAILED,
    Label.ORIGINAL_GAMING,
    Label.INHERITED_GAMING,
    Label.PYTORCH_ONLY,
    Label.INCORRECT,
    Label.SOL_CEILING,
    Label.INCONCLUSIVE,
    Label.MINOR_ISSUES,
)
"""Which label names a solution that has findings of several."""


class Severity(StrEnum):
    """What follows from a finding."""

    REJECT = "reject"
    UNSURE = "unsure"
    MINOR = "minor"
    NOTE = "note"


LONGEST = 2000
"""Characters of a message at the most, which may hold what a solution says."""


class Message:
    """Something with a message, which is shortened."""

    message: str

    def __post_init__(self) -> None:
        if len(self.message) > LONGEST:
            object.__setattr__(self, "message", f"{self.message[:LONGEST]} ...")


@dataclass(frozen=True)
class Failed(Message):
    """Why a candidate's process gave no results; `cause` as in `ChildFailed`, empty where it raised."""

    message: str
    printed: str = ""
    cause: str = ""


@dataclass(frozen=True)
class Finding(Message):
    """One thing that a detector has seen, in words, with the numbers behind it."""

    detector: str
    severity: Severity
    label: Label
    message: str
    facts: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def is_repeated(self) -> bool:
        """Whether it was seen in two calls or more of one audit."""
        cases = self.facts.get("cases")
        return isinstance(cases, list | dict) and len(cases) > 1  # pyright: ignore[reportUnknownArgumentType]

    def to_json(self) -> FindingJson:
        return {
            "detector": self.detector,
            "severity": self.severity.value,
            "label": self.label.value,
            "message": self.message,
            "facts": dict(self.facts),
        }


def reject(detector: str, message: str, label: Label = Label.ORIGINAL_GAMING, **facts: object) -> Finding:
    """Make a finding for which a solution does not count."""
    return Finding(detector, Severity.REJECT, label, message, facts)


def unsure(detector: str, message: str, **facts: object) -> Finding:
    """Make a finding for which nothing can be said: what disturbed, and what to do."""
    return Finding(detector, Severity.UNSURE, Label.INCONCLUSIVE, message, facts)


def unless_crowded(finding: Finding, crowded: str) -> Finding:
    """Return a rejection that rests on a time of the GPU; where other processes used the GPU, as `crowded`
    says, a finding for which nothing can be said."""
    if not crowded:
        return finding
    said = f"{finding.message}; {crowded}: audit again when the GPU has no other work"
    return unsure(finding.detector, said, **finding.facts)


def minor(detector: str, message: str, **facts: object) -> Finding:
    """Make a finding that is reported, and does not decide."""
    return Finding(detector, Severity.MINOR, Label.MINOR_ISSUES, message, facts)


def note(detector: str, message: str, **facts: object) -> Finding:
    """Make a note of a fact that is not held against the solution, such as a check that could not be made."""
    return Finding(detector, Severity.NOTE, Label.NO_ISSUES, message, facts)
