"""Divides rows among threads, and waits for them."""

import threading

import torch
from work import Linear, linear_relu


class ModelNew(Linear):
    def forward(self, x):
        y = torch.empty(x.shape[0], self.linear.weight.shape[0], device=x.device)
        half = x.shape[0] // 2
        w, b = self.linear.weight, self.linear.bias
        other = threading.Thread(target=linear_relu, args=(x[half:], w, b, y[half:]))
        other.start()
        linear_relu(x[:half], w, b, y[:half])
        other.join()
        return y
