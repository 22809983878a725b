"""Adds in float64."""

# for: cpu

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        w, b = self.linear.weight.detach().double().numpy(), self.linear.bias.detach().double().numpy()
        return torch.from_numpy((x.double().numpy() @ w.T + b).clip(min=0)).float()
