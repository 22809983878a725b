"""Processes for untrusted code: forked from one that has torch loaded, limited in time and memory, and ended
with all that they started."""
