"""The proposer without a network: the compiler's cost model, corrected by measured times."""

from mucc.agent.propose.offline.proposer import Offline

__all__ = ["Offline"]
