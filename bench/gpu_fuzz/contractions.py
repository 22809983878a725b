"""Forms with a product: every kind of operand, and what several products make."""

from __future__ import annotations

from typing import Any

from bench.gpu_fuzz import reference as ref
from bench.gpu_fuzz.composites import (
    FLOATS,
    RELATIVE,
    cast_to,
    gathered,
    kept_over,
    norm,
    scattered,
    softmax,
    swapped,
    with_axis,
)
from bench.gpu_fuzz.drafts import (
    EXTENTS,
    FEW,
    Dim,
    Dims,
    Draft,
    Env,
    Expr,
    Param,
    before_rounding,
    root,
    shape_of,
)
from bench.gpu_fuzz.pointwise import (
    ADD,
    FUNCTIONS,
    MULTIPLY,
    SUBTRACT,
    binary,
    chain,
    partner,
    reduced,
    results,
    unary,
)
from bench.gpu_fuzz.reference import Bounded

torch: Any = ref.torch


INNER = (32, 1, 2, 3, 5, 7, 8, 15, 16, 17, 24, 33, 64, 77, 100, 128, 129, 200, 256, 264, 500, 1024)
"""Extents that are summed over."""


def matmul(
    a: Expr,
    b: Expr,
    dims: Dims,
    *,
    way: str = "",
    suffix: str = "",
) -> Expr:
    """The product of two values; `way` names its arithmetic where operands do not tell."""
    dtypes = (a.dtype, b.dtype)
    if dtypes[0] in ("s8", "u8"):
        dtype, how = "s32", "exact"
    elif dtypes[0] in ("e4m3", "e5m2"):
        dtype, how = "f32", way or "8"
    elif dtypes[0] == "f32":
        dtype, how = "f32", way or "tf32"
    else:
        dtype, how = dtypes[0], "16"
    text = f"({a.text} @ {b.text})" if not suffix else f"matmul({a.text}, {b.text}{suffix})"

    def compute(env: Env) -> Bounded:
        return env.passed(ref.product(factor(a, env), factor(b, env), how), dtype)

    return Expr(text, dtype, dims, compute)


def factor(operand: Expr, env: Env) -> Bounded:
    """An operand of a product, which is stored at its dtype if it is computed."""
    value = operand.value(env)
    return ref.maybe_rounded(value, operand.dtype) if bool((value.error != 0).any()) else value


PAIRS: dict[str, tuple[tuple[str, str], ...]] = {
    "e4m3": (("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3")),
    "s8": (("s8", "s8"), ("u8", "u8"), ("s8", "u8"), ("u8", "s8")),
}
"""Dtypes of 8 bits that can be multiplied, by the one that stands for them."""


def operands(
    d: Draft, rows: Dim, columns: Dim, inner: Dim, *, batch: Dims = ()
) -> tuple[Expr, Expr, str, str]:
    """Two matrices that can be multiplied, with what `matmul` adds to them and the name of the arithmetic."""
    kind = d.c.pick((*FLOATS, "e4m3", "s8"))
    left, right = d.c.pick(PAIRS.get(kind, ((kind, kind),)))
    draws = "integer" if kind == "s8" else "normal"
    first = second = batch
    if batch:
        first, second = d.c.pick(
            ((batch, batch), (batch, ()), (batch, batch[1:]), (batch, (1,) * len(batch)))
        )
        if d.c.chance(1, 4) and len(second) < len(batch):
            first, second = second, first
    a = d.tensor((*first, rows, inner), left, stem="x", kind=draws)
    b = d.tensor((*second, inner, columns), right, stem="w", kind=draws, scale=root(inner))
    suffix, way = "", ""
    if kind == "f32":
        suffix, way = d.c.pick((("", "tf32"), (", compute=f32", "f32"), (", compute=tf32x3", "tf32x3")))
    if kind == "e4m3" and d.c.chance(1, 3):
        suffix, way = ", acc=fast", "8fast"
    return a, b, suffix, way


def finish(d: Draft, y: Expr) -> None:
    """Append an epilogue and results to a product; an s32 product may also be returned as it is."""
    if y.dtype != "s32":
        results(d, chain(d, y))
        return
    if d.c.chance(1, 3):
        if d.c.chance(1, 3):
            other = d.tensor(y.dims[-1:], "s32", stem="i", kind="integer")
            y = binary(ADD, y, other, y.dims)
        if d.c.chance(1, 4):
            y = d.named(y)
            d.result(Expr(y.text, "s32", y.dims, y.compute), "s32")
            d.result(reduced(d, y, ("sum", "max", "min")), "s32")
            return
        d.result(y, "s32")
        return
    scale = d.tensor(y.dims[-1:], "f32", stem="q", kind="positive", scale=lambda env: 2.0**-4)
    results(d, chain(d, binary(MULTIPLY, y, scale, y.dims)))


def product(d: Draft) -> None:
    """Draft a GEMM of two matrices."""
    m, n, k = d.dim("M"), d.dim("N"), d.dim("K", INNER)
    a, b, suffix, way = operands(d, m, n, k)
    y = matmul(a, b, (m, n), suffix=suffix, way=way)
    if d.c.chance(1, 10):
        y = Expr(f"{y.text}.T", y.dtype, (n, m), swapped(y))
    finish(d, y)


def batched(d: Draft) -> None:
    """Draft a batched GEMM; one operand may be shared by all batches."""
    batch: Dims = (d.dim("B", FEW),) if d.c.chance(3, 4) else (d.dim("B", FEW), d.dim("H", FEW))
    m, n, k = d.dim("M"), d.dim("N"), d.dim("K", INNER)
    a, b, suffix, way = operands(d, m, n, k, batch=batch)
    finish(d, matmul(a, b, (*batch, m, n), suffix=suffix, way=way))


def vector(d: Draft) -> None:
    """Draft a vector times a matrix, or a matrix times a vector."""
    n, k = d.dim("N"), d.dim("K", INNER)
    dtype = d.c.pick(("bf16", "f16", "f32", "e4m3", "s8"))
    kind = "integer" if dtype == "s8" else "normal"
    v = d.tensor((k,), dtype, stem="x", kind=kind)
    if d.c.chance(1, 2):
        w = d.tensor((n, k), dtype, stem="w", scale=root(k), kind=kind)
        column = with_axis(v, 1)
        finish(d, matmul(w, column, (n, 1)))
        return
    w = d.tensor((k, n), dtype, stem="w", scale=root(k), kind=kind)
    row = with_axis(v, 0)
    finish(d, matmul(row, w, (1, n)))


def pair(d: Draft) -> None:
    """Draft a gated pair: two GEMMs of one left operand, combined element by element."""
    batch: Dims = (d.dim("B", FEW),) if d.c.chance(1, 4) else ()
    m, n, k = d.dim("M"), d.dim("N"), d.dim("K", INNER)
    dtype = d.c.pick((*FLOATS, "e4m3"))
    x = d.tensor((*batch, m, k), dtype, stem="x")
    layout = d.c.pick(("turned", "row", "columns", "pitch"))
    g, u = (d.tensor((*batch, k, n), dtype, stem="w", scale=root(k), layout=layout) for _ in range(2))
    gate, up = (matmul(x, w, (*batch, m, n)) for w in (g, u))
    if d.c.chance(1, 3):
        gate = binary(
            ADD, gate, partner(d, gate.dims, dtype if dtype in ("bf16", "f16") else "f32"), gate.dims
        )
    gate = unary(gate, d.c.pick(FUNCTIONS))
    results(d, chain(d, binary(MULTIPLY, gate, up, gate.dims), 2))


def mixed(d: Draft) -> None:
    """Draft a GEMM of 16-bit activations and 4- or 8-bit weights, with scales and zeros by groups of K."""
    wide, narrow = d.c.pick(("bf16", "f16")), d.c.pick(("s4", "u4", "s8", "u8"))
    group = d.c.pick((128, 64, 32, 16))
    scaled = d.c.pick(("scales", "none", "zeros"))
    sizes = tuple(group * i for i in (2, 1, 3, 5))
    if scaled == "none" and d.c.chance(1, 2):
        sizes = (64, 2, 6, 8, 16, 34, 100, 200)
    m, n, k = d.dim("M"), d.dim("N"), d.dim("K", sizes)
    x = d.tensor((m, k), wide, stem="x", scale=root(k))
    w = d.tensor((n, k), narrow, stem="w", kind="integer", layout="row")
    weights = w if scaled == "none" else _dequantized(d, w, group, wide, zeros=scaled == "zeros")
    turned = Expr(f"{weights.text}.T", wide, (k, n), swapped(weights))
    results(d, chain(d, matmul(x, turned, (m, n)), 3))


def _dequantized(d: Draft, w: Expr, group: int, dtype: str, *, zeros: bool) -> Expr:
    """Integers with scales for groups of columns, and zeros."""
    n, k = w.dims
    width: Dim = f"{k}/{group}" if isinstance(k, str) else k // group
    layout = d.c.pick(("row", "columns"))
    s = _grouped(d, n, width, dtype, layout, "positive")
    z = _grouped(d, n, width, dtype, layout, "integer") if zeros else None

    def compute(env: Env) -> Bounded:
        value = w.value(env).value
        value = value - z.value(env).value.repeat_interleave(group, 1) if z else value
        value = value * s.value(env).value.repeat_interleave(group, 1)
        # Rounded once as the language says, or twice where registers hold the difference.
        stored = ref.rounded(ref.exact(value), dtype).value
        return Bounded(stored, 2 * ref.half_step(dtype, value.abs()))

    text = f"dequantize({w.text}, {s.text}{f', {z.text}' if z else ''})"
    return Expr(text, dtype, w.dims, compute)


def _grouped(d: Draft, n: Dim, width: Dim, dtype: str, layout: str, kind: str) -> Expr:
    """Declare scales or zero points of shape `[N, K/group]`."""
    name = d.name("g")
    suffix = " col_major" if layout == "columns" else ""
    d.add(Param(name, f"{name}: {dtype}[{n}, {width}]{suffix}", dtype, kind, lambda env: 0.125))
    return Expr(name, dtype, (n, width), lambda env: env.inputs[name])


def sparse(d: Draft) -> None:
    """Draft a GEMM with 2:4 sparse weights."""
    dtype = d.c.pick(("bf16", "f16", "f32", "e4m3", "s8"))
    sizes = tuple(32 * i for i in (2, 1, 3, 4, 5, 8, 16))
    m, n, k = d.dim("M"), d.dim("N"), d.dim("K", sizes)
    kind = "integer" if dtype == "s8" else "normal"
    left = d.c.chance(1, 3)
    rows = m if left else n
    if isinstance(rows, int):
        m, n = (max(rows, 2), n) if left else (m, max(rows, 2))
    else:
        d.promises.append(f"{rows} >= 2")  # as packed matrices have
        if (bound := d.dims[rows]) is not None:
            d.dims[rows] = max(bound, 2)
    rows = m if left else n
    name = d.name("w")
    d.add(Param(name, f"{name}: {dtype}[{rows}, {k}] sparse", dtype, f"sparse {kind}", root(k)))
    w = Expr(name, dtype, (rows, k), lambda env: env.inputs[name])
    if left:
        x = d.tensor((k, n), dtype, stem="x", kind=kind)
        finish(d, matmul(w, x, (m, n)))
        return
    x = d.tensor((m, k), dtype, stem="x", kind=kind)
    turned = Expr(f"{name}.T", dtype, (k, n), swapped(w))
    finish(d, matmul(x, turned, (m, n)))


def blocks(d: Draft) -> None:
    """Draft a block-scaled GEMM of 8-bit floats: a scale for each 128 elements along K."""
    sizes = (256, 128, 384, 640)
    whole = tuple(128 * i for i in (1, 2, 3))
    by_row, by_column = d.c.chance(1, 2), d.c.chance(1, 2)
    m = d.dim("M", EXTENTS if by_row else whole)
    n, k = d.dim("N", EXTENTS if by_column else whole), d.dim("K", sizes)
    left, right = d.c.pick((("e4m3", "e4m3"), ("e4m3", "e5m2")))
    x = d.tensor((m, k), left, stem="x", layout="row")
    w = d.tensor((n, k), right, stem="w", layout="row", scale=root(k))
    scales = [_block_scale(d, m, k, by_row), _block_scale(d, n, k, by_column)]

    def compute(env: Env) -> Bounded:
        made: list[Bounded] = []
        for values, scale, rows in zip((x, w), scales, (by_row, by_column), strict=True):
            s = scale.value(env).value.repeat_interleave(128, 1)
            s = s if rows else s.repeat_interleave(128, 0)
            made.append(ref.exact(values.value(env).value * s))
        return ref.product(made[0], ref.exact(made[1].value.mT), "8")

    text = f"matmul({x.text}, {w.text}.T, scale_a={scales[0].text}, scale_b={scales[1].text})"
    results(d, chain(d, Expr(text, "f32", (m, n), compute), 3))


def _block_scale(d: Draft, rows: Dim, k: Dim, by_row: bool) -> Expr:
    def part(dim: Dim) -> Dim:
        return f"{dim}/128" if isinstance(dim, str) else dim // 128

    dims = (rows if by_row else part(rows), part(k))
    name = d.name("g")
    d.add(Param(name, f"{name}: f32[{dims[0]}, {dims[1]}]", "f32", "positive"))
    return Expr(name, "f32", dims, lambda env: env.inputs[name])


def grouped(d: Draft) -> None:
    """Draft a grouped GEMM; rows may be gathered before it and scattered after it."""
    t, n, k = d.dim("T"), d.dim("N"), d.dim("K", INNER)
    e = d.dim("E", (2, 1, 3, 5, 40))
    if "E" in d.dims and d.dims["E"] is None:
        d.few.add("E")
    dtype = d.c.pick((*FLOATS, "e4m3", "s8"))
    kind = "integer" if dtype == "s8" else "normal"
    rows_of: Dim = t
    if picked := d.c.chance(1, 4) and dtype in ("bf16", "f16", "s8"):
        rows_of = d.dim("S")
    x = d.tensor((rows_of, k), dtype, stem="x", kind=kind, layout=d.c.pick(("row", "pitch", "columns")))
    if picked:
        x = gathered(d, x, (t,))
    w = d.tensor((e, k, n), dtype, stem="w", scale=root(k), kind=kind)
    ends = d.name("ends")
    d.add(Param(ends, f"{ends}: s32[{e}]", "s32", "index"))
    scale = bias = None
    if dtype != "s8" and d.c.chance(1, 4):
        scale = d.tensor((e,), "f32", stem="q", kind="positive")
    if dtype != "s8" and d.c.chance(1, 4):
        bias = d.tensor((e, n), d.c.pick(("f32", "bf16")), stem="b", layout="row")
    extra = f"{f', scale={scale.text}' if scale else ''}{f', bias={bias.text}' if bias else ''}"
    text = f"grouped_matmul({x.text}, {w.text}, {ends}{extra})"
    how = {"s8": "exact", "e4m3": "8", "f32": "tf32"}.get(dtype, "16")

    def compute(env: Env) -> Bounded:
        a, b = x.value(env), w.value(env)
        value = torch.zeros(shape_of(env, (t, n)), dtype=torch.float64, device=a.value.device)
        error, start = torch.zeros_like(value), 0
        for group, end in enumerate(env.inputs[ends].value.long().tolist()):
            part = ref.product(
                Bounded(a.value[start:end], a.error[start:end]), Bounded(b.value[group], b.error[group]), how
            )
            if scale is not None:
                part = ref.apply(torch.mul, part, ref.exact(scale.value(env).value[group]))
            if bias is not None:
                part = ref.apply(torch.add, part, ref.exact(bias.value(env).value[group]))
            value[start:end], error[start:end] = part
            start = end
        return env.passed(Bounded(value, error), plain)

    plain = {"s8": "s32", "e4m3": "f32"}.get(dtype, dtype)
    y = Expr(
        text, plain if scale is None and bias is None else "f32" if plain == "s32" else plain, (t, n), compute
    )
    if bias is not None or scale is not None:
        y = Expr(y.text, dtype if dtype in ("bf16", "f16") else "f32", y.dims, y.compute)
    if y.dtype != "s32" and d.c.chance(1, 4) and isinstance(t, str):
        scattered(d, chain(d, y, 1), t)
        return
    finish(d, y)


def picked(d: Draft) -> None:
    """Draft a GEMM of rows that are gathered by an index."""
    t, m, n, k = d.dim("T"), d.dim("M"), d.dim("N"), d.dim("K", INNER)
    dtype = d.c.pick(("bf16", "f16", "f32", "s8"))
    kind = "integer" if dtype == "s8" else "normal"
    x = d.tensor((t, k), dtype, stem="x", kind=kind)
    w = d.tensor((k, n), dtype, stem="w", kind=kind, scale=root(k))
    finish(d, matmul(gathered(d, x, (m,)), w, (m, n)))


def lists(d: Draft) -> None:
    """Draft a kernel whose calls take lists of GEMM problems of different sizes."""
    d.each = True
    product(d)


def stages(d: Draft) -> None:
    """Draft a chain of GEMMs with pointwise operations, norms or reductions between them."""
    m, n, k, h = d.dim("M"), d.dim("N"), d.dim("K", INNER), d.dim("H", INNER)
    dtype = d.c.pick(("bf16", "bf16", "f16", "f32"))
    x = d.tensor((m, k), dtype, stem="x")
    w = d.tensor((k, h), dtype, stem="w", scale=root(k))
    y = matmul(x, w, (m, h))
    match d.c.pick(("chain", "softmax", "norm", "max", "none")):
        case "chain":
            y = chain(d, y, 3)
        case "softmax":
            y = softmax(d, y, -1)
        case "norm":
            y = norm(d, y, "rms_norm")
        case "max":
            y = d.named(y)
            y = binary(SUBTRACT, y, kept_over(d, y, "max"), y.dims)
        case _:
            pass
    y = before_rounding(y)
    if y.dtype != dtype:
        y = cast_to(y, dtype)
    y = d.named(y, stage=d.c.chance(1, 3))
    v = d.tensor((h, n), dtype, stem="w", scale=root(h))
    y = matmul(y, v, (m, n))
    results(d, chain(d, y, 3))


def attention(d: Draft) -> None:
    """Draft attention, with or without a mask."""
    batch: Dims = d.c.pick(((), ("B",), ("B", "H")))
    for name in batch:
        d.dims[str(name)] = d.c.pick((None, 1, 2, 3))
        d.few.add(str(name))
    m, n = d.dim("M"), d.dim("N")
    k, e = d.c.pick((64, 8, 16, 24, 128)), d.c.pick((64, 8, 16, 40, 128))
    dtype = d.c.pick(("bf16", "f16", "f32"))
    q = d.tensor((*batch, m, k), dtype, stem="q", layout=d.c.pick(("row", "pitch")))
    key = d.tensor((*batch, n, k), dtype, stem="k", layout=d.c.pick(("row", "pitch")))
    v = d.tensor((*batch, n, e), dtype, stem="v", layout=d.c.pick(("row", "pitch")))
    way = d.c.pick(("plain", "causal", "mask"))
    mask = d.tensor((m, n), "f32", stem="b") if way == "mask" else None
    suffix = ", causal=on" if way == "causal" else f", mask={mask.text}" if mask else ""
    arithmetic = "tf32" if dtype == "f32" else "16"

    def compute(env: Env) -> Bounded:
        keys = key.value(env)
        scores = ref.product(q.value(env), Bounded(keys.value.mT, keys.error.mT), arithmetic)
        scores = Bounded(*(t * k**-0.5 for t in scores))
        scores = ref.apply(torch.add, scores, mask.value(env)) if mask else scores
        value, error = scores
        if way == "causal":
            keep = torch.ones_like(value, dtype=torch.bool).tril()
            value = value.masked_fill(~keep, float("-inf"))
            error = error.masked_fill(~keep, 0.0)
        top = value.amax(-1, True)
        powers = Bounded((value - top).exp(), (value - top).exp() * (error.exp() - 1 + RELATIVE))
        total = ref.reduce("sum", powers, (-1,), True)
        weights = ref.maybe_rounded(ref.apply(torch.div, powers, total, relative=RELATIVE), dtype)
        return ref.product(weights, v.value(env), arithmetic)

    y = Expr(f"attention({q.text}, {key.text}, {v.text}{suffix})", dtype, (*batch, m, e), compute)
    results(d, chain(d, y, 1))


def widened(d: Draft) -> None:
    """Draft a GEMM of operands that are cast to f32, which loses no precision."""
    m, n, k = d.dim("M"), d.dim("N"), d.dim("K", INNER)
    dtype = d.c.pick(("bf16", "f16"))
    x = d.tensor((m, k), dtype, stem="x")
    w = d.tensor((k, n), dtype, stem="w", scale=root(k))
    a, b = (Expr(f"cast({v.text}, f32)", "f32", v.dims, v.value) for v in (x, w))
    suffix = d.c.pick(("", ", compute=f32"))
    # tf32 holds every bf16 and, of f16, all that is normal in it.
    y = matmul(a, b, (m, n), suffix=suffix, way="16")
    results(d, chain(d, y, 2))


def broadcast(d: Draft) -> None:
    """Draft a contraction written as a sum over the product of broadcast operands."""
    m, n, k = d.dim("M"), d.dim("N"), d.dim("K", INNER)
    dtype = d.c.pick(("f32", "bf16"))
    x, w = d.tensor((m, k), dtype, stem="x"), d.tensor((k, n), dtype, stem="w", scale=root(k))
    a = with_axis(x, 2)
    b = with_axis(w, 0)

    def compute(env: Env) -> Bounded:
        terms = ref.apply(torch.mul, a.value(env), b.value(env), relative=2 * ref.F32)
        return ref.reduce("sum", ref.maybe_rounded(terms, dtype), (1,))

    results(d, chain(d, Expr(f"sum({a.text} * {b.text}, axis=1)", "f32", (m, n), compute), 2))
