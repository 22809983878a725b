"""h = x + r and its root mean square norm with a gain in Helion, tuned by its own tuner."""

import helion
import helion.language as hl
import torch


@helion.kernel()
def add_rms_norm(x: torch.Tensor, r: torch.Tensor, gain: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.empty_like(x)
    s = torch.empty_like(x)
    for rows in hl.tile(x.size(0)):
        values = x[rows, :].to(torch.float32) + r[rows, :].to(torch.float32)
        s[rows, :] = values.to(x.dtype)
        scale = torch.rsqrt(torch.mean(values * values, dim=-1, keepdim=True) + 1e-5)
        y[rows, :] = (values * scale * gain[:].to(torch.float32)).to(x.dtype)
    return y, s
