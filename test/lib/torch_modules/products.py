"""Products of matrices in every spelling."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from torch_modules.registry import each, odd

F = nn.functional

each(
    ("4,5", "5,6", "6", "5"),
    "product",
    {
        "mm": lambda a, b, c, d: [a @ b, torch.mm(a, b), a.mm(b).relu()],
        "mv": lambda a, b, c, d: [
            b @ c,
            torch.mv(a, d),
            d @ b,
            d.dot(d),
            torch.inner(a, d),
            torch.vdot(c, c),
        ],
        "addmm": lambda a, b, c, d: [torch.addmm(c, a, b, beta=0.5, alpha=2), torch.addmm(c, a, b, beta=0)],
        "addmv": lambda a, b, c, d: [torch.addmv(d, b, c, alpha=0.5), torch.addr(a, a[:, 0], d)],
        "linear": lambda a, b, c, d: [F.linear(a, b.t(), c), F.linear(d, b.t()), F.linear(a[0], b.t(), c)],
        "linear_of_one": lambda a, b, c, d: [F.linear(a, d[None]), F.linear(a[:, :1], c[:, None])],
        "transposed": lambda a, b, c, d: [b.t() @ a.t(), (a @ b).t() @ a, a.t().t() @ b],
        "chain": lambda a, b, c, d: [a @ b @ c, torch.linalg.multi_dot([a, b, c]), torch.chain_matmul(a, b)],
        "kron": lambda a, b, c, d: [torch.kron(c, d), torch.outer(c, d)],
        "einsum": lambda a, b, c, d: [
            torch.einsum("ij,jk->ik", a, b),
            torch.einsum("ij,jk,k->i", a, b, c),
            torch.einsum("ij->ji", a),
            torch.einsum("ij->", a),
            torch.einsum("i,j->ij", c, d),
            torch.einsum("ij,ij->i", a, a),
        ],
        "einsum_more": lambda a, b, c, d: [
            torch.einsum("...j,jk->...k", a, b),
            torch.einsum("ij,kj->ik", a, a),
            torch.einsum("ij,ik->jk", a, a).relu(),
            torch.einsum("jk,j->k", b, d),
        ],
        "power": lambda a, b, c, d: [torch.linalg.matrix_power(b[:, :5], 2), a @ a.t() @ a],
        "scaled": lambda a, b, c, d: [(a * 2) @ (b / 3), -(a @ b), a @ b + a @ b],
        "residual": lambda a, b, c, d: [F.gelu(a @ b) @ b.t() + a, (a @ b) * c + c],
        "of_reduced": lambda a, b, c, d: [(a @ b).sum(0), (a @ b).amax(1), torch.softmax(a @ b, 1).mean()],
        "of_expanded": lambda a, b, c, d: [a @ d[:, None].expand(5, 3), c.expand(4, 6) @ b.t()],
        "of_slices": lambda a, b, c, d: [a[::2, 1:4] @ b[1:4, ::3], a[:, -1:] @ b[:1]],
        "cdist": lambda a, b, c, d: [torch.cdist(a, a + 1)],
        "bilinear": lambda a, b, c, d: [F.bilinear(a, a, torch.ones(3, 5, 5))],
        "self": lambda a, b, c, d: [a @ a.t(), a.t() @ a, torch.linalg.vecdot(a, a)],
        "det": lambda a, b, c, d: [torch.linalg.det(a @ a.t() + 5 * torch.eye(4)), (a @ b).trace()],
    },
)

each(
    ("2,3,4", "2,4,5", "4,5"),
    "batched",
    {
        "bmm": lambda a, b, c: [torch.bmm(a, b), a.bmm(b).relu()],
        "matmul": lambda a, b, c: [a @ b, a @ c, c.t() @ a.mT, a @ b[0], a[0] @ b],
        "broadcast": lambda a, b, c: [a[:, None] @ b[None], a[None] @ c, a[:, None] @ torch.ones(7, 4, 2)],
        "vector": lambda a, b, c: [a @ c[:, 0], c[:, 1] @ b, a[0, 0] @ b],
        "baddbmm": lambda a, b, c: [torch.baddbmm(torch.ones(2, 3, 5), a, b, beta=0.5, alpha=3)],
        "baddbmm_broadcast": lambda a, b, c: [
            torch.baddbmm(torch.ones(1, 1, 5), a, b),
            torch.addbmm(torch.ones(3, 5), a, b),
        ],
        "einsum": lambda a, b, c: [
            torch.einsum("bij,bjk->bik", a, b),
            torch.einsum("bij,bjk->ik", a, b),
            torch.einsum("bij,jk->bki", a, c),
            torch.einsum("bij,bij->b", a, a),
            torch.einsum("bij,ckj->bcik", a, a),
        ],
        "linear": lambda a, b, c: [F.linear(a, c.t()), F.linear(a[None], c.t(), c[0])],
        "heads": lambda a, b, c: torch.softmax(a @ a.mT / 2, -1) @ a,
        "permuted": lambda a, b, c: [a.permute(1, 0, 2) @ c, a.permute(2, 0, 1) @ torch.ones(3, 2)],
        "tensordot": lambda a, b, c: [torch.tensordot(a, b, ([2], [1])), torch.tensordot(a, c, ([2], [0]))],
        "inner": lambda a, b, c: [torch.inner(a, c.t()), torch.matmul(a, b).sum((0, 1))],
        "cross": lambda a, b, c: torch.linalg.cross(a.mT, a.mT + 1),
    },
)


@odd("f16:4,8", "bf16:4,8", "f64:4,8")
def products_of_other_dtypes(self: Any, x: Any, y: Any, z: Any) -> Any:
    return x @ x.t(), y @ y.t(), z @ z.t(), x.float() @ y.float().t(), (x @ x.t()).float().sum()


@odd("2,4,6", "2,5,6", "2,5,3")
def attention_by_hand(self: Any, q: Any, k: Any, v: Any) -> Any:
    return torch.softmax((q @ k.transpose(-2, -1)) * 6**-0.5, dim=-1) @ v


@odd("2,3,4,6", "2,3,5,6", "2,3,5,6")
def attentions(self: Any, q: Any, k: Any, v: Any) -> Any:
    f = F.scaled_dot_product_attention
    bias = torch.linspace(-1, 1, 20).view(4, 5)
    return f(q, k, v), f(q, k, v, is_causal=True), f(q, k, v, scale=0.3), f(q, k, v, attn_mask=bias)


@odd("1,4,4,6", "1,2,4,6", "1,2,4,6")
def attention_with_fewer_heads_of_keys(self: Any, q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


@odd("4,6", "4,6", "4,6")
def attention_without_batch(self: Any, q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@odd("2,4,6", "1,5,6", "5,6")
def attention_that_broadcasts(self: Any, q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v)


@odd("1,8,2,4", "8,4")
def rotary(self: Any, x: Any, angle: Any) -> Any:
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


@odd("4,5", refused="MU7020")
def covariance(self: Any, x: Any) -> Any:
    return torch.cov(x), torch.corrcoef(x)
