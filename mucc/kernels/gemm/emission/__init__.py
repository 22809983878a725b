"""C++ of contraction kernels, a file for each family of mainloops."""
