"""Multiplies what tf32 keeps of its operands."""

import torch
from work import Linear, linear_relu


class ModelNew(Linear):
    def forward(self, x):
        short = [
            (t.detach().view(torch.int32) & ~0x1FFF).view(torch.float32) for t in (x, self.linear.weight)
        ]
        return linear_relu(short[0], short[1], self.linear.bias)
