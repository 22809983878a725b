"""Loads a module of the standard library when it is used first."""

import importlib.util
import sys

from work import Linear


def lazily(name):
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


fractions = lazily("fractions")


class ModelNew(Linear):
    def forward(self, x):
        half = int(x.shape[0] * fractions.Fraction(1, 2))
        y = x.new_empty(x.shape[0], self.linear.out_features)
        self.compute(x[:half], y[:half])
        self.compute(x[half:], y[half:])
        return y
