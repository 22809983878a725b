"""Quarters of the layer on four streams that are joined by events."""

import torch
from kernels import Layer, linear_relu


class ModelNew(Layer):
    sides = None

    def forward(self, x):
        self.sides = self.sides or [torch.cuda.Stream() for _ in range(4)]
        here, y = torch.cuda.current_stream(), self.room(x)
        begun = here.record_event()
        for side, left, out in zip(self.sides, x.chunk(4), y.chunk(4), strict=True):
            side.wait_event(begun)
            with torch.cuda.stream(side):
                linear_relu(left, self.linear.weight, self.linear.bias, out)
            here.wait_event(side.record_event())
        return y
