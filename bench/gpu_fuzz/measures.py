"""Draft reductions that say something of whole tensors: variances, norms of vectors, indices, losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.gpu_fuzz import reference as ref
from bench.gpu_fuzz.composites import FLOATS, floating, softmax, taken_along
from bench.gpu_fuzz.drafts import EXTENTS, FEW, Dim, Dims, Draft, Env, Expr, Param
from bench.gpu_fuzz.pointwise import (
    MULTIPLY,
    SUBTRACT,
    Function,
    binary,
    chain,
    results,
    unary,
)
from bench.gpu_fuzz.reference import Bounded

torch: Any = ref.torch

EPSILON = 1e-5
"""What norms add to a variance by default."""

SQUARE = Function("pow({}, 2)", "x * x")
ROOT = Function("sqrt({} + 1)", "(x + 1).sqrt()")


def measures(d: Draft) -> None:
    """Draft one or two measures of a tensor along some axes, with pointwise work before and behind."""
    names = ("B", "M", "N")[-(1 + d.c.number(3)) :]
    dims = tuple(d.dim(n, FEW if n == "B" else EXTENTS) for n in names)
    axes = d.c.pick(tuple(_runs(len(dims))))
    given = d.tensor(dims, d.c.pick(FLOATS), stem="x")
    x = d.named(chain(d, given, 2))
    for _ in range(1 + d.c.number(2)):
        match d.c.pick(("var", "mean", "prod", "logsumexp", "normalised", "index", "conditions", "over")):
            case "var":
                d.result(spread(d, x, axes), "f32")
            case "mean":
                d.result(_total(d, x, axes, "mean"), "f32")
            case "prod":
                factors = unary(x, Function("clamp({}, 0.9, 1.1)", "x.clamp(0.9, 1.1)"))
                d.result(product_over(factors, axes[-1]), "f32")
            case "logsumexp":
                d.result(log_sum(d, x, axes), "f32")
            case "normalised":
                results(d, chain(d, _normalised(d, x, axes), 1))
            case "index":
                d.result(_extreme(d, given, axes[-1]), "s32")
            case "conditions":
                d.result(_conditions(d, given, axes), "f32")
            case _:
                d.result(unary(_total(d, unary(x, SQUARE), axes, "sum"), ROOT), "f32")


def grouped_norms(d: Draft) -> None:
    """Draft a norm by groups of channels, by images or by channels, with scale, shift and pointwise work."""
    rank = 1 + d.c.number(2)
    n = d.dim("N", FEW)
    groups = d.c.pick((2, 1, 3, 4))
    channels = groups * d.c.pick((2, 1, 3, 8, 5))
    spatial = tuple(d.dim(f"S{i}", (16, 1, 3, 7, 33, 128)) for i in range(rank))
    dims: Dims = (n, channels, *spatial)
    x = chain(d, d.tensor(dims, d.c.pick(FLOATS), stem="x"), 1)
    kind = d.c.pick(("group_norm", "instance_norm", "batch_norm"))
    inner = tuple(range(2, len(dims)))

    def compute(env: Env) -> Bounded:
        value = env.passed(x.value(env), x.dtype)
        shape = tuple(value.value.shape)
        match kind:
            case "group_norm":
                split = shape[0], groups, channels // groups, *shape[2:]
                value = Bounded(*(t.reshape(split) for t in value))
                value = _standard(value, tuple(range(2, len(split))))
                value = Bounded(*(t.reshape(shape) for t in value))
            case "instance_norm":
                value = _standard(value, inner)
            case _:
                value = _standard(value, (0, *inner))
        return env.passed(value, floating(x))

    given = f", {groups}" if kind == "group_norm" else ""
    y = Expr(f"{kind}({x.text}{given})", floating(x), dims, compute)
    if d.c.chance(1, 2):
        y = binary(MULTIPLY, y, _of_channels(d, channels, rank), dims)
        y = binary(Function("({} + {})", "x + y"), y, _of_channels(d, channels, rank), dims)
    results(d, chain(d, y, 1))


def losses(d: Draft) -> None:
    """Draft a loss of two or three tensors, over all of them or by rows."""
    m, n = d.dim("M"), d.dim("N")
    dims: Dims = (m, n)
    dtype = d.c.pick(FLOATS)
    x, t = (d.tensor(dims, dtype, stem=s) for s in "xt")
    by_row = d.c.chance(1, 2)
    axes = (1,) if by_row else (0, 1)
    match d.c.pick(("cross", "mse", "huber", "l1", "kl", "hinge", "cosine", "triplet", "bce")):
        case "cross":
            inner = softmax(d, x, -1, logarithm=True)
            picked = taken_along(d, inner, (m, 1), 1)
            d.result(unary(_total(d, picked, axes, "mean"), Function("-{}", "-x")), "f32")
        case "mse":
            d.result(_total(d, unary(_less(x, t), SQUARE), axes, "mean"), "f32")
        case "huber":
            text = "where(abs({0}) < 1, 0.5 * {0} * {0}, abs({0}) - 0.5)"
            huber = Function(text, "torch.where(x.abs() < 1, 0.5 * x * x, x.abs() - 0.5)")
            d.result(_total(d, unary(d.named(_less(x, t)), huber), axes, "mean"), "f32")
        case "l1":
            d.result(_total(d, unary(_less(x, t), Function("abs({})", "x.abs()")), axes, "sum"), "f32")
        case "kl":
            p, q = (softmax(d, v, -1, logarithm=True) for v in (x, t))
            p = d.named(p)
            weights = unary(p, Function("exp({})", "x.exp()"))
            d.result(_total(d, binary(MULTIPLY, weights, _less(p, q), dims), axes, "sum"), "f32")
        case "hinge":
            product = binary(MULTIPLY, x, t, dims)
            missing = unary(product, Function("relu(1 - {})", "(1 - x).relu()"))
            d.result(_total(d, missing, axes, "mean"), "f32")
        case "cosine":
            products = [binary(MULTIPLY, a, b, dims) for a, b in ((x, t), (x, x), (t, t))]
            both, own, other = (_total(d, p, (1,), "sum") for p in products)
            sizes = binary(MULTIPLY, unary(own, ROOT), unary(other, ROOT), both.dims)
            d.result(binary(Function("({} / {})", "x / y"), both, sizes, both.dims), "f32")
        case "triplet":
            other = d.tensor(dims, dtype, stem="o")
            far, near = (unary(_total(d, unary(_less(x, v), SQUARE), (1,), "sum"), ROOT) for v in (other, t))
            gap = unary(_less(near, far), Function("relu({} + 1)", "(x + 1).relu()"))
            d.result(gap if by_row else _total(d, gap, (0,), "mean"), "f32")
        case _:
            soft = unary(x, Function("softplus({})", "torch.nn.functional.softplus(x)"))
            d.result(_total(d, _less(soft, binary(MULTIPLY, x, t, dims)), axes, "mean"), "f32")


def _runs(rank: int) -> Sequence[tuple[int, ...]]:
    """List the axes to reduce over: the last, each other one, and all that are adjacent."""
    return [
        (rank - 1,),
        *((i,) for i in range(rank - 1)),
        *(tuple(range(i, j)) for i in range(rank) for j in range(i + 2, rank + 1)),
    ]


def _axis(axes: Sequence[int]) -> str:
    return f"axis={axes[0]}" if len(axes) == 1 else f"axis=({', '.join(map(str, axes))})"


def _rest(dims: Dims, axes: Sequence[int]) -> Dims:
    return tuple(e for i, e in enumerate(dims) if i not in axes)


def _reduction(
    y: Expr, axes: Sequence[int], call: str, compute: Callable[[Env], Bounded], dtype: str = "f32"
) -> Expr:
    return Expr(f"{call}, {_axis(axes)})", dtype, _rest(y.dims, axes), compute)


def _total(d: Draft, y: Expr, axes: Sequence[int], kind: str) -> Expr:
    """Return a sum or a mean."""

    def compute(env: Env) -> Bounded:
        return ref.reduce(kind, env.passed(y.value(env), y.dtype), axes)

    return _reduction(y, axes, f"{kind}({y.text}", compute)


def _less(a: Expr, b: Expr) -> Expr:
    return binary(SUBTRACT, a, b, a.dims)


def _centred(x: Bounded, axes: Sequence[int]) -> Bounded:
    return ref.apply(torch.sub, x, ref.reduce("mean", x, axes, True), absolute=1e-30)


def _standard(x: Bounded, axes: Sequence[int]) -> Bounded:
    """Return values with the mean 0 and the variance 1 over axes."""
    x = _centred(x, axes)
    squares = ref.reduce("mean", ref.apply(torch.square, x), axes, True)
    return ref.apply(_over_root, x, squares, relative=1e-5)


def _over_root(x: Any, squares: Any) -> Any:
    return x * (squares + EPSILON).rsqrt()


def _one_more(x: Any) -> Any:
    return x + 1


def _root_of_one_more(x: Any) -> Any:
    return (x + 1).sqrt()


def spread(d: Draft, y: Expr, axes: Sequence[int], correction: int | None = None) -> Expr:
    """Return a variance, by default with a drawn correction."""
    correction = d.c.pick((1, 0)) if correction is None else correction

    def compute(env: Env) -> Bounded:
        x = env.passed(y.value(env), y.dtype)
        count = 1
        for axis in axes:
            count *= x.value.shape[axis]
        total = ref.reduce("sum", ref.apply(torch.square, _centred(x, axes)), axes)
        if count > correction:
            by = float(count - correction)
            return ref.apply(torch.div, total, ref.exact(torch.full_like(total.value, by)))
        return ref.exact(torch.full_like(total.value, torch.nan))

    return _reduction(y, axes, f"var({y.text}, correction={correction}", compute)


def product_over(y: Expr, axis: int) -> Expr:
    def compute(env: Env) -> Bounded:
        x = env.passed(y.value(env), y.dtype)
        found = ref.scan(x, axis, product=True, reverse=False, exclusive=False)
        last = x.value.shape[axis] - 1
        return Bounded(*(t.select(axis, last) for t in found))

    return _reduction(y, (axis,), f"prod({y.text}", compute)


def log_sum(d: Draft, y: Expr, axes: Sequence[int]) -> Expr:
    def compute(env: Env) -> Bounded:
        x = env.passed(y.value(env), y.dtype)
        value = torch.logsumexp(x.value, tuple(axes))
        error = x.error.amax(tuple(axes))
        return Bounded(value, error + 1e-6 + 1e-6 * value.abs())

    return _reduction(y, axes, f"logsumexp({y.text}", compute)


def _normalised(d: Draft, y: Expr, axes: Sequence[int]) -> Expr:
    """Divide by the sum of magnitudes along axes, or by the root of that of squares."""
    kind = d.c.pick(("l1", "l2"))
    size = f"sqrt(sum({y.text} * {y.text}, {_axis(axes)}, keepdims=on) + 1)"
    if kind == "l1":
        size = f"(sum(abs({y.text}), {_axis(axes)}, keepdims=on) + 1)"

    def compute(env: Env) -> Bounded:
        x = env.passed(y.value(env), y.dtype)
        own = ref.apply(torch.abs if kind == "l1" else torch.square, x)
        total = ref.reduce("sum", own, axes, True)
        by = ref.apply(_one_more if kind == "l1" else _root_of_one_more, total)
        return ref.apply(torch.div, x, by, relative=1e-6)

    return Expr(f"({y.text} / {size})", "f32", y.dims, compute)


def _extreme(d: Draft, y: Expr, axis: int) -> Expr:
    """Return where the largest or smallest element of a parameter is: nothing has rounded it."""
    kind = d.c.pick(("argmax", "argmin"))

    def compute(env: Env) -> Bounded:
        return ref.exact(getattr(y.value(env).value, kind)(axis))

    return _reduction(y, (axis,), f"{kind}({y.text}", compute, "s32")


def _conditions(d: Draft, y: Expr, axes: Sequence[int]) -> Expr:
    """Return 2 where any, or all, elements of a parameter are above a number, else -1."""
    kind, bound = d.c.pick(("any", "all")), d.c.pick((0.5, -2.0))

    def compute(env: Env) -> Bounded:
        above = y.value(env).value > bound
        found = above.any if kind == "any" else above.all
        return ref.exact(torch.where(found(tuple(axes)), 2.0, -1.0).double())

    text = f"where({kind}({y.text} > {bound}, {_axis(axes)}), 2, -1)"
    return Expr(text, "f32", _rest(y.dims, axes), compute)


def _of_channels(d: Draft, channels: Dim, rank: int) -> Expr:
    name = d.add(Param(d.name("g"), "", "f32"))
    d.params[-1] = Param(name, f"{name}: f32[{channels}]", "f32")
    places = ", None" * rank

    def compute(env: Env) -> Bounded:
        return Bounded(*(t.reshape(-1, *[1] * rank) for t in env.inputs[name]))

    return Expr(f"{name}[:{places}]", "f32", (channels, *[1] * rank), compute)
