"""Multiplies in bf16."""

from work import Linear, linear_relu


class ModelNew(Linear):
    def forward(self, x):
        w = self.linear.weight.bfloat16().float()
        return linear_relu(x.bfloat16().float(), w, self.linear.bias)
