"""Search strategies, behind `Strategy` of agent/core."""
