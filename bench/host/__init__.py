"""Run the emitted C++ of kernels on the host, without nvcc and without a GPU."""
