"""Layers of networks at published sizes, against PyTorch and others, and against a copy of their bytes."""
