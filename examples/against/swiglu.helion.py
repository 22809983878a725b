"""silu(x wgᵀ) * (x wuᵀ) in Helion, tuned by its own tuner."""

import helion
import helion.language as hl
import torch


@helion.kernel()
def swiglu(x: torch.Tensor, wg: torch.Tensor, wu: torch.Tensor) -> torch.Tensor:
    m, k = x.size()
    n = wg.size(0)
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    for rows, columns in hl.tile([m, n]):
        gate = hl.zeros([rows, columns], dtype=torch.float32)
        up = hl.zeros([rows, columns], dtype=torch.float32)
        for inner in hl.tile(k):
            gate = torch.addmm(gate, x[rows, inner], wg[columns, inner].T)
            up = torch.addmm(up, x[rows, inner], wu[columns, inner].T)
        y[rows, columns] = (gate * torch.sigmoid(gate) * up).to(x.dtype)
    return y
