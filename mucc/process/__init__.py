"""Processes of this machine: signals, descendants, limits, and turns on its GPUs."""
