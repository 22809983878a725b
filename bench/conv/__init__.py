"""Convolutions against cuDNN, PyTorch and torch.compile."""
