"""Defines an operator with an implementation for a CPU and one for shapes, by PyTorch's library interface."""

import torch
from work import Linear, linear_relu

library = torch.library.Library("samples_of_users", "DEF")
library.define("linear_relu(Tensor x, Tensor w, Tensor b, *, Tensor(a!) out) -> Tensor(a!)")


@torch.library.impl(library, "linear_relu", "CPU")
def on_cpu(x, w, b, *, out):
    return linear_relu(x, w, b, out)


@torch.library.impl(library, "linear_relu", "CUDA")
def on_gpu(x, w, b, *, out):
    return linear_relu(x, w, b, out)


@torch.library.impl(library, "linear_relu", "Meta")
def shapes(x, w, b, *, out):
    return out


class ModelNew(Linear):
    def forward(self, x):
        out = x.new_empty(x.shape[0], self.linear.out_features)
        return torch.ops.samples_of_users.linear_relu(x, self.linear.weight, self.linear.bias, out=out)
