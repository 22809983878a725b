"""Run the PTX of light kernels on the host, and count what they ask of memory."""
