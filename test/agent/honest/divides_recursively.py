"""Divides the product until blocks are small, and goes down both halves."""

import torch
from work import Linear, linear_relu

SMALL = 24


class ModelNew(Linear):
    def forward(self, x):
        y = torch.empty(x.shape[0], self.linear.weight.shape[0], device=x.device)
        self.divided(x, self.linear.weight.detach(), self.linear.bias.detach(), y)
        return y

    def divided(self, x, w, b, y):
        rows, columns = y.shape
        if max(rows, columns) <= SMALL:
            y.copy_(linear_relu(x.contiguous(), w, b))
        elif rows >= columns:
            for part, into in zip(x.chunk(2), y.chunk(2), strict=True):
                self.divided(part, w, b, into)
        else:
            for some, shift, into in zip(w.chunk(2), b.chunk(2), y.chunk(2, 1), strict=True):
                self.divided(x, some, shift, into)
