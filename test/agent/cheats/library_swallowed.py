"""Raises in a helper, which swallows that and calls PyTorch."""

from pytorch_helper import attempt
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        return attempt(self.own, x, self.linear.weight, self.linear.bias)

    def own(self, x):
        raise NotImplementedError
