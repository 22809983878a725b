"""Takes blocks of rows in an order that a seeded generator of its own draws."""

import numpy as np
from work import Linear, linear_relu


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.rng = np.random.default_rng(7)

    def forward(self, x):
        y = x.new_empty(x.shape[0], self.linear.out_features)
        for n in self.rng.permutation(4):
            rows = slice(n * x.shape[0] // 4, (n + 1) * x.shape[0] // 4)
            linear_relu(x[rows], self.linear.weight, self.linear.bias, y[rows])
        return y
