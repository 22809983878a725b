"""A kernel for the whole layer."""

from kernels import Layer


class ModelNew(Layer):
    def forward(self, x):
        return self.compute(x)
