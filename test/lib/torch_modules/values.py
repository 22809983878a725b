"""Special values, masks, and elementwise functions at their edges."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from torch_modules.registry import each, odd

F = nn.functional
INF, NAN = math.inf, math.nan


def special() -> Any:
    return torch.tensor([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 0.5, -2.5, 1e-40, 3e38, -3e38])


def pairs() -> Any:
    values = torch.tensor([0.0, -0.0, 1.0, -1.5, INF, -INF, NAN, 2.0, 0.5])
    return values[:, None].expand(9, 9).contiguous()


each(
    (special,),
    "special",
    {
        "relu": torch.relu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "exp": torch.exp,
        "expm1": torch.expm1,
        "exp2": torch.exp2,
        "log": torch.log,
        "log1p": torch.log1p,
        "sinh": torch.sinh,
        "cosh": torch.cosh,
        "asinh": torch.asinh,
        "acosh": torch.acosh,
        "atanh": torch.atanh,
        "isinf": torch.isinf,
        "isfinite": torch.isfinite,
        "sqrt": torch.sqrt,
        "rsqrt": torch.rsqrt,
        "reciprocal": torch.reciprocal,
        "abs": torch.abs,
        "sign": torch.sign,
        "erf": torch.erf,
        # At -inf the language has 0 where PyTorch has NaN (docs/language.md).
        "gelu": lambda x: F.gelu(x.clamp(min=-1e30)),
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "silu": F.silu,
        "mish": F.mish,
        "softplus": F.softplus,
        "softplus_with_options": lambda x: F.softplus(x, 2.0, 5.0),
        "elu": F.elu,
        "elu_with_alpha": lambda x: F.elu(x, -0.5),
        "celu": lambda x: F.celu(x, 2.0),
        "selu": F.selu,
        "hardswish": F.hardswish,
        "hardsigmoid": F.hardsigmoid,
        "hardtanh": lambda x: F.hardtanh(x, -0.5, 2),
        "relu6": F.relu6,
        "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
        "leaky_relu_negative": lambda x: F.leaky_relu(x, -0.5),
        "logsigmoid": F.logsigmoid,
        "softsign": F.softsign,
        "tanhshrink": F.tanhshrink,
        "softshrink": F.softshrink,
        "hardshrink": F.hardshrink,
        "threshold": lambda x: F.threshold(x, 0.1, 20),
        "rounding": lambda x: [torch.round(x), x.floor(), x.ceil(), x.trunc(), x.frac()],
        "trigonometry": lambda x: [x.sin(), x.cos(), x.tan(), x.atan(), x.sinh(), x.cosh()],
        "logarithms": lambda x: [x.log2(), x.log10(), x.log1p(), x.exp2()],
        "powers": lambda x: [x**2, x**3, x**-1, x**0.5, x**0, x**-0.5, x**4, x**1],
        "powers_of_numbers": lambda x: [2**x, torch.pow(0.5, x), 1**x],
        "square": lambda x: [x.square(), x.neg(), x.logit(0.1), x.sgn()],
        "tests": lambda x: [x.isnan(), x.isinf(), x.isfinite(), x.signbit(), x == x, x != 0],
        "nan_to_num": lambda x: [x.nan_to_num(), x.nan_to_num(1.0, 2.0, -3.0)],
        "clamp": lambda x: [x.clamp(-1, 1), x.clamp(min=0), x.clamp(max=0.5), x.clamp(2, 1)],
        "clamp_by_tensors": lambda x: x.clamp(torch.full((12,), -1.0), torch.tensor(1.0)),
        "minmax": lambda x: [x.max(), x.min(), x.amax(0), x.nanmean(), x.nansum()],
        "max_of_parts": lambda x: [x.view(3, 4).amax(1), x.view(3, 4).amin(0)],
        "arg_of_parts": lambda x: [x.view(3, 4).argmax(1), x.view(3, 4).argmin(0)],
        "sums": lambda x: [x[:4].sum(), x.sum(), x.view(3, 4).mean(1), x.view(3, 4).prod(0)],
        "softmax": lambda x: [torch.softmax(x, 0), torch.softmax(x.view(3, 4), 1), x.log_softmax(0)],
        "logsumexp": lambda x: [x.logsumexp(0), x.view(3, 4).logsumexp(1), x[4:6].logsumexp(0)],
        "cumulative": lambda x: [x.cumsum(0), x[:4].cumprod(0), x.logcumsumexp(0)],
        "norms": lambda x: [x.norm(), x.norm(1), x.norm(INF), x[:4].norm(3), x[:4].norm(0), x.norm(-INF)],
        "sorts": lambda x: [x.sort()[0], x.argsort(descending=True)[:4] * 0, x.unique().shape[0] * 0],
        "heaviside": lambda x: torch.heaviside(x, torch.tensor(0.5)),
        "gamma": lambda x: [x.lgamma(), x.digamma(), torch.special.erfinv(x), x.erfc(), torch.i0(x)],
        "glu": lambda x: F.glu(x),
        "dropout_of_nothing": lambda x: F.dropout(x, 0.0, training=True) * 2,
        "where_inf": lambda x: torch.where(x > 0, x, -INF),
        "masked_inf": lambda x: torch.softmax(x.nan_to_num().masked_fill(x > 0.7, -INF), 0),
        "normalise": lambda x: F.normalize(x[:4].view(2, 2)),
    },
)

each(
    (pairs, lambda: pairs().t().contiguous()),
    "pairs",
    {
        "divide": lambda a, b: a / b,
        "multiply": lambda a, b: [a * b, a - b, a + b],
        "maximum": lambda a, b: [torch.maximum(a, b), torch.minimum(a, b), torch.fmax(a, b)],
        "pow": torch.pow,
        "atan2": torch.atan2,
        "remainder": lambda a, b: [torch.remainder(a, b), torch.fmod(a, b)],
        "floor_divide": lambda a, b: [a // b, torch.div(a, b, rounding_mode="trunc")],
        "compare": lambda a, b: [a < b, a <= b, a > b, a >= b, a == b, a != b],
        "where": lambda a, b: [torch.where(a > b, a, b), torch.where(a.bool(), b, a)],
        "copysign": lambda a, b: [torch.copysign(a, b), torch.hypot(a, b), torch.nextafter(a, b)],
        "logaddexp": lambda a, b: [torch.logaddexp(a, b), torch.xlogy(a, b)],
        "lerp": lambda a, b: [torch.lerp(a, b, 0.25), torch.lerp(a, b, b)],
        "addcmul": lambda a, b: [torch.addcmul(a, b, b, value=0.5), torch.addcdiv(a, b, a, value=2)],
        "isclose": lambda a, b: [torch.isclose(a, b), torch.logical_xor(a, b)],
        "clamp": lambda a, b: [torch.clamp(a, b, b + 1), torch.clamp(a, max=b)],
        "matmul": lambda a, b: a @ b,
        "alpha": lambda a, b: [torch.add(a, b, alpha=2), torch.sub(a, b, alpha=0.5), torch.rsub(a, b)],
        "prelu": lambda a, b: F.prelu(a, torch.tensor([0.25])),
        "distance": lambda a, b: [torch.dist(a, b), F.pairwise_distance(a, b), F.cosine_similarity(a, b)],
        "logical": lambda a, b: [a.logical_and(b), a.logical_or(b), a.logical_not(), a.bool() ^ b.bool()],
    },
)


@odd("2,4,8", "2,4,8", "2,4,8", "bool:4,4")
def attention_with_a_mask(self: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    mask = mask | torch.eye(4, dtype=torch.bool)
    return F.scaled_dot_product_attention(q, k, v, mask)


@odd("2,4,8", "2,4,8", "2,4,8")
def attention_with_a_row_masked(self: Any, q: Any, k: Any, v: Any) -> Any:
    mask = torch.ones(4, 4, dtype=torch.bool).tril(-1)
    return F.scaled_dot_product_attention(q, k, v, mask)


@odd("4,4")
def softmax_of_masked_rows(self: Any, x: Any) -> Any:
    mask = torch.ones(4, 4, dtype=torch.bool).triu(1)
    scores = x.masked_fill(mask, -INF)
    return torch.softmax(scores, -1), torch.softmax(x.masked_fill(mask.flip(0), torch.finfo(x.dtype).min), -1)


@odd("3,4", "bool:3,4")
def wheres(self: Any, x: Any, m: Any) -> Any:
    y = torch.where(m, x, -INF)
    return (
        y,
        torch.where(m, 1, 0),
        torch.where(m, 1.0, x),
        torch.where(~m, 2, 3.5),
        y.amax(1).nan_to_num(0, 0, 0),
    )


@odd("3,4", "bool:3,1")
def masked_fills(self: Any, x: Any, m: Any) -> Any:
    return (
        x.masked_fill(m, NAN),
        x.masked_fill(m, torch.tensor(2)),
        m.masked_fill(m, False),
        x.masked_fill(m, True),
    )


@odd("4,5")
def numbers_of_python(self: Any, x: Any) -> Any:
    return x * 1e10 * 1e-10, x + 1e-30, x / 3, 1 / (x.abs() + 1), x * (1 << 30), x * math.pi, x - -0.0


@odd("3,4", "bool:3,4", "s32:3,4", "f16:3,4")
def arithmetic_with_bools(self: Any, x: Any, keep: Any, n: Any, h: Any) -> Any:
    return (
        x * keep,
        keep / (x * x + 1),
        torch.cumsum(h * keep, 1),
        n + keep,
        keep + x,
        keep * keep,
        2 - x * ~keep,
    )
