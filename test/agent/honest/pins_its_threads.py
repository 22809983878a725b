"""Pins its threads to processors, looks at its limits, and raises the one of open files to what it may be."""

import itertools
import os
import resource
from concurrent.futures import ThreadPoolExecutor

import torch
from work import Linear, linear_relu

ALLOWED = sorted(os.sched_getaffinity(0))
places = itertools.count()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def pin():
    os.sched_setaffinity(0, {ALLOWED[next(places) % len(ALLOWED)]})
    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0))


class ModelNew(Linear):
    pool = None

    def forward(self, x):
        if self.pool is None:
            self.pool = ThreadPoolExecutor(2, initializer=pin)
        w, b = self.linear.weight.detach(), self.linear.bias.detach()
        parts = self.pool.map(lambda rows: linear_relu(rows, w, b), x.chunk(2))
        return torch.cat([*parts])
