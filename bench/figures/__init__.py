"""Drawings of recorded results for the documentation."""
