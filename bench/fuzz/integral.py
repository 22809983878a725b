"""Operations of random chains on integers of 8 and 32 bits, their bits, and their order."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from bench.fuzz.drawing import Chain, Value, needs, tupled

INTEGERS = ("s32", "s8", "u8")


def bits(c: Chain, v: Value) -> Value:
    """Apply a function of bits to integers of any dtype, with a number or with other integers."""
    _whole(v)
    function = c.pick(
        ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "bitwise_not")
    )
    if function == "bitwise_not":
        return Value(f"bitwise_not({v.text})", v.dims, "s32")
    if c.chance(0.5):
        other = Value(str(c.pick((0, 1, 3, 31, 32, 255))), ())
    else:
        other = c.other(tuple(1 if c.chance(0.3) else d for d in v.dims), c.pick(INTEGERS))
    return Value(f"{function}({v.text}, {other.text})", v.dims, "s32")


def arithmetic(c: Chain, v: Value) -> Value:
    """Apply arithmetic to integers, with a divisor that may be 0, or with integers of another dtype."""
    _whole(v)
    text = c.pick(
        (
            "({} + {})",
            "({} - {})",
            "({} * {})",
            "({} % {})",
            "floor_divide({}, {})",
            "fmod({}, {})",
            "max({}, {})",
            "min({}, {})",
        )
    )
    if c.chance(0.4):
        other = Value(str(c.pick((0, 1, -2, 3, 7, 2147483647))), (), "s32")
    else:
        other = c.other(tuple(1 if c.chance(0.3) else d for d in v.dims), c.pick(("s32", "s32", v.dtype)))
    whole = "s32" in (v.dtype, other.dtype) and (v.dtype == "s32" or bool(other.dims))
    needs(whole or text.startswith("("))
    needs(whole or "%" not in text)
    pair = (v.text, other.text) if c.chance(0.7) or not other.dims else (other.text, v.text)
    return Value(text.format(*pair), v.dims, "s32" if whole else "f32")


def whole_element(c: Chain, v: Value) -> Value:
    """Apply a function of one value that keeps integers whole."""
    needs(v.dtype == "s32")
    text = c.pick(
        (
            "(-{})",
            "abs({})",
            "sign({})",
            "relu({})",
            "clamp({}, -3, 4)",
            "floor({})",
            "round({})",
            "trunc({})",
            "ceil({})",
        )
    )
    return replace(v, text=text.format(v.text))


def counted_up(c: Chain, v: Value) -> Value:
    """Reduce integers over axes, or find the place of an extreme one."""
    _whole(v)
    i = c.axis(v)
    kind = c.pick(("sum", "max", "min", "amax", "prod", "mean", "var", "argmax", "argmin"))
    axes = sorted({i, c.axis(v)} if c.chance(0.3) and not kind.startswith("arg") else {i})
    n = prod(v.sizes[a] for a in axes)
    needs(kind not in ("prod", "var") or 1 < n <= 4)
    kept = c.chance(0.4)
    axis = tupled(axes) if len(axes) > 1 else c.spelled(v, i)
    text = f"{kind}({v.text}, axis={axis}{', keepdims=on' if kept else ''})"
    dims = tuple(1 if a in axes else d for a, d in enumerate(v.dims) if kept or a not in axes)
    whole = kind.startswith("arg") or (v.dtype == "s32" and kind not in ("mean", "var"))
    return Value(text, dims, "s32" if whole else "f32", not whole)


def put_in_order(c: Chain, v: Value) -> Value:
    """Sort integers, or values with their places: both results of one order."""
    needs(v.dtype != "bool" and not v.rough)
    i = c.axis(v)
    k, n = c.spelled(v, i), v.dims[i]
    down = f", descending={c.pick(('on', 'off'))}"
    if isinstance(n, int) and c.chance(0.4):
        most = c.rng.randint(1, n)
        dims = (*v.dims[:i], most, *v.dims[i + 1 :])
        values, places = f"topk({v.text}, {most}, axis={k})", f"argtopk({v.text}, {most}, axis={k})"
    else:
        dims = v.dims
        values, places = f"sort({v.text}, axis={k}{down})", f"argsort({v.text}, axis={k}{down})"
    match c.pick(("values", "places", "both")):
        case "values":
            dtype = v.dtype if v.dtype not in ("e4m3", "e5m2") else "f32"
            return Value(values, dims, dtype)
        case "places":
            return Value(places, dims, "s32")
        case _:
            return Value(f"({values} * cast({places}, f32))", dims, "f32")


def running(c: Chain, v: Value) -> Value:
    """Compute running sums or products of integers."""
    _whole(v)
    i = c.axis(v)
    options = "".join(f", {o}=on" for o in ("reverse", "exclusive") if c.chance(0.4))
    kind = c.pick(("cumsum", "cumsum", "cumprod"))
    return Value(f"{kind}({v.text}, axis={c.spelled(v, i)}{options})", v.dims, "s32")


def _whole(v: Value) -> None:
    needs(v.dtype in INTEGERS)
