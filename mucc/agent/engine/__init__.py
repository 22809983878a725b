"""Carries out optimisations: problem files become tasks, strategies' steps are performed and kept."""
