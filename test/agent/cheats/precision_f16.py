"""Multiplies in f16."""

from work import Linear, linear_relu


class ModelNew(Linear):
    def forward(self, x):
        return linear_relu(x.half().float(), self.linear.weight.half().float(), self.linear.bias)
