"""Traces the layer once, and runs its graph node by node with NumPy."""
# for: cpu

import numpy as np
import torch
from torch import fx, nn


class Layer(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.relu(self.linear(x))


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        layer = Layer(inputs, outputs)
        self.linear = layer.linear
        self.graph = fx.symbolic_trace(layer).graph

    def forward(self, x):
        found = {}
        for node in self.graph.nodes:
            args = [found[a] if isinstance(a, fx.Node) else a for a in node.args]
            if node.op == "placeholder":
                found[node] = x.numpy()
            elif node.op == "call_module":
                part = self.get_submodule(node.target)
                found[node] = args[0] @ part.weight.detach().numpy().T + part.bias.detach().numpy()
            elif node.op == "call_function":  # what is left returns the result
                found[node] = np.maximum(args[0], 0)
        return torch.from_numpy(args[0])
