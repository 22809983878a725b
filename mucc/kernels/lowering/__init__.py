"""Lowering that kinds share: accesses of tensors, pointwise bodies, the program around a kernel."""
