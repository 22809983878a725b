"""What kinds share to lower a stage: accesses of tensors, pointwise bodies, the program around a kernel."""
