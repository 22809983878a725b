"""The interface of proposers: who has ideas, and writes them down as programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from mucc.agent.core.analysis import Analysis
from mucc.agent.core.attempts import Attempt, Candidate
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.tasks import Task
from mucc.files.json_data import Json

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Lesson:
    """What an earlier problem taught: a kind of change, on what kind of problem, and the speedup that it had.

    `features` describe the problem, so that a proposer can tell how alike another one is: dtype, limit,
    stages, sizes.
    """

    task: str
    kind: str
    change: str
    speedup: float | None
    features: Json = field(default_factory=Json)


def features_of(task: Task, analysis: Analysis | None) -> Json:
    """What tells problems apart, in lessons: what binds them, their units and sizes, the kinds of their
    stages."""
    limits = task.sol.get("limits", {})
    return {
        "precision": task.precision,
        "card": task.card,
        "limit": analysis.limit.value if analysis else "",
        "binding": task.sol.get("binding", ""),
        "units": sorted(limits),
        "amounts": {unit: limit["amount"] for unit, limit in limits.items()},
        "stages": [stage.get("kind", "") for stage in task.sol.get("stages", [])],
        "bound_ms": task.bound_ms,
    }


@dataclass(frozen=True, slots=True)
class View:
    """Everything that a proposer may look at. `attempts` are all of the task so far, in order."""

    task: Task
    attempts: Sequence[Attempt]
    hypotheses: Sequence[Hypothesis] = ()
    analysis: Analysis | None = None
    lessons: Sequence[Lesson] = ()
    seed: int = 0

    @property
    def best(self) -> Attempt | None:
        """The fastest attempt that counts."""
        return min((a for a in self.attempts if a.ms is not None), key=lambda a: a.ms or 0.0, default=None)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a model, or of a command: what it cost and what was said. Never holds a key.

    Tokens are those that the provider counted, or else our estimate (`estimated`); `cost` is in US dollars,
    None where no price is known. `error` is the code and message of a call that failed, after which another
    one may follow.
    """

    provider: str
    model: str
    purpose: str
    prompt: str = ""
    answer: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    answer_tokens: int = 0
    estimated: bool = False
    cost: float | None = None
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Reply(Generic[T_co]):
    """What a proposer answers, and the calls that it took."""

    value: T_co
    calls: Sequence[Call] = ()


class Proposer(Protocol):
    """Has ideas, and writes them down. Deterministic proposers follow `view.seed`.

    Raises ProposerFailed where it has nothing more to give, for good or for now.
    """

    @property
    def name(self) -> str:
        """What tables call it: offline, or provider and model."""
        ...

    def nominate(self, view: View, count: int, parent: Attempt) -> Reply[Sequence[Hypothesis]]:
        """Up to `count` hypotheses on how to make `parent` faster, none that was tried."""
        ...

    def implement(
        self, view: View, number: int, hypothesis: Hypothesis, earlier: Sequence[Attempt], count: int
    ) -> Reply[Sequence[Candidate]]:
        """Up to `count` programs that test a hypothesis, to be evaluated together; none ends the hypothesis.

        `number` is the hypothesis's, `earlier` the attempts at it so far: repair what was rejected, refine
        what helped.
        """
        ...


class ProposerFailed(Exception):
    """A proposer cannot go on. `final` where asking again later is of no use, as for a wrong key."""

    def __init__(self, code: str, message: str, *, final: bool, calls: Sequence[Call] = ()):
        super().__init__(message)
        self.code, self.message, self.final, self.calls = code, message, final, calls
