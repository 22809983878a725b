"""Returns the mean of all rows in each of them."""

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        one = self.compute(x.mean(0, keepdim=True).contiguous())
        return one.expand(x.shape[0], -1).contiguous()
