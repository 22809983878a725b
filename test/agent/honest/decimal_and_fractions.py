"""Plans its blocks by decimal numbers and fractions, in a context of its own."""

from decimal import Decimal, localcontext
from fractions import Fraction

import torch
from work import Linear, linear_relu


class ModelNew(Linear):
    def forward(self, x):
        with localcontext() as context:
            context.prec = 40
            share = Fraction(Decimal(1) / Decimal(4))
        block = round(share * x.shape[0])
        y = torch.empty(x.shape[0], self.linear.out_features, device=x.device)
        for start in range(0, x.shape[0], block):
            piece = slice(start, start + block)
            linear_relu(x[piece], self.linear.weight, self.linear.bias, y[piece])
        return y
