"""Asks PyTorch for deterministic algorithms when it is loaded, and leaves that so."""

import torch
from work import Linear

torch.use_deterministic_algorithms(True, warn_only=True)
torch.backends.mkldnn.deterministic = True


class ModelNew(Linear):
    def forward(self, x):
        return self.compute(x)
