"""Has a helper beside it call PyTorch."""

from pytorch_helper import layer
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        return layer(x, self.linear.weight, self.linear.bias)
