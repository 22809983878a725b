"""Emit CUDA C++: names, tensors in memory, pointwise bodies, and kernels made of them."""
