"""Budgets: when a search stops, and which policy would have been the best (agent/budget/replay)."""
