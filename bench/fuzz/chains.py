"""Random chains of operations on whole tensors of small extents, in any order."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from bench.fuzz.drawing import (
    LARGEST,
    NAMES,
    Chain,
    Dim,
    Unfit,
    Value,
    extent,
    floats,
    needs,
    number,
    plus,
    times,
    tupled,
)

Operation = Callable[[Chain, Value], Value]
"""An operation applied to a value, which raises Unfit where it does not fit."""


# Elements

SMOOTH = (
    *("relu({})", "abs({})", "tanh({})", "sigmoid({})", "(-{})", "silu({})", "gelu({})", "softplus({})"),
    *("clamp({}, -1, 2)", "leaky_relu({}, slope=0.2)", "(2 * {})", "({} + 0.5)", "(1 - {})", "sin({})"),
    *("exp(min({}, 2))", "sqrt(abs({}) + 1)", "({} / 3)", "max({}, 0.25)", "where({0} > 9, 0, {0})"),
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
    """Join a value with another one, which may be repeated along axes."""
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
    """Select by numbers of elements."""
    floats(v)
    i = c.axis(v)
    shape, other = tupled(v.dims), c.other(v.dims)
    condition = c.pick(("{} < 2", "{} % 2 == 0", "{} >= 1", "{} == 0")).format(f"iota({shape}, axis={i})")
    return Value(f"where({condition}, {v.text}, {other.text})", v.dims, "f32", v.rough or other.rough)


def cast(c: Chain, v: Value) -> Value:
    floats(v)
    to = c.pick(("bf16", "f16", "f32"))
    return replace(v, text=f"cast({v.text}, {to})", dtype=to)


def dropped(c: Chain, v: Value) -> Value:
    """Drop elements by random numbers, or add random numbers."""
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
    needs(v.rank >= 2)
    if c.chance(0.4):
        return replace(v, text=f"{v.text}.T", dims=(*v.dims[:-2], v.dims[-1], v.dims[-2]))
    order = c.rng.sample(range(v.rank), v.rank)
    return replace(v, text=f"permute({v.text}, {tupled(order)})", dims=tuple(v.dims[i] for i in order))


def reshaped(c: Chain, v: Value) -> Value:
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
    dims = [c.extent() if d == 1 and c.chance(0.7) else d for d in v.dims]
    if c.chance(0.5):
        dims.insert(0, c.extent())
    made = replace(v, text=f"broadcast({v.text}, {tupled(dims)})", dims=tuple(dims))
    needs(made.count <= LARGEST and made.rank <= 5 and dims != list(v.dims))
    return made


# Along axes


def reduced(c: Chain, v: Value) -> Value:
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
    """The number of the largest element, of values that do not change in their last digit."""
    floats(v)
    needs(not v.rough)
    i = c.axis(v)
    text = f"{c.pick(('argmax', 'argmin'))}({v.text}, axis={c.spelled(v, i)})"
    return Value(text, (*v.dims[:i], *v.dims[i + 1 :]), "s32")


def normed(c: Chain, v: Value) -> Value:
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
    i = c.axis(v)
    options = "".join(f", {o}=on" for o in ("reverse", "exclusive") if c.chance(0.3))
    kind = "cumsum"
    if v.dtype != "s32":
        floats(v)
        kind = c.pick(("cumsum", "cumsum", "cumprod"))
    inner = f"tanh({v.text})" if kind == "cumprod" else v.text
    return replace(v, text=f"{kind}({inner}, axis={c.spelled(v, i)}{options})", rough=v.dtype != "s32")


def ordered(c: Chain, v: Value) -> Value:
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


def sorted_(c: Chain, v: Value) -> Value:
    """Sort along an axis."""
    floats(v)
    return replace(v, text=f"sort({v.text}, axis={c.spelled(v, c.axis(v))})")


# Picks


def gathered(c: Chain, v: Value) -> Value:
    floats(v)
    needs(v.rank >= 1)
    rows = c.param(c.dims(c.pick((1, 1, 2))), "s32", " ", stem="r")
    made = replace(v, text=f"gather({v.text}, {rows.text})", dims=(*rows.dims, *v.dims[1:]))
    needs(made.count <= LARGEST and made.rank <= 5)
    return made


def scattered(c: Chain, v: Value) -> Value:
    floats(v)
    needs(v.rank >= 2)
    rows = c.param(v.dims[:1], "s32", " ", stem="r")
    return _grown(v, f"scatter({v.text}, {rows.text}, {(to := plus(v.dims[0], c.rng.randint(0, 4)))})", 0, to)


def taken(c: Chain, v: Value) -> Value:
    floats(v)
    i = c.axis(v)
    count = c.extent()
    dims = (*v.dims[:i], count, *v.dims[i + 1 :])
    made = _grown(v, "", i, count)
    index = c.param(dims, "s32", " ", stem="r")
    return replace(made, text=f"take_along({v.text}, {index.text}, axis={i})")


# Products


def multiplied(c: Chain, v: Value) -> Value:
    floats(v)
    needs(v.rank >= 2)
    inner, n = v.dims[-1], c.extent()
    batch = v.dims[:-2] if c.chance(0.3) else ()
    b = c.other((*batch, inner, n), v.dtype)
    left, right, dims = v.text, b.text, (*v.dims[:-1], n)
    if c.chance(0.2):
        a = c.other((*batch, n, v.dims[-2]), v.dtype)
        left, right, dims = a.text, v.text, (*v.dims[:-2], n, v.dims[-1])
    needs(prod(map(extent, dims)) <= LARGEST)
    text = f"({left} @ {right})"
    if v.dtype == "f32" and c.chance(0.3):
        text = f"matmul({left}, {right}, compute={c.pick(('f32', 'tf32', 'tf32x3'))})"
    return Value(text, dims, v.dtype, True)


def outer(c: Chain, v: Value) -> Value:
    """A sum of products written as such."""
    floats(v)
    needs(v.rank == 2)
    n = c.extent()
    b = c.other((v.dims[1], n))
    needs(v.count * extent(n) <= LARGEST)
    kind = c.pick(("sum", "mean"))
    return Value(f"{kind}({v.text}[:, :, None] * {b.text}[None, :, :], axis=1)", (v.dims[0], n), "f32", True)


def grouped(c: Chain, v: Value) -> Value:
    floats(v)
    needs(v.rank == 2)
    groups, n = c.pick((1, 2, 3, "K")), c.extent()
    w = c.other((groups, v.dims[1], n), v.dtype)
    o = c.param((groups,), "s32", " ", stem="o")
    more = ""
    if c.chance(0.3):
        more += f", scale={c.param((groups,)).text}"
    if c.chance(0.3):
        more += f", bias={c.param((groups, n), v.dtype).text}"
    return Value(f"grouped_matmul({v.text}, {w.text}, {o.text}{more})", (v.dims[0], n), v.dtype, True)


def narrow(c: Chain, v: Value) -> Value:
    """A product with weights of few bits, or with zeros in a pattern."""
    needs(v.rank == 2 and v.dtype in ("bf16", "f16"))
    k, n = number(v.dims[1]), c.extent()
    kind = c.pick(("s8", "u8", "s4", "u4", "sparse", "scaled"))
    if kind == "sparse":
        needs(k % 16 == 0)
        w = c.param((n, k), v.dtype, " sparse")
        text = f"({v.text} @ {w.text}.T)"
    elif kind == "scaled":
        needs(k % 2 == 0)
        w = c.param((n, k), c.pick(("s8", "s4", "u4")), " ")
        s = c.param((n, k // c.pick((1, 2))), v.dtype)
        text = f"({v.text} @ dequantize({w.text}, {s.text}).T)"
    else:
        needs(kind in ("s8", "u8") or k % 2 == 0)
        w = c.param((n, k), kind, " ")
        text = f"({v.text} @ {w.text}.T)"
    return Value(text, (v.dims[0], n), v.dtype, True)


def attended(c: Chain, v: Value) -> Value:
    floats(v)
    needs(v.rank >= 2)
    keys = c.pick((1, 3, 5, 8, "K"))
    wide = c.extent() if c.chance(0.3) else v.dims[-1]
    lead = v.dims[:-2]
    if lead and c.chance(0.3):
        lead = (*lead[:-1], 1)
    k, w = c.other((*lead, keys, v.dims[-1]), v.dtype), c.other((*lead, keys, wide), v.dtype)
    more = ""
    match c.pick(("", "", "causal", "mask", "keep", "scale")):
        case "causal":
            more = ", causal=on"
        case "mask":
            more = f", mask={c.other((*v.dims[:-2], v.dims[-2], keys)).text}"
        case "keep":
            shape = tupled((v.dims[-2], keys))
            more = f", mask=iota({shape}, axis=1) <= iota({shape}, axis=0) + 1"
        case "scale":
            more = ", scale=0.5"
        case _:
            pass
    needs(prod(map(extent, v.dims[:-1])) * max(extent(keys), extent(wide)) <= LARGEST)
    if c.chance(0.2):
        return Value(f"attention_logsumexp({v.text}, {k.text}{more})", v.dims[:-1], "f32", True)
    return Value(f"attention({v.text}, {k.text}, {w.text}{more})", (*v.dims[:-1], wide), v.dtype, True)


# Windows


def spatial(v: Value) -> list[int]:
    needs(3 <= v.rank <= 5)
    floats(v)
    found = [d for d in v.dims[2:] if isinstance(d, int)]
    needs(len(found) == v.rank - 2)
    return found


def convolved(c: Chain, v: Value) -> Value:
    extents = spatial(v)
    channels = number(v.dims[1])
    groups = c.pick([g for g in range(1, channels + 1) if channels % g == 0]) if c.chance(0.3) else 1
    outputs = groups * c.pick((1, 2, 3, 4, 8))
    size = [c.rng.randint(1, 3) for _ in extents]
    stride, dilation = [c.pick((1, 1, 2, 3)) for _ in extents], [c.pick((1, 1, 2)) for _ in extents]
    pad = [c.pick((0, 0, 1, 2)) for _ in extents]
    options = f", stride={tupled(stride)}, pad={tupled(pad)}, dilation={tupled(dilation)}, groups={groups}"
    if c.chance(0.3):
        w = c.other((channels, outputs // groups, *size), v.dtype)
        found = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(extents, stride, pad, dilation, size, strict=True)
        ]
        text = f"conv_transpose({v.text}, {w.text}{options})"
    else:
        w = c.other((outputs, channels // groups, *size), v.dtype)
        found = [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, s, p, d, k in zip(extents, stride, pad, dilation, size, strict=True)
        ]
        text = f"conv({v.text}, {w.text}{options})"
    made = Value(text, (v.dims[0], outputs, *found), v.dtype, True)
    needs(min(found) >= 1 and made.count <= LARGEST)
    return made


def pooled(c: Chain, v: Value) -> Value:
    extents = spatial(v)
    size = [c.rng.randint(1, min(3, n)) for n in extents]
    stride = size if c.chance(0.5) else [c.rng.randint(1, 3) for _ in extents]
    pad = [c.rng.randint(0, k // 2) if c.chance(0.3) else 0 for k in size]
    options = f", {tupled(size)}, stride={tupled(stride)}, pad={tupled(pad)}"
    if c.chance(0.5):
        text = f"max_pool({v.text}{options})"
    else:
        text = f"avg_pool({v.text}{options}{', count_pad=off' if c.chance(0.3) else ''})"
    found = [(n + 2 * p - k) // s + 1 for n, k, s, p in zip(extents, size, stride, pad, strict=True)]
    needs(min(found) >= 1)
    return replace(v, text=text, dims=(*v.dims[:2], *found), rough=v.rough or "avg" in text)


OPERATIONS: dict[Operation, int] = {
    element: 5,
    pointwise: 5,
    chosen: 2,
    cast: 2,
    dropped: 1,
    permuted: 3,
    reshaped: 4,
    indexed: 4,
    moved: 5,
    broadcast: 3,
    reduced: 5,
    extreme: 1,
    normed: 3,
    scanned: 2,
    ordered: 2,
    gathered: 2,
    scattered: 2,
    taken: 2,
    multiplied: 5,
    outer: 1,
    grouped: 2,
    narrow: 2,
    attended: 3,
    convolved: 5,
    pooled: 4,
}


EXACT = (
    *(pointwise, chosen, dropped, permuted, reshaped, indexed, moved, broadcast),
    *(scanned, gathered, scattered, taken, pooled, smooth, summed, sorted_),
)
"""Operations that round nothing but sums in f32."""

UNROUNDED = "// rounds nothing\n"
"""The first line of programs of 16 bits that round nothing, and have results in f32."""


def chain(seed: str, rounds: bool = True) -> str:
    """Draw the text of a program of 1 to 9 operations."""
    c = Chain(random.Random(seed), rounds)
    weights = OPERATIONS if rounds else dict.fromkeys(EXACT, 1)
    operations = [o for o, weight in weights.items() for _ in range(weight)]
    dtype = c.pick(("f32", "f32", "f32", "bf16", "f16", "s32") if rounds else ("bf16", "f16"))
    v = c.param(c.dims(c.pick((1, 2, 2, 2, 3, 3, 4, 4, 5))), dtype)
    c.values.append(v)
    done, wanted = 0, c.rng.randint(1, 9)
    while done < wanted:
        start = v if c.chance(0.8) else c.pick(c.values)
        before = len(c.params)
        try:
            made = c.pick(operations)(c, start)
        except Unfit:
            del c.params[before:]
            continue
        done += 1
        v = c.named(made) if c.chance(0.8) else made
        c.values.append(v)
    results = [v, *(c.pick(c.values[1:]) for _ in range(c.pick((0, 0, 0, 1, 2))))]
    return written(c, results)


def written(c: Chain, results: Sequence[Value]) -> str:
    wide = [(r, r.dtype if r.dtype == "s32" else "f32") for r in results]
    stored = [(r, c.pick((wide, r.dtype))) for r, wide in wide] if c.rounds else wide
    types = [f"{dtype}[{', '.join(map(str, r.dims))}]" for r, dtype in stored]
    to = types[0] if len(types) == 1 else f"({', '.join(f'y{i}: {t}' for i, t in enumerate(types))})"
    used = " ".join((*c.params, *c.lines, *types)).replace("None", "")
    names = [n for n in NAMES if n in used]
    plain = {d for p in c.params for d in p.partition("[")[2].partition("]")[0].split(", ")}
    known = [f"{n.lower()}: f32[{n}]" for n in names if n not in plain]
    declared = ", ".join([*c.params, *known])
    opened = f"[{', '.join(names)}]" if names else ""
    head = f"kernel f{opened}({declared}) -> {to} {{"
    lines = [*c.lines, f"return {', '.join(r.text for r in results)}"]
    return ("" if c.rounds else UNROUNDED) + "\n".join([head, *(f"    {line}" for line in lines), "}\n"])
