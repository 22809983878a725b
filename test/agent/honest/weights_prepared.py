"""Lays its weights out once, when it is first called."""

from work import Linear, linear_relu


class ModelNew(Linear):
    packed = None

    def forward(self, x):
        if self.packed is None:
            self.packed = self.linear.weight.detach().clone().contiguous()
        return linear_relu(x, self.packed, self.linear.bias)
