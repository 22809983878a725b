"""The options of proposers that ask a model, for the command line; see `mucc.agent.propose.llm.options`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from mucc.agent.propose.llm.options import Options
from mucc.api.commands import candidates, flag, option

T = TypeVar("T", int, float)

SECTION = "models (--proposer openai, anthropic, command)"
"""Their section of the help page."""


def _word(help: str, metavar: str = "NAME") -> str | None:
    return option(None, metavar=metavar, help=help, section=SECTION)


def _number(default: T, help: str, metavar: str) -> T:
    return option(default, metavar=metavar, help=help, section=SECTION)


@dataclass
class ModelArguments(Options):
    """The fields of `Options`, with their defaults, as options of a command line."""

    model: str | None = _word("the model, as its provider calls it")
    base_url: str | None = _word("of the endpoint (default: the provider's own)", "URL")
    key_env: str | None = _word(
        "the variable that holds the key (default: OPENAI_API_KEY, ANTHROPIC_API_KEY)", "VARIABLE"
    )
    command: str | None = _word("a program that reads a prompt on stdin and answers on stdout", "WORDS")
    context: int = _number(Options.context, "tokens of a prompt at the most", "N")
    answer_tokens: int = _number(Options.answer_tokens, "tokens of an answer at the most", "N")
    temperature: float | None = option(
        None, type=float, metavar="X", help="of sampling (default: the model's own)", section=SECTION
    )
    no_tools: bool = flag(help="ask for fenced blocks rather than tool calls", section=SECTION)
    repairs: int = _number(Options.repairs, "turns in which a model may mend an answer", "N")
    retries: int = _number(Options.retries, "further tries of a call that failed", "N")
    connect_timeout: float = _number(Options.connect_timeout, "seconds to connect", "S")
    first_token_timeout: float = _number(Options.first_token_timeout, "seconds to the first token", "S")
    silence_timeout: float = _number(Options.silence_timeout, "seconds between tokens", "S")
    call_timeout: float = _number(Options.call_timeout, "seconds of a whole call", "S")
    price: str | None = _word(
        "US dollars for a million tokens (default: from mucc's list, where the model is in it)",
        "IN,OUT[,CACHED]",
    )
    prices: str | None = option(
        None,
        metavar="TOML",
        help="a list of prices to use before mucc's own",
        section=SECTION,
        complete=candidates.files(".toml"),
    )
