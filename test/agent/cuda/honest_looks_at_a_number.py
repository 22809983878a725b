"""Reads one number of its result on the host."""

from kernels import Layer


class ModelNew(Layer):
    def forward(self, x):
        y = self.compute(x)
        assert y[0, 0].item() >= 0
        return y
