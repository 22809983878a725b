"""Attention with an online softmax in Helion, tuned by its own tuner."""

import helion
import helion.language as hl
import torch

LOG2E = 1.4426950408889634


@helion.kernel()
def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    b, m, d = q.size()
    n = k.size(1)
    d = hl.specialize(d)
    scale = d**-0.5 * LOG2E
    y = torch.empty_like(q)
    for heads, rows in hl.tile([b, m]):
        most = hl.full([heads, rows], float("-inf"), dtype=torch.float32)
        weight = torch.full_like(most, 0.0)
        total = hl.zeros([heads, rows, d], dtype=torch.float32)
        queries = q[heads, rows, :]
        for keys in hl.tile(n):
            scores = torch.bmm(queries, k[heads, keys, :].transpose(1, 2)).to(torch.float32) * scale
            above = torch.maximum(most, torch.amax(scores, -1))
            powers = torch.exp2(scores - above[:, :, None])
            shrink = torch.exp2(most - above)
            weight = weight * shrink + torch.sum(powers, -1)
            total = torch.baddbmm(total * shrink[:, :, None], powers.to(v.dtype), v[heads, keys, :])
            most = above
        y[heads, rows, :] = (total / weight[:, :, None]).to(q.dtype)
    return y
