"""Keeps its weights in a subclass of tensors that knows how they are packed, and returns plain ones."""

import torch
from work import Linear, linear_relu


class Packed(torch.Tensor):
    blocks = 1

    @staticmethod
    def of(tensor, blocks):
        found = tensor.detach().contiguous().as_subclass(Packed)
        found.blocks = blocks
        return found

    def parts(self):
        return self.as_subclass(torch.Tensor).chunk(self.blocks)


class ModelNew(Linear):
    packed = None

    def forward(self, x):
        if self.packed is None:
            self.packed = [Packed.of(t, 3) for t in (self.linear.weight, self.linear.bias)]
        y = torch.empty(x.shape[0], self.linear.weight.shape[0], device=x.device)
        at = 0
        for w, b in zip(*(one.parts() for one in self.packed), strict=True):
            y[:, at : at + len(w)] = linear_relu(x, w, b)
            at += len(w)
        return y
