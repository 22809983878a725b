"""Halves of the layer on two streams that are joined."""

import torch
from kernels import Layer, linear_relu


class ModelNew(Layer):
    side = None

    def forward(self, x):
        self.side = self.side or torch.cuda.Stream()
        y, half = self.room(x), x.shape[0] // 2
        here = torch.cuda.current_stream()
        self.side.wait_stream(here)
        w, b = self.linear.weight, self.linear.bias
        with torch.cuda.stream(self.side):
            linear_relu(x[half:], w, b, y[half:])
        linear_relu(x[:half], w, b, y[:half])
        here.wait_stream(self.side)
        return y
