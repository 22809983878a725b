"""Proposers that ask a language model: `openai`, `anthropic` and `command`.

`proposer` holds what they share (prompts, repair turns, checks, accounts of calls); an `Endpoint` is what
differs: how to put a question to one kind of model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mucc.agent.propose.llm.options import Options
    from mucc.agent.propose.llm.proposer import ModelProposer

NAMES = ("openai", "anthropic", "command")


def make(name: str, options: Options | Mapping[str, Any]) -> ModelProposer:
    """Return a proposer by its name in `NAMES`; options may also be given by name, among others.

    Raises DiagnosticError: MU5001 for options that do not fit, MU7235 where a package is missing, MU7236
    where the environment holds no key, MU7239 for a base URL that is none, MU7248 for a command that is none,
    MU7250 for prices that cannot be read.
    """
    from mucc.agent.propose.llm.options import Options
    from mucc.agent.propose.llm.prices import price_of
    from mucc.agent.propose.llm.proposer import ModelProposer
    from mucc.agent.propose.llm.retrying import Retrying

    if not isinstance(options, Options):
        options = Options.of(options)
    options.check(name)
    match name:
        case "openai":
            from mucc.agent.propose.llm.chat_completions import ChatCompletions

            endpoint = ChatCompletions(options)
        case "anthropic":
            from mucc.agent.propose.llm.messages import Messages

            endpoint = Messages(options)
        case "command":
            from mucc.agent.propose.llm.command import Command

            endpoint = Command(options)
        case _:
            raise ValueError(f"no model proposer is called {name!r}")
    price = price_of(endpoint.model, options.price, options.prices)
    return ModelProposer(endpoint, options, price, Retrying(options.retries))
