"""Returns its result in the memory of the input."""

from kernels import Layer


class ModelNew(Layer):
    def forward(self, x):
        y = self.compute(x)
        return x.view(-1)[: y.numel()].view_as(y).copy_(y)
