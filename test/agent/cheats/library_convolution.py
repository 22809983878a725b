"""Has PyTorch multiply by a convolution."""

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        y = torch.nn.functional.conv1d(x[:, :, None], self.linear.weight[:, :, None], self.linear.bias)
        return y[:, :, 0].clamp_min(0)
