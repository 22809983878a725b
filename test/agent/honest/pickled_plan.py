"""Keeps a plan in pickled form, as a cache on a disk has it."""

import pickle

from work import Linear


class Plan:
    def __init__(self, rows, tile):
        self.parts = [(start, min(start + tile, rows)) for start in range(0, rows, tile)]


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.plans = {}

    def forward(self, x):
        rows = x.shape[0]
        if rows not in self.plans:
            self.plans[rows] = pickle.dumps(Plan(rows, 16).parts)
        y = x.new_empty(rows, self.linear.out_features)
        for start, end in pickle.loads(self.plans[rows]):
            self.compute(x[start:end], y[start:end])
        return y
