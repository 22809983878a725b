"""Takes the time of its calls, and tells of slow ones."""

import sys
import time

from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.slowest = 0.0

    def forward(self, x):
        started = time.perf_counter()
        y = self.compute(x)
        took = time.perf_counter() - started
        if self.slowest and took > 100 * self.slowest:
            print(f"a slow call: {took:.3f} s", file=sys.stderr)
        self.slowest = max(self.slowest, took)
        return y
