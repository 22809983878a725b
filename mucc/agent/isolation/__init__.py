"""Processes for somebody else's code: forked from one that has torch loaded, bounded, and ended with all
that they started."""
