"""Eight experts of a mixture, each with as many tokens: gate, product, projection back, in bf16."""

import torch
from torch import nn

experts = 8
tokens = 512
hidden = 2048
wide = 4096


class Model(nn.Module):
    def __init__(self, experts: int, hidden: int, wide: int):
        super().__init__()

        def weight(rows: int, columns: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(experts, rows, columns, dtype=torch.bfloat16) / rows**0.5)

        self.gate = weight(hidden, wide)
        self.up = weight(hidden, wide)
        self.down = weight(wide, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = nn.functional.silu(torch.bmm(x, self.gate)) * torch.bmm(x, self.up)
        return torch.bmm(h, self.down)


def get_inputs():
    return [torch.randn(experts, tokens, hidden, dtype=torch.bfloat16)]


def get_init_inputs():
    return [experts, hidden, wide]
