"""PyTorch modules as programs: the importer, and the backend of torch.compile."""
