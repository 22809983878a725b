"""Processes: signals, descendants, cores and memory, turns on the GPU and its memory."""
