"""Returns a promise instead of a result."""

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        promise = torch.futures.Future()
        promise.set_result(self.compute(x))
        return promise
