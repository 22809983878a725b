"""Divides work by the number of processors."""

import os

from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.parts = len(os.sched_getaffinity(0))
