"""Writes its weights as it is made, and loads them in the order in which its kernel reads them."""

import io

import torch
from work import Linear, linear_relu


class ModelNew(Linear):
    state = None

    def loaded(self):
        file = io.BytesIO()
        torch.save(self.state_dict(), file)
        file.seek(0)
        state = torch.load(file, weights_only=True)
        return {name.removeprefix("linear."): value.contiguous() for name, value in state.items()}

    def forward(self, x):
        if self.state is None:
            self.state = self.loaded()
        return linear_relu(x, self.state["weight"], self.state["bias"])
