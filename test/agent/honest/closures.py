"""Makes its function when it is made."""

from work import Linear, linear_relu


def made(layer):
    def run(x):
        return linear_relu(x, layer.weight, layer.bias)

    return run


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.run = made(self.linear)

    def forward(self, x):
        return self.run(x)
