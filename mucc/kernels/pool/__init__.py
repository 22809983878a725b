"""Pooling: windows of elements reduced to one, with pointwise work before and behind."""
