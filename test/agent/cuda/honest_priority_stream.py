"""Works on a stream of high priority that is joined."""

import torch
from kernels import Layer, linear_relu


class ModelNew(Layer):
    side = None

    def forward(self, x):
        self.side = self.side or torch.cuda.Stream(priority=-1)
        here, y = torch.cuda.current_stream(), self.room(x)
        self.side.wait_stream(here)
        with torch.cuda.stream(self.side):
            linear_relu(x, self.linear.weight, self.linear.bias, y)
        here.wait_stream(self.side)
        return y
