"""Sets how deep Python may recurse, and how often threads take turns."""

import sys

from work import Linear

sys.setrecursionlimit(5000)
sys.setswitchinterval(0.001)


class ModelNew(Linear):
    def forward(self, x):
        return self.compute(x)
