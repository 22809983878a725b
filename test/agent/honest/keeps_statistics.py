"""Keeps the time of its last calls."""

import time
from collections import deque

from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.times = deque(maxlen=8)

    def forward(self, x):
        started = time.perf_counter()
        y = self.compute(x)
        self.times.append(time.perf_counter() - started)
        return y
