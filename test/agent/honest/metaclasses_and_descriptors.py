"""Counts its classes by a metaclass, and prepares its weights by a descriptor that is not there later."""

from torch import nn
from work import Linear, linear_relu


class Counted(type):
    made = 0

    def __call__(cls, *args):
        Counted.made += 1
        return super().__call__(*args)


class Prepared:
    def __set_name__(self, owner, name):
        self.name = f"prepared_{name}"

    def __get__(self, one, owner=None):
        if self.name not in one.__dict__:
            one.__dict__[self.name] = one.linear.weight.detach().clone()
        return one.__dict__[self.name]


class ModelNew(Linear, nn.Module, metaclass=Counted):
    weight = Prepared()

    def forward(self, x):
        return linear_relu(x, self.weight, self.linear.bias)
