"""Returns a dictionary with tuples and dictionaries in it."""

# for: cpu

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        y = self.compute(x)
        array = y.numpy()
        pooled = torch.from_numpy(array.sum(1)), {"largest": torch.from_numpy(array.max(1))}
        return {"hidden": y, "pooled": pooled}
