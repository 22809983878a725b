"""Keeps workspaces in a table of the class, by shape and type, for all its objects."""

import torch
from work import Linear, linear_relu


class ModelNew(Linear):
    workspaces = {}

    def forward(self, x):
        key = (*x.shape, x.dtype, x.device)
        if key not in self.workspaces:
            self.workspaces[key] = torch.empty(x.shape[0], self.linear.out_features, device=x.device)
        y = linear_relu(x, self.linear.weight, self.linear.bias, self.workspaces[key])
        return y.clone()
