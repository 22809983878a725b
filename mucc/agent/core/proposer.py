"""The interface of proposers, which name hypotheses and write programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from mucc.agent.core.analysis import Analysis
from mucc.agent.core.attempts import Attempt, Candidate
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.tasks import Task
from mucc.api.json_types import Json

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson of an earlier problem: a kind of change, the kind of problem, and the speedup.

    `features` describe the problem, so that a proposer can tell how alike another one is: dtype, limit,
    stages, sizes.
    """

    task: str
    kind: str
    change: str
    speedup: float | None
    features: Json = field(default_factory=Json)


def features_of(task: Task, analysis: Analysis | None) -> Json:
    """Return the features that tell problems apart in lessons: binding units, amounts, sizes, kinds of
    stages.
    """
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
    """The state of a task for a proposer. `attempts` are all of the task so far, in order."""

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
    """One call of a model or command: its cost, prompt and answer. It never holds a key.

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
    """The answer of a proposer, and the calls of models for it."""

    value: T_co
    calls: Sequence[Call] = ()


class Proposer(Protocol):
    """Names hypotheses and writes programs. Deterministic proposers follow `view.seed`.

    Raises ProposerFailed where it has nothing more to give, for good or for now.
    """

    @property
    def name(self) -> str:
        """The name in tables: offline, or provider and model."""
        ...

    def nominate(self, view: View, count: int, parent: Attempt) -> Reply[Sequence[Hypothesis]]:
        """Return up to `count` hypotheses on how to make `parent` faster that were not tried yet."""
        ...

    def implement(
        self, view: View, number: int, hypothesis: Hypothesis, earlier: Sequence[Attempt], count: int
    ) -> Reply[Sequence[Candidate]]:
        """Return up to `count` programs that test a hypothesis, to be evaluated together; none ends the
        hypothesis.

        `number` is the hypothesis's, `earlier` the attempts at it so far: repair what was rejected, refine
        what helped.
        """
        ...


class ProposerFailed(Exception):
    """A proposer cannot go on. `final` where a later call would fail too, as with a wrong key."""

    def __init__(self, code: str, message: str, *, final: bool, calls: Sequence[Call] = ()):
        super().__init__(message)
        self.code, self.message, self.final, self.calls = code, message, final, calls
