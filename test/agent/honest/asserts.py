"""Checks its arguments."""

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        assert x.dim() == 2 and x.is_contiguous()
        if x.shape[1] != self.linear.weight.shape[1]:
            raise ValueError("another width")
        return self.compute(x)
