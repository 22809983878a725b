"""Has a pool of processes that prepares weights when it is made, and has nothing to do afterwards."""

import multiprocessing

from work import Linear


def transposed(values):
    return [list(column) for column in zip(*values, strict=True)]


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.pool = multiprocessing.get_context("fork").Pool(1)
        self.columns = self.pool.apply(transposed, (self.linear.weight.tolist(),))

    def forward(self, x):
        return self.compute(x)
