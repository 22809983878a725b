"""Pointwise work, reductions and results: what follows a product, or is a kernel of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from bench.gpu_fuzz import reference as ref
from bench.gpu_fuzz.drafts import Dim, Dims, Draft, Env, Expr, before_rounding, promoted
from bench.gpu_fuzz.reference import Bounded

torch: Any = ref.torch
functional: Any = ref.torch.nn.functional


class Function(NamedTuple):
    """A function of the language, its text around `{}`, and what PyTorch computes for it from `x` and `y`.

    One that `jumps` computes an argument in f32 before, whose rounding may carry it over a jump.
    """

    text: str
    torch: str
    jumps: bool = False

    def __call__(self, *values: Any) -> Any:
        """PyTorch's result for tensors."""
        named = dict(zip("xy", values, strict=False))
        return eval(self.torch, {"torch": torch, "F": functional, **named})


FUNCTIONS = (
    Function("relu({})", "F.relu(x)"),
    Function("gelu({})", "F.gelu(x)"),
    Function("gelu({}, approximate=tanh)", "F.gelu(x, approximate='tanh')"),
    Function("silu({})", "F.silu(x)"),
    Function("sigmoid({})", "torch.sigmoid(x)"),
    Function("tanh({})", "torch.tanh(x)"),
    Function("erf({})", "torch.erf(x)"),
    Function("softplus({})", "F.softplus(x)"),
    Function("softplus({}, beta=2)", "F.softplus(x, beta=2)"),
    Function("mish({})", "F.mish(x)"),
    Function("softsign({})", "F.softsign(x)"),
    Function("hardswish({})", "F.hardswish(x)"),
    Function("hardsigmoid({})", "F.hardsigmoid(x)"),
    Function("hardtanh({})", "F.hardtanh(x)"),
    Function("leaky_relu({}, slope=0.2)", "F.leaky_relu(x, 0.2)"),
    Function("elu({})", "F.elu(x)"),
    Function("selu({})", "F.selu(x)"),
    Function("abs({})", "torch.abs(x)"),
    Function("-{}", "-x"),
    Function("exp(clamp({}, -3, 3))", "torch.exp(x.clamp(-3, 3))"),
    Function("expm1(clamp({}, -3, 3))", "torch.expm1(x.clamp(-3, 3))"),
    Function("log(abs({}) + 1)", "torch.log(x.abs() + 1)"),
    Function("log1p(abs({}))", "torch.log1p(x.abs())"),
    Function("sqrt(abs({}) + 1)", "torch.sqrt(x.abs() + 1)"),
    Function("rsqrt(abs({}) + 1)", "torch.rsqrt(x.abs() + 1)"),
    Function("clamp({}, -0.5, 1.5)", "x.clamp(-0.5, 1.5)"),
    Function("sin({})", "torch.sin(x)"),
    Function("cos({})", "torch.cos(x)"),
    Function("atan2({}, 1.5)", "torch.atan2(x, torch.full_like(x, 1.5))"),
    Function("floor({} + 0.31789235)", "torch.floor(x + 0.31789235)", jumps=True),
    Function("round(3 * {} - 0.1317)", "torch.round(3 * x - 0.1317)", jumps=True),
    Function("trunc({} * 1.37)", "torch.trunc(x * 1.37)", jumps=True),
    Function("sign({} - 0.2113)", "torch.sign(x - 0.2113)", jumps=True),
    Function("ceil({} + 0.2718)", "torch.ceil(x + 0.2718)", jumps=True),
    Function("tan(tanh({}))", "torch.tan(torch.tanh(x))"),
    Function("pow(abs({}) + 0.5, 1.5)", "torch.pow(x.abs() + 0.5, 1.5)"),
    Function("neg({})", "-x"),
    Function("(cast({} > 0.25, f32) * 2)", "(x > 0.25) * 2.0", jumps=True),
)

RELATIVE, ABSOLUTE = 1e-5, 2e-6
"""What a function in f32 may be off by: docs/accuracy.md and math.cuh, with room."""


def unary(expr: Expr, function: Function) -> Expr:
    """A function of each element."""

    def compute(env: Env) -> Bounded:
        x = expr.value(env)
        if function.jumps:
            x = Bounded(x.value, x.error + 4 * ref.F32 * (x.value.abs() + 1))
        return ref.apply(function, x, absolute=ABSOLUTE, relative=RELATIVE)

    dtype = "f32" if expr.dtype not in ("bf16", "f16") else expr.dtype
    return Expr(f"({function.text.format(expr.text)})", dtype, expr.dims, compute)


def called(d: Draft, y: Expr, function: Function) -> Expr:
    """A function of each element by way of a function of the program, which is inlined."""
    return replace(unary(y, function), text=f"{d.helper(function.text.format('x'))}({y.text})")


def binary(function: Function, a: Expr, b: Expr, dims: Dims) -> Expr:
    """An operation of two values that broadcast to `dims`."""
    dtype = promoted(a, b)
    relative = 0.0 if dtype == "s32" else 2 * ref.F32

    def compute(env: Env) -> Bounded:
        return ref.apply(function, a.value(env), b.value(env), relative=relative)

    return Expr(function.text.format(a.text, b.text), dtype, dims, compute)


ADD = Function("({} + {})", "x + y")
SUBTRACT = Function("({} - {})", "x - y")
MULTIPLY = Function("({} * {})", "x * y")
BINARY = (
    ADD,
    SUBTRACT,
    MULTIPLY,
    Function("max({}, {})", "torch.maximum(x, y)"),
    Function("min({}, {})", "torch.minimum(x, y)"),
    Function("({} / (abs({}) + 1))", "x / (y.abs() + 1)"),
    Function("atan2({}, abs({}) + 1)", "torch.atan2(x, y.abs() + 1)"),
)


def cast(expr: Expr, dtype: str) -> Expr:
    """An explicit conversion, which rounds."""
    source = expr if dtype == "f32" else before_rounding(expr)
    return Expr(
        f"cast({expr.text}, {dtype})", dtype, expr.dims, lambda env: ref.rounded(source.value(env), dtype)
    )


def partner(d: Draft, dims: Dims, dtype: str) -> Expr:
    """A parameter or a number that broadcasts with `dims`: a row, a column, a matrix, a scalar."""
    kind = d.c.pick(("row", "column", "matrix", "scalar", "number", "batch", "one"))
    dtype = d.c.pick((dtype, dtype, "f32", "bf16", "f16"))
    if not dims or kind == "scalar":
        return d.scalar()
    if kind == "number":
        return d.literal(d.c.pick((0.5, 2.0, -1.25, 3.0)))
    if kind == "row":
        return d.tensor(dims[-1:], dtype, stem="r")
    if kind == "column" and len(dims) >= 2:
        column = d.tensor(dims[-2:-1], dtype, stem="c")
        return Expr(
            f"{column.text}[:, None]",
            column.dtype,
            (*dims[-2:-1], 1),
            lambda env: Bounded(*(t[:, None] for t in column.value(env))),
        )
    if kind == "one":
        ones = tuple(d.c.pick((e, 1)) for e in dims)
        return d.tensor(ones, dtype, stem="o")
    if kind == "batch" and len(dims) >= 3:
        return d.tensor(dims[1:], dtype, stem="m")
    return d.tensor(dims, dtype, stem="m")


def chain(d: Draft, y: Expr, most: int = 5) -> Expr:
    """Some pointwise steps after a value."""
    for _ in range(d.c.number(most + 1)):
        match d.c.pick(("function", "binary", "binary", "mask", "cast", "name")):
            case "function":
                function = d.c.pick(FUNCTIONS)
                y = called(d, y, function) if d.c.chance(1, 4) else unary(y, function)
            case "binary":
                function = d.c.pick(BINARY)
                other = partner(d, y.dims, y.dtype if y.dtype in ("bf16", "f16") else "f32")
                y = binary(function, y, other, y.dims)
            case "mask":
                y = masked(d, y)
            case "cast":
                y = cast(y, d.c.pick(("f32", "bf16", "f16")))
            case _:
                y = d.named(y)
    return y


def masked(d: Draft, y: Expr) -> Expr:
    """Elements that a parameter chooses, others replaced by a number."""
    mask = d.tensor(y.dims[-d.c.pick((2, 1)) :] if y.dims else (), d.c.pick(("f32", "bf16")), stem="k")
    number = d.c.pick((0.0, -2.0))
    dtype = y.dtype if y.dtype in ("bf16", "f16") else "f32"

    def compute(env: Env) -> Bounded:
        keep, value = mask.value(env).value > 0, y.value(env)
        return ref.select(keep, value, ref.exact(torch.full_like(value.value, number)))

    return Expr(f"where({mask.text} > 0, {y.text}, {number})", dtype, y.dims, compute)


REDUCTIONS = ("sum", "max", "min", "amax")


def reduced(d: Draft, y: Expr, kinds: tuple[str, ...] = REDUCTIONS) -> Expr:
    """A reduction of a value over some axes."""
    kind = d.c.pick(kinds)
    rank = len(y.dims)
    options = [(rank - 1,), (max(rank - 2, 0),), tuple(range(rank)), (0,), (-1,), (-rank,), (0, rank - 1)]
    written = tuple(dict.fromkeys(d.c.pick(options)))
    axes = tuple(axis % rank for axis in written)
    keep = d.c.chance(1, 6)
    kept: list[Dim] = []
    for i, dim in enumerate(y.dims):
        if i not in axes:
            kept.append(dim)
        elif keep:
            kept.append(1)
    listed = str(written[0]) if len(written) == 1 else f"({', '.join(map(str, written))})"
    spelled = "" if written == tuple(range(rank)) else f", axis={listed}"
    text = f"{kind}({y.text}{spelled}{', keepdims=on' if keep else ''})"

    def compute(env: Env) -> Bounded:
        value = env.passed(y.value(env), y.dtype)
        integer = y.dtype == "s32" and kind == "sum"
        return ref.reduce(kind, value, axes, keep, integer=integer)

    return Expr(text, "f32", tuple(kept), compute)


def scanned(d: Draft, y: Expr) -> Expr:
    """A running sum along some axis, or a running product of factors near 1."""
    axis = d.c.number(len(y.dims))
    product, reverse, exclusive = (d.c.chance(1, n) for n in (5, 3, 3))
    if product:
        y = unary(y, Function("clamp({}, 0.9, 1.1)", "x.clamp(0.9, 1.1)"))
    flags = ", reverse=on" * reverse + ", exclusive=on" * exclusive
    text = f"{'cumprod' if product else 'cumsum'}({y.text}, axis={axis}{flags})"

    def compute(env: Env) -> Bounded:
        value = env.passed(y.value(env), y.dtype)
        return ref.scan(value, axis, product=product, reverse=reverse, exclusive=exclusive)

    dtype = y.dtype if y.dtype in ("bf16", "f16") else "f32"
    return Expr(text, dtype, y.dims, compute)


def results(d: Draft, y: Expr, *, wide: bool = False) -> None:
    """Return a value, perhaps with reductions of it, perhaps only those."""
    way = d.c.pick(("plain", "plain", "plain", "reduced", "twice", "only reduced", "kept"))
    if way != "plain":
        y = d.named(y)
    stored = ("bf16", "f16", "f32")
    own = y.dtype if y.dtype in stored else "f32"
    dtype = d.c.pick(
        (own, own, own, *stored) if wide else (own, own, own, *stored, "e4m3", "e5m2", "s8", "u8")
    )
    if way != "only reduced":
        d.result(y, dtype)
    if way in ("reduced", "only reduced"):
        for _ in range(1 + d.c.number(2)):
            d.result(reduced(d, y), "f32")
    if way == "twice":
        d.result(y, d.c.pick(("f32", own)))
    if way == "kept":
        d.result(chain(d, y, 2), own)
