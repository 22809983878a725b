"""The interface of models: prompts and answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from mucc.api.json_types import Json


@dataclass(frozen=True, slots=True)
class Message:
    """A turn of a conversation; `user` is the agent."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation. `system` is the same for all tasks, `task` for all questions on one, so that providers
    can keep them cached."""

    system: str
    task: str
    messages: Sequence[Message]

    def and_then(self, *messages: Message) -> Prompt:
        """Return the conversation with further turns."""
        return Prompt(self.system, self.task, (*self.messages, *messages))

    @property
    def text(self) -> str:
        """All of it, for programs that take one text."""
        said = (m.text if m.role == "user" else f"Your answer was:\n{m.text}" for m in self.messages)
        return "\n\n".join((self.system, self.task, *said))


@dataclass(frozen=True, slots=True)
class Tool:
    """The form of an answer: arguments of a function that the model is to call, as a JSON schema."""

    name: str
    description: str
    schema: Json


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. `prompt` counts all that was sent; `cached` and `cache_written` are parts of it."""

    prompt: int = 0
    answer: int = 0
    cached: int = 0
    cache_written: int = 0


class Stop(StrEnum):
    """Why an answer ended."""

    DONE = "done"
    LENGTH = "length"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said. `arguments` is the text of the tool call, JSON if all went well; empty where none
    came. `usage` is what the provider counted, None where it did not."""

    text: str = ""
    arguments: str = ""
    stop: Stop = Stop.DONE
    usage: Usage | None = None


LARGEST = 4 << 20
"""Bytes of the longest answer of a model: programs have thousands."""


@dataclass
class Partial:
    """An answer as far as it has arrived."""

    text: list[str] = field(default_factory=list[str])
    arguments: list[str] = field(default_factory=list[str])
    stop: Stop = Stop.DONE
    usage: Usage | None = None
    ended: bool = False
    """Whether the model said why it stopped: without that the stream broke off."""
    size: int = 0
    """Bytes that have come."""

    def say(self, text: object, *, argument: bool = False) -> None:
        """Add a piece of the text, or of the tool's arguments. Raises TypeError where it is no text."""
        if text is None:
            return
        if not isinstance(text, str):
            raise TypeError(f"text expected, not {type(text).__name__}")
        self.size += len(text.encode("utf-8", "surrogatepass"))
        if self.size > LARGEST:
            said = f"the model answers with more than {LARGEST >> 20} MiB"
            raise EndpointError("MU7243", said, final=True, partial=self.answer())
        (self.arguments if argument else self.text).append(text)

    def answer(self) -> Answer:
        """Return the answer so far as a value."""
        return Answer("".join(self.text), "".join(self.arguments), self.stop, self.usage)

    def whole(self, fault: str) -> Answer:
        """Return the answer, now that its stream has ended. Raises EndpointError where a fault or the
        endpoint broke it off.
        """
        if fault:
            raise EndpointError("MU7241", fault, partial=self.answer())
        if not self.ended:
            raise EndpointError("MU7242", "the stream broke off", partial=self.answer())
        return self.answer()


class EndpointError(Exception):
    """A call that failed. `final` where trying again is of no use; `after` is how many seconds the provider
    asks to wait; `partial` is what had come."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        final: bool = False,
        after: float | None = None,
        partial: Answer | None = None,
    ):
        super().__init__(message)
        self.code, self.message, self.final, self.after = code, message, final, after
        self.partial = partial


class Endpoint(Protocol):
    """A model behind an endpoint. May be used from several threads."""

    @property
    def provider(self) -> str:
        """`openai`, `anthropic` or `command`."""
        ...

    @property
    def model(self) -> str:
        """The provider's name of the model; for a command its name."""
        ...

    @property
    def has_tools(self) -> bool:
        """Whether answers may be tool calls."""
        ...

    def ask(self, prompt: Prompt, tool: Tool, limit: int) -> Answer:
        """Return the answer to a prompt, of at most `limit` tokens. Raises EndpointError."""
        ...
