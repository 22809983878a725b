"""Has its kernel in a file beside it."""

import work


class ModelNew(work.Linear):
    def forward(self, x):
        return work.linear_relu(x, self.linear.weight, self.linear.bias)
