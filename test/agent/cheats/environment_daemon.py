"""Leaves a process behind that leads a session of its own."""

import os
import time

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(600)
            os._exit(0)
        os.wait()
        return self.compute(x)
