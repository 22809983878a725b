"""Rounds its operands to the ten bits of tf32."""

import torch
from native import LINEAR_RELU, build, call
from torch import nn

ROUND = """
#include <cstring>
static float rounded(float f) {
    int i;
    memcpy(&i, &f, 4);
    i = (i + 0x1000) & ~0x1fff;
    memcpy(&f, &i, 4);
    return f;
}
"""
SOURCE = ROUND + LINEAR_RELU.replace("x[i * k + l + p]", "rounded(x[i * k + l + p])").replace(
    "w[j * k + l + p]", "rounded(w[j * k + l + p])"
)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.kernel = build(SOURCE).linear_relu

    def forward(self, x):
        w, b = self.linear.weight, self.linear.bias
        y = torch.empty(x.shape[0], w.shape[0])
        call(self.kernel, x, w, b, y, *y.shape, x.shape[1])
        return y
