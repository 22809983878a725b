"""Draft programs of any operations in any order, along any axes, with several results that share parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.gpu_fuzz import reference as ref
from bench.gpu_fuzz.along import (
    drawn_axes,
    passed,
    reduced,
    reduced_integers,
    rest_of,
    scanned_integers,
    settled,
)
from bench.gpu_fuzz.composites import (
    FLOATS,
    cast_to,
    floating,
    gathered,
    in_order,
    norm,
    pooled,
    softmax,
    taken_along,
)
from bench.gpu_fuzz.contractions import matmul
from bench.gpu_fuzz.drafts import FEW, Dim, Dims, Draft, Env, Expr, before_rounding, root
from bench.gpu_fuzz.maps import INTEGER_BINARY, INTEGER_UNARY, wrapped
from bench.gpu_fuzz.operands import convolved
from bench.gpu_fuzz.orders import draw_order, permute
from bench.gpu_fuzz.parts import like, listed, moved, numbers, with_extent
from bench.gpu_fuzz.pointwise import BINARY, Function, binary, chain, scanned, unary
from bench.gpu_fuzz.reference import Bounded
from bench.gpu_fuzz.views import MOST_RANK, indexed, reshaped
from mucc.library.extents import add, multiply

torch: Any = ref.torch

LONG = (16, 1, 3, 7, 11, 31, 33, 64, 100, 129)
NUMBERS = (4, 1, 2, 3, 5, 6, 7, 8, 12, 13)

COMPARED = (
    Function("where({0} > {1}, {0}, {1} * 2)", "torch.where(x > y, x, y * 2)"),
    Function("where({0} <= {1} and {1} != 0.5, {0}, -1.5)", "torch.where((x <= y) & (y != 0.5), x, -1.5)"),
    Function(
        "where(not ({0} < {1} or {0} > 1), {0} + 1, {1})", "torch.where(~((x < y) | (x > 1)), x + 1, y)"
    ),
    Function("clamp({0}, min({1}, 0), max({1}, 1))", "x.clamp(y.clamp(max=0), y.clamp(min=1))"),
    Function("({0} % (abs({1}) + 1))", "torch.remainder(x, y.abs() + 1)"),
    Function("fmod({0}, abs({1}) + 1)", "torch.fmod(x, y.abs() + 1)"),
    Function("floor_divide({0}, abs({1}) + 0.75)", "torch.floor_divide(x, y.abs() + 0.75)"),
    Function("pow(abs({0}) + 0.5, clamp({1}, -2, 2))", "torch.pow(x.abs() + 0.5, y.clamp(-2, 2))"),
)
"""Pointwise functions of two values, most of which are not continuous."""

OF_EXTENTS = (
    Function("({} * 2 / {})", "x * 2 / y"),
    Function("({} - {} / 64)", "x - y / 64"),
    Function("({} / ({} + 1))", "x / (y + 1)"),
)
"""Pointwise functions of a value and of the extent of a dim, which programs may use as a number."""


class Mixture:
    """The values of a program so far, any of which can be an operand of the next one."""

    def __init__(self, d: Draft):
        self.d = d
        self.values: list[Expr] = []
        self.exact: set[int] = set()

    def is_exact(self, y: Expr) -> bool:
        """Whether a value is exact, since no operation before it rounds."""
        return y.dtype == "s32" or id(y) in self.exact

    def take(self, y: Expr, of: Expr | None = None) -> None:
        """Keep a value for what follows, perhaps by a name; elements of an exact value are exact."""
        if of is not None and self.is_exact(of):
            self.exact.add(id(y))
        elif y.dtype != "s32" and self.d.c.chance(1, 2):
            y = self.d.named(y, stage=y.dtype in ref.FLOATS and self.d.c.chance(1, 12))
        self.values.append(y)

    def parameter(self) -> None:
        """Add a parameter, with the dims of another value or new ones."""
        c = self.d.c
        if self.values and c.chance(1, 2):
            dims = c.pick(self.values).dims
        else:
            rank = 1 + c.number(4)
            long = c.number(rank)
            dims = tuple(self._extent(LONG if i == long else FEW) for i in range(rank))
        dtype = c.pick((*FLOATS, *FLOATS, "s32", "s32", "s8", "u8", "e4m3", "e5m2"))
        kind = "integer" if dtype in ("s8", "u8", "s32") else "normal"
        y = self.d.tensor(dims, dtype, stem="x", kind=kind)
        self.exact.add(id(y))
        self.values.append(y)

    def _extent(self, sizes: Sequence[int]) -> Dim:
        """Return a dim of the program, a new one or a number."""
        c, known = self.d.c, list(self.d.dims)
        match c.pick(("number", "new", "known")):
            case "known" if known:
                return c.pick(known)
            case "new" if len(known) < 4:
                return self.d.dim(f"D{len(known)}", sizes)
            case _:
                return c.pick(NUMBERS)

    def operand(self) -> Expr:
        """Return a value, mostly one of the last ones."""
        return self.d.c.pick((*self.values, *self.values[-2:], *[self.values[-1]] * 4))


def mixtures(d: Draft) -> None:
    """Draft a program of any operations."""
    m = Mixture(d)
    for _ in range(1 + d.c.number(2)):
        m.parameter()
    for _ in range(2 + d.c.number(7)):
        y = m.operand()
        if y.dtype == "s32":
            _of_integers(m, y)
        else:
            _of_floats(m, y)
    chosen = [m.values[-1], *(m.operand() for _ in range(d.c.pick((0, 0, 1, 2, 3))))]
    for y in chosen:
        stored = ("bf16", "f16", "f32", "e4m3", "e5m2", "s8", "u8", "s32")
        own = y.dtype if y.dtype in stored else "f32"
        d.result(y, d.c.pick((own, own, own, "f32", d.c.pick(stored))) if y.dtype != "s32" else "s32")


def _of_integers(m: Mixture, y: Expr) -> None:
    """Add an operation on a value of s32 to the program."""
    c = m.d.c
    match c.pick(("move", "binary", "unary", "reduce", "float", "scan", "compare")):
        case "binary":
            other = c.pick([v for v in m.values if v.dtype == "s32"])
            if (joined := _joined(y, other)) is None:
                other, joined = Expr("7", "s32", (), lambda env: ref.exact(7.0)), y.dims
            text = wrapped(c.pick(INTEGER_BINARY), y, other)
            m.take(Expr(text.text, "s32", joined, text.compute))
        case "unary":
            m.take(wrapped(c.pick(INTEGER_UNARY), y))
        case "reduce" if y.dims:
            m.take(reduced_integers(m.d, y))
        case "scan" if y.dims:
            m.take(scanned_integers(m.d, y))
        case "compare":
            bound = c.pick((0, 5, -3))
            m.take(
                Expr(
                    f"cast({y.text} > {bound}, f32)",
                    "f32",
                    y.dims,
                    lambda env: ref.exact((y.value(env).value > bound).double()),
                ),
                y,
            )
        case "float":
            m.take(cast_to(y, "f32"))
        case _:
            _move(m, y)


def _of_floats(m: Mixture, y: Expr) -> None:
    """Add an operation on a value of floats to the program."""
    d, c = m.d, m.d.c
    kind = c.pick(
        (
            *("chain", "chain", "chain", "join", "join", "compared", "reduce", "reduce", "reduce", "scan"),
            *("norm", "move", "move", "move", "move", "product", "order", "index", "cast", "dims"),
            *("numbers", "parameter", "pool", "order of", "conv", "random"),
        )
    )
    narrow = y.dtype in ("e4m3", "e5m2", "s8", "u8")
    match kind:
        case "parameter" if len(d.params) < 5:
            m.parameter()
        case "join" | "compared":
            _join(m, y, BINARY if kind == "join" else COMPARED)
        case "reduce" if y.dims:
            m.take(reduced(d, y))
        case "scan" if y.dims:
            m.take(passed(scanned(d, y)))
        case "norm" if y.dims:
            m.take(_normed(d, y))
        case "product" if len(y.dims) >= 2 and y.dtype in ("bf16", "f16", "f32"):
            m.take(_product(m, y))
        case "order" if y.dims and not narrow:
            m.take(_in_order(m, y))
        case "order of" | "index" if y.dims and m.is_exact(y) and not narrow:
            m.take(_places(m, y, kind))
        case "cast":
            dtype = c.pick(("bf16", "f16", "f32", "e4m3", "e5m2", "s8", "u8"))
            m.take(cast_to(cast_to(before_rounding(y), dtype), "f32"))
        case "dims":
            m.take(_with_dims(d, y))
        case "numbers" if y.dims and not narrow:
            m.take(binary(c.pick(BINARY[:3]), y, numbers(d, y), y.dims))
        case "pool" if _is_pooled(y):
            m.take(pooled(d, y))
        case "conv" if _is_pooled(y) and len(y.dims) == 4 and isinstance(y.dims[1], int):
            m.take(convolved(d, before_rounding(y)))
        case "random" if y.dims:
            m.take(_dropped(d, y))
        case "move":
            _move(m, y)
        case _:
            m.take(chain(d, unary(y, Function("tanh({})", "torch.tanh(x)")), 2))


def _joined(a: Expr, b: Expr) -> Dims | None:
    """Return the dims of two values broadcast against each other; None where they cannot be."""
    short, long = sorted((a.dims, b.dims), key=len)
    short = (*[1] * (len(long) - len(short)), *short)
    found: list[Dim] = []
    for one, other in zip(short, long, strict=True):
        if one != other and 1 not in (one, other):
            return None
        found.append(other if one == 1 else one)
    return tuple(found)


def _join(m: Mixture, y: Expr, functions: Sequence[Function]) -> None:
    """Add a pointwise function of a value and of another one that broadcasts with it to the program."""
    c = m.d.c
    others = [v for v in m.values if v.dtype != "s32" and _joined(y, v) is not None]
    if not others or (y.dims and c.chance(1, 3)):
        ones = tuple(c.pick((e, e, 1)) for e in y.dims)
        others = [m.d.tensor(ones[c.number(len(ones)) if ones else 0 :], c.pick(FLOATS), stem="j")]
    other = c.pick(others)
    dims = _joined(y, other)
    assert dims is not None
    a, b = (y, other) if c.chance(1, 2) else (other, y)
    function = c.pick(functions)
    if functions is BINARY:
        m.take(binary(function, a, b, dims))
        return
    a, b = (v if v.text.isidentifier() else m.d.named(v) for v in (a, b))

    def compute(env: Env) -> Bounded:
        noisy = (Bounded(x.value, x.error + 4 * ref.F32 * (x.value.abs() + 1)) for x in _both(a, b, env))
        return ref.apply(function, *noisy, relative=1e-5, absolute=2e-6)

    m.take(
        Expr(
            f"({function.text.format(a.text, b.text)})",
            "f32" if a.dtype != b.dtype else floating(a),
            dims,
            compute,
        )
    )


def _both(a: Expr, b: Expr, env: Env) -> tuple[Bounded, Bounded]:
    """Return two values of the same shape."""
    x, y = a.value(env), b.value(env)
    values, errors = torch.broadcast_tensors(x.value, y.value), torch.broadcast_tensors(x.error, y.error)
    return Bounded(values[0], errors[0]), Bounded(values[1], errors[1])


def _normed(d: Draft, y: Expr) -> Expr:
    """Return a softmax along any axis, or a norm over any."""
    rank = len(y.dims)
    match d.c.pick(("softmax", "log", "layer_norm", "rms_norm")):
        case "softmax":
            return softmax(d, y, d.c.number(rank) - d.c.pick((0, rank)))
        case "log":
            return softmax(d, y, d.c.number(rank), logarithm=True)
        case kind:
            return norm(d, y, kind, tuple(sorted(a % rank for a in drawn_axes(d, rank))))


def _product(m: Mixture, y: Expr) -> Expr:
    """Return a product with a parameter on either side, or with the value itself."""
    d, c = m.d, m.d.c
    rows, inner = y.dims[-2:]
    y = before_rounding(y)
    match c.pick(("right", "left", "itself", "batch")):
        case "left":
            n = c.pick(NUMBERS)
            w = d.tensor((n, rows), y.dtype, stem="w", scale=root(rows))
            return matmul(w, y, (*y.dims[:-2], n, inner))
        case "itself":
            y = y if y.text.isidentifier() else d.named(y)
            turned = Expr(
                f"{y.text}.T",
                y.dtype,
                (*y.dims[:-2], inner, rows),
                lambda env: Bounded(*(t.mT for t in y.value(env))),
            )
            made = matmul(y, turned, (*y.dims[:-2], rows, rows))
            return unary(made, Function("tanh({} * 0.125)", "torch.tanh(x * 0.125)"))
        case way:
            n = c.pick(NUMBERS)
            lead = y.dims[:-2] if way == "batch" else ()
            w = d.tensor((*lead, inner, n), y.dtype, stem="w", scale=root(inner))
            return matmul(y, w, (*y.dims[:-2], rows, n))


def _in_order(m: Mixture, y: Expr) -> Expr:
    """Return the elements in order along an axis, or the largest ones."""
    axis = m.d.c.number(len(y.dims))
    extent = y.dims[axis]
    count = m.d.c.pick((None, 1 + m.d.c.number(min(extent, 4)))) if isinstance(extent, int) else None
    found = in_order(m.d, y, axis, count)

    def compute(env: Env) -> Bounded:
        value, error = settled(y, env)
        falling = count is not None or "descending" in found.text
        ordered = value.sort(axis, descending=falling).values.narrow(axis, 0, count or value.shape[axis])
        return env.passed(Bounded(ordered, error.amax(axis, True).expand(ordered.shape)), y.dtype)

    return Expr(found.text, found.dtype, found.dims, compute)


def _places(m: Mixture, y: Expr, kind: str) -> Expr:
    """Return the argmax, argsort or the like of an exact value, or the elements at these indices."""
    c, axis = m.d.c, m.d.c.number(len(y.dims))
    if kind == "order of":
        places = in_order(m.d, y, axis, None, positions=True)
        if c.chance(1, 2):
            return places
        others = [v for v in m.values if v.dims == y.dims and v.dtype in ("bf16", "f16", "f32")]
        source = c.pick(others or [y])
        return Expr(
            f"take_along({source.text}, {places.text}, axis={axis})",
            source.dtype,
            y.dims,
            lambda env: Bounded(
                *(t.gather(axis, places.value(env).value.long()) for t in settled(source, env))
            ),
        )
    name, keep = c.pick(("argmax", "argmin")), c.chance(1, 2)

    def compute(env: Env) -> Bounded:
        return ref.exact(getattr(y.value(env).value, name)(axis, keep))

    return Expr(
        f"{name}({y.text}, axis={axis}{', keepdims=on' * keep})",
        "s32",
        rest_of(y.dims, (axis,), keep),
        compute,
    )


def _with_dims(d: Draft, y: Expr) -> Expr:
    """Return arithmetic of a value with extents, or a mask by indices."""
    if named := [e for e in y.dims if isinstance(e, str) and e.isidentifier()]:
        dim = d.c.pick(named)
        number = Expr(dim, "f32", (), lambda env: ref.exact(float(env.extent(dim))), weak=True)
        return binary(d.c.pick(OF_EXTENTS), y, number, y.dims)
    if len(y.dims) < 2:
        return chain(d, y, 2)
    shape = f"({', '.join(map(str, y.dims))})"
    a, b = d.c.number(len(y.dims)), d.c.number(len(y.dims))
    gap = d.c.pick((0, 1, 3))

    def masked(env: Env) -> Bounded:
        x = y.value(env)
        at = torch.meshgrid(*(torch.arange(n, device=x.value.device) for n in x.value.shape), indexing="ij")
        return ref.select(at[a] - at[b] < gap, x, ref.exact(torch.full_like(x.value, -2.0)))

    text = f"where(iota({shape}, axis={a}) - iota({shape}, axis={b}) < {gap}, {y.text}, -2)"
    return Expr(text, floating(y), y.dims, masked)


def _dropped(d: Draft, y: Expr) -> Expr:
    """Return a value of which random elements are zero."""
    seed, stream = d.c.number(1 << 16), d.c.pick((0, 1, 7))

    def compute(env: Env) -> Bounded:
        x = y.value(env)
        numbers = ref.uniform(tuple(x.value.shape), seed, stream).to(x.value.device)
        kept = Bounded(x.value / 0.75, x.error / 0.75 + ref.F32 * x.value.abs())
        return ref.select(numbers >= 0.25, kept, ref.exact(torch.zeros_like(x.value)))

    return Expr(f"dropout({y.text}, 0.25, {seed}, stream={stream})", floating(y), y.dims, compute)


def _is_pooled(y: Expr) -> bool:
    return (
        3 <= len(y.dims) <= 5
        and all(isinstance(e, int) for e in y.dims[2:])
        and y.dtype in ("bf16", "f16", "f32")
    )


# What moves elements


def _move(m: Mixture, y: Expr) -> None:
    """Add a view of a value, such as a slice, a reshape or a permutation, to the program."""
    c, d = m.d.c, m.d
    has_number = any(isinstance(e, int) for e in y.dims)
    match c.pick(
        (
            "index",
            "index",
            "permute",
            "reshape",
            "repeat",
            "concat",
            "moved",
            "moved",
            "gather",
            "along",
            "flip",
        )
    ):
        case "moved" if has_number and y.dtype in ("bf16", "f16", "f32"):
            m.take(passed(moved(d, y)))  # what is joined to it is a value of its own
        case "permute" if y.dims:
            m.take(permute(y, draw_order(d, len(y.dims))), y)
        case "reshape" if y.dims:
            m.take(reshaped(d, y), y)
        case "repeat" if y.dims:
            axis, times = c.number(len(y.dims)), c.pick((2, 1, 3))
            dims = with_extent(y.dims, axis, multiply((times, y.dims[axis])))
            text = f"repeat({y.text}, {times}, axis={axis})"
            m.take(like(y, text, dims, lambda t: t.repeat_interleave(times, axis)), y)
        case "concat" if y.dims:
            _concat(m, y)
        case "gather" if y.dims:
            shape: Dims = tuple(c.pick(NUMBERS) for _ in range(1 + c.number(2)))
            if len(shape) + len(y.dims) - 1 <= MOST_RANK:
                m.take(gathered(d, y, shape), y)
        case "along" if y.dims:
            axis = c.number(len(y.dims))
            m.take(taken_along(d, y, with_extent(y.dims, axis, c.pick(NUMBERS)), axis))
        case "flip" if y.dims:
            axes = tuple(a % len(y.dims) for a in drawn_axes(d, len(y.dims)))
            text = f"flip({y.text}, axis={listed(axes)})"
            m.take(like(y, text, y.dims, lambda t: t.flip(axes)), y)
        case _:
            m.take(indexed(d, y), y)


def _concat(m: Mixture, y: Expr) -> None:
    """Add a concatenation of several values, or of one that is repeated, to the program."""
    c, axis = m.d.c, m.d.c.number(len(y.dims))

    def fits(v: Expr) -> bool:
        return (
            v.dtype == y.dtype
            and len(v.dims) == len(y.dims)
            and all(a == b for i, (a, b) in enumerate(zip(v.dims, y.dims, strict=True)) if i != axis)
        )

    known = [v for v in m.values if fits(v)] or [y]
    items = [y, *(c.pick(known) for _ in range(1 + c.number(2)))]
    if y.dtype == "s32" or not c.chance(1, 3):
        exact = all(m.is_exact(v) for v in items)
    else:
        extra = m.d.tensor(
            with_extent(y.dims, axis, c.pick(NUMBERS)),
            y.dtype,
            stem="c",
            kind="integer" if y.dtype in ("s8", "u8") else "normal",
        )
        items.insert(c.number(len(items)), extra)
        exact = False
    extent = items[0].dims[axis]
    for item in items[1:]:
        extent = add(extent, item.dims[axis])

    def compute(env: Env) -> Bounded:
        found = [settled(i, env) for i in items]
        return Bounded(*(torch.cat([f[k] for f in found], axis) for k in (0, 1)))

    text = f"concat({', '.join(i.text for i in items)}, axis={axis})"
    m.take(Expr(text, y.dtype, with_extent(y.dims, axis, extent), compute), y if exact else None)
