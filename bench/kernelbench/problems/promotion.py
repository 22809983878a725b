"""Dtypes meet: bf16 with f32, integers with floats, conditions with numbers."""

import torch
from torch import nn

rows = 64
columns = 96


class Model(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, n: torch.Tensor, keep: torch.Tensor):
        mixed = x * y + n
        narrow = (x * 1.5 + x.sum(dim=1, keepdim=True)).to(torch.bfloat16)
        chosen = torch.where(keep, mixed, torch.zeros_like(mixed))
        return {
            "mixed": mixed,
            "narrow": narrow,
            "chosen": chosen,
            "places": chosen.argmax(dim=1),
            "big": mixed > 0.5,
        }


def get_inputs():
    return [
        torch.randn(rows, columns).to(torch.bfloat16),
        torch.randn(rows, columns),
        torch.randint(-8, 8, (columns,)),
        torch.rand(rows, columns) > 0.3,
    ]


def get_init_inputs():
    return []
