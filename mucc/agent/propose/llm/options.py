"""The options of proposers that ask a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from mucc.api.diagnostics import usage_error


@dataclass
class Options:
    """The model, its endpoint, and limits. Holds no key.

    `context` and `answer_tokens` are tokens of a prompt and of an answer at the most; times are in seconds.
    """

    model: str | None = None
    base_url: str | None = None
    key_env: str | None = None
    command: str | None = None
    context: int = 32_000
    answer_tokens: int = 16_384
    temperature: float | None = None
    no_tools: bool = False
    repairs: int = 2
    retries: int = 5
    connect_timeout: float = 10.0
    first_token_timeout: float = 600.0
    silence_timeout: float = 180.0
    call_timeout: float = 1200.0
    price: str | None = None
    prices: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Those that are options of models among options given by name; None stands for the default."""
        return cls(**{f.name: given[f.name] for f in fields(cls) if given.get(f.name) is not None})

    def check(self, name: str) -> None:
        """Raise MU5001 where options do not fit each other, or the proposer."""
        self.refuse_secrets()
        if name == "command" and not self.command:
            raise usage_error(
                "the proposer `command` needs a command", "--command 'PROGRAM ARGUMENTS'; it reads stdin"
            )
        if name != "command" and self.command:
            raise usage_error(f"--command does not go with the proposer `{name}`", "--proposer command")
        if name != "command" and not self.model:
            raise usage_error(
                f"the proposer `{name}` needs a model", "--model NAME, as its provider calls it"
            )
        for option in ("context", "answer_tokens"):
            if getattr(self, option) < 256:
                raise usage_error(f"--{option.replace('_', '-')} needs a number of at least 256 tokens")
        for option in ("connect_timeout", "first_token_timeout", "silence_timeout", "call_timeout"):
            if not getattr(self, option) > 0:
                raise usage_error(f"--{option.replace('_', '-')} needs a number of seconds above 0")
        if self.repairs < 0 or self.retries < 0:
            raise usage_error("--repairs and --retries need numbers of at least 0")

    def refuse_secrets(self) -> None:
        """Raise MU5001, or MU7239, where an option holds a key: options are kept with a run."""
        from mucc.agent.propose.llm.addresses import checked_address
        from mucc.agent.propose.llm.redaction import holds_key

        if self.base_url is not None:
            checked_address(self.base_url)
        if self.key_env is not None and not self.key_env.isidentifier():
            raise usage_error("--key-env takes the name of a variable, not its value")
        if holds_key(" ".join(filter(None, (self.command, self.model, self.key_env)))):
            raise usage_error(
                "a key stands on the command line", "keep it in a variable of the environment: --key-env NAME"
            )
