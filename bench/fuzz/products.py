"""Operations of random chains that multiply and convolve: products, attention, convolutions, pools."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from bench.fuzz.drawing import LARGEST, Chain, Value, extent, floats, needs, number, tupled

# Products


def multiplied(c: Chain, v: Value) -> Value:
    """Multiply by a matrix, from the right or from the left, at times one around an axis of one element."""
    floats(v)
    needs(v.rank >= 2)
    inner, n = v.dims[-1], c.extent()
    batch = v.dims[:-2] if c.chance(0.3) else ()
    if c.chance(0.1):
        w = c.param((n, 1, inner), v.dtype, " ")
        dims = (*(v.dims[:-1] if v.rank >= 3 else (1, v.dims[0])), n)
        needs(prod(map(extent, dims)) <= LARGEST)
        return Value(f"({v.text} @ permute({w.text}, (1, 2, 0)))", dims, v.dtype, True)
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
    """Write a product of matrices as a sum of products of broadcast matrices."""
    floats(v)
    needs(v.rank == 2)
    n = c.extent()
    b = c.other((v.dims[1], n))
    needs(v.count * extent(n) <= LARGEST)
    kind = c.pick(("sum", "mean"))
    return Value(f"{kind}({v.text}[:, :, None] * {b.text}[None, :, :], axis=1)", (v.dims[0], n), "f32", True)


def grouped(c: Chain, v: Value) -> Value:
    """Multiply groups of rows by a matrix each."""
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
    """Multiply by quantised weights, or by 2:4 sparse ones."""
    floats(v)
    needs(v.rank == 2)
    if v.dtype == "f32":
        v = replace(v, text=f"cast({v.text}, bf16)", dtype="bf16")
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
    """Attend to keys and values, or return the log-sum-exp of scores."""
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


def written_out(c: Chain, v: Value) -> Value:
    """Attend as programs write it out: products with a softmax or another function between them."""
    floats(v)
    needs((v.rank >= 2 and v.dtype != "f32") or v.rank >= 3)
    keys = c.pick((1, 3, 5, 8, "K"))
    lead = v.dims[:-2]
    k, w = c.other((*lead, keys, v.dims[-1]), v.dtype), c.other((*lead, keys, v.dims[-1]), v.dtype)
    needs(prod(map(extent, v.dims[:-1])) * extent(keys) <= LARGEST)
    scores = f"({v.text} @ {k.text}.T)"
    shape = tupled((v.dims[-2], keys))
    seen = f"iota({shape}, axis=1) <= iota({shape}, axis=0) + {c.pick((0, 1))}"
    scores = c.pick(
        ("{}", "{} * 0.5", "tanh({}) * 4", "where({seen}, {}, -inf)", "where({seen}, {}, -9)")
    ).format(scores, seen=seen)
    weights = c.pick(("softmax({})", "softmax({})", "sigmoid({})", "relu({})")).format(scores)
    return Value(f"(cast({weights}, {v.dtype}) @ {w.text})", v.dims, v.dtype, True)


def shared(c: Chain, v: Value) -> Value:
    """Attend with key heads that several query heads share, repeated for each (GQA)."""
    floats(v)
    needs(v.rank >= 3)
    heads = number(v.dims[-3])
    each = c.pick([n for n in range(1, heads + 1) if heads % n == 0])
    keys = c.pick((1, 3, 5, 8))
    dims = (*v.dims[:-3], heads // each, keys, v.dims[-1])
    k, w = c.other(dims, v.dtype), c.other(dims, v.dtype)
    repeated = [f"repeat({x.text}, {each}, axis={v.rank - 3})" for x in (k, w)]
    needs(prod(map(extent, v.dims[:-1])) * keys <= LARGEST)
    more = c.pick(("", ", causal=on"))
    return Value(f"attention({v.text}, {repeated[0]}, {repeated[1]}{more})", v.dims, v.dtype, True)


# Windows


def spatial(v: Value) -> list[int]:
    """Return the extents of 1 to 3 spatial axes. Raises Unfit for other values, or if one is no number."""
    needs(3 <= v.rank <= 5)
    floats(v)
    found = [d for d in v.dims[2:] if isinstance(d, int)]
    needs(len(found) == v.rank - 2)
    return found


def convolved(c: Chain, v: Value) -> Value:
    """Convolve over the axes behind the second, or the transpose of that."""
    extents = spatial(v)
    channels = number(v.dims[1])
    groups = c.pick([g for g in range(1, channels + 1) if channels % g == 0]) if c.chance(0.3) else 1
    outputs = groups * c.pick((1, 2, 3, 4, 8))
    size = [c.rng.randint(1, 3) for _ in extents]
    stride, dilation = [c.pick((1, 1, 2, 3)) for _ in extents], [c.pick((1, 1, 2)) for _ in extents]
    pad = [c.pick((0, 0, 1, 2)) for _ in extents]
    options = f", stride={tupled(stride)}, pad={tupled(pad)}, dilation={tupled(dilation)}, groups={groups}"
    if v.dtype == "f32" and c.chance(0.3):
        options += f", compute={c.pick(('f32', 'tf32', 'tf32x3'))}"
    if c.chance(0.3):
        w = c.other((channels, outputs // groups, *size), v.dtype)
        more = [
            c.rng.randrange(max(s, d)) if c.chance(0.3) else 0 for s, d in zip(stride, dilation, strict=True)
        ]
        options += f", output_pad={tupled(more)}"
        found = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1 + m
            for n, s, p, d, k, m in zip(extents, stride, pad, dilation, size, more, strict=True)
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
    """Take the largest element, the mean or a divided sum of each window."""
    extents = spatial(v)
    is_max, is_ceil = c.chance(0.5), c.chance(0.3)
    size = [c.rng.randint(1, 3 if is_ceil else min(3, n)) for n in extents]
    stride = size if c.chance(0.5) else [c.rng.randint(1, 3) for _ in extents]
    pad = [c.rng.randint(0, k // 2) if c.chance(0.3) else 0 for k in size]
    dilation = [c.pick((1, 1, 2)) if is_max and c.chance(0.3) else 1 for _ in size]
    wide = [d * (k - 1) + 1 for k, d in zip(size, dilation, strict=True)]
    options = f", {tupled(size)}, stride={tupled(stride)}, pad={tupled(pad)}{', ceil=on' if is_ceil else ''}"
    if is_max:
        text = f"max_pool({v.text}{options}, dilation={tupled(dilation)})"
    else:
        text = f"avg_pool({v.text}{options}{c.pick(('', '', ', count_pad=off', ', divisor=3'))})"
    found: list[int] = []
    for n, k, s, p in zip(extents, wide, stride, pad, strict=True):
        needs(is_ceil or n + 2 * p >= k)
        count = (n + 2 * p - k + (s - 1 if is_ceil else 0)) // s + 1
        # As in PyTorch, the last window begins within the tensor or its padding in front.
        found.append(count - 1 if is_ceil and (count - 1) * s >= n + p else count)
    needs(min(found) >= 1)
    return replace(v, text=text, dims=(*v.dims[:2], *found), rough=v.rough or not is_max)
