"""Keeps a CUDA graph for each shape of its input."""

import torch
from kernels import Layer


class ModelNew(Layer):
    def __init__(self, *args):
        super().__init__(*args)
        self.graphs = {}

    def forward(self, x):
        if x.shape not in self.graphs:
            there = x.clone()
            self.compute(there)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = self.compute(there)
            self.graphs[x.shape] = graph, there, y
        graph, there, y = self.graphs[x.shape]
        there.copy_(x)
        graph.replay()
        return y
