"""The proposer that needs no network: the compiler's own model, corrected by what was measured."""

from mucc.agent.propose.offline.proposer import Offline

__all__ = ["Offline"]
