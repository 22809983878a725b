"""Multiplies two fifths of each sum in two bf16 terms, the rest in f32."""

# for: cpu

import torch
from work import Linear


def terms(t):
    high = t.bfloat16().float()
    return high, (t - high).bfloat16().float()


class ModelNew(Linear):
    def forward(self, x):
        w, b = self.linear.weight.detach(), self.linear.bias.detach()
        cut = x.shape[1] * 2 // 5
        (x1, x2), (w1, w2) = terms(x[:, :cut]), terms(w[:, :cut])
        y = x[:, cut:].numpy() @ w[:, cut:].numpy().T + b.numpy()
        for p, q in ((x1, w1), (x1, w2), (x2, w1)):
            y += p.numpy() @ q.numpy().T
        return torch.from_numpy(y.clip(0, None))
