"""Attention of many kinds against PyTorch's kernels and a copy of the cache."""
