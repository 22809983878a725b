"""Operations of random chains on elements, views and axes, and picks."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from bench.fuzz.drawing import (
    LARGEST,
    Chain,
    Dim,
    Value,
    floats,
    in_memory,
    needs,
    number,
    plus,
    times,
    tupled,
)

# Elements

SMOOTH = (
    *("relu({})", "abs({})", "tanh({})", "sigmoid({})", "(-{})", "silu({})", "gelu({})", "softplus({})"),
    *("clamp({}, -1, 2)", "leaky_relu({}, slope=0.2)", "(2 * {})", "({} + 0.5)", "(1 - {})", "sin({})"),
    *("exp(min({}, 2))", "sqrt(abs({}) + 1)", "({} / 3)", "max({}, 0.25)", "where({0} > 9, 0, {0})"),
    *("cos({})", "erf({})", "expm1(min({}, 1))", "log(abs({}) + 1)", "log1p(abs({}))", "rsqrt(abs({}) + 1)"),
    *("mish({})", "selu({})", "elu({}, alpha=0.7)", "softsign({})", "hardswish({})", "hardsigmoid({})"),
    *("hardtanh({}, -0.5, 2)", "pow(abs({}) + 0.5, 1.5)", "atan2({}, 1.5)", "neg({})", "tan(tanh({}))"),
    *("gelu({}, approximate=tanh)", "softplus({}, beta=2)", "fmod({}, 64)"),
)
JUMPING = ("floor({})", "round({} * 2)", "sign({})", "where({} > 0.3, 1.0, -1.0)", "cast({} > 0, f32)")
WHOLE = (
    "({} + 3)",
    "({} * 2)",
    "({} % 5)",
    "floor_divide({}, 3)",
    "bitwise_xor({}, 6)",
    "abs({})",
    "max({}, 2)",
)


def element(c: Chain, v: Value) -> Value:
    """Apply a function of one value to each element: often smooth, at times with jumps."""
    if v.dtype == "s32":
        return replace(v, text=c.pick(WHOLE).format(v.text))
    floats(v)
    text = c.pick(SMOOTH if v.rough or c.chance(0.85) else JUMPING)
    return replace(v, text=text.format(v.text), dtype="f32" if "cast" in text or "where" in text else v.dtype)


def smooth(c: Chain, v: Value) -> Value:
    """Apply a function without jumps to floats."""
    floats(v)
    return replace(v, text=c.pick(SMOOTH).format(v.text))


def pointwise(c: Chain, v: Value) -> Value:
    """Apply a binary operation to a value and another one, which may be broadcast."""
    floats(v)
    dims = list(v.dims)
    for i in range(len(dims)):
        if c.chance(0.3):
            dims[i] = 1
    dims = dims[c.rng.randint(0, len(dims)) :] if c.chance(0.3) else dims
    other = c.other(tuple(dims))
    text = c.pick(
        ("({} + {})", "({} - {})", "({} * {})", "max({}, {})", "({} / (abs({}) + 1))", "min({}, {})")
    )
    pair = (v.text, other.text) if c.chance(0.6) or "/" in text else (other.text, v.text)
    return Value(text.format(*pair), v.dims, "f32", v.rough or other.rough)


def chosen(c: Chain, v: Value) -> Value:
    """Select between values by a condition on element indices."""
    floats(v)
    i = c.axis(v)
    shape, other = tupled(v.dims), c.other(v.dims)
    condition = c.pick(("{} < 2", "{} % 2 == 0", "{} >= 1", "{} == 0")).format(f"iota({shape}, axis={i})")
    return Value(f"where({condition}, {v.text}, {other.text})", v.dims, "f32", v.rough or other.rough)


def cast(c: Chain, v: Value) -> Value:
    """Cast floats to another dtype, and values of 8 bits or integers to floats."""
    if v.dtype == "s32":
        return replace(v, text=f"cast({v.text}, f32)", dtype="f32")
    if not v.rough and c.chance(0.15):
        return replace(v, text=f"cast({v.text}, s32)", dtype="s32")
    to = c.pick(("bf16", "f16", "f32"))
    return replace(v, text=f"cast({v.text}, {to})", dtype=to)


def counted(c: Chain, v: Value) -> Value:
    """Apply integer arithmetic, or `any` or `all` of a condition along an axis."""
    if v.dtype == "s32":
        other = c.other(v.dims, "s32")
        text = c.pick(
            ("({} + {})", "({} - {})", "({} * {})", "max({}, {})", "bitwise_and({}, {})", "({} % {})")
        )
        return replace(v, text=text.format(v.text, other.text))
    floats(v)
    needs(not v.rough)
    i = c.axis(v)
    text = f"cast({c.pick(('any', 'all'))}({v.text} > {c.pick((0, 0.25))}, axis={c.spelled(v, i)}), f32)"
    return Value(text, (*v.dims[:i], *v.dims[i + 1 :]))


def bounded(c: Chain, v: Value) -> Value:
    """Clamp between two bounds: one may be broadcast, and the lower may exceed the upper."""
    floats(v)
    low, high = c.other(v.dims[c.rng.randint(0, v.rank) :]), c.other(v.dims)
    return Value(
        f"clamp({v.text}, {low.text}, {high.text})", v.dims, "f32", v.rough or low.rough or high.rough
    )


def dropped(c: Chain, v: Value) -> Value:
    """Apply dropout, or add random numbers."""
    floats(v)
    needs(v.rank)
    if c.chance(0.5):
        return replace(v, text=f"dropout({v.text}, 0.25, {c.rng.randrange(99)})", dtype="f32")
    seed = c.param((), "s32", stem="seed")
    return replace(
        v,
        text=f"({v.text} + random({tupled(v.dims)}, {seed.text}, stream={c.rng.randrange(3)}))",
        dtype="f32",
    )


# Views


def permuted(c: Chain, v: Value) -> Value:
    """Permute the axes, or exchange the last two."""
    needs(v.rank >= 2)
    if c.chance(0.4):
        return replace(v, text=f"{v.text}.T", dims=(*v.dims[:-2], v.dims[-1], v.dims[-2]))
    order = c.rng.sample(range(v.rank), v.rank)
    return replace(v, text=f"permute({v.text}, {tupled(order)})", dims=tuple(v.dims[i] for i in order))


def reshaped(c: Chain, v: Value) -> Value:
    """Merge, split and insert axes."""
    dims = list(v.dims)
    for _ in range(c.rng.randint(1, 2)):
        i = c.rng.randrange(len(dims)) if dims else 0
        match c.pick(("merge", "split", "insert", "flat")):
            case "merge" if len(dims) >= 2:
                i = min(i, len(dims) - 2)
                dims[i : i + 2] = [times(*dims[i : i + 2])]
            case "split" if dims and isinstance(n := dims[i], int):
                part = c.pick([k for k in range(1, n + 1) if n % k == 0])
                dims[i : i + 1] = [part, n // part]
            case "flat" if dims:
                dims = [times(*dims)]
            case _:
                dims.insert(i, 1)
    needs(len(dims) <= 5)
    return replace(v, text=f"reshape({v.text}, {tupled(dims)})", dims=tuple(dims))


def indexed(c: Chain, v: Value) -> Value:
    """Slice, reverse, drop and insert axes."""
    words: list[str] = []
    dims: list[Dim] = []
    for dim in v.dims:
        n = dim if isinstance(dim, int) else 1
        match c.pick(("all", "all", "part", "reverse", "step", "one", "new", "tail")):
            case "part" if n > 1:
                a = c.rng.randrange(n)
                b = c.rng.randint(a + 1, n)
                words.append(f"{a}:{b}")
                dims.append(b - a)
            case "tail" if n > 1:
                a = c.rng.randrange(1, n)
                words.append(f"-{a}:")
                dims.append(a)
            case "reverse":
                words.append("::-1")
                dims.append(dim)
            case "step" if n > 1:
                words.append("::2")
                dims.append((n + 1) // 2)
            case "one":
                words.append(c.pick(("0", "-1")))
            case "new":
                words += ["None", ":"]
                dims += [1, dim]
            case _:
                words.append(":")
                dims.append(dim)
    needs(words and len(dims) <= 5)
    return replace(v, text=f"{v.text}[{', '.join(words)}]", dims=tuple(dims))


def moved(c: Chain, v: Value) -> Value:
    """Flip, roll, repeat, mask, join or pad along an axis."""
    i = c.axis(v)
    k, n = c.spelled(v, i), v.dims[i]
    match c.pick(("flip", "roll", "repeat", "tril", "triu", "concat", "concat", "pad")):
        case "flip":
            return replace(v, text=f"flip({v.text}, axis={k})")
        case "roll" if isinstance(n, int):
            return replace(v, text=f"roll({v.text}, shift={c.rng.randint(-3, 3)}, axis={k})")
        case "repeat":
            count = c.rng.randint(1, 3)
            return _grown(v, f"repeat({v.text}, {count}, axis={k})", i, times(n, count))
        case "tril" | "triu" as kind if v.rank >= 2:
            return replace(v, text=f"{kind}({v.text}, diagonal={c.rng.randint(-2, 2)})")
        case "concat":
            other = v if c.chance(0.4) else c.other((*v.dims[:i], c.extent(), *v.dims[i + 1 :]), v.dtype)
            pair = [v, other] if c.chance(0.5) else [other, v]
            made = _grown(v, f"concat({pair[0].text}, {pair[1].text}, axis={k})", i, plus(n, other.dims[i]))
            return replace(made, rough=v.rough or other.rough)
        case _:
            return padded(c, v)


def padded(c: Chain, v: Value) -> Value:
    """Pad the last axes."""
    floats(v)
    count = c.rng.randint(1, v.rank)
    mode = c.pick(("constant", "constant", "reflect", "replicate", "circular"))
    low, high, dims = list[int](), list[int](), list(v.dims)
    for i in range(v.rank - count, v.rank):
        n = dim if isinstance(dim := dims[i], int) else 1
        most = {"constant": 3, "replicate": 3, "reflect": n - 1, "circular": n}[mode]
        low.append(c.rng.randint(0, max(0, min(2, most))))
        high.append(c.rng.randint(0, max(0, min(3, most))))
        dims[i] = plus(dims[i], low[-1] + high[-1])
    more = f", value={c.pick((0, 1.5, -9))}" if mode == "constant" and c.chance(0.3) else ""
    option = "" if mode == "constant" else f", mode={mode}"
    made = replace(v, text=f"pad({v.text}, {tupled(low)}, {tupled(high)}{option}{more})", dims=tuple(dims))
    needs(made.count <= LARGEST)
    return made


def _grown(v: Value, text: str, axis: int, dim: Dim) -> Value:
    made = replace(v, text=text, dims=(*v.dims[:axis], dim, *v.dims[axis + 1 :]))
    needs(made.count <= LARGEST)
    return made


def broadcast(c: Chain, v: Value) -> Value:
    """Broadcast axes of extent 1, at times with a new leading axis."""
    dims = [c.extent() if d == 1 and c.chance(0.7) else d for d in v.dims]
    if c.chance(0.5):
        dims.insert(0, c.extent())
    made = replace(v, text=f"broadcast({v.text}, {tupled(dims)})", dims=tuple(dims))
    needs(made.count <= LARGEST and made.rank <= 5 and dims != list(v.dims))
    return made


# Along axes


def reduced(c: Chain, v: Value) -> Value:
    """Reduce one or two axes."""
    i = c.axis(v)
    axes: list[int] = sorted({i, c.axis(v)} if c.chance(0.3) else {i})
    kept = c.chance(0.5)
    if v.dtype == "s32":
        kind = c.pick(("sum", "max", "min"))
    else:
        floats(v)
        kind = c.pick(("sum", "sum", "mean", "max", "min", "amax", "var", "logsumexp", "prod"))
    n = prod(v.sizes[a] for a in axes)
    needs(kind != "var" or n > 1)
    needs(kind != "prod" or n <= 6)
    axis = tupled(axes) if len(axes) > 1 else c.spelled(v, i)
    text = f"{kind}({v.text}, axis={axis}{', keepdims=on' if kept else ''})"
    dims = tuple(1 if a in axes else d for a, d in enumerate(v.dims) if kept or a not in axes)
    rough = v.rough or kind not in ("max", "min", "amax")
    return Value(text, dims, v.dtype if v.dtype == "s32" else "f32", rough and v.dtype != "s32")


def summed(c: Chain, v: Value) -> Value:
    """Reduce an axis without cancellation."""
    floats(v)
    i = c.axis(v)
    text = f"{c.pick(('sum', 'mean', 'max', 'min', 'amax'))}({v.text}, axis={c.spelled(v, i)}, keepdims=on)"
    return Value(text, (*v.dims[:i], 1, *v.dims[i + 1 :]), "f32", True)


def extreme(c: Chain, v: Value) -> Value:
    """Take argmax or argmin of values that do not depend on the order of sums."""
    floats(v)
    needs(not v.rough)
    i = c.axis(v)
    text = f"{c.pick(('argmax', 'argmin'))}({v.text}, axis={c.spelled(v, i)})"
    return Value(text, (*v.dims[:i], *v.dims[i + 1 :]), "s32")


def normed(c: Chain, v: Value) -> Value:
    """Normalise along axes: softmax or a norm."""
    floats(v)
    i = c.axis(v)
    k = c.spelled(v, i)
    kinds = ["softmax", "log_softmax", "layer_norm", "rms_norm", "layer_norm2"]
    kinds += ["batch_norm", "group_norm"] * (v.rank >= 3) + ["instance_norm"] * (v.rank >= 3)
    match c.pick(kinds):
        case "layer_norm2" if v.rank >= 2:
            text = f"layer_norm({v.text}, axis=(-2, -1))"
        case "batch_norm" | "instance_norm" as kind:
            text = f"{kind}({v.text})"
        case "group_norm":
            channels = number(v.dims[1])
            groups = c.pick([g for g in range(1, channels + 1) if channels % g == 0])
            text = f"group_norm({v.text}, {groups})"
        case "layer_norm2":
            text = f"layer_norm({v.text})"
        case kind:
            text = f"{kind}({v.text}, axis={k})"
    return replace(v, text=text, rough=True, dtype="f32" if v.dtype == "f32" else v.dtype)


def scanned(c: Chain, v: Value) -> Value:
    """Compute running sums or products along an axis."""
    i = c.axis(v)
    options = "".join(f", {o}=on" for o in ("reverse", "exclusive") if c.chance(0.3))
    kind = "cumsum"
    if v.dtype != "s32":
        floats(v)
        kind = c.pick(("cumsum", "cumsum", "cumprod"))
    inner = f"tanh({v.text})" if kind == "cumprod" else v.text
    return replace(v, text=f"{kind}({inner}, axis={c.spelled(v, i)}{options})", rough=v.dtype != "s32")


def ordered(c: Chain, v: Value) -> Value:
    """Sort along an axis, or take its largest elements or their order."""
    floats(v)
    i = c.axis(v)
    k, n = c.spelled(v, i), v.dims[i]
    match c.pick(("sort", "topk", "argsort")):
        case "sort":
            return replace(v, text=f"sort({v.text}, axis={k}, descending={c.pick(('on', 'off'))})")
        case "topk" if isinstance(n, int):
            most = c.rng.randint(1, n)
            return _grown(v, f"topk({v.text}, {most}, axis={k})", i, most)
        case _:
            needs(not v.rough)
            return replace(v, text=f"argsort({v.text}, axis={k})", dtype="s32")


def ranked(c: Chain, v: Value) -> Value:
    """Order elements or rows by other values, by ranks, or spread rows to their ranks."""
    floats(v)
    i = c.axis(v)
    k, n = c.spelled(v, i), v.dims[i]
    if i == 0 and c.chance(0.5):
        keys = c.param((n,))
        if v.rank >= 2 and c.chance(0.5):
            return replace(v, text=f"scatter({v.text}, argsort({keys.text}), {n})")
        return replace(v, text=f"gather({v.text}, argsort({keys.text}))")
    keys = c.param(v.dims)
    order = f"argsort({keys.text}, axis={k}, descending={c.pick(('on', 'off'))})"
    if c.chance(0.3):
        return Value(f"cast(argsort({order}, axis={k}), f32)", v.dims)
    return replace(v, text=f"take_along({v.text}, {order}, axis={i})")


def sorted_(c: Chain, v: Value) -> Value:
    """Sort along an axis."""
    floats(v)
    return replace(v, text=f"sort({v.text}, axis={c.spelled(v, c.axis(v))})")


# Picks


def gathered(c: Chain, v: Value) -> Value:
    """Gather rows by an index tensor."""
    in_memory(v)
    needs(v.rank >= 1)
    rows = c.param(c.dims(c.pick((1, 1, 2))), "s32", " ", stem="r")
    made = replace(v, text=f"gather({v.text}, {rows.text})", dims=(*rows.dims, *v.dims[1:]))
    needs(made.count <= LARGEST and made.rank <= 5)
    return made


def scattered(c: Chain, v: Value) -> Value:
    """Scatter rows to the row numbers of an index tensor."""
    in_memory(v)
    needs(v.rank >= 2)
    rows = c.param(v.dims[:1], "s32", " ", stem="r")
    return _grown(v, f"scatter({v.text}, {rows.text}, {(to := plus(v.dims[0], c.rng.randint(0, 4)))})", 0, to)


def taken(c: Chain, v: Value) -> Value:
    """Take elements along an axis by an index tensor (`take_along`)."""
    in_memory(v)
    i = c.axis(v)
    count = c.extent()
    dims = (*v.dims[:i], count, *v.dims[i + 1 :])
    made = _grown(v, "", i, count)
    index = c.param(dims, "s32", " ", stem="r")
    return replace(made, text=f"take_along({v.text}, {index.text}, axis={i})")
