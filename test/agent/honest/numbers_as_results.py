"""Returns numbers of Python, and of NumPy that are some."""

# for: cpu

import numpy as np
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        y = self.compute(x).numpy()
        return np.float64(y.mean(dtype=np.float64)), y.size, bool(np.isfinite(y).all())
