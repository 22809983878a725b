"""Search strategies, behind `Strategy` of agent/core."""

from mucc.agent.search.registry import STRATEGIES, make

__all__ = ["STRATEGIES", "make"]
