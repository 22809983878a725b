"""Is no module of PyTorch's, but a class that is called, with weights in arrays."""

# for: cpu

import numpy as np
import torch
from torch import nn


class ModelNew:
    def __init__(self, inputs, outputs):
        layer = nn.Linear(inputs, outputs)
        self.weight = np.ascontiguousarray(layer.weight.detach().numpy().T)
        self.bias = layer.bias.detach().numpy()

    def __call__(self, x):
        y = np.asarray(x) @ self.weight
        y += self.bias
        y *= y > 0
        return torch.from_numpy(y)
