"""Operations of random chains on bools: comparisons, logic, choices, and masks by moved conditions."""

from __future__ import annotations

from dataclasses import replace

from bench.fuzz.drawing import Chain, Value, floats, needs, tupled

RELATIONS = ("<", "<=", ">", ">=", "==", "!=")


def compared(c: Chain, v: Value) -> Value:
    """Compare a value with a number, with another value, or with numbers of elements."""
    needs(v.dtype != "bool" and not v.rough)
    relation = c.pick(RELATIONS)
    match c.pick(("number", "number", "value", "index")):
        case "value":
            other = c.other(v.dims[c.rng.randint(0, v.rank) :], v.dtype if v.dtype != "u8" else "f32")
            needs(not other.rough)
            text = other.text
        case "index" if v.rank:
            text = f"iota({tupled(v.dims)}, axis={c.rng.randrange(v.rank)})"
        case _:
            text = str(c.pick((0, 1, -1) if v.dtype not in ("f32", "bf16", "f16") else (0, 0.5, -1.25)))
    pair = (v.text, text) if c.chance(0.7) else (text, v.text)
    return Value(f"({pair[0]} {relation} {pair[1]})", v.dims, "bool")


def combined(c: Chain, v: Value) -> Value:
    """Negate a condition, or combine or compare it with another one, which may be broadcast."""
    _is_bool(v)
    if c.chance(0.3):
        return replace(v, text=f"(not {v.text})")
    other = c.other(tuple(1 if c.chance(0.2) else d for d in v.dims), "bool")
    pair = (v.text, other.text) if c.chance(0.5) else (other.text, v.text)
    return replace(v, text=f"({pair[0]} {c.pick(('and', 'or', '==', '!='))} {pair[1]})")


def selecting(c: Chain, v: Value) -> Value:
    """Select between two values by a condition: tensors, broadcast ones, numbers, or conditions."""
    _is_bool(v)
    dtype = c.pick(("f32", "f32", "bf16", "s32", "bool"))
    sides: list[Value] = []
    for _ in range(2):
        dims = c.pick((v.dims, v.dims, v.dims[c.rng.randint(0, v.rank) :]))
        other = c.other(dims, dtype)
        if c.chance(0.3) and dtype != "bool":
            other = Value(str(c.pick((0, 1, -9))), (), dtype)
        sides.append(other)
    a, b = sides
    needs(v.dims in (a.dims, b.dims) or v.rank)
    made = "f32" if dtype == "bf16" and not (a.dims and b.dims) else dtype
    return Value(f"where({v.text}, {a.text}, {b.text})", v.dims, made, a.rough or b.rough)


def masking(c: Chain, v: Value) -> Value:
    """Keep the elements of a value where a condition of fewer axes holds, others become a number."""
    floats(v)
    dims = v.dims[c.rng.randint(0, v.rank) :]
    other = c.other(dims, "bool")
    return replace(v, text=f"where({other.text}, {v.text}, {c.pick((0, -1.5))})", rough=v.rough)


def all_or_any(c: Chain, v: Value) -> Value:
    """Reduce a condition by `any` or `all` to a condition."""
    _is_bool(v)
    i = c.axis(v)
    axes = sorted({i, c.axis(v)} if c.chance(0.3) else {i})
    kept = c.chance(0.5)
    text = f"{c.pick(('any', 'all'))}({v.text}, axis={tupled(axes)}{', keepdims=on' if kept else ''})"
    return replace(
        v, text=text, dims=tuple(1 if a in axes else d for a, d in enumerate(v.dims) if kept or a not in axes)
    )


def as_number(c: Chain, v: Value) -> Value:
    """Cast a condition to numbers."""
    _is_bool(v)
    to = c.pick(("f32", "f32", "bf16", "s32", "s8", "u8"))
    return replace(v, text=f"cast({v.text}, {to})", dtype=to)


def _is_bool(v: Value) -> None:
    needs(v.dtype == "bool")
