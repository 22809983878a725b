"""Attention in random chains, with its options: masks of any form, sinks, shared heads, log-sum-exps."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from bench.fuzz.drawing import LARGEST, Chain, Dim, Value, extent, floats, needs, times, tupled


def optioned(c: Chain, v: Value) -> Value:
    """Attend with drawn options, and at times scale by a function of the log-sum-exp of the same scores."""
    floats(v)
    needs(v.rank >= 2)
    keys: Dim = c.pick((1, 3, 5, 8, "K", "2*K", v.dims[-2]))
    lead = v.dims[:-2]
    shared = (*lead[:-1], 1) if lead and c.chance(0.4) else lead
    wide = c.extent() if c.chance(0.2) else v.dims[-1]
    needs(prod(map(extent, v.dims[:-1])) * max(extent(keys), extent(wide)) <= LARGEST)
    k, w = c.other((*shared, keys, v.dims[-1]), v.dtype), c.other((*shared, keys, wide), v.dtype)
    options = ""
    if c.chance(0.7):
        options += f", mask={mask(c, (*lead, v.dims[-2], keys))}"
    if c.chance(0.3):
        options += ", causal=on"
    if c.chance(0.3):
        options += f", scale={c.pick((0.5, 1, 0.125))}"
    sinks = ""
    if lead and c.chance(0.2):
        sinks = f", sinks={c.param(lead[-c.rng.randint(1, len(lead)) :]).text}"
    text = f"attention({v.text}, {k.text}, {w.text}{options}{sinks})"
    if c.chance(0.25):
        total = f"attention_logsumexp({v.text}, {k.text}{options})[..., None]"
        return Value(f"({text} * sigmoid({total}))", (*v.dims[:-1], wide), "f32", True)
    return Value(text, (*v.dims[:-1], wide), v.dtype, True)


def paged(c: Chain, v: Value) -> Value:
    """Attend to keys and values in pages, with a mask or a function of scores."""
    floats(v)
    needs(v.rank in (4, 5))
    if v.dtype == "f32":
        v = replace(v, text=f"cast({v.text}, bf16)", dtype="bf16")
    batch, heads, *_, rows, wide = v.dims
    page, count, pages = c.pick((16, 16, 32, 8)), c.pick((1, 1, 2, "N")), c.pick((1, 3, "M"))
    keys = times(count, page)
    needs(prod(map(extent, (batch, heads, keys, wide))) <= LARGEST)
    needs(prod(map(extent, v.dims[:-1])) * extent(keys) <= LARGEST)
    table = c.param((batch, count), "s32", " ", stem="t")

    def read() -> str:
        pool = c.param((pages, page, heads, wide), v.dtype, " ", stem="p")
        gathered = f"reshape(gather({pool.text}, {table.text}), {tupled((batch, keys, heads, wide))})"
        return f"permute({gathered}, (0, 2, 1, 3)){'[:, :, None]' if v.rank == 5 else ''}"

    k, w = read(), read()
    if c.chance(0.4):
        more = f", mask={mask(c, (*v.dims[:-1], keys))}" if c.chance(0.7) else ""
        return Value(f"attention({v.text}, {k}, {w}{more})", v.dims, v.dtype, True)
    scores = c.pick(("{}", "{} * 0.5", "tanh({}) * 4", "where({seen}, tanh({}), {hidden})")).format(
        f"({v.text} @ {k}.T)",
        seen=f"iota({tupled((rows, keys))}, axis=1) <= iota({tupled((rows, keys))}, axis=0) + 3",
        hidden=c.pick(("-inf", "-9")),
    )
    weights = c.pick(("softmax", "softmax", "sigmoid"))
    return Value(f"(cast({weights}({scores}), {v.dtype}) @ {w})", v.dims, v.dtype, True)


def mask(c: Chain, scores: tuple[Dim, ...]) -> str:
    """Return a mask of bools or numbers of all axes of the scores, or of some."""
    dims = tuple(1 if c.chance(0.25) else d for d in scores[c.rng.randint(0, len(scores) - 2) :])
    shape = tupled(scores[-2:])
    i, j = f"iota({shape}, axis=0)", f"iota({shape}, axis=1)"
    numbers = c.pick(("slope", "numbers", "bools", "bools", "window", "prefix", "labels", "length", "chosen"))
    match numbers:
        case "slope":
            return f"where({j} <= {i}, cast({j} - {i}, f32) * {c.pick((0.5, 2))}, {c.pick(('-inf', '-9'))})"
        case "numbers":
            return c.other(dims).text
        case "window":
            return f"{i} - {j} < {c.pick((1, 2, 5))}{c.pick((f' and {j} <= {i}', ''))}"
        case "prefix":
            return f"{j} <= {i} or {j} < {c.pick((1, 2))}"
        case "labels":
            a = c.param((scores[-2],), "s32", stem="l").text
            b = c.param((scores[-1],), "s32", stem="l").text
            return f"{a}[:, None] == {b}"
        case "length" if len(scores) >= 3:
            n = c.param((scores[-3],), "s32", stem="n").text
            return f"{j} < {n}[:, None, None]"
        case "chosen":
            keep = c.other(dims, "bool").text
            return f"where({keep}, {c.pick((0, 0.5))}, {c.pick(('-inf', '-9'))})"
        case _:
            return c.other(dims, "bool").text


def gradients(c: Chain, v: Value) -> Value:
    """Compute the gradient of an operand of attention, with the gradient of its result as a parameter."""
    floats(v)
    needs(v.rank >= 2)
    lead, keys = v.dims[:-2], c.pick((1, 3, 5, 8, "K"))
    needs(prod(map(extent, v.dims[:-1])) * max(extent(keys), extent(v.dims[-1])) <= LARGEST)
    k, w = (c.other((*lead, keys, v.dims[-1]), v.dtype) for _ in "kv")
    numbers = (*lead, v.dims[-2], keys)
    of = c.pick(("dq", "dk", "dv", "dmask"))
    options = f", mask={c.other(numbers).text}" if of == "dmask" or c.chance(0.3) else ""
    options += ", causal=on" if c.chance(0.3) else ""
    q, y = c.named(v, 0), Value(f"attention({v.text}, {k.text}, {w.text}{options})", v.dims, v.dtype)
    y, total = c.named(y, 0), f"attention_logsumexp({q.text}, {k.text}{options})"
    given = ", ".join((q.text, k.text, w.text, y.text, total, c.other(v.dims, v.dtype).text))
    made = f"attention_{of}({given}{options})"
    dims = v.dims if of == "dq" else numbers if of == "dmask" else k.dims
    return Value(made, dims, "f32" if of == "dmask" else v.dtype, True)
