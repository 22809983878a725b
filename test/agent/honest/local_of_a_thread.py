"""Has a workspace for each thread that calls it."""

import threading

from work import Linear

local = threading.local()


class ModelNew(Linear):
    def forward(self, x):
        shape = (x.shape[0], self.linear.out_features)
        if getattr(local, "workspace", None) is None or local.workspace.shape != shape:
            local.workspace = x.new_empty(shape)
        return self.compute(x, local.workspace).clone()
