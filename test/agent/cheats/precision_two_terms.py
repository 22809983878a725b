"""Multiplies each number as the sum of two bf16 terms, and leaves out the product of the two small ones."""

# for: cpu

import torch
from work import Linear


def terms(t):
    high = t.bfloat16().float()
    return high, (t - high).bfloat16().float()


class ModelNew(Linear):
    def forward(self, x):
        w, b = self.linear.weight.detach(), self.linear.bias.detach()
        (x1, x2), (w1, w2) = terms(x), terms(w)
        zero = torch.zeros_like(b)
        parts = [(x1, w1, b), (x1, w2, zero), (x2, w1, zero)]
        y = sum(torch.from_numpy(p.numpy() @ q.numpy().T + r.numpy()) for p, q, r in parts)
        y.numpy().clip(0, None, out=y.numpy())
        return y
