"""Asks how many processors it may use, how large caches are, and how much it has used."""

import os
import platform
import resource
from pathlib import Path

import torch
from work import Linear, linear_relu


def cache_bytes():
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text()
    except OSError:
        return 1 << 20
    return int(text.strip().rstrip("K")) << 10


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        self.block = max(min(cache_bytes() >> 14, 64 // (processors or 1)), 8)
        self.machine = platform.uname()

    def forward(self, x):
        self.used = resource.getrusage(resource.RUSAGE_THREAD).ru_utime
        self.load = os.getloadavg()
        y = torch.empty(x.shape[0], self.linear.out_features, device=x.device)
        for start in range(0, x.shape[0], self.block):
            piece = slice(start, start + self.block)
            linear_relu(x[piece], self.linear.weight, self.linear.bias, y[piece])
        return y
