"""Is a linear layer itself, with hooks for its state."""

from torch import nn
from work import linear_relu


class ModelNew(nn.Module):
    class Layer(nn.Linear):
        def forward(self, x):
            return linear_relu(x, self.weight, self.bias)

    def __init__(self, *sizes):
        super().__init__()
        self.linear = self.Layer(*sizes)
        self.register_load_state_dict_post_hook(lambda *_: None)

    def forward(self, x):
        return self.linear(x)
