"""Two kernels for the two halves of the rows."""

from kernels import Layer, linear_relu


class ModelNew(Layer):
    def forward(self, x):
        y, half = self.room(x), x.shape[0] // 2
        linear_relu(x[:half], self.linear.weight, self.linear.bias, y[:half])
        linear_relu(x[half:], self.linear.weight, self.linear.bias, y[half:])
        return y
