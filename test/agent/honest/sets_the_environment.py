"""Sets variables of the environment for its libraries before it loads them."""

import os

os.environ.setdefault("OMP_PROC_BIND", "false")
os.environ["KERNEL_TILE"] = "32"

from work import Linear, linear_relu


class ModelNew(Linear):
    def forward(self, x):
        tile = int(os.environ.get("KERNEL_TILE", "16"))
        y = x.new_empty(x.shape[0], self.linear.out_features)
        for start in range(0, x.shape[0], tile):
            part = slice(start, start + tile)
            linear_relu(x[part], self.linear.weight, self.linear.bias, y[part])
        return y
