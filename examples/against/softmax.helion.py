"""Softmax of rows in Helion, tuned by its own tuner."""

import helion
import helion.language as hl
import torch


@helion.kernel()
def row_softmax(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    for rows in hl.tile(x.size(0)):
        y[rows, :] = torch.nn.functional.softmax(x[rows, :].to(torch.float32), dim=1).to(x.dtype)
    return y
