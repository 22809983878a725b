"""Enters several contexts at once: PyTorch's modes, warnings, a lock and a stack of its own."""

import threading
import warnings
from contextlib import ExitStack, nullcontext

import torch
from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.lock = threading.RLock()

    def forward(self, x):
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.enter_context(self.lock)
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            stack.enter_context(torch.cuda.device(x.device) if x.is_cuda else nullcontext())
            stack.callback(self.done)
            return self.compute(x)

    def done(self):
        self.calls += 1
