"""Multiplies whole numbers of 16 bits, with one scale for all of them."""

from work import Linear, linear_relu


def fixed(t):
    scale = t.abs().max() / 32767
    return (t / scale).round() * scale


class ModelNew(Linear):
    def forward(self, x):
        return linear_relu(fixed(x), fixed(self.linear.weight), self.linear.bias)
