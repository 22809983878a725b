"""Runs in PyTorch's inference mode."""

import torch
from work import Linear


class ModelNew(Linear):
    @torch.inference_mode()
    def forward(self, x):
        return self.compute(x)
