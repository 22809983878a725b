"""Dtypes: promotion, casts, integers, bools, narrow floats, autocast, complex numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from torch_modules.registry import each, odd

F = nn.functional


@odd("f16:3,4", "3,4", "bf16:4")
def promotes_floats(self: Any, x: Any, y: Any, z: Any) -> Any:
    return x + y, x * z, z - x, torch.maximum(x, y)


@odd("s32:3,4", "3,4", "u8:4", "bool:3,4", "s64:4")
def promotes_kinds(self: Any, n: Any, x: Any, u: Any, b: Any, m: Any) -> Any:
    return n * x, u + n, b + n, b * x, u * 2.5, m + u, b + b, n / m.abs().add(1), u - 1


@odd("s64:", "f16:3")
def a_tensor_without_axes_does_not_promote(self: Any, n: Any, x: Any) -> Any:
    return x * n, x + torch.tensor(2.0, dtype=torch.float64), n * 1.5


@odd("f64:3,4", "3,4")
def doubles(self: Any, x: Any, y: Any) -> Any:
    return torch.relu(x) * 2, y + x, y.double().sum(), x.float() * y


@odd("f16:8")
def halves_overflow(self: Any, x: Any) -> Any:
    big = x * 0 + 1000
    return big * 100, (big * big).float()


@odd("f16:8")
def halves_underflow(self: Any, x: Any) -> Any:
    small = x * 0 + 1e-4
    return small * small, (small * small * 1e4).float()


@odd("bf16:4,8", "bf16:8,4")
def bf16_chain(self: Any, x: Any, w: Any) -> Any:
    return torch.softmax(x @ w, -1), F.gelu(x).sum(1), (x @ w).float().exp()


@odd("3,4")
def casts(self: Any, x: Any) -> Any:
    return x.half().float(), x.bfloat16(), x.int(), (x * 10).to(torch.uint8).int() * 0, x.bool(), x.long()


@odd("3,4")
def casts_of_strange_values(self: Any, x: Any) -> Any:
    y = torch.cat([x, torch.full((1, 4), 2.7), torch.full((1, 4), -2.7)])
    return y.to(torch.int8), y.short(), (y > 0).float(), (y > 0).long() + 1


@odd("s64:3,4")
def integers_divide(self: Any, n: Any) -> Any:
    return n / 2, n // 2, n % 3, -n // 2, torch.div(n, 2, rounding_mode="trunc"), torch.fmod(n, 3), n**2


@odd("s32:3,4", "s32:3,4")
def integers_and_bits(self: Any, n: Any, m: Any) -> Any:
    return n & m, n | 3, ~n, n ^ m, n << 2, n >> 1, torch.bitwise_not(n > m)


@odd("s32:3,4", "s32:3,4")
def integers_compare(self: Any, n: Any, m: Any) -> Any:
    return n < m, (n == m).sum(), torch.minimum(n, m), n.clamp(-2, 2), n.sign(), n.abs(), torch.relu(n)


@odd("s32:8")
def large_integers(self: Any, n: Any) -> Any:
    big = n + 123456789
    return torch.where(big > 0, big, 0), big * 3 - 1, big.float(), big == 123456790, big.max()


@odd("s64:8")
def integers_of_64_bits(self: Any, n: Any) -> Any:
    big = n + 2**40
    return big, big * 3, big.double(), big > 2**40, torch.relu(n).float()


@odd("s64:8")
def integers_as_they_come(self: Any, n: Any) -> Any:
    big = n * 2**36
    return big.float() * 0.5, big > 5, torch.where(big > 0, 1.0, -1.0)


@odd("s64:3,4", "s8:3,4", "u8:3,4", "s16:4")
def sums_of_integers(self: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return a.sum(), b.sum(1), c.sum(0), d.prod(), c.float().mean(), b.max(), a.cumsum(1), c.amin(0)


@odd("u8:3,4", "s8:3,4")
def integers_wrap(self: Any, u: Any, s: Any) -> Any:
    return u + 250, u * 100, s * 100, -u, u - 20, s.to(torch.uint8)


@odd("bool:3,4", "bool:3,4")
def bools(self: Any, a: Any, b: Any) -> Any:
    return a & b, a | b, ~a, a ^ b, a.any(), b.all(1), a.sum(0), a == b, a < b, a.float().mean(), a.int() - 1


@odd("bool:3,4", "3,4")
def bools_as_numbers(self: Any, a: Any, x: Any) -> Any:
    return x * a, a.float() @ x.t(), torch.where(a, x, 0), a * 2, a + 1.5, (a * a), a.max(), a.cumsum(0)


@odd("c64:3,4", "c64:3,4")
def complex_numbers(self: Any, x: Any, y: Any) -> Any:
    return x * y, x.abs(), x.conj(), x.real.relu(), torch.view_as_real(y) + 1, x @ y.mT


@odd("3,4")
def complex_inside(self: Any, x: Any) -> Any:
    return torch.fft.fft(x).abs(), torch.complex(x, x * 2).angle(), torch.fft.rfft(torch.relu(x)).real


@odd("4,8")
class Autocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = torch.relu(self.a(x))
            with torch.autocast("cpu", enabled=False):
                g = h.float() * 2
            return self.b(h), g, torch.softmax(h, -1)


@odd("bf16:4,8", gradients=True)
class HalfModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).bfloat16()

    def forward(self, x: Any) -> Any:
        return self.net(x)


@odd("4,8")
class MixedWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8).half(), nn.Linear(8, 4).double()

    def forward(self, x: Any) -> Any:
        return self.b(self.a(x.half()).double())


@odd("3,4")
def default_dtypes(self: Any, x: Any) -> Any:
    return (
        torch.zeros(4) + x,
        torch.arange(4) * x,
        torch.full((4,), 3) + 1,
        torch.tensor([1, 2, 3, 4]) / x.abs(),
    )


@odd("3,4")
def dtypes_asked(self: Any, x: Any) -> Any:
    y = x.to(x.dtype)
    if x.dtype.is_floating_point and torch.finfo(x.dtype).bits == 32:
        y = y * torch.finfo(x.dtype).eps
    return y, torch.result_type(x, 1) == torch.float32, x.element_size(), torch.is_floating_point(x)


@odd("f16:3,5", "bf16:3,5")
def sums_of_halves(self: Any, x: Any, y: Any) -> Any:
    return (
        x.sum(),
        y.mean(1),
        x.sum(dtype=torch.float32),
        y.cumsum(1),
        x.var(),
        torch.softmax(y, 0, dtype=torch.float32),
    )


@odd("3,4")
def fp8(self: Any, x: Any) -> Any:
    return x.to(torch.float8_e4m3fn).float() * 2, x.to(torch.float8_e5m2).to(torch.bfloat16)


@odd("s32:3,4", "f16:3,4")
def types_as(self: Any, n: Any, x: Any) -> Any:
    return n.type_as(x) * x, n.to(x) + 1, x.type(torch.float64), x.float().half()


@odd("4,4", "s64:4,4")
def products_of_integers(self: Any, x: Any, n: Any) -> Any:
    return n @ n, x @ n.float(), n.float() @ n.float()


each(
    ("bool:3,4", "s32:3,4", "f16:3,4", "s64:3,4"),
    "kinds",
    {
        "add": lambda *a: [x + y for x in a for y in a],
        "multiply": lambda *a: [x * y for x in a for y in a],
        "compare": lambda *a: [x < y for x in a for y in a],
        "where": lambda *a: [torch.where(a[0], x, y) for x in a for y in a],
        "maximum": lambda *a: [torch.maximum(x, y) for x in a for y in a],
        "truth": lambda *a: [torch.logical_and(x, y) for x in a for y in a],
        "equal": lambda *a: [x == y for x in a for y in a],
        "divide": lambda *a: [x / (y + 10.5) for x in a for y in a],
        "sum": lambda *a: [x.sum(1) for x in a],
        "max": lambda *a: [x.amax(1) for x in a],
        "cast_to_float": lambda *a: [x.float() for x in a],
        "cast_to_int": lambda *a: [x.int() for x in a],
        "cast_to_bool": lambda *a: [x.bool() for x in a],
        "mean": lambda *a: [x.float().mean(0) for x in a],
        "negate": lambda *a: [-x for x in a[1:]],
        "clamp": lambda *a: [x.clamp(-1, 2) for x in a[1:]],
        "masked_fill": lambda *a: [x.masked_fill(a[0], 1) for x in a],
        "cat": lambda *a: [torch.cat([x, y]) for x in a for y in a],
        "scalar": lambda *a: [x * 2 for x in a] + [x * 2.5 for x in a] + [x + True for x in a],
        "pow": lambda *a: [x.float() ** 3 for x in a] + [a[1] ** 2, a[2] ** 0.5],
        "pad": lambda *a: [F.pad(x, (1, 0)) for x in a],
        "flip": lambda *a: [x.flip(0) for x in a],
        "tril": lambda *a: [x.tril() for x in a],
        "full_like": lambda *a: [torch.full_like(x, 3) + x for x in a],
        "argmax": lambda *a: [x.argmax(1) for x in a[1:]],
        "any": lambda *a: [x.any(1) for x in a] + [x.all() for x in a],
        "gather": lambda *a: [x.gather(1, a[3] % 4) for x in a],
        "index": lambda *a: [x[a[3][:, 0] % 3] for x in a],
        "copysign": lambda *a: [x.float().copysign(a[1]) for x in a],
        "abs": lambda *a: [x.abs() for x in a[1:]],
    },
)
