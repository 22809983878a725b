"""Sends rows through generators that receive and yield, and closes them."""

import torch
from work import Linear, linear_relu


def products(w, b):
    part = yield
    while part is not None:
        part = yield linear_relu(part, w, b)


class ModelNew(Linear):
    def forward(self, x):
        steps = products(self.linear.weight, self.linear.bias)
        next(steps)
        try:
            return torch.cat([steps.send(part) for part in x.chunk(4)])
        finally:
            steps.close()
