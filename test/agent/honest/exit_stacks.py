"""Enters several contexts by a stack of them."""

import contextlib
import warnings

import torch
from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.inference_mode())
            stack.enter_context(warnings.catch_warnings())
            stack.enter_context(contextlib.redirect_stdout(None))
            stack.callback(setattr, self, "calls", self.calls + 1)
            print("nobody sees this")
            return self.compute(x).clone()
