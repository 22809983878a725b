"""Operations of random chains on scalars, on dims as numbers, and on slices with bounds of open dims."""

from __future__ import annotations

import re
from dataclasses import replace

from bench.fuzz.drawing import NAMES, Chain, Dim, Value, floats, needs, plus, tupled


def scaled(c: Chain, v: Value) -> Value:
    """Combine a value with a scalar that is passed by value, or with a tensor of one number."""
    floats(v)
    text = c.pick(
        ("({} * {})", "({} + {})", "max({}, {})", "clamp({}, -{}, 1.5)", "where({1} > 0.6, {0}, -{0})")
    )
    return replace(v, text=text.format(v.text, scalar(c)))


def scalar(c: Chain) -> str:
    """Return a parameter that holds one number."""
    name = c.name("p")
    c.params.append(f"{name}: {c.pick(('f32', 'f32[]'))}")
    return name


def measured(c: Chain, v: Value) -> Value:
    """Use the extent of an axis as a number: to divide by, to compare with, to count from."""
    names = sorted({n for d in v.dims for n in re.findall(r"[A-Z]", str(d))} & set(NAMES))
    needs(names)
    n = c.pick(names)
    i = c.axis(v)
    index = f"iota({tupled(v.dims)}, axis={i})"
    if v.dtype == "s32":
        text = c.pick(
            (
                f"({v.text} + {n})",
                f"({v.text} % {n})",
                f"({index} * {n} - {v.text})",
                f"({v.text} + 2 * {n} - 1)",
            )
        )
        return replace(v, text=text)
    floats(v)
    text = c.pick(
        (
            f"({v.text} / {n})",
            f"({v.text} * ({n} - 1))",
            f"where({index} < {n} - 1, {v.text}, 0)",
            f"where({index} * 2 >= {n}, {v.text}, -1)",
            f"({v.text} + cast({index} % {n}, f32))",
        )
    )
    return replace(v, text=text, dtype="f32" if "cast" in text or "where" in text else v.dtype)


def bounded_slice(c: Chain, v: Value) -> Value:
    """Slice an axis of an open extent, with bounds that follow from dims."""
    i = c.axis(v)
    needs(isinstance(v.dims[i], str))
    dim = str(v.dims[i])
    names = sorted(set(re.findall(r"[A-Z]", dim)) & set(NAMES))
    n = c.pick(names)
    options: list[tuple[str, Dim]] = [("::-1", dim), ("-1:", 1), (":1", 1)]
    if dim == f"2*{n}":
        options += [
            (f":{n}", n),
            (f"{n}:", n),
            (f"{n}:2*{n}", n),
            ("::2", n),
            ("1::2", n),
            (f":{n}][::-1", n),
        ]
    if dim == f"{n}+1" or dim == f"1+{n}":
        options += [("1:", n), (":-1", n), (f":{n}", n), (f"1:{n}+1", n)]
    if "+" in dim and not dim.startswith("1") and not dim.endswith("1") and len(names) == 2:
        other = names[1] if n == names[0] else names[0]
        options += [(f":{n}", n), (f"{n}:", other)]
    text, left = c.pick(options)
    head = ", ".join((*(":" for _ in range(i)), text.partition("][")[0]))
    tail = ", ".join((*(":" for _ in range(i)), text.partition("][")[2]))
    words = f"{v.text}[{head}]" + (f"[{tail}]" if "][" in text else "")
    return replace(v, text=words, dims=(*v.dims[:i], left, *v.dims[i + 1 :]))


def joined_rest(c: Chain, v: Value) -> Value:
    """Join the parts of an axis in another order."""
    i = c.axis(v)
    n = v.dims[i]
    needs(isinstance(n, int) and n > 1)
    assert isinstance(n, int)
    at = c.rng.randrange(1, n)
    colons = ", ".join([":"] * i) + (", " if i else "")
    front, back = f"{v.text}[{colons}:{at}]", f"{v.text}[{colons}{at}:]"
    if v.dtype in ("f32", "bf16", "f16") and c.chance(0.4):
        front = f"(-{front})"
    return replace(
        v, text=f"concat({back}, {front}, axis={i})", dims=(*v.dims[:i], plus(n), *v.dims[i + 1 :])
    )
