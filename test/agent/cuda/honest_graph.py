"""Replays a CUDA graph of the kernel over a copy of its input."""

import torch
from kernels import Layer


class ModelNew(Layer):
    graph = None

    def forward(self, x):
        if self.graph is None:
            self.x = x.clone()
            self.compute(self.x)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = self.compute(self.x)
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()
