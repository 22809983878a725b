"""Operations by dtype, rank and layout: one module for each operation, all forms of its input in it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from torch_modules.registry import each

F = nn.functional

FORMS = ("3,4", "f16:3,4", "bf16:2,3,4>t", "4,6>steps", "3,4>wide", "f64:5")

REDUCED = {
    "sum": lambda x: [x.sum(), x.sum(0), x.sum(-1, True)],
    "mean": lambda x: [x.mean(), x.mean(0)],
    "amax": lambda x: [x.amax(), x.amin(0), x.amax(-1, True)],
    "var": lambda x: [x.var(correction=0), x.var(-1), x.std(0, correction=0)],
    "norm": lambda x: [x.norm(), x.norm(2, -1), x.norm(1, 0)],
    "logsumexp": lambda x: [x.logsumexp(-1), x.logsumexp(0, True)],
    "softmax": lambda x: [torch.softmax(x, -1), x.log_softmax(0)],
    "cumsum": lambda x: [x.cumsum(-1), x.cumsum(0)],
    "prod": lambda x: [x.prod(-1), x.prod()],
    "argmax": lambda x: [x.argmax(-1), x.argmin(0), x.argmax()],
    "max_with_places": lambda x: [*x.max(-1), *x.min(0)],
    "any": lambda x: [(x > 0).any(), (x < 0).all(-1), (x > 0).sum(0)],
}

MAPPED = {
    "affine": lambda x: x * 1.5 + 0.25,
    "relu_square": lambda x: torch.relu(x) ** 2,
    "gelu": lambda x: [F.gelu(x), F.gelu(x, approximate="tanh")],
    "silu": lambda x: F.silu(x),
    "exp_of_negative": lambda x: torch.exp(-x.abs()),
    "log": lambda x: [torch.log(x.abs() + 0.1), torch.log1p(x.abs())],
    "sigmoid": lambda x: torch.sigmoid(x) * x,
    "tanh": lambda x: torch.tanh(x),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "divide": lambda x: [x / 3, 1 / (x.abs() + 1)],
    "compare": lambda x: [x > 0, (x >= 0.5).to(x.dtype)],
    "where": lambda x: torch.where(x > 0, x, -x * 2),
    "cast": lambda x: [x.float(), x.half().float(), x.bfloat16(), x.double()],
    "sign": lambda x: [x.sign(), x.abs(), -x],
    "rounded": lambda x: [x.floor(), x.ceil(), (x * 1.7 + 0.3).round(), x.trunc(), x.frac()],
    "angles": lambda x: [x.sin(), x.cos(), x.tan(), x.atan(), (x * 0.3).asin(), (x * 0.3).acos()],
    "remainders": lambda x: [x % 0.7, x.fmod(0.7), x // 0.7, torch.div(x, 0.7, rounding_mode="trunc")],
    "root": lambda x: [x.abs().sqrt(), (x.abs() + 1).rsqrt()],
    "pow": lambda x: [x**2, x**3, (x.abs() + 0.5) ** 1.5],
    "softplus": lambda x: [F.softplus(x), F.mish(x), F.elu(x), F.selu(x), F.hardswish(x)],
}

MOVED = {
    "transpose": lambda x: [x.mT.contiguous() if x.dim() > 1 else x, x.flip(0), x.roll(1, -1)],
    "reshape": lambda x: [x.reshape(-1), x.reshape(1, -1), x.flatten().unsqueeze(-1)],
    "slice": lambda x: [x[1:], x[..., ::2], x[-1], x[..., None]],
    "cat": lambda x: [torch.cat([x, x]), torch.stack([x, x], -1)],
    "pad": lambda x: [F.pad(x, (1, 2)), F.pad(x, (0, 1), value=2.5)],
    "expand": lambda x: [x.expand(2, *x.shape), x.unsqueeze(0).repeat(2, *[1] * x.dim())],
    "split": lambda x: [p * 2 for p in x.split(2, -1)],
    "tril": lambda x: [x.tril(), x.triu(1)] if x.dim() > 1 else [x],
    "index": lambda x: (
        [x[torch.tensor([0, 2])], x.index_select(-1, torch.tensor([1, 0]))] if x.shape[0] > 2 else [x]
    ),
    "masked_fill": lambda x: [x.masked_fill(x > 0, 0), x.masked_fill(x < 0, float("-inf"))],
}


def over_forms(function: Any) -> Any:
    return lambda *xs: [function(x) for x in xs]


for _prefix, _table in (("reduce", REDUCED), ("map", MAPPED), ("move", MOVED)):
    each(FORMS, _prefix, {name: over_forms(f) for name, f in _table.items()})

INTEGERS = ("s32:3,4", "s64:3,4", "u8:3,4", "s8:2,3,4", "bool:3,4")

each(
    INTEGERS,
    "integer",
    {name: over_forms(f) for name, f in MOVED.items() if name not in ("pad", "masked_fill")}
    | {
        "sum": over_forms(lambda x: [x.sum(), x.sum(0), x.sum(-1)]),
        "amax": over_forms(lambda x: [x.amax(0), x.amin(-1)]),
        "compare": over_forms(lambda x: [x == 1, x > 0, x != x.flip(0)]),
        "to_float": over_forms(lambda x: [x.float() * 0.5, x / 2, x.half()]),
        "bits": over_forms(lambda x: [x & x.flip(0), x | x.flip(-1), x ^ x.flip(0), ~x]),
        "where": over_forms(lambda x: [torch.where(x > 0, x, x), torch.where(x > 0, 1.5, 0.0)]),
        "scale_floats": over_forms(lambda x: x * torch.linspace(0, 1, x.shape[-1])),
    },
)

PAIRS = ("3,4", "4", "3,1", "", "2,1,4", "f16:3,4", "s32:4", "bool:3,1")

each(
    PAIRS,
    "broadcast",
    {
        "add": lambda *xs: [x + y for x in xs for y in xs],
        "multiply": lambda *xs: [x * y for x in xs for y in xs],
        "where": lambda *xs: [torch.where(xs[7], x, y) for x in xs[:6] for y in xs[:6]],
        "compare": lambda *xs: [x > y for x in xs[:7] for y in xs[:7]],
        "maximum": lambda *xs: [torch.maximum(x, y) for x in xs[:6] for y in xs[:6]],
        "subtract": lambda *xs: [x - y for x in xs[:7] for y in xs[:7]],
        "divide": lambda *xs: [x / (y.abs() + 1) for x in xs[:7] for y in xs[:7]],
    },
)
