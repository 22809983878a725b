"""Says that its result takes a terabyte."""

import json
import os

from work import Linear

SAID = {
    "outputs": [{"dtype": "uint8", "shape": [1 << 40]}],
    "late": [],
    "overwritten": False,
    "threads": [],
    "started": [],
}
SAID |= {"lines": [], "raised": [], "work": [], "seconds": 0.01}


class ModelNew(Linear):
    def forward(self, x):
        os.write(4, (json.dumps(SAID) + "\n").encode())
        return self.compute(x)
