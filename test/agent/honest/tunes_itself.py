"""Tries two ways in its first calls, and takes the faster one."""

import time

from work import Linear, linear_relu


class ModelNew(Linear):
    best = None

    def forward(self, x):
        if self.best is None:
            self.best = min((self.whole, self.halves), key=lambda way: self.timed(way, x))
        return self.best(x)

    def timed(self, way, x):
        way(x)
        started = time.perf_counter()
        way(x)
        return time.perf_counter() - started

    def whole(self, x):
        return self.compute(x)

    def halves(self, x):
        y = self.compute(x, rows=x.shape[0] // 2)
        half = x.shape[0] // 2
        linear_relu(x[half:], self.linear.weight, self.linear.bias, y[half:])
        return y
