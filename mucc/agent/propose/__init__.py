"""Proposers name hypotheses for faster programs, and write the programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mucc.agent.core.proposer import Proposer
from mucc.api.diagnostics import Diagnostic, DiagnosticError, did_you_mean

NAMES = ("offline", "openai", "anthropic", "command")
"""The names that `make` takes; `offline` needs no network and is the default."""


def make(name: str = "offline", options: Mapping[str, Any] | None = None) -> Proposer:
    """Make the proposer of a name with its options. The proposer may be used from several threads.

    Raises DiagnosticError: MU7230 for an unknown name, and what the proposer itself says of its options.
    """
    given = dict(options or {})
    if name == "offline":
        from mucc.agent.propose.offline import Offline

        return Offline()
    if name in NAMES:
        from mucc.agent.propose import llm

        return llm.make(name, given)
    meant = did_you_mean(name, list(NAMES))
    help = f"did you mean '{meant}'?" if meant else f"there are {', '.join(NAMES)}"
    raise DiagnosticError(Diagnostic("MU7230", f"there is no proposer '{name}'", helps=(help,)))
