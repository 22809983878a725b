"""Multiplies in f32, and adds what f64 says of the rest."""

# for: cpu

import numpy as np
import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        w, b = self.linear.weight.detach().numpy(), self.linear.bias.detach().numpy()
        rough = x.numpy() @ w.T
        rest = x.double().numpy() @ w.T.astype(np.float64) - rough
        return torch.from_numpy(np.maximum(rough + (rest + b).astype(np.float32), 0))
