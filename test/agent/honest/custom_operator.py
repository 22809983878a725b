"""Is an operator that PyTorch knows by name."""

import torch
from work import Linear, linear_relu


@torch.library.custom_op("samples::linear_relu", mutates_args=())
def layer(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return linear_relu(x, w, b)


class ModelNew(Linear):
    def forward(self, x):
        return layer(x, self.linear.weight, self.linear.bias)
