"""Multiplies whole numbers from -127 to 127."""

from work import Linear, linear_relu


class ModelNew(Linear):
    def forward(self, x):
        w, scale = self.linear.weight, self.linear.weight.abs().max() / 127
        return linear_relu(x, (w / scale).round() * scale, self.linear.bias)
