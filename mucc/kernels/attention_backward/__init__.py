"""The kind of kernels that compute gradients of attention."""
