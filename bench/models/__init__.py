"""Real models through torch.compile: mucc against eager PyTorch and Inductor. See `__main__.py`."""
