"""Has PyTorch compute a step of a recurrent network without a state."""

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        w, b = self.linear.weight, self.linear.bias
        n = w.shape[0]
        state, none = torch.zeros(x.shape[0], n, device=x.device), torch.zeros(n, n, device=x.device)
        return torch.rnn_relu_cell(x, state, w, none, b, torch.zeros_like(b))
