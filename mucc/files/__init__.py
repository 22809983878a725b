"""Atomic file writes, hashes of files, and the user's folders."""
