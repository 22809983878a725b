"""Returns a part of a larger tensor, between a margin that is never read."""

import torch
from work import Linear, linear_relu


class ModelNew(Linear):
    def forward(self, x):
        m, n = x.shape[0], self.linear.out_features
        wide = torch.empty(m + 6, n + 10, device=x.device)
        wide[3 : 3 + m, 5 : 5 + n] = linear_relu(x, self.linear.weight, self.linear.bias)
        return wide[3 : 3 + m, 5 : 5 + n]
