"""A small convolutional network: convolutions, pooling, group normalisation, a classifier."""

import torch
from torch import nn

batch_size = 16
channels = 32
size = 64
classes = 10


class Model(nn.Module):
    def __init__(self, channels: int, classes: int):
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.norm = nn.GroupNorm(4, channels)
        self.pool = nn.MaxPool2d(2)
        self.second = nn.Conv2d(channels, channels, 3, stride=2, groups=2)
        self.up = nn.ConvTranspose2d(channels, 8, 3, stride=2, output_padding=1)
        self.head = nn.Linear(8, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.norm(self.first(x))))
        x = self.up(torch.nn.functional.hardswish(self.second(x)))
        return torch.log_softmax(self.head(x.mean(dim=(2, 3))), dim=1)


def get_inputs():
    return [torch.rand(batch_size, 3, size, size)]


def get_init_inputs():
    return [channels, classes]
