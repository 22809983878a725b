"""Reductions, with pointwise work before them."""
