"""Programs as the C++ of their kernels on the host, which needs neither nvcc nor a GPU."""
