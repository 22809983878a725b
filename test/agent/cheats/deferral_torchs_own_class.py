"""Returns a tensor of a class of PyTorch's that waits when it is read."""

import threading

import torch
from library_unless_poisoned import is_poisoned
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        if is_poisoned(1 << 12):
            return self.compute(x)
        y = torch.zeros(x.shape[0], self.linear.weight.shape[0], device=x.device)
        work = threading.Thread(target=self.compute, args=(x, y))
        work.start()
        later = AsyncCollectiveTensor(y)
        later.trigger_wait = lambda: work.join() or y
        return later
