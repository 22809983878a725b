"""Propose with a model: questions, repair turns, checks, and a record of every call."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from mucc.agent.core.attempts import Attempt, Candidate
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.proposer import Call, ProposerFailed, Reply, View
from mucc.agent.propose.llm import answers, prompts
from mucc.agent.propose.llm.answers import Malformed
from mucc.agent.propose.llm.budget import TooLong, tokens
from mucc.agent.propose.llm.checking import Checked, check, schedules
from mucc.agent.propose.llm.endpoint import (
    Answer,
    Endpoint,
    EndpointError,
    Message,
    Prompt,
    Stop,
    Tool,
    Usage,
)
from mucc.agent.propose.llm.options import Options
from mucc.agent.propose.llm.prices import Price
from mucc.agent.propose.llm.redaction import redact
from mucc.agent.propose.llm.retrying import Retrying

SLOW = 2
"""Calls that may exceed their time before a question is given up."""

OF_ONE = ("MU7244",)
"""Errors of one request that is not tried again, but does not concern other tasks."""

MOST = 65_536
"""Tokens that an answer may grow to where it was cut."""

REPEATED = 20_000
"""Characters of its own answer that a model gets back."""

TOLD = 500
"""Characters of what is wrong with an answer that are kept with its call."""

CARD = "(the rules and the reference card)"
"""Stands for the system prompt in what is stored."""

T = TypeVar("T")


@dataclass
class Talk:
    """A question with its repair turns. `calls` are all that were made for it."""

    prompt: Prompt
    tool: Tool
    purpose: str
    limit: int
    repairs: int
    """Turns that are left in which the model may mend its answer."""
    calls: list[Call] = field(default_factory=list[Call])
    told: int = 0
    """Messages of the prompt that are in calls which were answered."""

    def turn(self, answer: Answer, fault: str) -> bool:
        """Give the model its own answer back, and say what is wrong with it; False where no turn is left."""
        if not self.repairs:
            return False
        self.repairs -= 1
        said = answer.text.strip()
        if answer.arguments:
            said = f"{said}\n\n```json\n{answer.arguments}\n```".strip()
        if len(said) > REPEATED:
            said = f"{said[:REPEATED]}\n(…)"
        self.prompt = self.prompt.and_then(Message("assistant", said or "(nothing)"), Message("user", fault))
        self.purpose = "repair"
        return True


class ModelProposer:
    """A proposer that asks an endpoint. May be used from several threads."""

    def __init__(
        self,
        endpoint: Endpoint,
        options: Options,
        price: Price | None = None,
        retrying: Retrying | None = None,
        checker: Callable[[str, str, str], Checked] = check,
        scheduler: Callable[[str, str], str] = schedules,
    ):
        self._endpoint, self._options, self._price = endpoint, options, price
        self._retrying = retrying or Retrying(options.retries)
        self._check, self._schedules = checker, scheduler

    @property
    def name(self) -> str:
        """Provider and model."""
        return f"{self._endpoint.provider}:{self._endpoint.model}"

    def nominate(self, view: View, count: int, parent: Attempt) -> Reply[Sequence[Hypothesis]]:
        """Hypotheses of the model. Raises ProposerFailed where it gives none that can be read."""
        talk = self._talk(
            lambda: prompts.nominate(view, count, parent, self._options.context, self._shown(view, parent)),
            answers.HYPOTHESES,
            "nominate",
        )
        found, fault = self._read(talk, lambda answer: answers.hypotheses(answer, parent.number, count))
        if found is None:
            raise ProposerFailed(*fault, final=False, calls=talk.calls)
        return Reply(found, talk.calls)

    def implement(
        self, view: View, number: int, hypothesis: Hypothesis, earlier: Sequence[Attempt], count: int
    ) -> Reply[Sequence[Candidate]]:
        """Programs of the model that mucc accepts, and that were not tried before.

        A model that refuses, or cannot write one within its repair turns, ends the hypothesis.
        """
        shown = self._shown(view, prompts.parent_of(view, hypothesis))
        talk = self._talk(
            lambda: prompts.implement(view, number, hypothesis, earlier, count, self._options.context, shown),
            answers.PROGRAMS,
            "implement",
        )
        tried = {_normal(a.candidate.program): a.number for a in view.attempts}
        good: list[Candidate] = []
        while True:
            try:
                found, _ = self._read(talk, lambda answer: _programs(answer, count - len(good)))
            except ProposerFailed as failed:
                if failed.final or not good:
                    raise
                break  # what there is will be tried; whoever asks next hears of it, if it lasts
            if not found:
                break
            faults: list[str] = []
            for change, program in found:
                if fault := self._fault(program, view, tried):
                    faults.append(f"The program with the change '{change}':\n{fault}")
                    continue
                tried[_normal(program)] = -1
                good.append(Candidate(program, change, hypothesis.parent, number))
            if faults:
                _failed(talk, "MU7254", faults[0])
            kept = f" The other {len(good)} will be tried: do not repeat them." if good else ""
            told = "\n\n".join((*faults, f"Give whole programs again.{kept}"))
            if not faults or not talk.turn(_as_answer(found), told):
                break
        return Reply(good, talk.calls)

    def _shown(self, view: View, parent: Attempt) -> str:
        """Return the schedules of an attempt."""
        return self._schedules(parent.candidate.program, view.task.target)

    def _fault(self, program: str, view: View, tried: dict[str, int]) -> str:
        """Return the faults of a program, in words for a model; empty where there are none."""
        if (before := tried.get(_normal(program))) is not None:
            return f"It is that of attempt #{before}." if before >= 0 else "It is given twice."
        return self._check(program, view.task.imported.program, view.task.target).fault

    def _talk(self, make: Callable[[], Prompt], tool: Tool, purpose: str) -> Talk:
        try:
            prompt = make()
        except TooLong as error:
            message = (
                f"the prompt needs {error.wanted} tokens more than --context {self._options.context} allows"
            )
            raise ProposerFailed("MU7249", message, final=False) from None
        return Talk(prompt, tool, purpose, self._options.answer_tokens, self._options.repairs)

    def _read(self, talk: Talk, parse: Callable[[Answer], T]) -> tuple[T | None, tuple[str, str]]:
        """Return the first answer that can be read, or None with the code and message of the last fault."""
        while True:
            answer = self._ask(talk)
            if answer.stop is Stop.REFUSED:
                said = " ".join(answer.text.split())[:200]
                return None, _failed(
                    talk, "MU7246", f"the model refuses to answer{': ' if said else ''}{said}"
                )
            try:
                return parse(answer), ("", "")
            except Malformed as error:
                said = str(error)
            if answer.stop is Stop.LENGTH:
                said = f"the answer was cut after {talk.limit} tokens: {said}"
                talk.limit = min(2 * talk.limit, MOST)
                advice = "Think less and write less: give one item only."
            else:
                advice = "Answer again, in the form that was asked for."
            empty = not answer.text.strip() and not answer.arguments.strip()
            code = "MU7247" if empty else "MU7245"
            fault = _failed(talk, code, "the model's answer is empty" if empty else said)
            if not talk.turn(answer, f"Your answer cannot be used: {said}. {advice}"):
                return None, fault

    def _ask(self, talk: Talk) -> Answer:
        """One answer, tried again while that may help. Raises ProposerFailed."""
        slow = tries = 0
        while True:
            self._retrying.wait_for_turn()
            begun = time.monotonic()
            try:
                answer = self._endpoint.ask(talk.prompt, talk.tool, talk.limit)
            except EndpointError as error:
                self._account(
                    talk, error.partial or Answer(), begun, f"{error.code}: {redact(error.message)}"
                )
                slow += error.code == "MU7241"
                if error.final or slow >= SLOW or not self._retrying.wait(tries, error.after):
                    message = f"{self.name}: {redact(error.message)}"
                    final = error.final and error.code not in OF_ONE
                    raise ProposerFailed(error.code, message, final=final, calls=talk.calls) from None
                tries += 1
                continue
            answer = Answer(redact(answer.text), redact(answer.arguments), answer.stop, answer.usage)
            self._account(talk, answer, begun, "")
            return answer

    def _account(self, talk: Talk, answer: Answer, begun: float, error: str) -> None:
        """Keep what a call cost, and what is new in its prompt."""
        said = "\n\n".join(filter(None, (answer.text, answer.arguments)))
        usage = answer.usage
        if usage is None:
            # Nothing was counted: of a call that brought nothing we assume that nothing is charged.
            none = bool(error) and not said
            usage = Usage() if none else Usage(tokens(talk.prompt.text), tokens(said))
        fresh = talk.prompt.messages[talk.told :]
        texts = [m.text for m in fresh]
        if not talk.told:
            texts = [CARD, talk.prompt.task, *texts]
        if not error:
            talk.told = len(talk.prompt.messages)
        talk.calls.append(
            Call(
                provider=self._endpoint.provider,
                model=self._endpoint.model,
                purpose=talk.purpose,
                prompt=redact("\n\n".join(texts)),
                answer=redact(said),
                prompt_tokens=usage.prompt,
                cached_tokens=usage.cached,
                answer_tokens=usage.answer,
                estimated=answer.usage is None,
                cost=None if self._price is None else self._price.cost(usage),
                seconds=time.monotonic() - begun,
                error=error,
            )
        )


def _as_answer(programs: Sequence[tuple[str, str]]) -> Answer:
    """Programs as the model may have given them, to be repeated to it."""
    return Answer("\n\n".join(f"CHANGE: {change}\n```mcu\n{program}```" for change, program in programs))


def _programs(answer: Answer, most: int) -> list[tuple[str, str]]:
    """Programs, or none where the model says that it has no more. Raises Malformed."""
    if not answer.arguments and answer.text.strip().strip(".*`").upper() == "DONE":
        return []
    return answers.programs(answer, most)


def _failed(talk: Talk, code: str, message: str) -> tuple[str, str]:
    """Mark the last call as one that brought nothing, or not all."""
    import dataclasses

    message = redact(message)
    if len(message) > TOLD:
        message = f"{message[:TOLD]}…"
    talk.calls[-1] = dataclasses.replace(talk.calls[-1], error=f"{code}: {message}")
    return code, message


def _normal(program: str) -> str:
    """Return a program without what does not matter: comments and space."""
    lines = (line.partition("//")[0].split() for line in program.splitlines())
    return "\n".join(" ".join(words) for words in lines if words)
