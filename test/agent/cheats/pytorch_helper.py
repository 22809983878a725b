"""What samples beside this file call to have PyTorch do their work."""

import torch


def layer(x, w, b):
    return torch.relu(torch.nn.functional.linear(x, w, b))


def attempt(own, x, w, b):
    try:
        return own(x)
    except NotImplementedError:
        return layer(x, w, b)
